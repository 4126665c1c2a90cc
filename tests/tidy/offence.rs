//! What a rule found, and how it is told. It decides nothing.

use std::fmt;

/// One place that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Offence {
    path: String,
    line: usize,
    what: String,
}

impl Offence {
    /// `line` counts from 1.
    pub(crate) fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Offence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// Fails the test with every offender, one a line, and what to do instead.
pub(crate) fn assert_none(offences: &[Offence], instead: &str) {
    let list: Vec<String> = offences.iter().map(ToString::to_string).collect();
    assert!(list.is_empty(), "{} offenders; {instead}\n{}", list.len(), list.join("\n"));
}

/// Fails unless exactly these lines of the sample were found.
pub(crate) fn assert_lines(offences: &[Offence], lines: &[usize]) {
    let found: Vec<usize> = offences.iter().map(|offence| offence.line).collect();
    assert_eq!(found, lines, "{offences:#?}");
}
