//! Plan files: reading one from a document tree and saying everything that is wrong with it
//! (spec 05). The text format (YAML, TOML, JSON) is the caller's business.

use crate::agent::{Mode, Profile};
use crate::id::{NodeId, ProjectName};
use crate::plan::Node;

/// A plan as its author wrote it, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanFile {
    /// The goal in one line.
    pub title: String,
    /// What is to be solved.
    pub problem_statement: String,
    /// How one can tell that it is reached.
    pub success_criteria: Vec<String>,
    /// What it is not about.
    pub non_goals: Vec<String>,
    /// What must hold on the way.
    pub constraints: Vec<String>,
    /// For people.
    pub tags: Vec<String>,
    /// The project, when the file names one.
    pub project: Option<ProjectName>,
    /// The project's mode, when the file names one.
    pub mode: Option<Mode>,
    /// Profiles that come with the plan.
    pub profiles: Vec<Profile>,
    /// Every node, in the plan's order: a phase, its tasks, each with its subtasks.
    pub nodes: Vec<Node>,
    /// The node whose deliverable is the plan's.
    pub output: Option<NodeId>,
}
