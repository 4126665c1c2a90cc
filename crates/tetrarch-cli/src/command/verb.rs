//! `steer`, `interrupt`, `pause`, `resume`: asks the owner for a verb and tells its receipts as they
//! come (spec 06, The three verbs).

use std::time::Duration;

use clap::ValueEnum;
use futures::StreamExt;
use serde_json::json;
use tetrarch_bus::codec::encode_op;
use tetrarch_bus::subject::OpName;
use tetrarch_bus::subject::pattern::LEDGER;
use tetrarch_core::duration;
use tetrarch_core::id::{AgentId, RequestId};
use tetrarch_core::ledger::Record;
use tetrarch_core::request::Op;
use tetrarch_core::request::verbs::VerbOp;
use tetrarch_core::time::{BusTime, Millis};
use tetrarch_core::verb::{Receipt, Stage, Wanted};

use crate::output::{self, StdoutReader, stamp};
use crate::{CliError, CliResult, Code, Context, HumanClient, new_id};

/// How far to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Until {
    /// Until the program received it.
    Delivered,
    /// Until it took effect.
    Effective,
    /// Do not wait.
    None,
}

/// How to wait for the receipts of a verb.
#[derive(Debug, clap::Args)]
pub(crate) struct VerbWaitArgs {
    /// The receipt to wait for.
    #[arg(long, value_enum, default_value_t = Until::Effective)]
    wait: Until,
    /// The longest wait, such as 90s.
    #[arg(long, value_parser = duration::parse, default_value = "30s")]
    timeout: Millis,
}

/// Arguments of `steer`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tetrarch steer W:01JD8Z5W6T4QK3M9X2V7B1N0AC 'use metres, not feet'
  tetrarch steer W:01JD8Z5W6T4QK3M9X2V7B1N0AC 'go on with part two' --wait delivered

The text is put before the agent's next step; the current step is not interrupted. One line is
printed for each receipt: queued (committed), delivered (the program received it), effective (the
program took it in). A program that does not support steering refuses it. A program that never
confirms it stays at delivered.

Exit codes: 3 agent not found; 5 the agent has no run that can take it.")]
pub(crate) struct SteerArgs {
    /// The agent.
    agent: AgentId,
    /// The instruction, at most 16 KiB.
    text: String,
    /// How long to wait for receipts.
    #[command(flatten)]
    waiting: VerbWaitArgs,
}

/// Arguments of `interrupt`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tetrarch interrupt W:01JD8Z5W6T4QK3M9X2V7B1N0AC --reason 'it is on the wrong branch'
  tetrarch steer W:01JD8Z5W6T4QK3M9X2V7B1N0AC 'on main, please'

The current turn is aborted; session, context and finished work are kept. The run then waits for a
steer or an answer.

Exit codes: 3 agent not found; 5 the agent is not working.")]
pub(crate) struct InterruptArgs {
    /// The agent.
    agent: AgentId,
    /// The reason, for the ledger and the program.
    #[arg(long, default_value = "a human asked")]
    reason: String,
    /// How long to wait for receipts.
    #[command(flatten)]
    waiting: VerbWaitArgs,
}

/// Arguments of `pause` and `resume`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tetrarch pause W:01JD8Z5W6T4QK3M9X2V7B1N0AC
  tetrarch resume W:01JD8Z5W6T4QK3M9X2V7B1N0AC

All processes of a paused run are frozen, unless the program pauses by itself. Its wall clock
stops too. Its sub-agents go on. A replacement of a paused agent starts paused.

Exit codes: 3 agent not found; 5 the agent is not working, already paused, or not paused.")]
pub(crate) struct PauseArgs {
    /// The agent.
    agent: AgentId,
    /// How long to wait for receipts.
    #[command(flatten)]
    waiting: VerbWaitArgs,
}

/// Runs `steer`.
///
/// # Errors
/// The owner or the program refuses; no receipt in time.
pub(crate) async fn steer(context: &Context, args: SteerArgs) -> CliResult {
    let SteerArgs { agent, text, waiting } = args;
    ask(context, VerbOp { agent, wanted: Wanted::Steer { text } }, waiting).await
}

/// Runs `interrupt`.
///
/// # Errors
/// The owner or the program refuses; no receipt in time.
pub(crate) async fn interrupt(context: &Context, args: InterruptArgs) -> CliResult {
    let InterruptArgs { agent, reason, waiting } = args;
    ask(context, VerbOp { agent, wanted: Wanted::Interrupt { reason } }, waiting).await
}

/// Runs `pause`.
///
/// # Errors
/// The owner or the program refuses; no receipt in time.
pub(crate) async fn pause(context: &Context, args: PauseArgs) -> CliResult {
    ask(context, VerbOp { agent: args.agent, wanted: Wanted::Pause }, args.waiting).await
}

/// Runs `resume`.
///
/// # Errors
/// The owner or the program refuses; no receipt in time.
pub(crate) async fn resume(context: &Context, args: PauseArgs) -> CliResult {
    ask(context, VerbOp { agent: args.agent, wanted: Wanted::Resume }, args.waiting).await
}

async fn ask(context: &Context, op: VerbOp, waiting: VerbWaitArgs) -> CliResult {
    let client = context.client().await?;
    let agent = op.agent.clone();
    // Read before it is asked: what it causes comes after this entry.
    let last = client.bus.stream_last_seq(LEDGER).await?;
    let (id, op) = (new_id(), Op::Verb(op));
    let payload = encode_op(&op, id).map_err(CliError::usage)?;
    let reply = client.ask(OpName::of(&op), id, payload, None).await?;
    if reply.data.is_none() {
        // There is no process that could hear it, and nothing more comes.
        let value = json!({"agent": agent.to_string(), "verb": op.name(), "detail": reply.detail});
        output::item(context.output, &value, &reply.detail)?;
        return Ok(());
    }
    let mut told = VerbProgress { context, agent: &agent, id, last: None };
    let seen = told.follow(&client, last + 1, waiting.wait);
    let seen = tokio::time::timeout(Duration::from_millis(waiting.timeout.0), seen).await;
    if let Ok(seen) = seen {
        return seen;
    }
    let stage = told.last.map_or("no receipt yet", Stage::as_str);
    let what = format!(
        "it is {stage}; no further receipt came within {}",
        duration::print(waiting.timeout)
    );
    let hint = format!(
        "a program that never confirms stays at delivered; see `tetrarch describe {agent}`"
    );
    Err(CliError::new(Code::Failed, what).hint(hint))
}

/// What was told of a verb so far.
struct VerbProgress<'a> {
    context: &'a Context,
    agent: &'a AgentId,
    id: RequestId,
    last: Option<Stage>,
}

impl VerbProgress<'_> {
    /// Tells each receipt as the ledger has it, until the one that is waited for.
    async fn follow(&mut self, client: &HumanClient, from: u64, wait: Until) -> CliResult {
        let mut written = std::pin::pin!(client.written_from(from));
        loop {
            let Some(Record::Agent(agent)) = written.next().await else { continue };
            if agent.id != *self.agent {
                continue;
            }
            let found = agent.verbs.receipts.iter().find(|receipt| receipt.id == self.id);
            if let Some(receipt) = found
                && self.tell(receipt, wait)?
            {
                return Ok(());
            }
        }
    }

    /// Tells what is new of it; whether that is all.
    fn tell(&mut self, receipt: &Receipt, wait: Until) -> CliResult<bool> {
        let ended = (receipt.stage, receipt.ended);
        let stages = [
            (Stage::Queued, Some(receipt.queued)),
            (Stage::Delivered, receipt.delivered),
            (Stage::Effective, ended.1.filter(|_| ended.0 == Stage::Effective)),
            (Stage::Refused, ended.1.filter(|_| ended.0 == Stage::Refused)),
        ];
        for (stage, at) in stages {
            let Some(at) = at.filter(|_| self.last.is_none_or(|last| last < stage)) else {
                continue;
            };
            self.last = Some(stage);
            let reader = self.line(receipt, stage, at)?;
            if reader == StdoutReader::Gone {
                return Ok(true);
            }
        }
        if receipt.stage == Stage::Refused {
            let what = format!("{} was refused: {}", receipt.verb.as_str(), receipt.why);
            let hint = "docs/stdio-protocol.md describes how a program supports verbs";
            return Err(CliError::new(Code::Failed, what).hint(hint));
        }
        Ok(match wait {
            Until::None => true,
            Until::Delivered => receipt.stage >= Stage::Delivered,
            Until::Effective => receipt.stage >= Stage::Effective,
        })
    }

    fn line(&self, receipt: &Receipt, stage: Stage, at: BusTime) -> CliResult<StdoutReader> {
        let value = json!({
            "agent": self.agent.to_string(),
            "verb": receipt.verb.as_str(),
            "id": receipt.id.to_string(),
            "stage": stage.as_str(),
            "at": stamp(at),
            "why": receipt.why,
        });
        let line = format!("{:<9} {}", stage.as_str(), stamp(at));
        output::item(self.context.output, &value, &line)
    }
}
