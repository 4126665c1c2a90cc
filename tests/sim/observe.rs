//! What an entry tells of the interesting things that happened.

use tetrarch_core::error::DenialReason;
use tetrarch_core::id::AgentId;
use tetrarch_core::ledger::{Entry, EventKind};
use tetrarch_core::mail::MailBody;
use tetrarch_core::records::Records;

use crate::tally::Tally;

/// Counts what an entry tells.
pub(crate) fn observe(_before: &Records, entry: &Entry, tally: &mut Tally) {
    for event in &entry.events {
        let said = event.reason.as_str();
        match event.kind {
            EventKind::AgentReplaced => tally.note("session replaced"),
            EventKind::AgentLiveness if said.contains("-> offline") => {
                tally.note("session offline");
            }
            EventKind::Verdict if !said.starts_with("pass") => tally.note("review did not pass"),
            EventKind::NodeStatus if said.contains("-> cancelled") => tally.note("node cancelled"),
            EventKind::NodeStatus if said.contains("in_progress -> queued") => {
                tally.note("attempt failed");
            }
            EventKind::AgentAdmitted if said.contains("at depth 3") => {
                tally.note("sponsored worker");
            }
            _ => {}
        }
    }
    for mail in &entry.mail {
        if let MailBody::SpawnAnswer(answer) = &mail.body
            && answer.denied.iter().any(|d| d.reason == DenialReason::ChildrenLimitExceeded)
            && matches!(answer.parent, Some(AgentId::Po(_)))
        {
            tally.note("denied: no slot");
        }
    }
}
