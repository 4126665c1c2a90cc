//! What an entry tells of the interesting things that happened.

use tetrarch_core::error::DenialReason;
use tetrarch_core::id::AgentId;
use tetrarch_core::ledger::{Entry, EventKind, Record};
use tetrarch_core::mail::MailBody;
use tetrarch_core::plan::proposal::DraftStatus;

use crate::tally::Tally;

/// Kinds of events, words in their reasons, and what they tell.
const TOLD: [(EventKind, &str, &str); 14] = [
    (EventKind::AgentReplaced, "", "session replaced"),
    (EventKind::AgentEnding, "", "session ordered to end for its next one"),
    (EventKind::AgentLiveness, "terminated: rotated", "rotation completed"),
    (EventKind::AgentLiveness, "-> offline", "session offline"),
    (EventKind::Verdict, "needs_changes", "review did not pass"),
    (EventKind::NodeStatus, "-> cancelled", "node cancelled"),
    (EventKind::NodeStatus, "in_progress -> queued", "attempt failed"),
    (EventKind::AgentAdmitted, "at depth 3", "sponsored worker"),
    (EventKind::AgentLiveness, "register -> terminated", "ended before it began"),
    (EventKind::Recovery, "resend: ", "asked again under its id"),
    (EventKind::Recovery, "reassign: ", "taken from one that stands still"),
    (EventKind::Recovery, "evidence is asked for", "evidence asked for"),
    (EventKind::Recovery, "update: ", "answered with an update"),
    (EventKind::AssignmentStatus, "-> blocked: escalated", "put to people"),
];

/// Counts what an entry tells.
pub(crate) fn observe(entry: &Entry, tally: &mut Tally) {
    for event in &entry.events {
        for (kind, words, what) in TOLD {
            if event.kind == kind && event.reason.contains(words) {
                tally.note(what);
            }
        }
    }
    for record in &entry.records {
        let Record::Draft(draft) = record else { continue };
        let new = draft.status == DraftStatus::Open && draft.notes.is_empty();
        match draft.author.agent().filter(|_| new) {
            Some(AgentId::Go) => tally.note("proposed by the overseer"),
            Some(_) => tally.note("proposed by an orchestrator"),
            None => {}
        }
    }
    for mail in &entry.mail {
        if let MailBody::SpawnAnswer(answer) = &mail.body
            && answer.denied.iter().any(|d| d.reason == DenialReason::ChildrenLimitExceeded)
            && matches!(answer.parent, Some(AgentId::Po(_)))
        {
            tally.note("denied: no slot");
        }
        if let MailBody::SpawnAnswer(answer) = &mail.body
            && !answer.queued.is_empty()
        {
            tally.note("queued: no slot");
        }
    }
}
