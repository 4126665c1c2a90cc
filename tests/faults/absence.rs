//! No other binary has failpoints: what a person builds and runs cannot be ended by a file.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use tetrarch_failpoint::Failpoint;
use tetrarch_tests::{binary, binary_with_failpoints};

/// What only an armed step reads.
const VARIABLE: &str = "FAILPOINT_DIR";

fn knows(binary: &Path, word: &str) -> bool {
    let found = Command::new("grep").args(["-qF", word]).arg(binary).status().unwrap();
    assert!(matches!(found.code(), Some(0 | 1)), "{found}");
    found.success()
}

#[test]
fn ordinary_binary_has_no_failpoints() {
    assert!(knows(&binary_with_failpoints(), VARIABLE), "else this test finds nothing out");
    assert!(!knows(&binary(), VARIABLE), "{}", binary().display());
}

#[test]
fn every_failpoint_has_a_unique_name() {
    let names: BTreeSet<&str> = Failpoint::ALL.iter().map(|step| step.name()).collect();
    assert_eq!(names.len(), Failpoint::ALL.len());
}
