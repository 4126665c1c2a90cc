//! Records of runs.

use tetrarch_core::run::{Run, RunEvent, RunState, RunStatus};

use super::wire::{kept, message, words};

words!(RunEvent, RunState);

message! { Run, Run {
    id, agent, session, epoch, epic, node, assignment, brief, continues, placement,
    created: created_unix_ms,
} }

message!(RunStatus, RunStatus {
    id, agent, state, cancel_kept, dropped, since: since_unix_ms, reminded: reminded_unix_ms, usage as kept,
    result, archive,
});
