//! The core is pure (spec 01), and so is what people are shown of it: no IO, clock, randomness, environment, asynchrony, or map without
//! an order. Its manifest is the first guard (`arrows`); this one reads its sources.

use crate::offence::{Offence, assert_lines, assert_none};
use crate::repository::sources;
use crate::source::{Source, has_word};

/// Names the core does not use, whatever they would be in another crate.
const WORDS: [&str; 11] = [
    "async",
    "await",
    "tokio",
    "Instant",
    "SystemTime",
    "HashMap",
    "HashSet",
    "rand",
    "RandomState",
    "thread_local",
    "unsafe",
];

/// Macros that write to the terminal.
const PRINTS: [&str; 4] = ["print!", "println!", "eprint!", "eprintln!"];

/// Parts of the standard library that reach outside the program.
const PARTS: [&str; 7] = ["env", "fs", "io", "net", "process", "thread", "os"];

#[test]
fn core_is_pure() {
    let found: Vec<Offence> = sources()
        .iter()
        .filter(|source| matches!(source.crate_name(), Some("core" | "view" | "page")))
        .flat_map(impurities)
        .collect();
    assert_none(&found, "give it as an argument, or move it into a shell");
}

fn impurities(source: &Source) -> Vec<Offence> {
    let mut found = Vec::new();
    for (line, code) in source.product_code() {
        let names = WORDS.iter().filter(|word| has_word(code, word));
        let words = names.chain(PRINTS.iter().filter(|name| has_word(code, name)));
        let parts = PARTS.iter().filter(|part| uses(code, part)).map(|part| format!("std::{part}"));
        for what in words.map(ToString::to_string).chain(parts) {
            found.push(Offence::new(&source.path, line, format!("{what} in the core")));
        }
    }
    found
}

/// Whether code names `std::part`, by itself or in a list such as `use std::{fmt, fs};`.
fn uses(code: &str, part: &str) -> bool {
    has_word(code, &format!("std::{part}"))
        || code.trim_start().starts_with("use std::{") && has_word(code, part)
}

#[test]
fn impure_line_is_found() {
    let text = "//! HashMap\nuse std::collections::HashMap;\nuse std::{fmt, fs};\n\
        async fn f() {}\nlet now = std::time::Instant::now();\nlet a = std::env::var(\"X\");\n\
        let operand = \"rand\"; self.print();\nprintln!();\n#[cfg(test)]\nmod tests { use std::fs; }\n";
    let source = Source::parse("crates/tetrarch-core/src/a.rs", text);
    assert_lines(&impurities(&source), &[2, 3, 4, 5, 6, 8]);
}
