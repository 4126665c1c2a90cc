//! Entries of a run's journal: JSON, since foreign agents write them too.

use tetrarch_core::brief::RunResult;
use tetrarch_core::budget::Spend;
use tetrarch_core::converse::{Call, Recorded};
use tetrarch_core::cursor::Positions;
use tetrarch_core::journal::{BudgetNote, JournalEntry, JournalEvent};
use tetrarch_core::limits::JOURNAL_ENTRY_BYTES_MAX;

use super::budget;
use super::error::{CodecError, within};
use super::json::{self, Unknown};
use super::{read, verbs};
use crate::proto::v1 as pb;
use crate::proto::v1::journal_entry::Event as E;

/// The body of a journal's entry.
///
/// # Errors
/// An entry of more bytes than allowed.
pub fn encode_journal(entry: &JournalEntry) -> Result<Vec<u8>, CodecError> {
    let message = pb::JournalEntry {
        run: entry.run.to_string(),
        agent: entry.agent.to_string(),
        session: entry.session.to_string(),
        epoch: entry.epoch,
        index: entry.index,
        positions: Some(entry.positions.into()),
        event: Some(written(entry.event.clone())),
    };
    let bytes = json::write("JournalEntry", &message)?;
    within("journal entry", bytes.len(), JOURNAL_ENTRY_BYTES_MAX)?;
    Ok(bytes)
}

/// Reads the body of a journal's entry; unknown fields are skipped.
///
/// # Errors
/// What is wrong, with the field; an event that this version does not know.
pub fn decode_journal(payload: &[u8]) -> Result<JournalEntry, CodecError> {
    within("journal entry", payload.len(), JOURNAL_ENTRY_BYTES_MAX)?;
    let entry: pb::JournalEntry = json::read("JournalEntry", payload, Unknown::Ignored)?;
    let event = entry
        .event
        .ok_or_else(|| CodecError::field("event", "no known entry was found; give exactly one"))?;
    Ok(JournalEntry {
        run: read::text("run", &entry.run)?,
        agent: read::text("agent", &entry.agent)?,
        session: read::text("session", &entry.session)?,
        epoch: entry.epoch,
        index: entry.index,
        positions: entry.positions.map(Positions::from).unwrap_or_default(),
        event: read_event(event)?,
    })
}

fn written(event: JournalEvent) -> E {
    match event {
        JournalEvent::Starting { host } => E::Starting(pb::JournalStarting { host }),
        JournalEvent::Started { pid, isolation } => {
            E::Started(pb::JournalStarted { pid, isolation })
        }
        JournalEvent::Progress { text, done, total } => {
            E::Progress(pb::JournalProgress { text, done, total })
        }
        JournalEvent::Log { text } => E::Log(pb::JournalLog { text }),
        JournalEvent::Usage(usage) => E::Usage(usage.into()),
        JournalEvent::Checkpoint { state } => E::Checkpoint(pb::JournalCheckpoint { state }),
        JournalEvent::Ask { question, options } => E::Ask(pb::JournalAsk { question, options }),
        JournalEvent::Spawn { request } => {
            E::Spawn(pb::JournalSpawn { request: request.to_string() })
        }
        JournalEvent::Mail { topic, from } => E::Mail(pb::JournalMail { topic, from }),
        JournalEvent::Update { update } => E::Update(pb::JournalUpdate { update }),
        JournalEvent::Blocked { reason } => E::Blocked(pb::JournalReason { reason }),
        JournalEvent::Unblocked => E::Unblocked(pb::JournalUnblocked {}),
        JournalEvent::Budget(note) => written_note(note),
        JournalEvent::Verb { id, verb, stage, by, text } => E::Verb(pb::JournalVerb {
            id: id.to_string(),
            verb: verb.as_str().to_owned(),
            stage: stage.as_str().to_owned(),
            by,
            text,
        }),
        JournalEvent::Conversed(recorded) => conversed(*recorded),
        JournalEvent::Returned { times, errors } => {
            E::Returned(pb::JournalReturned { times, errors })
        }
        JournalEvent::Stopping { reason } => E::Stopping(pb::JournalReason { reason }),
        JournalEvent::Result(result) => E::Result((&*result).into()),
        JournalEvent::Ended { cause } => E::Ended(pb::JournalEnded { cause }),
    }
}

fn read_event(event: E) -> Result<JournalEvent, CodecError> {
    Ok(match event {
        E::Starting(pb::JournalStarting { host }) => JournalEvent::Starting { host },
        E::Started(pb::JournalStarted { pid, isolation }) => {
            JournalEvent::Started { pid, isolation }
        }
        E::Progress(pb::JournalProgress { text, done, total }) => {
            JournalEvent::Progress { text, done, total }
        }
        E::Log(pb::JournalLog { text }) => JournalEvent::Log { text },
        E::Usage(usage) => JournalEvent::Usage(usage.into()),
        E::Checkpoint(pb::JournalCheckpoint { state }) => JournalEvent::Checkpoint { state },
        E::Ask(pb::JournalAsk { question, options }) => JournalEvent::Ask { question, options },
        E::Spawn(pb::JournalSpawn { request }) => {
            JournalEvent::Spawn { request: read::text("spawn.request", &request)? }
        }
        E::Mail(pb::JournalMail { topic, from }) => JournalEvent::Mail { topic, from },
        E::Update(pb::JournalUpdate { update }) => JournalEvent::Update { update },
        E::Blocked(pb::JournalReason { reason }) => JournalEvent::Blocked { reason },
        E::Unblocked(pb::JournalUnblocked {}) => JournalEvent::Unblocked,
        E::BudgetBefore(spent) => JournalEvent::Budget(BudgetNote::Before { spent: spent.into() }),
        E::SetAside(pb::JournalCall { call, amount }) => {
            JournalEvent::Budget(BudgetNote::SetAside { call, worst: spend(amount) })
        }
        E::Spent(pb::JournalCall { call, amount }) => {
            JournalEvent::Budget(BudgetNote::Spent { call, used: spend(amount) })
        }
        E::BudgetWarning(warning) => JournalEvent::Budget(warned(warning)?),
        E::BudgetRaised(note) => JournalEvent::Budget(raised(note)?),
        E::Verb(pb::JournalVerb { id, verb, stage, by, text }) => JournalEvent::Verb {
            id: read::text("verb.id", &id)?,
            verb: verbs::verb("verb.verb", &verb)?,
            stage: verbs::stage("verb.stage", &stage)?,
            by,
            text,
        },
        E::Returned(pb::JournalReturned { times, errors }) => {
            JournalEvent::Returned { times, errors }
        }
        E::Stopping(pb::JournalReason { reason }) => JournalEvent::Stopping { reason },
        E::Result(result) => {
            let result = RunResult::try_from(result).map_err(|error| error.under("result"))?;
            JournalEvent::Result(Box::new(result))
        }
        E::Ended(pb::JournalEnded { cause }) => JournalEvent::Ended { cause },
        E::Turn(pb::JournalTurn { step, text, calls, is_cut }) => {
            let call = |pb::JournalToolCall { id, tool, arguments }| Call { id, tool, arguments };
            let calls = calls.into_iter().map(call).collect();
            JournalEvent::Conversed(Box::new(Recorded::Turn { step, text, calls, is_cut }))
        }
        E::Intent(pb::JournalIntent { step, index, tool }) => {
            JournalEvent::Conversed(Box::new(Recorded::Intent { step, index, tool }))
        }
        E::Answer(pb::JournalAnswer { step, index, text, is_error, letter }) => {
            JournalEvent::Conversed(Box::new(Recorded::Answer {
                step,
                index,
                text,
                is_error,
                letter,
            }))
        }
        E::Heard(pb::JournalHeard { text, letter }) => {
            JournalEvent::Conversed(Box::new(Recorded::Heard { text, letter }))
        }
        E::Summary(pb::JournalSummary { step, text, letter }) => {
            JournalEvent::Conversed(Box::new(Recorded::Summary { step, text, letter }))
        }
    })
}

fn warned(warning: pb::BudgetWarning) -> Result<BudgetNote, CodecError> {
    let pb::BudgetWarning { counter, used, limit } = warning;
    let counter = budget::counter("budgetWarning.counter", &counter)?;
    Ok(BudgetNote::Warning { counter, used, limit })
}

fn raised(note: pb::BudgetRaised) -> Result<BudgetNote, CodecError> {
    let pb::BudgetRaised { agent: _, limit, by, reason } = note;
    let (limit, _) = budget::read("budgetRaised.limit", limit)?;
    Ok(BudgetNote::Raised { limit, by: read::text("budgetRaised.by", &by)?, reason })
}

fn spend(amount: Option<pb::Spend>) -> Spend {
    amount.map(Spend::from).unwrap_or_default()
}

fn conversed(recorded: Recorded) -> E {
    match recorded {
        Recorded::Turn { step, text, calls, is_cut } => {
            let call = |Call { id, tool, arguments }| pb::JournalToolCall { id, tool, arguments };
            let calls = calls.into_iter().map(call).collect();
            E::Turn(pb::JournalTurn { step, text, calls, is_cut })
        }
        Recorded::Intent { step, index, tool } => {
            E::Intent(pb::JournalIntent { step, index, tool })
        }
        Recorded::Answer { step, index, text, is_error, letter } => {
            E::Answer(pb::JournalAnswer { step, index, text, is_error, letter })
        }
        Recorded::Heard { text, letter } => E::Heard(pb::JournalHeard { text, letter }),
        Recorded::Summary { step, text, letter } => {
            E::Summary(pb::JournalSummary { step, text, letter })
        }
    }
}

fn written_note(note: BudgetNote) -> E {
    match note {
        BudgetNote::Before { spent } => E::BudgetBefore(spent.into()),
        BudgetNote::SetAside { call, worst } => {
            E::SetAside(pb::JournalCall { call, amount: Some(worst.into()) })
        }
        BudgetNote::Spent { call, used } => {
            E::Spent(pb::JournalCall { call, amount: Some(used.into()) })
        }
        BudgetNote::Warning { counter, used, limit } => {
            let counter = counter.as_str().to_owned();
            E::BudgetWarning(pb::BudgetWarning { counter, used, limit })
        }
        BudgetNote::Raised { limit, by, reason } => {
            let (limit, by) = (budget::written(limit, None), by.to_string());
            E::BudgetRaised(pb::BudgetRaised { agent: String::new(), limit, by, reason })
        }
    }
}
