//! Whom the overseer supervises (spec 05, The tick): the agents that this
//! installation runs. Programs of somebody else's, and what works below them, have a supervisor of
//! their own; it says nothing to them unless people allow it (docs/decisions/0031).

use std::collections::BTreeSet;

use crate::id::AgentId;

/// What people allow (spec 12, `overseer.allow_cross_agent`, `overseer.allow_agents`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reach {
    /// Whether others' agents may be supervised at all.
    pub cross_agent: bool,
    /// All of them, when there is no list.
    pub all: bool,
    /// Who, with everybody below.
    pub agents: BTreeSet<AgentId>,
}

impl Reach {
    /// Whether an agent that works for somebody else's program is supervised. `line`: the agent and
    /// who stands above it.
    #[must_use]
    pub fn covers(&self, line: &[AgentId]) -> bool {
        self.cross_agent && (self.all || line.iter().any(|id| self.agents.contains(id)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recovery_needs_consent_of_both_sides() {
        let id = |text: &str| text.parse::<AgentId>().unwrap();
        let worker = "W:01JD8Z5W6T4QK3M9X2V7B1N0AC";
        let line = [id(worker), id("PO-other"), id("GO")];
        let named = |names: &[&str]| names.iter().map(|name| id(name)).collect::<BTreeSet<_>>();
        let nobody = Reach::default();
        for (reach, covers) in [
            (nobody.clone(), false),
            (Reach { all: true, ..nobody.clone() }, false),
            (Reach { agents: named(&["PO-other"]), ..nobody.clone() }, false),
            (Reach { cross_agent: true, ..nobody.clone() }, false),
            (Reach { cross_agent: true, agents: named(&["PO-a"]), ..nobody.clone() }, false),
            (Reach { cross_agent: true, agents: named(&["PO-other"]), ..nobody.clone() }, true),
            (Reach { cross_agent: true, agents: named(&[worker]), ..nobody.clone() }, true),
            (Reach { cross_agent: true, all: true, ..nobody }, true),
        ] {
            assert_eq!(reach.covers(&line), covers, "{reach:?}");
        }
    }
}
