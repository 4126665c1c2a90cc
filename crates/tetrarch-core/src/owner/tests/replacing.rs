//! What becomes of a session that is to be replaced or rotated on request.

use super::fleet::{
    Fleet, create, human, id, po, reply, request, success, task, tasks, topics, wish,
};
use crate::error::ErrorCode;
use crate::id::{AgentId, EpicId, Principal, SessionId, Ulid};
use crate::intensity::FailureCause;
use crate::ledger::{Entry, EventKind};
use crate::limits::{DRAIN, KILL_GRACE};
use crate::liveness::Liveness;
use crate::mail::{MailBody, OpReply};
use crate::owner::{Input, ending};
use crate::plan::NodeStatus;
use crate::request::{HOST_RESTART, Op, Report, RequestBody};
use crate::role::Role;
use crate::run::{RunEvent, RunState};
use crate::step::Draft;
use serde_json::json;

fn ho() -> AgentId {
    id("HO@h1")
}

fn replace(fleet: &Fleet, agent: &AgentId, give_up: bool) -> Op {
    let session = fleet.agent(agent).session.unwrap();
    Op::AgentReplace { agent: agent.clone(), session, give_up, reason: "it hangs".to_owned() }
}

fn rotate(agent: &AgentId) -> Op {
    Op::AgentRotate { agent: agent.clone(), reason: String::new() }
}

fn asked(fleet: &mut Fleet, from: &Principal, op: Op) -> (Entry, OpReply) {
    let input = fleet.asking(from, RequestBody::Op(op));
    let entry = fleet.one(input);
    let reply = reply(&entry);
    (entry, reply)
}

fn gone() -> Report {
    Report::Gone { cause: "it hangs".to_owned() }
}

fn working() -> (Fleet, EpicId, AgentId) {
    let (mut fleet, epic) = Fleet::with_goal(tasks(2));
    let worker = fleet.worker(epic, "T1.1");
    (fleet, epic, worker)
}

fn run_state(fleet: &Fleet, agent: &AgentId) -> RunState {
    fleet.records.run_status[&fleet.run_of(agent)].state
}

#[test]
fn earlier_host_life_may_not_report_a_session_gone() {
    let (mut fleet, _, worker) = working();
    let op = replace(&fleet, &worker, false);
    let (entry, _) = asked(&mut fleet, &human(), op);
    let life = fleet.agent(&worker).placement.as_ref().unwrap().host_epoch;
    let order = entry.mail.iter().find_map(|mail| {
        let MailBody::Kill(order) = &mail.body else { return None };
        Some(order)
    });
    let order = order.unwrap();
    assert_eq!(order.host_epoch, life, "it says under which life the session was placed");
    assert!(order.is_told_by(life), "that life knows what it has");
    assert!(order.is_told_by(life + 1), "and the next one ended it all before it joined");
    assert!(!order.is_told_by(life - 1));
}

#[test]
fn live_session_is_killed_then_replaced() {
    let (mut fleet, epic, worker) = working();
    let (before, run) = (fleet.agent(&worker).clone(), fleet.run_of(&worker));
    let op = replace(&fleet, &worker, false);
    let at = fleet.now;
    let (entry, answer) = asked(&mut fleet, &human(), op);
    assert_eq!((answer.error, answer.session), (None, before.session));
    assert!(answer.detail.contains("ends first"), "{answer:?}");
    assert_eq!(topics(&entry, &ho()), ["kill"], "nothing is started beside what may live");
    let agent = fleet.agent(&worker);
    assert_eq!((agent.epoch, agent.liveness), (1, Liveness::Active));
    let ending = agent.ending.clone().unwrap();
    assert_eq!((ending.cause, ending.reason.as_str()), (FailureCause::Stopped, "it hangs"));
    assert_eq!(ending.until, at + DRAIN + KILL_GRACE + fleet.policy.window);
    assert_eq!(fleet.records.ending().collect::<Vec<_>>(), [(ending.until, &worker)]);

    let entry = fleet.report(&worker, gone());
    assert_eq!(topics(&entry, &ho()), ["launch"]);
    let next = fleet.agent(&worker).clone();
    assert_eq!((next.epoch, next.liveness, next.ending), (2, Liveness::Register, None));
    assert_eq!((&next.slots, &next.account), (&before.slots, &before.account));
    assert_eq!(fleet.records.ending().count(), 0);
    assert_eq!(fleet.records.runs[&fleet.run_of(&worker)].continues, Some(run));
    assert_eq!(fleet.records.run_status[&run].state, RunState::Orphaned);
    assert!(!fleet.agent(&po()).circuit.is_open());
    assert_eq!(fleet.agent(&po()).circuit.failures.times(), [], "who asks is not charged for it");
    fleet.report(&worker, Report::Ready);
    fleet.end(&worker, success("done"));
    assert_eq!(fleet.node(epic, "T1.1").status, NodeStatus::Done);
}

#[test]
fn replaced_session_is_answered_with_its_successor() {
    let (mut fleet, _, worker) = working();
    let op = replace(&fleet, &worker, false);
    fleet.op(&human(), op.clone());
    let (again, answer) = asked(&mut fleet, &human(), op.clone());
    assert_eq!((answer.error, answer.agent_epoch), (None, Some(1)));
    assert_eq!(topics(&again, &ho()), [""; 0], "it is being killed already");
    fleet.report(&worker, gone());
    let (late, answer) = asked(&mut fleet, &human(), op);
    assert_eq!((answer.error, answer.agent_epoch), (None, Some(2)));
    assert_eq!(answer.session, fleet.agent(&worker).session);
    assert_eq!(topics(&late, &ho()), [""; 0]);
    assert_eq!(fleet.agent(&worker).ending, None);
}

#[test]
fn session_waiting_for_a_host_is_placed_or_stays_offline() {
    let (mut fleet, _, worker) = working();
    fleet.report(&ho(), Report::Gone { cause: "stopped".to_owned() });
    assert_eq!(fleet.agent(&worker).liveness, Liveness::Offline);
    let op = replace(&fleet, &worker, false);
    let (_, answer) = asked(&mut fleet, &human(), op.clone());
    assert_eq!((answer.error, answer.liveness), (None, Some(Liveness::Offline)));
    assert!(answer.detail.contains("no host"), "{answer:?}");

    let mut narrow = fleet.clone();
    narrow.join("h2", "life1", 0);
    assert_eq!(narrow.agent(&po()).liveness, Liveness::Register);
    assert_eq!(narrow.agent(&worker).liveness, Liveness::Offline);
    narrow.op(&human(), Op::AgentRetire { agent: po(), reason: String::new() });
    assert_eq!(narrow.agent(&worker).liveness, Liveness::Terminated);

    fleet.join("h2", "life1", 20);
    let (_, answer) = asked(&mut fleet, &human(), op);
    assert_eq!((answer.agent_epoch, answer.liveness), (Some(2), Some(Liveness::Register)));
}

#[test]
fn abandoned_session_has_failed_and_its_process_is_killed() {
    let (mut fleet, epic, worker) = working();
    let op = replace(&fleet, &worker, true);
    let (entry, answer) = asked(&mut fleet, &po().into(), op);
    assert_eq!((answer.error, answer.liveness), (None, Some(Liveness::Terminated)));
    assert_eq!(topics(&entry, &ho()), ["kill"]);
    assert_eq!(fleet.node(epic, "T1.1").status, NodeStatus::Queued, "another may try");
    assert_eq!(fleet.agent(&po()).slots_held(), 0);
    let late = fleet.report(&worker, gone());
    assert_eq!((late.events.len(), late.mail.len()), (0, 0), "it is expected");

    let other = fleet.worker(epic, "T1.2");
    let event = RunEvent::CancelRequested;
    let (run, reason) = (fleet.run_of(&other), String::new());
    fleet.report(&other, Report::Run { run, event, reason, usage: Default::default() });
    let op = replace(&fleet, &other, true);
    assert_eq!(asked(&mut fleet, &human(), op).1.error, None);
    assert_eq!(fleet.node(epic, "T1.2").status, NodeStatus::Blocked, "it was being stopped");
}

#[test]
fn only_ancestors_may_replace() {
    let (mut fleet, epic, worker) = working();
    let other = fleet.worker(epic, "T1.2");
    for from in [&other, &worker, &ho()] {
        let from = Principal::Agent(from.clone());
        for op in [replace(&fleet, &worker, false), rotate(&worker)] {
            assert_eq!(fleet.op(&from, op).error, Some(ErrorCode::Unauthorized), "{from}");
        }
    }
    assert_eq!(fleet.agent(&worker).ending, None);
    assert_eq!(fleet.op(&po().into(), rotate(&worker)).error, None);

    let (mut fleet, epic) = Fleet::with_goal(super::fleet::plan_of(&[task("T1.1", json!({}))]));
    let specialist = fleet.member(epic, "T1.1", Role::Specialist);
    let below = fleet.sponsored(epic, &specialist).spawned[0].agent.clone();
    fleet.report(&below, Report::Ready);
    assert_eq!(fleet.op(&po().into(), rotate(&below)).error, None, "its sponsor");
    let op = replace(&fleet, &below, false);
    assert_eq!(fleet.op(&specialist.clone().into(), op).error, None, "its parent");
    let mut late = fleet.ask(&specialist.into(), RequestBody::Op(rotate(&below)));
    late.sender.epoch = 7;
    let entry = fleet.one(Input::Request(Box::new(late)));
    assert_eq!(reply(&entry).error, Some(ErrorCode::Superseded));
}

#[test]
fn impossible_replacement_or_rotation_is_refused_with_the_reason() {
    let (mut fleet, epic, worker) = working();
    let session = fleet.agent(&worker).session.unwrap();
    let of = |agent: &str| Op::AgentReplace {
        agent: id(agent),
        session,
        give_up: false,
        reason: String::new(),
    };
    let nobody = format!("W:{}", Ulid(9));
    let (missing, other_session) = (
        of(&nobody),
        Op::AgentReplace {
            agent: worker,
            session: SessionId(Ulid(3)),
            give_up: false,
            reason: String::new(),
        },
    );
    let structural = |fleet: &Fleet, agent: &AgentId, give_up| replace(fleet, agent, give_up);
    let waiting = fleet.spawn(&po(), request(epic, "-", vec![wish(Role::Worker)]));
    let waiting = waiting.spawned[0].agent.clone();
    let cases = [
        (missing, ErrorCode::NotFound, "was not found"),
        (other_session, ErrorCode::NotFound, "is not a session of"),
        (rotate(&id(&nobody)), ErrorCode::NotFound, "was not found"),
        (structural(&fleet, &ho(), false), ErrorCode::InvalidRequest, "with its process"),
        (structural(&fleet, &AgentId::Go, false), ErrorCode::InvalidRequest, "with its process"),
        (rotate(&ho()), ErrorCode::InvalidRequest, "with its process"),
        (rotate(&AgentId::Go), ErrorCode::InvalidRequest, "with its process"),
        (structural(&fleet, &po(), true), ErrorCode::InvalidRequest, "no attempt to give up"),
        (structural(&fleet, &ho(), true), ErrorCode::InvalidRequest, "no attempt to give up"),
        (rotate(&waiting), ErrorCode::Conflict, "is starting"),
    ];
    for (op, code, says) in cases {
        let (entry, answer) = asked(&mut fleet, &human(), op.clone());
        assert_eq!(answer.error, Some(code), "{op:?}: {answer:?}");
        assert!(answer.detail.contains(says), "{op:?}: {answer:?}");
        assert_eq!(topics(&entry, &ho()), [""; 0], "{op:?}");
    }
}

#[test]
fn stopping_or_ended_agent_is_neither_replaced_nor_rotated() {
    let (mut fleet, epic, worker) = working();
    let event = RunEvent::CancelRequested;
    let (run, reason) = (fleet.run_of(&worker), String::new());
    fleet.report(&worker, Report::Run { run, event, reason, usage: Default::default() });
    for op in [replace(&fleet, &worker, false), rotate(&worker)] {
        let answer = fleet.op(&human(), op);
        assert_eq!(answer.error, Some(ErrorCode::Conflict));
        assert!(answer.detail.contains("being stopped"), "{answer:?}");
    }
    let ended = fleet.worker(epic, "T1.2");
    fleet.end(&ended, success("done"));
    for op in [replace(&fleet, &ended, false), replace(&fleet, &ended, true), rotate(&ended)] {
        let answer = fleet.op(&human(), op);
        assert_eq!(answer.error, Some(ErrorCode::Conflict));
        assert!(answer.detail.contains("has ended"), "{answer:?}");
    }
    fleet.report(&ho(), Report::Gone { cause: "stopped".to_owned() });
    let answer = fleet.op(&human(), rotate(&po()));
    assert_eq!(answer.error, Some(ErrorCode::Conflict));
    assert!(answer.detail.contains("offline"), "{answer:?}");
}

#[test]
fn external_agent_starts_its_next_session_itself() {
    let mut fleet = Fleet::new();
    fleet.op(&human(), Op::ProjectCreate(create(true)));
    fleet.op(&po().into(), Op::AgentRegister);
    for op in [replace(&fleet, &po(), false), rotate(&po())] {
        let answer = fleet.op(&human(), op);
        assert_eq!(answer.error, Some(ErrorCode::InvalidRequest));
        assert!(answer.detail.contains("registering"), "{answer:?}");
    }
}

#[test]
fn rotation_ends_the_session_and_starts_the_next() {
    let (mut fleet, _, worker) = working();
    let run = fleet.run_of(&worker);
    let (entry, answer) = asked(&mut fleet, &human(), rotate(&worker));
    assert_eq!(answer.error, None);
    assert_eq!(topics(&entry, &ho()), ["rotate"]);
    let (again, answer) = asked(&mut fleet, &human(), rotate(&worker));
    assert_eq!((answer.error, topics(&again, &ho()).len()), (None, 0));
    for _ in 0..5 {
        let entry = fleet.report(&worker, gone());
        assert_eq!(topics(&entry, &ho()), ["launch"]);
        assert_eq!(topics(&entry, &po()), [""; 0], "nothing is lost");
        let ended = entry.events.iter().find(|event| event.kind == EventKind::AgentLiveness);
        assert!(ended.unwrap().reason.ends_with("terminated: rotated"), "{ended:?}");
        fleet.report(&worker, Report::Ready);
        fleet.op(&human(), rotate(&worker));
    }
    assert_eq!(fleet.agent(&worker).epoch, 6);
    let first = &fleet.records.run_status[&run];
    assert_eq!((first.state, &first.result), (RunState::Orphaned, &None));
    assert_eq!(fleet.agent(&po()).circuit.failures.times(), [], "no failure");
}

#[test]
fn result_during_rotation_counts() {
    let (mut fleet, epic, worker) = working();
    fleet.op(&human(), rotate(&worker));
    fleet.end(&worker, success("just done"));
    assert_eq!(fleet.agent(&worker).liveness, Liveness::Terminated);
    assert_eq!(fleet.agent(&worker).ending, None);
    assert_eq!(fleet.node(epic, "T1.1").status, NodeStatus::Done);
    let late = fleet.report(&worker, gone());
    assert!(late.records.is_empty());
}

#[test]
fn overdue_rotation_becomes_a_kill() {
    let (mut fleet, _, worker) = working();
    fleet.op(&human(), rotate(&worker));
    let first = fleet.agent(&worker).ending.clone().unwrap().until;
    let op = replace(&fleet, &worker, false);
    let (entry, _) = asked(&mut fleet, &human(), op);
    assert_eq!(topics(&entry, &ho()), ["kill"]);
    let ending = fleet.agent(&worker).ending.clone().unwrap();
    assert_eq!(ending.cause, FailureCause::Stopped);
    assert!(ending.until > first);
    let (entry, _) = asked(&mut fleet, &human(), rotate(&worker));
    assert_eq!(topics(&entry, &ho()), [""; 0], "it is killed and goes on all the same");
}

#[test]
fn host_lost_with_its_session_replaces_it() {
    let (mut fleet, _, worker) = working();
    let op = replace(&fleet, &worker, false);
    fleet.op(&human(), op);
    let entry = fleet.join("h1", "life2", 20);
    assert_eq!(topics(&entry, &ho()), ["launch", "launch", "reply"]);
    assert_eq!((fleet.agent(&worker).epoch, &fleet.agent(&worker).ending), (2, &None));
    let crashed = fleet.report(&worker, Report::Crashed { cause: HOST_RESTART.to_owned() });
    assert_eq!(crashed.events.iter().filter(|e| e.kind == EventKind::AgentEnding).count(), 0);
}

#[test]
fn crash_before_the_kill_is_a_crash() {
    let (mut fleet, _, worker) = working();
    let op = replace(&fleet, &worker, false);
    fleet.op(&human(), op);
    fleet.report(&worker, Report::Crashed { cause: "signal 9".to_owned() });
    let agent = fleet.agent(&worker);
    assert_eq!((agent.epoch, &agent.ending), (2, &None));
    assert_eq!(fleet.agent(&po()).circuit.failures.times().len(), 1);
    assert_eq!(run_state(&fleet, &worker), RunState::Spawning);
}

#[test]
fn orchestrator_is_rotated_like_any_agent() {
    let (mut fleet, _, worker) = working();
    assert_eq!(fleet.op(&human(), rotate(&po())).error, None);
    let entry = fleet.report(&po(), gone());
    assert_eq!(topics(&entry, &ho()), ["launch"]);
    assert_eq!((fleet.agent(&po()).epoch, fleet.agent(&po()).slots_held()), (2, 1));
    assert_eq!(fleet.agent(&worker).liveness, Liveness::Active, "its children stay");
}

#[test]
fn unordered_gone_ends_the_agent_unless_it_waits_for_a_host() {
    let (mut fleet, epic, worker) = working();
    let mut waits = fleet.clone();
    fleet.report(&worker, gone());
    assert_eq!(fleet.agent(&worker).liveness, Liveness::Terminated);
    assert_eq!(fleet.node(epic, "T1.1").status, NodeStatus::Blocked, "its work is still wanted");
    waits.report(&ho(), Report::Gone { cause: "stopped".to_owned() });
    waits.report(&worker, gone());
    assert_eq!(waits.agent(&worker).liveness, Liveness::Offline);
}

#[test]
fn hung_session_is_charged_when_it_is_gone() {
    let (mut fleet, epic, worker) = working();
    fleet.policy.intensity.max = 1;
    for (epoch, failures) in [(2, 1), (2, 0)] {
        let records = fleet.records.clone();
        let mut draft = Draft::new(&records, fleet.now, AgentId::Go.into());
        let cause = FailureCause::Hung;
        ending::replace_when_gone(&mut draft, &fleet.policy, &worker, cause, "no progress");
        let step = draft.finish();
        for record in step.records.into_values() {
            fleet.records.put(record);
        }
        assert_eq!(fleet.agent(&worker).ending.as_ref().unwrap().cause, cause);
        fleet.report(&worker, gone());
        assert_eq!(fleet.agent(&worker).epoch, epoch);
        assert_eq!(fleet.agent(&po()).circuit.failures.times().len(), failures);
        fleet.report(&worker, Report::Ready);
    }
    assert!(fleet.agent(&po()).circuit.is_open());
    assert_eq!(fleet.agent(&worker).liveness, Liveness::Offline, "one too many: it waits");
    assert_eq!(fleet.node(epic, "T1.1").status, NodeStatus::InProgress, "and keeps its work");
    let failed = |body: &MailBody| matches!(body, MailBody::AgentLost { cause, .. } if cause == "no progress");
    let last = fleet.ledger.iter().rev().find(|entry| entry.mail.iter().any(|m| failed(&m.body)));
    assert!(last.is_some(), "its parent is told");
}
