//! A handoff of a node, or of a goal.

use tetrarch_core::brief::Evidence;
use tetrarch_core::crystallization::{Crystallization, Handoff, References, Source};
use tetrarch_core::time::BusTime;

use super::{id, words};

pub(super) fn sample(full: bool) -> Crystallization {
    let said = Handoff {
        summary: "s".to_owned(),
        current_state: "done".to_owned(),
        decisions: words("d"),
        next_actions: words("n m"),
        open_questions: words("q"),
        known_blockers: words("b"),
        evidence: Evidence { files: words("f"), ..Evidence::default() },
        references: References { prs: words("p"), issues: words("i"), external: words("x") },
    };
    Crystallization {
        id: id("cry_~"),
        epic: id("goal_~"),
        node: full.then(|| id("S1.2.3")),
        source: if full { Source::Result } else { Source::RollUp },
        at: BusTime(4),
        handoff: if full { said } else { Handoff::default() },
        agent: full.then(|| id("W:~")),
        session: full.then(|| id("~")),
        run: full.then(|| id("run_~")),
    }
}
