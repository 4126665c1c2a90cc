//! The long life (spec 02, Snapshots) as a command: so many entries through one owner,
//! a line for each look. `cargo bench -p tetrarch-tests --bench life -- 10000000`.

use tetrarch_core::time::Millis;
use tetrarch_tests::life::{Life, Look};

/// Entries when nothing is said.
const ENTRIES: u64 = 10_000_000;
/// Looks in a life.
const LOOKS: u64 = 40;

#[expect(clippy::print_stdout, reason = "the lines are for whoever started it")]
fn show(look: &Look) {
    let Look { entries, at, kept, state, records, memory, disk, restart } = look;
    println!(
        "| {entries} | {} s | {kept} | {state} | {records} | {} MiB | {} MiB | {} ms |",
        at.as_secs(),
        memory / 1024,
        disk / 1024,
        restart.as_millis()
    );
}

#[expect(clippy::print_stdout, reason = "the lines are for whoever started it")]
#[tokio::main]
async fn main() {
    // Cargo adds words of its own.
    let entries = std::env::args().find_map(|word| word.parse().ok()).unwrap_or(ENTRIES);
    let server = tetrarch_tests::server().await;
    let life = Life {
        entries,
        look_every: (entries / LOOKS).max(1),
        snapshot_every: 100_000.min(entries / 10).max(1),
        kept: Millis(10_000),
    };
    println!("| entries | time | kept | STATE | records | memory | disk | restart |");
    println!("|---|---|---|---|---|---|---|---|");
    life.live(&server, show).await;
}
