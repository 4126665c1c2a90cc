//! Records of assignments.

use tetrarch_core::assignment::{Assignment, AssignmentStatus, Purpose, Recovery};
use tetrarch_core::overseer::Rung;
use tetrarch_core::overseer::policy::RecoveryPolicy;

use super::wire::{absent, message, words};
use crate::proto::v1 as pb;

words!(AssignmentStatus, Purpose, Rung);

message!(Assignment, Assignment {
    id, epic, node, purpose, agent, run, status, reason, attempt, follows, created: created_unix_ms,
    updated: updated_unix_ms, recovery, policy: recovery_policy as absent, refused: refused_unix_ms,
    launch as launch,
}, first: launch::complete);

/// A first launch in its assignment: it does not say again whose it is, nor to whom it went.
mod launch {
    use tetrarch_core::dispatch::Dispatch;

    use super::pb;
    use crate::codec::error::CodecError;
    use crate::codec::wire::{Wire, field};

    /// What it does not say is the assignment's.
    pub(super) fn complete(held: &mut pb::Assignment) -> Result<(), CodecError> {
        if let Some(launch) = &mut held.launch {
            launch.assignment.clone_from(&held.id);
            launch.to.clone_from(&held.agent);
        }
        Ok(())
    }

    pub(super) fn put(launch: &Option<Box<Dispatch>>) -> Option<pb::Dispatch> {
        let mut written: pb::Dispatch = launch.as_deref()?.put();
        (written.assignment, written.to) = (String::new(), String::new());
        Some(written)
    }

    pub(super) fn get(
        name: &str,
        held: Option<pb::Dispatch>,
    ) -> Result<Option<Box<Dispatch>>, CodecError> {
        field(name, held)
    }
}

message! { Recovery, Recovery {
    dispatch, dispatched: dispatched_unix_ms, consumed, last_activity: last_activity_unix_ms,
    expected_next_update: expected_next_update_unix_ms, retries, last_retry: last_retry_unix_ms,
    backoff_until: backoff_until_unix_ms,
} }

message!(RecoveryPolicy, RecoveryPolicy {
    from as rung, max_retries, idle_after: idle_after_ms,
    min_resend_interval: min_resend_interval_ms, reassign,
});

/// A rung as a recovery policy calls it.
mod rung {
    use super::Rung;
    use crate::codec::error::CodecError;
    use crate::codec::wire::word;

    pub(super) fn put(rung: &Option<Rung>) -> String {
        rung.map(|rung| rung.as_policy().to_owned()).unwrap_or_default()
    }

    pub(super) fn get(name: &str, held: String) -> Result<Option<Rung>, CodecError> {
        if held.is_empty() {
            return Ok(None);
        }
        let rung = word(&held, &Rung::ALL, Rung::as_policy);
        rung.map(Some).map_err(|error| error.under(name))
    }
}
