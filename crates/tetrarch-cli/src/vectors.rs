//! Conformance vectors (spec 11): cases from files, run against the pure core. Whoever writes
//! agents in another language checks the rules with them, and so do our own tests.
//! No rule is decided here; the modules below only translate.

mod admission;
mod budget;
mod case;
mod change;
mod conversation;
mod identity;
mod input;
mod insight;
mod intensity;
mod liveness;
mod outcome;
mod overseer;
mod plan;
mod reservation;
mod run;
mod status;
#[cfg(test)]
mod tests;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::vectors::case::Case;
use crate::vectors::input::CaseError;

/// Runs every case of some files and writes each failing one with what was expected and what
/// came out; the last line is `N passed, N failed` (spec 11). True when none failed.
///
/// # Errors
/// A file that cannot be read, by name; `out` refusing to be written.
pub fn check(files: &[PathBuf], out: &mut dyn Write) -> io::Result<bool> {
    let (mut passed, mut failed) = (0, 0);
    for file in files {
        let counts = check_cases(file, &read(file)?, out)?;
        passed += counts.passed;
        failed += counts.failed;
    }
    writeln!(out, "{passed} passed, {failed} failed")?;
    Ok(failed == 0)
}

struct Counts {
    passed: u64,
    failed: u64,
}

fn check_cases(file: &Path, text: &str, out: &mut dyn Write) -> io::Result<Counts> {
    let mut counts = Counts { passed: 0, failed: 0 };
    for (at, line) in lines(text) {
        match failure_of(line) {
            None => counts.passed += 1,
            Some((id, report)) => {
                counts.failed += 1;
                writeln!(out, "FAIL {id} ({}:{at})\n{report}", file.display())?;
            }
        }
    }
    Ok(counts)
}

/// Writes what every case of a file comes to, one JSON object a line: `id` and `then`, or
/// `id` and `error` for a case that cannot be run (spec 11).
///
/// # Errors
/// The file cannot be read; `out` refusing to be written.
pub fn run(file: &Path, out: &mut dyn Write) -> io::Result<()> {
    run_cases(&read(file)?, out)
}

fn run_cases(text: &str, out: &mut dyn Write) -> io::Result<()> {
    for (at, line) in lines(text) {
        let result = match Case::read(line) {
            Err(wrong) => json!({"id": format!("line {at}"), "error": wrong.to_string()}),
            Ok(case) => match case.outcome() {
                Ok(outcome) => json!({"id": case.id, "then": outcome.into_value()}),
                Err(wrong) => json!({"id": case.id, "error": wrong.to_string()}),
            },
        };
        writeln!(out, "{result}")?;
    }
    Ok(())
}

fn read(file: &Path) -> io::Result<String> {
    fs::read_to_string(file).map_err(|error| {
        io::Error::new(error.kind(), format!("cannot read {}: {error}", file.display()))
    })
}

/// The lines that hold something, with their numbers from 1.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty())
}

/// The id of a failing case and the report on it.
fn failure_of(line: &str) -> Option<(String, String)> {
    let broken = |wrong: &CaseError| format!("  error:    {wrong}");
    let case = match Case::read(line) {
        Ok(case) => case,
        Err(wrong) => return Some(("unreadable case".to_owned(), broken(&wrong))),
    };
    let report = match case.compare() {
        Ok(None) => return None,
        Ok(Some((expected, actual))) => report_of(&expected, &actual),
        Err(wrong) => broken(&wrong),
    };
    Some((case.id, report))
}

fn report_of(expected: &Value, actual: &Value) -> String {
    format!("  expected: {expected}\n  actual:   {actual}")
}
