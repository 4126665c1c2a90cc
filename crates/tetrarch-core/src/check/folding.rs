//! What leaves a plan: only nodes of ended children, each counted once by what became of it, and no id is used
//! again (spec 05, Nothing grows with history; spec 10, invariants 10 and 13).

use std::collections::BTreeMap;

use crate::id::{EpicId, NodeId};
use crate::ledger::{Entry, RecordKey};
use crate::plan::{NodeStatus, Plan};
use crate::records::Records;

use super::Findings;
pub(super) use crate::plan::folding::is_used;

/// What of one phase is in the plan no more: how many were done, how many given up, the highest number.
type Gone = (u32, u32, u32);

/// Looks at what a plan says of what left it, and at what leaves it with an entry.
pub(super) fn check(before: &Records, entry: &Entry, plan: &Plan, found: &mut Findings) {
    let epic = plan.epic;
    let old = before.plans.get(&epic);
    let mut expected: BTreeMap<NodeId, Gone> =
        old.map(|old| gone(old).collect()).unwrap_or_default();
    for key in &entry.dropped {
        let RecordKey::Node(of, id) = key else { continue };
        if *of != epic {
            continue;
        }
        let subject = format!("{epic} {id}");
        let with_state = entry.dropped.contains(&RecordKey::NodeState(epic, *id));
        found.must(with_state, 10, &subject, "it left the plan and its state did not");
        let counts = expected.entry(NodeId::phase(id.phase_number())).or_default();
        match last_status(before, entry, epic, *id) {
            Some(NodeStatus::Done) => counts.0 += 1,
            Some(NodeStatus::Cancelled) => counts.1 += 1,
            Some(
                NodeStatus::Todo
                | NodeStatus::Queued
                | NodeStatus::InProgress
                | NodeStatus::Blocked,
            )
            | None => found.must(false, 10, &subject, "it left the plan and had not ended"),
        }
        counts.2 = counts.2.max(id.ordinal());
    }
    let told: BTreeMap<NodeId, Gone> = gone(plan).collect();
    let what = format_args!("{told:?} left it by what it says, {expected:?} did");
    found.must(told == expected, 10, &epic, what);
}

fn gone(plan: &Plan) -> impl Iterator<Item = (NodeId, Gone)> {
    plan.folded
        .iter()
        .map(|(phase, ended)| (*phase, (ended.done, ended.failed + ended.cancelled, ended.highest)))
}

/// Where a leaf stood at its end: the last that its plan's event tells of it, else where it stood before.
fn last_status(before: &Records, entry: &Entry, epic: EpicId, id: NodeId) -> Option<NodeStatus> {
    let events = entry.plans.iter().filter(|event| event.epic == epic);
    let mut moves = events.flat_map(|event| &event.changes).filter(|change| change.node == id);
    let known = before.node_states.get(&epic).and_then(|states| states.get(&id));
    moves.next_back().map(|change| change.to).or(known.map(|state| state.status))
}
