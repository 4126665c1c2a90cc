//! Entries that break what must hold from one to the next.

use super::{Scene, assert_found, scene};
use crate::agent::{Agent, Mode, Placement};
use crate::assignment::{AssignmentStatus, Purpose};
use crate::brief::Usage;
use crate::budget::{Limits, Spend};
use crate::check::check_entry;
use crate::goal::GoalStatus;
use crate::id::{AgentId, HostName, SessionId, Ulid};
use crate::intensity::Intensity;
use crate::ledger::{Decision, Entry, Record, RecordKey};
use crate::liveness::Liveness;
use crate::mail::MailBody;
use crate::owner::tests::fleet::{Fleet, human, id, node, po, project, request, success, wish};
use crate::plan::NodeStatus;
use crate::records::Records;
use crate::request::{BudgetOp, Op, Report};
use crate::role::Role;
use crate::run::{RunState, RunStatus};
use crate::time::BusTime;

/// Breaks an entry, or the records before it, and expects to hear of it.
#[track_caller]
fn broken(
    invariant: u8,
    text: &str,
    act: impl FnOnce(&mut Scene),
    change: impl FnOnce(&Scene, &mut Records, &mut Entry),
) {
    let mut scene = scene();
    let mut before = scene.fleet.records.clone();
    act(&mut scene);
    let mut entry = scene.fleet.ledger.last().unwrap().clone();
    assert_eq!(check_entry(&before, 1, &entry), [], "it was sound");
    change(&scene, &mut before, &mut entry);
    let found = check_entry(&before, 9, &entry);
    assert_found(&found, invariant, text);
    assert!(found.iter().all(|violation| violation.seq == Some(9)));
}

/// The last worker ends.
fn end(scene: &mut Scene) {
    let worker = scene.worker.clone();
    scene.fleet.end(&worker, success("done"));
}

/// Another worker is admitted.
fn admit(scene: &mut Scene) {
    let wanted = request(scene.epic, "-", vec![wish(Role::Worker)]);
    assert!(scene.fleet.spawn(&po(), wanted).accepted());
}

/// A human raises the project's grant.
fn raise(scene: &mut Scene) {
    let more = Spend { tokens: 1, ..Spend::default() };
    let op = BudgetOp::Raise { agent: po(), more, reason: String::new() };
    assert_eq!(scene.fleet.op(&human(), Op::Budget(op)).error, None);
}

fn nothing(scene: &mut Scene) {
    scene.fleet.report(&po(), Report::Ready);
}

fn rejoin(scene: &mut Scene) {
    scene.fleet.join("h1", "life3", 20);
}

fn agent(entry: &mut Entry, id: &AgentId, change: impl FnOnce(&mut Agent)) {
    for record in &mut entry.records {
        if let Record::Agent(agent) = record
            && agent.id == *id
        {
            change(agent);
            return;
        }
    }
    panic!("the entry has no {id}");
}

/// Adds an after-image of an agent that an entry does not touch.
fn also(before: &Records, entry: &mut Entry, id: &AgentId, change: impl FnOnce(&mut Agent)) {
    let mut image = before.agents[id].clone();
    change(&mut image);
    entry.records.push(Record::Agent(Box::new(image)));
}

#[test]
fn epochs_and_covered_positions_only_grow() {
    broken(8, "follows 3", nothing, |_, before, _| before.epoch = 3);
    broken(20, "they were up to 999", nothing, |_, before, _| before.intake_seq = 999);
    broken(8, "does not say so", nothing, |_, _, entry| entry.epoch += 1);
}

#[test]
fn entry_has_one_image_per_record() {
    broken(20, "two images", end, |_, _, entry| entry.records.push(entry.records[0].clone()));
    broken(20, "both written and forgotten", end, |_, _, entry| {
        entry.dropped.push(entry.records[0].key());
    });
}

#[test]
fn plan_version_rises_by_one_with_one_event() {
    broken(13, "follows", end, |_, before, _| {
        before.plans.values_mut().for_each(|plan| plan.version -= 1);
    });
    broken(13, "has no event", end, |_, _, entry| entry.plans.clear());
    broken(13, "two events", end, |_, _, entry| entry.plans.push(entry.plans[0].clone()));
    let unraised = |entry: &mut Entry| {
        entry.records.retain(|record| !matches!(record, Record::Plan(_)));
    };
    broken(13, "its version did not", end, |_, _, entry| unraised(entry));
    // A count of failures alone is nothing that people see of a plan; anything else is.
    let counted = |before: &Records, s: &Scene| {
        let mut state = before.node_states[&s.epic][&node("T1.1")].clone();
        state.failures.note(BusTime(7), Intensity::OF_TASK);
        state
    };
    broken(13, "its version did not", nothing, |s, before, entry| {
        let mut state = counted(before, s);
        state.findings = vec!["something".to_owned()];
        entry.records.push(Record::NodeState(s.epic, Box::new(state)));
    });
    let mut scene = scene();
    let before = scene.fleet.records.clone();
    nothing(&mut scene);
    let mut entry = scene.fleet.ledger.last().unwrap().clone();
    let state = counted(&before, &scene);
    entry.records.push(Record::NodeState(scene.epic, Box::new(state)));
    assert_eq!(check_entry(&before, 9, &entry), []);
    broken(13, "did not change", end, |_, _, entry| {
        unraised(entry);
    });
}

#[test]
fn request_is_decided_once() {
    broken(3, "otherwise", admit, |_, before, entry| {
        let made = entry.records.iter().find_map(|record| {
            if let Record::Decision(decision) = record { Some((**decision).clone()) } else { None }
        });
        let other = Decision { digest: "other".to_owned(), ..made.unwrap() };
        before.put(Record::Decision(Box::new(other)));
    });
}

#[test]
fn nothing_is_placed_on_an_ended_host_life() {
    let placed = |epoch| {
        let host = HostName::new("h1").unwrap();
        Some(Placement { host, host_epoch: epoch })
    };
    broken(22, "which is over", rejoin, |_, _, entry| {
        agent(entry, &po(), |agent| agent.placement = placed(2));
    });
    broken(22, "which is over", rejoin, |_, _, entry| {
        agent(entry, &id("HO@h1"), |host| host.liveness = Liveness::Offline);
    });
    broken(22, "which is over", nothing, |_, before, entry| {
        also(before, entry, &po(), |agent| {
            agent.placement = placed(1);
            agent.liveness = Liveness::Stale;
        });
    });
}

#[test]
fn session_is_sealed_and_launched_once() {
    broken(7, "not sealed", rejoin, |_, _, entry| entry.seals.clear());
    broken(7, "not sealed", rejoin, |s, _, entry| entry.seals[0].agent = s.ended.clone());
    broken(7, "not sealed", rejoin, |_, _, entry| entry.seals[0].epoch += 1);
    broken(7, "not sealed", rejoin, |_, _, entry| entry.seals[0].session = SessionId(Ulid(99)));
    let launch = |entry: &Entry| {
        let mail = entry.mail.iter().find(|mail| matches!(mail.body, MailBody::Launch(_)));
        mail.unwrap().clone()
    };
    broken(4, "launched 2 times", rejoin, |_, _, entry| {
        let again = launch(entry);
        entry.mail.push(again);
    });
    broken(4, "launched 0 times", rejoin, |_, _, entry| entry.mail.clear());
    broken(4, "launched again", admit, |_, _, entry| {
        let mut again = launch(entry);
        if let MailBody::Launch(launch) = &mut again.body {
            launch.agent = po();
        }
        entry.mail.push(again);
    });
}

#[test]
fn past_sessions_of_an_agent_are_immutable() {
    broken(6, "epoch 1 follows 2", end, |_, _, entry| agent(entry, &po(), |a| a.epoch = 1));
    broken(6, "two sessions", end, |_, _, entry| {
        agent(entry, &po(), |a| a.session = Some(SessionId(Ulid(4))));
    });
    broken(6, "keeps the session", end, |_, _, entry| agent(entry, &po(), |a| a.epoch = 3));
    broken(1, "another depth", end, |_, _, entry| agent(entry, &po(), |a| a.depth = 2));
    broken(1, "depth limit grew", end, |_, before, _| {
        let mut po = before.agents[&po()].clone();
        po.local_max_depth = 2;
        before.put(Record::Agent(Box::new(po)));
    });
    broken(10, "active -> register", end, |_, _, entry| {
        agent(entry, &po(), |a| a.liveness = Liveness::Register);
    });
    broken(10, "terminated -> active", nothing, |s, before, entry| {
        also(before, entry, &s.ended, |a| a.liveness = Liveness::Active);
    });
    broken(18, "it was", end, |_, before, _| {
        let mut po = before.agents[&po()].clone();
        po.account.spent = Spend { tokens: 5000, ..Spend::default() };
        before.put(Record::Agent(Box::new(po)));
    });
    broken(18, "another amount", raise, |_, _, entry| {
        agent(entry, &po(), |a| a.account.limit.tokens = Some(899));
    });
    broken(19, "no human did so", raise, |_, _, entry| {
        entry.events.iter_mut().for_each(|event| event.actor = po().into());
    });
    broken(19, "no human did so", raise, |_, _, entry| entry.events.clear());
    broken(18, "another amount", end, |_, _, entry| {
        agent(entry, &po(), |a| a.account.limit = Limits::default());
    });
}

#[test]
fn slots_are_freed_by_ends_and_taken_within_the_mode() {
    broken(5, "freed before it ended", nothing, |_, before, entry| {
        also(before, entry, &po(), |a| a.slots.clear());
    });
    broken(5, "forgotten before", nothing, |s, _, entry| {
        entry.dropped.push(RecordKey::Agent(s.worker.clone()));
    });
    broken(2, "its mode allows 1", admit, |_, before, _| {
        before.projects.get_mut(&project()).unwrap().mode = Mode::Tight;
    });
    let mut fleet = Fleet::ready();
    let before = fleet.records.clone();
    fleet.op(&human(), Op::ProjectMode { project: project(), mode: Mode::Solo });
    assert_eq!(check_entry(&before, 1, fleet.ledger.last().unwrap()), []);
}

#[test]
fn runs_and_assignments_only_move_forward() {
    let status = |before: &Records, scene: &Scene, id: &AgentId| {
        let run = before.agents[id].work.as_ref().unwrap().run;
        let _scene = scene;
        before.run_status[&run].clone()
    };
    broken(10, "done -> running", nothing, |s, before, entry| {
        let mut moved = status(before, s, &s.ended);
        moved.state = RunState::Running;
        entry.records.push(Record::RunStatus(Box::new(moved)));
    });
    broken(10, "it had ended and changed", nothing, |s, before, entry| {
        let mut moved = status(before, s, &s.ended);
        moved.result = None;
        entry.records.push(Record::RunStatus(Box::new(moved)));
    });
    broken(10, "it had ended and changed", nothing, |s, before, entry| {
        let moved = status(before, s, &s.ended);
        let kept = before.run_status.get_mut(&moved.id).unwrap();
        kept.archive = Some("a".repeat(64));
        let archive = Some("b".repeat(64));
        entry.records.push(Record::RunStatus(Box::new(RunStatus { archive, ..moved })));
    });
    broken(10, "has not ended", nothing, |s, before, entry| {
        let run = before.agents[&s.worker].work.as_ref().unwrap().run;
        let archive = Some("b".repeat(64));
        let early = RunStatus { archive, ..before.run_status[&run].clone() };
        entry.records.push(Record::RunStatus(Box::new(early)));
    });
    broken(18, "usage fell", end, |s, before, _| {
        let run = before.agents[&s.worker].work.as_ref().unwrap().run;
        before.run_status.get_mut(&run).unwrap().usage = Usage { turns: 9, ..Usage::default() };
    });
    broken(10, "a run's definition changed", nothing, |s, before, entry| {
        let run = before.agents[&s.worker].work.as_ref().unwrap().run;
        let mut other = before.runs[&run].clone();
        other.brief.goal = "something else".to_owned();
        entry.records.push(Record::Run(Box::new(other)));
    });
    let assignment = |before: &Records, id: &AgentId| {
        before.assignments[&before.agents[id].work.as_ref().unwrap().assignment].clone()
    };
    broken(10, "done -> active", nothing, |s, before, entry| {
        let mut moved = assignment(before, &s.ended);
        moved.status = AssignmentStatus::Active;
        entry.records.push(Record::Assignment(Box::new(moved)));
    });
    broken(10, "it had ended and changed", nothing, |s, before, entry| {
        let mut moved = assignment(before, &s.ended);
        moved.reason = "another".to_owned();
        entry.records.push(Record::Assignment(Box::new(moved)));
    });
    broken(14, "bound to something else", nothing, |s, before, entry| {
        let mut moved = assignment(before, &s.worker);
        moved.purpose = Purpose::Review;
        entry.records.push(Record::Assignment(Box::new(moved)));
    });
}

#[test]
fn nodes_and_goals_follow_their_transition_tables() {
    let state =
        |s: &Scene, before: &Records, on: &str| before.node_states[&s.epic][&node(on)].clone();
    broken(10, "done -> queued", nothing, |s, before, entry| {
        let mut moved = state(s, before, "T1.6");
        moved.status = NodeStatus::Queued;
        entry.records.push(Record::NodeState(s.epic, Box::new(moved)));
    });
    broken(10, "it was settled and changed", nothing, |s, before, entry| {
        let mut moved = state(s, before, "T1.6");
        moved.findings.push("late".to_owned());
        entry.records.push(Record::NodeState(s.epic, Box::new(moved)));
    });
    broken(10, "uncounted", nothing, |s, before, entry| {
        let mut moved = state(s, before, "T1.2");
        moved.attempts = 0;
        entry.records.push(Record::NodeState(s.epic, Box::new(moved)));
    });
    broken(10, "archived -> active", nothing, |s, before, entry| {
        let goal = before.goal_states.get_mut(&s.epic).unwrap();
        entry.records.push(Record::GoalState(Box::new(goal.clone())));
        goal.status = GoalStatus::Archived;
    });
}
