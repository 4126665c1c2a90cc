//! What is over is forgotten after its time, in portions, and leaves one milestone; what is used
//! again, or referred to, stays.

use super::fleet::{Fleet, human, id, po, project, success, tasks};
use crate::error::ErrorCode;
use crate::goal::{Goal, GoalState};
use crate::id::{AgentId, EpicId, RunId, Ulid};
use crate::ledger::{Entry, EventKind, Record, RecordKey};
use crate::limits::{CLOSED_GOALS_MAX, ENDED_LEAST, FORGOTTEN_MAX};
use crate::owner::goals::has_room;
use crate::owner::{Input, Kept, forgetting_is_late};
use crate::request::Op;
use crate::request::goals::{GoalOp, GoalVerb};
use crate::run::{Run, RunStatus};
use crate::snapshot::{Due, Snapshot};
use crate::step::Draft;
use crate::time::{BusTime, Millis};

const WITHIN: Millis = Millis(500);
const KEPT: Kept = Kept {
    decisions: Millis(50_000),
    decisions_max: 10,
    decisions_least: Millis(2_000),
    ended: Millis(10_000),
    goals: Millis(100_000),
    within: WITHIN,
    ended_max: 400,
    goals_max: 2,
    least: Millis(1_000),
};

fn milestones(entry: &Entry, kind: EventKind) -> usize {
    entry.events.iter().filter(|event| event.kind == kind).count()
}

/// A goal whose one task a worker has done.
fn done() -> (Fleet, EpicId, AgentId) {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    fleet.policy.kept = KEPT;
    let worker = fleet.worker(epic, "T1.1");
    fleet.end(&worker, success("done"));
    (fleet, epic, worker)
}

fn tick_at(fleet: &mut Fleet, at: BusTime) -> Entry {
    fleet.now = at;
    fleet.one(Input::Tick)
}

#[test]
fn decisions_beyond_their_number_are_forgotten_after_the_least_time() {
    let mut fleet = Fleet::ready();
    fleet.policy.kept = KEPT;
    for _ in 0..30 {
        fleet.op(&human(), Op::ProjectRetire { project: "none".parse().unwrap() });
    }
    let (many, last) = (fleet.records.decisions.len(), fleet.now);
    assert!(many >= 30);
    let late = forgetting_is_late(&fleet.records, &fleet.policy).unwrap();
    assert_eq!(late, fleet.records.first_decided().unwrap() + KEPT.decisions_least + WITHIN);
    tick_at(&mut fleet, BusTime(last.0 + KEPT.decisions_least.0 + 1));
    assert_eq!(fleet.records.decisions.len(), KEPT.decisions_max);
    let first = fleet.records.first_decided().unwrap();
    tick_at(&mut fleet, BusTime(first.0 + KEPT.decisions.0));
    assert_eq!(fleet.records.decisions.len(), KEPT.decisions_max, "they have their time");
    tick_at(&mut fleet, BusTime(last.0 + KEPT.decisions.0 + 1));
    assert!(fleet.records.decisions.is_empty());
}

#[test]
fn ended_record_is_forgotten_after_its_retention() {
    let (mut fleet, epic, worker) = done();
    let run = fleet.run_of(&worker);
    let since = fleet.agent(&worker).since;
    let entry = tick_at(&mut fleet, BusTime(since.0 + KEPT.ended.0));
    assert_eq!(entry.dropped, []);
    let entry = tick_at(&mut fleet, BusTime(since.0 + KEPT.ended.0 + 1));
    assert_eq!(entry.dropped.len(), 4, "{:?}", entry.dropped);
    for key in [RecordKey::Agent(worker), RecordKey::Run(run), RecordKey::RunStatus(run)] {
        assert!(entry.dropped.contains(&key), "{key:?}");
    }
    assert!(fleet.records.assignments.is_empty() && fleet.records.dispatches.is_empty());
    assert_eq!(milestones(&entry, EventKind::RunArchived), 1);
    assert!(fleet.records.goals.contains_key(&epic), "its goal stays for longer");
    assert_eq!(tick_at(&mut fleet, BusTime(since.0 + KEPT.ended.0 + 2)).dropped, []);
}

/// The records with so many ended runs more as `run`, each so much later than the one before.
fn more_runs(fleet: &mut Fleet, run: RunId, count: u64, apart: Millis) {
    let sample = fleet.records.runs[&run].clone();
    let status = fleet.records.run_status[&run].clone();
    for number in 1..=count {
        let id = RunId(Ulid(run.0.0 ^ u128::from(number)));
        let since = status.since + Millis(number * apart.0);
        let status = RunStatus { id, since, ..status.clone() };
        fleet.records.put(Record::Run(Box::new(Run { id, ..sample.clone() })));
        fleet.records.put(Record::RunStatus(Box::new(status)));
    }
}

#[test]
fn ended_records_above_the_limit_are_forgotten_early_with_a_grace() {
    let (mut fleet, _, worker) = done();
    let run = fleet.run_of(&worker);
    let since = fleet.records.run_status[&run].since;
    let others = fleet.records.ended().len() as u64 - 1;
    let max = KEPT.ended_max as u64;
    more_runs(&mut fleet, run, max - 1 - others, Millis(1));
    let young = since + KEPT.least;
    assert_eq!(tick_at(&mut fleet, young + Millis(100)).dropped, [], "as many as are kept");
    more_runs(&mut fleet, run, max - others + 2, Millis(1));
    assert_eq!(fleet.records.ended().len(), KEPT.ended_max + 3);
    assert_eq!(tick_at(&mut fleet, young).dropped, [], "none is old enough");
    assert_eq!(
        forgetting_is_late(&fleet.records, &fleet.policy),
        Some(fleet.records.ended().next().unwrap().0 + KEPT.least + WITHIN)
    );
    let oldest: Vec<_> = fleet.records.ended().take(3).map(|(_, ended)| ended.clone()).collect();
    tick_at(&mut fleet, young + Millis(100));
    assert_eq!(fleet.records.ended().len(), KEPT.ended_max);
    assert!(oldest.iter().all(|gone| fleet.records.ended().all(|(_, left)| left != gone)));
}

#[test]
fn closed_goal_is_forgotten_with_its_plan_once_unreferenced() {
    let (mut fleet, epic, worker) = done();
    let since = fleet.records.goal_states[&epic].since;
    let late = BusTime(since.0 + KEPT.goals.0 + 1);
    let run = fleet.run_of(&worker);
    let before = tick_at(&mut fleet, late);
    assert!(before.dropped.contains(&RecordKey::Run(run)));
    assert_eq!(milestones(&before, EventKind::GoalArchived), 0, "its run went only now");
    let entry = tick_at(&mut fleet, late);
    assert_eq!(milestones(&entry, EventKind::GoalArchived), 1);
    assert!(fleet.records.goals.is_empty() && fleet.records.goal_states.is_empty());
    assert!(fleet.records.plans.is_empty() && fleet.records.nodes.is_empty());
    assert!(fleet.records.node_states.is_empty());
    assert!(fleet.records.crystallizations.is_empty(), "what was handed over went with it");
    assert_eq!(tick_at(&mut fleet, late).dropped, []);
}

#[test]
fn open_goal_is_never_forgotten() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    fleet.policy.kept = KEPT;
    tick_at(&mut fleet, BusTime(1_000 * KEPT.goals.0));
    assert!(fleet.records.goals.contains_key(&epic));
}

#[test]
fn reused_names_keep_their_epochs() {
    let mut fleet = Fleet::ready();
    fleet.policy.kept = KEPT;
    let agent = po();
    fleet.op(&human(), Op::AgentRetire { agent: agent.clone(), reason: String::new() });
    let since = fleet.agent(&agent).since;
    tick_at(&mut fleet, BusTime(since.0 + 100 * KEPT.ended.0));
    assert_eq!(fleet.agent(&agent).epoch, 1);
    assert!(fleet.records.agents.contains_key(&id("HO@h1")));
}

#[test]
fn forgetting_is_portioned_and_catches_up_with_more_ticks() {
    let (mut fleet, _, worker) = done();
    let run = fleet.run_of(&worker);
    more_runs(&mut fleet, run, 300, Millis(0));
    let oldest = fleet.records.ended().next().unwrap().0;
    let late = forgetting_is_late(&fleet.records, &fleet.policy).unwrap();
    assert_eq!(late, oldest + KEPT.ended + WITHIN);
    let entry = tick_at(&mut fleet, late);
    assert_eq!(milestones(&entry, EventKind::RunArchived), FORGOTTEN_MAX - 1);
    assert!(forgetting_is_late(&fleet.records, &fleet.policy).unwrap() <= fleet.now);
    let entry = tick_at(&mut fleet, late);
    assert_eq!(milestones(&entry, EventKind::RunArchived), 301 + 1 - FORGOTTEN_MAX);
    let decided = fleet.records.first_decided().unwrap();
    let next = forgetting_is_late(&fleet.records, &fleet.policy).unwrap();
    assert_eq!(next, decided + KEPT.decisions + WITHIN);
}

fn snapshot(through: u64, part: &str) -> Snapshot {
    Snapshot {
        through,
        epoch: 1,
        intake_seq: 0,
        at: BusTime(1),
        records: 1,
        bytes: 1,
        parts: vec![part.to_owned()],
        before: Vec::new(),
    }
}

#[test]
fn snapshot_lists_replaced_parts_and_an_older_one_is_ignored() {
    let mut fleet = Fleet::ready();
    let take = |through, part| Input::Snapshot(Box::new(snapshot(through, part)), Due::Entries);
    fleet.one(take(1, "a"));
    assert_eq!(fleet.records.snapshot.as_ref().unwrap().before, [""; 0]);
    fleet.one(take(2, "b"));
    assert_eq!(fleet.records.snapshot.as_ref().unwrap().before, ["a"]);
    for (through, part) in [(2, "c"), (1, "d")] {
        let entry = fleet.one(take(through, part));
        assert!(entry.records.is_empty() && entry.events.is_empty());
    }
    assert_eq!(fleet.records.snapshot.as_ref().unwrap().parts, ["b"]);
}

#[test]
fn early_ledger_trimming_alerts_people() {
    let mut fleet = Fleet::ready();
    let entry = fleet.one(Input::TrimmedEarly { through: 7, bytes: 9, limit: 10 });
    let told = &entry.events[0];
    assert_eq!(told.kind, EventKind::Alert);
    assert!(told.reason.contains("ledger.full") && told.reason.contains("up to 7"), "{told:?}");
}

#[test]
fn goals_closed_of_late_are_bounded_in_a_project() {
    let mut fleet = Fleet::ready();
    let first = fleet.goal(tasks(1));
    let cancel = GoalOp { epic: first, verb: GoalVerb::Cancel, reason: "over".to_owned() };
    assert_eq!(fleet.op(&human(), Op::Goal(cancel)).error, None);
    let (goal, state, now) =
        (&fleet.records.goals[&first], &fleet.records.goal_states[&first], fleet.now);
    let mut records = fleet.records.clone();
    let mut room = |goals: usize, at: BusTime| {
        for number in 1..goals {
            let id = EpicId::derive(now, "closed", "goal", number);
            records.put(Record::Goal(Box::new(Goal { id, ..goal.clone() })));
            records.put(Record::GoalState(Box::new(GoalState { id, ..state.clone() })));
        }
        let draft = Draft::new(&records, at, human());
        has_room(&draft, &project()).map_err(|refusal| refusal.code)
    };
    assert_eq!(room(CLOSED_GOALS_MAX - 1, now), Ok(()));
    assert_eq!(room(CLOSED_GOALS_MAX, now), Err(ErrorCode::Unavailable));
    assert_eq!(room(1, now + ENDED_LEAST), Ok(()));
}
