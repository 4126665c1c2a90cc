//! Which steps of the protocol the owner reaches with a request or an entry, for tests that end it
//! there. Decides nothing.

use tetrarch_core::ledger::{Entry, EventKind};
use tetrarch_core::mail::{Duty, MailBody};
use tetrarch_core::request::{Report, Request, RequestBody};
use tetrarch_failpoint::{Failpoint, reach_if};

/// A request was read.
pub(super) fn taken(request: &Request) {
    let body = &request.body;
    reach_if(Failpoint::SpawnTaken, || matches!(body, RequestBody::Spawn(_)));
    reach_if(Failpoint::ResultTaken, || matches!(body, RequestBody::Report(Report::Result { .. })));
    reach_if(Failpoint::EndTaken, || {
        matches!(body, RequestBody::Report(Report::Crashed { .. } | Report::Gone { .. }))
    });
}

/// An entry is decided and not sent.
pub(super) fn decided(entry: &Entry) {
    reach_if(Failpoint::LaunchDecided, || launches(entry, |epoch| epoch == 1));
    reach_if(Failpoint::ResultDecided, || settles(entry));
    reach_if(Failpoint::NextDecided, || launches(entry, |epoch| epoch > 1));
    reach_if(Failpoint::LossDecided, || loses_host(entry));
}

/// An entry is in the ledger and the outbox does not know it.
pub(super) fn committed(entry: &Entry) {
    reach_if(Failpoint::LaunchCommitted, || launches(entry, |epoch| epoch == 1));
    reach_if(Failpoint::ResultCommitted, || settles(entry));
    reach_if(Failpoint::NextCommitted, || launches(entry, |epoch| epoch > 1));
    reach_if(Failpoint::LossCommitted, || loses_host(entry));
}

fn launches(entry: &Entry, session: impl Fn(u64) -> bool) -> bool {
    entry.mail.iter().any(|mail| {
        matches!(&mail.body, MailBody::Launch(launch)
            if matches!(launch.duty, Duty::Run(_)) && session(launch.epoch))
    })
}

fn settles(entry: &Entry) -> bool {
    entry.mail.iter().any(|mail| matches!(mail.body, MailBody::ResultReady(_)))
}

fn loses_host(entry: &Entry) -> bool {
    entry.events.iter().any(|event| event.kind == EventKind::HostLeft)
}
