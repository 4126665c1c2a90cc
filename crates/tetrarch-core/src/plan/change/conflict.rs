//! What a change meets that its author did not know of (spec 05, `E_CONFLICT`): a node that it
//! touches, removes or depends on changed its definition, or became in_progress or terminal, since the
//! version it was made for. What is being worked on now is not touched at all.

use std::collections::BTreeSet;

use crate::id::NodeId;
use crate::plan::NodeStatus;

use super::{ChangeError, Standing, Touched};

/// Refuses a change whose ground has moved.
pub(super) fn check(
    standing: &Standing<'_>,
    base: u32,
    touched: &Touched,
) -> Result<(), ChangeError> {
    let version = standing.present.version;
    if base > version {
        return Err(ChangeError::Conflict(vec![format!("version {base} does not exist")]));
    }
    let changed = touched.changed.iter().map(|node| node.id);
    let own: BTreeSet<NodeId> = changed
        .chain(touched.removed.iter().copied())
        .chain(touched.split.iter().copied())
        .collect();
    let mut found: Vec<String> = own.iter().filter_map(|id| moved(standing, *id, base)).collect();
    let needed: BTreeSet<NodeId> = touched
        .added
        .iter()
        .chain(&touched.changed)
        .flat_map(|node| &node.depends_on)
        .copied()
        .collect();
    let parents = touched.added.iter().filter_map(|node| node.id.parent());
    let given_up = |id: &NodeId| standing.status(*id) == NodeStatus::Cancelled;
    let on = needed.into_iter().chain(parents.filter(given_up)).filter(|id| !own.contains(id));
    let on: BTreeSet<NodeId> = on.collect();
    found.extend(on.into_iter().filter_map(|id| moved(standing, id, base)));
    if found.is_empty() {
        found.extend(own.into_iter().filter_map(|id| worked_on(standing, id)));
    }
    if found.is_empty() { Ok(()) } else { Err(ChangeError::Conflict(found)) }
}

/// What has become of a node since a version; none: nothing that matters to a change.
fn moved(standing: &Standing<'_>, id: NodeId, base: u32) -> Option<String> {
    let node = standing.present.nodes.get(&id)?;
    if node.defined > base {
        return Some(format!("{id} was redefined in version {}", node.defined));
    }
    let status = standing.status(id);
    let leaves = || standing.leaves_below(id);
    let since = match status {
        NodeStatus::Done | NodeStatus::Cancelled => leaves().map(|leaf| leaf.settled).max(),
        // Of several below it the first that began; a leaf that failed meanwhile has moved too.
        NodeStatus::Todo | NodeStatus::Queued | NodeStatus::InProgress | NodeStatus::Blocked => {
            let begun = |status| matches!(status, NodeStatus::InProgress | NodeStatus::Done);
            let own = standing.state(id).map(|leaf| leaf.begun);
            let below = leaves().filter(|leaf| begun(leaf.status)).map(|leaf| leaf.begun);
            own.or_else(|| below.min())
        }
    };
    let since = since.filter(|since| *since > base)?;
    Some(match status {
        NodeStatus::Done | NodeStatus::Cancelled => {
            format!("{id} is {status} since version {since}")
        }
        NodeStatus::Todo | NodeStatus::Queued | NodeStatus::InProgress | NodeStatus::Blocked => {
            format!("{id} was started in version {since}")
        }
    })
}

/// A leaf that somebody works on, or that is under review, cannot be defined otherwise.
fn worked_on(standing: &Standing<'_>, id: NodeId) -> Option<String> {
    let state = standing.state(id)?;
    let open = state.status == NodeStatus::InProgress || state.assignment.is_some();
    open.then(|| match &state.assignee {
        Some(agent) => {
            format!("{id} is in progress ({agent}); stop the agent, or do not change {id}")
        }
        None => format!("{id} is in progress; do not change it"),
    })
}
