//! Status updates: the `overseerUpdate` that an agent answers a status request with (spec 05,
//! Status updates). Reading only: strict about what is there, silent about what is not, and nothing
//! is ever guessed from prose.

use std::fmt;

use serde_json::{Map, Value};

use crate::brief::Evidence;
use crate::crystallization::References;
use crate::id::{EpicId, NodeId};
use crate::limits::{LIST_MAX, SUMMARY_BYTES_MAX, TEXT_BYTES_MAX};
use crate::words::words;

/// The key of the object.
const KEY: &str = "overseerUpdate";

words! {
    /// What an agent says of its own work.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Said {
        /// It goes on.
        InProgress = "in_progress",
        /// It cannot go on.
        Blocked = "blocked",
        /// It has finished.
        Done = "done",
    }
}

/// A status update. Every part may be missing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Update {
    /// The goal it is about.
    pub goal: Option<EpicId>,
    /// The work node it is about.
    pub node: Option<NodeId>,
    /// Where the work stands.
    pub status: Option<Said>,
    /// What changed since the last dispatch.
    pub summary: Option<String>,
    /// The next concrete action.
    pub next: Option<String>,
    /// What is needed to go on.
    pub blockers: Vec<String>,
    /// What was decided, with why.
    pub decisions: Vec<String>,
    /// What nobody has answered.
    pub open_questions: Vec<String>,
    /// What shows it.
    pub evidence: Evidence,
    /// Where else it can be looked up.
    pub references: References,
}

/// Why an update cannot be taken; the whole of it is left.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpdateError {
    /// The block is no JSON object.
    #[error("the block with {KEY} is not a JSON object: {0}")]
    NoObject(String),
    /// A key that is not known.
    #[error("{KEY}: unknown key {0}; known: {known}", known = Known)]
    UnknownKey(String),
    /// A value that does not fit.
    #[error("{KEY}.{field}: {what}")]
    Field {
        /// Which.
        field: &'static str,
        /// What is wrong with it.
        what: String,
    },
    /// A text or list beyond its bound (spec 05, Bounds).
    #[error(
        "{KEY}.{field}: {size} exceeds the limit of {max}; shorten it, and store the rest as an artifact"
    )]
    TooLarge {
        /// Which.
        field: &'static str,
        /// Bytes of a text, entries of a list.
        size: usize,
        /// The bound.
        max: usize,
    },
    /// It does not say what it is about, and more than one thing was asked.
    #[error("{KEY}: workNodeId is missing; {0} assignments were asked about, so name the node")]
    Ambiguous(usize),
}

struct Known;

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "goalId, workNodeId, status, summary, next, blockers, decisions, openQuestions, evidence",
        )
    }
}

/// Reads the update in an agent's words: the whole text when it is one JSON object, else the last
/// fenced `json` block with the key. None when there is no such block. `asked` is how many
/// assignments the agent was asked about.
///
/// # Errors
/// The block is there and cannot be taken.
pub fn from_text(text: &str, asked: usize) -> Result<Option<Update>, UpdateError> {
    let whole = text.trim();
    let block = if whole.starts_with('{') { has_key(whole) } else { fenced(text) };
    let Some(block) = block else { return Ok(None) };
    let object: Map<String, Value> =
        serde_json::from_str(block).map_err(|error| UpdateError::NoObject(error.to_string()))?;
    if let Some(key) = object.keys().find(|key| *key != KEY) {
        return Err(UpdateError::UnknownKey(key.clone()));
    }
    let inner = object.get(KEY).unwrap_or(&Value::Null);
    let update = from_value(inner)?;
    if update.node.is_none() && asked > 1 {
        return Err(UpdateError::Ambiguous(asked));
    }
    Ok(Some(update))
}

/// Reads the update itself, as an `update` event or a result carries it.
///
/// # Errors
/// It is no object, has a key that is not known, or a value that does not fit.
pub fn from_value(value: &Value) -> Result<Update, UpdateError> {
    let Value::Object(object) = value else {
        return Err(UpdateError::NoObject(format!("it is {value}")));
    };
    let mut update = Update::default();
    for (key, value) in object.iter().filter(|(_, value)| !value.is_null()) {
        match key.as_str() {
            "goalId" | "goal_id" => update.goal = Some(id("goalId", value)?),
            "workNodeId" | "work_node_id" => update.node = Some(id("workNodeId", value)?),
            "status" => update.status = Some(said(value)?),
            "summary" => update.summary = Some(text("summary", value, SUMMARY_BYTES_MAX)?),
            "next" => update.next = Some(text("next", value, TEXT_BYTES_MAX)?),
            "blockers" => update.blockers = texts("blockers", value)?,
            "decisions" => update.decisions = decisions(value)?,
            "openQuestions" | "open_questions" => {
                update.open_questions = texts("openQuestions", value)?;
            }
            "evidence" => (update.evidence, update.references) = evidence(value)?,
            _ => return Err(UpdateError::UnknownKey(key.clone())),
        }
    }
    Ok(update)
}

fn has_key(block: &str) -> Option<&str> {
    block.contains(&format!("\"{KEY}\"")).then_some(block)
}

/// The last fenced `json` block with the key.
fn fenced(text: &str) -> Option<&str> {
    let mut found = None;
    let mut begins: Option<(usize, bool)> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let fence = line.trim().strip_prefix("```");
        match (fence, begins) {
            (Some(info), None) => {
                begins = Some((at + line.len(), info.trim().eq_ignore_ascii_case("json")));
            }
            (Some(""), Some((from, json))) => {
                begins = None;
                found = json.then(|| has_key(&text[from..at])).flatten().or(found);
            }
            (Some(_) | None, _) => {}
        }
        at += line.len();
    }
    found
}

fn id<T>(field: &'static str, value: &Value) -> Result<T, UpdateError>
where
    T: std::str::FromStr<Err: fmt::Display>,
{
    let text = text(field, value, TEXT_BYTES_MAX)?;
    text.parse().map_err(|error: T::Err| UpdateError::Field { field, what: error.to_string() })
}

fn said(value: &Value) -> Result<Said, UpdateError> {
    let word = text("status", value, TEXT_BYTES_MAX)?;
    Said::ALL.into_iter().find(|said| said.as_str() == word).ok_or_else(|| UpdateError::Field {
        field: "status",
        what: format!("{word:?} is unknown; allowed: in_progress, blocked, done"),
    })
}

fn text(field: &'static str, value: &Value, max: usize) -> Result<String, UpdateError> {
    let Some(text) = value.as_str() else {
        return Err(UpdateError::Field { field, what: format!("{value} is not a string") });
    };
    if text.len() > max {
        return Err(UpdateError::TooLarge { field, size: text.len(), max });
    }
    Ok(text.to_owned())
}

fn texts(field: &'static str, value: &Value) -> Result<Vec<String>, UpdateError> {
    let Some(list) = value.as_array() else {
        return Err(UpdateError::Field {
            field,
            what: format!("{value} is not a list of strings"),
        });
    };
    if list.len() > LIST_MAX {
        return Err(UpdateError::TooLarge { field, size: list.len(), max: LIST_MAX });
    }
    list.iter().map(|value| text(field, value, TEXT_BYTES_MAX)).collect()
}

/// What was decided: each in words, or as `decision` and `rationale`.
fn decisions(value: &Value) -> Result<Vec<String>, UpdateError> {
    let worded = |value: &Value| match (value["decision"].as_str(), value["rationale"].as_str()) {
        (Some(decision), Some(rationale)) => format!("{decision}, because {rationale}").into(),
        (Some(_) | None, _) => value.clone(),
    };
    let list = value.as_array().map(|list| list.iter().map(worded).collect());
    texts("decisions", list.as_ref().unwrap_or(value))
}

fn evidence(value: &Value) -> Result<(Evidence, References), UpdateError> {
    let Value::Object(object) = value else {
        let what = format!("{value} is not an object");
        return Err(UpdateError::Field { field: "evidence", what });
    };
    let (mut evidence, mut references) = (Evidence::default(), References::default());
    for (key, value) in object.iter().filter(|(_, value)| !value.is_null()) {
        let (list, field) = match key.as_str() {
            "filesTouched" | "files_touched" | "files" => {
                (&mut evidence.files, "evidence.filesTouched")
            }
            "commandsRun" | "commands_run" | "commands" => {
                (&mut evidence.commands, "evidence.commandsRun")
            }
            "testsRun" | "tests_run" | "tests" => (&mut evidence.tests, "evidence.testsRun"),
            "commits" => (&mut evidence.commits, "evidence.commits"),
            "prs" => (&mut references.prs, "evidence.prs"),
            "issues" => (&mut references.issues, "evidence.issues"),
            "externalRefs" | "external_refs" => (&mut references.external, "evidence.externalRefs"),
            _ => return Err(UpdateError::UnknownKey(format!("evidence.{key}"))),
        };
        list.extend(texts(field, value)?);
    }
    Ok((evidence, references))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fence(json: &str) -> String {
        format!("```json\n{json}\n```\n")
    }

    fn status(text: &str) -> Result<Option<Said>, UpdateError> {
        from_text(text, 1).map(|update| update.and_then(|update| update.status))
    }

    #[test]
    fn prose_is_no_update() {
        let other = fence(r#"{"answer":42}"#);
        let code = "```rust\n{\"overseerUpdate\":{\"status\":\"done\"}}\n```";
        let open = "```json\n{\"overseerUpdate\":{\"status\":\"done\"}}\n";
        for text in ["", "I am done.", "overseerUpdate: done", &other, code, open, "{\"a\":1}"] {
            assert_eq!(from_text(text, 1), Ok(None), "{text}");
        }
    }

    #[test]
    fn last_update_block_counts() {
        let (first, last) = (
            fence(r#"{"overseerUpdate":{"status":"done"}}"#),
            fence(r#"{"overseerUpdate":{"status":"blocked"}}"#),
        );
        let text = format!("First\n{first}then\n{last}and\n{}", fence("{\"other\":1}"));
        assert_eq!(status(&text), Ok(Some(Said::Blocked)));
        assert_eq!(status(&first), Ok(Some(Said::Done)));
        let bare = r#" {"overseerUpdate":{"status":"in_progress"}} "#;
        assert_eq!(status(bare), Ok(Some(Said::InProgress)));
        let loud = first.replace("json", "JSON");
        assert_eq!(status(&loud), Ok(Some(Said::Done)));
    }

    #[test]
    fn invalid_last_block_is_an_error_without_fallback() {
        let good = fence(r#"{"overseerUpdate":{"status":"done"}}"#);
        for bad in [
            r#"{"overseerUpdate":{"status":"done"}"#,
            r#"{"overseerUpdate":"done"}"#,
            r#"{"overseerUpdate":null}"#,
            r#"{"overseerUpdate":{"status":"finished"}}"#,
            r#"{"overseerUpdate":{"status":1}}"#,
            r#"{"overseerUpdate":{"mood":"good"}}"#,
            r#"{"overseerUpdate":{},"more":1}"#,
            r#"{"overseerUpdate":{"workNodeId":"X1"}}"#,
            r#"{"overseerUpdate":{"goalId":"goal_1"}}"#,
            r#"{"overseerUpdate":{"blockers":"none"}}"#,
            r#"{"overseerUpdate":{"blockers":[1]}}"#,
            r#"{"overseerUpdate":{"evidence":[]}}"#,
            r#"{"overseerUpdate":{"evidence":{"proof":[]}}}"#,
        ] {
            assert!(from_text(&format!("{good}{}", fence(bad)), 1).is_err(), "{bad}");
        }
    }

    #[test]
    fn any_text_is_parsed_without_panic() {
        let value = serde_json::json!({
            "workNodeId": "S1.2.3", "status": "in_progress", "summary": "half", "next": "the rest",
            "blockers": ["a key"],
            "evidence": {"filesTouched": ["a"], "testsRun": ["t"], "commits": ["c"], "commands": ["x"],
                "prs": ["p"], "issues": ["i"], "externalRefs": ["e"]},
            "decisions": ["so, since"], "openQuestions": ["why?"],
        });
        let update = from_value(&value).unwrap();
        assert_eq!(update.node, Some("S1.2.3".parse().unwrap()));
        assert_eq!(update.summary.as_deref(), Some("half"));
        assert_eq!(update.next.as_deref(), Some("the rest"));
        assert_eq!(update.blockers, ["a key"]);
        assert_eq!([update.decisions, update.open_questions].concat(), ["so, since", "why?"]);
        let References { prs, issues, external } = update.references;
        assert_eq!([prs, issues, external].concat(), ["p", "i", "e"]);
        let Evidence { files, commands, tests, commits } = update.evidence;
        assert_eq!([files, commands, tests, commits].concat(), ["a", "x", "t", "c"]);
    }

    #[test]
    fn exceeded_bounds_are_named() {
        let text = |field: &str, bytes| serde_json::json!({field: "x".repeat(bytes)});
        assert!(from_value(&text("summary", SUMMARY_BYTES_MAX)).is_ok());
        assert_eq!(
            from_value(&text("summary", SUMMARY_BYTES_MAX + 1)),
            Err(UpdateError::TooLarge {
                field: "summary",
                size: SUMMARY_BYTES_MAX + 1,
                max: SUMMARY_BYTES_MAX
            })
        );
        assert!(from_value(&text("next", TEXT_BYTES_MAX)).is_ok());
        assert!(from_value(&text("next", TEXT_BYTES_MAX + 1)).is_err());
        let list = |entries| serde_json::json!({"blockers": vec!["b"; entries]});
        assert!(from_value(&list(LIST_MAX)).is_ok());
        assert!(from_value(&list(LIST_MAX + 1)).is_err());
    }

    #[test]
    fn target_of_an_update_is_never_guessed() {
        let bare = r#"{"overseerUpdate":{"status":"done"}}"#;
        assert!(from_text(bare, 1).is_ok());
        assert_eq!(from_text(bare, 2), Err(UpdateError::Ambiguous(2)));
        let named = r#"{"overseerUpdate":{"workNodeId":"T1.1","status":"done"}}"#;
        assert!(from_text(named, 2).is_ok());
    }
}
