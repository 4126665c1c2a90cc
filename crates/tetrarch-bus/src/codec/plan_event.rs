//! The public plan event: JSON for everybody, protobuf inside the ledger.

use tetrarch_core::goal::GoalStatus;
use tetrarch_core::limits::PLAN_EVENT_BYTES_MAX;
use tetrarch_core::plan::rollup::Counts;
use tetrarch_core::plan::{NodeChange, NodeView, PlanEvent};
use tetrarch_core::time::BusTime;

use super::assignment::{PURPOSES, purpose_word};
use super::error::{CodecError, within};
use super::plan::{reason, source, status};
use super::{json, priority, read, record};
use crate::proto::v1 as pb;

/// The body of `plan.created` and `plan.updated`.
///
/// # Errors
/// An event of more bytes than allowed.
pub fn encode_plan_event(event: &PlanEvent) -> Result<Vec<u8>, CodecError> {
    let bytes = json::write("PlanEvent", &pb::PlanEvent::from(event))?;
    within("plan event", bytes.len(), PLAN_EVENT_BYTES_MAX)?;
    Ok(bytes)
}

/// Reads the body of `plan.created` and `plan.updated`; unknown fields are skipped.
///
/// # Errors
/// What is wrong, with the field.
pub fn decode_plan_event(payload: &[u8]) -> Result<PlanEvent, CodecError> {
    within("plan event", payload.len(), PLAN_EVENT_BYTES_MAX)?;
    record::message::<pb::PlanEvent>("PlanEvent", payload)?.try_into()
}

/// An event as the ledger keeps it: without its nodes, which whoever publishes it has records of.
pub(super) fn kept(event: &PlanEvent) -> pb::PlanEvent {
    pb::PlanEvent { nodes: Vec::new(), ..event.into() }
}

/// The trace's own id, the second part of a `traceparent`.
pub(super) fn trace_id(traceparent: Option<&String>) -> String {
    traceparent.and_then(|text| text.split('-').nth(1)).unwrap_or_default().to_owned()
}

fn counts(counts: Counts) -> pb::NodeCounts {
    let Counts { todo, queued, in_progress, blocked, done, cancelled } = counts;
    pb::NodeCounts { todo, queued, in_progress, blocked, done, cancelled }
}

impl From<&NodeChange> for pb::NodeChange {
    fn from(change: &NodeChange) -> Self {
        Self {
            node: change.node.to_string(),
            from: read::show(change.from.as_ref()),
            to: change.to.as_str().to_owned(),
            why: change.why.clone(),
        }
    }
}

impl TryFrom<pb::NodeChange> for NodeChange {
    type Error = CodecError;
    fn try_from(change: pb::NodeChange) -> Result<Self, CodecError> {
        let from = read::some(change.from).map(|from| status("from", &from)).transpose()?;
        Ok(Self {
            node: read::text("node", &change.node)?,
            from,
            to: status("to", &change.to)?,
            why: change.why,
        })
    }
}

impl From<&NodeView> for pb::NodeView {
    fn from(view: &NodeView) -> Self {
        Self {
            id: view.id.to_string(),
            title: view.title.clone(),
            status: view.status.as_str().to_owned(),
            assignee: read::show(view.assignee.as_ref()),
            purpose: purpose_word(view.purpose).to_owned(),
            attempts: view.attempts,
            findings: view.findings.clone(),
            priorities: priority::written(view.priorities),
            created_unix_ms: view.created.0,
        }
    }
}

impl TryFrom<pb::NodeView> for NodeView {
    type Error = CodecError;
    fn try_from(view: pb::NodeView) -> Result<Self, CodecError> {
        Ok(Self {
            id: read::text("id", &view.id)?,
            title: view.title,
            status: status("status", &view.status)?,
            assignee: read::optional("assignee", &view.assignee)?,
            purpose: read::word("purpose", &view.purpose, &PURPOSES, purpose_word)?,
            attempts: view.attempts,
            findings: view.findings,
            priorities: priority::read(view.priorities)?,
            created: BusTime(view.created_unix_ms),
        })
    }
}

impl From<&PlanEvent> for pb::PlanEvent {
    fn from(event: &PlanEvent) -> Self {
        Self {
            epic_id: event.epic.to_string(),
            plan_id: event.plan.to_string(),
            version: event.version,
            source: event.source.as_str().to_owned(),
            reason: event.reason.as_str().to_owned(),
            trace_id: trace_id(event.trace.as_ref()),
            workspace_id: event.project.to_string(),
            changes: event.changes.iter().map(Into::into).collect(),
            full: event.full,
            nodes: event.nodes.iter().map(Into::into).collect(),
            folded: event.folded.iter().map(ToString::to_string).collect(),
            counts: Some(counts(event.counts)),
            definitions: event.definitions.iter().map(Into::into).collect(),
            title: event.title.clone(),
            output: read::show(event.output.as_ref()),
            goal: event.goal.as_str().to_owned(),
            percent: event.percent.into(),
            result: event.result.as_ref().map(Into::into),
            traceparent: read::show(event.trace.as_ref()),
            at_unix_ms: event.at.0,
            priorities: priority::written(event.priorities),
        }
    }
}

impl TryFrom<pb::PlanEvent> for PlanEvent {
    type Error = CodecError;
    fn try_from(event: pb::PlanEvent) -> Result<Self, CodecError> {
        // Those of earlier versions counted nothing and told every node.
        let full = event.full || event.counts.is_none();
        let pb::NodeCounts { todo, queued, in_progress, blocked, done, cancelled } =
            event.counts.unwrap_or_default();
        Ok(Self {
            epic: read::text("epicId", &event.epic_id)?,
            plan: read::text("planId", &event.plan_id)?,
            project: read::text("workspaceId", &event.workspace_id)?,
            version: event.version,
            source: source("source", &event.source)?,
            reason: reason("reason", &event.reason)?,
            changes: read::each("changes", event.changes)?,
            full,
            nodes: read::each("nodes", event.nodes)?,
            folded: read::texts("folded", &event.folded)?,
            counts: Counts { todo, queued, in_progress, blocked, done, cancelled },
            definitions: read::each("definitions", event.definitions)?,
            title: event.title,
            output: read::optional("output", &event.output)?,
            goal: read::word("goal", &event.goal, &GoalStatus::ALL, GoalStatus::as_str)?,
            percent: read::small("percent", event.percent)?,
            result: read::maybe("result", event.result)?,
            trace: read::some(event.traceparent),
            at: BusTime(event.at_unix_ms),
            priorities: priority::read(event.priorities)?,
        })
    }
}
