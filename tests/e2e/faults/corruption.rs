//! Bytes of the bus's files change while nothing runs: a bit, a block, or the end of a file. The fleet then either goes
//! on with all that was acknowledged, or it refuses with what to do; what was lost is never passed over in silence.
//! `CORRUPTIONS` says how often (4), `CORRUPTION_SEED` where chance begins (1); each is told on a line that begins
//! `corruption`.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde_json::json;
use tetrarch_tests::dice::Dice;
use tetrarch_tests::{Fleet, agreeing};

use super::block_on;
use super::power::Acknowledged;
use crate::chaos::number;
use crate::storm::run_to_its_end;

/// What a lost sector takes with it, in bytes.
const SECTOR: u64 = 512;

#[test]
fn corrupted_store_goes_on_whole_or_is_refused_with_a_next_step() {
    let first = number("CORRUPTION_SEED", 1);
    for seed in first..first + number("CORRUPTIONS", 4) {
        block_on(corrupt(seed));
    }
}

async fn corrupt(seed: u64) {
    let mut fleet = Fleet::up();
    run_to_its_end(&fleet, "before");
    let control = fleet.control().await;
    let known = Acknowledged::read(&control).await;
    drop(control);
    fleet.stop();
    let store = fleet.data_dir().join("nats/store");
    let done = harm(&store, &mut Dice::new(seed));
    let said = format!("CORRUPTION_SEED={seed} CORRUPTIONS=1: {done}");

    let mut up = fleet.spawn(["up", "--name", "h1"]);
    let comes_up = up.line_or_end(|line| line.starts_with("ready"));
    if !comes_up {
        let ended = up.ended();
        assert_ne!(ended.code, Some(0), "{said}: {}", ended.err);
        let told = ["--accept-ledger", "next:"].iter().any(|word| ended.err.contains(word));
        assert!(told, "{said}: it says nothing to do: {}", ended.err);
        return tell(seed, &done, "refused");
    }
    let control = fleet.control().await;
    Acknowledged::read(&control).await.assert_has(&known, &said);
    agreeing(&control).await;
    fleet.ok(["doctor", "--check-ledger"]);
    run_to_its_end(&fleet, "after");
    tell(seed, &done, "went on");
}

/// Changes some bytes of one file, and says which.
fn harm(store: &Path, dice: &mut Dice) -> String {
    let mut files = Vec::new();
    files_below(store, &mut files);
    files.sort();
    let path = dice.pick(&files).unwrap();
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let length = file.metadata().unwrap().len();
    let at = dice.below(usize::try_from(length).unwrap()) as u64;
    let how = match dice.below(3) {
        0 => {
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            byte[0] ^= 1 << dice.below(8);
            file.write_all_at(&byte, at).unwrap();
            "a bit was turned at"
        }
        1 => {
            let end = (at + SECTOR).min(length);
            let zeros = vec![0; usize::try_from(end - at).unwrap()];
            file.write_all_at(&zeros, at).unwrap();
            "a sector was zeroed at"
        }
        _ => {
            file.set_len(at).unwrap();
            "it was cut short at"
        }
    };
    format!("{}: {how} {at} of {length}", path.strip_prefix(store).unwrap().display())
}

/// Every file below a directory that is not empty.
fn files_below(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let kind = entry.metadata().unwrap();
        if kind.is_dir() {
            files_below(&entry.path(), found);
        } else if kind.len() > 0 {
            found.push(entry.path());
        }
    }
}

#[expect(clippy::print_stdout, reason = "what happened is for whoever runs it")]
fn tell(seed: u64, done: &str, outcome: &str) {
    println!("corruption {}", json!({"seed": seed, "done": done, "outcome": outcome}));
}
