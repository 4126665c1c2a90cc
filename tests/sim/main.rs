//! The simulation: core's real machines under a seeded scheduler and a simulated bus, with
//! repeats, delays, losses, crashes between any two steps, zombies and deposed owners. Every
//! commit is checked for broken invariants; in the end everything has to settle. Each seed runs
//! twice and must do the same; once only when `SIM_ONCE` is set, for many of them.
#![expect(clippy::expect_used, reason = "what a seed is made of is known to be well-formed")]

mod bug;
mod bus;
mod haul;
mod host;
mod invariants;
mod observe;
mod owner;
mod people;
mod program;
mod rules;
mod seat;
mod size;
mod tally;
mod wire;
mod work;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use tally::Tally;
use tetrarch_tests::dice;

/// Seeds of an ordinary run; `SIM_SEEDS` says otherwise, and `SIM_FROM` with which one to begin.
const SEEDS: u64 = 200;
/// Threads that share the seeds.
const THREADS: u64 = 2;
/// Lines of a failed seed's history that are shown.
const SHOWN: usize = 40;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("it is a number"))
}

/// Runs a seed twice; gives what happened, or what to tell: all of its history when it runs
/// `alone`.
fn try_seed(seed: u64, alone: bool) -> Result<Tally, String> {
    let once = catch_unwind(AssertUnwindSafe(|| world::run(seed, None)));
    let reproduce = format!("SIM_SEED={seed} cargo test -p tetrarch-tests --test sim -- seeds");
    let once = once.map_err(|_| format!("seed {seed} panicked; run it again with {reproduce}"))?;
    if let Some(broken) = once.broken {
        let lines: Vec<&str> = once.history.lines().collect();
        let hidden = if alone { 0 } else { lines.len().saturating_sub(SHOWN) };
        let last = lines[hidden..].join("\n");
        return Err(format!("seed {seed}: {broken}\n{last}\nrun it again with {reproduce}"));
    }
    if number("SIM_ONCE").is_some() {
        return Ok(once.tally);
    }
    let twice = world::run(seed, None);
    if twice.history != once.history || twice.tally != once.tally {
        return Err(format!("seed {seed} did something else the second time; {reproduce}"));
    }
    Ok(once.tally)
}

#[test]
#[expect(clippy::print_stdout, reason = "the counts are what a reader of the suite looks for")]
fn seeds() {
    if let Some(seed) = number("SIM_SEED") {
        if let Err(told) = try_seed(seed, true) {
            panic!("{told}");
        }
        return;
    }
    let seeds = number("SIM_SEEDS").unwrap_or(SEEDS);
    let from = number("SIM_FROM").unwrap_or(0);
    let threads = (0..THREADS).map(|thread| {
        std::thread::spawn(move || {
            let (mut tally, mut broken) = (Tally::default(), Vec::new());
            for seed in (from..from + seeds).filter(|seed| seed % THREADS == thread) {
                match try_seed(seed, false) {
                    Ok(part) => tally.add(&part),
                    Err(told) => broken.push(told),
                }
            }
            (tally, broken)
        })
    });
    let threads: Vec<_> = threads.collect();
    let (mut tally, mut broken) = (Tally::default(), Vec::new());
    for thread in threads {
        let (part, told) = thread.join().expect("a broken seed is told, not passed on");
        tally.add(&part);
        broken.extend(told);
    }
    assert!(broken.is_empty(), "{} seeds broke:\n{}", broken.len(), broken.join("\n"));
    println!("{seeds} seeds from {from}:\n{}", tally.lines());
    if from == 0 {
        assert_eq!(tally.missing(), Vec::<&str>::new(), "these never happened");
    }
}
