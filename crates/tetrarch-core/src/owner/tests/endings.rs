//! What the end of a session comes to, cause by cause (`docs/ARCHITECTURE.md`, How a session ends): its run, its
//! agent, its parent's slot, its node, and what goes on.

use super::fleet::{Fleet, human, id, po, success, tasks};
use crate::agent::Agent;
use crate::brief::{Outcome, RunResult};
use crate::id::{AgentId, EpicId, Principal};
use crate::liveness::Liveness;
use crate::owner::{Input, Silence};
use crate::plan::NodeStatus;
use crate::request::{Op, Report};
use crate::run::RunState;

/// A worker at work, below a project's orchestrator.
struct Scene {
    fleet: Fleet,
    epic: EpicId,
    worker: AgentId,
}

/// How it ended: the first run, the agent and the epoch of its session, its parent's slots, its node.
type End = (RunState, Liveness, u64, usize, NodeStatus);

type Row = (&'static str, fn(&mut Scene), End);

const NEXT: End = (RunState::Orphaned, Liveness::Register, 2, 1, NodeStatus::InProgress);
const DONE: End = (RunState::Done, Liveness::Terminated, 1, 0, NodeStatus::Done);
const WORKS: End = (RunState::Running, Liveness::Active, 1, 1, NodeStatus::InProgress);
const ASKED: End = (RunState::Cancelling, Liveness::Active, 1, 1, NodeStatus::InProgress);
const WAITS: End = (RunState::Running, Liveness::Offline, 1, 1, NodeStatus::InProgress);

impl Scene {
    fn agent(&self) -> &Agent {
        self.fleet.agent(&self.worker)
    }

    fn report(&mut self, report: Report) {
        let worker = self.worker.clone();
        self.fleet.report(&worker, report);
    }

    fn ends(&mut self, outcome: Outcome) {
        let worker = self.worker.clone();
        let result = match outcome {
            Outcome::Success => success("done"),
            Outcome::Failure | Outcome::BudgetExceeded | Outcome::Cancelled => {
                RunResult::ended(outcome, "it ended")
            }
        };
        self.fleet.end(&worker, result);
    }

    fn ask(&mut self, op: Op) {
        let reply = self.fleet.op(&human(), op);
        assert_eq!(reply.error, None, "{reply:?}");
    }

    fn replace(&mut self, give_up: bool) {
        let (agent, session) = (self.worker.clone(), self.agent().session.unwrap());
        let reason = "asked for".to_owned();
        self.ask(Op::AgentReplace { agent, session, give_up, reason });
    }

    fn stop(&mut self) {
        self.stopped_by(&human());
    }

    fn stopped_by(&mut self, by: &Principal) {
        let (agent, reason) = (self.worker.clone(), "asked for".to_owned());
        let reply = self.fleet.op(by, Op::AgentRetire { agent, reason });
        assert_eq!(reply.error, None, "{reply:?}");
    }

    fn lose_host(&mut self) {
        let (agent, found) = (id("HO@h1"), Silence::Long { missed: 3 });
        let epoch = self.fleet.agent(&agent).epoch;
        self.fleet.one(Input::Swept { agent, epoch, found });
    }
}

fn gone() -> Report {
    Report::Gone { cause: "killed".to_owned() }
}

/// Causes, each with how it ends.
fn rows() -> [Row; 13] {
    let failed = (RunState::Failed, Liveness::Terminated, 1, 0, NodeStatus::Queued);
    let stopped = (RunState::Failed, Liveness::Terminated, 1, 0, NodeStatus::Blocked);
    let ended = (RunState::Orphaned, Liveness::Terminated, 1, 0, NodeStatus::Blocked);
    let given_up = (RunState::Orphaned, Liveness::Terminated, 1, 0, NodeStatus::Queued);
    [
        ("result: success", |it| it.ends(Outcome::Success), DONE),
        ("result: failure", |it| it.ends(Outcome::Failure), failed),
        ("crashed", |it| it.report(Report::Crashed { cause: "SIGSEGV".to_owned() }), NEXT),
        ("gone on purpose, unordered", |it| it.report(gone()), ended),
        (
            "host lost, another has room",
            |it| {
                it.fleet.join("h2", "life1", 20);
                it.lose_host();
            },
            NEXT,
        ),
        ("host lost, none has room", Scene::lose_host, WAITS),
        ("host's next life", |it| drop(it.fleet.join("h1", "life2", 20)), NEXT),
        ("replacement ordered", |it| it.replace(false), WORKS),
        (
            "replacement ordered, gone",
            |it| {
                it.replace(false);
                it.report(gone());
            },
            NEXT,
        ),
        ("attempt given up", |it| it.replace(true), given_up),
        ("stop asked", Scene::stop, ASKED),
        (
            "stop asked, ended",
            |it| {
                it.stop();
                it.ends(Outcome::Cancelled);
            },
            stopped,
        ),
        (
            "its orchestrator stopped",
            |it| it.ask(Op::AgentRetire { agent: po(), reason: "asked for".to_owned() }),
            ended,
        ),
    ]
}

/// The same of stops that an agent above asks for.
fn stops_from_above() -> [Row; 4] {
    let dropped = (RunState::Failed, Liveness::Terminated, 1, 0, NodeStatus::Cancelled);
    [
        ("stop asked by its parent", |it| it.stopped_by(&po().into()), ASKED),
        (
            "stop asked by its parent, ended",
            |it| {
                it.stopped_by(&po().into());
                it.ends(Outcome::BudgetExceeded);
            },
            dropped,
        ),
        (
            "stop asked by its parent, gone",
            |it| {
                it.stopped_by(&po().into());
                it.report(gone());
            },
            (RunState::Orphaned, Liveness::Terminated, 1, 0, NodeStatus::Cancelled),
        ),
        (
            "stop asked by its parent, success",
            |it| {
                it.stopped_by(&po().into());
                it.ends(Outcome::Success);
            },
            DONE,
        ),
    ]
}

#[test]
fn each_cause_of_an_end_comes_to_what_the_table_says() {
    let mut wrong = Vec::new();
    for (cause, act, expected) in rows().into_iter().chain(stops_from_above()) {
        let (mut fleet, epic) = Fleet::with_goal(tasks(1));
        let worker = fleet.worker(epic, "T1.1");
        let run = fleet.run_of(&worker);
        let mut scene = Scene { fleet, epic, worker };
        act(&mut scene);
        let agent = scene.agent();
        let state = scene.fleet.records.run_status[&run].state;
        let slots = scene.fleet.agent(&po()).slots.len();
        let node = scene.fleet.node(scene.epic, "T1.1").status;
        let found = (state, agent.liveness, agent.epoch, slots, node);
        if found != expected {
            wrong.push((cause, found, expected));
        }
        let goes_on = agent.work.as_ref().map(|work| work.run).filter(|it| *it != run);
        assert_eq!(goes_on.is_some(), expected == NEXT, "{cause}: {goes_on:?}");
        let next = goes_on.map(|next| scene.fleet.records.runs[&next].continues);
        assert!(next.is_none_or(|continues| continues == Some(run)), "{cause}");
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
