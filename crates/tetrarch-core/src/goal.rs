//! Goals: the wanted outcome and its status machine (spec 05). The plan of a goal is the
//! epic of the same id; it lives in `plan`.

use crate::brief::Artifact;
use crate::id::{EpicId, Principal, ProjectName};
use crate::priority::Priorities;
use crate::time::BusTime;
use crate::words::parsed_words;

parsed_words! {
    /// Where a goal stands.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum GoalStatus {
        /// Worked on.
        Active = "active",
        /// Nothing new is dispatched.
        Paused = "paused",
        /// Reached.
        Completed = "completed",
        /// Given up.
        Cancelled = "cancelled",
        /// Put away.
        Archived = "archived",
    }
}

/// A pair that is not in the table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("illegal_transition: goal {from} -> {to}")]
pub struct IllegalGoal {
    /// The status it has.
    pub from: GoalStatus,
    /// The status that was asked for.
    pub to: GoalStatus,
}

impl GoalStatus {
    /// Whether no more work is done for it.
    #[must_use]
    pub fn is_closed(self) -> bool {
        match self {
            Self::Completed | Self::Cancelled | Self::Archived => true,
            Self::Active | Self::Paused => false,
        }
    }

    /// The next status, when the pair is in the table of spec 05.
    ///
    /// # Errors
    /// The pair, when it is not.
    pub fn to(self, to: Self) -> Result<Self, IllegalGoal> {
        let legal = match (self, to) {
            (Self::Active, Self::Paused | Self::Completed | Self::Cancelled)
            | (Self::Paused, Self::Active | Self::Completed | Self::Cancelled)
            | (Self::Completed | Self::Cancelled, Self::Archived) => true,
            (
                Self::Active | Self::Paused | Self::Completed | Self::Cancelled | Self::Archived,
                Self::Active | Self::Paused | Self::Completed | Self::Cancelled | Self::Archived,
            ) => false,
        };
        if legal { Ok(to) } else { Err(IllegalGoal { from: self, to }) }
    }
}

/// A goal's definition.
#[derive(Debug, Clone, PartialEq)]
pub struct Goal {
    /// Its id, also the epic's.
    pub id: EpicId,
    /// The project that works on it.
    pub project: ProjectName,
    /// What is wanted.
    pub spec: GoalSpec,
    /// Who wants it.
    pub owner: Principal,
    /// When it was given.
    pub created: BusTime,
    /// When its definition changed last.
    pub updated: BusTime,
}

/// What is wanted, as the author of a goal says it (spec 05, Records).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GoalSpec {
    /// In one line.
    pub title: String,
    /// What is to be solved.
    pub problem_statement: String,
    /// How one can tell that it is reached.
    pub success_criteria: Vec<String>,
    /// What it is not about.
    pub non_goals: Vec<String>,
    /// What must hold on the way.
    pub constraints: Vec<String>,
    /// What is taken to be so.
    pub assumptions: Vec<String>,
    /// What may go wrong.
    pub risks: Vec<Risk>,
    /// Who else is concerned, for people.
    pub stakeholders: Vec<String>,
    /// The state of the repository that it is about, in a few lines.
    pub repo_context: String,
    /// For people.
    pub tags: Vec<String>,
    /// Where it came from and where answers go: session, channel, to, thread, account, as far as they are known.
    pub origin: Vec<(String, String)>,
}

/// What may go wrong on the way to a goal.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Risk {
    /// What it is.
    pub risk: String,
    /// What it would mean.
    pub impact: String,
    /// What is done about it.
    pub mitigation: String,
}

/// A goal's state.
#[derive(Debug, Clone, PartialEq)]
pub struct GoalState {
    /// The goal.
    pub id: EpicId,
    /// Where it stands.
    pub status: GoalStatus,
    /// Leaves done of leaves not cancelled, in percent.
    pub percent: u8,
    /// What it came to, put together by its project orchestrator.
    pub result: Option<GoalResult>,
    /// Since when it stands there.
    pub since: BusTime,
    /// What was said of how urgent it is.
    pub priorities: Priorities,
}

/// What a goal came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoalResult {
    /// In words.
    pub summary: String,
    /// The deliverable of the plan's output node.
    pub deliverable: String,
    /// The artifacts of the plan's output node.
    pub artifacts: Vec<Artifact>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_transitions_are_legal() {
        use GoalStatus::{Active, Archived, Cancelled, Completed, Paused};
        let legal = [
            (Active, Paused),
            (Paused, Active),
            (Active, Completed),
            (Active, Cancelled),
            (Paused, Completed),
            (Paused, Cancelled),
            (Completed, Archived),
            (Cancelled, Archived),
        ];
        for from in GoalStatus::ALL {
            for to in GoalStatus::ALL {
                assert_eq!(from.to(to).is_ok(), legal.contains(&(from, to)), "{from} -> {to}");
            }
        }
    }
}
