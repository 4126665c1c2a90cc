//! `plan apply`, `draft`, `add`, `split`, `merge`: changes of a plan, asked for or proposed. The owner
//! decides whether they can be made.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tetrarch_bus::codec;
use tetrarch_bus::state::Select;
use tetrarch_bus::subject::{KeyKind, OpName};
use tetrarch_core::id::{DraftId, EpicId, NodeId};
use tetrarch_core::ledger::RecordKey;
use tetrarch_core::mail::OpReply;
use tetrarch_core::plan::schema;
use tetrarch_core::request::Op;
use tetrarch_core::request::planning::{Addition, Merging, PlanMode, PlanOp, Splitting, Wanted};

use crate::command::project::report;
use crate::command::run::prepared;
use crate::document::{Document, read_document};
use crate::{CliError, CliResult, Code, Context, HumanClient, StateSnapshot, new_id, no_plan_of};

/// Arguments of every change.
#[derive(Debug, clap::Args)]
pub(crate) struct PlanChangeArgs {
    /// The plan version that the change is made for [default: current version].
    #[arg(long)]
    base: Option<u32>,
    /// The reason.
    #[arg(long)]
    reason: String,
}

/// Whether a change is only a draft.
#[derive(Debug, clap::Args)]
pub(crate) struct ProposeArgs {
    /// Create a draft for review instead of applying the change.
    #[arg(long)]
    draft: bool,
}

/// Arguments of `plan apply`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Only the phases, with their commands (`run`), and the output of the file are used; set profiles
with `tetrarch profile apply`. A failed task that the file changes is tried again while it has
attempts left; `tetrarch work unblock` gives it one more. Nodes that are not in the file are
cancelled, except those that are done.

Examples:
  tetrarch plan apply goal_01JD8Z5W6T4QK3M9X2V7B1N0AC plan.yaml --reason 'the parser comes first'
  tetrarch plan apply goal_01JD8Z5W6T4QK3M9X2V7B1N0AC plan.yaml --base 4 --reason 'as we agreed'")]
pub(crate) struct PlanApplyArgs {
    /// The goal.
    epic: EpicId,
    /// The whole new plan: YAML, TOML or JSON.
    file: PathBuf,
    #[command(flatten)]
    change_args: PlanChangeArgs,
}

/// Arguments of `plan draft`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tetrarch plan draft goal_01JD8Z5W6T4QK3M9X2V7B1N0AC plan.yaml --reason 'what do you think?'")]
pub(crate) struct PlanDraftArgs {
    /// The goal.
    epic: EpicId,
    /// The whole new plan: YAML, TOML or JSON.
    file: PathBuf,
    #[command(flatten)]
    change_args: PlanChangeArgs,
    /// The open draft to replace.
    #[arg(long)]
    replaces: Option<DraftId>,
}

/// Arguments of `plan add`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tetrarch plan add goal_01JD8Z5W6T4QK3M9X2V7B1N0AC P1 --name 'write the manual' \\
      --accept 'it names every flag' --after T1.2 --reason 'it was forgotten'")]
pub(crate) struct PlanAddArgs {
    /// The goal.
    epic: EpicId,
    /// The phase or task to add to.
    parent: NodeId,
    /// The new id [default: next unused id].
    #[arg(long)]
    id: Option<NodeId>,
    /// The name, in one line.
    #[arg(long)]
    name: String,
    /// The objective [default: the name].
    #[arg(long)]
    objective: Option<String>,
    /// An acceptance criterion; repeatable.
    #[arg(long = "accept", required = true)]
    acceptance: Vec<String>,
    /// A node that must be done first; repeatable.
    #[arg(long = "after")]
    deps: Vec<NodeId>,
    /// The profile that runs it.
    #[arg(long)]
    profile: Option<String>,
    #[command(flatten)]
    change_args: PlanChangeArgs,
    #[command(flatten)]
    proposed: ProposeArgs,
}

/// Arguments of `plan split`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The file is a list of subtasks in the format of a plan file. Subtasks without an id get the next
ones. A task in progress cannot be split; stop its agent first.

Examples:
  tetrarch plan split goal_01JD8Z5W6T4QK3M9X2V7B1N0AC T1.2 parts.yaml --reason 'too much for one'")]
pub(crate) struct PlanSplitArgs {
    /// The goal.
    epic: EpicId,
    /// The task.
    node: NodeId,
    /// The subtasks: YAML, TOML (`[[subtasks]]`) or JSON.
    file: PathBuf,
    #[command(flatten)]
    change_args: PlanChangeArgs,
    #[command(flatten)]
    proposed: ProposeArgs,
}

/// Arguments of `plan merge`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The first leaf keeps its id and gets the objectives of all. The others are cancelled; nodes that
depended on them depend on the first.

Examples:
  tetrarch plan merge goal_01JD8Z5W6T4QK3M9X2V7B1N0AC T1.2 T1.3 --name 'both parsers' \\
      --reason 'too small to be apart'")]
pub(crate) struct PlanMergeArgs {
    /// The goal.
    epic: EpicId,
    /// Two or more leaves of one parent.
    #[arg(required = true, num_args = 2..)]
    nodes: Vec<NodeId>,
    /// The new name [default: name of the first].
    #[arg(long, default_value = "", hide_default_value = true)]
    name: String,
    /// The new objective [default: the objectives of all].
    #[arg(long, default_value = "", hide_default_value = true)]
    objective: String,
    #[command(flatten)]
    change_args: PlanChangeArgs,
    #[command(flatten)]
    proposed: ProposeArgs,
}

/// `plan apply`.
///
/// # Errors
/// The file is no plan; it brings a command, and this person may not change profiles; the owner refuses, or does
/// not answer.
pub(super) async fn apply(
    context: &Context,
    client: &HumanClient,
    args: PlanApplyArgs,
) -> CliResult {
    let PlanApplyArgs { epic, file, change_args } = args;
    let plan = plan_of(client, epic, &file).await?;
    let wanted = wanted(client, epic, change_args, PlanMode::Apply, plan).await?;
    whole(context, client, &wanted).await
}

/// `plan draft`.
///
/// # Errors
/// The file is no plan; the owner refuses, or does not answer.
pub(super) async fn draft(
    context: &Context,
    client: &HumanClient,
    args: PlanDraftArgs,
) -> CliResult {
    let PlanDraftArgs { epic, file, change_args, replaces } = args;
    let plan = plan_of(client, epic, &file).await?;
    let wanted = wanted(client, epic, change_args, PlanMode::Draft, plan).await?;
    whole(context, client, &Wanted { replaces, ..wanted }).await
}

async fn whole(context: &Context, client: &HumanClient, wanted: &Wanted<Value>) -> CliResult {
    let id = new_id();
    let payload = codec::encode_todo_plan(id, wanted).map_err(CliError::usage)?;
    let op: OpName = "todo.plan".parse().map_err(CliError::failed)?;
    let reply = client.ask(op, id, payload, None).await;
    told(context, reply, wanted.epic)
}

/// A plan file without the profiles it states, which are no part of a change. Its commands are written as `run`
/// writes them; those that the goal's project does not have are added to it.
async fn plan_of(client: &HumanClient, epic: EpicId, file: &Path) -> CliResult<Value> {
    let mut document = prepared(Some(file), None, None, &[])?.document;
    if let Some(fields) = document.value.as_object_mut() {
        fields.remove("profiles");
    }
    let plan =
        schema::parse(&document.value).map_err(|problems| document.refused("plan", &problems))?;
    let wanted = [Select::One(RecordKey::Goal(epic)), Select::Kind(KeyKind::Profile)];
    let records = StateSnapshot::read(&client.bus, &wanted).await?.0.records;
    let project = &records.goals.get(&epic).ok_or_else(|| no_plan_of(epic))?.project;
    for command in plan.profiles {
        if !records.profiles.contains_key(&(project.clone(), command.name.clone())) {
            let apply = Op::ProfileApply { project: project.clone(), profile: Box::new(command) };
            client.operate(&apply).await?;
        }
    }
    Ok(document.value)
}

/// `plan add`.
///
/// # Errors
/// The node is none; the owner refuses, or does not answer.
pub(super) async fn add(context: &Context, client: &HumanClient, args: PlanAddArgs) -> CliResult {
    let PlanAddArgs { epic, parent, change_args, .. } = args;
    let mut node = json!({"name": args.name, "acceptance": args.acceptance});
    if let Some(fields) = node.as_object_mut() {
        let deps: Vec<String> = args.deps.iter().map(ToString::to_string).collect();
        let id = args.id.map(|id| id.to_string());
        let more = [("id", id), ("objective", args.objective), ("profile", args.profile)];
        let more = more.into_iter().filter_map(|(key, text)| Some((key.to_owned(), json!(text?))));
        fields.extend(more);
        fields.insert("deps".to_owned(), json!(deps));
    }
    let node = Document::of("node", node);
    let mut nodes = schema::parse_new(&node.value, parent)
        .map_err(|problems| node.refused("task", &problems))?;
    let Some(node) = nodes.pop() else { return Ok(()) };
    let what = Box::new(Addition { parent, node });
    let wanted = wanted(client, epic, change_args, args.proposed.mode(), what).await?;
    ask(context, client, epic, PlanOp::Add(wanted)).await
}

/// `plan split`.
///
/// # Errors
/// The file holds no subtasks; the owner refuses, or does not answer.
pub(super) async fn split(
    context: &Context,
    client: &HumanClient,
    args: PlanSplitArgs,
) -> CliResult {
    let PlanSplitArgs { epic, node, file, change_args, proposed } = args;
    let mut document = read_document(&file)?;
    let listed = document.value.as_object_mut().and_then(|fields| fields.remove("subtasks"));
    if let Some(listed) = listed {
        document = document.part("subtasks", listed);
    }
    let subtasks = schema::parse_new(&document.value, node)
        .map_err(|problems| document.refused("list of subtasks", &problems))?;
    let what = Splitting { node, subtasks };
    let wanted = wanted(client, epic, change_args, proposed.mode(), what).await?;
    ask(context, client, epic, PlanOp::Split(wanted)).await
}

/// `plan merge`.
///
/// # Errors
/// The owner refuses, or does not answer.
pub(super) async fn merge(
    context: &Context,
    client: &HumanClient,
    args: PlanMergeArgs,
) -> CliResult {
    let PlanMergeArgs { epic, nodes, name, objective, change_args, proposed } = args;
    let what = Merging { nodes, name, objective };
    let wanted = wanted(client, epic, change_args, proposed.mode(), what).await?;
    ask(context, client, epic, PlanOp::Merge(wanted)).await
}

impl ProposeArgs {
    fn mode(&self) -> PlanMode {
        if self.draft { PlanMode::Draft } else { PlanMode::Apply }
    }
}

async fn wanted<C>(
    client: &HumanClient,
    epic: EpicId,
    change_args: PlanChangeArgs,
    mode: PlanMode,
    what: C,
) -> CliResult<Wanted<C>> {
    let base = match change_args.base {
        Some(base) => base,
        None => {
            let wanted = [Select::One(RecordKey::Plan(epic))];
            let snapshot = StateSnapshot::read(&client.bus, &wanted).await?;
            snapshot.records.plans.get(&epic).ok_or_else(|| no_plan_of(epic))?.version
        }
    };
    let (base_version, reason) = (Some(base), change_args.reason);
    Ok(Wanted { epic, mode, base_version, reason, replaces: None, what: Ok(what) })
}

async fn ask(context: &Context, client: &HumanClient, epic: EpicId, op: PlanOp) -> CliResult {
    let reply = client.operate(&Op::Plan(op)).await;
    told(context, reply, epic)
}

/// Says what came of it, and where to look when it was refused.
pub(super) fn told(context: &Context, reply: CliResult<OpReply>, epic: EpicId) -> CliResult {
    let reply = reply.map_err(|error| {
        if error.code == Code::Conflict {
            error.hint(format!("`tetrarch plan history {epic}` shows what moved"))
        } else {
            error
        }
    })?;
    let version = reply.version.map(|version| format!("version {version}: ")).unwrap_or_default();
    let helps = unblocking(&reply, epic);
    let helps: String =
        helps.iter().map(|words| format!("\n  next: {}", context.command(words))).collect();
    let said = format!("{version}{}{helps}", reply.detail);
    report(context, &reply, &said)
}

/// The commands that have redefined leaves tried again which the change left blocked, with no attempt to spare.
fn unblocking(reply: &OpReply, epic: EpicId) -> Vec<String> {
    let data = reply.data.as_deref().and_then(|data| serde_json::from_str::<Value>(data).ok());
    let blocked = data.as_ref().and_then(|data| data.get("blocked")?.as_array());
    let leaves = blocked.into_iter().flatten().filter_map(Value::as_str);
    leaves.map(|leaf| format!("work unblock {epic}/{leaf}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaf_left_blocked_by_a_change_is_answered_with_its_unblocking() {
        let epic: EpicId = "goal_01JD8Z5W6T4QK3M9X2V7B1N0AC".parse().unwrap();
        let reply =
            |data: Option<&str>| OpReply { data: data.map(str::to_owned), ..OpReply::default() };
        let said = unblocking(&reply(Some(r#"{"blocked":["T1.1","S1.2.1"]}"#)), epic);
        let wanted = ["T1.1", "S1.2.1"].map(|leaf| format!("work unblock {epic}/{leaf}"));
        assert_eq!(said, wanted);
        assert!(unblocking(&reply(None), epic).is_empty());
    }
}
