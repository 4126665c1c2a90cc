//! Records of goals.

use tetrarch_core::goal::{Goal, GoalResult, GoalSpec, GoalState, GoalStatus, Risk};

use super::error::CodecError;
use super::wire::{absent, message, words};
use crate::proto::v1 as pb;

words!(GoalStatus);

message!(
    Goal,
    Goal {
        id,
        project,
        spec: GoalSpec {
            title: title,
            problem_statement: problem_statement,
            success_criteria: success_criteria,
            non_goals: non_goals,
            constraints: constraints,
            assumptions: assumptions,
            risks: risks,
            stakeholders: stakeholders,
            repo_context: repo_context_snapshot,
            tags: tags,
            origin: origin,
        },
        owner,
        created: created_unix_ms,
        updated: updated_unix_ms,
    },
    first: |goal: &mut pb::Goal| {
        // An earlier version did not write down when a definition changed: it did not change.
        if goal.updated_unix_ms == 0 {
            goal.updated_unix_ms = goal.created_unix_ms;
        }
        Ok::<(), CodecError>(())
    }
);

message!(Risk, Risk { risk, impact, mitigation });

message!(GoalState, GoalState {
    id, status, percent, result, since: since_unix_ms, priorities as absent,
});

message!(GoalResult, GoalResult { summary, deliverable, artifacts });
