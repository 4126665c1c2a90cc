//! Entries of a run's journal, for people in one line each and for programs as they are.

use serde_json::{Value, json};
use tetrarch_bus::codec;
use tetrarch_bus::journal::Journaled;
use tetrarch_core::budget::Spend;
use tetrarch_core::converse::Recorded;
use tetrarch_core::journal::{BudgetNote, JournalEvent};

use crate::exit::{CliError, Code};
use crate::output::{Cell, Tone, plain, stamp};

/// Bytes of one entry's text that a line shows.
const TEXT_SHOWN: usize = 160;

/// The entries' JSON as it is printed; those that cannot be read are left out.
///
/// # Errors
/// An entry that cannot be written again.
pub(super) fn values(journal: &[Journaled]) -> Result<Value, CliError> {
    let readable = journal.iter().filter(|it| it.entry.is_ok());
    Ok(Value::Array(readable.map(value).collect::<Result<_, _>>()?))
}

/// An entry's JSON as it is printed, or what is wrong with it, with the time at which it was stored.
///
/// # Errors
/// It cannot be written again.
pub(in crate::command) fn value(stored: &Journaled) -> Result<Value, CliError> {
    let broken = |error: String| CliError::new(Code::Failed, error);
    let mut value = match &stored.entry {
        Ok(entry) => {
            let bytes = codec::encode_journal(entry).map_err(|error| broken(error.to_string()))?;
            let entry =
                serde_json::from_slice(&bytes).map_err(|error| broken(error.to_string()))?;
            plain("JournalEntry", entry)
        }
        Err(error) => json!({"seq": stored.seq, "unreadable": error.to_string()}),
    };
    value["time"] = json!(stamp(stored.at));
    Ok(value)
}

/// The entries' lines: when, place, what happened, in words.
pub(super) fn lines(journal: &[Journaled]) -> Vec<Vec<Cell>> {
    let line = |stored: &Journaled| {
        let (place, what, words) = match &stored.entry {
            Ok(entry) => {
                let (what, words) = words(&entry.event);
                (entry.index, what.into(), shortened(&words))
            }
            Err(error) => {
                (stored.seq, Cell::from("unreadable").toned(Tone::Bad), error.to_string())
            }
        };
        vec![stamp(stored.at).into(), place.to_string().into(), what, words.into()]
    };
    journal.iter().map(line).collect()
}

/// An entry's whole line.
pub(in crate::command) fn line(stored: &Journaled) -> String {
    let at = stamp(stored.at);
    match &stored.entry {
        Ok(entry) => {
            let (what, words) = words(&entry.event);
            format!("{at}  {:>6}  {what:<10}  {}", entry.index, words.trim())
        }
        Err(error) => format!("{at}  {:>6}  unreadable  {error}", stored.seq),
    }
}

/// The beginning of a long text.
pub(super) fn shortened(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().find(|(at, _)| *at >= TEXT_SHOWN) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or(text)),
        None => text.to_owned(),
    }
}

fn words(event: &JournalEvent) -> (&'static str, String) {
    match event {
        JournalEvent::Starting { host } => ("starting", format!("on {host}")),
        JournalEvent::Started { pid, isolation } => {
            let pid = pid.map_or_else(|| "no process".to_owned(), |pid| format!("pid {pid}"));
            ("started", format!("{pid}, {isolation}"))
        }
        JournalEvent::Progress { text, done, total } => {
            let count = |number: &Option<u64>| {
                number.map_or_else(|| "?".to_owned(), |number| number.to_string())
            };
            let steps = match (done, total) {
                (None, None) => String::new(),
                (done, total) => format!("[{}/{}] ", count(done), count(total)),
            };
            ("progress", format!("{steps}{text}"))
        }
        JournalEvent::Log { text } => ("log", text.clone()),
        JournalEvent::Usage(usage) => {
            let spend = usage.spend();
            ("usage", format!("{} tokens, {} turns", spend.tokens, spend.turns))
        }
        JournalEvent::Checkpoint { state } => ("checkpoint", state.clone()),
        JournalEvent::Ask { question, .. } => ("ask", question.clone()),
        JournalEvent::Spawn { request } => ("spawn", request.to_string()),
        JournalEvent::Mail { topic, from } => ("mail", format!("{topic} from {from}")),
        JournalEvent::Update { update } => ("update", update.clone()),
        JournalEvent::Blocked { reason } => ("blocked", reason.clone()),
        JournalEvent::Unblocked => ("unblocked", String::new()),
        JournalEvent::Conversed(recorded) => conversed(recorded),
        JournalEvent::Budget(note) => ("budget", budget(note)),
        JournalEvent::Verb { verb, stage, by, text, .. } => {
            (verb.as_str(), format!("{} by {by}: {text}", stage.as_str()))
        }
        JournalEvent::Returned { times, errors } => {
            ("returned", format!("its result, {times} in all: {errors}"))
        }
        JournalEvent::Stopping { reason } => ("stopping", reason.clone()),
        JournalEvent::Result(result) => {
            let said = if result.error.is_empty() { &result.deliverable } else { &result.error };
            ("result", format!("{}: {said}", result.outcome))
        }
        JournalEvent::Ended { cause } => ("ended", cause.clone()),
    }
}

/// A change of a conversation with a model; a call is told by `step/index`, as in its key.
fn conversed(recorded: &Recorded) -> (&'static str, String) {
    match recorded {
        Recorded::Turn { step, text, calls, .. } => {
            let tools: Vec<&str> = calls.iter().map(|call| call.tool.as_str()).collect();
            let calls =
                if tools.is_empty() { String::new() } else { format!(" [{}]", tools.join(", ")) };
            ("turn", format!("{step}{calls} {text}"))
        }
        Recorded::Intent { step, index, tool } => ("intent", format!("{step}/{index} {tool}")),
        Recorded::Answer { step, index, text, is_error, .. } => {
            let what = if *is_error { "tool error" } else { "tool result" };
            (what, format!("{step}/{index} {text}"))
        }
        Recorded::Heard { text, .. } => ("heard", text.clone()),
        Recorded::Summary { step, text, .. } => ("summary", format!("to {step}: {text}")),
    }
}

fn budget(note: &BudgetNote) -> String {
    let amount = |spend: &Spend| {
        let Spend { tokens, cost_micro, turns } = spend;
        format!("{tokens} tokens, ${:.4}, {turns} turns", *cost_micro as f64 / 1e6)
    };
    match note {
        BudgetNote::Before { spent } => format!("earlier runs used {}", amount(spent)),
        BudgetNote::SetAside { call, worst } => format!("call {call}: at most {}", amount(worst)),
        BudgetNote::Spent { call, used } => format!("call {call}: {}", amount(used)),
        BudgetNote::Warning { counter, used, limit } => format!("{counter}: {used} of {limit}"),
        BudgetNote::Raised { limit, by, reason } => {
            let because = if reason.is_empty() { String::new() } else { format!(": {reason}") };
            format!("{by} raised the grant to {}{because}", amount(&limit.carved()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_at_a_character_boundary() {
        let long = "ä".repeat(TEXT_SHOWN);
        let short = shortened(&long);
        assert!(short.ends_with("ä…") && short.len() <= TEXT_SHOWN + 4, "{short}");
        assert_eq!(shortened(" ok \n"), "ok");
    }
}
