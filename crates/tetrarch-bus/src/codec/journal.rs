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
    json::bounded("journal entry", &message, JOURNAL_ENTRY_BYTES_MAX)
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

/// The events that are messages of their own, each called as in the core, with its fields; `in` names the event
/// before a field that is wrong. Then what a conversation keeps.
macro_rules! events {
    (
        [$($event:ident: $pb:ident { $($f:ident),* } $(in $within:literal)?;)*]
        [$($turn:ident: $kept:ident { $($g:ident),* };)*]
    ) => {
        fn written(event: &JournalEvent) -> E {
            match event {
                $(JournalEvent::$event { $($f),* } => E::$event(put!($pb { $($f),* })),)*
                JournalEvent::Usage(usage) => E::Usage(usage.put()),
                JournalEvent::Unblocked => E::Unblocked(pb::JournalUnblocked {}),
                JournalEvent::Budget(note) => written_note(note),
                JournalEvent::Conversed(recorded) => match &**recorded {
                    $(Recorded::$turn { $($g),* } => E::$turn(put!($kept { $($g),* })),)*
                },
                JournalEvent::Result(result) => E::Result(result.put()),
            }
        }

        fn read_event(event: E) -> Result<JournalEvent, CodecError> {
            Ok(match event {
                $(E::$event(it) => get!(it, JournalEvent::$event { $($f),* } $(, $within)?),)*
                E::Usage(it) => JournalEvent::Usage(Wire::get(it)?),
                E::Unblocked(pb::JournalUnblocked {}) => JournalEvent::Unblocked,
                E::Result(it) => JournalEvent::Result(field("result", it)?),
                $(E::$turn(it) => {
                    JournalEvent::Conversed(Box::new(get!(it, Recorded::$turn { $($g),* })))
                })*
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
                E::BudgetWarning(it) => JournalEvent::Budget(
                    get!(it, BudgetNote::Warning { counter, used, limit }, "budget_warning"),
                ),
                E::BudgetRaised(it) => JournalEvent::Budget(
                    get!(it, BudgetNote::Raised { limit, by, reason }, "budget_raised"),
                ),
            })
        }
    };
}

events! {
    [
        Starting: JournalStarting { host };
        Started: JournalStarted { pid, isolation };
        Progress: JournalProgress { text, done, total };
        Log: JournalLog { text };
        Checkpoint: JournalCheckpoint { state };
        Ask: JournalAsk { question, options };
        Spawn: JournalSpawn { request } in "spawn";
        Mail: JournalMail { topic, from };
        Update: JournalUpdate { update };
        Blocked: JournalReason { reason };
        Verb: JournalVerb { id, verb, stage, by, text } in "verb";
        Returned: JournalReturned { times, errors };
        Stopping: JournalReason { reason };
        Ended: JournalEnded { cause };
    ]
    [
        Turn: JournalTurn { step, text, calls, is_cut };
        Intent: JournalIntent { step, index, tool };
        Answer: JournalAnswer { step, index, text, is_error, letter };
        Heard: JournalHeard { text, letter };
        Summary: JournalSummary { step, text, letter };
    ]
}

message!(Call, JournalToolCall { id, tool, arguments });

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
