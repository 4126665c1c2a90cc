//! Plan files: reading one from a document tree and saying everything that is wrong with it
//! (spec 05). The text format (YAML, TOML, JSON) is the caller's business.

mod commands;
mod edges;
pub(crate) mod fields;
mod nodes;
mod placeholders;
mod profiles;
mod recovery;
pub(crate) mod spelling;
#[cfg(test)]
mod tests;
mod writing;

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use crate::agent::{Mode, Profile};
use crate::brief::Tools;
use crate::budget::Limits;
use crate::goal::{GoalSpec, Risk};
use crate::id::{NodeId, ProjectName};
use crate::limits::{
    ATTEMPTS_DEFAULT, COMMIT_BYTES_MAX, LIST_MAX, RECORD_BYTES_MAX, REPO_CONTEXT_BYTES_MAX,
    TEXT_BYTES_MAX,
};
use crate::overseer::policy::RecoveryPolicy;
use crate::plan::change::NewNode;
use crate::plan::profiles::{Missing, check, sole};
use crate::plan::schema::edges::{PhaseOrder, check_edges, order_phases};
use crate::plan::schema::fields::{Entry, Fields, Problems};
use crate::plan::schema::nodes::{EXIT_CRITERION, Placed, read_new, read_phases};
use crate::plan::schema::profiles::{read_named, read_profiles};
use crate::plan::{Node, PlacementWish};
use crate::request::goals::GoalChange;
use crate::role::Role;

pub use fields::snake_case;
pub use spelling::nearest;
pub use writing::{node_in_words, written, written_goal};

/// A plan as its author wrote it, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanFile {
    /// What is wanted.
    pub goal: GoalSpec,
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
const GOAL_KEYS: &[&str] = &[
    "title",
    "problemStatement",
    "successCriteria",
    "nonGoals",
    "constraints",
    "assumptions",
    "risks",
    "stakeholders",
    "repoContextSnapshot",
    "tags",
    "origin",
];
const ORIGIN_KEYS: &[&str] = &["session", "channel", "to", "thread", "account"];
const RISK_KEYS: &[&str] = &["risk", "impact", "mitigation"];

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

/// Reads what is said anew of a goal: the keys of a plan file's `goal`, at least one of them (spec 05, Records).
///
/// # Errors
/// Every problem of the document, as of a plan's.
pub fn parse_goal_change(value: &Value) -> Result<GoalChange, Vec<PlanProblem>> {
    let problems = Problems::default();
    let fields = Entry::root(value, &problems).map(GOAL_KEYS);
    let change = fields.map(|goal| {
        goal.check_size(&[], DEFINITION_BYTES_MAX);
        read_goal(&goal)
    });
    if change == Some(GoalChange::default()) {
        problems.add("goal", "says nothing", format!("one or more of {}", GOAL_KEYS.join(", ")));
    }
    match (change, problems.into_found()) {
        (Some(change), found) if found.is_empty() => Ok(change),
        (_, mut found) => {
            let of_all = |problem: &&mut PlanProblem| matches!(&*problem.path, "plan" | "");
            for problem in found.iter_mut().filter(of_all) {
                "goal".clone_into(&mut problem.path);
            }
            Err(found)
        }
    }
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

/// Reads profiles without a plan: a mapping from names to profiles under `profiles`, as in a plan file (spec 12,
/// Profiles).
///
/// # Errors
/// Every problem of the document, as of a plan's.
pub fn parse_profiles(value: &Value) -> Result<Vec<Profile>, Vec<PlanProblem>> {
    let problems = Problems::default();
    let top = Entry::root(value, &problems).map(&["profiles"]);
    let read = top.map(|top| read_profiles(&top)).unwrap_or_default();
    let found = problems.into_found();
    if found.is_empty() { Ok(read) } else { Err(found) }
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
        expected_outcome: String::new(),
        definition_of_done: String::new(),
        estimated_effort: String::new(),
        risk_level: None,
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
        spawned: false,
        added: 0,
        defined: 0,
    };
    let task = Node { acceptance: vec![RESULT_VALIDATES.to_owned()], ..node(NodeId::task(1, 1)) };
    PlanFile {
        goal: GoalSpec { title: title.to_owned(), ..GoalSpec::default() },
        project: None,
        mode: None,
        profiles: Vec::new(),
        output: Some(task.id),
        nodes: vec![node(NodeId::phase(1)), task],
    }
}

impl Node {
    /// Whether it is accepted by more than a command's exit code or the schema of its result, which somebody has to
    /// look at.
    #[must_use]
    pub fn needs_judgement(&self) -> bool {
        let shown = [EXIT_CRITERION, RESULT_VALIDATES];
        self.acceptance.iter().any(|criterion| !shown.contains(&criterion.as_str()))
    }
}

impl PlanFile {
    /// The same goal with the plan that every goal can have: one task of its title (spec 05, The planner), whose profile
    /// is `default`, else the only one of these and its own that takes it (docs/decisions/0060).
    #[must_use]
    pub fn with_one_task<'a>(&'a self, known: impl IntoIterator<Item = &'a Profile>) -> Self {
        let Self { mut nodes, output, .. } = one_task(&self.goal.title);
        let sole = sole(known.into_iter().chain(&self.profiles));
        for task in nodes.iter_mut().filter(|node| Some(node.id) == output) {
            task.profile = sole.cloned();
        }
        Self { nodes, output, ..self.clone() }
    }

    /// The nodes that are worked on, in a project with these profiles. A goal without a plan is one task.
    #[must_use]
    pub fn work<'a>(
        &'a self,
        known: impl IntoIterator<Item = &'a Profile>,
    ) -> BTreeMap<NodeId, Node> {
        let alone = self.nodes.is_empty().then(|| self.with_one_task(known));
        let nodes = alone.map_or_else(|| self.nodes.clone(), |alone| alone.nodes);
        nodes.into_iter().map(|node| (node.id, node)).collect()
    }

    /// Whether each piece of its work has a profile: among these, or those that come with it.
    ///
    /// # Errors
    /// Every node that needs a profile that is not there.
    pub fn check_profiles<'a>(
        &'a self,
        known: impl IntoIterator<Item = &'a Profile>,
    ) -> Result<(), Missing> {
        let known: Vec<&Profile> = known.into_iter().collect();
        let nodes = self.work(known.iter().copied());
        check(&nodes, |_| true, known.into_iter().chain(&self.profiles).map(|it| &it.name))
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
    PlanFile {
        goal: GoalSpec {
            title: read_title(top, goal.as_ref()),
            ..goal.as_ref().map(read_goal).unwrap_or_default().onto(&GoalSpec::default())
        },
        project: top.name("project"),
        mode: top.word("mode", "solo, tight, orchestrator", |text| Mode::parse(text).ok()),
        profiles: read_profiles(top),
        output: None,
        nodes,
    }
}

/// The fields of a goal that are given.
fn read_goal(goal: &Fields<'_>) -> GoalChange {
    let text = |key, max| goal.get(key).and_then(|entry| entry.text(max));
    let texts = |key| goal.get(key).map(|entry| entry.texts());
    let risks = goal.get("risks").map(|list| list.list(LIST_MAX, "a list of risks"));
    GoalChange {
        title: goal.get("title").and_then(|title| title.shown_name(TEXT_BYTES_MAX)),
        problem_statement: text("problemStatement", TEXT_BYTES_MAX),
        success_criteria: texts("successCriteria"),
        non_goals: texts("nonGoals"),
        constraints: texts("constraints"),
        assumptions: texts("assumptions"),
        risks: risks.map(|risks| risks.iter().filter_map(read_risk).collect()),
        stakeholders: texts("stakeholders"),
        repo_context: text("repoContextSnapshot", REPO_CONTEXT_BYTES_MAX),
        tags: texts("tags"),
        origin: goal.get("origin").and_then(|origin| origin.map(ORIGIN_KEYS)).map(|origin| {
            let known = ORIGIN_KEYS
                .iter()
                .filter_map(|key| Some(((*key).to_owned(), origin.text(key, TEXT_BYTES_MAX)?)));
            known.collect()
        }),
    }
}

/// A risk as a mapping, or as a text that says what it is.
fn read_risk(entry: &Entry<'_>) -> Option<Risk> {
    if entry.value().is_string() {
        let risk = entry.filled_text(TEXT_BYTES_MAX)?;
        return Some(Risk { risk, ..Risk::default() });
    }
    let fields = entry.map(RISK_KEYS)?;
    let Some(risk) = fields.get("risk") else {
        fields.missing("risk", "what may go wrong");
        return None;
    };
    let text = |key| fields.text(key, TEXT_BYTES_MAX).unwrap_or_default();
    let risk = risk.filled_text(TEXT_BYTES_MAX)?;
    Some(Risk { risk, impact: text("impact"), mitigation: text("mitigation") })
}

fn read_title(top: &Fields<'_>, goal: Option<&Fields<'_>>) -> String {
    let inner = goal.and_then(|goal| goal.get("title"));
    match (top.get("title"), inner) {
        (Some(outer), Some(inner)) => {
            let allowed = format!("{} or {}, not both", outer.path(), inner.path());
            outer.wrong("the title is given twice", allowed);
            None
        }
        (Some(title), None) => title.shown_name(TEXT_BYTES_MAX),
        // What is wrong with it is said with the goal's other fields.
        (None, Some(title)) => title.value().as_str().map(ToOwned::to_owned),
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
