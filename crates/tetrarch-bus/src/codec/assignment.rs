//! Records of assignments.

use tetrarch_core::assignment::{Assignment, AssignmentStatus, Purpose, Recovery};
use tetrarch_core::overseer::Rung;
use tetrarch_core::overseer::policy::RecoveryPolicy;

use super::wire::{absent, message, words};

words!(AssignmentStatus, Purpose, Rung);

message!(
    Assignment,
    Assignment {
        id,
        epic,
        node,
        purpose,
        agent,
        run,
        status,
        reason,
        attempt,
        follows,
        created: created_unix_ms,
        updated: updated_unix_ms,
        recovery,
        policy: recovery_policy as absent,
        refused: refused_unix_ms,
        launch,
    }
);

message!(
    Recovery,
    Recovery {
        dispatch,
        dispatched: dispatched_unix_ms,
        consumed,
        last_activity: last_activity_unix_ms,
        expected_next_update: expected_next_update_unix_ms,
        retries,
        last_retry: last_retry_unix_ms,
        backoff_until: backoff_until_unix_ms,
    }
);

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
