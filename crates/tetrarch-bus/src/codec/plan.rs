//! Records of plans and their nodes. The public plan event is in `plan_event`.

use tetrarch_core::id::NodeId;
use tetrarch_core::plan::folding::EndedChildren;
use tetrarch_core::plan::{
    Blocker, Node, NodeResult, NodeState, NodeStatus, PlacementWish, Plan, PlanReason, PlanSource,
    Review, RiskLevel,
};
use tetrarch_core::role::Role;

use super::brief::schema;
use super::error::CodecError;
use super::wire::{Wire, absent, field, maybe, message, word, words};
use crate::proto::v1 as pb;

words!(NodeStatus, PlanReason, PlanSource, RiskLevel);

/// A role, by its word or by the prefix of identities.
impl Wire<String> for Role {
    fn put(&self) -> String {
        self.as_str().to_owned()
    }

    fn get(held: String) -> Result<Self, CodecError> {
        Self::parse(&held).map_or_else(|| word(&held, &Self::ALL, Self::as_str), Ok)
    }
}

maybe!(Role);

message! { Plan, Plan {
    epic: epic_id, id: plan_id, project, version, source, reason, output, trace: traceparent,
    created: created_unix_ms, updated: updated_unix_ms, folded,
} }

/// Ended children of one phase.
impl Wire<pb::EndedChildren> for (NodeId, EndedChildren) {
    fn put(&self) -> pb::EndedChildren {
        let (phase, EndedChildren { done, failed, cancelled, highest }) = *self;
        pb::EndedChildren { phase: phase.put(), done, failed, cancelled, highest }
    }

    fn get(held: pb::EndedChildren) -> Result<Self, CodecError> {
        let pb::EndedChildren { phase, done, failed, cancelled, highest } = held;
        Ok((field("phase", phase)?, EndedChildren { done, failed, cancelled, highest }))
    }
}

message!(PlacementWish, PlacementWish { host, labels });
message!(Review, Review { domain, profile });
message!(Blocker, Blocker { kind, detail, needs });

message!(Node, Node {
    id, name, objective, acceptance, expected_outcome, definition_of_done, estimated_effort, risk_level, depends_on, role, domain, profile, tools,
    key_facts, output_schema as schema, scope_paths, (budget, wall): budget, max_attempts, review,
    placement as absent, recovery: recovery_policy as absent, added, defined, spawned,
});

message!(NodeResult, NodeResult {
    run, deliverable, artifacts, evidence as absent, crystallization,
});

message!(NodeState, NodeState {
    id, status, assignee, assignment, latest, purpose, attempts, findings, blocker, result,
    since: since_unix_ms, failures: failures_unix_ms, begun, settled, priorities as absent,
    created: created_unix_ms, started: started_unix_ms,
    ended_unix_ms <- |state: &Self| state.ended().put(),
    updated_unix_ms <- |state: &Self| state.since.put(),
}, first: |state: &mut pb::NodeState| {
    // An earlier version did not write down when a node came into being.
    if state.created_unix_ms == 0 {
        state.created_unix_ms = state.since_unix_ms;
    }
    Ok::<(), CodecError>(())
});
