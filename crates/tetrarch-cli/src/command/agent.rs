//! `agent`: adds external agents, with the credential and the lines to start with (spec 02, From
//! outside), has agents go on in their next session (spec 04), and retires them.

use std::path::Path;

use serde_json::json;
use tetrarch_bus::creds::CredentialHolder;
use tetrarch_bus::subject::{OpName, Subject};
use tetrarch_core::agent::Mode;
use tetrarch_core::id::{AgentId, Principal, ProjectName, SessionId};
use tetrarch_core::mail::Lane;
use tetrarch_core::plan::PlacementWish;
use tetrarch_core::request::{Op, ProjectCreate};

use crate::command::get::{self, GetArgs, ListFilter, ResourceKind};
use crate::command::project::{BudgetLimitArgs, ask, mode, report};
use crate::command::{creds, stop};
use crate::output;
use crate::{CliError, CliResult, Code, ConfirmArgs, Context, HumanClient, new_id};

/// Subcommands of `agent`.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "\
Examples:
  tetrarch agent list --project demo
  tetrarch agent add PO-demo --external
  tetrarch agent add PO-demo --external --tools '*' --mode tight
  tetrarch agent rotate W:01JD8Z5W6T4QK3M9X2V7B1N0AC --reason 'its context is full'
  tetrarch agent replace W:01JD8Z5W6T4QK3M9X2V7B1N0AC --reason 'it hangs'
  tetrarch agent retire PO-demo --reason 'moved elsewhere' --yes")]
pub(crate) enum AgentCommand {
    /// List agents, as `tetrarch get agents` does.
    List(ListFilter),
    /// Add an external agent: a program of yours that connects to NATS by itself.
    Add(AgentAddArgs),
    /// Replace an agent's session: kill it and continue from the last checkpoint in a new one.
    #[command(after_help = REPLACE_HELP)]
    Replace {
        /// The agent.
        name: AgentId,
        /// The session to replace; a session that was already replaced is not changed
        /// [default: current session].
        #[arg(long)]
        session: Option<SessionId>,
        /// End the attempt as failed instead; the plan decides whether to retry.
        #[arg(long)]
        give_up: bool,
        /// The reason, for the ledger.
        #[arg(long, default_value = "a human asked")]
        reason: String,
    },
    /// Rotate an agent: write a checkpoint and continue in a new session.
    #[command(after_help = ROTATE_HELP)]
    Rotate {
        /// The agent.
        name: AgentId,
        /// The reason, for the ledger and the program.
        #[arg(long, default_value = "a human asked")]
        reason: String,
    },
    /// Retire an agent and its children for good.
    Retire {
        /// The agent.
        name: AgentId,
        /// The reason, for the ledger.
        #[arg(long, default_value = "a human asked")]
        reason: String,
        /// Do not ask for confirmation.
        #[command(flatten)]
        confirm: ConfirmArgs,
    },
}

const REPLACE_HELP: &str = "\
The agent keeps its name, its place in the tree, its work and its budget. The replacement does not
count towards restart intensity. While no host can take the agent, it stays offline.

Exit codes: 3 agent or session not found; 5 the agent has ended or is being stopped.";

const ROTATE_HELP: &str = "\
The program reads a `rotate` line and has the time of `runs.drain` (default 30s) to write a
checkpoint and end; then its processes are killed. A program that sends its result instead has
finished. The protocol is described in docs/stdio-protocol.md.

Exit codes: 3 agent not found; 5 the agent has no working session.";

/// Arguments of `agent add`.
#[derive(Debug, clap::Args)]
pub(crate) struct AgentAddArgs {
    /// The agent's name, such as PO-demo.
    name: AgentId,
    /// The agent connects to the bus by itself.
    #[arg(long)]
    external: bool,
    /// The delegation mode of its project: solo, tight or orchestrator.
    #[arg(long, value_parser = mode)]
    mode: Option<Mode>,
    /// The tools its agents may use, separated by commas; * allows all.
    #[arg(long, value_delimiter = ',')]
    tools: Vec<String>,
    /// The project's budget.
    #[command(flatten)]
    budget: BudgetLimitArgs,
}

/// Runs the command.
///
/// # Errors
/// The name cannot be added; the owner refuses, or does not answer.
pub(crate) async fn run(context: &Context, command: AgentCommand) -> CliResult {
    match command {
        AgentCommand::List(filter) => {
            get::run(context, GetArgs::of(ResourceKind::Agents, filter)).await
        }
        AgentCommand::Add(args) => add(context, args).await,
        AgentCommand::Replace { name, session, give_up, reason } => {
            let client = context.client().await?;
            let session = match session {
                Some(session) => session,
                None => present(&client, &name).await?,
            };
            let op = Op::AgentReplace { agent: name.clone(), session, give_up, reason };
            let reply = client.operate(&op).await?;
            let what = if give_up { "given up" } else { "replaced" };
            report(context, &reply, &format!("{name} is {what}: {}", reply.detail))
        }
        AgentCommand::Rotate { name, reason } => {
            let op = Op::AgentRotate { agent: name.clone(), reason };
            ask(context, &op, |reply| format!("{name} is rotated: {}", reply.detail)).await
        }
        AgentCommand::Retire { name, reason, confirm } => {
            let client = context.client().await?;
            stop::known(&client, &name).await?;
            confirm.to(&format!("retire {name} and its descendants for good"))?;
            let said = format!("{name} retired");
            let op = Op::AgentRetire { agent: name.clone(), reason };
            let reply = client.operate(&op).await?;
            creds::retired(context, name).await?;
            report(context, &reply, &said)
        }
    }
}

/// The session that an agent has now.
async fn present(client: &HumanClient, agent: &AgentId) -> CliResult<SessionId> {
    let reply = client.operate(&Op::AgentStatus { agent: agent.clone() }).await?;
    reply.session.ok_or_else(|| {
        let what = format!("{agent} has no session yet");
        CliError::new(Code::Conflict, what).hint("it gets one when it registers")
    })
}

/// The project of an agent that can be added.
fn addable(args: &AgentAddArgs) -> CliResult<ProjectName> {
    let AgentAddArgs { name, external, .. } = args;
    let refused = |what: String, hint: &str| Err(CliError::new(Code::Usage, what).hint(hint));
    let project = match name {
        AgentId::Po(project) => project.clone(),
        AgentId::Go | AgentId::Ho(_) => {
            let what = format!("{name} cannot be external: it is a part of Tetrarch");
            return refused(
                what,
                "start `tetrarch up`, `tetrarch serve --global` or `tetrarch host`",
            );
        }
        AgentId::Io(_) => {
            let what = format!("{name} cannot be added: it is created when its human joins");
            return refused(what, "add a project's orchestrator, PO-<project>");
        }
        AgentId::Specialist(..) | AgentId::Reviewer(..) | AgentId::Worker(_) => {
            let what = format!("{name} cannot be added: sub-agents are created by spawn requests");
            return refused(what, "request one, see `tetrarch spawn --help`");
        }
    };
    if !external {
        let what = format!("{name} would be a hosted agent, which `agent add` does not create");
        let hint = format!("create it with `tetrarch project create {project}`, or add --external");
        return refused(what, &hint);
    }
    Ok(project)
}

async fn add(context: &Context, args: AgentAddArgs) -> CliResult {
    let project = addable(&args)?;
    if let Some(file) = &context.config.bus.credentials {
        let what = format!(
            "cannot issue a credential for {} with {}: only the installation that started the bus can",
            args.name,
            file.display()
        );
        let hint = "run this on the machine that runs `tetrarch up`";
        return Err(CliError::new(Code::Denied, what).hint(hint));
    }
    let op = Op::ProjectCreate(ProjectCreate {
        project,
        mode: args.mode.unwrap_or(context.config.mode),
        external: true,
        tools: args.tools.into_iter().collect(),
        budget: args.budget.into(),
        local_max_depth: None,
        placement: PlacementWish::default(),
    });
    let name = args.name;
    let reply = context.client().await?.operate(&op).await?;
    let file = creds::issued(context, &CredentialHolder::External(name.clone()))?;
    let url = context.urls()?.join(",");
    let ca = context.tls_ca();
    let lines = first_lines(&name, &url, &file, ca.as_deref());
    let value = json!({
        "agent": name.to_string(),
        "liveness": reply.liveness.map(|state| state.as_str()),
        "credentials": file.display().to_string(),
        "url": url,
        "tlsCa": ca,
        "start": lines,
    });
    output::record(context.output, &value, || {
        let start: String = lines.iter().map(|line| format!("  {line}\n")).collect();
        let ca = ca.map_or_else(String::new, |ca| format!("tls ca       {}\n", ca.display()));
        format!(
            "{name} added; it becomes active with its first heartbeat\n\ncredentials  {}\n\
             url          {url}\n{ca}\nstart with\n{start}",
            file.display()
        )
    })
}

/// What a program does first, with nothing but a NATS client: listen, register, show that it
/// lives.
fn first_lines(name: &AgentId, url: &str, file: &Path, ca: Option<&Path>) -> Vec<String> {
    let ca = ca.map_or_else(String::new, |ca| format!(" --tlsca '{}'", ca.display()));
    let nats = format!("nats --server '{url}' --creds '{}'{ca}", file.display());
    let me = Principal::Agent(name.clone());
    let inbox = Subject::inbox(Lane::Mail, &me);
    let register = Subject::Op { op: OpName::of(&Op::AgentRegister), from: me, via: None };
    let heartbeat = Subject::Heartbeat(name.clone());
    let request = json!({"requestId": new_id().to_string()});
    // The session is in the reply to the registration.
    let vitals = json!({"session": "<session>", "epoch": 1});
    vec![
        format!("{nats} sub '{inbox}'"),
        format!("{nats} pub {register} '{request}'"),
        format!("{nats} pub {heartbeat} '{vitals}'"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(name: &str, external: bool) -> AgentAddArgs {
        AgentAddArgs {
            name: name.parse().unwrap(),
            external,
            mode: None,
            tools: Vec::new(),
            budget: BudgetLimitArgs::default(),
        }
    }

    #[test]
    fn only_project_orchestrators_are_added() {
        assert_eq!(addable(&args("PO-demo", true)).unwrap().as_str(), "demo");
        for (name, external) in [
            ("GO", true),
            ("HO@box", true),
            ("IO@ada", true),
            ("W:01JD8Z5W6T4QK3M9X2V7B1N0AC", true),
            ("PO-demo", false),
        ] {
            let error = addable(&args(name, external)).unwrap_err();
            assert_eq!(error.code, Code::Usage, "{name}");
            assert!(error.hint.is_some(), "{name}");
        }
    }

    #[test]
    fn printed_example_uses_the_agents_own_subjects() {
        let lines = first_lines(&"PO-demo".parse().unwrap(), "nats://x:1", Path::new("/c"), None);
        for (line, words) in lines.iter().zip(["sub", "register", "hb"]) {
            assert!(line.contains(words) && line.contains("PO-demo"), "{line}");
        }
    }
}
