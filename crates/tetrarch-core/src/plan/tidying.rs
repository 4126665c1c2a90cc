//! What the overseer would change about the shape of a plan by itself (spec 05, Insights): a task that asks
//! for more than one agent shows at once is cut, small steps of which each only waits for the one before
//! become one. Rules on definitions and states alone; that it is proposed, and never made, is the owner's.

use crate::id::NodeId;
use crate::limits::{CRITERIA_OF_PART, SUBTASKS_MAX, TEXT_BYTES_MAX, TRIVIAL_CHAIN_MAX};

use super::change::{self, Change, Changed, Edit, NewNode, Present};
use super::{Node, NodeState, NodeStatus, splitting};

/// A change that would do the plan good.
#[derive(Debug, Clone, PartialEq)]
pub struct Tidying {
    /// What it would do to the plan as it is now.
    pub edit: Edit,
    /// What it comes to.
    pub changed: Changed,
    /// Why, in words.
    pub why: String,
}

impl Tidying {
    /// Whether another edit is about the same nodes: what was turned down is not proposed again because
    /// something else changed meanwhile.
    #[must_use]
    pub fn is_like(&self, other: &Edit) -> bool {
        let puts = |edit: &Edit| edit.puts.iter().map(|node| node.id).collect::<Vec<_>>();
        puts(&self.edit) == puts(other) && self.edit.removes == other.removes
    }
}

/// Everything that would do a plan good, cuts first, each in the plan's order. Each could be made as the
/// plan is now.
#[must_use]
pub fn tidyings(present: &Present<'_>) -> Vec<Tidying> {
    let free = present.nodes.values().filter_map(|node| {
        let state = present.states.get(&node.id)?;
        is_free(state).then_some((node, state))
    });
    let free: Vec<(&Node, &NodeState)> = free.collect();
    let cuts = free.iter().filter_map(|(node, state)| {
        let why = oversized(node, state)?;
        Some((Change::Split { node: node.id, subtasks: parts(node) }, why))
    });
    let small: Vec<&Node> = free
        .iter()
        .filter(|(node, state)| is_trivial(node, state))
        .map(|(node, _)| *node)
        .collect();
    let merges = small.iter().filter_map(|first| {
        if small.iter().any(|before| follows(present, before, first)) {
            // The one before it begins the chain.
            return None;
        }
        let chain = chain(present, &small, first);
        let name = chain.iter().map(|node| node.name.as_str()).collect::<Vec<_>>().join(", then ");
        let ids: Vec<NodeId> = chain.iter().map(|node| node.id).collect();
        let count = ids.len();
        let why = format!("{count} small steps of which each only waits for the one before");
        let merge = Change::Merge { nodes: ids, name, objective: String::new() };
        (count > 1).then_some((merge, why))
    });
    cuts.chain(merges).filter_map(|(change, why)| made(present, &change, why)).collect()
}

/// A change as it could be made now; none when a rule of plans stands in its way.
fn made(present: &Present<'_>, wanted: &Change, why: String) -> Option<Tidying> {
    let edit = change::read(present, present.version, wanted).ok()?;
    let changed = change::change(present, present.version, &edit).ok()?;
    Some(Tidying { edit, changed, why })
}

/// Nobody works on it, and it is not over.
fn is_free(state: &NodeState) -> bool {
    let waits = match state.status {
        NodeStatus::Todo | NodeStatus::Queued | NodeStatus::Blocked => true,
        NodeStatus::InProgress | NodeStatus::Done | NodeStatus::Cancelled => false,
    };
    waits && state.assignment.is_none()
}

/// Why a task is too much for one, when it is.
fn oversized(node: &Node, state: &NodeState) -> Option<String> {
    let weighed = splitting::weigh(node, state);
    weighed.splits().then(|| weighed.pros.join("; "))
}

/// Its criteria in portions, one after the other; who does them, and by what means, is as the task says.
fn parts(task: &Node) -> Vec<NewNode> {
    let criteria = task.acceptance.len();
    let count = criteria.div_ceil(CRITERIA_OF_PART).clamp(2, SUBTASKS_MAX);
    let portions: Vec<&[String]> = task.acceptance.chunks(criteria.div_ceil(count)).collect();
    let of = portions.len();
    let mut before = None;
    let mut parts = Vec::with_capacity(of);
    for (n, portion) in (1u32..).zip(portions) {
        let id = NodeId::subtask(task.id.phase_number(), task.id.ordinal(), n);
        let last = parts.len() + 1 == of;
        let node = Node {
            id,
            name: format!("{} ({n} of {of})", task.name),
            acceptance: portion.to_vec(),
            depends_on: before.into_iter().collect(),
            output_schema: task.output_schema.clone().filter(|_| last),
            spawned: false,
            added: 0,
            defined: 0,
            ..task.clone()
        };
        before = Some(id);
        let fits = node.name.len() <= TEXT_BYTES_MAX;
        let name = if fits { node.name } else { task.name.clone() };
        parts.push(NewNode { id: Some(id), node: Node { name, ..node } });
    }
    parts
}

/// Small, and not tried yet.
fn is_trivial(node: &Node, state: &NodeState) -> bool {
    state.status != NodeStatus::Blocked && state.attempts == 0 && splitting::is_trivial(node)
}

/// Whether a node waits for another and nothing else, and nothing else waits for that one.
fn follows(present: &Present<'_>, before: &Node, node: &Node) -> bool {
    let only = |other: &Node| other.id == node.id || !other.depends_on.contains(&before.id);
    node.id.parent() == before.id.parent()
        && node.depends_on == [before.id]
        && present.output != Some(before.id)
        && present.nodes.values().all(only)
}

fn chain<'p>(present: &Present<'_>, small: &[&'p Node], first: &'p Node) -> Vec<&'p Node> {
    let mut chain = vec![first];
    while let Some(last) = chain.last().copied().filter(|_| chain.len() < TRIVIAL_CHAIN_MAX) {
        match small.iter().find(|node| follows(present, last, node)) {
            Some(next) => chain.push(next),
            None => break,
        }
    }
    chain
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::super::ATTEMPTS_EXHAUSTED;
    use super::*;
    use crate::assignment::Purpose;
    use crate::intensity::Failures;
    use crate::limits::{CRITERIA_MAX, TRIVIAL_OBJECTIVE_BYTES};
    use crate::plan::{Blocker, graph, schema};
    use crate::priority::Priorities;
    use crate::time::BusTime;

    struct Record {
        nodes: BTreeMap<NodeId, Node>,
        states: BTreeMap<NodeId, NodeState>,
        output: Option<NodeId>,
    }

    fn id(text: &str) -> NodeId {
        text.parse().unwrap()
    }

    fn state(id: NodeId) -> NodeState {
        NodeState {
            id,
            status: NodeStatus::Todo,
            assignee: None,
            assignment: None,
            purpose: Purpose::Execute,
            attempts: 0,
            findings: Vec::new(),
            blocker: None,
            result: None,
            since: BusTime(0),
            failures: Failures::default(),
            latest: None,
            begun: 0,
            settled: 0,
            priorities: Priorities::default(),
            created: BusTime(0),
            started: None,
        }
    }

    impl Record {
        fn of(tasks: &Value) -> Self {
            let phases = json!([{"id": "P1", "name": "p", "tasks": tasks}]);
            let file = schema::parse(&json!({"title": "t", "phases": phases})).unwrap();
            let nodes: BTreeMap<NodeId, Node> =
                file.nodes.into_iter().map(|node| (node.id, node)).collect();
            let leaves = graph::leaves(&nodes).into_iter();
            let states = leaves.map(|id| (id, state(id))).collect();
            Self { nodes, states, output: None }
        }

        fn leaf(&mut self, own: &str) -> &mut NodeState {
            self.states.get_mut(&id(own)).unwrap()
        }

        fn tidyings(&self) -> Vec<Tidying> {
            let Self { nodes, states, output } = self;
            let folded = &crate::plan::folding::FoldedChildren::new();
            tidyings(&Present { version: 1, nodes, states, output: *output, folded })
        }
    }

    fn task(own: &str, criteria: usize, more: Value) -> Value {
        let acceptance: Vec<String> = (1..=criteria).map(|n| format!("c{n}")).collect();
        let mut task = json!({"id": own, "name": own, "acceptance": acceptance});
        task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        task
    }

    #[test]
    fn task_with_too_many_criteria_is_split() {
        let fine = Record::of(&json!([task("T1.1", CRITERIA_MAX, json!({}))]));
        assert_eq!(fine.tidyings(), []);
        let more = json!({"recoveryPolicy": "escalate", "outputSchema": {"type": "object"}});
        let over = Record::of(&json!([task("T1.1", CRITERIA_MAX + 1, more)]));
        let [cut] = over.tidyings().try_into().unwrap();
        assert_eq!(cut.changed.split, [id("T1.1")]);
        assert_eq!(cut.why, "T1.1 has 11 criteria, more than 10");
        let parts = &cut.edit.puts;
        let criteria: Vec<String> = parts.iter().flat_map(|part| part.acceptance.clone()).collect();
        assert_eq!(criteria, over.nodes[&id("T1.1")].acceptance, "none is lost, none is new");
        assert_eq!(parts[1].depends_on, [parts[0].id]);
        let own = over.nodes[&id("T1.1")].recovery;
        assert!(parts.iter().all(|part| part.recovery == own));
        assert_eq!(parts.iter().filter(|part| part.output_schema.is_some()).count(), 1);
        assert!(parts.last().unwrap().output_schema.is_some(), "the last brings what it brought");
        let most = Record::of(&json!([task("T1.1", 200, json!({}))]));
        assert_eq!(most.tidyings()[0].edit.puts.len(), SUBTASKS_MAX);
    }

    #[test]
    fn size_failures_and_places_are_weighed_against_overhead_and_depth() {
        let apart = json!({"scopePaths": ["src/a/**", "./docs"]});
        let subtask = json!({"subtasks": [task("S1.1.1", CRITERIA_MAX + 1, json!({}))]});
        for (tasks, on, splits, said) in [
            (task("T1.1", 1, json!({})), "T1.1", false, "it is small"),
            (task("T1.1", CRITERIA_OF_PART, apart.clone()), "T1.1", false, ""),
            (
                task("T1.1", CRITERIA_OF_PART + 1, apart),
                "T1.1",
                true,
                "its parts lie apart: docs, src",
            ),
            (task("T1.1", 1, subtask), "S1.1.1", false, "no level is left"),
        ] {
            let mut record = Record::of(&json!([tasks]));
            let state = record.leaf(on).clone();
            let weighed = splitting::weigh(&record.nodes[&id(on)], &state);
            assert_eq!(weighed.splits(), splits, "{weighed:?}");
            let all: Vec<&str> =
                weighed.pros.iter().map(String::as_str).chain(weighed.cons).collect();
            assert!(said.is_empty() || all.join("; ").contains(said), "{said}: {all:?}");
        }
    }

    #[test]
    fn exhausted_task_is_split_when_possible() {
        for (criteria, kind, cuts) in
            [(2, ATTEMPTS_EXHAUSTED, 1), (1, ATTEMPTS_EXHAUSTED, 0), (2, "stopped", 0)]
        {
            let mut record = Record::of(&json!([task("T1.1", criteria, json!({}))]));
            let leaf = record.leaf("T1.1");
            let blocker =
                Blocker { kind: kind.to_owned(), detail: String::new(), needs: String::new() };
            (leaf.status, leaf.attempts) = (NodeStatus::Blocked, 2);
            leaf.blocker = Some(blocker);
            assert_eq!(record.tidyings().len(), cuts, "{criteria} {kind}");
        }
    }

    #[test]
    fn active_or_settled_work_is_left_alone() {
        for status in [NodeStatus::InProgress, NodeStatus::Done, NodeStatus::Cancelled] {
            let mut record = Record::of(&json!([task("T1.1", 20, json!({}))]));
            record.leaf("T1.1").status = status;
            assert_eq!(record.tidyings(), [], "{status}");
        }
        let subtask =
            json!([{"id": "T1.1", "name": "t", "subtasks": [task("S1.1.1", 20, json!({}))]}]);
        assert_eq!(Record::of(&subtask).tidyings(), [], "nothing stands below a subtask");
    }

    #[test]
    fn consecutive_small_steps_become_one() {
        let after = |own: &str, dep: &str| task(own, 1, json!({"deps": [dep]}));
        let record = Record::of(&json!([
            task("T1.1", 1, json!({})),
            after("T1.2", "T1.1"),
            after("T1.3", "T1.2"),
        ]));
        let [merge] = record.tidyings().try_into().unwrap();
        assert_eq!(merge.changed.cancelled, [id("T1.2"), id("T1.3")]);
        assert_eq!(merge.edit.puts[0].name, "T1.1, then T1.2, then T1.3");
        assert_eq!(merge.edit.puts[0].acceptance, ["c1"]);
        let long = |bytes: usize| {
            let objective = "x".repeat(bytes);
            let last = task("T1.2", 1, json!({"deps": ["T1.1"], "objective": objective}));
            Record::of(&json!([task("T1.1", 1, json!({})), last])).tidyings().len()
        };
        assert_eq!((long(TRIVIAL_OBJECTIVE_BYTES), long(TRIVIAL_OBJECTIVE_BYTES + 1)), (1, 0));
    }

    #[test]
    fn merged_chain_is_bounded() {
        let tasks: Vec<Value> = (1..=7)
            .map(|n| {
                let deps = if n > 1 { vec![format!("T1.{}", n - 1)] } else { Vec::new() };
                task(&format!("T1.{n}"), 1, json!({"deps": deps}))
            })
            .collect();
        let found = Record::of(&json!(tasks)).tidyings();
        assert_eq!(found[0].changed.cancelled.len(), TRIVIAL_CHAIN_MAX - 1);
    }

    #[test]
    fn unlike_steps_stay_separate() {
        let pair = |first: Value, second: Value| {
            let mut more = json!({"deps": ["T1.1"]});
            more.as_object_mut().unwrap().extend(second.as_object().unwrap().clone());
            Record::of(&json!([task("T1.1", 1, first), task("T1.2", 1, more)]))
        };
        assert_eq!(pair(json!({}), json!({})).tidyings().len(), 1);
        for other in [
            json!({"role": "specialist", "domain": "api"}),
            json!({"review": true}),
            json!({"recoveryPolicy": "escalate"}),
            json!({"definitionOfDone": "long"}),
            json!({"acceptance": ["a", "b"]}),
            json!({"deps": []}),
        ] {
            assert_eq!(pair(json!({}), other.clone()).tidyings(), [], "{other}");
        }
        let mut tried = pair(json!({}), json!({}));
        tried.leaf("T1.2").attempts = 1;
        assert_eq!(tried.tidyings(), []);
        let both = Record::of(&json!([
            task("T1.1", 1, json!({})),
            task("T1.2", 1, json!({"deps": ["T1.1"]})),
            task("T1.3", 1, json!({"deps": ["T1.1"]})),
        ]));
        assert_eq!(both.tidyings(), [], "two wait for it");
        let mut shown = pair(json!({}), json!({}));
        shown.output = Some(id("T1.1"));
        assert_eq!(shown.tidyings(), [], "its deliverable is the plan's");
    }

    #[test]
    fn proposals_about_the_same_nodes_are_equal() {
        let record =
            Record::of(&json!([task("T1.1", 11, json!({})), task("T1.2", 11, json!({})),]));
        let [first, second] = record.tidyings().try_into().unwrap();
        assert!(first.is_like(&first.edit) && !first.is_like(&second.edit));
        let mut renamed = first.edit.clone();
        renamed.puts[0].name = "other".to_owned();
        assert!(first.is_like(&renamed));
    }
}
