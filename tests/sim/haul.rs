//! The largest plan that there may be, from its goal to its end, with every entry as it is encoded: what
//! a change of a node costs on the ledger (issue 5, spec 05).

use serde_json::{Value, json};
use tetrarch_bus::codec::encode_entry;
use tetrarch_core::brief::{Evidence, Outcome, RunResult};
use tetrarch_core::goal::GoalStatus;
use tetrarch_core::id::{AgentId, EpicId, NodeId};
use tetrarch_core::ledger::{Entry, EventKind};
use tetrarch_core::limits::{PHASES_MAX, SUBTASKS_MAX, TASKS_MAX};
use tetrarch_core::plan::NodeStatus;
use tetrarch_core::plan::schema::{PlanFile, parse};
use tetrarch_core::request::{Op, Report, RequestBody, SpawnRequest};

use crate::people::human;
use crate::size::{Desk, fleet, po};
use crate::work;

/// Bytes of ledger that a change of a node may take, on average.
const BYTES_PER_CHANGE: usize = 2 * 1024;

/// Every phase, task and subtask that a plan may have; each task waits for the one before it.
fn largest() -> PlanFile {
    let subtask = |p: usize, t: usize, s: usize| {
        let name = format!("Part {s} of task {t} in phase {p} of the largest plan");
        json!({"id": format!("S{p}.{t}.{s}"), "name": name, "acceptance": ["it holds"]})
    };
    let task = |p: usize, t: usize| {
        let below: Vec<Value> = (1..=SUBTASKS_MAX).map(|s| subtask(p, t, s)).collect();
        let before: Vec<String> = (1..t).last().map(|t| format!("T{p}.{t}")).into_iter().collect();
        json!({"id": format!("T{p}.{t}"), "name": format!("Task {t} of phase {p}"), "deps": before, "subtasks": below})
    };
    let phases: Vec<Value> = (1..=PHASES_MAX)
        .map(|p| {
            let tasks: Vec<Value> = (1..=TASKS_MAX).map(|t| task(p, t)).collect();
            json!({"id": format!("P{p}"), "name": format!("Phase {p}"), "tasks": tasks})
        })
        .collect();
    parse(&json!({"title": "The largest plan", "phases": phases})).expect("it is a plan")
}

/// Bytes and changes of nodes so far.
#[derive(Debug, Default)]
struct Cost {
    bytes: usize,
    changes: usize,
}

impl Cost {
    fn commit(&mut self, desk: &mut Desk, from: AgentId, body: RequestBody) -> Entry {
        let input = desk.input(from.into(), body);
        let (entry, _) = desk.commit(&[input]);
        self.bytes += encode_entry(&entry).expect("it is an entry").len();
        let moved = entry.events.iter().filter(|event| event.kind == EventKind::NodeStatus);
        self.changes += moved.count();
        entry
    }
}

fn ready(desk: &Desk, epic: EpicId) -> Option<NodeId> {
    let mut states = desk.records.node_states[&epic].values();
    states.find(|state| state.status == NodeStatus::Queued).map(|state| state.id)
}

#[test]
#[expect(clippy::print_stdout, reason = "the figure is what docs/benchmarks.md tells")]
fn the_largest_plan_runs_to_its_end_with_little_ledger_for_each_change() {
    let mut desk = fleet();
    let op = Op::GoalCreate { project: work::project(), plan: Box::new(largest()) };
    let goal = desk.input(human(), RequestBody::Op(op));
    desk.commit(&[goal]);
    let epic = *desk.records.goals.keys().next().expect("it was given");
    let mut cost = Cost::default();
    let mut leaves = 0;
    while let Some(node) = ready(&desk, epic) {
        leaves += 1;
        let wish = work::one_worker(epic, None);
        let request = SpawnRequest { node: Some(node), ..wish };
        cost.commit(&mut desk, po(), RequestBody::Spawn(request));
        let worker = desk.records.children_of(&po()).next().cloned().expect("it was admitted");
        cost.commit(&mut desk, worker.clone(), RequestBody::Report(Report::Ready));
        let run = desk.records.agents[&worker].work.as_ref().map(|work| work.run);
        let mut result = RunResult::ended(Outcome::Success, "");
        result.deliverable = format!("{node} holds, and this says how");
        result.evidence =
            Evidence { tests: vec![format!("{node}: passed")], ..Evidence::default() };
        let report = Report::Result { run, epic: None, result };
        cost.commit(&mut desk, worker, RequestBody::Report(report));
    }
    let done = desk.records.goal_states[&epic].status;
    assert_eq!((leaves, done), (PHASES_MAX * TASKS_MAX * SUBTASKS_MAX, GoalStatus::Completed));
    let Cost { bytes, changes } = cost;
    println!(
        "{leaves} leaves: {bytes} bytes of ledger, {changes} changes, {} each",
        bytes / changes
    );
    assert!(bytes <= changes * BYTES_PER_CHANGE, "{bytes} bytes for {changes} changes");
}
