//! The command line's shape. Each command's own arguments stand with the command.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

use crate::command::{
    advise, agent, answer, artifact, budget, change, circuit, config, describe, doctor, events,
    file, get, goal, guard, host, inbox, insights, logs, mail, plan, profile, project, replay, run,
    schedule, schema, serve, spawn, status, stop, tick, tree, up, vectors, verb, why, work,
    worktree,
};

/// Runs fleets of agents as a supervised hierarchy over a message bus.
#[derive(Debug, Parser)]
#[command(
    name = "tetrarch",
    version,
    propagate_version = true,
    after_help = "Exit codes: 0 ok, 1 failed, 2 usage, 3 not found, 4 denied, 5 conflict, 6 bus unreachable, 130 interrupted."
)]
pub(crate) struct Args {
    /// Options of every command.
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct GlobalArgs {
    /// Another configuration file, read last.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Where this installation keeps its bus, credentials and work.
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// A bus that somebody else runs.
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// The credential file to use instead of this installation's.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) credentials: Option<PathBuf>,
    /// The human on whose behalf it is done; your login name unless said.
    #[arg(long = "as", global = true, value_name = "HUMAN")]
    pub(crate) human: Option<String>,
    /// How results are printed.
    #[arg(short, long, global = true, value_enum, default_value_t = Output::Table)]
    pub(crate) output: Output,
    /// What is logged, as in `info` or `tetrarch_engine=debug`.
    #[arg(long, global = true, value_name = "FILTER")]
    pub(crate) log: Option<String>,
}

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// Columns for people.
    Table,
    /// Columns for people, all of them.
    Wide,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run everything on this machine: bus, owner, host.
    Up(up::UpArgs),
    /// Execute a plan file and follow it to its end.
    Run(run::RunArgs),
    /// Show how the installation is.
    Status(status::StatusArgs),
    /// Run the owner of the ledger (with --global).
    Serve(serve::ServeArgs),
    /// Run the orchestrator of this host.
    Host(host::HostArgs),
    /// Stand guard over a host's programs. Hosts start it.
    #[command(hide = true)]
    Guard(guard::GuardArgs),
    /// Add or retire agents.
    #[command(subcommand)]
    Agent(agent::AgentCommand),
    /// Create projects and set their mode.
    #[command(subcommand)]
    Project(project::ProjectCommand),
    /// Let an agent start children again after too many of them died.
    #[command(subcommand)]
    Circuit(circuit::CircuitCommand),
    /// Apply profiles.
    #[command(subcommand)]
    Profile(profile::ProfileCommand),
    /// List agents, hosts, runs, goals or nodes.
    Get(get::GetArgs),
    /// Show everything about one thing.
    Describe(describe::DescribeArgs),
    /// Show agents as a tree.
    Tree(tree::TreeArgs),
    /// Show what agents may spend, and what became of it; raise it.
    Budget(budget::BudgetArgs),
    /// Show what happened, from the ledger.
    Events(events::EventsArgs),
    /// Show the fleet as it was.
    Replay(replay::ReplayArgs),
    /// Show why something is as it is: the events that led there.
    Why(why::WhyArgs),
    /// Ask the governor for agents.
    Spawn(spawn::SpawnArgs),
    /// Stop an agent.
    Stop(stop::StopArgs),
    /// Put a text before an agent's next step.
    Steer(verb::SteerArgs),
    /// Abort an agent's turn; it keeps what it has and waits for a steer.
    Interrupt(verb::InterruptArgs),
    /// Have an agent stand still.
    Pause(verb::PauseArgs),
    /// Let a paused agent go on.
    Resume(verb::PauseArgs),
    /// Have the overseer look at what stands still.
    Tick(tick::TickArgs),
    /// Show what an agent did: the journal of its run.
    Logs(logs::LogsArgs),
    /// List what people are asked.
    Inbox(inbox::InboxArgs),
    /// Answer a question.
    Answer(answer::AnswerArgs),
    /// Show what runs changed and people decide on.
    #[command(subcommand)]
    Change(change::ChangeCommand),
    /// Say yes to a change, or to a draft of a plan.
    Approve(change::ApproveArgs),
    /// Say no to a change, or to a draft of a plan.
    Deny(change::DenyArgs),
    /// Merge a change that is approved.
    Apply(change::ApplyArgs),
    /// Show and remove the worktrees that runs left on this host.
    #[command(subcommand)]
    Worktree(worktree::WorktreeCommand),
    /// Show which paths agents hold, and release them.
    #[command(subcommand)]
    File(file::FileCommand),
    /// Read and write mail.
    #[command(subcommand)]
    Mail(mail::MailCommand),
    /// Get artifacts.
    #[command(subcommand)]
    Artifact(artifact::ArtifactCommand),
    /// Give goals to projects and decide on them.
    #[command(subcommand)]
    Goal(goal::GoalCommand),
    /// See to the work of a goal: done, blocked, urgent.
    #[command(subcommand)]
    Work(work::WorkCommand),
    /// Show which pending work of a goal to take first.
    Advise(advise::AdviseArgs),
    /// Have goals and mail begin at set times.
    #[command(subcommand)]
    Schedule(schedule::ScheduleCommand),
    /// Show plans and their history.
    #[command(subcommand)]
    Plan(plan::PlanCommand),
    /// Show what the shape of a plan says: what holds up what, and what can be done now.
    Insights(insights::InsightsArgs),
    /// Check this machine, the bus and the ledger.
    Doctor(doctor::DoctorArgs),
    /// Explain the configuration.
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Print the JSON Schemas of everything public.
    Schema(schema::SchemaArgs),
    /// Check or run conformance vectors.
    #[command(subcommand)]
    Vectors(vectors::VectorsCommand),
}
