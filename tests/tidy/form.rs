//! The form of files (spec 01): headers, sizes, names, the fixed top level.

use crate::offence::{Offence, assert_lines, assert_none};
use crate::repository::{names, sources};
use crate::source::Source;

/// Lines of code in one file.
const CODE_LINES_MAX: usize = 400;

/// Names that say nothing about what is inside.
const JUNK_DRAWERS: [&str; 8] =
    ["common", "helper", "helpers", "manager", "mod", "types", "util", "utils"];

/// What may stand at the top, beside names that begin with a dot and Cargo's output.
const TOP_LEVEL: [&str; 11] = [
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "crates",
    "deploy",
    "docs",
    "examples",
    "proto",
    "tests",
    "vendor",
];

#[test]
fn every_file_says_what_it_is_for() {
    let found: Vec<Offence> = sources().iter().filter_map(headless).collect();
    assert_none(&found, "begin with `//!`: what it is for and what it must not do");
}

#[test]
fn files_are_short() {
    let found: Vec<Offence> = sources().iter().filter_map(long).collect();
    assert_none(&found, "split it along its concepts");
}

#[test]
fn files_are_named_after_their_concept() {
    let found: Vec<Offence> = sources().iter().filter_map(|source| junk(&source.path)).collect();
    assert_none(&found, "name it after what it holds; `foo.rs` + `foo/`, never `mod.rs`");
}

#[test]
fn top_level_is_fixed() {
    let found = strangers(&names("."));
    assert_none(&found, "put it below one of the fixed directories, or make it a dotfile");
}

fn headless(source: &Source) -> Option<Offence> {
    let first = source.lines.iter().find(|line| !line.raw.trim().is_empty());
    let good = first.is_some_and(|line| line.raw.strip_prefix("//!").is_some_and(says_something));
    (!good).then(|| Offence::new(&source.path, 1, "no header"))
}

fn says_something(header: &str) -> bool {
    header.split_whitespace().count() > 1
}

fn long(source: &Source) -> Option<Offence> {
    let count = source
        .lines
        .iter()
        .filter(|line| !line.code.trim().is_empty() && (source.is_test() || !line.test))
        .count();
    let what = format!("{count} lines of code, more than {CODE_LINES_MAX}");
    (count > CODE_LINES_MAX).then(|| Offence::new(&source.path, 1, what))
}

fn junk(path: &str) -> Option<Offence> {
    let drawer =
        path.trim_end_matches(".rs").split('/').find(|part| JUNK_DRAWERS.contains(part))?;
    Some(Offence::new(path, 1, format!("`{drawer}` names no concept")))
}

fn strangers(names: &[String]) -> Vec<Offence> {
    names
        .iter()
        .filter(|name| *name != "target" && !TOP_LEVEL.contains(&name.as_str()))
        .map(|name| Offence::new(name, 1, "is not a part of the top level"))
        .collect()
}

#[test]
fn missing_header_is_found() {
    let headless = |text: &str| headless(&Source::parse("a.rs", text)).is_some();
    assert!(headless("use std::fmt;\n"));
    assert!(headless("// What it is for.\n"));
    assert!(headless("//!\n"));
    assert!(!headless("//! What it is for.\n"));
}

#[test]
fn long_file_is_found() {
    let file = |lines: usize, end: &str| {
        let text = "let a = 1; // one\n\n// note\n".repeat(lines) + end;
        long(&Source::parse("crates/tetrarch-bus/src/a.rs", &text)).is_some()
    };
    assert!(!file(CODE_LINES_MAX, "#[cfg(test)]\nmod tests {\n}\n"));
    assert!(file(CODE_LINES_MAX + 1, ""));
}

#[test]
fn junk_drawer_is_found() {
    assert!(junk("crates/tetrarch-bus/src/utils.rs").is_some());
    assert!(junk("crates/tetrarch-bus/src/common/text.rs").is_some());
    assert!(junk("crates/tetrarch-bus/src/codec/mod.rs").is_some());
    assert!(junk("crates/tetrarch-bus/src/codec/model.rs").is_none());
}

#[test]
fn stranger_at_the_top_is_found() {
    let names = ["crates", "target", "scripts"].map(str::to_owned);
    assert_lines(&strangers(&names), &[1]);
}
