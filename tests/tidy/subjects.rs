//! Subject text lives in one place (spec 01, 02): `subject.rs` and `subject/` of the bus crate.
//! Tests may write subjects out: there the text is the contract that is checked.

use crate::offence::{Offence, assert_lines, assert_none};
use crate::repository::sources;
use crate::source::Source;

const HOME: &str = "crates/tetrarch-bus/src/subject";

/// First tokens of the subjects of spec 02.
const HEADS: [&str; 12] = [
    "ctl", "cursor", "dead", "hb", "ledger", "mail", "op", "plan", "report", "run", "spawn",
    "stream",
];

/// The subjects without a variable part. `spawn.request` alone is the name of a kind of message.
const PLAIN: [&str; 1] = ["ledger.main"];

/// What belongs to NATS itself.
const SERVER: [&str; 5] = ["$JS.", "$KV.", "$O.", "$SYS.", "_INBOX"];

/// Words with two dots that are no subjects: topics of mail (spec 02, Mail).
const TOPICS: [&str; 1] = ["spawn.sponsor.answer"];

/// First words of dotted names that are no subjects: a vector's fields, a metric, telemetry's words.
const NAMES: [&str; 3] = ["gen_ai", "given", "tetrarch"];

/// Endings of file names that have dots inside.
const FILES: [&str; 3] = [".json", ".toml", ".whl"];

#[test]
fn subject_text_stays_in_its_file() {
    let found: Vec<Offence> = sources().iter().flat_map(literals).collect();
    assert_none(&found, "build and parse subjects with tetrarch_bus::subject");
}

fn literals(source: &Source) -> Vec<Offence> {
    if source.crate_name().is_none() || source.path.starts_with(HOME) {
        return Vec::new();
    }
    source
        .literals
        .iter()
        .filter(|found| !source.in_test(found.line) && is_subject(&found.text))
        .map(|found| Offence::new(&source.path, found.line, format!("\"{}\"", found.text)))
        .collect()
}

fn is_subject(text: &str) -> bool {
    if SERVER.iter().any(|head| text.starts_with(head)) {
        return true;
    }
    let tokens: Vec<&str> = text.split('.').collect();
    let [head, rest @ ..] = tokens.as_slice() else { return false };
    let named = TOPICS.contains(&text)
        || NAMES.contains(head)
        || FILES.iter().any(|ending| text.ends_with(ending));
    if named || rest.is_empty() || text.contains(char::is_whitespace) {
        return false;
    }
    let plain = PLAIN.contains(&text);
    let ours = HEADS.contains(head) && rest.iter().any(|token| token.is_empty() || variable(token));
    let any =
        rest.len() >= 2 && head.len() > 1 && head.starts_with(|c: char| c.is_ascii_lowercase());
    plain || ours || any && tokens.iter().all(|token| word(token) || variable(token))
}

fn variable(token: &str) -> bool {
    let inside = token.strip_prefix('{').and_then(|token| token.strip_suffix('}'));
    matches!(token, "*" | ">") || inside.is_some_and(|name| !name.contains(['{', '}']))
}

fn word(token: &str) -> bool {
    let part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
    !token.is_empty() && token.chars().all(part)
}

#[test]
fn subject_differs_from_other_text() {
    let subjects = [
        "ledger.main",
        "spawn.request.",
        "spawn.request.{epic}",
        "mail.{to}.{from}",
        "hb.*",
        "ctl.",
        "plan.updated.>",
        "$JS.API.INFO",
        "_INBOX",
        "billing.invoice.{}",
        "run.{run}",
    ];
    for text in subjects {
        assert!(is_subject(text), "{text}");
    }
    let others = [
        "spawn.sponsor.answer",
        "spawn.request",
        "op.{op}/{VERSION}",
        "spawn.denied",
        "plan.review_needed",
        "run.state",
        "127.0.0.1",
        "plan.yaml",
        "it fails. mail.{to} too",
        "v1",
        "x.y.z",
        "Cargo.toml",
        "a_server-2.15.1-py3.whl",
        "node",
    ];
    for text in others {
        assert!(!is_subject(text), "{text}");
    }
}

#[test]
fn subject_outside_its_file_is_found() {
    let text = "// \"mail.a.b\"\nlet s = format!(\"mail.{to}.{from}\");\n\
        #[cfg(test)]\nmod tests { const S: &str = \"mail.a.b\"; }\n";
    let at = |path| literals(&Source::parse(path, text));
    assert_lines(&at("crates/tetrarch-engine/src/a.rs"), &[2]);
    assert_lines(&at("crates/tetrarch-bus/src/subject.rs"), &[]);
    assert_lines(&at("crates/tetrarch-bus/src/subject/pattern.rs"), &[]);
    assert_lines(&at("tests/it/a.rs"), &[]);
}
