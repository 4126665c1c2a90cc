//! A run's journal in words, for whoever reads along. What others wrote is in there as it is: whoever shows it makes
//! it visible.

use tetrarch_core::budget::Spend;
use tetrarch_core::converse::Recorded;
use tetrarch_core::journal::{BudgetNote, JournalEvent};

/// An entry in words: what happened, and the rest.
#[must_use]
pub fn words(event: &JournalEvent) -> (&'static str, String) {
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
