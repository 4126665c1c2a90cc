//! What the overseer does about assignments that stand still, rung by rung, at both ends of every bound.

mod holding;
mod policies;
mod proposing;
mod updates;

use serde_json::json;

use super::fleet::{
    Fleet, human, id, killed, plan_of, po, reply, request, success, task, tasks, topics, wish,
};
use crate::assignment::{Assignment, AssignmentStatus};
use crate::brief::Usage;
use crate::dispatch::{Dispatch, DispatchMode, DispatchOutcome};
use crate::error::ErrorCode;
use crate::id::{AgentId, DispatchId, EpicId, Principal, QuestionId};
use crate::ledger::{Entry, EventKind};
use crate::limits::{ASSIGNMENTS_PER_TICK, IDLE_AFTER, LIST_MAX, RESEND_AFTER};
use crate::liveness::Liveness;
use crate::mail::{MailBody, StatusRequest};
use crate::overseer::{Diagnosis, Telemetry};
use crate::owner::{Input, stalling};
use crate::plan::NodeStatus;
use crate::question::QuestionStatus;
use crate::records::Records;
use crate::request::{Op, Report, RequestBody};
use crate::role::Role;
use crate::run::RunEvent;
use crate::time::{BusTime, Millis};

fn working(attempts: u32) -> (Fleet, EpicId, AgentId) {
    let plan = plan_of(&[task("T1.1", json!({"maxAttempts": attempts}))]);
    let (mut fleet, epic) = Fleet::with_goal(plan);
    let worker = fleet.worker(epic, "T1.1");
    (fleet, epic, worker)
}

/// An owner that has always listened.
fn silence() -> Telemetry {
    Telemetry { since: BusTime(0), ..Telemetry::default() }
}

fn oversee(fleet: &mut Fleet, at: BusTime) -> Entry {
    fleet.now = at;
    fleet.one(Input::Oversee(silence()))
}

/// The latest assignment of the fleet's first node.
fn assignment<'f>(fleet: &'f Fleet, agent: &AgentId) -> &'f Assignment {
    &fleet.records.assignments[&fleet.agent(agent).work.as_ref().unwrap().assignment]
}

fn due(fleet: &Fleet, agent: &AgentId) -> BusTime {
    assignment(fleet, agent).recovery.quiet_since() + IDLE_AFTER
}

fn before(at: BusTime) -> BusTime {
    BusTime(at.0 - 1)
}

fn asked(entry: &Entry) -> Vec<StatusRequest> {
    let all = entry.mail.iter().filter_map(|mail| {
        if let MailBody::StatusRequest(asked) = &mail.body { Some(asked.clone()) } else { None }
    });
    all.collect()
}

fn last(fleet: &Fleet, agent: &AgentId) -> Dispatch {
    fleet.records.dispatches[&assignment(fleet, agent).recovery.dispatch.unwrap()].clone()
}

fn arrives(fleet: &mut Fleet, agent: &AgentId, dispatch: DispatchId) -> Entry {
    let run = fleet.run_of(agent);
    fleet.report(agent, Report::Consumed { run, dispatch })
}

fn says(fleet: &mut Fleet, agent: &AgentId, update: &str) -> Entry {
    let dispatch = assignment(fleet, agent).recovery.dispatch;
    let (run, update) = (fleet.run_of(agent), update.to_owned());
    fleet.report(agent, Report::Update { run, dispatch, update, expected: None })
}

/// Nudges until the retries are used up; gives when the next rung is due.
fn wear_out(fleet: &mut Fleet, agent: &AgentId) -> BusTime {
    for _ in 0..fleet.policy.overseer.max_retries {
        let at = due(fleet, agent);
        let asked = asked(&oversee(fleet, at));
        arrives(fleet, agent, asked[0].dispatch);
    }
    due(fleet, agent)
}

fn questions(records: &Records) -> Vec<(QuestionId, QuestionStatus)> {
    records.questions.values().map(|question| (question.id, question.status)).collect()
}

pub(super) fn escalated(attempts: u32) -> (Fleet, EpicId, AgentId, QuestionId) {
    let (mut fleet, epic, worker) = working(attempts);
    let blocked = r#"{"status": "blocked", "blockers": ["a key for the shop"]}"#;
    says(&mut fleet, &worker, blocked);
    let question = questions(&fleet.records)[0].0;
    (fleet, epic, worker, question)
}

fn answer(fleet: &mut Fleet, question: QuestionId, text: &str) -> Option<ErrorCode> {
    fleet.op(&human(), Op::QuestionAnswer { question, text: text.to_owned() }).error
}

#[test]
fn launch_is_the_first_dispatch_and_its_heartbeat_consumes_it() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let wanted = request(epic, "T1.1", vec![wish(Role::Worker)]);
    let worker = fleet.spawn(&po(), wanted).spawned[0].agent.clone();
    let launch = last(&fleet, &worker);
    assert_eq!((launch.mode, launch.rung), (DispatchMode::Spawn, None));
    assert_eq!(launch.outcome, DispatchOutcome::Accepted);
    assert_eq!(launch.session, fleet.agent(&worker).session);
    assert!(!assignment(&fleet, &worker).recovery.consumed);
    fleet.report(&worker, Report::Ready);
    assert_eq!(last(&fleet, &worker).outcome, DispatchOutcome::Ok);
    assert!(assignment(&fleet, &worker).recovery.consumed);

    fleet.report(&worker, Report::Crashed { cause: "signal 9".to_owned() });
    let next = last(&fleet, &worker);
    assert_ne!(next.id, launch.id);
    assert_eq!((next.mode, next.outcome), (DispatchMode::Spawn, DispatchOutcome::Accepted));
    fleet.report(&worker, Report::Crashed { cause: "signal 9".to_owned() });
    assert_eq!(fleet.records.dispatches[&next.id].outcome, DispatchOutcome::Error);
}

#[test]
fn silent_agent_is_asked_at_its_time_not_before() {
    let (mut fleet, _, worker) = working(2);
    let at = due(&fleet, &worker);
    assert_eq!(oversee(&mut fleet, before(at)).records, []);
    let entry = oversee(&mut fleet, at);
    let [asked] = asked(&entry).try_into().unwrap();
    assert_eq!(topics(&entry, &worker), ["status.request"]);
    assert_eq!(Some(asked.session), fleet.agent(&worker).session);
    let stalled = assignment(&fleet, &worker);
    assert_eq!(stalled.status, AssignmentStatus::Stalled);
    assert_eq!(stalled.recovery.dispatch, Some(asked.dispatch));
    assert_eq!((stalled.recovery.retries, stalled.recovery.last_retry), (1, Some(at)));
    let bound = fleet.policy.overseer.backoff.bound(0);
    assert!(stalled.recovery.backoff_until <= at + bound);
    let why = entry.events.iter().find(|event| event.kind == EventKind::Recovery).unwrap();
    assert_eq!(why.reason, "nudge: no activity for 15m; asked 0 of 2 times");
}

#[test]
fn second_tick_at_one_moment_changes_nothing() {
    let (mut fleet, _, worker) = working(1);
    fleet.policy.overseer.min_resend_interval = Millis(0);
    fleet.policy.overseer.backoff.max = Millis(0);
    for _ in 0..4 {
        let at = due(&fleet, &worker);
        assert_ne!(oversee(&mut fleet, at).records, []);
        assert_eq!(oversee(&mut fleet, at).records, []);
        if fleet.agent(&worker).liveness == Liveness::Terminated {
            return;
        }
    }
    panic!("it never came to an end");
}

#[test]
fn dispatches_keep_their_interval() {
    let (mut fleet, _, worker) = working(2);
    fleet.policy.overseer.idle_after = Millis(1);
    let mut sent = Vec::new();
    let begun = fleet.now;
    for step in 0..2_000 {
        let at = begun + Millis(step * 1_000);
        if !asked(&oversee(&mut fleet, at)).is_empty() {
            let recovery = assignment(&fleet, &worker).recovery.clone();
            sent.push((at, recovery.backoff_until));
        }
    }
    assert_eq!(sent.len(), 2, "a launch, then two requests");
    assert!(sent[0].0 >= begun + Millis(RESEND_AFTER.0 - 1_000), "after the launch, too");
    assert!(sent[1].0 >= sent[0].0 + RESEND_AFTER && sent[1].0 >= sent[0].1);
    assert_eq!(fleet.agent(&worker).liveness, Liveness::Terminated, "then it is another's");
}

#[test]
fn unreceived_dispatch_is_resent_with_its_id() {
    let (mut fleet, _, worker) = working(2);
    let at = due(&fleet, &worker);
    let first = asked(&oversee(&mut fleet, at));
    let at = due(&fleet, &worker);
    assert_eq!(asked(&oversee(&mut fleet, before(at))), []);
    let again = asked(&oversee(&mut fleet, at));
    assert_eq!(first, again);
    assert_eq!(assignment(&fleet, &worker).recovery.retries, 2);
    arrives(&mut fleet, &worker, first[0].dispatch);
    assert_eq!(last(&fleet, &worker).outcome, DispatchOutcome::Ok);
    assert_eq!(assignment(&fleet, &worker).status, AssignmentStatus::Active);
    let again = arrives(&mut fleet, &worker, first[0].dispatch);
    assert_eq!(again.records, [], "consumed once");
}

#[test]
fn work_is_reassigned_when_asking_did_not_help() {
    let (mut fleet, epic, worker) = working(2);
    let old = assignment(&fleet, &worker).id;
    let at = wear_out(&mut fleet, &worker);
    assert_eq!(oversee(&mut fleet, before(at)).records, []);
    let entry = oversee(&mut fleet, at);
    assert_eq!(killed(&entry), [&worker]);
    assert_eq!(fleet.records.assignments[&old].status, AssignmentStatus::Cancelled);
    assert_eq!(fleet.node(epic, "T1.1").status, NodeStatus::Queued);
    let next = fleet.worker(epic, "T1.1");
    assert_eq!(assignment(&fleet, &next).follows, Some(old));
}

#[test]
fn exhausted_ladder_escalates_to_people() {
    let (mut fleet, epic, worker) = working(1);
    let at = wear_out(&mut fleet, &worker);
    let entry = oversee(&mut fleet, at);
    assert_eq!(killed(&entry), [&worker]);
    let [(id, status)] = questions(&fleet.records).try_into().unwrap();
    assert_eq!(status, QuestionStatus::Open);
    let question = fleet.records.questions[&id].clone();
    assert_eq!((question.to.clone(), question.epic), (human(), epic));
    for part in [
        "T1.1",
        &worker.to_string(),
        "a status request",
        "asked 2 of 2 times",
        "no activity for 15m",
        "(it was read)",
    ] {
        assert!(question.text.contains(part), "{part} in {}", question.text);
    }
    let blocker = fleet.node(epic, "T1.1").blocker.clone().unwrap();
    assert_eq!((blocker.kind.as_str(), blocker.needs), ("escalated", format!("an answer to {id}")));
    let moved = entry.events.iter().filter(|event| event.kind == EventKind::AssignmentStatus);
    let moved: Vec<&str> = moved.map(|event| event.reason.as_str()).collect();
    assert!(moved[0].starts_with("active -> blocked"), "{moved:?}");
    assert_eq!(question.escalates, Some(old_of(&fleet, epic)));
}

fn old_of(fleet: &Fleet, epic: EpicId) -> crate::id::AssignmentId {
    fleet.node(epic, "T1.1").latest.unwrap()
}

#[test]
fn answer_requeues_the_node_with_one_more_attempt() {
    for (attempts, allowed) in [(1, 2), (2, 2)] {
        let (mut fleet, epic, _, question) = escalated(attempts);
        assert_eq!(answer(&mut fleet, question, "it is in the vault"), None);
        assert_eq!(questions(&fleet.records), [(question, QuestionStatus::Answered)]);
        let state = fleet.node(epic, "T1.1");
        assert_eq!((state.status, state.blocker.as_ref()), (NodeStatus::Queued, None));
        assert_eq!(state.findings[0], "human:Shai answered: it is in the vault");
        let node = &fleet.records.nodes[&epic][&super::fleet::node("T1.1")];
        assert_eq!(node.max_attempts, allowed);
        let next = fleet.worker(epic, "T1.1");
        let brief = format!("{:?}", fleet.records.runs[&fleet.run_of(&next)].brief);
        assert!(brief.contains("it is in the vault"), "{brief}");
        fleet.end(&next, success("done"));
        assert_eq!(fleet.node(epic, "T1.1").status, NodeStatus::Done);
    }
}

#[test]
fn answer_may_give_the_node_up() {
    let (mut fleet, epic, _, question) = escalated(1);
    assert_eq!(answer(&mut fleet, question, "cancel"), None);
    assert_eq!(fleet.node(epic, "T1.1").status, NodeStatus::Cancelled);
    assert_eq!(answer(&mut fleet, question, "try again"), Some(ErrorCode::Conflict));
}

#[test]
fn waiting_agent_is_not_idle() {
    for event in [RunEvent::InputNeeded, RunEvent::UserPaused, RunEvent::CompactionStarted] {
        let (mut fleet, _, worker) = working(2);
        let (run, reason) = (fleet.run_of(&worker), String::new());
        fleet.report(&worker, Report::Run { run, event, reason, usage: Usage::default() });
        let at = fleet.now + IDLE_AFTER;
        assert_eq!(asked(&oversee(&mut fleet, at)), [], "{event}");
        assert_eq!(assignment(&fleet, &worker).recovery.last_activity, at, "{event}");
        assert_eq!(oversee(&mut fleet, at).records, [], "{event}");
    }
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let specialist = fleet.member(epic, "T1.1", Role::Specialist);
    let child = fleet.sponsored(epic, &specialist).spawned[0].agent.clone();
    fleet.report(&child, Report::Ready);
    let at = fleet.now + IDLE_AFTER;
    let entry = oversee(&mut fleet, at);
    assert_eq!(topics(&entry, &specialist), Vec::<String>::new(), "its child is at work");
    assert_eq!(topics(&entry, &child), ["status.request"]);
}

#[test]
fn new_owner_listens_first() {
    let (mut fleet, _, worker) = working(2);
    let at = due(&fleet, &worker);
    fleet.now = at;
    for (heard_since, asks) in [(BusTime(at.0 - IDLE_AFTER.0 + 1), 0), (at, 0)] {
        let telemetry = Telemetry { since: heard_since, ..Telemetry::default() };
        assert_eq!(asked(&fleet.one(Input::Oversee(telemetry))).len(), asks);
        fleet.now = at;
    }
    let telemetry = Telemetry { since: BusTime(at.0 - IDLE_AFTER.0), ..Telemetry::default() };
    assert_eq!(asked(&fleet.one(Input::Oversee(telemetry))).len(), 1);
}

#[test]
fn succeeding_owner_decides_the_same() {
    let (mut fleet, _, worker) = working(1);
    let mut other = Records::default();
    for _ in 0..4 {
        let at = due(&fleet, &worker);
        other = fleet.ledger.iter().fold(Records::default(), |mut records, entry| {
            records.apply(entry);
            records
        });
        let own =
            crate::owner::decide(&fleet.records, &fleet.policy, at, &Input::Oversee(silence()));
        let its = crate::owner::decide(&other, &fleet.policy, at, &Input::Oversee(silence()));
        assert_eq!(own, its);
        oversee(&mut fleet, at);
        if fleet.agent(&worker).liveness == Liveness::Terminated {
            break;
        }
    }
    assert!(!other.dispatches.is_empty());
}

#[test]
fn manual_tick_reports_what_was_done() {
    let (mut fleet, _, worker) = working(2);
    let tick = |fleet: &mut Fleet, from: &Principal| {
        let body = RequestBody::Op(Op::OverseerTick(silence()));
        let input = fleet.asking(from, body);
        reply(&fleet.one(input))
    };
    assert_eq!(tick(&mut fleet, &human()).detail, "nothing stands still");
    fleet.now = due(&fleet, &worker);
    let told = tick(&mut fleet, &human()).detail;
    assert_eq!(told, format!("T1.1 {worker}: nudge: no activity for 15m; asked 0 of 2 times"));
    let refused = tick(&mut fleet, &Principal::Agent(po()));
    assert_eq!(refused.error, Some(ErrorCode::Unauthorized));
    assert_eq!(topics(&fleet.ledger[0], &id("GO")), Vec::<String>::new());
}

#[test]
fn tick_is_bounded_and_continues_oldest_due_first() {
    let (mut fleet, _, worker) = working(2);
    let one = assignment(&fleet, &worker).clone();
    // Copies that a tick looks at; nobody needs to be behind them.
    let mut records = fleet.records.clone();
    for n in 0..ASSIGNMENTS_PER_TICK as u128 + 5 {
        let mut copy = one.clone();
        copy.id = crate::id::AssignmentId(crate::id::Ulid(n));
        copy.recovery.last_activity = BusTime(2_000_000 + n as u64);
        copy.recovery.dispatched = BusTime(0);
        records.put(crate::ledger::Record::Assignment(Box::new(copy)));
    }
    records.remove(&crate::ledger::RecordKey::Assignment(one.id));
    let now = BusTime(3_000_000) + IDLE_AFTER;
    let progressed = [(worker, now)].into();
    let input = Input::Oversee(Telemetry { since: BusTime(0), progressed, ..Telemetry::default() });
    let mut looked = 0;
    for _ in 0..10 {
        let step = crate::owner::decide(&records, &fleet.policy, now, &input);
        let ids: Vec<_> = step.records.keys().cloned().collect();
        assert!(ids.len() <= ASSIGNMENTS_PER_TICK);
        if ids.is_empty() {
            break;
        }
        for n in 0..ids.len() as u128 {
            let key = crate::ledger::RecordKey::Assignment(crate::id::AssignmentId(
                crate::id::Ulid(looked as u128 + n),
            ));
            assert!(ids.contains(&key), "the oldest first");
        }
        looked += ids.len();
        step.records.into_values().for_each(|record| records.put(record));
    }
    assert_eq!(looked, ASSIGNMENTS_PER_TICK + 5);
    fleet.now = now;
}

#[test]
fn dispatches_are_kept_bounded_and_forgotten_with_their_assignment() {
    let (mut fleet, _, worker) = working(2);
    let of = assignment(&fleet, &worker).id;
    for _ in 0..LIST_MAX + 3 {
        let at = due(&fleet, &worker);
        oversee(&mut fleet, at);
        says(&mut fleet, &worker, r#"{"status": "in_progress"}"#);
    }
    assert_eq!(fleet.records.dispatched_for(of).count(), LIST_MAX);
    fleet.end(&worker, success("done"));
    fleet.now = fleet.now + crate::limits::ENDED_KEPT + Millis(1);
    fleet.one(Input::Tick);
    assert!(fleet.records.dispatches.is_empty() && fleet.records.assignments.is_empty());
}

/// What the owner does at the first stall, given what its shell read of the journal; why, in words.
fn diagnosed(diagnosis: Diagnosis) -> (Fleet, AgentId, String) {
    let (mut fleet, _, worker) = working(2);
    let at = due(&fleet, &worker);
    let run = fleet.run_of(&worker);
    assert_eq!(stalling(&fleet.records, &fleet.policy, &silence(), before(at)), []);
    assert_eq!(stalling(&fleet.records, &fleet.policy, &silence(), at), [run]);
    fleet.now = at;
    let telemetry = Telemetry { diagnosed: [(run, diagnosis)].into(), ..silence() };
    let entry = fleet.one(Input::Oversee(telemetry));
    let why: Vec<String> = entry.events.into_iter().map(|event| event.reason).collect();
    (fleet, worker, why.join(" | "))
}

#[test]
fn end_of_the_journal_chooses_the_rung() {
    for diagnosis in [Diagnosis::Unknown, Diagnosis::Slow] {
        let (fleet, worker, why) = diagnosed(diagnosis);
        assert_eq!(assignment(&fleet, &worker).recovery.retries, 1, "{why}");
        assert_eq!(why.contains("its journal shows work"), diagnosis == Diagnosis::Slow, "{why}");
        assert_eq!(stalling(&fleet.records, &fleet.policy, &silence(), fleet.now), []);
    }
    let (fleet, _, why) = diagnosed(Diagnosis::WaitsForHuman);
    assert_eq!(questions(&fleet.records).len(), 1);
    assert!(why.contains("its journal ends with a question"), "{why}");
    let (fleet, _, why) = diagnosed(Diagnosis::Failed);
    assert_eq!(questions(&fleet.records), []);
    assert!(why.contains("reassign: it failed and did not say so"), "{why}");
}
