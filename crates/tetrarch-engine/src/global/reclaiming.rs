//! Room in the streams that others fill: how full they are is looked at now and then, what goes is core's to
//! say. Decides nothing.

use std::time::Duration;

use ractor::ActorRef;
use tetrarch_bus::Bus;
use tetrarch_bus::state::load_meta;
use tetrarch_bus::subject::Subject;
use tetrarch_bus::subject::pattern::{
    EVERY_CONTROL, EVERY_JOURNAL, EVERY_MAIL, MAIL, REQUESTS, RUNS,
};
use tetrarch_bus::unread;
use tetrarch_core::limits::UNREAD_MAX;
use tetrarch_core::owner::{Fill, JournalCount, MailCount, Reclaim};
use tetrarch_core::share::Backlog;

use super::owner::OwnerMsg;
use crate::error::EngineResult;
use crate::pump::Pump;

/// How often it is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// Messages of MAIL, or of RUNS, after which it is looked at by subject.
const MANY: u64 = 1_000;

/// Looks now and then.
pub(super) fn start(bus: &Bus, to: &ActorRef<OwnerMsg>) -> Pump {
    let (bus, to) = (bus.clone(), to.clone());
    Pump::run(async move {
        let mut beat = tokio::time::interval(LOOK_EVERY);
        let mut seen = PastLooks::default();
        loop {
            beat.tick().await;
            match fill(&bus, &mut seen).await {
                Ok(fill) => {
                    if to.cast(OwnerMsg::Filled(Box::new(fill))).is_err() {
                        return;
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "reading the streams failed; trying again later")
                }
            }
        }
    })
}

/// What the looks before saw.
#[derive(Default)]
struct PastLooks {
    /// MAIL's last sequence when it was looked at by subject.
    mail: u64,
    /// Whether too much of it was unread then.
    has_backlogs: bool,
    /// RUNS' last sequence when it was looked at by subject.
    journals: u64,
}

/// How full they are.
async fn fill(bus: &Bus, seen: &mut PastLooks) -> EngineResult<Fill> {
    let requests = bus.stream_extent(REQUESTS).await?;
    let mail = bus.stream_extent(MAIL).await?;
    let decided = load_meta(bus).await?.map_or(0, |meta| meta.intake_seq);
    let (mut subjects, mut backlogs) = (Vec::new(), Vec::new());
    let moved = mail.last.saturating_sub(seen.mail) >= MANY;
    if moved || seen.has_backlogs || mail.bytes > mail.limit / 2 {
        seen.mail = mail.last;
        for pattern in [EVERY_MAIL, EVERY_CONTROL] {
            let found = bus.stream_subjects(MAIL, pattern).await?;
            subjects
                .extend(found.into_iter().filter_map(|(subject, count)| counts(subject, count)));
        }
    }
    let (runs, mut journals) = (bus.stream_extent(RUNS).await?, Vec::new());
    let moved = runs.last.saturating_sub(seen.journals) >= MANY;
    if moved || runs.bytes > runs.limit / 2 {
        seen.journals = runs.last;
        let found = bus.stream_subjects(RUNS, EVERY_JOURNAL).await?;
        journals.extend(found.into_iter().filter_map(|(subject, count)| journal(subject, count)));
    }
    let mut fill = Fill { requests, decided, mail, subjects, runs, journals, backlogs: Vec::new() };
    for ((reader, from), subjects) in fill.suspects() {
        let count = unread::count(bus, &reader, subjects).await?;
        backlogs.push(Backlog { reader, from, count });
    }
    seen.has_backlogs = backlogs.iter().any(|it| it.count > UNREAD_MAX);
    fill.backlogs = backlogs;
    Ok(fill)
}

fn counts(subject: String, count: u64) -> Option<MailCount> {
    let Ok(Subject::Mail { to, from, via, .. }) = subject.parse() else { return None };
    Some(MailCount { subject, to, from, hosted: via.is_some(), count })
}

fn journal(subject: String, count: u64) -> Option<JournalCount> {
    let Ok(Subject::Run { agent, run }) = subject.parse() else { return None };
    Some(JournalCount { subject, agent, run, count })
}

/// Has it go, beside everything else; what fails is found at the next look.
pub(super) fn carry_out(bus: &Bus, reclaim: Reclaim) {
    let bus = bus.clone();
    drop(tokio::spawn(async move {
        let mut gone = Ok(0);
        if let Some(through) = reclaim.requests {
            gone = bus.purge(REQUESTS, None, Some(through)).await;
        }
        let of = |stream| move |subject| (stream, subject);
        let mail = reclaim.subjects.iter().map(of(MAIL));
        for (stream, subject) in mail.chain(reclaim.journals.iter().map(of(RUNS))) {
            if gone.is_err() {
                break;
            }
            gone = bus.purge(stream, Some(subject), None).await;
        }
        if let Err(error) = gone {
            tracing::warn!(%error, "making room in a stream failed; trying again later");
        }
    }));
}
