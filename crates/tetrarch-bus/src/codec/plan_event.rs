//! The public plan event: JSON for everybody, protobuf inside the ledger.

use tetrarch_core::limits::PLAN_EVENT_BYTES_MAX;
use tetrarch_core::plan::rollup::NodeCounts;
use tetrarch_core::plan::{NodeChange, NodeView, PlanEvent};

use super::error::{CodecError, within};
use super::wire::{Wire, absent, kept, message};
use super::{json, record};
use crate::proto::v1 as pb;

/// The body of `plan.created` and `plan.updated`.
///
/// # Errors
/// An event of more bytes than allowed.
pub fn encode_plan_event(event: &PlanEvent) -> Result<Vec<u8>, CodecError> {
    let event: pb::PlanEvent = event.put();
    json::bounded("plan event", &event, PLAN_EVENT_BYTES_MAX)
}

/// Reads the body of `plan.created` and `plan.updated`; unknown fields are skipped.
///
/// # Errors
/// What is wrong, with the field.
pub fn decode_plan_event(payload: &[u8]) -> Result<PlanEvent, CodecError> {
    within("plan event", payload.len(), PLAN_EVENT_BYTES_MAX)?;
    PlanEvent::get(record::message::<pb::PlanEvent>(payload)?)
}

/// An event as the ledger keeps it: without its nodes, which whoever publishes it has records of.
pub(super) fn without_nodes(event: &PlanEvent) -> pb::PlanEvent {
    pb::PlanEvent { nodes: Vec::new(), ..event.put() }
}

/// The trace's own id, the second part of a `traceparent`.
pub(super) fn trace_id(traceparent: Option<&String>) -> String {
    traceparent.and_then(|text| text.split('-').nth(1)).unwrap_or_default().to_owned()
}

message!(NodeChange, NodeChange { node, from, to, why });

message!(NodeView, NodeView {
    id, title, status, assignee, purpose, attempts, findings, priorities as absent,
    created: created_unix_ms,
});

message!(PlanEvent, PlanEvent {
    epic: epic_id, plan: plan_id, version, source, reason,
    trace_id <- |event: &Self| trace_id(event.trace.as_ref()),
    project: workspace_id, changes, full, nodes, folded, counts as kept, definitions, title, output, goal, percent, result,
    trace: traceparent, at: at_unix_ms, priorities as absent,
    priority <- |event: &Self| event.priorities.word().to_owned(),
}, first: |event: &mut pb::PlanEvent| {
    // Those of earlier versions counted nothing and told every node.
    event.full |= event.counts.is_none();
    Ok::<(), CodecError>(())
});

message!(NodeCounts, NodeCounts { todo, queued, in_progress, blocked, done, cancelled });
