//! Roles: what an agent is for, and who may be the parent of whom (spec 03).
//! One table; nothing here looks at a fleet.

use crate::id::AgentId;
use crate::words::words;

words! {
    /// The seven kinds of agents.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Role {
        /// `GO`, the global orchestrator and overseer.
        Global = "global",
        /// `HO@host`, one per host.
        Host = "host",
        /// `PO-project`, one per project.
        Project = "project",
        /// `IO@human`, one per human.
        Interaction = "interaction",
        /// `S:domain:ulid`.
        Specialist = "specialist",
        /// `R:domain:ulid`, returns a verdict and ends.
        Reviewer = "reviewer",
        /// `W:ulid`.
        Worker = "worker",
    }
}

impl Role {
    /// The role an identity stands for.
    #[must_use]
    pub fn of(id: &AgentId) -> Self {
        match id {
            AgentId::Go => Self::Global,
            AgentId::Ho(_) => Self::Host,
            AgentId::Po(_) => Self::Project,
            AgentId::Io(_) => Self::Interaction,
            AgentId::Specialist(..) => Self::Specialist,
            AgentId::Reviewer(..) => Self::Reviewer,
            AgentId::Worker(_) => Self::Worker,
        }
    }

    /// Reads the word, or the identity's prefix (`GO`, `HO`, `PO`, `IO`, `S`, `R`, `W`).
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let role = match text {
            "global" | "GO" => Self::Global,
            "host" | "HO" => Self::Host,
            "project" | "PO" => Self::Project,
            "interaction" | "IO" => Self::Interaction,
            "specialist" | "S" => Self::Specialist,
            "reviewer" | "R" => Self::Reviewer,
            "worker" | "W" => Self::Worker,
            _ => return None,
        };
        Some(role)
    }

    /// Whether agents of this role take one of the three slots of their parent. Structural
    /// children of GO are unique by binding instead (spec 03, Limits per parent).
    #[must_use]
    pub fn takes_slot(self) -> bool {
        match self {
            Self::Specialist | Self::Reviewer | Self::Worker => true,
            Self::Global | Self::Host | Self::Project | Self::Interaction => false,
        }
    }

    /// Whether agents of this role draw what they spend themselves ahead, since they may have
    /// children who are given of the same grant (spec 06, Budgets). The others' is drawn at launch.
    #[must_use]
    pub fn draws(self) -> bool {
        match self {
            Self::Project | Self::Specialist => true,
            Self::Global | Self::Host | Self::Interaction | Self::Reviewer | Self::Worker => false,
        }
    }

    /// Whether the identity carries a domain.
    #[must_use]
    pub fn has_domain(self) -> bool {
        match self {
            Self::Specialist | Self::Reviewer => true,
            Self::Global | Self::Host | Self::Project | Self::Interaction | Self::Worker => false,
        }
    }
}

/// Whether a role may have children of another, and on what condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parenthood {
    /// It may.
    Allowed,
    /// Only when the request is made by the parent's project orchestrator or GO on its behalf.
    Sponsored,
    /// Never.
    Never,
}

/// Who may be the parent of whom (spec 03).
#[must_use]
pub fn parenthood(parent: Role, child: Role) -> Parenthood {
    match (parent, child) {
        (Role::Global, Role::Host | Role::Project | Role::Interaction)
        | (Role::Project, Role::Specialist | Role::Reviewer | Role::Worker) => Parenthood::Allowed,
        (Role::Specialist, Role::Worker) => Parenthood::Sponsored,
        (
            Role::Global
            | Role::Host
            | Role::Project
            | Role::Interaction
            | Role::Specialist
            | Role::Reviewer
            | Role::Worker,
            Role::Global
            | Role::Host
            | Role::Project
            | Role::Interaction
            | Role::Specialist
            | Role::Reviewer
            | Role::Worker,
        ) => Parenthood::Never,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn role_parents_follow_the_table() {
        use Role::{Global, Host, Interaction, Project, Reviewer, Specialist, Worker};
        let allowed = [
            (Global, Host),
            (Global, Project),
            (Global, Interaction),
            (Project, Specialist),
            (Project, Reviewer),
            (Project, Worker),
        ];
        for parent in Role::ALL {
            for child in Role::ALL {
                let expected = if allowed.contains(&(parent, child)) {
                    Parenthood::Allowed
                } else if (parent, child) == (Specialist, Worker) {
                    Parenthood::Sponsored
                } else {
                    Parenthood::Never
                };
                assert_eq!(parenthood(parent, child), expected, "{parent} -> {child}");
            }
        }
    }

    #[test]
    fn role_words_round_trip() {
        for role in Role::ALL {
            assert_eq!(Role::parse(role.as_str()), Some(role));
        }
        assert_eq!(Role::parse("coder"), None);
    }
}
