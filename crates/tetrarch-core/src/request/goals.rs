//! Operations on a goal that there is (spec 05, Status machines): `goal.pause`, `goal.resume`,
//! `goal.cancel`, `goal.archive`, `goal.prioritise`, `goal.update`.

use crate::goal::{GoalSpec, Risk};
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

/// `goal.update`: other words for what is wanted. What is not given stays as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoalUpdate {
    /// The goal.
    pub epic: EpicId,
    /// What is said anew.
    pub change: GoalChange,
    /// Why, in words; may be empty.
    pub reason: String,
}

/// Fields of a goal's definition that are said anew; none stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GoalChange {
    /// The title.
    pub title: Option<String>,
    /// What is to be solved.
    pub problem_statement: Option<String>,
    /// How one can tell that it is reached.
    pub success_criteria: Option<Vec<String>>,
    /// What it is not about.
    pub non_goals: Option<Vec<String>>,
    /// What must hold on the way.
    pub constraints: Option<Vec<String>>,
    /// What is taken to be so.
    pub assumptions: Option<Vec<String>>,
    /// What may go wrong.
    pub risks: Option<Vec<Risk>>,
    /// Who else is concerned.
    pub stakeholders: Option<Vec<String>>,
    /// The state of the repository.
    pub repo_context: Option<String>,
    /// For people.
    pub tags: Option<Vec<String>>,
    /// Where it came from and where answers go.
    pub origin: Option<Vec<(String, String)>>,
}

impl GoalChange {
    /// The definition as it is with the change.
    #[must_use]
    pub fn onto(&self, spec: &GoalSpec) -> GoalSpec {
        fn either<T: Clone>(new: &Option<T>, old: &T) -> T {
            new.as_ref().unwrap_or(old).clone()
        }
        GoalSpec {
            title: either(&self.title, &spec.title),
            problem_statement: either(&self.problem_statement, &spec.problem_statement),
            success_criteria: either(&self.success_criteria, &spec.success_criteria),
            non_goals: either(&self.non_goals, &spec.non_goals),
            constraints: either(&self.constraints, &spec.constraints),
            assumptions: either(&self.assumptions, &spec.assumptions),
            risks: either(&self.risks, &spec.risks),
            stakeholders: either(&self.stakeholders, &spec.stakeholders),
            repo_context: either(&self.repo_context, &spec.repo_context),
            tags: either(&self.tags, &spec.tags),
            origin: either(&self.origin, &spec.origin),
        }
    }
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
