//! Records of questions to the planner.

use tetrarch_core::planner::{Planning, PlanningStatus, Purpose};

use super::wire::{kept, message, words};

words!(PlanningStatus, Purpose);

message!(Planning, Planning {
    id, at: at_unix_ms, purpose, epic, goal, assignment, node, base_version, model, template,
    template_hash, inputs, status, attempts, answer, problems, reason, since: since_unix_ms, calls,
    set_aside as kept, used as kept, trace: traceparent,
});
