//! The command line's shape. Each command's own arguments stand with the command.

use clap::{CommandFactory, Parser, Subcommand};

use crate::command::{
    acp, advise, agent, answer, artifact, ask, audit, budget, change, chat, circuit, completion,
    config, creds, describe, doctor, down, events, file, get, goal, graph, guard, host, inbox,
    init, insights, logs, mail, man, mcp, note, notify, page, plan, profile, project, replay,
    roster, run, schedule, schema, serve, spawn, status, stop, tick, tree, up, vectors, verb, wait,
    why, work, worktree,
};
use crate::options::GlobalArgs;

/// The commands by purpose (docs/design/08-people.md).
const GROUPS: [(&str, &str); 6] = [
    ("Run", "init up down run attach wait status"),
    ("Goals and plans", "goal plan work insights advise schedule tick"),
    ("Agents", "project profile agent spawn stop steer interrupt pause resume circuit budget"),
    ("People", "ask chat graph inbox answer change approve deny apply mail worktree file note"),
    ("Look", "page roster get describe tree logs why events audit replay artifact"),
    ("Operate", "doctor creds host serve notify mcp acp config completion man schema vectors"),
];
/// Columns before a command's description.
const NAME_WIDTH: usize = 11;

/// The command line, its help in groups.
pub(crate) fn command_line() -> clap::Command {
    let command = with_goals(Args::command());
    let mut help = String::new();
    for (group, names) in GROUPS {
        help.push_str(&format!("\n{group}:\n"));
        let below = names.split(' ').filter_map(|name| command.find_subcommand(name));
        for below in below {
            let about = below.get_about().map(ToString::to_string).unwrap_or_default();
            help.push_str(&format!("  {:<NAME_WIDTH$} {about}\n", below.get_name()));
        }
    }
    let rest = "\nOptions:\n{options}{after-help}\n";
    command
        .help_template(format!("{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{help}{rest}"))
}

/// The command line with goals called so in its usage: their options keep the older word.
fn with_goals(command: clap::Command) -> clap::Command {
    let named = |arg: clap::Arg| if arg.get_id() == "epic" { arg.value_name("GOAL") } else { arg };
    command.mut_args(named).mut_subcommands(with_goals)
}

/// Run fleets of agents as a supervised hierarchy over a message bus.
#[derive(Debug, Parser)]
#[command(
    name = "tetrarch",
    version,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Exit codes: 0 ok, 1 failed, 2 usage, 3 not found, 4 denied, 5 conflict, 6 bus unreachable, 130\ninterrupted."
)]
pub(crate) struct Args {
    /// Options of every command.
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    /// The command.
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Write a commented plan file to start from.
    Init(init::InitArgs),
    /// Run the bus, the owner and a host on this machine.
    Up(up::UpArgs),
    /// Stop the processes that `up` started on this machine.
    Down(down::DownArgs),
    /// Run a plan file and follow it to its end.
    Run(run::RunArgs),
    /// Follow a running goal.
    Attach(run::AttachArgs),
    /// Show the state of the fleet.
    Status(status::StatusArgs),
    /// Run the owner of the ledger (with --global).
    Serve(serve::ServeArgs),
    /// Run the orchestrator of this host.
    Host(host::HostArgs),
    /// Manage credentials: issue, list, rotate, revoke.
    #[command(subcommand)]
    Creds(creds::CredsCommand),
    /// Guard a host's programs. Started by hosts.
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
    /// Show and raise budgets.
    Budget(budget::BudgetArgs),
    /// Watch and direct the fleet on the terminal.
    Roster(roster::RosterArgs),
    /// Serve the page of the fleet to a browser on this machine.
    Page(page::PageArgs),
    /// Tell you by webhook, command or desktop what waits for you.
    Notify(notify::NotifyArgs),
    /// Show events of the ledger.
    Events(events::EventsArgs),
    /// Show, export and verify the audit trail of privileged acts.
    Audit(audit::AuditArgs),
    /// Show the fleet at a time in the past.
    Replay(replay::ReplayArgs),
    /// Show the events that led to the state of an agent, run or node.
    Why(why::WhyArgs),
    /// Start sub-agents for a task.
    Spawn(spawn::SpawnArgs),
    /// Stop an agent.
    Stop(stop::StopArgs),
    /// Send an agent an instruction for its next step.
    Steer(verb::SteerArgs),
    /// Abort an agent's current turn; the agent then waits for input.
    Interrupt(verb::InterruptArgs),
    /// Pause an agent.
    Pause(verb::PauseArgs),
    /// Resume a paused agent.
    Resume(verb::PauseArgs),
    /// Check for stalled work now.
    Tick(tick::TickArgs),
    /// Wait for a goal, run, agent, node or change to reach a state.
    Wait(wait::WaitArgs),
    /// Show the journal of a run.
    Logs(logs::LogsArgs),
    /// List the questions, changes and drafts that wait for you.
    Inbox(inbox::InboxArgs),
    /// Ask for something, and wait for the answer.
    Ask(ask::AskArgs),
    /// Talk with your interaction orchestrator, line by line.
    Chat(chat::ChatArgs),
    /// Check, show, test and apply the graphs that route conversations.
    #[command(subcommand)]
    Graph(graph::GraphCommand),
    /// Answer a question.
    Answer(answer::AnswerArgs),
    /// List and show changes.
    #[command(subcommand)]
    Change(change::ChangeCommand),
    /// Approve a change or a plan draft.
    Approve(change::ChangeApproveArgs),
    /// Deny a change or a plan draft.
    Deny(change::ChangeDenyArgs),
    /// Merge an approved change into its branch.
    Apply(change::ChangeApplyArgs),
    /// List, show and remove the worktrees on this host.
    #[command(subcommand)]
    Worktree(worktree::WorktreeCommand),
    /// List and release file reservations.
    #[command(subcommand)]
    File(file::FileCommand),
    /// List, show, write and delete the notes of a project.
    #[command(subcommand)]
    Note(note::NoteCommand),
    /// Send and read mail.
    #[command(subcommand)]
    Mail(mail::MailCommand),
    /// List and download artifacts.
    #[command(subcommand)]
    Artifact(artifact::ArtifactCommand),
    /// Manage goals: create, list, pause, cancel, archive.
    #[command(subcommand)]
    Goal(goal::GoalCommand),
    /// Manage work items: list, complete, block, unblock.
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
    /// Explain the configuration; print a server's configuration.
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Print JSON Schemas of public messages and files.
    Schema(schema::SchemaArgs),
    /// Print a shell completion script.
    Completion(completion::CompletionArgs),
    /// Serve the commands as tools to an assistant (Model Context Protocol).
    Mcp(mcp::McpArgs),
    /// Serve your conversations to an editor (Agent Client Protocol).
    Acp(acp::AcpArgs),
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
        let mut grouped: Vec<&str> =
            GROUPS.iter().flat_map(|(_, names)| names.split(' ')).collect();
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
