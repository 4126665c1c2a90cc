//! Lines from the program: a total reader. Any bytes give an event or log text, never an error
//! that ends anything.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tetrarch_core::brief::{Evidence, Finding, Judgement, Outcome, RunResult, Usage, Verdict};
use tetrarch_core::budget::Spend;
use tetrarch_core::id::RequestId;
use tetrarch_core::limits::{
    CALL_NAME_BYTES_MAX, INSTRUCTION_BYTES_MAX, LIST_MAX, SUMMARY_BYTES_MAX, TEXT_BYTES_MAX,
};
use tetrarch_core::order::RunnerEvent;
use tetrarch_core::overseer::update;
use tetrarch_core::plan::schema::snake_case;
use tetrarch_core::verb::Verb;

use crate::gateway;
use crate::lines::start_of;
use crate::protocol::slips;

/// Longest name of an operation that is passed on, in bytes.
const OP_BYTES_MAX: usize = 128;

/// What a line of output is.
#[derive(Debug, PartialEq)]
pub(crate) enum ProgramLine {
    /// An event.
    Event(ProgramEvent),
    /// No event.
    Text,
    /// What is taken as it is written, though something else was probably meant.
    Slip {
        /// Its type, as it is written.
        kind: String,
        /// What is to be said of it.
        note: String,
        /// The event that it is; none when it is text.
        event: Option<ProgramEvent>,
    },
    /// An object of a known type whose fields are wrong.
    Malformed {
        /// What is wrong.
        error: String,
        /// Whether it was meant to be the run's result.
        result: bool,
    },
}

/// An event in the program's words.
#[derive(Debug, PartialEq)]
pub(crate) enum ProgramEvent {
    /// One that needs nothing more.
    Plain(RunnerEvent),
    /// Totals so far.
    Usage(Usage),
    /// A file to keep.
    Artifact(NamedFile),
    /// Which verbs it takes.
    Takes(BTreeSet<Verb>),
    /// It has taken a verb.
    Taken(RequestId),
    /// A turn begins, or is over.
    Turn {
        /// Whether it begins.
        begins: bool,
    },
    /// What it came to.
    Result {
        /// What it came to, its deliverable as text.
        result: Box<RunResult>,
        /// The deliverable as it was given; null when there is none.
        deliverable: Value,
        /// Files to keep.
        files: Vec<NamedFile>,
    },
}

/// A file as a program names it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NamedFile {
    pub(crate) name: String,
    pub(crate) path: String,
    #[serde(alias = "media_type")]
    pub(crate) media_type: Option<String>,
}

/// A line with its fields, by its `type`.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
enum TypedLine {
    Progress {
        text: String,
        done: Option<u64>,
        total: Option<u64>,
    },
    Usage(UsageFields),
    Call(CallFields),
    Spent(CallFields),
    Checkpoint {
        state: Value,
        #[serde(default)]
        confirm: bool,
    },
    Ask {
        question: String,
        options: Option<Vec<String>>,
    },
    Blocked {
        reason: String,
    },
    Unblocked,
    Spawn(Map<String, Value>),
    Update {
        #[serde(alias = "overseer_update")]
        overseer_update: Map<String, Value>,
    },
    Op {
        op: String,
        body: Option<Map<String, Value>>,
        #[serde(alias = "request_id")]
        request_id: Option<String>,
    },
    Mail {
        to: String,
        text: String,
        #[serde(alias = "request_id")]
        request_id: Option<String>,
    },
    Takes {
        verbs: Vec<String>,
    },
    Taken {
        id: String,
    },
    StepStarted,
    StepEnded,
    Artifact(NamedFile),
    Result(Box<ResultFields>),
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UsageFields {
    #[serde(alias = "tokens_in")]
    tokens_in: Option<u64>,
    #[serde(alias = "tokens_out")]
    tokens_out: Option<u64>,
    #[serde(alias = "cost_usd")]
    cost_usd: Option<f64>,
    turns: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CallFields {
    call: String,
    tokens: Option<u64>,
    #[serde(alias = "cost_usd")]
    cost_usd: Option<f64>,
    turns: Option<u64>,
}

#[derive(Deserialize)]
struct ResultFields {
    outcome: String,
    deliverable: Option<Value>,
    partial: Option<String>,
    artifacts: Option<Vec<NamedFile>>,
    evidence: Option<EvidenceFields>,
    crystallization: Option<String>,
    verdict: Option<VerdictFields>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct EvidenceFields {
    files: Option<Vec<String>>,
    commands: Option<Vec<String>>,
    tests: Option<Vec<String>>,
    commits: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct VerdictFields {
    verdict: String,
    findings: Option<Vec<FindingFields>>,
}

#[derive(Deserialize)]
struct FindingFields {
    #[serde(rename = "where")]
    place: Option<String>,
    what: String,
    severity: Option<String>,
}

/// Reads one line.
pub(crate) fn read(line: &[u8]) -> ProgramLine {
    if line.trim_ascii_start().first() != Some(&b'{') {
        return ProgramLine::Text;
    }
    let Ok(Value::Object(fields)) = serde_json::from_slice(line) else {
        return ProgramLine::Text;
    };
    let Some(Value::String(kind)) = fields.get("type").cloned() else {
        return ProgramLine::Text;
    };
    let result = kind == "result" && fields.contains_key("outcome");
    let unread = if kind == "usage" { slips::of_usage(&fields) } else { None };
    match parse(fields).and_then(event) {
        Ok(event) => match unread.or_else(|| slips::of_type(&kind).filter(|_| event.is_none())) {
            Some(note) => ProgramLine::Slip { kind, note, event },
            None => event.map_or(ProgramLine::Text, ProgramLine::Event),
        },
        Err(error) => ProgramLine::Malformed { error: format!("`{kind}`: {error}"), result },
    }
}

fn event(told: TypedLine) -> Result<Option<ProgramEvent>, String> {
    Ok(Some(ProgramEvent::Plain(match told {
        TypedLine::Progress { text, done, total } => {
            RunnerEvent::Progress { text: cut(text, TEXT_BYTES_MAX), done, total }
        }
        TypedLine::Call(fields) => {
            let (call, worst) = call(fields)?;
            RunnerEvent::SetAside { call, worst }
        }
        TypedLine::Spent(fields) => {
            let (call, used) = call(fields)?;
            RunnerEvent::Spent { call, used }
        }
        TypedLine::Checkpoint { state, confirm } => {
            RunnerEvent::Checkpoint { state: state.to_string(), confirm }
        }
        TypedLine::Ask { question, options } => {
            let question = cut(question, INSTRUCTION_BYTES_MAX);
            RunnerEvent::Ask { id: None, question, options: texts(options) }
        }
        TypedLine::Blocked { reason } => {
            RunnerEvent::Blocked { reason: cut(reason, TEXT_BYTES_MAX) }
        }
        TypedLine::Unblocked => RunnerEvent::Unblocked,
        TypedLine::Spawn(fields) => RunnerEvent::Spawn { request: spawn(fields)? },
        TypedLine::Update { overseer_update } => {
            let update = Value::Object(overseer_update);
            update::from_value(&update).map_err(|error| error.to_string())?;
            RunnerEvent::Update { update: update.to_string() }
        }
        TypedLine::Op { op, body, request_id } => {
            let body = Value::Object(body.unwrap_or_default()).to_string();
            RunnerEvent::Operate { id: given_id(request_id)?, op: cut(op, OP_BYTES_MAX), body }
        }
        TypedLine::Mail { to, text, request_id } => {
            RunnerEvent::Write { id: given_id(request_id)?, to: cut(to, TEXT_BYTES_MAX), text }
        }
        TypedLine::Usage(fields) => return Ok(Some(ProgramEvent::Usage(usage(&fields)?))),
        TypedLine::Takes { verbs } => return takes(&verbs).map(Some),
        TypedLine::Taken { id } => {
            let id = id.parse().map_err(|_| "`id` is not the id of a verb".to_owned())?;
            return Ok(Some(ProgramEvent::Taken(id)));
        }
        TypedLine::StepStarted => return Ok(Some(ProgramEvent::Turn { begins: true })),
        TypedLine::StepEnded => return Ok(Some(ProgramEvent::Turn { begins: false })),
        TypedLine::Artifact(file) => return Ok(Some(ProgramEvent::Artifact(file))),
        TypedLine::Result(fields) => return result(*fields).map(Some),
        TypedLine::Other => return Ok(None),
    })))
}

/// Reads the fields of a `result`.
///
/// # Errors
/// What is wrong with them.
pub(crate) fn read_result(fields: Map<String, Value>) -> Result<ProgramEvent, String> {
    result(parse(fields)?)
}

fn parse<T: DeserializeOwned>(fields: Map<String, Value>) -> Result<T, String> {
    serde_json::from_value(Value::Object(fields)).map_err(|cause| cause.to_string())
}

fn given_id(text: Option<String>) -> Result<Option<RequestId>, String> {
    let wrong = |_| "`requestId` is not a request id".to_owned();
    text.map(|text| text.parse().map_err(wrong)).transpose()
}

fn takes(verbs: &[String]) -> Result<ProgramEvent, String> {
    let verbs = verbs.iter().map(|word| match Verb::parse(word) {
        Some(Verb::Resume) | None => {
            let word = start_of(word, 64);
            Err(format!("`{word}` is unknown; allowed: steer, interrupt, pause"))
        }
        Some(verb @ (Verb::Steer | Verb::Interrupt | Verb::Pause)) => Ok(verb),
    });
    verbs.collect::<Result<_, _>>().map(ProgramEvent::Takes)
}

fn spawn(fields: Map<String, Value>) -> Result<String, String> {
    let wanted = fields.get("requestedSubagents").or_else(|| fields.get("requested_subagents"));
    match wanted {
        Some(Value::Array(_)) => Ok(Value::Object(fields).to_string()),
        Some(_) | None => Err("`requestedSubagents` must be a list".to_owned()),
    }
}

fn usage(fields: &UsageFields) -> Result<Usage, String> {
    Ok(Usage {
        tokens_in: fields.tokens_in.unwrap_or(0),
        tokens_out: fields.tokens_out.unwrap_or(0),
        cost_micro: micro(fields.cost_usd)?.round() as u64,
        turns: fields.turns.unwrap_or(0),
    })
}

fn call(fields: CallFields) -> Result<(String, Spend), String> {
    let CallFields { call, tokens, cost_usd, turns } = fields;
    if call.is_empty() || call.len() > CALL_NAME_BYTES_MAX {
        return Err(format!(
            "`call` has {} bytes; allowed: 1 to {CALL_NAME_BYTES_MAX}",
            call.len()
        ));
    }
    if call.starts_with(gateway::CALLS) {
        return Err(format!(
            "`call` begins with `{}`, as the host's own do; use another name",
            gateway::CALLS
        ));
    }
    // A part of a millionth is a millionth: what is set aside is never less than it may cost.
    let cost_micro = (micro(cost_usd)? - 1e-3).ceil() as u64;
    let amount = Spend { tokens: tokens.unwrap_or(0), cost_micro, turns: turns.unwrap_or(0) };
    Ok((call, amount))
}

/// Dollars in millionths.
fn micro(dollars: Option<f64>) -> Result<f64, String> {
    let dollars = dollars.unwrap_or(0.0);
    if !dollars.is_finite() || dollars < 0.0 {
        return Err(format!("`costUsd` is {dollars}, it must be 0 or more"));
    }
    Ok(dollars * 1e6)
}

fn result(fields: ResultFields) -> Result<ProgramEvent, String> {
    let outcome = Outcome::parse(&snake_case(&fields.outcome)).ok_or_else(|| {
        let known = Outcome::ALL.map(Outcome::as_str).join(", ");
        format!("unknown outcome `{}`; allowed: {known}", start_of(&fields.outcome, 64))
    })?;
    let mut result =
        RunResult::ended(outcome, cut(fields.error.unwrap_or_default(), TEXT_BYTES_MAX));
    let deliverable = fields.deliverable.unwrap_or_default();
    result.deliverable = match &deliverable {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            deliverable.to_string()
        }
    };
    result.partial = fields.partial.unwrap_or_default();
    result.crystallization = cut(fields.crystallization.unwrap_or_default(), SUMMARY_BYTES_MAX);
    result.evidence = fields.evidence.map(evidence).unwrap_or_default();
    result.verdict = fields.verdict.map(verdict).transpose()?;
    let files = fields.artifacts.unwrap_or_default();
    Ok(ProgramEvent::Result { result: Box::new(result), deliverable, files })
}

fn evidence(fields: EvidenceFields) -> Evidence {
    Evidence {
        files: texts(fields.files),
        commands: texts(fields.commands),
        tests: texts(fields.tests),
        commits: texts(fields.commits),
    }
}

fn verdict(fields: VerdictFields) -> Result<Verdict, String> {
    let judgement = Judgement::parse(&snake_case(&fields.verdict)).ok_or_else(|| {
        let known = Judgement::ALL.map(Judgement::as_str).join(", ");
        format!("unknown verdict `{}`; allowed: {known}", start_of(&fields.verdict, 64))
    })?;
    let findings = fields.findings.unwrap_or_default().into_iter().take(LIST_MAX);
    let findings = findings
        .map(|finding| Finding {
            place: cut(finding.place.unwrap_or_default(), TEXT_BYTES_MAX),
            what: cut(finding.what, TEXT_BYTES_MAX),
            severity: cut(finding.severity.unwrap_or_default(), TEXT_BYTES_MAX),
        })
        .collect();
    Ok(Verdict { judgement, findings })
}

fn texts(list: Option<Vec<String>>) -> Vec<String> {
    let list = list.unwrap_or_default().into_iter().take(LIST_MAX);
    list.map(|text| cut(text, TEXT_BYTES_MAX)).collect()
}

fn cut(text: String, max: usize) -> String {
    if text.len() <= max { text } else { start_of(&text, max).to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(line: &str) -> ProgramEvent {
        match read(line.as_bytes()) {
            ProgramLine::Event(told) => told,
            other @ (ProgramLine::Text
            | ProgramLine::Slip { .. }
            | ProgramLine::Malformed { .. }) => {
                panic!("{line}: {other:?}")
            }
        }
    }

    #[test]
    fn both_event_spellings_agree() {
        let pairs = [
            (
                r#"{"type":"usage","tokensIn":1,"tokensOut":2,"costUsd":0.0000015,"turns":3}"#,
                r#"{"type":"usage","tokens_in":1,"tokens_out":2,"cost_usd":0.0000015,"turns":3}"#,
            ),
            (
                r#"{"type":"result","outcome":"budgetExceeded","artifacts":[{"name":"a","path":"p","mediaType":"t"}]}"#,
                r#"{"type":"result","outcome":"budget_exceeded","artifacts":[{"name":"a","path":"p","media_type":"t"}]}"#,
            ),
            (
                r#"{"type":"update","overseerUpdate":{"status":"done"}}"#,
                r#"{"type":"update","overseer_update":{"status":"done"}}"#,
            ),
        ];
        for (camel, snake) in pairs {
            assert_eq!(told(camel), told(snake));
        }
        let usage = Usage { tokens_in: 1, tokens_out: 2, cost_micro: 2, turns: 3 };
        assert_eq!(told(pairs[0].0), ProgramEvent::Usage(usage));
    }

    #[test]
    fn fraction_of_a_micro_dollar_is_rounded_up() {
        for (dollars, cost_micro) in
            [("0", 0), ("0.000001", 1), ("0.0000011", 2), ("2.5", 2_500_000)]
        {
            let line = format!(r#"{{"type":"call","call":"a","costUsd":{dollars},"turns":1}}"#);
            let worst = Spend { tokens: 0, cost_micro, turns: 1 };
            let asked = RunnerEvent::SetAside { call: "a".to_owned(), worst };
            assert_eq!(told(&line), ProgramEvent::Plain(asked), "{dollars}");
        }
        let over = RunnerEvent::Spent {
            call: "a".to_owned(),
            used: Spend { tokens: 7, ..Spend::default() },
        };
        assert_eq!(told(r#"{"type":"spent","call":"a","tokens":7}"#), ProgramEvent::Plain(over));
        for kind in ["call", "spent"] {
            let line = format!(r#"{{"type":"{kind}","call":"gateway-0","tokens":0}}"#);
            let refused = read(line.as_bytes());
            assert!(matches!(refused, ProgramLine::Malformed { .. }), "{refused:?}");
        }
    }

    #[test]
    fn complete_result_is_parsed() {
        let line = r#"{"type":"result","outcome":"failure","deliverable":{"n":1},"partial":"half",
            "evidence":{"tests":["t ok"]},"crystallization":"c","error":"why","unknown":1,
            "verdict":{"verdict":"needsChanges","findings":[{"where":"a.rs:1","what":"w","severity":"low"}]}}"#;
        let ProgramEvent::Result { result, files, .. } = told(line) else { panic!("no result") };
        assert_eq!(result.outcome, Outcome::Failure);
        assert_eq!(result.deliverable, r#"{"n":1}"#);
        assert_eq!((result.partial.as_str(), result.error.as_str()), ("half", "why"));
        assert_eq!(result.evidence.tests, ["t ok"]);
        let verdict = result.verdict.unwrap();
        assert_eq!(verdict.judgement, Judgement::NeedsChanges);
        assert_eq!(verdict.findings[0].place, "a.rs:1");
        assert!(files.is_empty());
    }

    #[test]
    fn declared_and_taken_verbs_are_parsed() {
        let takes = told(r#"{"type":"takes","verbs":["steer","pause","steer"]}"#);
        assert_eq!(takes, ProgramEvent::Takes(BTreeSet::from([Verb::Steer, Verb::Pause])));
        let id = "01JD8Z5W6T4QK3M9X2V7B1N0AC";
        let taken = told(&format!(r#"{{"type":"taken","id":"{id}"}}"#));
        assert_eq!(taken, ProgramEvent::Taken(id.parse().unwrap()));
    }

    #[test]
    fn deliverable_is_text_or_json_as_text() {
        for (given, kept) in [("\"x\"", "x"), ("null", ""), ("[1]", "[1]"), ("7", "7")] {
            let line = format!(r#"{{"type":"result","outcome":"success","deliverable":{given}}}"#);
            let ProgramEvent::Result { result, .. } = told(&line) else { panic!("no result") };
            assert_eq!(result.deliverable, kept);
        }
    }

    #[test]
    fn invalid_fields_are_named_and_ignored() {
        let cases = [
            (r#"{"type":"progress"}"#, "text", false),
            (r#"{"type":"usage","costUsd":-1}"#, "costUsd", false),
            (r#"{"type":"usage","tokensIn":-1}"#, "-1", false),
            (r#"{"type":"call","tokens":1}"#, "call", false),
            (r#"{"type":"call","call":"","tokens":1}"#, "0 bytes", false),
            (r#"{"type":"call","call":"a","costUsd":-0.1}"#, "costUsd", false),
            (r#"{"type":"spent","call":"a","tokens":1.5}"#, "1.5", false),
            (r#"{"type":"spawn","requestedSubagents":{}}"#, "requestedSubagents", false),
            (r#"{"type":"update","overseerUpdate":"done"}"#, "string", false),
            (r#"{"type":"update","overseerUpdate":{"status":"finished"}}"#, "finished", false),
            (r#"{"type":"update","overseerUpdate":{"mood":"good"}}"#, "mood", false),
            (r#"{"type":"result","outcome":"ok"}"#, "ok", true),
            (r#"{"type":"result","outcome":"success","partial":5}"#, "5", true),
            (r#"{"type":"result","subtype":"success","result":"x"}"#, "outcome", false),
            (r#"{"type":"checkpoint"}"#, "state", false),
            (r#"{"type":"takes","verbs":["steer","resume"]}"#, "resume", false),
            (r#"{"type":"takes"}"#, "verbs", false),
            (r#"{"type":"taken","id":"1"}"#, "id", false),
        ];
        for (line, part, is_result) in cases {
            match read(line.as_bytes()) {
                ProgramLine::Malformed { error, result } => {
                    assert!(error.contains(part), "{line}: {error}");
                    assert_eq!(result, is_result, "{line}");
                }
                other @ (ProgramLine::Event(_) | ProgramLine::Text | ProgramLine::Slip { .. }) => {
                    panic!("{line}: {other:?}")
                }
            }
        }
    }

    #[test]
    fn any_other_line_is_text() {
        let deep = "[".repeat(10_000);
        let deep = format!(r#"{{"type":"checkpoint","state":{deep}"#);
        for line in
            ["", "hello", "{", "[1]", r#"{"a":1}"#, r#"{"type":7}"#, r#"{"type":"text"}"#, &deep]
        {
            assert_eq!(read(line.as_bytes()), ProgramLine::Text, "{line}");
        }
        assert_eq!(read(b"{\"type\":\"unblocked\xff\"}"), ProgramLine::Text);
    }

    #[test]
    fn long_texts_are_cut() {
        let line = format!(r#"{{"type":"blocked","reason":"{}"}}"#, "é".repeat(TEXT_BYTES_MAX));
        let ProgramEvent::Plain(RunnerEvent::Blocked { reason }) = told(&line) else {
            panic!("other")
        };
        assert_eq!(reason.len(), TEXT_BYTES_MAX);
    }
}
