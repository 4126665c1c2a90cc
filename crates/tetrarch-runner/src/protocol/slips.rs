//! Lines that are taken as they are written, though something else was probably meant: they are explained to people and
//! change nothing.

use serde_json::{Map, Value};
use tetrarch_core::plan::schema::{nearest, snake_case};

use crate::lines::start_of;

/// What a line's `type` may be.
const TYPES: [&str; 18] = [
    "progress",
    "usage",
    "call",
    "spent",
    "checkpoint",
    "ask",
    "blocked",
    "unblocked",
    "step_started",
    "step_ended",
    "takes",
    "taken",
    "spawn",
    "op",
    "mail",
    "update",
    "artifact",
    "result",
];
/// Words that programs take for types, and the type.
const ELSEWHERE: [(&str, &str); 5] = [
    ("answer", "result"),
    ("operation", "op"),
    ("question", "ask"),
    ("subagent", "spawn"),
    ("tokens", "usage"),
];
/// What a usage line has, in both spellings.
const TOTALS: [&str; 7] =
    ["tokensIn", "tokens_in", "tokensOut", "tokens_out", "costUsd", "cost_usd", "turns"];
/// Least likeness of two words, from 0 to 1, of which one is taken for the other. What programs log of their own
/// (`token`, `task`) is less like any type.
const ALIKE: f64 = 0.81;
/// Longest word that is compared, in bytes.
const WORD_BYTES_MAX: usize = 32;
/// Bytes of a program's words in a note.
const SHOWN: usize = 64;

/// What is to be said of a usage line that has fields and none that is counted.
pub(super) fn of_usage(fields: &Map<String, Value>) -> Option<String> {
    let known = |key: &&String| TOTALS.contains(&key.as_str());
    let mut others = fields.keys().filter(|key| *key != "type");
    let first = others.next()?;
    if fields.keys().any(|key| known(&key)) {
        return None;
    }
    Some(format!(
        "`usage` has `{}` and nothing that is counted: tokensIn, tokensOut, costUsd, turns",
        start_of(first, SHOWN)
    ))
}

/// What is to be said of a line whose type is none, when one can tell which was meant.
pub(super) fn of_type(kind: &str) -> Option<String> {
    if kind.len() > WORD_BYTES_MAX {
        return None;
    }
    let said = snake_case(kind).replace(['-', ' ', '.'], "_");
    let said = said.trim_start_matches('_');
    let elsewhere = ELSEWHERE.iter().find(|(word, _)| *word == said).map(|(_, known)| *known);
    let meant = elsewhere.or_else(|| nearest(said, &TYPES, ALIKE))?;
    Some(format!(
        "`{kind}` is no type of event, so its line is log text; probably `{meant}` was meant; the types are {}",
        TYPES.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{ProgramLine, read};

    #[test]
    fn type_that_resembles_a_known_one_is_explained_and_others_are_not() {
        for (said, meant) in [
            ("question", Some("ask")),
            ("Result", Some("result")),
            ("stepStarted", Some("step_started")),
            ("progres", Some("progress")),
            ("un-blocked", Some("unblocked")),
            ("tokens", Some("usage")),
            ("token", None),
            ("task", None),
            ("process", None),
            ("message", None),
            ("error", None),
            ("file", None),
            ("", None),
        ] {
            let found = of_type(said);
            let named = meant.map(|meant| format!("probably `{meant}` was meant"));
            assert_eq!(found.is_some(), named.is_some(), "{said}: {found:?}");
            assert!(named.is_none_or(|named| found.unwrap().contains(&named)), "{said}");
        }
    }

    #[test]
    fn usage_without_a_known_total_is_explained() {
        for (line, unread) in [
            (r#"{"type":"usage","inputTokens":5000}"#, true),
            (r#"{"type":"usage","inputTokens":5000,"turns":1}"#, false),
            (r#"{"type":"usage","tokens_in":5}"#, false),
            (r#"{"type":"usage"}"#, false),
        ] {
            let slip = matches!(read(line.as_bytes()), ProgramLine::Slip { event: Some(_), .. });
            assert_eq!(slip, unread, "{line}");
        }
        let line = br#"{"type":"question","text":"which?"}"#;
        assert!(matches!(read(line), ProgramLine::Slip { event: None, .. }));
    }

    #[test]
    fn every_type_is_one_that_is_read() {
        for kind in TYPES {
            let line = format!(r#"{{"type":"{kind}"}}"#);
            let read = read(line.as_bytes());
            assert!(
                !matches!(read, ProgramLine::Text | ProgramLine::Slip { .. }),
                "{kind}: {read:?}"
            );
        }
    }
}
