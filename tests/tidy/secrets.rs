//! No credential is in the repository: every file is looked at with the forms that texts are cleaned of
//! (`core/src/redaction.rs`). What tests need of that kind is listed here, with the reason.

use std::ffi::OsStr;
use std::path::Path;

use tetrarch_core::redaction;

use crate::offence::{Offence, assert_lines, assert_none};
use crate::repository::{root, text};

/// A file, the kind of what it may have, and what for.
const ALLOWED: [(&str, &str, &str); 5] = [
    (
        "crates/tetrarch-bus/src/creds.rs",
        "private_key",
        "the frame of a credential file; what stands in it is made when it is written",
    ),
    ("crates/tetrarch-core/src/redaction/tests.rs", "private_key", "frames around made-up words"),
    (
        "tests/e2e/agent.py",
        "private_key",
        "a frame around words that the test makes up and looks for",
    ),
    ("tests/e2e/agent.py", "url_password", "a password that is put together from the test's words"),
    (
        "tests/examples/test_first_run.py",
        "url_password",
        "an address that has to be shown without it",
    ),
];

#[test]
fn no_file_has_a_credential() {
    let files = ignore::WalkBuilder::new(root())
        .hidden(false)
        // What others published has keys in its examples.
        .filter_entry(|entry| ![".git", "vendor"].map(OsStr::new).contains(&entry.file_name()))
        .build()
        .map(|entry| entry.unwrap_or_else(|error| panic!("{error}")))
        .filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()));
    let mut seen = 0;
    let mut found = Vec::new();
    for file in files {
        let path = file.path().strip_prefix(root()).unwrap_or(file.path());
        let bytes = std::fs::read(file.path())
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        seen += 1;
        found.extend(credentials(path, &String::from_utf8_lossy(&bytes)));
    }
    assert!(seen > 1_000, "the repository's files were not found: {seen}");
    assert_none(
        &found,
        "take it out and revoke it; what a test makes up is listed in tests/tidy/secrets.rs",
    );
}

/// Lines with a credential that is not allowed there. Its text is not told.
fn credentials(path: &Path, text: &str) -> Vec<Offence> {
    let path = path.to_string_lossy();
    let mut lines = redaction::Lines::default();
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let Some(clean) = lines.clean(line) else { continue };
        for kind in kinds(&clean) {
            let written = line.contains(&format!("[redacted:{kind}]"));
            let allowed = ALLOWED.iter().any(|(at, of, _)| *at == path && *of == kind);
            if !written && !allowed {
                found.push(Offence::new(&path, index + 1, kind));
            }
        }
    }
    found
}

/// What was replaced in a text.
fn kinds(clean: &str) -> impl Iterator<Item = &str> {
    clean
        .split("[redacted:")
        .skip(1)
        .filter_map(|rest| rest.split(']').next())
        .filter(|kind| kind.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'))
}

#[test]
fn credential_is_found_unless_its_kind_is_allowed_there() {
    let (token, key) =
        ("ghp_".to_owned() + &"a1".repeat(18), ["-----BEGIN", "PRIVATE KEY-----"].join(" "));
    let text = format!("fn a() {{}}\nlet token = \"{token}\";\n[redacted:api_key]\n{key}\nMIIE\n");
    assert_lines(&credentials(Path::new("deploy/README.md"), &text), &[2, 4]);
    assert_lines(&credentials(Path::new("tests/e2e/agent.py"), &text), &[2]);
}

#[test]
fn every_allowed_credential_is_still_there() {
    for (path, kind, _) in ALLOWED {
        assert!(
            redaction::text(&text(path)).contains(&format!("[redacted:{kind}]")),
            "{path}: {kind}"
        );
    }
}
