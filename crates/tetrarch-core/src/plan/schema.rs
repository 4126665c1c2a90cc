//! Plan files: reading one from a document tree and saying everything that is wrong with it
//! (spec 05). The text format (YAML, TOML, JSON) is the caller's business.

mod commands;
mod edges;
pub(super) mod fields;
mod nodes;
mod placeholders;
mod profiles;
mod recovery;
pub(super) mod spelling;
#[cfg(test)]
mod tests;
mod writing;

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use crate::agent::{Mode, Profile};
use crate::brief::Tools;
use crate::budget::Limits;
use crate::id::{NodeId, ProfileName, ProjectName};
use crate::limits::{ATTEMPTS_DEFAULT, COMMIT_BYTES_MAX, RECORD_BYTES_MAX, TEXT_BYTES_MAX};
use crate::overseer::policy::RecoveryPolicy;
use crate::plan::change::NewNode;
use crate::plan::profiles::{Missing, check};
use crate::plan::schema::edges::{PhaseOrder, check_edges, order_phases};
use crate::plan::schema::fields::{Entry, Fields, Problems};
use crate::plan::schema::nodes::{Placed, read_new, read_phases};
use crate::plan::schema::profiles::{read_named, read_profiles};
use crate::plan::{Node, PlacementWish};
use crate::role::Role;

pub use writing::written;

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

/// One thing that is wrong with a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanProblem {
    /// Where: `phases[1].tasks[0].deps[2]`, or `plan` for the whole.
    pub path: String,
    /// What is wrong there.
    pub problem: String,
    /// What would be accepted.
    pub allowed: String,
}

impl fmt::Display for PlanProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; allowed: {}", self.path, self.problem, self.allowed)
    }
}

/// The criterion of work that comes with none (spec 03, a bare task).
pub const RESULT_VALIDATES: &str = "result validates";

/// Bytes of one node, goal or profile as the file has it. The record made of it has some fields
/// besides, for which 8 KiB are left.
const DEFINITION_BYTES_MAX: usize = RECORD_BYTES_MAX - 8 * 1024;
const PLAN_KEYS: &[&str] = &[
    "planVersion",
    "title",
    "goal",
    "project",
    "mode",
    "output",
    "profiles",
    "phaseOrder",
    "phases",
];
const UNPLANNED_KEYS: &[&str] = &["planVersion", "title", "goal", "project", "mode", "profiles"];
const GOAL_KEYS: &[&str] =
    &["title", "problemStatement", "successCriteria", "nonGoals", "constraints", "tags"];

/// Reads a plan from a document tree; keys may be camelCase or snake_case (spec 05, Records
/// and The planner).
///
/// # Errors
/// Every problem of the document: structure, bounds, unknown and duplicate ids, dependencies
/// outside the epic, cycles by name.
pub fn parse(value: &Value) -> Result<PlanFile, Vec<PlanProblem>> {
    let problems = Problems::default();
    let read =
        Entry::root(value, &problems).map(PLAN_KEYS).map(|top| read_plan(value, &top, &problems));
    let size = value.to_string().len();
    if size > COMMIT_BYTES_MAX {
        let text = format!("has {size} bytes; the limit is {COMMIT_BYTES_MAX} bytes");
        problems.add("plan", text, "shorter texts; long ones are artifacts");
    }
    match (read, problems.into_found()) {
        (Some(plan), found) if found.is_empty() => Ok(plan),
        (_, found) => Err(found),
    }
}

/// Reads a goal that comes without a plan: a plan file without `phases` (spec 05, The planner). Its plan
/// is somebody else's to make, so it has no nodes.
///
/// # Errors
/// Every problem of the document, as of a plan's.
pub fn parse_goal(value: &Value) -> Result<PlanFile, Vec<PlanProblem>> {
    let problems = Problems::default();
    let keys = Entry::root(value, &problems).map(UNPLANNED_KEYS);
    let read = keys.map(|top| read_around(&top, Vec::new()));
    match (read, problems.into_found()) {
        (Some(plan), found) if found.is_empty() => Ok(plan),
        (_, found) => Err(found),
    }
}

/// Reads what `goal.create` and `tetrarch run` take: a plan, or a goal without one.
///
/// # Errors
/// Every problem of the document.
pub fn parse_either(value: &Value) -> Result<PlanFile, Vec<PlanProblem>> {
    let planned = value.get("phases").is_some() || value.get("goal").is_none();
    if planned { parse(value) } else { parse_goal(value) }
}

/// Reads one profile from a document of its own: what a plan file says of a profile, with its
/// `name` beside (spec 12, Profiles).
///
/// # Errors
/// Every problem of the document, as of a plan's.
pub fn parse_profile(value: &Value) -> Result<Profile, Vec<PlanProblem>> {
    let problems = Problems::default();
    let read = read_named(&Entry::root(value, &problems));
    match (read, problems.into_found()) {
        (Some(profile), found) if found.is_empty() => Ok(profile),
        (_, mut found) => {
            let of_all = |problem: &&mut PlanProblem| matches!(&*problem.path, "plan" | "");
            for problem in found.iter_mut().filter(of_all) {
                "profile".clone_into(&mut problem.path);
            }
            Err(found)
        }
    }
}

/// Reads nodes that are to be added below a node of a plan: one as a mapping, or a list of them, each
/// as a plan file has a subtask; an id may be left out. What they depend on is looked at when they are
/// added.
///
/// # Errors
/// Every problem of the document, as of a plan's.
pub fn parse_new(value: &Value, parent: NodeId) -> Result<Vec<NewNode>, Vec<PlanProblem>> {
    let problems = Problems::default();
    let read = read_new(&Entry::root(value, &problems), parent);
    let found = problems.into_found();
    if found.is_empty() { Ok(read) } else { Err(found) }
}

/// The plan of a goal that comes without one: one phase with one task of the goal's title
/// (spec 05, The planner). The title is taken as it is; its bound is the caller's to check.
#[must_use]
pub fn one_task(title: &str) -> PlanFile {
    let node = |id| Node {
        id,
        name: title.to_owned(),
        objective: title.to_owned(),
        acceptance: Vec::new(),
        definition_of_done: String::new(),
        depends_on: Vec::new(),
        role: Role::Worker,
        domain: None,
        profile: None,
        tools: Tools::default(),
        key_facts: Vec::new(),
        output_schema: None,
        scope_paths: Vec::new(),
        budget: Limits::default(),
        wall: None,
        max_attempts: ATTEMPTS_DEFAULT,
        review: None,
        placement: PlacementWish::default(),
        recovery: RecoveryPolicy::default(),
        added: 0,
        defined: 0,
    };
    let task = Node { acceptance: vec![RESULT_VALIDATES.to_owned()], ..node(NodeId::task(1, 1)) };
    PlanFile {
        title: title.to_owned(),
        problem_statement: String::new(),
        success_criteria: Vec::new(),
        non_goals: Vec::new(),
        constraints: Vec::new(),
        tags: Vec::new(),
        project: None,
        mode: None,
        profiles: Vec::new(),
        output: Some(task.id),
        nodes: vec![node(NodeId::phase(1)), task],
    }
}

impl PlanFile {
    /// The same goal with the plan that every goal can have: one task of its title (spec 05, The planner).
    #[must_use]
    pub fn with_one_task(&self) -> Self {
        let Self { nodes, output, .. } = one_task(&self.title);
        Self { nodes, output, ..self.clone() }
    }

    /// The nodes that are worked on. A goal without a plan is one task.
    #[must_use]
    pub fn work(&self) -> BTreeMap<NodeId, Node> {
        let alone = self.nodes.is_empty().then(|| self.with_one_task());
        let nodes = alone.map_or_else(|| self.nodes.clone(), |alone| alone.nodes);
        nodes.into_iter().map(|node| (node.id, node)).collect()
    }

    /// Whether each piece of its work has a profile: among these, or those that come with it.
    ///
    /// # Errors
    /// Every node that needs a profile that is not there.
    pub fn check_profiles<'a>(
        &'a self,
        known: impl IntoIterator<Item = &'a ProfileName>,
    ) -> Result<(), Missing> {
        let nodes = self.work();
        let own = self.profiles.iter().map(|profile| &profile.name);
        check(&nodes, |_| true, known.into_iter().chain(own))
    }
}

fn read_plan(value: &Value, top: &Fields<'_>, problems: &Problems) -> PlanFile {
    let mut placed = read_phases(top);
    match top.word("phaseOrder", PhaseOrder::WORDS, PhaseOrder::parse).unwrap_or_default() {
        PhaseOrder::Sequential => order_phases(&mut placed, problems),
        PhaseOrder::Parallel => {}
    }
    check_edges(&placed, problems);
    placeholders::check(value, &placed, problems);
    let output = top.get("output").and_then(|output| read_output(&output, &placed));
    let mut commands: Vec<Profile> = Vec::new();
    let mut nodes: Vec<Node> = Vec::with_capacity(placed.len());
    for one in placed {
        nodes.push(one.node);
        // Commands that say the same have one name, and are one profile.
        let known = |own: &Profile| commands.iter().any(|known| known.name == own.name);
        let new: Vec<Profile> = one.commands.into_iter().filter(|own| !known(own)).collect();
        commands.extend(new);
    }
    nodes.sort_by_key(|node| node.id);
    let mut plan = PlanFile { output, ..read_around(top, nodes) };
    plan.profiles.extend(commands);
    plan
}

/// Reads all of a plan but its nodes.
fn read_around(top: &Fields<'_>, nodes: Vec<Node>) -> PlanFile {
    if let Some(version) = top.get("planVersion")
        && version.value().as_u64() != Some(1)
    {
        version.wrong(format!("is {}", version.value()), "1");
    }
    let goal = top.get("goal").and_then(|goal| goal.map(GOAL_KEYS));
    if let Some(goal) = &goal {
        goal.check_size(&[], DEFINITION_BYTES_MAX);
    }
    let texts = |key| goal.as_ref().map(|goal| goal.texts(key)).unwrap_or_default();
    let statement = goal.as_ref().and_then(|goal| goal.text("problemStatement", TEXT_BYTES_MAX));
    PlanFile {
        title: read_title(top, goal.as_ref()),
        problem_statement: statement.unwrap_or_default(),
        success_criteria: texts("successCriteria"),
        non_goals: texts("nonGoals"),
        constraints: texts("constraints"),
        tags: texts("tags"),
        project: top.name("project"),
        mode: top.word("mode", "solo, tight, orchestrator", |text| Mode::parse(text).ok()),
        profiles: read_profiles(top),
        output: None,
        nodes,
    }
}

fn read_title(top: &Fields<'_>, goal: Option<&Fields<'_>>) -> String {
    let inner = goal.and_then(|goal| goal.get("title"));
    match (top.get("title"), inner) {
        (Some(outer), Some(inner)) => {
            let allowed = format!("{} or {}, not both", outer.path(), inner.path());
            outer.wrong("the title is given twice", allowed);
            None
        }
        (Some(title), None) | (None, Some(title)) => title.shown_name(TEXT_BYTES_MAX),
        (None, None) => {
            let holder = goal.unwrap_or(top);
            holder.missing("title", "the goal in one line, as title or goal.title");
            None
        }
    }
    .unwrap_or_default()
}

fn read_output(output: &Entry<'_>, placed: &[Placed]) -> Option<NodeId> {
    let id = output.node_id()?;
    let allowed = "the id of a task without subtasks or of a subtask of this plan";
    let Some(found) = placed.iter().find(|placed| placed.known && placed.node.id == id) else {
        output.wrong(format!("{id} is outside the epic"), allowed);
        return None;
    };
    if !found.leaf {
        output.wrong(format!("{id} has no deliverable of its own"), allowed);
    }
    Some(id)
}
