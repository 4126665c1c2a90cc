//! Handoffs: their records.

use tetrarch_core::crystallization::{Crystallization, Handoff, References, Source};

use super::wire::{absent, message, words};

words!(Source);

message!(Crystallization, Crystallization {
    id, epic: epic_id, node, source, at: at_unix_ms,
    handoff: Handoff {
        summary: summary, current_state: current_state, decisions: decisions,
        next_actions: next_actions, open_questions: open_questions, known_blockers: known_blockers,
        evidence: evidence as absent;
        references: References { prs: prs, issues: issues, external: external_refs }
    },
    agent, session, run,
});
