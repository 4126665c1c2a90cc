//! Records of goals.

use tetrarch_core::goal::{Goal, GoalResult, GoalState, GoalStatus};

use super::wire::{absent, message, words};

words!(GoalStatus);

message!(
    Goal,
    Goal {
        id,
        project,
        title,
        problem_statement,
        success_criteria,
        non_goals,
        constraints,
        tags,
        owner,
        created: created_unix_ms,
    }
);

message!(GoalState, GoalState {
    id, status, percent, result, since: since_unix_ms, priorities as absent,
});

message!(GoalResult, GoalResult { summary, deliverable, artifacts });
