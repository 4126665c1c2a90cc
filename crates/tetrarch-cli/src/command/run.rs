//! `tetrarch run <plan>`: brings a fleet up if none is there, gives the plan to it, follows it
//! and exits by its outcome.

pub(super) mod fleet;
mod follow;
mod prepare;
mod profiles;
mod progress;
mod summary;
mod watching;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tetrarch_bus::codec;
use tetrarch_bus::state::Select;
use tetrarch_bus::subject::OpName;
use tetrarch_bus::subject::pattern::LEDGER;
use tetrarch_core::brief::Tools;
use tetrarch_core::budget::Limits;
use tetrarch_core::id::{AgentId, EpicId, NodeId, ProjectName};
use tetrarch_core::ledger::RecordKey;
use tetrarch_core::liveness::Liveness;
use tetrarch_core::mail::OpReply;
use tetrarch_core::obstacle::Obstacle;
use tetrarch_core::plan::PlacementWish;
use tetrarch_core::plan::schema::PlanFile;
use tetrarch_core::request::{Op, ProjectCreate};
use tetrarch_telemetry::{invoke_workflow, trace};

use crate::obstacles;
use crate::output::{self, say, visible};
use crate::{CliError, CliResult, Code, Context, HumanClient, StateSnapshot, new_id};
use follow::{FollowOutcome, GoalFollower};
pub(super) use prepare::{Prepared, prepared, read_profiles};
pub(super) use profiles::of_project;

/// How long the summary of a run that was interrupted may take.
const PARTING: Duration = Duration::from_secs(5);
/// The project of a plan that names none.
pub(super) const PROJECT: &str = "main";
/// What is said before commands that need a fleet, when the fleet ends with this command.
const AGAIN: &str = "the fleet stops with this command; start it again with `tetrarch up`, then run the other commands";
/// What is said then of a goal that is not over.
const AGAIN_CONTINUES: &str =
    "the fleet stops with this command; `tetrarch up` starts it again and continues the goal";
/// Between two lines of what to do next.
const NEXT_LINE: &str = "\n        ";

/// Runs a plan and follows it to its end.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tetrarch run plan.yaml\n  tetrarch run plan.yaml --project site -- path/to/repository\n  tetrarch run --goal 'say what the log is about' --profiles profiles.yaml\n  tetrarch run plan.yaml --detach          # on the running fleet; then tetrarch attach @last\n\nA goal without a plan is planned by the configured planner ([planner]); without a planner it\nbecomes one task. Work that no profile can do is refused before anything starts.\n\nExit codes: 0 goal completed; 1 unfinished work remains that nothing can continue."
)]
pub(crate) struct RunArgs {
    /// The plan file: YAML, TOML or JSON; `-` reads YAML or JSON from standard input.
    #[arg(required_unless_present = "goal")]
    plan: Option<PathBuf>,
    /// A goal in one line instead of a plan file.
    #[arg(long, conflicts_with = "plan")]
    goal: Option<String>,
    /// A file of profiles to add to the plan's own: a mapping from names to profiles.
    #[arg(long, value_name = "FILE")]
    profiles: Option<PathBuf>,
    /// The project that works on the goal [default: the plan's project, or `main`].
    #[arg(long)]
    project: Option<String>,
    /// Keep waiting when the remaining work needs a person.
    #[arg(long)]
    wait: bool,
    /// Print only the result.
    #[arg(long, short)]
    quiet: bool,
    /// Submit the plan to the running fleet, print the goal's id and exit.
    #[arg(short, long, conflicts_with_all = ["wait", "quiet"])]
    detach: bool,
    /// Arguments for the plan's programs, passed as TETRARCH_ARGS.
    #[arg(last = true)]
    arguments: Vec<String>,
}

/// Runs the command.
///
/// # Errors
/// The plan is wrong, the fleet cannot be brought up, the goal is not reached.
pub(crate) async fn run(context: &Context, args: RunArgs) -> CliResult {
    let profiles = args.profiles.as_deref();
    let mut prepared =
        prepared(args.plan.as_deref(), args.goal.as_deref(), profiles, &args.arguments)?;
    let project = project_name(args.project.as_deref(), &prepared.plan)?;
    if fleet::is_new(context) {
        profiles::require(None, &prepared.plan, &project).await?;
    }
    prepared.describe_repository().await;
    if args.detach {
        return detached(context, &prepared, &project).await;
    }
    let (client, own) = fleet::ensure(context, &prepared).await?;
    let outcome = execute(context, &client, own.is_some(), &args, &prepared, &project).await;
    // A connection that outlives its bus complains about it.
    drop(client);
    if let Some(fleet) = own {
        fleet.stop().await?;
    }
    outcome
}

/// Arguments of `attach`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tetrarch run plan.yaml --detach
  tetrarch attach @last
  tetrarch attach site --quiet > result.txt

Shows the goal from its start and exits like `tetrarch run`. Ctrl-C stops the output, not the goal.")]
pub(crate) struct AttachArgs {
    /// The goal.
    goal: EpicId,
    /// Keep waiting when the remaining work needs a person.
    #[arg(long)]
    wait: bool,
    /// Print only the result.
    #[arg(long, short)]
    quiet: bool,
}

/// Follows a goal that was given already.
///
/// # Errors
/// There is no such goal, it is not reached, the bus is away.
pub(crate) async fn attach(context: &Context, args: AttachArgs) -> CliResult {
    let AttachArgs { goal, wait, quiet } = args;
    let (client, started) = (context.client().await?, Instant::now());
    let key = RecordKey::Goal(goal);
    let snapshot = StateSnapshot::read(&client.bus, &[Select::One(key.clone())]).await?;
    let Some(known) = snapshot.records.goals.get(&goal) else {
        return Err(CliError::new(Code::NotFound, format!("goal {goal} was not found"))
            .hint("`tetrarch goal list --all` lists goals"));
    };
    let from = snapshot.sequence(&key).saturating_sub(1);
    let given = StartedGoal { epic: goal, from, started, is_own: false };
    name_it(context, goal, &known.spec.title, quiet)?;
    follow(context, &client, &given, wait, quiet).await
}

/// Gives a plan to the fleet that is up, and leaves it to it.
async fn detached(context: &Context, prepared: &Prepared, project: &ProjectName) -> CliResult {
    let Some(client) = fleet::running(context).await? else {
        let what = "no fleet is running that continues after this command";
        return Err(CliError::new(Code::BusUnreachable, what)
            .hint("start one with `tetrarch up` in another terminal, then repeat the command"));
    };
    prepared.warn_of_here(context, &client);
    create_project(&client, &prepared.plan, project).await?;
    let reply =
        give_goal(&client, &prepared.document.value, project, trace::of_environment()).await?;
    let epic = named(&reply)?;
    let next = format!("follow it with {}", context.command(&format!("attach {epic}")));
    output::record(context.output, &json!({"goal": epic.to_string()}), || format!("{epic}\n"))?;
    if !output::is_for_programs(context.output) {
        say(&next);
    }
    Ok(())
}

/// A goal that was given.
struct StartedGoal {
    epic: EpicId,
    /// The ledger's last sequence before.
    from: u64,
    started: Instant,
    /// Whether the fleet ends with this command.
    is_own: bool,
}

fn named(reply: &OpReply) -> CliResult<EpicId> {
    reply.epic.ok_or_else(|| CliError::new(Code::Failed, "the owner's answer names no goal"))
}

/// Says what is followed, so that it can be named from elsewhere.
fn name_it(context: &Context, epic: EpicId, title: &str, quiet: bool) -> CliResult {
    if output::is_for_programs(context.output) {
        let told = json!({"event": "goal", "goal": epic.to_string(), "title": title});
        output::item(context.output, &told, "")?;
    } else if !quiet {
        say(&format!("{epic}  {}", output::visible(title)));
    }
    Ok(())
}

/// The project that is to work on a plan: the one that was named, the plan's own, or `main`.
///
/// # Errors
/// The name cannot be one.
pub(super) fn project_name(named: Option<&str>, plan: &PlanFile) -> CliResult<ProjectName> {
    match (named, &plan.project) {
        (Some(name), _) => ProjectName::new(name),
        (None, Some(name)) => Ok(name.clone()),
        (None, None) => ProjectName::new(PROJECT),
    }
    .map_err(CliError::usage)
}

async fn execute(
    context: &Context,
    client: &HumanClient,
    is_own: bool,
    args: &RunArgs,
    prepared: &Prepared,
    project: &ProjectName,
) -> CliResult {
    let started = Instant::now();
    let from = client.bus.stream_last_seq(LEDGER).await?;
    let (span, caller) = (invoke_workflow("plan"), trace::of_environment());
    trace::follow(&span, caller.as_deref());
    let trace = trace::onward(&span, caller.as_deref());
    create_project(client, &prepared.plan, project).await?;
    let reply = give_goal(client, &prepared.document.value, project, trace).await?;
    let epic = named(&reply)?;
    name_it(context, epic, &prepared.plan.goal.title, args.quiet)?;
    let given = StartedGoal { epic, from, started, is_own };
    let outcome = follow(context, client, &given, args.wait, args.quiet).await;
    drop(span);
    outcome
}

/// Follows a goal to its end, prints what it came to, and exits by it.
async fn follow(
    context: &Context,
    client: &HumanClient,
    given: &StartedGoal,
    wait: bool,
    quiet: bool,
) -> CliResult {
    let StartedGoal { epic, from, started, is_own } = *given;
    let mut follower = GoalFollower::new(quiet, started, context.output);
    let ending = follower.follow(context, client, epic, wait).await?;
    let report = follower.result().cloned();
    drop(follower);
    let report = report.as_ref();
    let summary = summary::print(context, client, epic, from, started.elapsed(), report, quiet);
    if matches!(ending, FollowOutcome::Interrupted) {
        // Whoever gives up waiting does not wait for a bus that is away.
        let _incomplete = tokio::time::timeout(PARTING, summary).await;
    } else {
        summary.await?;
    }
    let mut undecided = Vec::new();
    let (outcome, ended) = match ending {
        FollowOutcome::Completed(waiting) => {
            undecided = waiting;
            ("completed", Ok(()))
        }
        FollowOutcome::Cancelled => {
            ("cancelled", Err(CliError::new(Code::Failed, "the goal was cancelled")))
        }
        FollowOutcome::Stuck(list, present) => {
            ("stuck", Err(stuck(context, epic, is_own, &list, &present)))
        }
        FollowOutcome::Interrupted => {
            let who = if is_own { AGAIN_CONTINUES } else { "a running fleet continues the goal" };
            let shown = format!("{who}; see `tetrarch plan show {epic}`");
            let interrupted = CliError::new(Code::Interrupted, "interrupted");
            ("interrupted", Err(interrupted.hint(shown)))
        }
    };
    if output::is_for_programs(context.output) {
        let told = json!({
            "event": "end",
            "goal": epic.to_string(),
            "outcome": outcome,
            "exit": ended.as_ref().err().map_or(0, |error| error.code as u8),
            "milliseconds": u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            "result": report.map(summary::value),
            "error": ended.as_ref().err().map(|error| error.what.as_str()),
            "waiting": undecided.iter().map(|it| obstacles::value(context, it)).collect::<Vec<_>>(),
        });
        output::item(context.output, &told, "")?;
    } else if !quiet {
        undecided.iter().for_each(|it| say(&waiting(context, it, is_own)));
    }
    ended
}

/// What a goal that is reached leaves to be decided, with what to type.
fn waiting(context: &Context, obstacle: &Obstacle, is_own: bool) -> String {
    let up = is_own.then(|| format!("{AGAIN}{NEXT_LINE} {}", context.command("up")));
    let lines = up.into_iter().chain(obstacles::commands(context, obstacle));
    let next = lines.map(|line| format!("{NEXT_LINE} {line}")).collect::<String>();
    format!("Waits    {}{next}", visible(&obstacle.what))
}

/// Nothing goes on by itself: what is in the way, what else is unsettled, and what helps.
fn stuck(
    context: &Context,
    epic: EpicId,
    is_own: bool,
    unsettled: &[(NodeId, String)],
    present: &[Obstacle],
) -> CliError {
    let in_the_way =
        present.iter().map(|it| format!("\n  {} (holds up {})", visible(&it.what), it.holds_up));
    let told = |node: &NodeId| present.iter().any(|it| it.nodes.contains(&(epic, *node)));
    let rest = unsettled.iter().filter(|(node, _)| !told(node));
    let rest = rest.map(|(_, line)| format!("\n  {line}"));
    let what: String = in_the_way.chain(rest).collect();
    let up = is_own.then(|| format!("{AGAIN}{NEXT_LINE}{}", context.command("up")));
    let helps = present.iter().flat_map(|obstacle| obstacles::commands(context, obstacle));
    let shown = context.command(&format!("plan show {epic}"));
    let mut next: Vec<String> = Vec::new();
    for line in up.into_iter().chain(helps).chain([shown]) {
        if !next.contains(&line) {
            next.push(line);
        }
    }
    CliError::new(Code::Failed, format!("unfinished work cannot continue by itself:{what}"))
        .hint(next.join(NEXT_LINE))
}

/// The project with the tools its plan names; one that exists already is used as it is, but for the profiles that
/// the plan brings otherwise. None is made for work that no profile can do.
///
/// # Errors
/// A profile is missing; the owner refuses, or does not answer.
pub(super) async fn create_project(
    client: &HumanClient,
    plan: &PlanFile,
    project: &ProjectName,
) -> CliResult {
    profiles::require(Some(client), plan, project).await?;
    // Not everybody who may give goals may make projects.
    let wanted = [Select::One(RecordKey::Agent(AgentId::Po(project.clone())))];
    let agents = StateSnapshot::read(&client.bus, &wanted).await?.0.records.agents;
    if agents.values().any(|orchestrator| orchestrator.liveness != Liveness::Terminated) {
        return profiles::apply_changed(client, plan, project).await;
    }
    let of_profiles = plan.profiles.iter().flat_map(|profile| profile.tools.names());
    let of_nodes = plan.nodes.iter().flat_map(|node| node.tools.names());
    let tools: Tools = of_profiles.chain(of_nodes).collect();
    let create = Op::ProjectCreate(ProjectCreate {
        project: project.clone(),
        mode: plan.mode.unwrap_or_default(),
        external: false,
        tools,
        budget: Limits::default(),
        local_max_depth: None,
        placement: PlacementWish::default(),
    });
    match client.operate(&create).await {
        Ok(_) => {}
        Err(error) if error.code == Code::Conflict => {}
        Err(error) => return Err(error),
    }
    profiles::apply_changed(client, plan, project).await
}

/// Gives a goal with the plan of this document.
///
/// # Errors
/// The owner refuses, or does not answer.
pub(super) async fn give_goal(
    client: &HumanClient,
    document: &Value,
    project: &ProjectName,
    trace: Option<String>,
) -> CliResult<OpReply> {
    let id = new_id();
    let payload = codec::encode_goal_create(id, project, document).map_err(CliError::usage)?;
    let op: OpName = "goal.create".parse().map_err(CliError::failed)?;
    client.ask(op, id, payload, trace).await
}
