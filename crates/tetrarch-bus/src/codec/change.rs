//! Changes before the branches they are for: their records, what runs and hosts report of them, the
//! order to merge one, and the operations on them.

use serde_json::Value;
use tetrarch_core::change::{
    Action, ApplyOrder, ApplyOutcome, Approval, Change, ChangeStatus, Made,
};
use tetrarch_core::id::ChangeId;
use tetrarch_core::request::{GateOp, GateVerdict};

use super::error::CodecError;
use super::json;
use super::wire::{field, message, words};
use crate::proto::v1 as pb;

words!(ChangeStatus);

message!(Action, ApplyAction { repository, target, base, head, diff, files });
message!(Made, ChangeMade { action, branch, additions, deletions, size, salvaged });
message! { Approval, Approval {
    by, digest, at: at_unix_ms, until: until_unix_ms, used: used_unix_ms,
} }

message!(Change, Change {
    id, agent, epoch, run, assignment, epic, node, project, host, scope, made, to, status, reason,
    conflicts, approval, commit, proposed: proposed_unix_ms, until: until_unix_ms,
    since: since_unix_ms, digest <- |change: &Self| change.made.action.digest(), needed, earlier,
}, first: |change: &mut pb::Change| {
    // An earlier version asked one person and did not write it down.
    change.needed = change.needed.max(1);
    Ok::<(), CodecError>(())
});

message! { ApplyOrder, ApplyOrder {
    change, run, digest, action, branch, message, at: at_unix_ms, host_epoch,
} }

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
    Ok((field("settled.change", change)?, outcome))
}

/// The word of a verdict, and the digest that was approved.
pub(super) fn written(verdict: &GateVerdict) -> (String, String) {
    match verdict {
        GateVerdict::Approve { digest } => ("approve".to_owned(), digest.clone()),
        GateVerdict::Deny => ("deny".to_owned(), String::new()),
    }
}

/// Reads the body of `approval.decide`.
pub(super) fn decide(body: Value) -> Result<GateOp, CodecError> {
    let told: pb::ApprovalDecide = json::request(body)?;
    let verdict = match told.verdict.as_str() {
        "approve" => GateVerdict::Approve { digest: told.digest },
        "deny" => GateVerdict::Deny,
        other => {
            let reason = format!("unknown word {other:?}; allowed: approve, deny");
            return Err(CodecError::field("verdict", reason));
        }
    };
    Ok(GateOp::Decide { change: field("change", told.change)?, verdict, reason: told.reason })
}
