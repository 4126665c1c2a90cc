//! The phases, tasks and subtasks of a plan file: their structure, ids and fields (spec 05).
//! What depends on what is checked in `edges`.

use crate::agent::Profile;
use crate::brief::Worktree;
use crate::id::{Domain, NodeId, Tier};
use crate::limits::{
    ATTEMPTS_DEFAULT, ATTEMPTS_MAX, EFFORT_BYTES_MAX, INSTRUCTION_BYTES_MAX, LIST_MAX,
    NODE_NUMBER_MAX, PHASES_MAX, SUBTASKS_MAX, TASKS_MAX, TEXT_BYTES_MAX,
};
use crate::plan::change::NewNode;
use crate::plan::schema::fields::{Entry, Fields};
use crate::plan::schema::recovery::{self, RECOVERY};
use crate::plan::schema::{DEFINITION_BYTES_MAX, commands};
use crate::plan::{Node, PlacementWish, REVIEW_DOMAIN, Review, RiskLevel};
use crate::role::Role;

pub(super) const PHASE_KEYS: &[&str] =
    &["id", "name", "objective", "outcome", "expectedOutcome", "acceptance", "deps", "tasks"];
pub(super) const TASK_KEYS: &[&str] = &[
    "id",
    "name",
    "outcome",
    "objective",
    "task",
    "expectedOutcome",
    "acceptance",
    "definitionOfDone",
    "estimatedEffort",
    "riskLevel",
    "deps",
    "role",
    "domain",
    "profile",
    "run",
    "dir",
    "worktree",
    "tools",
    "keyFacts",
    "outputSchema",
    "scopePaths",
    "budget",
    "wall",
    "maxAttempts",
    "review",
    "placement",
    RECOVERY,
    "subtasks",
];
/// Those of a task that has no subtasks.
pub(super) const SUBTASK_KEYS: &[&str] = TASK_KEYS.split_at(TASK_KEYS.len() - 1).0;

/// A node and where it stands in the document.
#[derive(Debug)]
pub(super) struct Placed {
    pub(super) node: Node,
    pub(super) path: String,
    /// Where each of its dependencies stands.
    pub(super) dependency_paths: Vec<String>,
    /// Nothing stands below it and it is no phase.
    pub(super) leaf: bool,
    /// The commands it brings along.
    pub(super) commands: Vec<Profile>,
    /// Its id is its own; otherwise the id is only where it would stand.
    pub(super) known: bool,
}

pub(super) fn read_phases(top: &Fields<'_>) -> Vec<Placed> {
    let mut placed = Vec::new();
    let Some(phases) = top.get("phases") else {
        top.missing("phases", "1 to 5 phases");
        return placed;
    };
    read_tier(&phases, None, &mut placed);
    placed
}

/// Reads the nodes of one list, each followed by those below it.
fn read_tier(list: &Entry<'_>, parent: Option<NodeId>, placed: &mut Vec<Placed>) {
    let (tier, max, keys, below, what) = match parent.map(NodeId::tier) {
        None => (Tier::Phase, PHASES_MAX, PHASE_KEYS, "tasks", "phases"),
        Some(Tier::Phase) => (Tier::Task, TASKS_MAX, TASK_KEYS, "subtasks", "tasks"),
        Some(Tier::Task | Tier::Subtask) => {
            (Tier::Subtask, SUBTASKS_MAX, SUBTASK_KEYS, "", "subtasks")
        }
    };
    let entries = list.list(max, &format!("a list of at most {max} {what}"));
    if entries.is_empty() && tier != Tier::Subtask && list.value().is_array() {
        list.wrong("is empty", format!("1 to {max} {what}"));
    }
    for (place, entry) in (1u32..).zip(&entries) {
        let Some(fields) = entry.map(keys) else { continue };
        let own_id = read_id(&fields, tier, parent);
        let repeated = own_id.and_then(|id| placed.iter().find(|other| other.is(id)));
        if let Some(first) = repeated {
            let problem = format!("duplicate id {}, first at {}", first.node.id, first.path);
            let at = fields.get("id").unwrap_or_else(|| entry.clone());
            at.wrong(problem, "an id that no other node has");
        }
        let id = own_id.unwrap_or_else(|| positional(parent, place));
        let children = fields.get(below);
        let leaf = match tier {
            Tier::Phase => false,
            Tier::Task => {
                !children.as_ref().is_some_and(|list| *list.value() != serde_json::json!([]))
            }
            Tier::Subtask => true,
        };
        fields.check_size(&["tasks", "subtasks"], DEFINITION_BYTES_MAX);
        let (mut node, commands) = read_node(&fields, id, leaf);
        let dependency_paths = read_dependencies(&fields, &mut node);
        let known = own_id.is_some() && repeated.is_none();
        placed.push(Placed {
            node,
            path: entry.path().to_owned(),
            dependency_paths,
            leaf,
            commands,
            known,
        });
        match children {
            Some(children) => read_tier(&children, Some(id), placed),
            None if tier == Tier::Phase => fields.missing("tasks", "1 to 7 tasks"),
            None => {}
        }
    }
}

/// Reads nodes that are to stand below a node that is there: a list of them, or one. Their ids may be
/// left out; nothing stands below them.
pub(super) fn read_new(list: &Entry<'_>, parent: NodeId) -> Vec<NewNode> {
    let (tier, max, what) = match parent.tier() {
        Tier::Phase => (Tier::Task, TASKS_MAX, "tasks"),
        Tier::Task | Tier::Subtask => (Tier::Subtask, SUBTASKS_MAX, "subtasks"),
    };
    let entries = if list.value().is_object() {
        vec![list.clone()]
    } else {
        list.list(max, &format!("a list of at most {max} {what}"))
    };
    let mut new = Vec::with_capacity(entries.len());
    for (place, entry) in (1u32..).zip(&entries) {
        let Some(fields) = entry.map(SUBTASK_KEYS) else { continue };
        fields.check_size(&[], DEFINITION_BYTES_MAX);
        let given = fields.get("id").is_some();
        let id = if given { read_id(&fields, tier, Some(parent)) } else { None };
        let id_here = id.unwrap_or_else(|| positional(Some(parent), place));
        let (mut node, commands) = read_node(&fields, id_here, true);
        if !commands.is_empty() {
            let problem = "brings a command, which only a whole plan file can";
            entry.wrong(
                problem,
                "a profile: apply it with `tetrarch profile apply PROJECT FILE`, and name it",
            );
        }
        read_dependencies(&fields, &mut node);
        new.push(NewNode { id, node });
    }
    new
}

impl Placed {
    fn is(&self, id: NodeId) -> bool {
        self.known && self.node.id == id
    }
}

fn positional(parent: Option<NodeId>, place: u32) -> NodeId {
    match parent {
        None => NodeId::phase(place),
        Some(parent) => match parent.tier() {
            Tier::Phase => NodeId::task(parent.phase_number(), place),
            Tier::Task | Tier::Subtask => {
                NodeId::subtask(parent.phase_number(), parent.ordinal(), place)
            }
        },
    }
}

fn read_id(fields: &Fields<'_>, tier: Tier, parent: Option<NodeId>) -> Option<NodeId> {
    let form = positional(parent, 1);
    let stem = form.to_string();
    let allowed = format!("{}<n>, such as {form}", stem.trim_end_matches('1'));
    let Some(entry) = fields.get("id") else {
        fields.missing("id", &allowed);
        return None;
    };
    let id = entry.node_id()?;
    if id.tier() == tier && id.parent() == parent && id.ordinal() <= NODE_NUMBER_MAX {
        return Some(id);
    }
    let place = parent.map_or_else(|| "a phase".to_owned(), |parent| format!("a node of {parent}"));
    entry.wrong(format!("{id} is not a valid id for {place}"), allowed);
    None
}

/// A node, and the commands it brings along.
fn read_node(fields: &Fields<'_>, id: NodeId, leaf: bool) -> (Node, Vec<Profile>) {
    let name = match fields.get("name") {
        Some(name) => name.shown_name(TEXT_BYTES_MAX).unwrap_or_default(),
        None => {
            fields.missing("name", "the name, in one line");
            String::new()
        }
    };
    let command = commands::read_task(fields);
    let acceptance = read_acceptance(fields, leaf, command.is_some());
    let domain = fields.name("domain");
    let role = read_role(fields, domain.as_ref());
    let attempts = fields.get("maxAttempts");
    let attempts = attempts.and_then(|entry| entry.whole(1, u64::from(ATTEMPTS_MAX)));
    let profile = command.as_ref().map(|command| command.name.clone());
    let worktree = command.as_ref().and_then(|command| command.worktree);
    let (review, judge) = match fields.get("review") {
        Some(entry) => read_review(&entry, domain.as_ref(), worktree),
        None => (None, None),
    };
    let text = |key, max| fields.text(key, max).unwrap_or_default();
    let node = Node {
        id,
        objective: read_objective(fields, if leaf { &name } else { "" }),
        name,
        acceptance,
        expected_outcome: text("expectedOutcome", TEXT_BYTES_MAX),
        definition_of_done: text("definitionOfDone", TEXT_BYTES_MAX),
        estimated_effort: text("estimatedEffort", EFFORT_BYTES_MAX),
        risk_level: fields.word("riskLevel", "low, medium, high", RiskLevel::parse),
        depends_on: Vec::new(),
        role,
        profile: profile.or_else(|| fields.name("profile")),
        tools: fields.tools(),
        key_facts: fields.texts("keyFacts"),
        output_schema: fields.get("outputSchema").and_then(|entry| read_schema(&entry)),
        scope_paths: fields.texts("scopePaths"),
        budget: fields.budget(),
        wall: fields.wall(),
        max_attempts: attempts.and_then(|n| u32::try_from(n).ok()).unwrap_or(ATTEMPTS_DEFAULT),
        review,
        placement: fields.get("placement").map(|entry| read_placement(&entry)).unwrap_or_default(),
        recovery: recovery::read(fields),
        spawned: false,
        added: 0,
        defined: 0,
        domain,
    };
    (node, command.into_iter().chain(judge).collect())
}

/// The criterion of a command that comes with none.
pub(super) const EXIT_CRITERION: &str = "the command exits with 0";

fn read_acceptance(fields: &Fields<'_>, leaf: bool, is_command: bool) -> Vec<String> {
    let (acceptance, given) = (fields.texts("acceptance"), fields.get("acceptance"));
    if given.is_none() && is_command {
        return vec![EXIT_CRITERION.to_owned()];
    }
    // What is no list is reported already.
    let is_list = given.as_ref().is_none_or(|entry| entry.value().is_array());
    if leaf && acceptance.is_empty() && is_list {
        // Neither an agent nor a command: whoever writes it may want either.
        let is_either = given.is_none() && fields.get("profile").is_none();
        let or = if is_either { " for an agent, or a command with `run`" } else { "" };
        fields.missing("acceptance", &format!("at least one acceptance criterion{or}"));
    }
    acceptance
}

/// What is to be reached, then the task's text; the name of a leaf that has neither.
fn read_objective(fields: &Fields<'_>, fallback: &str) -> String {
    if let (Some(outcome), Some(_)) = (fields.get("outcome"), fields.get("objective")) {
        outcome.wrong("says the same as objective", "outcome or objective, not both");
    }
    let given = ["outcome", "objective", "task"]
        .into_iter()
        .filter_map(|key| fields.text(key, INSTRUCTION_BYTES_MAX))
        .collect::<Vec<_>>()
        .join("\n\n");
    if given.is_empty() { fallback.to_owned() } else { given }
}

fn read_role(fields: &Fields<'_>, domain: Option<&Domain>) -> Role {
    let allowed = "worker, specialist, reviewer";
    let read = |text: &str| Role::parse(text).filter(|role| role.takes_slot());
    let role = fields.word("role", allowed, read).unwrap_or(Role::Worker);
    if role.has_domain() && domain.is_none() && fields.get("domain").is_none() {
        fields.missing("domain", &format!("the {role}'s field, a name"));
    }
    role
}

/// A JSON Schema as JSON text, or `text` for none.
fn read_schema(entry: &Entry<'_>) -> Option<String> {
    use serde_json::Value;
    let allowed = "a JSON Schema, as a mapping or as JSON text, or the word text";
    let schema = if let Value::String(text) = entry.value() {
        if text == "text" {
            return None;
        }
        serde_json::from_str(text).unwrap_or(Value::Null)
    } else {
        entry.value().clone()
    };
    if !schema.is_object() {
        entry.wrong("is not a valid JSON Schema", allowed);
        return None;
    }
    let text = schema.to_string();
    if text.len() > INSTRUCTION_BYTES_MAX {
        let size = text.len();
        let problem = format!("has {size} bytes; the limit is {INSTRUCTION_BYTES_MAX} bytes");
        entry.wrong(problem, format!("a schema of at most {INSTRUCTION_BYTES_MAX} bytes"));
    }
    Some(text)
}

/// Who reviews, and the command when it is one. It works as the task's command does.
fn read_review(
    entry: &Entry<'_>,
    own: Option<&Domain>,
    worktree: Option<Worktree>,
) -> (Option<Review>, Option<Profile>) {
    let general = || own.cloned().or_else(|| Domain::new(REVIEW_DOMAIN).ok());
    if let Some(wanted) = entry.value().as_bool() {
        let review = general().filter(|_| wanted).map(|domain| Review { domain, profile: None });
        return (review, None);
    }
    if !entry.value().is_object() {
        let allowed = "true, false, or a mapping with a domain or a command (`run`)";
        entry.wrong(format!("is {}", entry.value()), allowed);
        return (None, None);
    }
    let Some(fields) = entry.map(REVIEW_KEYS) else { return (None, None) };
    let command = commands::read_review(&fields, worktree.unwrap_or(Worktree::Auto));
    if fields.get("domain").is_none() && fields.get("run").is_none() {
        fields.missing("domain", "the reviewer's field, a name");
    }
    let profile = command.as_ref().map(|command| command.name.clone());
    let profile = profile.or_else(|| fields.name("profile"));
    let domain = fields.name("domain").or_else(general);
    (domain.map(|domain| Review { domain, profile }), command)
}

const REVIEW_KEYS: &[&str] = &["domain", "profile", "run", "dir"];

fn read_placement(entry: &Entry<'_>) -> PlacementWish {
    let Some(fields) = entry.map(&["host", "labels"]) else {
        return PlacementWish::default();
    };
    let labels = fields.get("labels").map(|labels| read_labels(&labels)).unwrap_or_default();
    PlacementWish { host: fields.name("host"), labels }
}

/// Labels as a mapping, or as a list of `key=value`.
fn read_labels(entry: &Entry<'_>) -> Vec<(String, String)> {
    let allowed = "a mapping from labels to texts, or a list of key=value";
    if !entry.value().is_array() {
        let pairs = entry.pairs(allowed);
        let read =
            |(key, value): (&str, Entry<'_>)| Some((key.to_owned(), value.text(TEXT_BYTES_MAX)?));
        return pairs.into_iter().filter_map(read).collect();
    }
    let read =
        |text: &str| text.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
    entry.list(LIST_MAX, allowed).iter().filter_map(|label| label.word("key=value", read)).collect()
}

/// Adds the dependencies that can be read to the node; the places of these.
fn read_dependencies(fields: &Fields<'_>, node: &mut Node) -> Vec<String> {
    let Some(list) = fields.get("deps") else {
        return Vec::new();
    };
    let mut paths = Vec::new();
    for entry in list.list(LIST_MAX, "a list of node ids") {
        if let Some(id) = entry.node_id() {
            node.depends_on.push(id);
            paths.push(entry.path().to_owned());
        }
    }
    paths
}
