//! Records of assignments.

use tetrarch_core::assignment::{Assignment, AssignmentStatus, Purpose, Recovery};
use tetrarch_core::overseer::Rung;
use tetrarch_core::overseer::policy::RecoveryPolicy;
use tetrarch_core::time::{BusTime, Millis};

use super::error::CodecError;
use super::read;
use crate::proto::v1 as pb;

pub(super) const PURPOSES: [Purpose; 2] = [Purpose::Execute, Purpose::Review];

pub(super) fn purpose_word(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Execute => "execute",
        Purpose::Review => "review",
    }
}

impl From<&Assignment> for pb::Assignment {
    fn from(assignment: &Assignment) -> Self {
        Self {
            id: assignment.id.to_string(),
            epic: assignment.epic.to_string(),
            node: assignment.node.to_string(),
            purpose: purpose_word(assignment.purpose).to_owned(),
            agent: assignment.agent.to_string(),
            run: assignment.run.to_string(),
            status: assignment.status.as_str().to_owned(),
            reason: assignment.reason.clone(),
            attempt: assignment.attempt,
            follows: read::show(assignment.follows.as_ref()),
            created_unix_ms: assignment.created.0,
            updated_unix_ms: assignment.updated.0,
            recovery: Some((&assignment.recovery).into()),
            recovery_policy: policy_written(assignment.policy),
            refused_unix_ms: assignment.refused.iter().map(|at| at.0).collect(),
        }
    }
}

/// A recovery policy, absent when it says nothing.
pub(super) fn policy_written(policy: RecoveryPolicy) -> Option<pb::RecoveryPolicy> {
    (!policy.is_default()).then(|| pb::RecoveryPolicy {
        from: policy.from.map(|rung| rung.as_policy().to_owned()).unwrap_or_default(),
        max_retries: policy.max_retries,
        idle_after_ms: policy.idle_after.map(|time| time.0),
        min_resend_interval_ms: policy.min_resend_interval.map(|time| time.0),
        reassign: policy.reassign,
    })
}

impl TryFrom<pb::RecoveryPolicy> for RecoveryPolicy {
    type Error = CodecError;
    fn try_from(policy: pb::RecoveryPolicy) -> Result<Self, CodecError> {
        let from = read::some(policy.from);
        let from = from.map(|text| read::word("from", &text, &Rung::ALL, Rung::as_policy));
        Ok(Self {
            from: from.transpose()?,
            max_retries: policy.max_retries,
            idle_after: policy.idle_after_ms.map(Millis),
            min_resend_interval: policy.min_resend_interval_ms.map(Millis),
            reassign: policy.reassign,
        })
    }
}

impl From<&Recovery> for pb::Recovery {
    fn from(recovery: &Recovery) -> Self {
        Self {
            dispatch: read::show(recovery.dispatch.as_ref()),
            dispatched_unix_ms: recovery.dispatched.0,
            consumed: recovery.consumed,
            last_activity_unix_ms: recovery.last_activity.0,
            expected_next_update_unix_ms: recovery.expected_next_update.map(|at| at.0),
            retries: recovery.retries,
            last_retry_unix_ms: recovery.last_retry.map(|at| at.0),
            backoff_until_unix_ms: recovery.backoff_until.0,
        }
    }
}

impl TryFrom<pb::Recovery> for Recovery {
    type Error = CodecError;
    fn try_from(recovery: pb::Recovery) -> Result<Self, CodecError> {
        Ok(Self {
            dispatch: read::optional("dispatch", &recovery.dispatch)?,
            dispatched: BusTime(recovery.dispatched_unix_ms),
            consumed: recovery.consumed,
            last_activity: BusTime(recovery.last_activity_unix_ms),
            expected_next_update: recovery.expected_next_update_unix_ms.map(BusTime),
            retries: recovery.retries,
            last_retry: recovery.last_retry_unix_ms.map(BusTime),
            backoff_until: BusTime(recovery.backoff_until_unix_ms),
        })
    }
}

impl TryFrom<pb::Assignment> for Assignment {
    type Error = CodecError;
    fn try_from(assignment: pb::Assignment) -> Result<Self, CodecError> {
        let status = &assignment.status;
        let status =
            read::word("status", status, &AssignmentStatus::ALL, AssignmentStatus::as_str)?;
        Ok(Self {
            id: read::text("id", &assignment.id)?,
            epic: read::text("epic", &assignment.epic)?,
            node: read::text("node", &assignment.node)?,
            purpose: read::word("purpose", &assignment.purpose, &PURPOSES, purpose_word)?,
            agent: read::text("agent", &assignment.agent)?,
            run: read::text("run", &assignment.run)?,
            status,
            reason: assignment.reason,
            attempt: assignment.attempt,
            follows: read::optional("follows", &assignment.follows)?,
            created: BusTime(assignment.created_unix_ms),
            updated: BusTime(assignment.updated_unix_ms),
            recovery: read::message("recovery", assignment.recovery)?,
            policy: read::maybe("recoveryPolicy", assignment.recovery_policy)?.unwrap_or_default(),
            refused: assignment.refused_unix_ms.into_iter().map(BusTime).collect(),
        })
    }
}
