//! The command line's shape. Each command's own arguments stand with the command.

use clap::{CommandFactory, Parser, Subcommand};

use crate::command::{
    advise, agent, answer, artifact, audit, budget, change, circuit, completion, config, creds,
    describe, doctor, down, events, file, get, goal, guard, host, inbox, init, insights, logs,
    mail, man, plan, profile, project, replay, run, schedule, schema, serve, spawn, status, stop,
    tick, tree, up, vectors, verb, wait, why, work, worktree,
};
use crate::options::GlobalArgs;

/// The commands by what one wants to do (spec 08).
const GROUPS: [(&str, &[&str]); 6] = [
    ("Run", &["init", "up", "down", "run", "attach", "wait", "status"]),
    ("Goals and plans", &["goal", "plan", "work", "insights", "advise", "schedule", "tick"]),
    (
        "Agents",
        &[
            "project",
            "profile",
            "agent",
            "spawn",
            "stop",
            "steer",
            "interrupt",
            "pause",
            "resume",
            "circuit",
            "budget",
        ],
    ),
    (
        "People",
        &["inbox", "answer", "change", "approve", "deny", "apply", "mail", "worktree", "file"],
    ),
    ("Look", &["get", "describe", "tree", "logs", "why", "events", "audit", "replay", "artifact"]),
    (
        "Operate",
        &["doctor", "creds", "host", "serve", "config", "completion", "man", "schema", "vectors"],
    ),
];
/// Columns before a command's description.
const NAME_WIDTH: usize = 11;

/// The command line, its help in groups.
pub(crate) fn command_line() -> clap::Command {
    let command = Args::command();
    let mut help = String::new();
    for (group, names) in GROUPS {
        help.push_str(&format!("\n{group}:\n"));
        let below = names.iter().filter_map(|name| command.find_subcommand(name));
        for below in below {
            let about = below.get_about().map(ToString::to_string).unwrap_or_default();
            help.push_str(&format!("  {:<NAME_WIDTH$} {about}\n", below.get_name()));
        }
    }
    let rest = "\nOptions:\n{options}{after-help}\n";
    command
        .help_template(format!("{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{help}{rest}"))
}

/// Runs fleets of agents as a supervised hierarchy over a message bus.
#[derive(Debug, Parser)]
#[command(
    name = "tetrarch",
    version,
    propagate_version = true,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Exit codes: 0 ok, 1 failed, 2 usage, 3 not found, 4 denied, 5 conflict, 6 bus unreachable, 130 interrupted."
)]
pub(crate) struct Args {
    /// Options of every command.
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Write a commented plan to begin with.
    Init(init::InitArgs),
    /// Run everything on this machine: bus, owner, host.
    Up(up::UpArgs),
    /// Stop what `up` runs on this machine.
    Down(down::DownArgs),
    /// Execute a plan file and follow it to its end.
    Run(run::RunArgs),
    /// Follow a goal that was given already.
    Attach(run::AttachArgs),
    /// Show how the fleet is.
    Status(status::StatusArgs),
    /// Run the owner of the ledger (with --global).
    Serve(serve::ServeArgs),
    /// Run the orchestrator of this host.
    Host(host::HostArgs),
    /// Manage credentials: issue, list, rotate, revoke.
    #[command(subcommand)]
    Creds(creds::CredsCommand),
    /// Stand guard over a host's programs. Hosts start it.
    #[command(hide = true)]
    Guard(guard::GuardArgs),
    /// Add, list, replace and retire agents.
    #[command(subcommand)]
    Agent(agent::AgentCommand),
    /// Create, list and retire projects.
    #[command(subcommand)]
    Project(project::ProjectCommand),
    /// Close a circuit that opened after too many failures.
    #[command(subcommand)]
    Circuit(circuit::CircuitCommand),
    /// List, show and apply profiles.
    #[command(subcommand)]
    Profile(profile::ProfileCommand),
    /// List agents, hosts, runs, goals or nodes.
    Get(get::GetArgs),
    /// Show everything about an agent, run, goal, node, project or host.
    Describe(describe::DescribeArgs),
    /// Show agents as a tree.
    Tree(tree::TreeArgs),
    /// Show what agents may spend and have spent; raise it.
    Budget(budget::BudgetArgs),
    /// Show what happened, from the ledger.
    Events(events::EventsArgs),
    /// Show who did what that needs authority; export it and check an export.
    Audit(audit::AuditArgs),
    /// Show the fleet as it was at a time.
    Replay(replay::ReplayArgs),
    /// Show why something is as it is: the events that led there.
    Why(why::WhyArgs),
    /// Start agents for a task of a goal.
    Spawn(spawn::SpawnArgs),
    /// Stop an agent.
    Stop(stop::StopArgs),
    /// Give an agent an instruction before its next step.
    Steer(verb::SteerArgs),
    /// Interrupt an agent's turn; it waits for a steer.
    Interrupt(verb::InterruptArgs),
    /// Pause an agent.
    Pause(verb::PauseArgs),
    /// Resume a paused agent.
    Resume(verb::PauseArgs),
    /// Have the overseer check for stalled work now.
    Tick(tick::TickArgs),
    /// Wait until a goal, a run, an agent, a node or a change is in a state.
    Wait(wait::WaitArgs),
    /// Show what an agent did: the journal of its run.
    Logs(logs::LogsArgs),
    /// List questions, changes and drafts that wait for people.
    Inbox(inbox::InboxArgs),
    /// Answer a question.
    Answer(answer::AnswerArgs),
    /// List and show changes that wait for a decision.
    #[command(subcommand)]
    Change(change::ChangeCommand),
    /// Approve a change, or a draft of a plan.
    Approve(change::ChangeApproveArgs),
    /// Deny a change, or a draft of a plan.
    Deny(change::ChangeDenyArgs),
    /// Merge an approved change into its branch.
    Apply(change::ChangeApplyArgs),
    /// Show and remove the worktrees that runs left on this host.
    #[command(subcommand)]
    Worktree(worktree::WorktreeCommand),
    /// List and release the paths that agents hold.
    #[command(subcommand)]
    File(file::FileCommand),
    /// Read and write mail.
    #[command(subcommand)]
    Mail(mail::MailCommand),
    /// List and get the files that runs stored.
    #[command(subcommand)]
    Artifact(artifact::ArtifactCommand),
    /// Create, list, pause, cancel and archive goals.
    #[command(subcommand)]
    Goal(goal::GoalCommand),
    /// List the work of a goal; call it done, block and unblock it.
    #[command(subcommand)]
    Work(work::WorkCommand),
    /// Rank the pending work of a goal.
    Advise(advise::AdviseArgs),
    /// Schedule goals and mail.
    #[command(subcommand)]
    Schedule(schedule::ScheduleCommand),
    /// Show, change and compare plans.
    #[command(subcommand)]
    Plan(plan::PlanCommand),
    /// Show a plan's critical path, bottlenecks and ready work.
    Insights(insights::InsightsArgs),
    /// Check this machine, the bus and the ledger.
    Doctor(doctor::DoctorArgs),
    /// Explain the configuration; write a server's.
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Print the JSON Schemas of everything public.
    Schema(schema::SchemaArgs),
    /// Print the lines by which a shell completes commands and names.
    Completion(completion::CompletionArgs),
    /// Write manual pages.
    Man(man::ManArgs),
    /// Check or run conformance vectors.
    #[command(subcommand)]
    Vectors(vectors::VectorsCommand),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_visible_command_is_in_one_group() {
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        grouped.sort_unstable();
        let command = Args::command();
        let shown = command.get_subcommands().filter(|below| !below.is_hide_set());
        let mut names: Vec<&str> = shown.map(clap::Command::get_name).collect();
        names.sort_unstable();
        assert_eq!(grouped, names);
    }

    #[test]
    fn every_description_is_one_imperative_sentence() {
        fn check(command: &clap::Command) {
            for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
                let about = below.get_about().map(ToString::to_string).unwrap_or_default();
                let first = about.chars().next();
                assert!(first.is_some_and(char::is_uppercase), "{}: {about:?}", below.get_name());
                assert!(!about.contains('\n'), "{}: {about:?}", below.get_name());
                check(below);
            }
        }
        check(&Args::command());
    }
}
