//! What is written to `claude` and what its lines come to, with lines as version 2.1.330 wrote them.

mod asking;

use tetrarch_core::brief::{Outcome, RunResult, Tools, Usage};
use tetrarch_core::id::RequestId;
use tetrarch_core::order::RunnerEvent;
use tetrarch_core::permission::{PermissionAction, PermissionList, PermissionRule, Permissions};
use tetrarch_core::verb::{Command, Stage, Wanted};

use super::*;
use crate::adapter::dialect::Dialect;
use crate::adapter::session::{AgentSession, SessionBrief, UNKNOWN_MAX};
use crate::adapter::{AgentDelivery, AgentInput, AgentOutput};
use crate::protocol::ProgramEvent;

/// The number of a steer and of an interrupt.
const STEER: u128 = 0x019a_bcde_0001_0002_0003_0000_0000_0007;
const INTERRUPT: u128 = 0x019a_bcde_0001_0002_0003_0000_0000_0008;

fn id(number: u128) -> RequestId {
    RequestId(Ulid::from(number))
}

fn new(list: &[&str], reviews: bool) -> AgentSession {
    let (tools, first) = (list.iter().copied().collect::<Tools>(), "go".to_owned());
    let brief = SessionBrief {
        tools,
        permissions: Permissions::default(),
        first,
        using: Vec::new(),
        reviews,
        base: 0,
    };
    let claude = Claude::new(String::new(), false);
    AgentSession::new(SHEET, Dialect::Claude(Box::new(claude)), brief)
}

fn session(list: &[&str]) -> AgentSession {
    let mut session = new(list, false);
    session.first_line("/w");
    session
}

fn line_of(told: AgentDelivery) -> Vec<u8> {
    let AgentDelivery::Line(line) = told else { panic!("{told:?}") };
    line
}

fn json_of(line: &[u8]) -> Value {
    assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1, "one line, and whole");
    serde_json::from_slice(line).unwrap()
}

fn lines(output: &AgentOutput) -> Vec<Value> {
    let line = |input: &AgentInput| match input {
        AgentInput::Line(line) => json_of(line),
        AgentInput::Close => json!("close"),
    };
    output.inputs.iter().map(line).collect()
}

fn hear(session: &mut AgentSession, line: &Value) -> AgentOutput {
    session.read(line.to_string().as_bytes())
}

fn replay(number: u128) -> Value {
    json!({"type": "user", "message": {"role": "user", "content": "go"}, "uuid": uuid(number), "isReplay": true})
}

fn asks(tool: &str, input: Value) -> Value {
    let request =
        json!({"subtype": "can_use_tool", "tool_name": tool, "input": input, "tool_use_id": "t"});
    json!({"type": "control_request", "request_id": "r1", "request": request})
}

fn ends(text: &str) -> Value {
    json!({
        "total_cost_usd": 0.00014, "usage": {"input_tokens": 10, "output_tokens": 5}, "is_error": false,
        "subtype": "success", "result": text, "type": "result", "terminal_reason": "completed",
    })
}

fn aborted() -> Value {
    json!({
        "total_cost_usd": 0.00014, "usage": {"input_tokens": 10, "output_tokens": 5}, "is_error": true,
        "subtype": "error_during_execution", "errors": ["aborted"], "type": "result",
    })
}

fn steer(session: &mut AgentSession) -> Vec<u8> {
    let wanted = Wanted::Steer { text: "left".to_owned() };
    line_of(session.verb(&Command { id: id(STEER), by: "human:ada".parse().unwrap(), wanted }))
}

fn interrupts(session: &mut AgentSession) -> Vec<u8> {
    let wanted = Wanted::Interrupt { reason: "wrong".to_owned() };
    line_of(session.verb(&Command { id: id(INTERRUPT), by: "human:ada".parse().unwrap(), wanted }))
}

/// The outcome of the result that an output tells, with its deliverable and error.
fn result(output: &AgentOutput) -> Option<(Outcome, Value, String)> {
    let (result, deliverable) = told(output)?;
    Some((result.outcome, deliverable.clone(), result.error.clone()))
}

/// The result that an output tells, with its deliverable.
fn told(output: &AgentOutput) -> Option<(&RunResult, &Value)> {
    output.events.iter().find_map(|event| match event {
        ProgramEvent::Result { result, deliverable, .. } => Some((&**result, deliverable)),
        ProgramEvent::Plain(_)
        | ProgramEvent::Usage(_)
        | ProgramEvent::Artifact(_)
        | ProgramEvent::Takes(_)
        | ProgramEvent::Taken(_)
        | ProgramEvent::Turn { .. } => None,
    })
}

fn taken(output: &AgentOutput) -> Vec<RequestId> {
    let taken = |event: &ProgramEvent| match event {
        ProgramEvent::Taken(id) => Some(*id),
        ProgramEvent::Plain(_)
        | ProgramEvent::Usage(_)
        | ProgramEvent::Artifact(_)
        | ProgramEvent::Takes(_)
        | ProgramEvent::Result { .. }
        | ProgramEvent::Turn { .. } => None,
    };
    output.events.iter().filter_map(taken).collect()
}

#[test]
fn number_is_the_uuid_with_its_bits() {
    for (number, text) in [
        (0, "00000000-0000-0000-0000-000000000000"),
        (1, "00000000-0000-0000-0000-000000000001"),
        (u128::MAX, "ffffffff-ffff-ffff-ffff-ffffffffffff"),
        (STEER, "019abcde-0001-0002-0003-000000000007"),
    ] {
        assert_eq!(uuid(number), text);
    }
}

#[test]
fn messages_are_numbered_and_read_once() {
    let mut session = new(&[], false);
    let first = json_of(&session.first_line("/w"));
    assert_eq!((&first["type"], &first["message"]["content"]), (&json!("user"), &json!("go")));
    assert_eq!(first["uuid"], uuid(1));
    assert_eq!(json_of(&line_of(session.message("more", 0)))["uuid"], uuid(2));
    let output = hear(&mut session, &replay(1));
    assert_eq!(output.events.first(), Some(&ProgramEvent::Turn { begins: true }));
    assert_eq!(hear(&mut session, &replay(1)), AgentOutput::default(), "again");
    assert_eq!(hear(&mut session, &replay(9)), AgentOutput::default(), "not ours");
}

#[test]
fn steer_is_taken_when_it_is_read_and_its_turn_counts() {
    let mut session = session(&[]);
    hear(&mut session, &replay(1));
    let line = json_of(&steer(&mut session));
    assert_eq!(line["message"]["content"], "[steer from human:ada]\nleft");
    // The turn ends before it has read the steer: that is not the end of the run.
    assert_eq!(result(&hear(&mut session, &ends("too early"))), None);
    assert_eq!(taken(&hear(&mut session, &replay(STEER))), [id(STEER)]);
    let last = result(&hear(&mut session, &ends("left it is")));
    assert_eq!(last, Some((Outcome::Success, json!("left it is"), String::new())));
}

#[test]
fn interrupted_turn_waits_and_a_finished_one_is_the_result() {
    let mut it = session(&[]);
    hear(&mut it, &replay(1));
    let line = json_of(&interrupts(&mut it));
    assert_eq!(line["request"], json!({"subtype": "interrupt", "cancel_queued": true}));
    let response =
        json!({"subtype": "success", "request_id": id(INTERRUPT).to_string(), "response": {}});
    let answer = json!({"type": "control_response", "response": response});
    assert_eq!(taken(&hear(&mut it, &answer)), [id(INTERRUPT)]);
    let output = hear(&mut it, &aborted());
    assert_eq!((result(&output), &output.inputs), (None, &vec![]));
    // What comes after it is a turn like any other.
    steer(&mut it);
    hear(&mut it, &replay(STEER));
    assert_eq!(result(&hear(&mut it, &aborted())).map(|it| it.0), Some(Outcome::Failure));

    let mut finished = session(&[]);
    hear(&mut finished, &replay(1));
    interrupts(&mut finished);
    assert_eq!(result(&hear(&mut finished, &ends("done"))).map(|it| it.0), Some(Outcome::Success));

    let error = json!({"subtype": "error", "request_id": id(INTERRUPT).to_string(), "error": "no"});
    let output = hear(&mut session(&[]), &json!({"type": "control_response", "response": error}));
    let refused =
        RunnerEvent::Receipt { id: id(INTERRUPT), stage: Stage::Refused, why: "no".to_owned() };
    assert_eq!(output, AgentOutput::plain(refused));
}

#[test]
fn message_that_an_interrupt_dropped_is_refused_or_said_again() {
    let dropped = |number| json!({"type": "command_lifecycle", "command_uuid": uuid(number), "state": "cancelled"});
    let mut session = session(&[]);
    steer(&mut session);
    let output = hear(&mut session, &dropped(STEER));
    assert!(
        matches!(
            output.events.as_slice(),
            [ProgramEvent::Plain(RunnerEvent::Receipt { stage: Stage::Refused, .. })]
        ),
        "{output:?}"
    );
    assert_eq!(hear(&mut session, &dropped(1)), AgentOutput::default());
    let next = json_of(&steer(&mut session));
    assert_eq!(next["message"]["content"], "go\n\n[steer from human:ada]\nleft");
    let queued =
        json!({"type": "command_lifecycle", "command_uuid": uuid(STEER), "state": "queued"});
    assert_eq!(hear(&mut session, &queued), AgentOutput::default());
    assert_eq!(taken(&hear(&mut session, &replay(STEER))), [id(STEER)]);
}

#[test]
fn stop_aborts_what_it_does_and_closes_what_waits() {
    let mut it = session(&[]);
    hear(&mut it, &replay(1));
    let Some(AgentInput::Line(line)) = it.stop("enough") else { panic!("it works") };
    let request = json_of(&line)["request_id"].clone();
    let response = json!({"subtype": "success", "request_id": request, "response": {}});
    let output = hear(&mut it, &json!({"type": "control_response", "response": response}));
    assert_eq!(lines(&output), [json!("close")]);
    let last = result(&hear(&mut it, &aborted()));
    assert_eq!(last, Some((Outcome::Cancelled, Value::Null, "stopped: enough".to_owned())));

    let mut done = session(&[]);
    hear(&mut done, &replay(1));
    done.stop("enough");
    assert_eq!(result(&hear(&mut done, &ends("done"))).map(|it| it.0), Some(Outcome::Success));

    let mut waits = session(&[]);
    hear(&mut waits, &replay(1));
    interrupts(&mut waits);
    hear(&mut waits, &aborted());
    assert_eq!(waits.stop("enough"), Some(AgentInput::Close));
}

#[test]
fn rotated_program_gives_no_result_unless_it_is_done() {
    let mut it = session(&[]);
    hear(&mut it, &replay(1));
    assert!(matches!(it.rotate(), Some(AgentInput::Line(_))));
    let output = hear(&mut it, &aborted());
    assert_eq!((result(&output), lines(&output)), (None, vec![json!("close")]));

    let mut done = session(&[]);
    hear(&mut done, &replay(1));
    done.rotate();
    assert_eq!(result(&hear(&mut done, &ends("done"))).map(|it| it.0), Some(Outcome::Success));

    let mut stopped = session(&[]);
    hear(&mut stopped, &replay(1));
    stopped.stop("enough");
    stopped.rotate();
    assert_eq!(result(&hear(&mut stopped, &aborted())).map(|it| it.0), Some(Outcome::Cancelled));
}

#[test]
fn result_is_what_its_last_event_says() {
    let with = |changes: Value| {
        let mut line = ends("words");
        for (key, value) in changes.as_object().unwrap() {
            line[key] = value.clone();
        }
        line
    };
    for (changes, outcome, deliverable, error) in [
        (json!({}), Outcome::Success, json!("words"), ""),
        (json!({"structured_output": {"n": 1}}), Outcome::Success, json!({"n": 1}), ""),
        (json!({"structured_output": null}), Outcome::Success, json!("words"), ""),
        (json!({"is_error": true}), Outcome::Failure, Value::Null, "words"),
        (
            json!({"is_error": true, "result": "Not logged in"}),
            Outcome::Failure,
            Value::Null,
            "Not logged in; a host's program does not see your login: name a key with `keyFrom`, or for a subscription \
             `passEnv: [CLAUDE_CODE_OAUTH_TOKEN]`, which `claude setup-token` makes",
        ),
        (
            json!({"subtype": "error_max_turns"}),
            Outcome::BudgetExceeded,
            Value::Null,
            "error_max_turns: words",
        ),
        (
            json!({"subtype": "odd", "errors": ["a", "b"]}),
            Outcome::Failure,
            Value::Null,
            "odd: a; b",
        ),
        (json!({"subtype": null, "result": null}), Outcome::Failure, Value::Null, ""),
    ] {
        let mut session = session(&[]);
        hear(&mut session, &replay(1));
        let output = hear(&mut session, &with(changes.clone()));
        assert_eq!(result(&output), Some((outcome, deliverable, error.to_owned())), "{changes}");
        let used = Usage { tokens_in: 10, tokens_out: 5, cost_micro: 140, turns: 0 };
        assert_eq!(output.events[0], ProgramEvent::Usage(used));
    }
}

#[test]
fn reviewer_ends_by_its_verdict() {
    let judge = |structured: Value| {
        let mut session = new(&[], true);
        session.first_line("/w");
        hear(&mut session, &replay(1));
        let mut line = ends("looked at it");
        line["structured_output"] = structured;
        let output = hear(&mut session, &line);
        let (result, _) = told(&output).unwrap();
        let verdict = result.verdict.as_ref();
        (result.outcome, verdict.map(|verdict| verdict.judgement.as_str()))
    };
    assert_eq!(judge(json!({"verdict": "pass"})), (Outcome::Success, Some("pass")));
    assert_eq!(judge(json!({"verdict": "maybe"})), (Outcome::Failure, None));
    assert_eq!(judge(Value::Null), (Outcome::Failure, None));
}

#[test]
fn model_errors_block_until_it_answers_and_a_refused_key_ends_it() {
    let retry = |status: Value| json!({"type": "system", "subtype": "api_retry", "error_status": status, "error": "why"});
    let mut it = session(&[]);
    for (status, reason) in [
        (json!(429), "rate_limited: HTTP 429, why"),
        (json!(500), "model_unavailable: HTTP 500, why"),
        (Value::Null, "model_unavailable: no answer, why"),
    ] {
        let output = hear(&mut it, &retry(status));
        assert_eq!(output, AgentOutput::plain(RunnerEvent::Blocked { reason: reason.to_owned() }));
    }
    let says = json!({"type": "assistant", "message": {"id": "m", "content": [{"type": "text", "text": "hm"}]}});
    let first = hear(&mut it, &says).events.into_iter().next();
    assert_eq!(first, Some(ProgramEvent::Plain(RunnerEvent::Unblocked)));
    let output = hear(&mut it, &retry(json!(401)));
    let (outcome, _, error) = result(&output).unwrap();
    assert!(outcome == Outcome::Failure && error.contains("keyFrom"), "{error}");
    assert_eq!(lines(&output)[0]["request"]["subtype"], "interrupt");
}

#[test]
fn version_is_told_once_and_with_those_that_were_tested() {
    for (version, expected) in [
        (SHEET.tested[0], "claude 2.1.330, model m"),
        ("9.0.0", "claude 9.0.0, model m; its adapter was tested with 2.1.330"),
        ("", "claude , model m; its adapter was tested with 2.1.330"),
    ] {
        let ready = json!({"type": "system", "subtype": "init", "claude_code_version": version, "model": "m"});
        let mut it = session(&[]);
        assert_eq!(hear(&mut it, &ready).note.as_deref(), Some(expected));
        assert_eq!(hear(&mut it, &ready), AgentOutput::default());
    }
}

#[test]
fn unknown_events_are_kept_counted_and_told() {
    let mut it = session(&[]);
    assert_eq!(it.unknown(), None);
    for _ in 0..2 {
        assert_eq!(
            hear(&mut it, &json!({"type": "brand_new", "result": "x"})),
            AgentOutput::text()
        );
    }
    for number in 0..=UNKNOWN_MAX {
        hear(&mut it, &json!({"type": format!("kind{number:02}")}));
    }
    let told = it.unknown().unwrap();
    assert!(told.contains("2 of `brand_new`") && told.contains("2 of `others`"), "{told}");
    assert!(told.contains("1 of `kind14`") && !told.contains("kind15"), "{told}");
    for quiet in ["rate_limit_event", "stream_event"] {
        assert_eq!(hear(&mut it, &json!({"type": quiet})), AgentOutput::default());
    }
}

#[test]
fn garbage_and_cut_lines_are_text_or_answered() {
    let mut it = session(&["*"]);
    for line in
        [&b"Claude Code could not start"[..], b"", b"{", b"[1]", b"{\"type\":1}", b"{}", b"\xff{"]
    {
        assert_eq!(it.read(line), AgentOutput::text(), "{line:?}");
    }
    for (start, closed) in
        [("{\"type\":\"user\",\"a\":\"", true), ("{\"type\":\"assistant\",\"b\":", true)]
    {
        assert_eq!(it.read_cut(start.as_bytes()) == AgentOutput::text(), closed);
    }
    let asked = r#"{"type":"control_request","request_id":"r9","request":{"tool_name":"Write","#;
    let output = it.read_cut(asked.as_bytes());
    let answer = &lines(&output)[0]["response"];
    assert_eq!(
        (&answer["request_id"], &answer["response"]["behavior"]),
        (&json!("r9"), &json!("deny"))
    );
    hear(&mut it, &replay(1));
    // Its keys come in any order; the type may be behind what was cut.
    let long = it.read_cut(br#"{"total_cost_usd":0.1,"subtype":"success","result":"aaaa"#);
    let (outcome, _, error) = result(&long).unwrap();
    assert!(outcome == Outcome::Failure && error.contains("too long"), "{error}");
}

proptest::proptest! {
    #[test]
    fn any_line_is_read(bytes: Vec<u8>) {
        let mut it = session(&["run"]);
        let whole = it.read(&bytes);
        let cut = it.read_cut(&bytes);
        proptest::prop_assert!(whole.events.len() + cut.events.len() < 8);
    }
}
