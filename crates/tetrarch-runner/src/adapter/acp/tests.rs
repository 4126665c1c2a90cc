//! What a program of the Agent Client Protocol is written and what its calls come to, with lines as opencode 1.18.33 and
//! gemini 0.61.0 wrote them.

mod asking;

use tetrarch_core::brief::{Outcome, Tools};
use tetrarch_core::id::{RequestId, Ulid};
use tetrarch_core::order::RunnerEvent;
use tetrarch_core::permission::{PermissionAction, PermissionList, PermissionRule, Permissions};
use tetrarch_core::verb::{Command, Stage, Wanted};

use super::*;
use crate::adapter::dialect::Dialect;
use crate::adapter::session::{AgentSession, SessionBrief};
use crate::adapter::{AgentDelivery, AgentInput, AgentOutput};
use crate::protocol::ProgramEvent;

const STEER: u128 = 7;
const INTERRUPT: u128 = 8;

fn command(number: u128, wanted: Wanted) -> Command {
    Command { id: RequestId(Ulid::from(number)), by: "human:ada".parse().unwrap(), wanted }
}

fn steer() -> Command {
    command(STEER, Wanted::Steer { text: "left".to_owned() })
}

fn interrupt() -> Command {
    command(INTERRUPT, Wanted::Interrupt { reason: "wrong".to_owned() })
}

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
    let acp = Acp::new(AcpSession { resumes: resumes.map(str::to_owned), fleet: None });
    AgentSession::new(SHEET, Dialect::Acp(Box::new(acp)), brief)
}

/// One whose session is open and whose prompt, call 3, is at work.
fn working(list: &[&str]) -> AgentSession {
    let mut it = session(list, None);
    it.first_line("/w");
    hear(&mut it, &greets(true));
    let asked = said(&hear(&mut it, &json!({"id": 2, "result": {"sessionId": "s"}})));
    assert_eq!(asked[0]["method"], "session/prompt");
    it
}

fn calls(bytes: &[u8]) -> Vec<Value> {
    str::from_utf8(bytes).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
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

fn greets(loads: bool) -> Value {
    json!({"id": 1, "result": {
        "agentInfo": {"name": "OpenCode", "version": "1.18.33"}, "agentCapabilities": {"loadSession": loads},
        "authMethods": [{"id": "oauth-personal"}, {"id": "gemini-api-key"}],
    }})
}

fn update(update: Value) -> Value {
    json!({"method": "session/update", "params": {"sessionId": "s", "update": update}})
}

fn says(text: &str) -> Value {
    update(
        json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}),
    )
}

fn ends(call: u64, reason: &str) -> Value {
    json!({"id": call, "result": {"stopReason": reason, "usage": {"inputTokens": 10, "outputTokens": 5}}})
}

fn asks(kind: &str, input: Value) -> Value {
    let call = json!({"toolCallId": "c1", "kind": kind, "title": "words", "rawInput": input});
    let options = json!([
        {"optionId": "always", "kind": "allow_always"}, {"optionId": "once", "kind": "allow_once"},
        {"optionId": "no", "kind": "reject_once"},
    ]);
    let params = json!({"sessionId": "s", "toolCall": call, "options": options});
    json!({"id": 0, "method": "session/request_permission", "params": params})
}

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
    let id = RequestId(Ulid::from(number));
    ProgramEvent::Plain(RunnerEvent::Receipt { id, stage, why: why.to_owned() })
}

fn taken(number: u128) -> ProgramEvent {
    ProgramEvent::Taken(RequestId(Ulid::from(number)))
}

#[test]
fn session_is_opened_by_one_call_after_the_other() {
    let mut it = session(&[], None);
    let first = calls(&it.first_line("/w"));
    assert_eq!((&first[0]["method"], first.len()), (&json!("initialize"), 1));
    let offers = &first[0]["params"]["clientCapabilities"];
    assert_eq!(
        offers,
        &json!({"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false})
    );
    let new = said(&hear(&mut it, &greets(true)));
    assert_eq!(
        (&new[0]["method"], &new[0]["params"]["cwd"]),
        (&json!("session/new"), &json!("/w"))
    );
    let output = hear(&mut it, &json!({"id": 2, "result": {"sessionId": "s"}}));
    assert_eq!(output.note.as_deref(), Some("acp opencode 1.18.33, model its own"));
    assert_eq!(said(&output)[0]["params"]["prompt"][0]["text"], "go");
    assert!(has(&hear(&mut it, &says("a")), &ProgramEvent::Turn { begins: true }));
    assert!(!has(&hear(&mut it, &says("b")), &ProgramEvent::Turn { begins: true }), "again");
}

#[test]
fn session_is_loaded_where_the_program_can_and_knows_it() {
    for (loads, known) in [(true, true), (true, false), (false, false)] {
        let mut it = session(&[], Some("old"));
        it.first_line("/w");
        let call = said(&hear(&mut it, &greets(loads)));
        assert_eq!(call[0]["method"], if loads { "session/load" } else { "session/new" });
        if known {
            // What was said before is told again, and is nothing new.
            assert_eq!(hear(&mut it, &says("old words")), AgentOutput::default());
            let told = said(&hear(&mut it, &json!({"id": 2, "result": null})));
            let text = told[0]["params"]["prompt"][0]["text"].as_str().unwrap();
            assert!(
                text.contains("Go on where you were") && told[0]["params"]["sessionId"] == "old"
            );
        } else if loads {
            let error = json!({"id": 2, "error": {"code": -32602, "message": "no such session"}});
            assert_eq!(said(&hear(&mut it, &error))[0]["method"], "session/new");
        }
    }
}

#[test]
fn login_is_by_a_key_or_fails_the_run() {
    let refused = |call: u64| json!({"id": call, "error": {"code": -32000, "message": "Authentication required"}});
    let mut it = session(&[], None);
    it.first_line("/w");
    hear(&mut it, &greets(true));
    let login = said(&hear(&mut it, &refused(2)));
    assert_eq!(
        (&login[0]["method"], &login[0]["params"]["methodId"]),
        (&json!("authenticate"), &json!("gemini-api-key"))
    );
    assert_eq!(said(&hear(&mut it, &json!({"id": 3, "result": {}})))[0]["method"], "session/new");
    let (outcome, _, error) = result(&hear(&mut it, &refused(4))).unwrap();
    assert!(outcome == Outcome::Failure && error.contains("keyFrom"), "{error}");
}

#[test]
fn words_after_the_last_tool_are_the_result() {
    let mut it = working(&[]);
    hear(&mut it, &says("I look. "));
    let tool = |status: &str| {
        update(
            json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "kind": "read", "status": status}),
        )
    };
    hear(&mut it, &tool("in_progress"));
    hear(&mut it, &tool("completed"));
    hear(&mut it, &says("do"));
    hear(&mut it, &says("ne"));
    let output = hear(&mut it, &ends(3, "end_turn"));
    assert_eq!(result(&output), Some((Outcome::Success, json!("done"), String::new())));
    let used = Usage { tokens_in: 10, tokens_out: 5, cost_micro: 0, turns: 1 };
    assert!(has(&output, &ProgramEvent::Usage(used)), "{output:?}");
    for (reason, outcome) in [
        ("refusal", Outcome::Failure),
        ("max_tokens", Outcome::BudgetExceeded),
        ("max_turn_requests", Outcome::BudgetExceeded),
        ("", Outcome::Failure),
    ] {
        let last = result(&hear(&mut working(&[]), &ends(3, reason)));
        assert_eq!(last.map(|it| it.0), Some(outcome), "{reason}");
    }
    let error = json!({"id": 3, "error": {"code": -32603, "message": "Internal error", "data": {"details": "429"}}});
    let (outcome, _, error) = result(&hear(&mut working(&[]), &error)).unwrap();
    assert!(outcome == Outcome::Failure && error.contains("429"), "{error}");
}

#[test]
fn usage_is_read_in_either_form() {
    let gemini = json!({"id": 3, "result": {"stopReason": "end_turn", "_meta": {"quota": {"token_count": {
        "input_tokens": 30, "output_tokens": 12,
    }}}}});
    let used = Usage { tokens_in: 30, tokens_out: 12, cost_micro: 0, turns: 1 };
    assert!(has(&hear(&mut working(&[]), &gemini), &ProgramEvent::Usage(used)));
}

#[test]
fn steer_waits_for_the_end_of_the_prompt_and_never_cancels_it() {
    let mut it = working(&[]);
    hear(&mut it, &says("at work"));
    assert_eq!(it.verb(&steer()), AgentDelivery::Held);
    assert_eq!(it.message("news", 5), AgentDelivery::Held);
    let output = hear(&mut it, &ends(3, "end_turn"));
    assert_eq!(result(&output), None, "what it was told meanwhile comes first");
    let [next] = &said(&output)[..] else { panic!("{output:?}") };
    let text = next["params"]["prompt"][0]["text"].as_str().unwrap();
    assert_eq!(
        (&next["method"], text),
        (&json!("session/prompt"), "[steer from human:ada]\nleft\n\nnews")
    );
    assert!(has(&output, &receipt(STEER, Stage::Delivered, "")), "{output:?}");
    assert!(has(&output, &ProgramEvent::Plain(RunnerEvent::Taken { place: 5 })), "{output:?}");
    let output = hear(&mut it, &says("left it is"));
    assert!(has(&output, &taken(STEER)), "{output:?}");
    let last = result(&hear(&mut it, &ends(4, "end_turn")));
    assert_eq!(last.map(|it| it.1), Some(json!("left it is")));
}

#[test]
fn mail_that_waits_is_taken_back_once_and_not_prompted_again() {
    let mut it = working(&[]);
    assert_eq!(it.message("news", 5), AgentDelivery::Held);
    assert_eq!(it.message("much more news", 6), AgentDelivery::Held);
    assert_eq!(it.verb(&steer()), AgentDelivery::Held);
    assert_eq!(it.take_back(5), [("news".to_owned(), 5)], "as much as there is room for");
    assert_eq!(it.take_back(0), []);
    let [next] = &said(&hear(&mut it, &ends(3, "end_turn")))[..] else { panic!("no prompt") };
    let text = next["params"]["prompt"][0]["text"].as_str().unwrap();
    assert_eq!(text, "much more news\n\n[steer from human:ada]\nleft");
    assert_eq!(it.take_back(100), [], "it has it");
}

#[test]
fn result_given_by_a_tool_ends_the_turn_and_the_program() {
    let mut it = working(&[]);
    let Some(AgentInput::Line(line)) = it.finished() else { panic!("its turn goes on") };
    assert_eq!(calls(&line)[0]["method"], "session/cancel");
    let output = hear(&mut it, &ends(3, "cancelled"));
    assert_eq!(said(&output).last(), Some(&json!("close")), "{output:?}");
}

#[test]
fn interrupt_is_effective_when_the_prompt_is_cancelled() {
    let mut it = working(&["ask_human"]);
    assert_eq!(it.verb(&steer()), AgentDelivery::Held);
    let output = hear(&mut it, &asks("execute", json!({"command": "rm a"})));
    let question = output.events.iter().find_map(|event| {
        let ProgramEvent::Plain(RunnerEvent::Ask { id, .. }) = event else { return None };
        *id
    });
    let told = line_of(it.verb(&interrupt()));
    assert_eq!(told[0]["method"], "session/cancel");
    assert_eq!(
        told[1]["result"]["outcome"]["outcome"], "cancelled",
        "nobody decides on it any more"
    );
    assert_eq!(it.answered(question.unwrap(), Ok("allow".to_owned())), None);
    let output = hear(&mut it, &ends(3, "cancelled"));
    assert!(has(&output, &taken(INTERRUPT)), "{output:?}");
    assert!(has(&output, &receipt(STEER, Stage::Refused, ABORTED)), "{output:?}");
    assert_eq!((result(&output), said(&output)), (None, vec![]));
    assert_eq!(it.verb(&interrupt()), AgentDelivery::Done, "nothing is at work");
    assert_eq!(line_of(it.verb(&steer()))[0]["method"], "session/prompt");
}

#[test]
fn stop_cancels_the_prompt_and_closes_the_input() {
    let mut it = working(&[]);
    let Some(AgentInput::Line(line)) = it.stop("enough") else { panic!("it works") };
    assert_eq!(calls(&line)[0]["method"], "session/cancel");
    let output = hear(&mut it, &ends(3, "cancelled"));
    assert_eq!(said(&output), [json!("close")]);
    assert_eq!(result(&output).map(|it| it.2), Some("stopped: enough".to_owned()));

    let mut starting = session(&[], None);
    starting.first_line("/w");
    assert_eq!(starting.stop("enough"), None, "it waits for the prompt");
    hear(&mut starting, &greets(true));
    let told = said(&hear(&mut starting, &json!({"id": 2, "result": {"sessionId": "s"}})));
    assert_eq!(
        (&told[0]["method"], &told[1]["method"]),
        (&json!("session/prompt"), &json!("session/cancel"))
    );

    let mut rotated = working(&[]);
    rotated.rotate();
    let output = hear(&mut rotated, &ends(3, "cancelled"));
    assert_eq!((result(&output), said(&output).last()), (None, Some(&json!("close"))));
}

#[test]
fn tool_is_answered_by_the_list_of_the_brief() {
    for (list, kind, input, allowed) in [
        (&["read"][..], "read", json!({}), true),
        (&["run"], "execute", json!({"command": "a | b"}), true),
        (&["run"], "execute", json!({}), true),
        (&["run:git"], "execute", json!({"command": "git log"}), true),
        (&["run:git"], "execute", json!({"command": "git log | sh"}), false),
        (&["run:words"], "execute", json!({}), false),
        (&["edit"], "edit", json!({}), true),
        (&["write"], "delete", json!({}), false),
        (&["network"], "fetch", json!({}), true),
        (&["search"], "search", json!({}), true),
        (&["*"], "think", json!({}), false),
        (&["*"], "other", json!({}), false),
    ] {
        let mut it = working(list);
        let output = hear(&mut it, &asks(kind, input.clone()));
        let chosen = &said(&output)[0]["result"]["outcome"];
        let expected =
            json!({"outcome": "selected", "optionId": if allowed { "once" } else { "no" }});
        assert_eq!(chosen, &expected, "{list:?} {kind} {input}");
        let next = said(&hear(&mut it, &ends(3, "end_turn")));
        // Some programs end their turn with a refusal: they are told why, and go on.
        assert_eq!(
            next.first().is_some_and(|call| call.to_string().contains("was refused")),
            !allowed
        );
    }
}

#[test]
fn other_requests_are_refused_in_words() {
    for method in ["fs/write_text_file", "fs/read_text_file", "terminal/create", "brand/new"] {
        let request = json!({"id": "x", "method": method, "params": {}});
        let answer = said(&hear(&mut working(&["*"]), &request));
        assert_eq!(
            (&answer[0]["id"], &answer[0]["error"]["code"]),
            (&json!("x"), &json!(-32601)),
            "{method}"
        );
    }
    let bare = json!({"id": 0, "method": "session/request_permission", "params": {}});
    let answer = said(&hear(&mut working(&["*"]), &bare));
    assert_eq!(
        answer[0]["result"]["outcome"]["outcome"], "cancelled",
        "there is no option to choose"
    );
}

#[test]
fn garbage_unknown_and_cut_lines_are_text_or_answered() {
    let mut it = working(&["*"]);
    for line in [
        &b"it could not start"[..],
        b"",
        b"{",
        b"[1]",
        b"{}",
        b"\xff{",
        b"{\"id\":99,\"result\":{}}",
    ] {
        assert_eq!(it.read(line), AgentOutput::text(), "{line:?}");
    }
    hear(&mut it, &update(json!({"sessionUpdate": "brand_new"})));
    hear(&mut it, &json!({"method": "brand/new"}));
    let unknown = it.unknown().unwrap();
    assert!(
        unknown.contains("1 of `brand_new`") && unknown.contains("1 of `brand/new`"),
        "{unknown}"
    );
    let cut = it.read_cut(
        br#"{"jsonrpc":"2.0","id":4,"method":"session/request_permission","params":{"a":"#,
    );
    assert_eq!((&said(&cut)[0]["id"], cut.is_text), (&json!(4), true));
    assert_eq!(
        it.read_cut(br#"{"jsonrpc":"2.0","method":"session/update","params":{"#),
        AgentOutput::text()
    );
    let long = it.read_cut(br#"{"jsonrpc":"2.0","id":3,"result":{"a":"#);
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
