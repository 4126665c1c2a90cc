//! Brief expansion: from a wish, its node and its profile to the whole contract (spec 03,
//! Spawn protocol; spec 06, The brief). What is missing is refused by name.

use std::cell::Cell;

use crate::admission::Grant;
use crate::agent::Profile;
use crate::assignment::Purpose;
use crate::brief::{Brief, ExpectedOutput, NodeInput, Runner, Tools, Worktree};
use crate::budget::{Counter, Limits};
use crate::conversation::{Turn, history};
use crate::id::{AgentId, EpicId, NoteName};
use crate::limits::{
    BRIEF_NOTES_MAX, INPUTS_BYTES_MAX, INSTRUCTION_BYTES_MAX, LIST_MAX, MESSAGE_ID_BYTES_MAX,
    RECORD_BYTES_MAX,
};
use crate::mcp::McpServer;
use crate::permission::PermissionList;
use crate::plan::placeholder::{self, Placeholder};
use crate::plan::{Node, NodeState, graph};
use crate::request::{BriefWish, SubagentWish, TaskWish};
use crate::run::Run;
use crate::step::Draft;
use crate::time::Millis;

use super::judging;

/// What is wrong with a wish, in words that name the field.
pub(super) type Invalid = String;

/// What a run may use of which nobody says how much (spec 06, Budgets): none is unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunDefaults {
    /// What its models may use, where its parent has no limit itself.
    pub budget: Limits,
    /// How long it may last.
    pub wall: Option<Millis>,
}

/// Checks what can be checked without knowing the grant.
///
/// # Errors
/// The field and what is missing.
pub(super) fn validate(wish: &SubagentWish, index: usize) -> Result<(), Invalid> {
    let field = |name: &str| format!("requested_subagents[{index}].{name}");
    let goal = match &wish.task {
        TaskWish::Task(task) => task,
        TaskWish::Brief(brief) => {
            if wish.budget == Limits::default() && wish.wall.is_none() {
                return Err(format!("{}: a full brief needs a budget", field("budget")));
            }
            if brief.success_criteria.is_empty() {
                return Err(format!(
                    "{}: a full brief needs at least one",
                    field("brief.success_criteria")
                ));
            }
            let lists = [
                ("brief.success_criteria", &brief.success_criteria),
                ("brief.key_facts", &brief.key_facts),
                ("brief.scope_paths", &brief.scope_paths),
            ];
            if let Some((name, list)) = lists.iter().find(|(_, list)| list.len() > LIST_MAX) {
                let count = list.len();
                return Err(format!("{}: {count} given; at most {LIST_MAX}", field(name)));
            }
            &brief.goal
        }
    };
    if goal.trim().is_empty() {
        return Err(format!("{}: it is empty; describe the goal", field("task")));
    }
    if goal.len() > INSTRUCTION_BYTES_MAX {
        return Err(format!(
            "{}: {} bytes; the limit is {INSTRUCTION_BYTES_MAX}",
            field("task"),
            goal.len()
        ));
    }
    let label = wish.suggested_actor_id.len();
    if label > MESSAGE_ID_BYTES_MAX {
        return Err(format!(
            "{}: {label} bytes; the limit is {MESSAGE_ID_BYTES_MAX}",
            field("suggested_actor_id")
        ));
    }
    if wish.role.has_domain() && wish.domain.is_none() {
        return Err(format!("{}: a {} needs one", field("domain"), wish.role));
    }
    Ok(())
}

/// Where a child that an agent asks for may work, since it writes there: where its profile or its parent itself does, or
/// in a directory of that name below the host's for runs, which no run but those of that name writes. Its scope lies
/// within its parent's.
///
/// # Errors
/// The field and what is wrong with it.
pub(super) fn place(
    wish: &SubagentWish,
    index: usize,
    profile: &Profile,
    own: Option<&Run>,
) -> Result<(), Invalid> {
    let TaskWish::Brief(brief) = &wish.task else { return Ok(()) };
    let scope = own.map(|run| run.brief.scope_paths.as_slice()).unwrap_or_default();
    let beyond = brief.scope_paths.iter().find(|path| !scope.is_empty() && !within(path, scope));
    if let Some(path) = beyond {
        return Err(format!(
            "requested_subagents[{index}].brief.scope_paths: {path:?} is beyond the agent's own: {}",
            scope.join(", ")
        ));
    }
    let wanted = &brief.workspace;
    let of_parent =
        own.is_some_and(|run| run.brief.workspace == *wanted || run.id.to_string() == *wanted);
    let is_name = wanted.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if *wanted == profile.workspace || of_parent || is_name && !wanted.starts_with("run_") {
        return Ok(());
    }
    Err(format!(
        "requested_subagents[{index}].brief.workspace: {wanted:?} is another place than the profile's and the \
         agent's own; leave it out, or give a name of letters, digits, `-` and `_`"
    ))
}

/// Whether a pattern is one of these, or lies below one: each is of what fits it and of what is below that.
fn within(path: &str, scope: &[String]) -> bool {
    fn plain(text: &str) -> &str {
        text.trim_start_matches("./").trim_end_matches('/')
    }
    let path = plain(path);
    let covers = |of: &str| {
        let dir = of.strip_suffix("**").unwrap_or(of).trim_end_matches('/');
        let below = path.strip_prefix(dir).is_some_and(|rest| rest.starts_with('/'));
        matches!(of, "" | "." | "**") || path == of || below
    };
    scope.iter().any(|of| covers(plain(of))) && !path.split('/').any(|part| part == "..")
}

/// The tools a wish asks for: its own, else the node's, else the profile's.
pub(super) fn tools(wish: &SubagentWish, node: Option<&Node>, profile: &Profile) -> Tools {
    match (&wish.tools, judging::means(wish, node, profile)) {
        (Some(tools), _) => tools.clone(),
        (None, Some(node)) if !node.tools.is_empty() => node.tools.clone(),
        (None, _) => profile.tools.clone(),
    }
}

/// The budget a wish asks for, counter by counter: its own, else the node's, else the profile's, else for what calls
/// models the default. Below a parent that is limited itself, what nobody names is a share of that.
pub(super) fn budget(
    wish: &SubagentWish,
    node: Option<&Node>,
    profile: &Profile,
    defaults: Limits,
    parent: Limits,
) -> Limits {
    let node = judging::means(wish, node, profile).map(|node| node.budget).unwrap_or_default();
    let pick = |counter| {
        let own = wish.budget.of(counter).or(node.of(counter)).or(profile.budget.of(counter));
        let takes_default = profile.kind.calls_models() && parent.of(counter).is_none();
        own.or(defaults.of(counter).filter(|_| takes_default))
    };
    Limits {
        tokens: pick(Counter::Tokens),
        cost_micro: pick(Counter::CostMicro),
        turns: pick(Counter::Turns),
    }
}

/// Who made what is under review.
fn author(draft: &Draft<'_>, state: &NodeState) -> Option<AgentId> {
    let made = draft.run(state.result.as_ref()?.run?)?;
    Some(made.agent.clone())
}

/// Expands a wish to the brief its run executes. Nothing is kept apart less than by its profile and, below an agent
/// that has a brief itself, `above`, in the same place, than that agent is; and the scope is that agent's where neither
/// the wish nor the plan has one.
pub(super) fn expand(
    draft: &Draft<'_>,
    wish: &SubagentWish,
    (epic, node): (EpicId, &Node),
    profile: &Profile,
    grant: &Grant,
    above: Option<&Brief>,
) -> Brief {
    let state = draft.node_state(epic, node.id);
    let review = state.is_some_and(|state| state.purpose == Purpose::Review);
    let (goal, full) = match &wish.task {
        TaskWish::Task(task) => (task.clone(), BriefWish::default()),
        TaskWish::Brief(brief) => (brief.goal.clone(), brief.clone()),
    };
    let tools = tools(wish, Some(node), profile);
    // Fewer tools keep a program from no file.
    let by_tools = || Worktree::of_tools(&profile.tools).stricter(Worktree::of_tools(&tools));
    let least = profile.worktree.unwrap_or_else(by_tools);
    let mut worktree = full.worktree.unwrap_or(least).stricter(least);
    let schema = full.output_schema.clone().or_else(|| node.output_schema.clone());
    let left = Cell::new(RECORD_BYTES_MAX);
    let filled = |text: &str| filled(draft, (epic, node), text, &left);
    let workspace =
        filled(if full.workspace.is_empty() { &profile.workspace } else { &full.workspace });
    if let Some(above) = above {
        let same = workspace == above.workspace;
        worktree = worktree.stricter(if same { above.worktree } else { Worktree::None });
    }
    let scope = above.map(|above| above.scope_paths.clone()).unwrap_or_default();
    let all = |texts: Vec<String>| texts.iter().map(|text| filled(text)).collect::<Vec<_>>();
    Brief {
        goal: filled(&goal),
        // What agents wrote in notes and answers is never a template.
        key_facts: [
            all(key_facts(&full, node, state)),
            noted(draft, epic, &full),
            if above.is_none() { said_before(draft, epic) } else { Vec::new() },
        ]
        .concat(),
        expected_output: match schema {
            Some(schema) if !review => ExpectedOutput::Schema(schema),
            Some(_) | None => ExpectedOutput::Text,
        },
        success_criteria: all(first_filled([
            full.success_criteria,
            node.acceptance.clone(),
            vec!["result validates".to_owned()],
        ])),
        definition_of_done: filled(if full.definition_of_done.is_empty() {
            &node.definition_of_done
        } else {
            &full.definition_of_done
        }),
        tools,
        workspace,
        scope_paths: all(first_filled([full.scope_paths, node.scope_paths.clone(), scope])),
        budget: grant.budget,
        wall: grant.deadline.map(|deadline| deadline - draft.now),
        turn_timeout: full.turn_timeout,
        runner: Runner {
            profile: profile.name.clone(),
            kind: profile.kind,
            argv: all(profile.argv.clone()),
            env: profile.env.iter().map(|(name, text)| (name.clone(), filled(text))).collect(),
            pass_env: profile.pass_env.clone(),
            writable: profile.writable.clone(),
            model: profile.model.clone(),
            served: profile.served.clone(),
            prompt: filled(&profile.prompt),
            permissions: permissions(profile, above),
            mcp_servers: servers(profile, &all, &filled),
        },
        worktree,
        inputs: inputs(draft, epic, node, review),
        judges: state.filter(|_| review).and_then(|state| author(draft, state)),
    }
}

/// The servers of a profile, with what is known now in their commands.
fn servers(
    profile: &Profile,
    all: &impl Fn(Vec<String>) -> Vec<String>,
    filled: &impl Fn(&str) -> String,
) -> Vec<McpServer> {
    let server = |server: &McpServer| McpServer {
        argv: all(server.argv.clone()),
        env: server.env.iter().map(|(name, text)| (name.clone(), filled(text))).collect(),
        ..server.clone()
    };
    profile.mcp_servers.iter().map(server).collect()
}

/// The rules on an agent's tools: those of the agents above it hold for it too.
fn permissions(profile: &Profile, above: Option<&Brief>) -> Vec<PermissionList> {
    let inherited = above.map(|above| above.runner.permissions.clone()).unwrap_or_default();
    let own =
        Some(&profile.permissions).filter(|own| !own.rules.is_empty() && !inherited.contains(own));
    let own = own.cloned();
    inherited.into_iter().chain(own).collect()
}

/// A text with what is known now for its placeholders (decision 0067). One of a result that is not there
/// stays as it is. `left` bytes may be filled in: with more its record is refused, so the rest is not made.
fn filled(
    draft: &Draft<'_>,
    (epic, node): (EpicId, &Node),
    text: &str,
    left: &Cell<usize>,
) -> String {
    placeholder::filled(text, |placeholder| {
        if left.get() == 0 {
            return None;
        }
        let text = match placeholder {
            Placeholder::Goal => draft.base().goals.get(&epic)?.spec.title.clone(),
            Placeholder::Node => node.id.to_string(),
            Placeholder::Result(id) => {
                let result = draft.node_state(epic, id)?.result.as_ref()?;
                fit(result.deliverable.trim_end(), &mut { INPUTS_BYTES_MAX })
            }
        };
        left.set(left.get().saturating_sub(text.len()));
        Some(text)
    })
}

fn first_filled<const N: usize>(lists: [Vec<String>; N]) -> Vec<String> {
    lists.into_iter().find(|list| !list.is_empty()).unwrap_or_default()
}

/// Whether there are the notes that a brief names.
///
/// # Errors
/// The first that there is not, or too many.
pub(super) fn check_notes(
    draft: &Draft<'_>,
    epic: EpicId,
    wish: &SubagentWish,
    index: usize,
) -> Result<(), Invalid> {
    let TaskWish::Brief(brief) = &wish.task else { return Ok(()) };
    let field = format!("requested_subagents[{index}].brief.notes");
    if brief.notes.len() > BRIEF_NOTES_MAX {
        return Err(format!("{field}: {} given; at most {BRIEF_NOTES_MAX}", brief.notes.len()));
    }
    let Some(goal) = draft.base().goals.get(&epic) else { return Ok(()) };
    let known = |name: &&NoteName| {
        draft.base().notes.contains_key(&(goal.project.clone(), (*name).clone()))
    };
    let unknown = brief.notes.iter().find(|name| !known(name));
    unknown.map_or(Ok(()), |name| {
        Err(format!(
            "{field}: note {name} was not found in {}; `note.search` lists all",
            goal.project
        ))
    })
}

/// What the notes say that a brief names.
fn noted(draft: &Draft<'_>, epic: EpicId, brief: &BriefWish) -> Vec<String> {
    let project = draft.base().goals.get(&epic).map(|goal| &goal.project);
    let note = |name: &NoteName| {
        let note = draft.base().notes.get(&(project?.clone(), name.clone()))?;
        Some(format!("note {name}, by {}: {}", note.author, note.text))
    };
    brief.notes.iter().filter_map(note).collect()
}

/// What was said in its conversation before the turn that a goal is for.
fn said_before(draft: &Draft<'_>, epic: EpicId) -> Vec<String> {
    let Some(Turn { id, .. }) = draft.base().turn_of(epic) else { return Vec::new() };
    let all = draft.base().turns_of(&id.human, &id.conversation).rev();
    history(all.skip_while(|other| other.id.number >= id.number))
}

/// What the requester says, what the plan says, and what the last attempt failed of.
fn key_facts(brief: &BriefWish, node: &Node, state: Option<&NodeState>) -> Vec<String> {
    let mut facts = brief.key_facts.clone();
    facts.extend(node.key_facts.iter().cloned());
    let outcome = Some(&node.expected_outcome).filter(|outcome| !outcome.is_empty());
    facts.extend(outcome.map(|outcome| format!("expected outcome: {outcome}")));
    let found = state.map(|state| state.findings.as_slice()).unwrap_or_default();
    facts.extend(found.iter().map(|finding| format!("the last attempt failed: {finding}")));
    facts
}

/// The results of what the node depends on; for a reviewer, the work under review as well.
fn inputs(draft: &Draft<'_>, epic: EpicId, node: &Node, review: bool) -> Vec<NodeInput> {
    let nodes = draft.nodes(epic);
    let mut wanted: Vec<_> = graph::effective_dependencies(&nodes, node.id).into_iter().collect();
    if review {
        wanted.push(node.id);
    }
    let mut room = INPUTS_BYTES_MAX;
    wanted
        .into_iter()
        .filter_map(|id| {
            let result = draft.node_state(epic, id)?.result.as_ref()?;
            Some(NodeInput {
                node: id,
                name: nodes.get(&id)?.name.clone(),
                deliverable: fit(&result.deliverable, &mut room),
                artifacts: result.artifacts.clone(),
            })
        })
        .collect()
}

/// The beginning of a text that no longer fits, in bytes.
const BEGINNING: usize = 128;

/// The whole text while there is room; then its beginning, and that it is only that.
fn fit(text: &str, room: &mut usize) -> String {
    if text.len() <= *room {
        *room -= text.len();
        return text.to_owned();
    }
    let mut end = BEGINNING.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!(
        "{}\n[the first {end} of {} bytes; the rest stands with the node]",
        &text[..end],
        text.len()
    )
}
