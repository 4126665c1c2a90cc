//! Operations on a goal that there is (spec 05, Status machines): `goal.pause`, `goal.resume`,
//! `goal.cancel`, `goal.archive`, `goal.prioritise`.

use crate::id::EpicId;
use crate::priority::Priority;

/// An operation on a goal, with the goal and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoalOp {
    /// The goal.
    pub epic: EpicId,
    /// What is to become of it.
    pub verb: GoalVerb,
    /// Why, in words; may be empty.
    pub reason: String,
}

/// What is to become of a goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GoalVerb {
    /// Nothing new is dispatched; running work goes on.
    Pause,
    /// It is worked on again.
    Resume,
    /// It is given up: what runs is stopped.
    Cancel,
    /// It is put away.
    Archive,
    /// It is this urgent, as its asker sees it; none takes back what was said.
    Prioritise(Option<Priority>),
}

impl GoalOp {
    /// The names in subjects.
    pub const NAMES: [&str; 5] =
        ["goal.pause", "goal.resume", "goal.cancel", "goal.archive", "goal.prioritise"];

    /// The name in the subject.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self.verb {
            GoalVerb::Pause => "goal.pause",
            GoalVerb::Resume => "goal.resume",
            GoalVerb::Cancel => "goal.cancel",
            GoalVerb::Archive => "goal.archive",
            GoalVerb::Prioritise(_) => "goal.prioritise",
        }
    }
}
