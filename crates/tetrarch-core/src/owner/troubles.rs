//! What people are told of what is wrong on the bus: one alert each, with what was done about it.

use std::fmt::Display;

use crate::id::{AgentId, RunId};
use crate::ledger::EventKind;
use crate::limits::UNREAD_MAX;
use crate::mail::Alert;
use crate::share::Backlog;
use crate::step::Draft;
use crate::trouble::{NoCommit, Trouble};

use super::sessions;

const MEMORY: &str = "02 Amnesia guard";
const LEDGER: &str = "02 One ledger, one owner";
const SHARES: &str = "09 On the bus";
const ENCODINGS: &str = "02 Encodings";
/// Records that one alert names.
const NAMED_MAX: usize = 10;

/// Who, each with how many messages.
fn named<W: Display>(senders: &[(W, u64)]) -> String {
    let some = senders.iter().take(NAMED_MAX);
    let some: Vec<String> = some.map(|(who, count)| format!("{who} ({count})")).collect();
    let more = if senders.len() > NAMED_MAX { " and others" } else { "" };
    some.join(", ") + more
}

fn unread(backlogs: &[Backlog]) -> String {
    let some = backlogs.iter().take(NAMED_MAX);
    let each: Vec<String> =
        some.map(|it| format!("{} has {} of {}", it.reader, it.count, it.from)).collect();
    format!(
        "agents have more than {UNREAD_MAX} messages of one sender unread, whose requests are refused \
         until they are read: {}. Look whether the readers still work",
        each.join("; "),
    )
}

fn journals_lost(runs: u64, first: RunId) -> String {
    format!(
        "RUNS lacks the journals of {runs} runs that have begun, {first} among them; what they told as saved is \
         lost, and whoever replaces one begins it anew"
    )
}

fn cursors_lost(agents: u64, first: &AgentId) -> String {
    format!(
        "CURSORS lacks those of {agents} agents that have begun, {first} among them; their sessions end, and the \
         next ones read their mail from its beginning"
    )
}

/// What a message of the ledger that is no commit comes from.
fn culprit(cause: NoCommit) -> &'static str {
    match cause {
        NoCommit::Undecodable => "somebody else writes there, or it is damaged",
        NoCommit::Deposed => "an owner that was deposed still writes",
        NoCommit::Impossible => "it is forged: somebody has the control plane's credential",
    }
}

fn journals_dropped(agent: &AgentId, entries: u64) -> String {
    format!(
        "the journals of {agent} filled RUNS and were dropped, {entries} entries in all. Find out \
         what wrote them"
    )
}

fn records_held(held: &[String]) -> String {
    let (count, some) = (held.len(), held.len().min(NAMED_MAX));
    format!(
        "{count} records are left as they are, and requests that would change them are refused: \
         {}{}. Start the version of tetrarch that wrote them",
        held[..some].join("; "),
        if count > some { "; and more" } else { "" },
    )
}

/// Tells people, and has reading go on where it says so.
pub(super) fn tell(draft: &mut Draft<'_>, trouble: &Trouble) {
    let (alert, rule, text) = match trouble {
        Trouble::IntakeShrank { decided, last } => {
            let text = format!(
                "REQUESTS ends at {last}, but requests up to {decided} are decided; reading goes on \
                 after {last}, and requests in between are lost: whoever misses an answer asks again"
            );
            draft.event(EventKind::IntakeMoved, MEMORY, format!("from {decided} to {last}"));
            draft.move_intake(*last);
            (Alert::StreamShrank, MEMORY, text)
        }
        Trouble::InboxShrank { inboxes, position, last } => {
            let text = format!(
                "MAIL ends at {last}, but {inboxes} inboxes are read beyond it, up to {position}; \
                 reading goes on after {last}, and mail in between is lost"
            );
            (Alert::StreamShrank, MEMORY, text)
        }
        Trouble::JournalsLost { runs, first } => {
            (Alert::StreamShrank, MEMORY, journals_lost(*runs, *first))
        }
        Trouble::CursorsLost { agents, first } => {
            (Alert::StreamShrank, MEMORY, cursors_lost(*agents, first))
        }
        Trouble::NoCommits { cause, count, first, reason } => {
            let who = culprit(*cause);
            let text = format!(
                "{count} messages of the ledger, the first at {first}, are no commits and were \
                 skipped ({reason}): {who}; they are in DEAD, and further ones of this kind are only \
                 counted there"
            );
            (Alert::LedgerInvalid, LEDGER, text)
        }
        Trouble::StateMended { written, dropped, reason } => {
            let text = format!(
                "STATE differed from the ledger and was mended from it: {written} keys were written \
                 again, {dropped} dropped; looked at because {reason}. Only the owner writes STATE: \
                 find out who else has its credential"
            );
            (Alert::StateMended, LEDGER, text)
        }
        Trouble::OverShare { senders, rate } => {
            let text = format!(
                "{} senders asked for more than {rate} a second, and what was beyond that was not \
                 decided on: {}. Stop what asks, or raise limits.requests_per_second",
                senders.len(),
                named(senders),
            );
            (Alert::OverShare, SHARES, text)
        }
        Trouble::MailDropped { senders } => {
            let text = format!(
                "mail was dropped that went to agents that there are none of, or that filled MAIL: of \
                 {}. Find out what wrote it",
                named(senders),
            );
            (Alert::MailDropped, SHARES, text)
        }
        Trouble::JournalsDropped { agent, entries } => {
            (Alert::JournalsDropped, SHARES, journals_dropped(agent, *entries))
        }
        Trouble::MailUnread { backlogs } => (Alert::MailUnread, SHARES, unread(backlogs)),
        Trouble::RecordsHeld { held } => (Alert::RecordsHeld, ENCODINGS, records_held(held)),
    };
    sessions::alert(draft, &AgentId::Go, alert, rule, &text);
}
