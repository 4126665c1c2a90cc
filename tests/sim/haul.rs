//! The largest plan that there may be, from its goal to its end, with every entry as it is encoded: what
//! a change of a node costs on the ledger (issue 5, spec 05).

use serde_json::{Value, json};
use tetrarch_bus::codec::{decode_entry, encode_entry, encode_plan_event};
use tetrarch_core::brief::{Outcome, RunResult};
use tetrarch_core::check::check;
use tetrarch_core::goal::GoalStatus;
use tetrarch_core::id::{EpicId, NodeId, Principal};
use tetrarch_core::ledger::{Entry, EventKind, Record, RecordKey};
use tetrarch_core::limits::{ENDED_CHILDREN_KEPT, PHASES_MAX, SUBTASKS_MAX, TASKS_MAX};
use tetrarch_core::plan::NodeStatus;
use tetrarch_core::plan::schema::{PlanFile, parse};
use tetrarch_core::request::{Op, Report, RequestBody, SpawnRequest};
use tetrarch_core::restart::Restart;
use tetrarch_tests::entry_bytes;

use crate::people::human;
use crate::size::{Desk, fleet, po};
use crate::work;

/// Bytes of ledger that a change of a node may take (spec 02, Bounds).
const CHANGE_BYTES_MAX: usize = 2 * 1024;
/// The same with everything that is committed on the way, on average and as it is stored: agents, runs, mail.
const ALL_BYTES: usize = 2 * 1024;

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
    let profiles = json!({"default": {"argv": ["work"]}});
    // Ordered phases hand each task the results of the whole phase before it, which is not measured here.
    let plan = json!({"title": "The largest plan", "phaseOrder": "parallel", "phases": phases,
        "profiles": profiles});
    parse(&plan).expect("it is a plan")
}

/// What the ledger took so far.
#[derive(Debug, Default)]
struct Cost {
    seq: u64,
    /// Whole entries, in bytes: agents, runs, assignments, mail and all.
    whole: usize,
    /// What changes of nodes wrote of them.
    own: usize,
    /// The most that one of them wrote.
    most: usize,
    changes: usize,
    restart: Restart,
}

impl Cost {
    fn commit(&mut self, desk: &mut Desk, from: Principal, body: RequestBody) {
        let input = desk.input(from, body);
        let (entry, _) = desk.commit(&[input]);
        let bytes = encode_entry(&entry).expect("it is an entry");
        self.seq += 1;
        let mut read = decode_entry(&bytes).expect("it was written");
        self.restart.add(self.seq, &read);
        self.restart.complete(&mut read);
        assert_eq!(read, entry, "whoever reads it publishes the same");
        self.count(bytes.len(), entry);
    }

    fn count(&mut self, bytes: usize, entry: Entry) {
        let changes: usize = entry.plans.iter().map(|event| event.changes.len()).sum();
        if changes == 0 || entry.plans.iter().any(|event| event.version == 1) {
            return self.whole += bytes;
        }
        let moves = |kind| matches!(kind, EventKind::NodeStatus | EventKind::GoalStatus);
        let is_of_plan = |record: &Record| {
            let key = record.key();
            matches!(
                key,
                RecordKey::Node(..)
                    | RecordKey::NodeState(..)
                    | RecordKey::Plan(_)
                    | RecordKey::GoalState(_)
            )
        };
        let own = Entry {
            events: entry.events.into_iter().filter(|event| moves(event.kind)).collect(),
            records: entry.records.into_iter().filter(is_of_plan).collect(),
            mail: Vec::new(),
            seals: Vec::new(),
            ..entry
        };
        let own = entry_bytes(&own);
        self.whole += bytes;
        self.own += own;
        self.most = self.most.max(own / changes);
        self.changes += changes;
    }
}

fn ready(desk: &Desk, epic: EpicId) -> Option<NodeId> {
    let mut states = desk.records.node_states[&epic].values();
    states.find(|state| state.status == NodeStatus::Queued).map(|state| state.id)
}

/// Children of one epic, one after the other; `CHILDREN` says how many more than that.
const CHILDREN: usize = 2_000;

/// The most that an entry and an event of some children took, in bytes, and how many nodes their plan had.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Grown {
    entry: usize,
    event: usize,
    nodes: usize,
}

#[test]
#[expect(clippy::print_stdout, reason = "the figures are what docs/benchmarks.md tells")]
fn the_last_of_thousands_of_children_of_an_epic_costs_what_the_100th_does() {
    let children = std::env::var("CHILDREN").ok().and_then(|text| text.parse().ok());
    let children: usize = children.unwrap_or(CHILDREN);
    let mut desk = fleet();
    let op = Op::GoalCreate { project: work::project(), plan: Box::new(one()) };
    let goal = desk.input(human(), RequestBody::Op(op));
    desk.commit(&[goal]);
    let epic = *desk.records.goals.keys().next().expect("it was given");
    let mut grown = Vec::new();
    let mut most = Grown::default();
    for child in 1..=children {
        let entries = life(&mut desk, epic, child % 5 != 0);
        let looked_at = child % 100 == 0 || child % 100 > 90;
        for entry in entries.into_iter().filter(|_| looked_at) {
            let bytes = entry_bytes(&entry);
            most.entry = most.entry.max(bytes);
            for event in &entry.plans {
                let bytes = encode_plan_event(event).expect("it is an event").len();
                most.event = most.event.max(bytes);
            }
        }
        most.nodes = most.nodes.max(desk.records.nodes[&epic].len());
        if [100, 1_000, children].contains(&child) {
            println!("child {child}: {most:?}");
            grown.push(most);
        }
        if child % 100 == 90 {
            most = Grown::default();
        }
    }
    let plan = &desk.records.plans[&epic];
    let folded: Vec<_> = plan.folded.values().collect();
    assert_eq!(folded.len(), 1);
    let counted = folded[0].done + folded[0].failed + folded[0].cancelled;
    assert_eq!(counted as usize, children - ENDED_CHILDREN_KEPT);
    assert!(folded[0].failed > 0 && check(&desk.records).is_empty());
    let within = |a: usize, b: usize| b * 100 <= a * 105;
    let same = |a: Grown, b: Grown| within(a.entry, b.entry) && within(a.event, b.event);
    assert!(grown.windows(2).all(|pair| same(pair[0], pair[1])), "{grown:?}");
    assert!(grown.iter().all(|one| one.nodes == grown[0].nodes), "{grown:?}");
}

/// A plan of one task that nobody takes on.
fn one() -> PlanFile {
    let task = json!({"id": "T1.1", "name": "kept open", "acceptance": ["it holds"]});
    let phases = json!([{"id": "P1", "name": "Phase", "tasks": [task]}]);
    let profiles = json!({"default": {"argv": ["work"]}});
    parse(&json!({"title": "Many", "phases": phases, "profiles": profiles})).expect("it is a plan")
}

/// The entries of a child without a node, from its request to its end.
fn life(desk: &mut Desk, epic: EpicId, succeeds: bool) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut commit = |desk: &mut Desk, from: Principal, body: RequestBody| {
        let input = desk.input(from, body);
        entries.push(desk.commit(&[input]).0);
    };
    commit(desk, po().into(), RequestBody::Spawn(work::one_worker(epic, None)));
    let worker = desk.records.children_of(&po()).next().cloned().expect("it was admitted");
    commit(desk, worker.clone().into(), RequestBody::Report(Report::Ready));
    let run = desk.records.agents[&worker].work.as_ref().map(|work| work.run);
    let outcome = if succeeds { Outcome::Success } else { Outcome::Failure };
    let result = RunResult::ended(outcome, "why");
    commit(desk, worker.into(), RequestBody::Report(Report::Result { run, epic: None, result }));
    entries
}

#[test]
#[expect(clippy::print_stdout, reason = "the figures are what docs/benchmarks.md tells")]
fn largest_plan_completes_with_little_ledger_per_change() {
    let (mut desk, mut cost) = (fleet(), Cost::default());
    let op = Op::GoalCreate { project: work::project(), plan: Box::new(largest()) };
    cost.commit(&mut desk, human(), RequestBody::Op(op));
    let epic = *desk.records.goals.keys().next().expect("it was given");
    let mut leaves = 0;
    while let Some(node) = ready(&desk, epic) {
        leaves += 1;
        let request = SpawnRequest { node: Some(node), ..work::one_worker(epic, None) };
        cost.commit(&mut desk, po().into(), RequestBody::Spawn(request));
        let worker = desk.records.children_of(&po()).next().cloned().expect("it was admitted");
        cost.commit(&mut desk, worker.clone().into(), RequestBody::Report(Report::Ready));
        let run = desk.records.agents[&worker].work.as_ref().map(|work| work.run);
        let mut result = RunResult::ended(Outcome::Success, "");
        result.deliverable = format!("{node} holds, and this says how");
        result.evidence.tests = vec![format!("{node}: passed")];
        let report = Report::Result { run, epic: None, result };
        cost.commit(&mut desk, worker.into(), RequestBody::Report(report));
    }
    let done = desk.records.goal_states[&epic].status;
    assert_eq!((leaves, done), (PHASES_MAX * TASKS_MAX * SUBTASKS_MAX, GoalStatus::Completed));
    let Cost { whole, own, most, changes, .. } = cost;
    println!(
        "{leaves} leaves, {changes} changes of nodes: {} bytes of an entry each, {most} at most; \
         with agents, runs and mail {} of the ledger",
        own / changes,
        whole / changes
    );
    assert!(changes > 2 * leaves && most <= CHANGE_BYTES_MAX, "{most} bytes for a change");
    assert!(whole <= changes * ALL_BYTES, "{whole} bytes for {changes} changes");
}
