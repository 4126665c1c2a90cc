//! The `fuzz` suite: every parser on the committed corpus, and on seeded changes of it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking where it went wrong")]

mod parsers;

use std::collections::BTreeSet;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use parsers::PARSERS;
use tetrarch_tests::dice::Dice;

/// Changed inputs for each parser, unless `FUZZ_ROUNDS` says how many.
const ROUNDS: u64 = 4_000;
/// Where the changes begin, unless `FUZZ_SEED` says it.
const SEED: u64 = 1;
/// What numbers, depths and texts break on.
const TOKENS: [&[u8]; 14] = [
    b"",
    b"\"18446744073709551615\"",
    b"-1",
    b"1e999",
    b"null",
    b"{}",
    b"[]",
    b"\\u0000",
    b"\xff",
    b".",
    b"~",
    b"human:",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"99999999999999999999d",
];

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz")
}

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let entries = std::fs::read_dir(here().join("corpus").join(name)).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

fn from_env(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// One of the inputs, changed in a few places, or parts of two.
fn changed(dice: &mut Dice, inputs: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = inputs[dice.below(inputs.len())].clone();
    for _ in 0..=dice.below(4) {
        let (at, until) = (dice.below(bytes.len() + 1), dice.below(bytes.len() + 1));
        let place = at.min(until)..at.max(until);
        match dice.below(6) {
            0 => bytes.truncate(at),
            1 => drop(bytes.splice(at..at, TOKENS[dice.below(TOKENS.len())].iter().copied())),
            2 => {
                let close = place.start..place.end.min(place.start + 8);
                drop(bytes.splice(close, TOKENS[dice.below(TOKENS.len())].iter().copied()));
            }
            3 => {
                let other = &inputs[dice.below(inputs.len())];
                let from = dice.below(other.len() + 1);
                drop(bytes.splice(at.., other[from..].iter().copied()));
            }
            4 if place.len() < 1_000 => bytes.extend_from_within(place),
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << dice.below(8);
                }
            }
        }
    }
    bytes
}

#[test]
fn corpus_crashes_no_parser() {
    for (name, parser) in PARSERS {
        for (other, _) in PARSERS {
            for input in corpus(other) {
                let outcome = catch_unwind(|| parser(&input));
                assert!(outcome.is_ok(), "{name} on {}", input.escape_ascii());
            }
        }
    }
}

#[test]
fn mutated_corpus_crashes_no_parser() {
    let (seed, rounds) = (from_env("FUZZ_SEED", SEED), from_env("FUZZ_ROUNDS", ROUNDS));
    for (name, parser) in PARSERS {
        let inputs = corpus(name);
        for round in 0..rounds {
            let input = changed(&mut Dice::new(seed.wrapping_add(round << 20)), &inputs);
            let outcome = catch_unwind(|| parser(&input));
            assert!(outcome.is_ok(), "FUZZ_SEED={seed}: {name} on {}", input.escape_ascii());
        }
    }
}

#[test]
fn every_parser_has_a_corpus_and_a_fuzz_target() {
    let names: BTreeSet<String> = PARSERS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names.len(), PARSERS.len());
    let found = std::fs::read_dir(here().join("corpus")).unwrap();
    let found: BTreeSet<String> =
        found.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(found, names);
    assert!(names.iter().all(|name| !corpus(name).is_empty()));
    let manifest = std::fs::read_to_string(here().join("Cargo.toml")).unwrap();
    let targets: BTreeSet<String> = manifest
        .split("[[bin]]")
        .skip(1)
        .map(|bin| bin.split('"').nth(1).unwrap().to_owned())
        .collect();
    assert_eq!(targets, names);
}
