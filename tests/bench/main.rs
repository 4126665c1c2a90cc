//! The benchmarks of spec 10, each beside its floor: what bare clients on the same machine, in
//! the same run, need for the same chain or the same writes. Absolute times belong to the machine,
//! ratios to the code. It prints a table and checks nothing but that it ran.
#![expect(clippy::unwrap_used, reason = "a benchmark fails by panicking where it went wrong")]

mod admissions;
mod asked;
mod bare;
mod capture;
mod fleet;
mod growth;
mod insights;
mod lead;
mod letters;
mod machine;
mod numbers;
mod page;
mod recovery;
mod requester;
mod spawning;
mod sweeping;
mod table;
mod tree;

use asked::{Args, Effort};

/// The binary's (docs/decisions/0137).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "\
benchmarks beside their floor
  --quick    a smoke run of a few seconds; its numbers mean little
  --write    write docs/benchmarks.md too
  --timeline print when each message of one spawn, or of one tree, was seen
  <word>...  only what is named: spawn, admissions, growth, mail, tree, processes, sweeper; insights; death,
             host-loss, fail-over, bus-restart, up, start, idle (these need the release binary:
             cargo build --release)";

#[expect(clippy::print_stdout, reason = "the table is for whoever started it")]
#[tokio::main]
async fn main() {
    let Some(args) = Args::of(std::env::args().skip(1)) else {
        println!("{USAGE}");
        return;
    };
    let facts = machine::facts().await;
    println!("{facts}");
    for (name, lines) in args.measured().await {
        let table = table::markdown(&lines);
        println!("{table}");
        if args.write {
            page::write(name, &format!("{facts}\n{table}"));
        }
    }
}
