//! Steer, interrupt, pause and resume: who may ask, of which run, and what receipts lead to.

use super::fleet::{Fleet, human, id, po, reply, request, success, tasks, topics, wish};
use crate::error::ErrorCode;
use crate::id::{AgentId, EpicId, Principal, RequestId};
use crate::ledger::{Entry, EventKind};
use crate::limits::{INSTRUCTION_BYTES_MAX, TEXT_BYTES_MAX, VERBS_KEPT};
use crate::liveness::Liveness;
use crate::mail::{MailBody, OpReply, VerbOrder};
use crate::request::verbs::VerbOp;
use crate::request::{Op, Report, RequestBody};
use crate::role::Role;
use crate::run::{RunEvent, RunState};
use crate::verb::{Receipt, Stage, Verb, Wanted};

fn op(agent: &AgentId, wanted: Wanted) -> Op {
    Op::Verb(VerbOp { agent: agent.clone(), wanted })
}

fn steer(text: &str) -> Wanted {
    Wanted::Steer { text: text.to_owned() }
}

fn interrupt() -> Wanted {
    Wanted::Interrupt { reason: "wrong way".to_owned() }
}

fn asked(fleet: &mut Fleet, from: &Principal, agent: &AgentId, wanted: Wanted) -> (Entry, OpReply) {
    let input = fleet.asking(from, RequestBody::Op(op(agent, wanted)));
    let entry = fleet.one(input);
    let reply = reply(&entry);
    (entry, reply)
}

/// Asks, and gives the verb's id.
fn ask(fleet: &mut Fleet, agent: &AgentId, wanted: Wanted) -> RequestId {
    let (entry, answer) = asked(fleet, &human(), agent, wanted);
    assert_eq!(answer.error, None, "{answer:?}");
    sent(&entry, agent).command.id
}

fn refused(fleet: &mut Fleet, agent: &AgentId, wanted: Wanted) -> (ErrorCode, String) {
    let (entry, answer) = asked(fleet, &human(), agent, wanted);
    assert_eq!(topics(&entry, agent), [""; 0], "nothing is sent of what is refused");
    (answer.error.unwrap(), answer.detail)
}

fn sent<'e>(entry: &'e Entry, agent: &AgentId) -> &'e VerbOrder {
    let to = Principal::Agent(agent.clone());
    let order = entry.mail.iter().find_map(|mail| {
        let MailBody::Verb(order) = &mail.body else { return None };
        (mail.to == to).then_some(order)
    });
    order.unwrap()
}

fn receipt_of(fleet: &Fleet, agent: &AgentId, id: RequestId) -> Receipt {
    let kept = fleet.agent(agent).verbs.receipts.iter().find(|receipt| receipt.id == id);
    kept.unwrap().clone()
}

fn says(fleet: &mut Fleet, agent: &AgentId, (id, verb): (RequestId, Verb), stage: Stage) -> Entry {
    let why = if stage == Stage::Refused { "it cannot" } else { "" };
    let run = fleet.run_of(agent);
    fleet.report(agent, Report::Verb { run, id, verb, stage, why: why.to_owned() })
}

fn moved(fleet: &mut Fleet, agent: &AgentId, event: RunEvent) {
    let run = fleet.run_of(agent);
    let usage = crate::brief::Usage::default();
    fleet.report(agent, Report::Run { run, event, reason: String::new(), usage });
}

fn state(fleet: &Fleet, agent: &AgentId) -> RunState {
    fleet.records.run_status[&fleet.run_of(agent)].state
}

fn working() -> (Fleet, EpicId, AgentId) {
    let (mut fleet, epic) = Fleet::with_goal(tasks(2));
    let worker = fleet.worker(epic, "T1.1");
    (fleet, epic, worker)
}

#[test]
fn steer_reaches_the_session_and_keeps_timed_receipts() {
    let (mut fleet, _, worker) = working();
    let (entry, answer) = asked(&mut fleet, &human(), &worker, steer("use metres"));
    assert_eq!((answer.error, answer.agent.as_ref()), (None, Some(&worker)));
    assert_eq!(topics(&entry, &worker), ["steer"]);
    let order = sent(&entry, &worker);
    assert_eq!(order.session, fleet.agent(&worker).session);
    assert_eq!(
        (order.command.by.clone(), order.command.wanted.clone()),
        (human(), steer("use metres"))
    );
    assert!(entry.events.iter().any(|event| {
        event.kind == EventKind::AgentVerb
            && event.reason.ends_with("queued by human:Shai: use metres")
    }));
    let (verb, queued) = (order.command.id, fleet.now);
    assert_eq!(receipt_of(&fleet, &worker, verb).stage, Stage::Queued);
    let run = state(&fleet, &worker);
    for stage in [Stage::Delivered, Stage::Effective] {
        let entry = says(&mut fleet, &worker, (verb, Verb::Steer), stage);
        let told = |event: &crate::ledger::Event| event.reason.contains(stage.as_str());
        assert!(entry.events.iter().any(told), "{stage:?}");
        let again = says(&mut fleet, &worker, (verb, Verb::Steer), stage);
        assert_eq!((again.events.len(), again.records.len()), (0, 0), "it came twice");
    }
    let kept = receipt_of(&fleet, &worker, verb);
    assert!(kept.queued <= kept.delivered.unwrap() && kept.delivered <= kept.ended);
    assert!(kept.queued <= queued);
    assert_eq!(state(&fleet, &worker), run, "a steer changes no state");
}

#[test]
fn repeated_request_is_one_verb() {
    let (mut fleet, _, worker) = working();
    let input = fleet.asking(&human(), RequestBody::Op(op(&worker, steer("once"))));
    let first = fleet.one(input.clone());
    assert_eq!(topics(&first, &worker), ["steer"]);
    let again = fleet.one(input);
    assert_eq!(topics(&again, &worker), [""; 0]);
    assert_eq!(reply(&again), reply(&first));
    assert_eq!(fleet.agent(&worker).verbs.receipts.len(), 1);
}

#[test]
fn interrupt_waits_for_input_and_pause_lasts_until_resume() {
    let (mut fleet, _, worker) = working();
    let it = ask(&mut fleet, &worker, interrupt());
    assert_eq!(state(&fleet, &worker), RunState::Running, "not before it is effective");
    says(&mut fleet, &worker, (it, Verb::Interrupt), Stage::Effective);
    assert_eq!(state(&fleet, &worker), RunState::AwaitingInput);
    assert_eq!(refused(&mut fleet, &worker, Wanted::Pause).0, ErrorCode::Conflict);
    ask(&mut fleet, &worker, steer("go left"));
    moved(&mut fleet, &worker, RunEvent::InputReceived);
    assert_eq!(state(&fleet, &worker), RunState::Running);

    let it = ask(&mut fleet, &worker, Wanted::Pause);
    let (code, detail) = refused(&mut fleet, &worker, Wanted::Pause);
    assert_eq!(code, ErrorCode::Conflict);
    assert!(detail.contains("already paused, by human:Shai"), "{detail}");
    says(&mut fleet, &worker, (it, Verb::Pause), Stage::Effective);
    assert_eq!(state(&fleet, &worker), RunState::PausedByUser);
    let it = ask(&mut fleet, &worker, Wanted::Resume);
    says(&mut fleet, &worker, (it, Verb::Resume), Stage::Effective);
    assert_eq!(state(&fleet, &worker), RunState::Running);
    let (code, detail) = refused(&mut fleet, &worker, Wanted::Resume);
    assert!(code == ErrorCode::Conflict && detail.contains("not paused"), "{detail}");
    fleet.end(&worker, success("done"));
    assert_eq!(refused(&mut fleet, &worker, steer("late")).0, ErrorCode::Conflict);
}

#[test]
fn unsupported_verb_is_refused_and_its_pause_holds_nobody() {
    let (mut fleet, _, worker) = working();
    let it = ask(&mut fleet, &worker, Wanted::Pause);
    says(&mut fleet, &worker, (it, Verb::Pause), Stage::Refused);
    let kept = receipt_of(&fleet, &worker, it);
    assert_eq!((kept.stage, kept.why.as_str()), (Stage::Refused, "it cannot"));
    assert_eq!(fleet.agent(&worker).verbs.paused_by, None);
    says(&mut fleet, &worker, (it, Verb::Pause), Stage::Effective);
    assert_eq!(state(&fleet, &worker), RunState::Running, "it ended as refused");
}

#[test]
fn only_people_and_ancestors_send_verbs() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(2));
    let specialist = fleet.member(epic, "T1.1", Role::Specialist);
    let child = fleet.sponsored(epic, &specialist).spawned[0].agent.clone();
    fleet.report(&child, Report::Ready);
    let other = fleet.worker(epic, "T1.2");
    for above in [specialist.clone(), po()] {
        let (entry, answer) = asked(&mut fleet, &Principal::Agent(above), &child, steer("so"));
        assert_eq!((answer.error, topics(&entry, &child)), (None, vec!["steer".to_owned()]));
    }
    for (from, to) in [(&other, &child), (&child, &specialist), (&child, &child)] {
        let (entry, answer) = asked(&mut fleet, &Principal::Agent(from.clone()), to, steer("so"));
        assert_eq!(answer.error, Some(ErrorCode::Unauthorized), "{from} to {to}");
        assert!(!topics(&entry, to).contains(&"steer".to_owned()));
    }
}

#[test]
fn verb_texts_are_bounded() {
    let (mut fleet, _, worker) = working();
    for text in ["", " \n"] {
        let (code, detail) = refused(&mut fleet, &worker, steer(text));
        assert!(code == ErrorCode::InvalidRequest && detail.contains("empty"), "{detail}");
    }
    ask(&mut fleet, &worker, steer(&"x".repeat(INSTRUCTION_BYTES_MAX)));
    let (code, _) = refused(&mut fleet, &worker, steer(&"x".repeat(INSTRUCTION_BYTES_MAX + 1)));
    assert_eq!(code, ErrorCode::InvalidRequest);
    let long = |bytes| Wanted::Interrupt { reason: "x".repeat(bytes) };
    assert_eq!(refused(&mut fleet, &worker, long(TEXT_BYTES_MAX + 1)).0, ErrorCode::InvalidRequest);
    ask(&mut fleet, &worker, long(TEXT_BYTES_MAX));
}

#[test]
fn agent_without_a_listening_run_is_named() {
    let (mut fleet, epic, worker) = working();
    for (agent, code) in [
        (id("W:01JD8Z5W6T4QK3M9X2V7B1N0AC"), ErrorCode::NotFound),
        (po(), ErrorCode::InvalidRequest),
        (id("HO@h1"), ErrorCode::InvalidRequest),
        (AgentId::Go, ErrorCode::InvalidRequest),
    ] {
        assert_eq!(refused(&mut fleet, &agent, steer("x")).0, code, "{agent}");
    }
    let answer = fleet.spawn(&po(), request(epic, "T1.2", vec![wish(Role::Worker)]));
    let starting = answer.spawned[0].agent.clone();
    let (code, detail) = refused(&mut fleet, &starting, Wanted::Pause);
    assert!(code == ErrorCode::Conflict && detail.contains("spawning"), "{detail}");
    moved(&mut fleet, &worker, RunEvent::ExternalBlocked);
    let (code, detail) = refused(&mut fleet, &worker, interrupt());
    assert!(code == ErrorCode::Conflict && detail.contains("blocked"), "{detail}");
    ask(&mut fleet, &worker, steer("meanwhile"));
}

#[test]
fn verbs_waiting_for_a_host_are_bounded() {
    let (mut fleet, _, worker) = working();
    let first = ask(&mut fleet, &worker, steer("1"));
    for _ in 1..VERBS_KEPT {
        ask(&mut fleet, &worker, steer("more"));
    }
    assert_eq!(refused(&mut fleet, &worker, steer("one too many")).0, ErrorCode::Unavailable);
    says(&mut fleet, &worker, (first, Verb::Steer), Stage::Delivered);
    ask(&mut fleet, &worker, steer("now there is room"));
    assert_eq!(fleet.agent(&worker).verbs.receipts.len(), VERBS_KEPT);
}

#[test]
fn next_session_of_a_paused_agent_is_paused() {
    let (mut fleet, _, worker) = working();
    let it = ask(&mut fleet, &worker, Wanted::Pause);
    says(&mut fleet, &worker, (it, Verb::Pause), Stage::Effective);
    let lost = ask(&mut fleet, &worker, steer("never delivered"));
    fleet.report(&worker, Report::Crashed { cause: "signal 9".to_owned() });
    assert_eq!(fleet.agent(&worker).epoch, 2);
    let kept = receipt_of(&fleet, &worker, lost);
    assert_eq!(kept.stage, Stage::Refused, "its session was over: {}", kept.why);
    let entry = fleet.report(&worker, Report::Ready);
    assert_eq!(topics(&entry, &worker), ["pause"]);
    let order = sent(&entry, &worker);
    assert_eq!(order.session, fleet.agent(&worker).session);
    assert_eq!(order.command.by, human(), "whoever paused it has not said that it may go on");
    let again = order.command.id;
    says(&mut fleet, &worker, (again, Verb::Pause), Stage::Effective);
    assert_eq!(state(&fleet, &worker), RunState::PausedByUser);

    ask(&mut fleet, &worker, Wanted::Resume);
    fleet.report(&worker, Report::Crashed { cause: "signal 9".to_owned() });
    let entry = fleet.report(&worker, Report::Ready);
    assert_eq!(topics(&entry, &worker), [""; 0], "that it may go on was said");
}

#[test]
fn pause_is_undone_even_without_a_host() {
    let (mut fleet, _, worker) = working();
    let it = ask(&mut fleet, &worker, Wanted::Pause);
    says(&mut fleet, &worker, (it, Verb::Pause), Stage::Effective);
    fleet.report(&id("HO@h1"), Report::Gone { cause: "stopped".to_owned() });
    assert_eq!(fleet.agent(&worker).liveness, Liveness::Offline);
    assert_eq!(refused(&mut fleet, &worker, steer("x")).0, ErrorCode::Conflict);
    let (entry, answer) = asked(&mut fleet, &human(), &worker, Wanted::Resume);
    assert_eq!((answer.error, topics(&entry, &worker)), (None, vec![]));
    assert_eq!(fleet.agent(&worker).verbs.paused_by, None);
}

#[test]
fn stop_of_a_paused_run_is_a_stop() {
    let (mut fleet, _, worker) = working();
    let it = ask(&mut fleet, &worker, Wanted::Pause);
    says(&mut fleet, &worker, (it, Verb::Pause), Stage::Effective);
    let retire = Op::AgentRetire { agent: worker.clone(), reason: "enough".to_owned() };
    let input = fleet.asking(&human(), RequestBody::Op(retire));
    let entry = fleet.one(input);
    assert_eq!(topics(&entry, &worker), ["stop"]);
    assert_eq!(state(&fleet, &worker), RunState::Cancelling);
    let (code, detail) = refused(&mut fleet, &worker, steer("late"));
    assert!(code == ErrorCode::Conflict && detail.contains("cancelling"), "{detail}");
}
