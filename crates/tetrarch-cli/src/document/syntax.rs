//! What is wrong with a text that is no YAML, TOML or JSON, in words of our own: those of the parsers are
//! for whoever writes parsers.

use serde_saphyr::Error;

/// What is wrong with a YAML text.
pub(super) fn yaml(error: &Error) -> String {
    if let Error::DuplicateMappingKey { key: Some(key), .. } = error {
        return format!("the key {key:?} is given twice");
    }
    let ours = if matches!(error, Error::Eof { .. }) {
        "a value is missing at its end"
    } else if matches!(error, Error::MultipleDocuments { .. }) {
        "a second document starts here (---); a file must have one"
    } else if matches!(error, Error::UnknownAnchor { .. }) {
        "this alias (*name) has no anchor (&name) above it; quote a text that begins with *"
    } else {
        by_words(&error.to_string())
    };
    ours.to_owned()
}

/// A quoted text that is not closed where it was meant to be.
pub(super) const QUOTE: &str =
    "a quoted text is not closed, or text follows it; close it with the same quote";

/// What the scanner's words are about, the more particular first.
const KINDS: &[(&[&str], &str)] = &[
    (&["tab"], "tabs are not allowed in indentation; use spaces"),
    (
        &["unknown anchor"],
        "this alias (*name) has no anchor (&name) above it; quote a text that begins with *",
    ),
    (&["quoted", "quote"], QUOTE),
    (&["escape"], "unknown escape after a backslash in a double-quoted text; use single quotes"),
    (
        &["bracket", "flow", "',' or"],
        "a bracket or brace is not closed, or a comma is missing; quote texts that hold [ ] { } or ,",
    ),
    (
        &["mapping values are not allowed", "mapping value"],
        "a second `: ` in one line; quote texts that hold `: `",
    ),
    (
        &["limit", "budget", "exceeded", "depth"],
        "the document is nested too deeply, or repeats its parts too often",
    ),
    (
        &["simple key", "':'", "expected <block end>", "block end", "indent"],
        "this line is neither `key: value` nor an entry `- ...` of the list or mapping it is indented into",
    ),
];

fn by_words(said: &str) -> &'static str {
    let said = said.to_ascii_lowercase();
    let fits = |(words, _): &&(&[&str], &str)| words.iter().any(|word| said.contains(word));
    KINDS.iter().find(fits).map_or(
        "invalid YAML: check the indentation, quotes and brackets of this line",
        |(_, ours)| ours,
    )
}

/// What is wrong with a TOML text.
pub(super) fn toml(said: &str) -> String {
    if said.contains("duplicate key") {
        return "a key or table is given twice".to_owned();
    }
    format!("invalid TOML: {}", one_line(said))
}

/// What is wrong with a JSON text.
pub(super) fn json(said: &str) -> String {
    let said = said.split(" at line ").next().unwrap_or_default();
    let ours = if said.starts_with("EOF") {
        "the file ends too early; a bracket, brace or quote is not closed"
    } else {
        said
    };
    format!("invalid JSON: {ours}")
}

fn one_line(said: &str) -> String {
    said.lines().map(str::trim).collect::<Vec<_>>().join("; ")
}
