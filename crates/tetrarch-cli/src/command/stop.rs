//! `stop`: ends one agent with all below it and waits until the ledger says it is terminated.
//! Sub-agents are asked to stop at a boundary; projects' and people's orchestrators end at once.

use std::time::Duration;

use futures::StreamExt;
use serde_json::json;
use tetrarch_bus::state::Select;
use tetrarch_bus::subject::pattern::LEDGER;
use tetrarch_core::agent::Agent;
use tetrarch_core::duration;
use tetrarch_core::id::AgentId;
use tetrarch_core::ledger::{Record, RecordKey};
use tetrarch_core::liveness::Liveness;
use tetrarch_core::request::Op;
use tetrarch_core::role::Role;
use tetrarch_core::time::Millis;

use crate::output;
use crate::{CliError, CliResult, Code, Context, HumanClient, StateSnapshot};

/// How long the owner may take to say that it is over, besides the kill ladder.
const TOLD_WITHIN: Millis = Millis::from_secs(25);

/// Arguments of `stop`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tetrarch stop W:01JD8Z5W6T4QK3M9X2V7B1N0AC --reason 'wrong branch'
  tetrarch stop PO-demo

The agent's descendants stop first. Each agent has the time of runs.drain (default 30s) to reach a
safe point; then its processes are killed.

Exit codes: 3 agent not found; 5 the agent has already ended.")]
pub(crate) struct StopArgs {
    /// The agent.
    agent: AgentId,
    /// The reason, for the ledger.
    #[arg(long, default_value = "a human asked")]
    reason: String,
    /// The longest wait for the end of the agent, such as 90s.
    #[arg(long, value_parser = duration::parse)]
    timeout: Option<Millis>,
}

/// Runs the command.
///
/// # Errors
/// No such agent (3); it is terminated already (5); it does not end in time.
pub(crate) async fn run(context: &Context, args: StopArgs) -> CliResult {
    let client = context.client().await?;
    // Read before the order is sent: what it causes comes after this entry.
    let last = client.bus.stream_last_seq(LEDGER).await?;
    let agent = current(&client, &args.agent).await?;
    order(&client, &agent, &args.reason).await?;
    let stop = context.config.policy.deadlines.stop;
    let ladder =
        Millis(stop.drain.0.saturating_add(stop.kill_grace.0).saturating_add(TOLD_WITHIN.0));
    let within = args.timeout.unwrap_or(ladder);
    let ended = ending(&client, last + 1, &agent);
    let ended = tokio::time::timeout(Duration::from_millis(within.0), ended).await;
    let Ok(ended) = ended else {
        let what = format!("{} has not ended within {}", agent.id, duration::print(within));
        let hint = format!("see `tetrarch describe {}`", agent.id);
        return Err(CliError::new(Code::Failed, what).hint(hint));
    };
    let value = json!({
        "agent": ended.id.to_string(),
        "session": agent.session.map(|session| session.to_string()),
        "liveness": ended.liveness.as_str(),
        "reason": ended.reason,
    });
    output::record(context.output, &value, || {
        format!("{} {}: {}\n", ended.id, ended.liveness, output::visible(&ended.reason))
    })
}

/// An agent that there is, or was: looked up before a person is asked whether they are sure.
///
/// # Errors
/// No such agent (3); the bus is away.
pub(super) async fn known(client: &HumanClient, id: &AgentId) -> CliResult<Agent> {
    let wanted = [Select::One(RecordKey::Agent(id.clone()))];
    let mut snapshot = StateSnapshot::read(&client.bus, &wanted).await?;
    let (what, list) = if let AgentId::Ho(host) = id {
        (format!("host {host}"), "list hosts with `tetrarch host list`")
    } else {
        (format!("agent {id}"), "list agents with `tetrarch get agents`")
    };
    let none = || CliError::new(Code::NotFound, format!("{what} was not found")).hint(list);
    snapshot.records.agents.remove(id).ok_or_else(none)
}

/// The agent, if there is anything to stop.
async fn current(client: &HumanClient, id: &AgentId) -> CliResult<Agent> {
    let agent = known(client, id).await?;
    if agent.liveness == Liveness::Terminated {
        let what = format!("{id} has already terminated: {}", agent.reason);
        return Err(CliError::new(Code::Conflict, what));
    }
    Ok(agent)
}

/// Asks the owner: it knows what is below, and ends what nobody hears any more.
async fn order(client: &HumanClient, agent: &Agent, reason: &str) -> CliResult {
    match Role::of(&agent.id) {
        Role::Global | Role::Host => {
            let what = format!("{} ends with its process", agent.id);
            Err(CliError::new(Code::Usage, what)
                .hint("stop that `tetrarch serve --global`, `tetrarch host` or `tetrarch up`"))
        }
        Role::Project | Role::Interaction | Role::Specialist | Role::Reviewer | Role::Worker => {
            let (agent, reason) = (agent.id.clone(), reason.to_owned());
            client.operate(&Op::AgentRetire { agent, reason }).await.map(drop)
        }
    }
}

/// Waits until this session is over: terminated, or replaced by the next one.
async fn ending(client: &HumanClient, from: u64, agent: &Agent) -> Agent {
    let mut written = std::pin::pin!(client.written_from(from));
    loop {
        if let Some(Record::Agent(found)) = written.next().await
            && found.id == agent.id
            && (found.liveness == Liveness::Terminated || found.epoch > agent.epoch)
        {
            return *found;
        }
    }
}
