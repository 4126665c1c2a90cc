//! Changes row by row (spec 05, Plan events): what each kind of change comes to, every refusal with what
//! it says, both ends of each bound.

mod conflicts;
mod properties;
mod recovery;

use serde_json::{Value, json};

use super::*;
use crate::assignment::Purpose;
use crate::intensity::Failures;
use crate::plan::{Blocker, schema};
use crate::priority::Priorities;
use crate::time::BusTime;

pub(super) fn id(text: &str) -> NodeId {
    text.parse().unwrap()
}

fn ids(texts: &[&str]) -> Vec<NodeId> {
    texts.iter().map(|text| id(text)).collect()
}

pub(super) fn new(fields: Value) -> NewNode {
    let mut node = json!({"name": "new", "acceptance": ["it holds"]});
    node.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    schema::parse_new(&node, id("P1"))
        .or_else(|_| schema::parse_new(&node, id("T1.1")))
        .unwrap()
        .remove(0)
}

/// A definition by its id, with what it depends on.
pub(super) fn node(own: &str, deps: &[&str]) -> Node {
    let node = new(json!({"name": own, "deps": deps})).node;
    Node { id: id(own), ..node }
}

/// A plan of record at version 5 that was made as version 1.
#[derive(Debug, Clone, Default)]
pub(super) struct Record {
    pub(super) version: u32,
    pub(super) nodes: BTreeMap<NodeId, Node>,
    pub(super) states: BTreeMap<NodeId, NodeState>,
    pub(super) output: Option<NodeId>,
    pub(super) folded: FoldedChildren,
}

pub(super) fn state(own: NodeId, status: NodeStatus) -> NodeState {
    let begun = matches!(status, NodeStatus::InProgress | NodeStatus::Done);
    NodeState {
        id: own,
        status,
        assignee: None,
        assignment: None,
        purpose: Purpose::Execute,
        attempts: u32::from(begun),
        findings: Vec::new(),
        blocker: (status == NodeStatus::Blocked).then(|| Blocker {
            kind: "stopped".to_owned(),
            detail: String::new(),
            needs: String::new(),
        }),
        result: None,
        since: BusTime(0),
        failures: Failures::default(),
        latest: None,
        begun: if begun { 2 } else { 0 },
        settled: if status.is_settled() { 3 } else { 0 },
        priorities: Priorities::default(),
        created: BusTime(0),
        started: None,
    }
}

impl Record {
    /// Lines such as `T1.2 queued: T1.1 P2`; a leaf without a word is `todo`.
    pub(super) fn of(lines: &[&str]) -> Self {
        let mut record = Self { version: 5, ..Self::default() };
        let mut words = BTreeMap::new();
        for line in lines {
            let (head, deps) = line.split_once(':').unwrap_or((line, ""));
            let (own, status) = head.split_once(' ').unwrap_or((head, "todo"));
            let deps: Vec<&str> = deps.split_whitespace().collect();
            let node = Node { added: 1, defined: 1, ..node(own, &deps) };
            words.insert(node.id, NodeStatus::parse(status).unwrap());
            record.nodes.insert(node.id, node);
        }
        for leaf in graph::leaves(&record.nodes) {
            record.states.insert(leaf, state(leaf, words[&leaf]));
        }
        record
    }

    pub(super) fn present(&self) -> Present<'_> {
        let Self { version, nodes, states, output, folded } = self;
        Present { version: *version, nodes, states, output: *output, folded }
    }

    pub(super) fn try_at(&self, base: u32, wanted: &Change) -> Result<Changed, ChangeError> {
        let edit = read(&self.present(), base, wanted)?;
        change(&self.present(), base, &edit)
    }

    pub(super) fn to(&self, wanted: &Change) -> Changed {
        self.try_at(self.version, wanted).unwrap()
    }

    /// The plan as a file would have it, without some nodes and with others.
    pub(super) fn file(&self, without: &[&str], with: Vec<Node>) -> Change {
        let gone = ids(without);
        let mut nodes = self.nodes.clone();
        nodes.retain(|id, _| !gone.contains(id));
        nodes.extend(with.into_iter().map(|node| (node.id, node)));
        Change::Whole { nodes: nodes.into_values().collect(), output: self.output }
    }

    pub(super) fn leaf(&mut self, own: &str) -> &mut NodeState {
        self.states.get_mut(&id(own)).unwrap()
    }
}

pub(super) fn add(parent: &str, fields: Value) -> Change {
    Change::Add { parent: id(parent), node: Box::new(new(fields)) }
}

pub(super) fn split(node: &str, count: usize) -> Change {
    let subtasks = (0..count).map(|_| new(json!({}))).collect();
    Change::Split { node: id(node), subtasks }
}

pub(super) fn merge(nodes: &[&str]) -> Change {
    Change::Merge { nodes: ids(nodes), name: "both".to_owned(), objective: String::new() }
}

/// The one thing that is invalid.
#[track_caller]
fn assert_invalid(record: &Record, wanted: &Change, words: &str) {
    match record.try_at(record.version, wanted) {
        Err(ChangeError::Invalid(found)) => {
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].contains(words), "{found:?}");
        }
        other => panic!("{words}: {other:?}"),
    }
}

#[test]
fn added_node_gets_the_next_unused_id() {
    let record = Record::of(&["P1", "T1.1 done", "T1.2 cancelled", "P2", "T2.1"]);
    let changed = record.to(&add("P1", json!({"deps": ["T2.1"]})));
    assert_eq!(changed.added, ids(&["T1.3"]));
    let made = &changed.defined[0];
    assert_eq!((made.id, made.added, made.defined), (id("T1.3"), 6, 6));
    assert_eq!(record.to(&add("P1", json!({"id": "T1.9"}))).added, ids(&["T1.9"]));
    for taken in ["T1.1", "T1.2"] {
        assert_invalid(&record, &add("P1", json!({"id": taken})), "ids are never reused");
    }
    assert_invalid(&record, &add("P1", json!({"deps": ["T1.2"]})), "which is cancelled");
    assert_invalid(&record, &add("P1", json!({"deps": ["T9.9"]})), "outside the epic");
    let unknown = record.try_at(5, &add("P3", json!({})));
    assert_eq!(unknown, Err(ChangeError::NotFound("the plan has no node P3".to_owned())));
    let wrong = Change::Add { parent: id("P2"), node: Box::new(new(json!({"id": "T1.9"}))) };
    assert_invalid(&record, &wrong, "T1.9 is not a valid id for a node of P2");
}

#[test]
fn split_ready_task_passes_its_dependents_to_its_parts() {
    let record = Record::of(&["P1", "T1.1 queued", "T1.2: T1.1"]);
    let changed = record.to(&split("T1.1", 2));
    assert_eq!(changed.added, ids(&["S1.1.1", "S1.1.2"]));
    assert_eq!(changed.split, ids(&["T1.1"]));
    let defined: Vec<NodeId> = changed.defined.iter().map(|node| node.id).collect();
    assert_eq!(defined, ids(&["T1.1", "S1.1.1", "S1.1.2"]), "also the task: it means less now");
    assert!(changed.cancelled.is_empty() && changed.waiting.is_empty());
    for free in ["todo", "queued", "blocked"] {
        let record = Record::of(&["P1", &format!("T1.1 {free}")]);
        assert_eq!(record.to(&split("T1.1", 1)).added, ids(&["S1.1.1"]), "{free}");
    }
    let record = Record::of(&["P1", "T1.1 done", "T1.2 cancelled", "T1.3", "S1.3.1"]);
    assert_invalid(&record, &split("T1.1", 1), "T1.1 is done");
    let gone = record.try_at(5, &split("T1.2", 1));
    assert!(gone.unwrap_err().to_string().contains("T1.2 was cancelled"));
    let again = record.try_at(5, &split("T1.3", 1));
    assert!(matches!(again, Err(ChangeError::Conflict(_))), "{again:?}");
    assert_invalid(&record, &split("P1", 1), "P1 is not a task");
    assert_invalid(&record, &split("T1.1", 0), "into no subtasks");
}

#[test]
fn output_follows_its_node() {
    let mut record = Record::of(&["P1", "T1.1", "T1.2: T1.1"]);
    record.output = Some(id("T1.2"));
    assert_eq!(record.to(&split("T1.2", 2)).output, Some(id("S1.2.2")));
    assert_eq!(record.to(&split("T1.1", 2)).output, Some(id("T1.2")));
    let record = Record { output: Some(id("T1.2")), ..Record::of(&["P1", "T1.1", "T1.2"]) };
    assert_eq!(record.to(&merge(&["T1.1", "T1.2"])).output, Some(id("T1.1")));
    assert_invalid(&record, &record.file(&["T1.2"], Vec::new()), "the output T1.2 is cancelled");
}

#[test]
fn merged_leaves_become_the_first_and_edges_follow() {
    let record = Record::of(&[
        "P1",
        "T1.1 done",
        "T1.2 queued",
        "T1.3 queued: T1.1",
        "T1.4: T1.3 T1.2 T1.1",
    ]);
    let changed = record.to(&merge(&["T1.2", "T1.3"]));
    assert_eq!(changed.cancelled, ids(&["T1.3"]));
    let merged = changed.defined.iter().find(|node| node.id == id("T1.2")).unwrap();
    assert_eq!((merged.name.as_str(), merged.depends_on.as_slice()), ("both", &[id("T1.1")][..]));
    assert_eq!(merged.acceptance, ["it holds"]);
    let rewired = changed.defined.iter().find(|node| node.id == id("T1.4")).unwrap();
    assert_eq!(rewired.depends_on, ids(&["T1.2", "T1.1"]));

    assert_invalid(&record, &merge(&["T1.2"]), "two or more different");
    assert_invalid(&record, &merge(&["T1.2", "T1.2"]), "two or more different");
    let record = Record::of(&["P1", "T1.1", "T1.2: T1.1", "T1.3: T1.2", "P2", "T2.1"]);
    assert_invalid(&record, &merge(&["T1.1", "T2.1"]), "different parents");
    assert_invalid(&record, &merge(&["T1.1", "T1.3"]), "dependency cycle T1.1 -> T1.2 -> T1.1");
    let unknown = record.try_at(5, &merge(&["T1.1", "T1.7"]));
    assert!(matches!(unknown, Err(ChangeError::NotFound(_))), "{unknown:?}");
    let mut record = record;
    record.nodes.get_mut(&id("T1.1")).unwrap().profile = Some("fast".parse().unwrap());
    assert_invalid(&record, &merge(&["T1.1", "T1.2"]), "differ in profile");
}

#[test]
fn whole_plan_adds_redefines_and_cancels_nodes() {
    let record = Record::of(&["P1", "T1.1 done", "T1.2 queued", "T1.3: T1.2"]);
    let renamed = Node { name: "other".to_owned(), ..node("T1.3", &["T1.1"]) };
    let wanted = record.file(&["T1.2"], vec![renamed, node("T1.4", &["T1.3"])]);
    let changed = record.to(&wanted);
    assert_eq!(changed.added, ids(&["T1.4"]));
    assert_eq!(changed.cancelled, ids(&["T1.2"]));
    assert_eq!(changed.redefined, [(id("T1.3"), NodeStatus::Todo)]);
    let versions: Vec<(u32, u32)> =
        changed.defined.iter().map(|node| (node.added, node.defined)).collect();
    assert_eq!(versions, [(1, 6), (6, 6)], "ids keep the version they came with");
    let same = record.to(&record.file(&[], Vec::new()));
    assert!(same.is_nothing(&record.present()), "{same:?}");
}

#[test]
fn done_work_is_kept_whatever_the_file_says() {
    let record = Record::of(&["P1", "T1.1 done", "T1.2 queued"]);
    assert!(record.to(&record.file(&["T1.1"], Vec::new())).cancelled.is_empty());
    let other = Node { name: "other".to_owned(), ..node("T1.1", &[]) };
    assert_invalid(&record, &record.file(&[], vec![other]), "T1.1 is done");
    // Attempts that were granted meanwhile are no other definition.
    let mut granted = record.clone();
    granted.nodes.get_mut(&id("T1.1")).unwrap().max_attempts = 9;
    assert!(granted.to(&record.file(&[], Vec::new())).defined.is_empty());
}

#[test]
fn cancelled_node_stays_cancelled_and_keeps_its_id() {
    let record = Record::of(&["P1", "T1.1", "T1.2 cancelled"]);
    let same = record.to(&record.file(&[], Vec::new()));
    assert!(same.is_nothing(&record.present()));
    let other = Node { name: "other".to_owned(), ..node("T1.2", &[]) };
    assert_invalid(&record, &record.file(&[], vec![other]), "T1.2 was cancelled");
}

#[test]
fn cancelled_node_leaves_no_dependents_waiting() {
    let record = Record::of(&["P1", "T1.1", "T1.2", "P2: P1", "T2.1: T1.1"]);
    let gone = Edit { removes: ids(&["T1.1"]), ..Edit::default() };
    let found = change(&record.present(), 5, &gone).unwrap_err().to_string();
    assert_eq!(found, "T2.1 depends on T1.1, which the change cancels");
    let both = Edit { removes: ids(&["P1"]), ..Edit::default() };
    let found = change(&record.present(), 5, &both).unwrap_err().to_string();
    assert!(
        found.contains("P2 depends on P1") && found.contains("T2.1 depends on T1.1"),
        "{found}"
    );
}

#[test]
fn ready_node_waits_for_its_inserted_dependency() {
    let record = Record::of(&["P1", "T1.1 queued", "T1.2 queued", "P2: P1", "T2.1"]);
    let waits = node("T1.2", &["T1.3"]);
    let changed = record.to(&record.file(&[], vec![waits, node("T1.3", &[])]));
    assert_eq!(changed.waiting, ids(&["T1.2"]));
    let record = Record::of(&["P1", "T1.1 done", "P2: P1", "T2.1 queued", "T2.2 in_progress"]);
    let changed = record.to(&add("P1", json!({})));
    assert_eq!(changed.waiting, ids(&["T2.1"]), "the phase it waited for has more to do");
}

#[test]
fn started_node_cannot_get_a_dependency() {
    let record = Record::of(&["P1", "T1.1 done", "T1.2", "P2", "T2.1", "T2.2 done"]);
    let later = Node { depends_on: ids(&["P2"]), ..record.nodes[&id("P1")].clone() };
    assert_invalid(&record, &record.file(&[], vec![later]), "P1 cannot begin to wait for P2");
    let fine = Node { depends_on: ids(&["T2.2"]), ..record.nodes[&id("P1")].clone() };
    assert_eq!(record.to(&record.file(&[], vec![fine])).redefined.len(), 1);
}

#[test]
fn blocked_node_is_retried_with_its_new_definition() {
    let mut record = Record::of(&["P1", "T1.1 blocked", "T1.2 blocked"]);
    for leaf in ["T1.1", "T1.2"] {
        record.leaf(leaf).attempts = 2;
    }
    let more = Node { max_attempts: 3, ..node("T1.1", &[]) };
    let other = Node { name: "other".to_owned(), ..node("T1.2", &[]) };
    let changed = record.to(&record.file(&[], vec![more, other]));
    assert_eq!(changed.freed, ids(&["T1.1"]), "the other has no attempt left");
    assert_eq!((changed.redefined.len(), changed.exhausted), (2, ids(&["T1.2"])));
}

#[test]
fn bounds_hold_at_both_ends() {
    let tasks = |count: usize| {
        let tasks: Vec<String> = (1..=count).map(|n| format!("T1.{n}")).collect();
        let mut lines = vec!["P1"];
        lines.extend(tasks.iter().map(String::as_str));
        Record::of(&lines)
    };
    assert_eq!(tasks(6).to(&add("P1", json!({}))).added.len(), 1);
    let eight = "P1 would have 8 tasks that are not settled; the limit is 7 tasks";
    assert_invalid(&tasks(7), &add("P1", json!({})), eight);
    for settled in [NodeStatus::Cancelled, NodeStatus::Done] {
        let mut older = tasks(7);
        older.leaf("T1.3").status = settled;
        assert_eq!(older.to(&add("P1", json!({}))).added, ids(&["T1.8"]), "{settled}");
    }

    assert_eq!(tasks(1).to(&split("T1.1", 7)).added.len(), 7);
    let eight = "T1.1 would have 8 subtasks that are not settled; the limit is 7";
    assert_invalid(&tasks(1), &split("T1.1", 8), eight);

    let phases = |count: u32| {
        let lines: Vec<String> =
            (1..=count).flat_map(|n| [format!("P{n}"), format!("T{n}.1")]).collect();
        Record::of(&lines.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let more = |record: &Record| record.file(&[], vec![node("P9", &[]), node("T9.1", &[])]);
    assert_eq!(phases(4).to(&more(&phases(4))).added, ids(&["T9.1"]));
    assert_invalid(
        &phases(5),
        &more(&phases(5)),
        "would have 6 phases that are not settled; the limit is 5 phases",
    );
    let alone = phases(4).file(&[], vec![node("P9", &[])]);
    assert_invalid(&phases(4), &alone, "P9 has no task");
}

#[test]
fn unsettled_nodes_are_bounded_and_settled_ones_come_extra() {
    let full = |count: usize, status: NodeStatus| {
        let mut record = Record::of(&["P1", "T1.1", "P2", "T2.1"]);
        for n in 2..count - 2 {
            let own = NodeId::task(1, u32::try_from(n).unwrap());
            record.nodes.insert(own, Node { id: own, added: 1, ..node("T1.1", &[]) });
            record.states.insert(own, state(own, status));
        }
        record
    };
    let (most, more) = (crate::limits::PLAN_NODES_MAX, add("P2", json!({})));
    assert_eq!(full(most - 1, NodeStatus::Todo).to(&more).added.len(), 1);
    assert_invalid(&full(most, NodeStatus::Todo), &more, "the limit is 600 nodes");
    let settled = [NodeStatus::Cancelled, NodeStatus::Done];
    assert_eq!(settled.map(|it| full(2 * most, it).to(&more).added.len()), [1, 1]);
}

#[test]
fn cycles_are_named_and_cancelled_nodes_make_none() {
    let record = Record::of(&["P1", "T1.1", "T1.2: T1.1", "P2", "T2.1: P1"]);
    let circle = record.file(&[], vec![node("T1.1", &["T2.1"])]);
    assert_invalid(&record, &circle, "dependency cycle");
    let own = record.file(&[], vec![node("T1.1", &["T1.1"])]);
    assert_invalid(&record, &own, "dependency cycle T1.1 -> T1.1");
    let part = record.file(&[], vec![node("T1.1", &["P1"])]);
    assert_invalid(&record, &part, "dependency cycle T1.1 -> P1 -> T1.1");
    let record = Record::of(&["P1", "T1.1 cancelled: T1.2", "T1.2"]);
    assert_eq!(record.to(&add("P1", json!({"deps": ["T1.2"]}))).added, ids(&["T1.3"]));
}

#[test]
fn split_task_stays_split() {
    let record = Record::of(&["P1", "T1.1", "S1.1.1", "S1.1.2", "T1.2"]);
    let wanted = record.file(&["S1.1.1", "S1.1.2"], Vec::new());
    assert_invalid(&record, &wanted, "T1.1 was split and would have no subtask left");
    let gone = record.to(&record.file(&["T1.1", "S1.1.1", "S1.1.2"], Vec::new()));
    assert_eq!(gone.cancelled, ids(&["S1.1.1", "S1.1.2"]));
}

#[test]
fn every_error_is_reported_at_once() {
    let record = Record::of(&["P1", "T1.1 done", "T1.2"]);
    let bare = Node { acceptance: Vec::new(), ..node("T1.3", &["T7.7"]) };
    let other = Node { name: "other".to_owned(), ..node("T1.1", &[]) };
    let edit = Edit {
        puts: vec![bare, other, node("S4.1.1", &[])],
        output: Output::Be(Some(id("P1"))),
        ..Edit::default()
    };
    let Err(ChangeError::Invalid(found)) = change(&record.present(), 5, &edit) else { panic!() };
    let all = found.join("\n");
    for words in [
        "T1.1 is done",
        "T1.3 has no acceptance",
        "T7.7, which is outside",
        "no T4.1",
        "P1 has no deliverable",
    ] {
        assert!(all.contains(words), "{words} in {all}");
    }
    let twice = Edit { puts: vec![node("T1.4", &[]), node("T1.4", &[])], ..Edit::default() };
    let found = change(&record.present(), 5, &twice).unwrap_err();
    assert_eq!(found, ChangeError::Invalid(vec!["duplicate id T1.4".to_owned()]));
}

#[test]
fn written_node_round_trips() {
    let whole = json!({
        "id": "S1.1.4", "name": "n", "objective": "o", "definitionOfDone": "d", "role": "specialist",
        "domain": "api", "profile": "fast", "acceptance": ["a"], "deps": ["T1.2"], "tools": ["sh"],
        "keyFacts": ["k"], "scopePaths": ["s"], "outputSchema": {"type": "object"}, "wall": "1m500ms",
        "maxAttempts": 3, "budget": {"tokens": 5, "costUsd": 0.1, "turns": 3},
        "review": {"domain": "api", "profile": "strict"},
        "placement": {"host": "h1", "labels": {"zone": "a"}},
        "recoveryPolicy": {"from": "resend_last", "maxRetries": 0, "idleAfter": "1m1s",
                           "minResendInterval": "1s", "reassign": false},
    });
    for given in [whole, json!({"name": "n", "acceptance": ["a"]})] {
        let read = schema::parse_new(&given, id("T1.1")).unwrap().remove(0);
        let again = schema::parse_new(&schema::written(&read), id("T1.1")).unwrap().remove(0);
        assert_eq!(read, again);
    }
    let wrong = schema::parse_new(&json!([{"name": "n", "subtasks": []}]), id("T1.1")).unwrap_err();
    let wrong: Vec<String> = wrong.iter().map(ToString::to_string).collect();
    assert!(
        wrong.iter().any(|line| line.starts_with("[0].subtasks: is an unknown key")),
        "{wrong:?}"
    );
    assert!(wrong.iter().any(|line| line.starts_with("[0].acceptance: is missing")), "{wrong:?}");
}
