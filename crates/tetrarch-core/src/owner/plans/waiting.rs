//! Work that waits for what is cancelled waits for ever: no plan change may leave it so, but work
//! also ends with the agents that it was for. Only its plan can say what is to become of it, so GO
//! and the goal's owner are asked to look (spec 05).

use crate::id::{AgentId, EpicId, NodeId, Principal};
use crate::limits::TEXT_BYTES_MAX;
use crate::mail::MailBody;
use crate::plan::proposal::ReviewAsk;
use crate::plan::{NodeStatus, PlanReason, graph, rollup};
use crate::step::Draft;

use super::super::{fit, questions};

/// Asks for another plan when a node that was cancelled now is what others wait for.
pub(super) fn tell(draft: &mut Draft<'_>, epic: EpicId, cancelled: NodeId, why: &str) {
    let left = left(draft, epic, cancelled);
    let owner = draft.base().goals.get(&epic).map(|goal| goal.owner.clone());
    let Some(owner) = owner.filter(|_| !left.is_empty() && !super::is_closed(draft, epic)) else {
        return;
    };
    let left: Vec<String> = left.iter().map(ToString::to_string).collect();
    let text = format!(
        "{cancelled} is cancelled: {why}. These nodes depend on it and cannot start: {}. Remove the dependency, or cancel them",
        left.join(" ")
    );
    let text = fit::Room::of(TEXT_BYTES_MAX).text(&text, usize::MAX);
    let by = Principal::Agent(AgentId::Go);
    for to in [by.clone(), questions::desk_of(draft, &owner)] {
        draft.mail(to, Some(epic), MailBody::ReviewNeeded { reason: text.clone() });
    }
    draft.review(epic, ReviewAsk { by, reason: PlanReason::Replan, draft: None, text });
}

/// The nodes with a dependency that came to nothing with this leaf: it, or a whole that it was the
/// last wanted part of.
fn left(draft: &Draft<'_>, epic: EpicId, cancelled: NodeId) -> Vec<NodeId> {
    let nodes = draft.nodes(epic);
    let ids: Vec<NodeId> = nodes.keys().copied().collect();
    let stands = rollup::rollup(&draft.leaf_statuses(epic), &ids).statuses;
    let lost = |needed: &NodeId| {
        graph::is_within(cancelled, *needed) && stands.get(needed) == Some(&NodeStatus::Cancelled)
    };
    let open = |id: &NodeId| stands.get(id).is_some_and(|status| !status.is_settled());
    let waits = nodes.values().filter(|node| open(&node.id) && node.depends_on.iter().any(lost));
    waits.map(|node| node.id).collect()
}
