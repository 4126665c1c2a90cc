//! Changes before the branches they are for: their records, what runs and hosts report of them, the
//! order to merge one, and the operations on them.

use serde_json::Value;
use tetrarch_core::change::{
    Action, ApplyOrder, ApplyOutcome, Approval, Change, ChangeStatus, Made,
};
use tetrarch_core::id::{ChangeId, RequestId};
use tetrarch_core::request::{GateOp, GateVerdict};
use tetrarch_core::time::BusTime;

use super::error::CodecError;
use super::json::{self, Unknown};
use super::{op, read};
use crate::proto::v1 as pb;

impl From<&Action> for pb::ApplyAction {
    fn from(action: &Action) -> Self {
        let Action { repository, target, base, head, diff, files } = action.clone();
        Self { repository, target, base, head, diff, files }
    }
}

impl TryFrom<pb::ApplyAction> for Action {
    type Error = CodecError;
    fn try_from(action: pb::ApplyAction) -> Result<Self, CodecError> {
        let pb::ApplyAction { repository, target, base, head, diff, files } = action;
        Ok(Self { repository, target, base, head, diff, files })
    }
}

impl From<&Made> for pb::ChangeMade {
    fn from(made: &Made) -> Self {
        Self {
            action: Some((&made.action).into()),
            branch: made.branch.clone(),
            additions: made.additions,
            deletions: made.deletions,
            size: made.size,
            salvaged: made.salvaged,
        }
    }
}

impl TryFrom<pb::ChangeMade> for Made {
    type Error = CodecError;
    fn try_from(made: pb::ChangeMade) -> Result<Self, CodecError> {
        Ok(Self {
            action: read::message("action", made.action)?,
            branch: made.branch,
            additions: made.additions,
            deletions: made.deletions,
            size: made.size,
            salvaged: made.salvaged,
        })
    }
}

impl From<&Approval> for pb::Approval {
    fn from(approval: &Approval) -> Self {
        Self {
            by: approval.by.to_string(),
            digest: approval.digest.clone(),
            at_unix_ms: approval.at.0,
            until_unix_ms: approval.until.0,
            used_unix_ms: approval.used.map(|at| at.0),
        }
    }
}

impl TryFrom<pb::Approval> for Approval {
    type Error = CodecError;
    fn try_from(approval: pb::Approval) -> Result<Self, CodecError> {
        Ok(Self {
            by: read::text("by", &approval.by)?,
            digest: approval.digest,
            at: BusTime(approval.at_unix_ms),
            until: BusTime(approval.until_unix_ms),
            used: approval.used_unix_ms.map(BusTime),
        })
    }
}

impl From<&Change> for pb::Change {
    fn from(change: &Change) -> Self {
        Self {
            id: change.id.to_string(),
            agent: change.agent.to_string(),
            epoch: change.epoch,
            run: change.run.to_string(),
            assignment: change.assignment.to_string(),
            epic: change.epic.to_string(),
            node: change.node.to_string(),
            project: read::show(change.project.as_ref()),
            host: change.host.to_string(),
            scope: change.scope.clone(),
            made: Some((&change.made).into()),
            to: change.to.to_string(),
            status: change.status.as_str().to_owned(),
            reason: change.reason.clone(),
            conflicts: change.conflicts.clone(),
            approval: change.approval.as_ref().map(Into::into),
            commit: change.commit.clone(),
            proposed_unix_ms: change.proposed.0,
            until_unix_ms: change.until.0,
            since_unix_ms: change.since.0,
            digest: change.made.action.digest(),
            needed: change.needed,
            earlier: change.earlier.iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<pb::Change> for Change {
    type Error = CodecError;
    fn try_from(change: pb::Change) -> Result<Self, CodecError> {
        let status = &change.status;
        Ok(Self {
            id: read::text("id", &change.id)?,
            agent: read::text("agent", &change.agent)?,
            epoch: change.epoch,
            run: read::text("run", &change.run)?,
            assignment: read::text("assignment", &change.assignment)?,
            epic: read::text("epic", &change.epic)?,
            node: read::text("node", &change.node)?,
            project: read::optional("project", &change.project)?,
            host: read::text("host", &change.host)?,
            scope: change.scope,
            made: read::message("made", change.made)?,
            to: read::text("to", &change.to)?,
            status: read::word("status", status, &ChangeStatus::ALL, ChangeStatus::as_str)?,
            reason: change.reason,
            conflicts: change.conflicts,
            needed: change.needed.max(1),
            earlier: read::each("earlier", change.earlier)?,
            approval: read::maybe("approval", change.approval)?,
            commit: change.commit,
            proposed: BusTime(change.proposed_unix_ms),
            until: BusTime(change.until_unix_ms),
            since: BusTime(change.since_unix_ms),
        })
    }
}

impl From<&ApplyOrder> for pb::ApplyOrder {
    fn from(order: &ApplyOrder) -> Self {
        Self {
            change: order.change.to_string(),
            run: order.run.to_string(),
            digest: order.digest.clone(),
            action: Some((&order.action).into()),
            branch: order.branch.clone(),
            message: order.message.clone(),
            at_unix_ms: order.at.0,
            host_epoch: order.host_epoch,
        }
    }
}

impl TryFrom<pb::ApplyOrder> for ApplyOrder {
    type Error = CodecError;
    fn try_from(order: pb::ApplyOrder) -> Result<Self, CodecError> {
        Ok(Self {
            change: read::text("change", &order.change)?,
            run: read::text("run", &order.run)?,
            digest: order.digest,
            action: read::message("action", order.action)?,
            branch: order.branch,
            message: order.message,
            at: BusTime(order.at_unix_ms),
            host_epoch: order.host_epoch,
        })
    }
}

/// What a host reports of an order.
pub(super) fn outcome(change: ChangeId, outcome: &ApplyOutcome) -> pb::ApplyOutcome {
    let (commit, files, reason) = match outcome.clone() {
        ApplyOutcome::Applied { commit } => (commit, Vec::new(), String::new()),
        ApplyOutcome::Conflicted { files, reason } => (String::new(), files, reason),
        ApplyOutcome::Refused { reason } => (String::new(), Vec::new(), reason),
    };
    let (change, word) = (change.to_string(), outcome.as_str().to_owned());
    pb::ApplyOutcome { change, outcome: word, commit, files, reason }
}

/// Reads what a host reports of an order.
pub(super) fn read_outcome(told: pb::ApplyOutcome) -> Result<(ChangeId, ApplyOutcome), CodecError> {
    let pb::ApplyOutcome { change, outcome, commit, files, reason } = told;
    let outcome = match outcome.as_str() {
        "applied" => ApplyOutcome::Applied { commit },
        "conflicted" => ApplyOutcome::Conflicted { files, reason },
        "refused" => ApplyOutcome::Refused { reason },
        other => {
            let reason = format!("unknown word {other:?}; allowed: applied, conflicted, refused");
            return Err(CodecError::field("settled.outcome", reason));
        }
    };
    Ok((read::text("settled.change", &change)?, outcome))
}

/// The body of an operation on changes.
pub(super) fn encode(op: &GateOp, id: RequestId) -> Result<Vec<u8>, CodecError> {
    let (request_id, sender) = (id.to_string(), String::new());
    match op {
        GateOp::Decide { change, verdict, reason } => {
            let (verdict, digest) = match verdict {
                GateVerdict::Approve { digest } => ("approve", digest.clone()),
                GateVerdict::Deny => ("deny", String::new()),
            };
            let (change, verdict) = (change.to_string(), verdict.to_owned());
            let reason = reason.clone();
            let body = pb::ApprovalDecide { request_id, sender, change, verdict, digest, reason };
            op::finish("ApprovalDecide", &body)
        }
        GateOp::Apply { change } => {
            let change = change.to_string();
            op::finish("ApplyRequest", &pb::ApplyRequest { request_id, sender, change })
        }
    }
}

/// Reads the body of the operation of this name.
pub(super) fn decode(name: &str, body: Value) -> Result<GateOp, CodecError> {
    match name {
        "approval.decide" => {
            let told: pb::ApprovalDecide = json::message("ApprovalDecide", body, Unknown::Refused)?;
            let verdict = match told.verdict.as_str() {
                "approve" => GateVerdict::Approve { digest: told.digest },
                "deny" => GateVerdict::Deny,
                other => {
                    let reason = format!("unknown word {other:?}; allowed: approve, deny");
                    return Err(CodecError::field("verdict", reason));
                }
            };
            let change = read::text("change", &told.change)?;
            Ok(GateOp::Decide { change, verdict, reason: told.reason })
        }
        "apply.request" => {
            let told: pb::ApplyRequest = json::message("ApplyRequest", body, Unknown::Refused)?;
            Ok(GateOp::Apply { change: read::text("change", &told.change)? })
        }
        other => Err(op::unknown(other)),
    }
}
