//! Every invariant is broken on purpose, once, and must be found by its number.

mod entries;
mod gates;

use super::{Violation, check};
use crate::agent::{Agent, Hosting, Placement, Slot, Work};
use crate::assignment::{Assignment, AssignmentStatus, Purpose};
use crate::brief::{Outcome, RunResult, Tools};
use crate::budget::Limits;
use crate::goal::{GoalResult, GoalStatus};
use crate::id::{AgentId, AssignmentId, EpicId, HostName, RunId, Ulid};
use crate::ledger::{Record, RecordKey};
use crate::liveness::Liveness;
use crate::owner::tests::fleet::{
    Fleet, create, human, id, node, plan_of, po, success, task, wish,
};
use crate::plan::{NodeState, NodeStatus};
use crate::records::Records;
use crate::request::{Op, ProjectCreate, Report};
use crate::role::Role;
use crate::run::{RunState, RunStatus};
use crate::time::BusTime;
use serde_json::json;

/// A fleet with everything there is: a specialist with a worker of its own, a worker, a done
/// node, one that waits for its reviewer, one that is blocked, one that is not ready.
pub(super) struct Scene {
    pub(super) fleet: Fleet,
    pub(super) epic: EpicId,
    pub(super) specialist: AgentId,
    pub(super) below: AgentId,
    pub(super) worker: AgentId,
    /// Ended.
    pub(super) ended: AgentId,
}

pub(super) fn scene() -> Scene {
    let mut fleet = Fleet::new();
    fleet.join("h1", "life1", 20);
    let budget = Limits { tokens: Some(900), ..Limits::default() };
    fleet.op(&human(), Op::ProjectCreate(ProjectCreate { budget, ..create(false) }));
    fleet.report(&po(), Report::Ready);
    let epic = fleet.goal(plan_of(&[
        task("T1.1", json!({})),
        task("T1.2", json!({})),
        task("T1.3", json!({"review": {"domain": "api"}})),
        task("T1.4", json!({"maxAttempts": 1})),
        task("T1.5", json!({"deps": ["T1.4"]})),
        task("T1.6", json!({})),
    ]));
    let ended = fleet.worker(epic, "T1.6");
    fleet.end(&ended, success("done"));
    let reviewed = fleet.worker(epic, "T1.3");
    fleet.end(&reviewed, success("draft"));
    let failed = fleet.worker(epic, "T1.4");
    fleet.end(&failed, RunResult::ended(Outcome::Failure, "it went wrong"));
    let specialist = fleet.member(epic, "T1.1", Role::Specialist);
    let below = fleet.sponsored(epic, &specialist).spawned[0].agent.clone();
    fleet.report(&below, Report::Ready);
    let worker = fleet.worker(epic, "T1.2");
    // A session that goes on from an earlier one.
    fleet.join("h1", "life2", 20);
    for agent in [&po(), &specialist, &below, &worker] {
        fleet.report(agent, Report::Ready);
    }
    Scene { fleet, epic, specialist, below, worker, ended }
}

#[track_caller]
fn assert_found(found: &[Violation], invariant: u8, text: &str) {
    let hit = found.iter().any(|v| v.invariant == invariant && v.what.contains(text));
    assert!(hit, "invariant {invariant} with {text:?} in {found:#?}");
}

/// Breaks a scene's records and expects to hear of it.
#[track_caller]
fn broken(invariant: u8, text: &str, change: impl FnOnce(&Scene, &mut Records)) {
    let scene = scene();
    let mut records = scene.fleet.records.clone();
    change(&scene, &mut records);
    assert_found(&check(&records), invariant, text);
}

fn agent(records: &mut Records, id: &AgentId, change: impl FnOnce(&mut Agent)) {
    let mut agent = records.agents[id].clone();
    change(&mut agent);
    records.put(Record::Agent(Box::new(agent)));
}

fn leaf(records: &mut Records, epic: EpicId, on: &str, change: impl FnOnce(&mut NodeState)) {
    let mut state = records.node_states[&epic][&node(on)].clone();
    change(&mut state);
    records.put(Record::NodeState(epic, Box::new(state)));
}

fn run_of(records: &Records, id: &AgentId) -> RunId {
    records.agents[id].work.as_ref().unwrap().run
}

fn status(records: &mut Records, id: &AgentId, change: impl FnOnce(&mut RunStatus)) {
    let run = run_of(records, id);
    change(records.run_status.get_mut(&run).unwrap());
}

fn bound(records: &mut Records, id: &AgentId, change: impl FnOnce(&mut Assignment)) {
    let assignment = records.agents[id].work.as_ref().unwrap().assignment;
    change(records.assignments.get_mut(&assignment).unwrap());
}

#[test]
fn valid_scene_has_no_violation() {
    assert_eq!(check(&scene().fleet.records), []);
}

#[test]
fn violation_names_invariant_place_and_time() {
    let violation = Violation {
        invariant: 5,
        subject: "PO-demo".to_owned(),
        what: "its live child W holds no slot".to_owned(),
        seq: Some(7),
        commit: Some(crate::id::CommitId(crate::id::Ulid(0))),
    };
    let text = "invariant 5: PO-demo: its live child W holds no slot (ledger sequence 7, commit \
                00000000000000000000000000)";
    assert_eq!(violation.to_string(), text);
}

#[test]
fn depth_is_checked() {
    broken(1, "depth 2 below", |s, r| agent(r, &s.below, |a| a.depth = 2));
    broken(1, "local_max_depth 2", |s, r| agent(r, &s.below, |a| a.local_max_depth = 2));
    broken(1, "max_depth 4", |s, r| {
        agent(r, &s.below, |a| (a.max_depth, a.local_max_depth) = (4, 4));
    });
    broken(1, "limits 3 of 3 below 2 of 3", |s, r| {
        agent(r, &s.specialist, |a| a.local_max_depth = 2);
    });
    broken(1, "its parent is not known", |s, r| agent(r, &s.worker, |a| a.parent = None));
    broken(1, "a worker below a worker", |s, r| {
        let worker = s.worker.clone();
        agent(r, &s.below, |a| a.parent = Some(worker));
    });
    broken(1, "the root stands at depth 1", |_, r| agent(r, &AgentId::Go, |a| a.depth = 1));
    broken(1, "another project", |s, r| agent(r, &s.worker, |a| a.project = None));
}

#[test]
fn width_and_slots_are_checked() {
    broken(5, "holds no slot", |_, r| agent(r, &po(), |a| drop(a.slots.remove(0))));
    broken(5, "is no live child", |s, r| {
        let child = s.ended.clone();
        agent(r, &po(), |a| a.slots.push(Slot { child, grant: Limits::default() }));
    });
    broken(5, "terminated and holds slots", |s, r| {
        agent(r, &s.specialist, |a| a.liveness = Liveness::Terminated);
    });
    broken(2, "4 slots are held", |_, r| {
        agent(r, &po(), |a| a.slots = vec![a.slots[0].clone(); 4]);
    });
    broken(2, "two slots", |_, r| agent(r, &po(), |a| a.slots[1] = a.slots[0].clone()));
}

#[test]
fn sessions_are_checked() {
    broken(6, "without a session", |s, r| agent(r, &s.worker, |a| a.session = None));
    broken(6, "no epoch", |_, r| agent(r, &po(), |a| a.epoch = 0));
    broken(6, "its run", |s, r| agent(r, &s.worker, |a| a.epoch = 9));
    broken(6, "placed elsewhere", |s, r| {
        let run = run_of(r, &s.worker);
        r.runs.get_mut(&run).unwrap().placement = None;
    });
    broken(8, "GO has epoch 1", |_, r| r.epoch = 2);
    broken(22, "no orchestrator", |_, r| r.remove(&RecordKey::Agent(id("HO@h1"))));
    broken(22, "never joined", |_, r| r.remove(&RecordKey::Host(HostName::new("h1").unwrap())));
    broken(22, "placed nowhere", |s, r| agent(r, &s.worker, |a| a.placement = None));
    broken(22, "which never was", |_, r| agent(r, &id("HO@h1"), |a| a.epoch = 1));
    broken(22, "does not run it", |s, r| agent(r, &s.worker, |a| a.hosting = Hosting::External));
}

#[test]
fn tools_and_budgets_are_checked() {
    broken(17, "net", |s, r| {
        agent(r, &s.specialist, |a| a.tools = ["sh"].into_iter().collect());
        agent(r, &s.below, |a| a.tools = ["net"].into_iter().collect::<Tools>());
    });
    broken(18, "wall clock", |s, r| agent(r, &s.specialist, |a| a.deadline = Some(BusTime(1))));
    broken(18, "another amount", |s, r| {
        agent(r, &s.worker, |a| a.account.limit.tokens = Some(1));
    });
    broken(18, "unlimited below", |_, r| agent(r, &po(), |a| a.slots[0].grant.tokens = None));
    broken(18, "is reserved", |_, r| agent(r, &po(), |a| a.account.reserved.tokens += 1));
    broken(18, "more is reserved", |_, r| agent(r, &po(), |a| a.account.limit.tokens = Some(1)));
}

#[test]
fn work_is_checked() {
    broken(14, "its role and its work", |s, r| agent(r, &s.worker, |a| a.work = None));
    broken(14, "is not known", |s, r| {
        agent(r, &s.worker, |a| a.work.as_mut().unwrap().run = RunId(Ulid(5)));
    });
    broken(14, "disagree", |s, r| {
        let work: Work = r.agents[&s.below].work.clone().unwrap();
        agent(r, &s.worker, |a| a.work.as_mut().unwrap().node = work.node);
    });
    broken(14, "another agent's", |s, r| {
        let other = s.below.clone();
        status(r, &s.worker, |status| status.agent = other);
    });
    broken(14, "says otherwise", |s, r| leaf(r, s.epic, "T1.2", |state| state.assignee = None));
    broken(14, "says otherwise", |s, r| bound(r, &s.worker, |a| a.purpose = Purpose::Review));
    broken(14, "says otherwise", |s, r| bound(r, &s.worker, |a| a.attempt = 9));
    broken(14, "does not work on it", |s, r| bound(r, &s.worker, |a| a.agent = po()));
    broken(14, "is no leaf", |s, r| bound(r, &s.worker, |a| a.node = node("P1")));
    broken(12, "goes on from", |s, r| {
        let run = r.runs[&run_of(r, &s.worker)].continues.unwrap();
        r.run_status.get_mut(&run).unwrap().state = RunState::Failed;
    });
}

#[test]
fn states_are_checked() {
    broken(10, "its run has ended", |s, r| status(r, &s.worker, |t| t.state = RunState::Orphaned));
    broken(10, "its assignment is done", |s, r| {
        bound(r, &s.worker, |a| a.status = AssignmentStatus::Done);
    });
    broken(10, "terminated, its run is running", |s, r| {
        status(r, &s.ended, |t| t.state = RunState::Running);
    });
    broken(10, "terminated, its assignment is active", |s, r| {
        bound(r, &s.ended, |a| a.status = AssignmentStatus::Active);
    });
    broken(10, "nobody's current run", |s, r| {
        let run = r.runs[&run_of(r, &s.worker)].continues.unwrap();
        r.run_status.get_mut(&run).unwrap().state = RunState::Running;
    });
    broken(10, "it has no state", |s, r| {
        let run = run_of(r, &s.worker);
        r.remove(&RecordKey::RunStatus(run));
    });
    broken(10, "no definition", |s, r| {
        let run = run_of(r, &s.worker);
        r.remove(&RecordKey::Run(run));
    });
    broken(10, "its result disagrees", |s, r| status(r, &s.ended, |t| t.result = None));
}

#[test]
fn plans_are_checked() {
    broken(13, "no plan", |s, r| r.remove(&RecordKey::Plan(s.epic)));
    broken(13, "without its goal", |s, r| r.remove(&RecordKey::Goal(s.epic)));
    broken(13, "version 0", |s, r| r.plans.get_mut(&s.epic).unwrap().version = 0);
    broken(13, "two projects", |s, r| {
        let other = crate::id::ProjectName::new("other").unwrap();
        r.plans.get_mut(&s.epic).unwrap().project = other;
    });
    broken(13, "nothing to do", |s, r| r.nodes.get_mut(&s.epic).unwrap().clear());
    broken(13, "no nodes", |s, r| drop(r.nodes.remove(&s.epic)));
    broken(14, "a leaf has no state", |s, r| {
        r.remove(&RecordKey::NodeState(s.epic, node("T1.5")));
    });
    broken(14, "is no leaf", |s, r| {
        let mut state = r.node_states[&s.epic][&node("T1.5")].clone();
        state.id = node("P1");
        r.put(Record::NodeState(s.epic, Box::new(state)));
    });
    broken(27, "is not queued", |s, r| {
        leaf(r, s.epic, "T1.4", |state| state.status = NodeStatus::Done);
    });
    broken(14, "nobody works on it", |s, r| leaf(r, s.epic, "T1.3", |state| state.result = None));
    broken(14, "another node's", |s, r| {
        let other = r.agents[&s.below].work.as_ref().unwrap().assignment;
        leaf(r, s.epic, "T1.2", |state| state.assignment = Some(other));
    });
    broken(14, "has an open assignment", |s, r| {
        leaf(r, s.epic, "T1.5", |state| state.assignment = Some(AssignmentId(Ulid(3))));
    });
    broken(10, "blocked by nothing", |s, r| leaf(r, s.epic, "T1.4", |state| state.blocker = None));
    broken(10, "nothing to show", |s, r| leaf(r, s.epic, "T1.6", |state| state.result = None));
    broken(10, "3 attempts of at most 2", |s, r| {
        leaf(r, s.epic, "T1.2", |state| state.attempts = 3);
    });
    broken(10, "T1.4 that it needs is blocked", |s, r| {
        leaf(r, s.epic, "T1.5", |state| state.status = NodeStatus::Queued);
    });
}

#[test]
fn goals_are_checked() {
    let goal = |s: &Scene, r: &mut Records, change: fn(&mut crate::goal::GoalState)| {
        change(r.goal_states.get_mut(&s.epic).unwrap());
    };
    broken(10, "% are done", |s, r| goal(s, r, |state| state.percent = 99));
    broken(27, "it is completed, its leaves", |s, r| {
        goal(s, r, |state| state.status = GoalStatus::Completed);
    });
    broken(27, "it is active, its leaves come to cancelled", |s, r| {
        for state in r.node_states.get_mut(&s.epic).unwrap().values_mut() {
            state.status = NodeStatus::Cancelled;
        }
    });
    broken(10, "has a result", |s, r| {
        goal(s, r, |state| {
            state.result = Some(GoalResult {
                summary: String::new(),
                deliverable: String::new(),
                artifacts: Vec::new(),
            });
        });
    });
}

#[test]
fn offline_agent_may_wait_for_a_host() {
    let mut scene = scene();
    let cause = "stopped".to_owned();
    scene.fleet.report(&id("HO@h1"), Report::Gone { cause });
    let place = Placement { host: HostName::new("h1").unwrap(), host_epoch: 2 };
    assert_eq!(scene.fleet.agent(&scene.worker).placement, Some(place));
    assert_eq!(check(&scene.fleet.records), []);
    let _unused = wish(Role::Worker);
}
