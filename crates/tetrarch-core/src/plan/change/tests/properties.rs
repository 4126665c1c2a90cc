//! Whatever is asked of a plan, one after the other: what is accepted leaves a valid plan behind, keeps
//! what was done, and uses no id again.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::id::Tier;
use crate::limits::{PHASES_MAX, SUBTASKS_MAX, TASKS_MAX};

/// One thing that happens to a plan.
#[derive(Debug, Clone)]
enum Deed {
    /// A leaf moves on: begins, or ends well or not.
    Work(usize, u8),
    /// Somebody adds a node below another one, waiting for a third.
    Add(usize, usize),
    Split(usize, u8),
    Merge(usize, usize),
    /// A file without one node, with another one redefined, and perhaps with a new phase.
    Whole(usize, usize, usize, bool),
}

fn deeds() -> impl Strategy<Value = Vec<(Deed, u32)>> {
    let place = 0usize..40;
    let deed = prop_oneof![
        3 => (place.clone(), 0u8..3).prop_map(|(at, how)| Deed::Work(at, how)),
        2 => (place.clone(), place.clone()).prop_map(|(at, on)| Deed::Add(at, on)),
        1 => (place.clone(), 1u8..9).prop_map(|(at, into)| Deed::Split(at, into)),
        1 => (place.clone(), place.clone()).prop_map(|(a, b)| Deed::Merge(a, b)),
        2 => (place.clone(), place.clone(), place, any::<bool>())
            .prop_map(|(gone, other, on, phase)| Deed::Whole(gone, other, on, phase)),
    ];
    // How many versions ago its author looked.
    prop::collection::vec((deed, 0u32..3), 1..30)
}

fn pick(record: &Record, at: usize) -> NodeId {
    *record.nodes.keys().nth(at % record.nodes.len()).unwrap()
}

fn wanted(record: &Record, deed: &Deed) -> Option<Change> {
    Some(match *deed {
        Deed::Work(..) => return None,
        Deed::Add(at, on) => Change::Add {
            parent: pick(record, at),
            node: Box::new(new(json!({"deps": [pick(record, on).to_string()]}))),
        },
        Deed::Split(at, into) => split(&pick(record, at).to_string(), into.into()),
        Deed::Merge(a, b) => Change::Merge {
            nodes: vec![pick(record, a), pick(record, b)],
            name: "both".to_owned(),
            objective: String::new(),
        },
        Deed::Whole(gone, other, on, phase) => {
            let (gone, on) = (pick(record, gone).to_string(), pick(record, on).to_string());
            let other = pick(record, other).to_string();
            let mut with = vec![Node { name: "other".to_owned(), ..node(&other, &[&on]) }];
            if phase {
                let next = record.nodes.keys().map(|id| id.phase_number()).max().unwrap_or(0) + 1;
                with.push(node(&NodeId::phase(next).to_string(), &[]));
                with.push(node(&NodeId::task(next, 1).to_string(), &[]));
            }
            record.file(&[&gone], with)
        }
    })
}

/// What the owner writes of an accepted change.
fn apply(record: &mut Record, changed: &Changed) {
    record.version += 1;
    for node in &changed.defined {
        record.nodes.insert(node.id, node.clone());
    }
    for id in &changed.split {
        record.states.remove(id);
    }
    for id in &changed.added {
        record.states.insert(*id, state(*id, NodeStatus::Todo));
    }
    for id in &changed.cancelled {
        let leaf = record.states.get_mut(id).unwrap();
        leaf.status = leaf.status.to(NodeStatus::Cancelled, false).unwrap();
        leaf.settled = record.version;
    }
    for id in changed.waiting.iter().chain(&changed.freed) {
        let leaf = record.states.get_mut(id).unwrap();
        leaf.status = NodeStatus::Blocked;
        leaf.blocker =
            Some(Blocker { kind: DEPENDS.to_owned(), detail: String::new(), needs: String::new() });
    }
    record.output = changed.output;
    settle(record);
}

fn settle(record: &mut Record) {
    let waits = |leaf: &NodeState| leaf.blocker.as_ref().is_some_and(|it| it.kind == DEPENDS);
    let statuses = record.states.values().map(|leaf| {
        let again = leaf.status == NodeStatus::Blocked && waits(leaf);
        (leaf.id, if again { NodeStatus::Todo } else { leaf.status })
    });
    for id in graph::newly_ready(&record.nodes, &statuses.collect(), &record.folded) {
        let leaf = record.states.get_mut(&id).unwrap();
        (leaf.status, leaf.blocker) = (NodeStatus::Queued, None);
    }
}

fn work(record: &mut Record, at: usize, how: u8) {
    let id = pick(record, at);
    let version = record.version + 1;
    let Some(leaf) = record.states.get_mut(&id) else { return };
    match (leaf.status, how) {
        (NodeStatus::Queued, _) => {
            (leaf.status, leaf.begun) = (NodeStatus::InProgress, version);
            leaf.attempts += 1;
        }
        (NodeStatus::InProgress, 0 | 1) => {
            (leaf.status, leaf.settled) = (NodeStatus::Done, version);
        }
        (NodeStatus::InProgress, _) => leaf.status = NodeStatus::Queued,
        (_, _) => return,
    }
    record.version = version;
    settle(record);
}

/// The rules of spec 05 that hold of any plan of record, told anew.
fn assert_valid(record: &Record) {
    let standing = record.clone();
    let present = standing.present();
    let standing = Standing::of(&present);
    let live = |id: NodeId| !standing.status(id).is_settled();
    let under = |parent: Option<NodeId>| {
        record.nodes.keys().filter(|id| id.parent() == parent && live(**id)).count()
    };
    assert!(under(None) <= PHASES_MAX);
    for id in record.nodes.keys() {
        let max = if id.tier() == Tier::Phase { TASKS_MAX } else { SUBTASKS_MAX };
        assert!(under(Some(*id)) <= max, "{id}");
        assert!(id.parent().is_none_or(|parent| record.nodes.contains_key(&parent)), "{id}");
    }
    let leaves: Vec<NodeId> = graph::leaves(&record.nodes);
    assert_eq!(leaves, record.states.keys().copied().collect::<Vec<_>>(), "leaves have states");
    for node in record.nodes.values() {
        for needed in &node.depends_on {
            assert!(record.nodes.contains_key(needed), "{} on {needed}", node.id);
        }
    }
    let wanted = record.nodes.values().filter(|node| live(node.id));
    let found = graph::cycles(wanted.map(|node| (node.id, node.depends_on.as_slice())));
    assert!(found.is_empty(), "{found:?}");
    for leaf in record.states.values().filter(|leaf| leaf.status == NodeStatus::Queued) {
        for needed in graph::dependencies(&record.nodes, leaf.id) {
            let status = record.states.get(&needed).map_or(NodeStatus::Done, |leaf| leaf.status);
            assert_eq!(status, NodeStatus::Done, "{} is ready, {needed} is not done", leaf.id);
        }
    }
}

/// Whether the work that is open can come to an end: nothing waits for what was given up.
fn can_be_finished(record: &Record) -> bool {
    let mut record = record.clone();
    let open =
        |leaf: &&mut NodeState| matches!(leaf.status, NodeStatus::Queued | NodeStatus::InProgress);
    loop {
        let mut any = false;
        for leaf in record.states.values_mut().filter(open) {
            leaf.status = NodeStatus::Done;
            any = true;
        }
        if !any {
            break;
        }
        settle(&mut record);
    }
    record.states.values().all(|leaf| leaf.status.is_settled())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn accepted_change_leaves_a_valid_plan_and_finished_work(deeds in deeds()) {
        let mut record = Record::of(&[
            "P1", "T1.1", "S1.1.1", "S1.1.2: S1.1.1", "T1.2", "P2: P1", "T2.1", "T2.2: T2.1",
        ]);
        settle(&mut record);
        let mut used: BTreeSet<NodeId> = record.nodes.keys().copied().collect();
        for (deed, ago) in deeds {
            if let Deed::Work(at, how) = deed {
                work(&mut record, at, how);
                continue;
            }
            let Some(wanted) = wanted(&record, &deed) else { continue };
            let base = record.version.saturating_sub(ago);
            let before = record.clone();
            let Ok(changed) = record.try_at(base, &wanted) else { continue };
            prop_assert_eq!(&record.try_at(base, &wanted).unwrap(), &changed, "the same again");
            apply(&mut record, &changed);
            assert_valid(&record);
            prop_assert!(can_be_finished(&record), "{:?}", deed);
            for id in changed.added.iter().chain(
                changed.defined.iter().filter(|node| node.added == record.version).map(|n| &n.id),
            ).collect::<BTreeSet<_>>() {
                prop_assert!(used.insert(*id), "{} was used before", id);
            }
            for (id, old) in &before.states {
                if old.status == NodeStatus::Done || old.status == NodeStatus::InProgress {
                    prop_assert_eq!(record.states.get(id), Some(old), "{}", id);
                    prop_assert_eq!(&record.nodes[id], &before.nodes[id], "{}", id);
                }
            }
            prop_assert!(before.nodes.keys().all(|id| record.nodes.contains_key(id)));
        }
    }
}
