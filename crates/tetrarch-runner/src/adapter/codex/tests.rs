//! What `codex` is written and what its calls come to, with lines as version 0.169.0 wrote them.

mod asking;

use tetrarch_core::brief::{Outcome, Tools};
use tetrarch_core::id::{RequestId, Ulid};
use tetrarch_core::order::RunnerEvent;
use tetrarch_core::permission::{PermissionAction, PermissionList, PermissionRule, Permissions};
use tetrarch_core::verb::{Command, Stage, Wanted};

use super::*;
use crate::adapter::dialect::{Dialect, uuid};
use crate::adapter::session::{AgentSession, SessionBrief};
use crate::adapter::{AgentDelivery, AgentInput, AgentOutput};
use crate::protocol::ProgramEvent;

const STEER: u128 = 0x019a_bcde_0001_0002_0003_0000_0000_0007;
const INTERRUPT: u128 = 0x019a_bcde_0001_0002_0003_0000_0000_0008;

fn id(number: u128) -> RequestId {
    RequestId(Ulid::from(number))
}

fn command(number: u128, wanted: Wanted) -> Command {
    Command { id: id(number), by: "human:ada".parse().unwrap(), wanted }
}

fn steer() -> Command {
    command(STEER, Wanted::Steer { text: "left".to_owned() })
}

fn interrupt() -> Command {
    command(INTERRUPT, Wanted::Interrupt { reason: "wrong".to_owned() })
}

/// A session that is told its brief when its thread is open.
fn session(list: &[&str], resumes: Option<&str>) -> AgentSession {
    let (tools, first) = (list.iter().copied().collect::<Tools>(), "go".to_owned());
    let brief = SessionBrief {
        tools,
        permissions: Permissions::default(),
        first,
        using: Vec::new(),
        reviews: false,
        base: 0,
    };
    let resumes = resumes.map(str::to_owned);
    let codex = Codex::new(CodexThread { resumes, system: "rules".to_owned(), schema: None });
    AgentSession::new(SHEET, Dialect::Codex(Box::new(codex)), brief)
}

/// One whose thread is open and whose first turn `t1` runs.
fn working(list: &[&str]) -> AgentSession {
    let mut it = session(list, None);
    it.first_line("/w");
    hear(&mut it, &opened(2));
    hear(&mut it, &joins(3, "t1"));
    hear(&mut it, &begins("t1"));
    hear(&mut it, &reads(1));
    it
}

fn calls(bytes: &[u8]) -> Vec<Value> {
    let text = str::from_utf8(bytes).unwrap();
    assert!(text.ends_with('\n'), "whole lines");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn said(output: &AgentOutput) -> Vec<Value> {
    let of = |input: &AgentInput| match input {
        AgentInput::Line(line) => calls(line),
        AgentInput::Close => vec![json!("close")],
    };
    output.inputs.iter().flat_map(of).collect()
}

fn line_of(told: AgentDelivery) -> Vec<Value> {
    let AgentDelivery::Line(line) = told else { panic!("{told:?}") };
    calls(&line)
}

fn hear(it: &mut AgentSession, line: &Value) -> AgentOutput {
    it.read(line.to_string().as_bytes())
}

fn opened(call: u64) -> Value {
    json!({"id": call, "result": {"thread": {"id": "th"}, "model": "m"}})
}

fn joins(call: u64, turn: &str) -> Value {
    json!({"id": call, "result": {"turn": {"id": turn, "status": "inProgress"}}})
}

fn begins(turn: &str) -> Value {
    json!({"method": "turn/started", "params": {"threadId": "th", "turn": {"id": turn}}})
}

fn reads(message: u128) -> Value {
    item("started", json!({"type": "userMessage", "id": "u", "clientId": uuid(message)}))
}

fn item(what: &str, item: Value) -> Value {
    json!({"method": format!("item/{what}"), "params": {"threadId": "th", "item": item}})
}

fn says(text: &str) -> Value {
    item("completed", json!({"type": "agentMessage", "id": "m", "text": text}))
}

fn ends(turn: &str, status: &str, error: &str) -> Value {
    let error = (!error.is_empty()).then(|| json!({"message": error, "codexErrorInfo": "other"}));
    let turn = json!({"id": turn, "status": status, "error": error, "items": []});
    json!({"method": "turn/completed", "params": {"threadId": "th", "turn": turn}})
}

fn asks(command: &str) -> Value {
    let params = json!({"kind": "command", "itemId": "c1", "command": command});
    json!({"id": 0, "method": "item/commandExecution/requestApproval", "params": params})
}

/// The outcome of the result that an output tells, with its deliverable and error.
fn result(output: &AgentOutput) -> Option<(Outcome, Value, String)> {
    output.events.iter().find_map(|event| {
        let ProgramEvent::Result { result, deliverable, .. } = event else { return None };
        Some((result.outcome, deliverable.clone(), result.error.clone()))
    })
}

fn has(output: &AgentOutput, event: &ProgramEvent) -> bool {
    output.events.contains(event)
}

fn receipt(number: u128, stage: Stage, why: &str) -> ProgramEvent {
    ProgramEvent::Plain(RunnerEvent::Receipt { id: id(number), stage, why: why.to_owned() })
}

#[test]
fn thread_is_opened_and_told_the_brief_once() {
    let mut it = session(&[], None);
    let first = calls(&it.first_line("/w"));
    let methods: Vec<&str> = first.iter().map(|call| call["method"].as_str().unwrap()).collect();
    assert_eq!(methods, ["initialize", "initialized", "thread/start"]);
    let wanted = &first[2]["params"];
    assert_eq!(wanted["developerInstructions"], "rules");
    // A thread that could write would trust what the repository says in its own settings.
    assert_eq!(
        (&wanted["sandbox"], &wanted["approvalPolicy"]),
        (&json!("read-only"), &json!("untrusted"))
    );
    let hello =
        json!({"id": 1, "result": {"userAgent": "tetrarch/0.169.0 (Debian 12; x86_64) unknown"}});
    assert_eq!(hear(&mut it, &hello), AgentOutput::default());
    let output = hear(&mut it, &opened(2));
    assert_eq!(output.note.as_deref(), Some("codex 0.169.0, model m"));
    let [turn] = &said(&output)[..] else { panic!("{output:?}") };
    let params = &turn["params"];
    assert_eq!((&turn["method"], &params["threadId"]), (&json!("turn/start"), &json!("th")));
    assert_eq!(
        (&params["input"][0]["text"], &params["clientUserMessageId"]),
        (&json!("go"), &json!(uuid(1)))
    );
    assert_eq!(params["sandboxPolicy"]["type"], "externalSandbox", "its host isolates it");
    let output = hear(&mut it, &reads(1));
    assert!(has(&output, &ProgramEvent::Turn { begins: true }), "{output:?}");
    let output = hear(&mut it, &reads(1));
    assert!(!has(&output, &ProgramEvent::Turn { begins: true }), "again: {output:?}");
}

#[test]
fn thread_is_gone_on_with_or_begun_anew_when_it_is_not_known() {
    let mut it = session(&[], Some("old"));
    let first = calls(&it.first_line("/w"));
    let params = &first[2]["params"];
    assert_eq!(
        (&first[2]["method"], &params["threadId"]),
        (&json!("thread/resume"), &json!("old"))
    );
    assert_eq!(params["excludeTurns"], true, "a line has a limit");
    let told = said(&hear(&mut it, &opened(2)));
    assert!(
        told[0]["params"]["input"][0]["text"].as_str().unwrap().contains("Go on where you were")
    );

    let mut lost = session(&[], Some("old"));
    lost.first_line("/w");
    let error = json!({"id": 2, "error": {"code": -32600, "message": "no rollout found"}});
    let again = said(&hear(&mut lost, &error));
    assert_eq!(again[0]["method"], "thread/start");
    let told = said(&hear(&mut lost, &opened(3)));
    assert_eq!(told[0]["params"]["input"][0]["text"], "go");

    let mut failed = session(&[], None);
    failed.first_line("/w");
    let (outcome, _, error) = result(&hear(&mut failed, &error)).unwrap();
    assert!(outcome == Outcome::Failure && error.contains("no rollout found"), "{error}");
}

#[test]
fn words_of_a_completed_turn_are_the_result() {
    let mut it = working(&[]);
    hear(&mut it, &says("first"));
    hear(&mut it, &says("done"));
    let last = result(&hear(&mut it, &ends("t1", "completed", "")));
    assert_eq!(last, Some((Outcome::Success, json!("done"), String::new())));
    let mut it = working(&[]);
    hear(&mut it, &says("half"));
    let last = result(&hear(&mut it, &ends("t1", "failed", "status 429")));
    assert_eq!(last, Some((Outcome::Failure, Value::Null, "status 429".to_owned())));
    let last = result(&hear(&mut working(&[]), &ends("t1", "odd", "")));
    assert_eq!(last.map(|it| it.2), Some("odd".to_owned()));
}

#[test]
fn steer_is_taken_when_it_is_read_and_one_that_was_not_begins_a_turn() {
    let mut it = working(&[]);
    let steered = line_of(it.verb(&steer()));
    assert_eq!(steered[0]["params"]["input"][0]["text"], "[steer from human:ada]\nleft");
    hear(&mut it, &joins(4, "t1"));
    // Its turn is over before it has read the steer: that is not the end of the run.
    let output = hear(&mut it, &ends("t1", "completed", ""));
    assert_eq!((result(&output), said(&output).len()), (None, 1));
    hear(&mut it, &joins(5, "t2"));
    hear(&mut it, &begins("t2"));
    assert!(has(&hear(&mut it, &reads(STEER)), &ProgramEvent::Taken(id(STEER))));
    hear(&mut it, &says("left it is"));
    let last = result(&hear(&mut it, &ends("t2", "completed", "")));
    assert_eq!(last.map(|it| it.1), Some(json!("left it is")));
}

#[test]
fn steer_before_the_thread_is_open_waits_behind_the_brief() {
    let mut it = session(&[], None);
    it.first_line("/w");
    assert_eq!(it.verb(&steer()), AgentDelivery::Held);
    assert_eq!(it.message("news", 5), AgentDelivery::Held);
    let output = hear(&mut it, &opened(2));
    let texts: Vec<String> =
        said(&output).iter().map(|call| call["params"]["input"][0]["text"].to_string()).collect();
    assert_eq!(texts, [r#""go""#, r#""[steer from human:ada]\nleft""#, r#""news""#]);
    assert!(has(&output, &receipt(STEER, Stage::Delivered, "")), "{output:?}");
    assert!(has(&output, &ProgramEvent::Plain(RunnerEvent::Taken { place: 5 })), "{output:?}");
    for _ in 0..40 {
        it.message("more", 0);
    }
    assert!(matches!(it.verb(&steer()), AgentDelivery::Refused(_)), "there is a bound");
}

#[test]
fn interrupted_turn_waits_and_what_it_had_not_read_is_refused() {
    let mut it = working(&[]);
    line_of(it.verb(&steer()));
    hear(&mut it, &joins(4, "t1"));
    let call = line_of(it.verb(&interrupt()));
    assert_eq!(call[0]["params"], json!({"threadId": "th", "turnId": "t1"}));
    let done = json!({"id": 5, "result": {}});
    assert!(has(&hear(&mut it, &done), &ProgramEvent::Taken(id(INTERRUPT))));
    let output = hear(&mut it, &ends("t1", "interrupted", ""));
    assert!(has(&output, &receipt(STEER, Stage::Refused, ABORTED)), "{output:?}");
    assert_eq!(result(&output), None);
    assert_eq!(
        said(&output)[0]["method"],
        "thread/backgroundTerminals/clean",
        "commands may go on"
    );
    // Nothing runs that could be interrupted.
    assert_eq!(it.verb(&interrupt()), AgentDelivery::Done);
    line_of(it.verb(&steer()));
    hear(&mut it, &joins(7, "t2"));
    hear(&mut it, &begins("t2"));
    hear(&mut it, &reads(STEER));
    hear(&mut it, &says("left it is"));
    let last = result(&hear(&mut it, &ends("t2", "completed", "")));
    assert_eq!(last.map(|it| it.1), Some(json!("left it is")));
}

#[test]
fn message_that_joins_a_turn_which_is_over_is_refused() {
    let mut it = working(&[]);
    line_of(it.verb(&steer()));
    line_of(it.verb(&interrupt()));
    hear(&mut it, &ends("t1", "interrupted", ""));
    let output = hear(&mut it, &joins(4, "t1"));
    assert!(has(&output, &receipt(STEER, Stage::Refused, ABORTED)), "{output:?}");
    let mut it = working(&[]);
    line_of(it.verb(&steer()));
    let error = json!({"id": 4, "error": {"message": "no"}});
    let output = hear(&mut it, &error);
    assert!(has(&output, &receipt(STEER, Stage::Refused, "no")), "{output:?}");
    assert_eq!(result(&output), None, "its turn goes on");
}

#[test]
fn interrupt_before_a_turn_begins_waits_for_it() {
    let mut it = session(&[], None);
    it.first_line("/w");
    hear(&mut it, &opened(2));
    hear(&mut it, &joins(3, "t1"));
    assert_eq!(it.verb(&interrupt()), AgentDelivery::Held);
    let call = said(&hear(&mut it, &begins("t1")));
    assert_eq!(call[0]["method"], "turn/interrupt");
    let output = hear(&mut it, &json!({"id": 4, "result": {}}));
    let delivered = receipt(INTERRUPT, Stage::Delivered, "");
    assert!(has(&output, &delivered) && has(&output, &ProgramEvent::Taken(id(INTERRUPT))));
}

#[test]
fn stop_aborts_the_turn_and_closes_the_input() {
    let mut it = working(&[]);
    let Some(AgentInput::Line(line)) = it.stop("enough") else { panic!("it works") };
    assert_eq!(calls(&line)[0]["method"], "turn/interrupt");
    assert_eq!(said(&hear(&mut it, &json!({"id": 4, "result": {}}))), [json!("close")]);
    let last = result(&hear(&mut it, &ends("t1", "interrupted", "")));
    assert_eq!(last, Some((Outcome::Cancelled, Value::Null, "stopped: enough".to_owned())));

    let mut starting = session(&[], None);
    starting.first_line("/w");
    assert_eq!(starting.stop("enough"), None, "it waits for the turn");
    hear(&mut starting, &opened(2));
    hear(&mut starting, &joins(3, "t1"));
    assert_eq!(said(&hear(&mut starting, &begins("t1")))[0]["method"], "turn/interrupt");

    let mut waits = working(&[]);
    line_of(waits.verb(&interrupt()));
    hear(&mut waits, &ends("t1", "interrupted", ""));
    assert_eq!(waits.stop("enough"), Some(AgentInput::Close));

    let mut rotated = working(&[]);
    assert!(matches!(rotated.rotate(), Some(AgentInput::Line(_))));
    let output = hear(&mut rotated, &ends("t1", "interrupted", ""));
    assert_eq!((result(&output), said(&output).last()), (None, Some(&json!("close"))));
}

#[test]
fn usage_is_of_this_program_alone_and_never_shrinks() {
    let used = |turn: &str, total: u64, last: u64| {
        let of = |tokens: u64| json!({"inputTokens": tokens, "outputTokens": tokens / 10});
        let usage = json!({"total": of(total), "last": of(last)});
        json!({"method": "thread/tokenUsage/updated", "params": {"turnId": turn, "tokenUsage": usage}})
    };
    let mut it = working(&[]);
    // An earlier program's turn is told again.
    assert_eq!(hear(&mut it, &used("t0", 1_000, 500)), AgentOutput::default());
    for (total, last, tokens_in, tokens_out, turns) in
        [(1_100, 100, 100, 10, 1), (1_300, 200, 300, 30, 2), (200, 100, 300, 30, 3)]
    {
        let usage = Usage { tokens_in, tokens_out, cost_micro: 0, turns };
        assert_eq!(
            hear(&mut it, &used("t1", total, last)),
            AgentOutput::event(ProgramEvent::Usage(usage))
        );
    }
}

#[test]
fn model_errors_block_until_it_answers_and_a_refused_key_ends_it() {
    let retry = |info: Value, retries: bool| {
        let error = json!({"message": "Reconnecting... 1/5", "codexErrorInfo": info, "additionalDetails": "why"});
        json!({"method": "error", "params": {"error": error, "willRetry": retries}})
    };
    let status = |status: u64| json!({"responseStreamDisconnected": {"httpStatusCode": status}});
    let mut it = working(&[]);
    for (info, reason) in [
        (status(429), "rate_limited: HTTP 429, why"),
        (status(503), "model_unavailable: HTTP 503, why"),
        (json!("other"), "model_unavailable: no answer, why"),
        (
            json!({"responseStreamDisconnected": {"httpStatusCode": null}}),
            "model_unavailable: no answer, why",
        ),
    ] {
        let output = hear(&mut it, &retry(info.clone(), true));
        assert_eq!(output, AgentOutput::plain(RunnerEvent::Blocked { reason: reason.to_owned() }));
        assert_eq!(
            hear(&mut it, &retry(info, false)),
            AgentOutput::default(),
            "its turn's end says it"
        );
    }
    let first = hear(&mut it, &item("started", json!({"type": "reasoning", "id": "r"}))).events;
    let using = RunnerEvent::Using { tool: String::new() };
    assert_eq!(first, [RunnerEvent::Unblocked, using].map(ProgramEvent::Plain));
    let output = hear(&mut it, &retry(status(401), true));
    let (outcome, _, error) = result(&output).unwrap();
    assert!(outcome == Outcome::Failure && error.contains("keyFrom"), "{error}");
    assert_eq!(said(&output)[0]["method"], "turn/interrupt");
}

#[test]
fn garbage_unknown_and_cut_lines_are_text_or_answered() {
    let mut it = working(&["*"]);
    for line in [
        &b"codex could not start"[..],
        b"",
        b"{",
        b"[1]",
        b"{}",
        b"\xff{",
        b"{\"id\":99,\"result\":{}}",
    ] {
        assert_eq!(it.read(line), AgentOutput::text(), "{line:?}");
    }
    assert_eq!(hear(&mut it, &json!({"method": "brand/new", "params": {}})), AgentOutput::text());
    assert!(it.unknown().unwrap().contains("1 of `brand/new`"));
    for quiet in ["thread/status/changed", "configWarning"] {
        assert_eq!(hear(&mut it, &json!({"method": quiet, "params": {}})), AgentOutput::default());
    }
    let cut =
        r#"{"method":"item/commandExecution/requestApproval","id":4,"params":{"command":"aaaa"#;
    let output = it.read_cut(cut.as_bytes());
    let answer = &said(&output)[0];
    assert_eq!((&answer["id"], output.is_text), (&json!(4), true));
    assert!(answer["error"]["message"].as_str().unwrap().contains("too long"), "{answer}");
    assert_eq!(
        it.read_cut(br#"{"method":"item/completed","params":{"item":"#),
        AgentOutput::text()
    );
    let long = it.read_cut(br#"{"method":"turn/completed","params":{"turn":{"id":"t1","items":["#);
    let (outcome, _, error) = result(&long).unwrap();
    assert!(outcome == Outcome::Failure && error.contains("too long"), "{error}");
}

proptest::proptest! {
    #[test]
    fn any_line_is_read(bytes: Vec<u8>) {
        let mut it = working(&["run"]);
        let whole = it.read(&bytes);
        let cut = it.read_cut(&bytes);
        proptest::prop_assert!(whole.events.len() + cut.events.len() < 8);
    }
}
