//! Names (spec 01): a name that is searched for leads to one thing, and the name of a test can be
//! read in a list of results. Whether a name is a good one is for a reader to judge.

use std::collections::BTreeMap;

use crate::offence::{Offence, assert_lines, assert_none};
use crate::repository::sources;
use crate::source::Source;

/// Characters in the name of a test.
const TEST_NAME_MAX: usize = 70;

/// Types of the core that share a name with another one still; the list only gets shorter.
const SHARED: [&str; 26] = [
    "Answer",
    "Change",
    "Due",
    "Effect",
    "Entry",
    "Failures",
    "Host",
    "Input",
    "Kept",
    "Known",
    "Leaf",
    "Mode",
    "Next",
    "Piece",
    "Proposal",
    "Purpose",
    "Receipt",
    "Said",
    "Sender",
    "Stage",
    "Standing",
    "Subject",
    "Telemetry",
    "Turn",
    "Verdict",
    "Wanted",
];

#[test]
fn product_types_have_unique_names() {
    let sources = sources();
    let found: Vec<Offence> = shared(&sources)
        .into_iter()
        .filter(|(name, _)| !SHARED.contains(&name.as_str()))
        .flat_map(|(_, places)| places)
        .collect();
    assert_none(&found, "name each of them by what tells it from the others");
}

#[test]
fn listed_shared_type_names_are_still_shared() {
    let shared = shared(&sources());
    let unique: Vec<&&str> = SHARED.iter().filter(|name| !shared.contains_key(**name)).collect();
    assert!(unique.is_empty(), "take these off the list: {unique:?}");
}

#[test]
fn test_names_are_short() {
    let sources = sources();
    let found: Vec<Offence> = sources.iter().flat_map(long_test_names).collect();
    assert_none(&found, "say subject, condition and result");
}

/// Names that several types of the product have, with the places of them all.
fn shared(sources: &[Source]) -> BTreeMap<String, Vec<Offence>> {
    let mut types: BTreeMap<String, Vec<Offence>> = BTreeMap::new();
    for source in sources.iter().filter(|source| source.crate_name().is_some()) {
        for (line, code) in source.product_code() {
            if let Some(name) = type_name(code) {
                let place = Offence::new(&source.path, line, format!("another `{name}`"));
                types.entry(name.to_owned()).or_default().push(place);
            }
        }
    }
    types.retain(|_, places| places.len() > 1);
    types
}

/// The type that a line of code defines. What is indented belongs to an implementation or to a
/// macro, where a trait or the caller says how it is called.
fn type_name(code: &str) -> Option<&str> {
    // A set of words is defined in a macro, one step in.
    let inside = code.strip_prefix("    ").filter(|code| code.starts_with("pub enum "));
    let code = inside.unwrap_or(code);
    let visible = code.strip_prefix("pub").unwrap_or(code);
    let rest = visible.strip_prefix('(').and_then(|rest| rest.split_once(')'));
    let rest = rest.map_or(visible, |(_, rest)| rest);
    if code.starts_with(' ') {
        return None;
    }
    let rest = rest.trim_start();
    let named = ["struct ", "enum ", "type "].iter().find_map(|kind| rest.strip_prefix(kind))?;
    named.split(|c: char| !c.is_alphanumeric() && c != '_').next()
}

fn long_test_names(source: &Source) -> Vec<Offence> {
    let mut found = Vec::new();
    let mut is_test = false;
    for (line, code) in source.code() {
        let code = code.trim();
        is_test |= code.starts_with("#[test]") || code.starts_with("#[tokio::test");
        let Some((_, rest)) = code.split_once("fn ").filter(|_| is_test) else { continue };
        is_test = false;
        let name = rest.split('(').next().unwrap_or(rest);
        if name.len() > TEST_NAME_MAX {
            let what = format!("{} characters, more than {TEST_NAME_MAX}", name.len());
            found.push(Offence::new(&source.path, line, what));
        }
    }
    found
}

#[test]
fn shared_type_name_is_found() {
    let one = Source::parse("crates/tetrarch-bus/src/a.rs", "pub struct A;\nstruct B;\n");
    let text = "pub(super) enum A {}\nimpl X for B {\n    type B = u8;\n}\ntype A = u8;\n";
    let other = Source::parse("crates/tetrarch-cli/src/a.rs", text);
    let test = Source::parse("tests/it/a.rs", "struct B;\n");
    let shared = shared(&[one, other, test]);
    assert_eq!(shared.keys().collect::<Vec<_>>(), ["A"]);
    assert_lines(&shared["A"], &[1, 1, 5]);
}

#[test]
fn long_test_name_is_found() {
    let file = |length: usize| {
        let name = "a".repeat(length);
        let text = format!("#[test]\nfn {name}() {{}}\nfn not_a_test_{name}() {{}}\n");
        long_test_names(&Source::parse("tests/it/a.rs", &text))
    };
    assert_lines(&file(TEST_NAME_MAX), &[]);
    assert_lines(&file(TEST_NAME_MAX + 1), &[2]);
}
