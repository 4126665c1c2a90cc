//! Entries of a run's journal: JSON, since foreign agents write them too.

use tetrarch_core::converse::{Call, Recorded};
use tetrarch_core::journal::{BudgetNote, JournalEntry, JournalEvent};
use tetrarch_core::limits::JOURNAL_ENTRY_BYTES_MAX;

use super::error::{CodecError, within};
use super::json;
use super::wire::{Wire, field, get, kept, message, put};
use crate::proto::v1 as pb;
use crate::proto::v1::journal_entry::Event as E;

/// The body of a journal's entry.
///
/// # Errors
/// An entry of more bytes than allowed.
pub fn encode_journal(entry: &JournalEntry) -> Result<Vec<u8>, CodecError> {
    let message: pb::JournalEntry = entry.put();
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
    JournalEntry::get(json::read::<pb::JournalEntry>(payload)?)
}

message!(JournalEntry, JournalEntry {
    run, agent, session, epoch, index, positions as kept, event, then
});

impl Wire<pb::JournalEntry> for JournalEvent {
    fn put(&self) -> pb::JournalEntry {
        pb::JournalEntry { event: self.put(), ..pb::JournalEntry::default() }
    }

    fn get(held: pb::JournalEntry) -> Result<Self, CodecError> {
        Self::get(held.event)
    }
}

impl Wire<Option<E>> for JournalEvent {
    fn put(&self) -> Option<E> {
        Some(written(self))
    }

    fn get(held: Option<E>) -> Result<Self, CodecError> {
        let none = "no known entry was found; give exactly one";
        held.map_or_else(|| Err(CodecError::field("", none)), read_event)
    }
}

fn written(event: &JournalEvent) -> E {
    match event {
        JournalEvent::Starting { host } => E::Starting(put!(JournalStarting { host })),
        JournalEvent::Started { pid, isolation } => {
            E::Started(put!(JournalStarted { pid, isolation }))
        }
        JournalEvent::Progress { text, done, total } => {
            E::Progress(put!(JournalProgress { text, done, total }))
        }
        JournalEvent::Log { text } => E::Log(put!(JournalLog { text })),
        JournalEvent::Usage(usage) => E::Usage(usage.put()),
        JournalEvent::Checkpoint { state } => E::Checkpoint(put!(JournalCheckpoint { state })),
        JournalEvent::Ask { question, options } => E::Ask(put!(JournalAsk { question, options })),
        JournalEvent::Spawn { request } => E::Spawn(put!(JournalSpawn { request })),
        JournalEvent::Mail { topic, from } => E::Mail(put!(JournalMail { topic, from })),
        JournalEvent::Update { update } => E::Update(put!(JournalUpdate { update })),
        JournalEvent::Blocked { reason } => E::Blocked(put!(JournalReason { reason })),
        JournalEvent::Unblocked => E::Unblocked(pb::JournalUnblocked {}),
        JournalEvent::Budget(note) => written_note(note),
        JournalEvent::Verb { id, verb, stage, by, text } => {
            E::Verb(put!(JournalVerb { id, verb, stage, by, text }))
        }
        JournalEvent::Conversed(recorded) => conversed(recorded),
        JournalEvent::Returned { times, errors } => {
            E::Returned(put!(JournalReturned { times, errors }))
        }
        JournalEvent::Stopping { reason } => E::Stopping(put!(JournalReason { reason })),
        JournalEvent::Result(result) => E::Result(result.put()),
        JournalEvent::Ended { cause } => E::Ended(put!(JournalEnded { cause })),
    }
}

fn read_event(event: E) -> Result<JournalEvent, CodecError> {
    Ok(match event {
        E::Starting(it) => get!(it, JournalEvent::Starting { host }),
        E::Started(it) => get!(it, JournalEvent::Started { pid, isolation }),
        E::Progress(it) => get!(it, JournalEvent::Progress { text, done, total }),
        E::Log(it) => get!(it, JournalEvent::Log { text }),
        E::Usage(it) => JournalEvent::Usage(Wire::get(it)?),
        E::Checkpoint(it) => get!(it, JournalEvent::Checkpoint { state }),
        E::Ask(it) => get!(it, JournalEvent::Ask { question, options }),
        E::Spawn(it) => get!(it, JournalEvent::Spawn { request }, "spawn"),
        E::Mail(it) => get!(it, JournalEvent::Mail { topic, from }),
        E::Update(it) => get!(it, JournalEvent::Update { update }),
        E::Blocked(it) => get!(it, JournalEvent::Blocked { reason }),
        E::Unblocked(pb::JournalUnblocked {}) => JournalEvent::Unblocked,
        E::BudgetBefore(spent) => {
            JournalEvent::Budget(BudgetNote::Before { spent: Wire::get(spent)? })
        }
        E::SetAside(pb::JournalCall { call, amount }) => {
            let worst = kept::get("amount", amount)?;
            JournalEvent::Budget(BudgetNote::SetAside { call, worst })
        }
        E::Spent(pb::JournalCall { call, amount }) => {
            let used = kept::get("amount", amount)?;
            JournalEvent::Budget(BudgetNote::Spent { call, used })
        }
        E::BudgetWarning(it) => JournalEvent::Budget(get!(
            it,
            BudgetNote::Warning { counter, used, limit },
            "budget_warning"
        )),
        E::BudgetRaised(it) => JournalEvent::Budget(get!(
            it,
            BudgetNote::Raised { limit, by, reason },
            "budget_raised"
        )),
        E::Verb(it) => get!(it, JournalEvent::Verb { id, verb, stage, by, text }, "verb"),
        E::Returned(it) => get!(it, JournalEvent::Returned { times, errors }),
        E::Stopping(it) => get!(it, JournalEvent::Stopping { reason }),
        E::Result(it) => JournalEvent::Result(field("result", it)?),
        E::Ended(it) => get!(it, JournalEvent::Ended { cause }),
        E::Turn(it) => said(get!(it, Recorded::Turn { step, text, calls, is_cut })),
        E::Intent(it) => said(get!(it, Recorded::Intent { step, index, tool })),
        E::Answer(it) => said(get!(it, Recorded::Answer { step, index, text, is_error, letter })),
        E::Heard(it) => said(get!(it, Recorded::Heard { text, letter })),
        E::Summary(it) => said(get!(it, Recorded::Summary { step, text, letter })),
    })
}

fn said(recorded: Recorded) -> JournalEvent {
    JournalEvent::Conversed(Box::new(recorded))
}

message!(Call, JournalToolCall { id, tool, arguments });

fn conversed(recorded: &Recorded) -> E {
    match recorded {
        Recorded::Turn { step, text, calls, is_cut } => {
            E::Turn(put!(JournalTurn { step, text, calls, is_cut }))
        }
        Recorded::Intent { step, index, tool } => {
            E::Intent(put!(JournalIntent { step, index, tool }))
        }
        Recorded::Answer { step, index, text, is_error, letter } => {
            E::Answer(put!(JournalAnswer { step, index, text, is_error, letter }))
        }
        Recorded::Heard { text, letter } => E::Heard(put!(JournalHeard { text, letter })),
        Recorded::Summary { step, text, letter } => {
            E::Summary(put!(JournalSummary { step, text, letter }))
        }
    }
}

fn written_note(note: &BudgetNote) -> E {
    match note {
        BudgetNote::Before { spent } => E::BudgetBefore(spent.put()),
        BudgetNote::SetAside { call, worst: amount } => {
            E::SetAside(pb::JournalCall { call: call.clone(), amount: kept::put(amount) })
        }
        BudgetNote::Spent { call, used: amount } => {
            E::Spent(pb::JournalCall { call: call.clone(), amount: kept::put(amount) })
        }
        BudgetNote::Warning { counter, used, limit } => {
            E::BudgetWarning(put!(BudgetWarning { counter, used, limit }))
        }
        BudgetNote::Raised { limit, by, reason } => {
            let agent = &String::new();
            E::BudgetRaised(put!(BudgetRaised { agent, limit, by, reason }))
        }
    }
}
