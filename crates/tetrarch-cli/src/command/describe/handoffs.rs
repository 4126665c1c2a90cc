//! How nodes, and what was handed over at a place of an epic, are laid out for people.

use tetrarch_core::brief::Evidence;
use tetrarch_core::crystallization::{Crystallization, References};
use tetrarch_core::id::{EpicId, NodeId};
use tetrarch_core::plan::{NodeState, RiskLevel};
use tetrarch_core::records::Records;
use tetrarch_core::time::BusTime;

use crate::StateSnapshot;
use crate::command::describe::journal::shortened;
use crate::command::get::rows::said;
use crate::output::{Cell, Sheet, age, is_coloured, now, stamp};

/// Everything about a node.
pub(super) fn node(snapshot: &StateSnapshot, epic: EpicId, id: NodeId) -> String {
    let mut sheet = Sheet::new(&format!("{epic}/{id}"), is_coloured());
    let records = &snapshot.records;
    let Some(node) = records.nodes.get(&epic).and_then(|nodes| nodes.get(&id)) else {
        return sheet.finish();
    };
    let state = records.node_states.get(&epic).and_then(|states| states.get(&id));
    sheet
        .field("name", node.name.as_str())
        .field("state", Cell::state(snapshot.node_status(epic, id).as_str()))
        .field("since", Cell::some(state.map(|state| moment(state.since))))
        .field("started", Cell::some(state.and_then(|state| state.started).map(moment)))
        .field("ended", Cell::some(state.and_then(NodeState::ended).map(moment)))
        .field("role", node.role.as_str())
        .field("assignee", Cell::some(state.and_then(|state| state.assignee.as_ref())))
        .field(
            "attempts",
            Cell::some(state.map(|it| format!("{} of {}", it.attempts, node.max_attempts))),
        )
        .field("recovery", node.recovery.to_string())
        .field("priority", Cell::some(state.map(|state| said(state.priorities))))
        .field("effort", node.estimated_effort.as_str())
        .field("risk", node.risk_level.map(RiskLevel::as_str).unwrap_or_default())
        .list("depends on", node.depends_on.iter().map(ToString::to_string))
        .list("blocks", blocked_by(records, epic, id).map(|id| id.to_string()))
        .list("scope", node.scope_paths.iter().cloned())
        .list("findings", state.into_iter().flat_map(|state| state.findings.iter().cloned()));
    if let Some(blocker) = state.and_then(|state| state.blocker.as_ref()) {
        sheet
            .field("blocked by", format!("{}: {}", blocker.kind, blocker.detail))
            .field("needs", blocker.needs.as_str());
    }
    sheet.passage("objective", &node.objective);
    sheet.passage("expected outcome", &node.expected_outcome);
    sheet.passage("success criteria", &node.acceptance.join("\n"));
    sheet.passage("done when", &node.definition_of_done);
    if let Some(result) = state.and_then(|state| state.result.as_ref()) {
        sheet.passage("deliverable", &result.deliverable);
    }
    let left = records.crystallizations.get(&epic).and_then(|left| left.get(&Some(id)));
    if let Some(left) = left {
        handoff(&mut sheet, left);
    }
    sheet.finish()
}

/// The nodes that wait for a node.
fn blocked_by(records: &Records, epic: EpicId, id: NodeId) -> impl Iterator<Item = NodeId> {
    let nodes = records.nodes.get(&epic).into_iter().flatten();
    nodes.filter(move |(_, node)| node.depends_on.contains(&id)).map(|(id, _)| *id)
}

/// What was handed over within an epic: a line for each node, the goal's own in full.
pub(super) fn all(sheet: &mut Sheet, snapshot: &StateSnapshot, epic: EpicId) {
    let Some(left) = snapshot.records.crystallizations.get(&epic) else { return };
    let nodes = left.values().filter_map(|left| Some((left.node?, left)));
    let lines = nodes.map(|(node, left)| {
        vec![
            node.to_string().into(),
            left.source.as_str().into(),
            left.handoff.current_state.as_str().into(),
            shortened(&left.handoff.summary).into(),
        ]
    });
    sheet.table("handed over", lines.collect());
    if let Some(whole) = left.get(&None) {
        handoff(sheet, whole);
    }
}

fn handoff(sheet: &mut Sheet, left: &Crystallization) {
    let said = &left.handoff;
    let Evidence { files, commands, tests, commits } = &said.evidence;
    let References { prs, issues, external } = &said.references;
    sheet
        .section("handoff")
        .field("id", left.id.to_string())
        .field("from", left.source.as_str())
        .field("at", moment(left.at))
        .field("agent", Cell::some(left.agent.as_ref()))
        .field("run", Cell::some(left.run))
        .field("stands", said.current_state.as_str())
        .list("decisions", said.decisions.iter().cloned())
        .list("next", said.next_actions.iter().cloned())
        .list("open questions", said.open_questions.iter().cloned())
        .list("blockers", said.known_blockers.iter().cloned())
        .list("files", files.iter().cloned())
        .list("commands", commands.iter().cloned())
        .list("tests", tests.iter().cloned())
        .list("commits", commits.iter().cloned())
        .list("prs", prs.iter().cloned())
        .list("issues", issues.iter().cloned())
        .list("references", external.iter().cloned());
    sheet.passage("summary", &said.summary);
}

/// A time, and how long ago it was.
pub(super) fn moment(at: BusTime) -> String {
    format!("{} ({} ago)", stamp(at), age(now(), at))
}
