//! What brings the owner's actor its messages: requests in their order, what is due again and again, and
//! one look at inboxes, journals and cursors when it starts. Decides nothing.

use std::time::Duration;

use futures::future::join_all;
use ractor::ActorRef;
use tetrarch_bus::Bus;
use tetrarch_bus::cursor::{self, BeyondEnd, CursorError};
use tetrarch_bus::intake::{DeadLetter, Intake, Intaken, dead_letter};
use tetrarch_bus::journal::{self, JournalName};
use tetrarch_core::limits::COMMIT_INPUTS_MAX;
use tetrarch_core::owner::{Input, journaled};
use tetrarch_core::records::Records;
use tetrarch_core::trouble::Trouble;

use super::owner::OwnerMsg;
use crate::error::{EngineResult, note_dead};
use crate::pump::{MailboxSlots, Pump};

/// Places of requests that were read and are not decided on.
const PLACES: u32 = 8_192;
/// Bytes of a request's message for which it has one place; a larger one has more.
const PLACE_BYTES: usize = 8 * 1024;

/// Reads requests on from what is decided, or from the stream's end when that is before it.
pub(super) async fn intake(
    bus: &Bus,
    decided: u64,
    to: &ActorRef<OwnerMsg>,
) -> EngineResult<(Pump, Option<Trouble>)> {
    let mut intake = Intake::open(bus, decided.saturating_add(1)).await?;
    let shrunk = intake.beyond().map(|last| Trouble::IntakeShrank { decided, last });
    let (bus, to) = (bus.clone(), to.clone());
    let reading = Pump::run(async move {
        let slots = MailboxSlots::new(PLACES as usize);
        loop {
            let batch = intake.next(COMMIT_INPUTS_MAX).await;
            // Before the owner passes over it, and not in its loop.
            intake.beside(join_all(batch.iter().filter_map(|taken| kept(&bus, taken)))).await;
            let places = batch.iter().map(places).sum::<u32>().min(PLACES);
            let reserved = intake.beside(slots.reserve_many(batch, places)).await;
            let Some(placed) = reserved else { return };
            if to.cast(OwnerMsg::Intake(placed)).is_err() {
                return;
            }
        }
    });
    Ok((reading, shrunk))
}

/// How many places one takes.
fn places(taken: &Intaken) -> u32 {
    match taken {
        Intaken::Request { bytes, .. } => {
            u32::try_from(bytes / PLACE_BYTES).map_or(PLACES, |more| 1 + more)
        }
        Intaken::Undecodable(_) => 1,
    }
}

/// Keeps what is no request among the dead letters.
fn kept(bus: &Bus, taken: &Intaken) -> Option<impl Future<Output = ()>> {
    match taken {
        Intaken::Undecodable(letter) => Some(keep(bus, letter)),
        Intaken::Request { .. } => None,
    }
}

/// Keeps a dead letter; one that cannot be kept is said in the log.
pub(super) async fn keep(bus: &Bus, letter: &DeadLetter) {
    note_dead(letter);
    if let Err(error) = dead_letter(bus, letter).await {
        tracing::error!(%error, "storing a dead letter failed");
    }
}

/// Looks once whether inboxes are read beyond their stream.
fn inboxes(bus: &Bus, to: &ActorRef<OwnerMsg>) -> Pump {
    let (bus, to) = (bus.clone(), to.clone());
    Pump::run(async move {
        match cursor::beyond(&bus).await {
            Ok(Some(BeyondEnd { agents: inboxes, position, last })) => {
                let shrunk = Trouble::InboxShrank { inboxes, position, last };
                // An actor that ended tells nobody.
                let _ended = to.cast(OwnerMsg::Found(Box::new(Input::Trouble(shrunk))));
            }
            Ok(None) => {}
            Err(error) => tracing::error!(%error, "comparing inboxes with MAIL failed"),
        }
    })
}

/// What is looked at once, when an owner starts.
pub(super) fn looks(bus: &Bus, records: &Records, to: &ActorRef<OwnerMsg>) -> [Pump; 2] {
    [inboxes(bus, to), begun(bus, records, to)]
}

/// Looks once whether RUNS and CURSORS have what belongs to runs that have begun.
fn begun(bus: &Bus, records: &Records, to: &ActorRef<OwnerMsg>) -> Pump {
    let begun = journaled(records).map(|run| (JournalName::of(run), run.epoch));
    let (bus, to, begun) = (bus.clone(), to.clone(), begun.collect::<Vec<_>>());
    Pump::run(async move {
        let (mut runs, mut agents) = (Vec::new(), Vec::new());
        for (journal, epoch) in begun {
            match journal::is_whole(&bus, &journal).await {
                Ok(true) => {}
                Ok(false) => runs.push(journal.run),
                Err(error) => return tracing::error!(%error, "looking for journals failed"),
            }
            match cursor::read_cursor(&bus, &journal.agent).await {
                Ok(Some((cursor, _))) if cursor.epoch >= epoch => {}
                Ok(Some(_) | None) | Err(CursorError::Undecodable { .. }) => {
                    agents.push(journal.agent);
                }
                Err(error) => return tracing::error!(%error, "cursors could not be looked for"),
            }
        }
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let (lost_runs, lost_agents) = (count(runs.len()), count(agents.len()));
        let journals = |first| Trouble::JournalsLost { runs: lost_runs, first };
        let cursors = |first| Trouble::CursorsLost { agents: lost_agents, first };
        let runs = runs.into_iter().next().map(journals);
        for trouble in runs.into_iter().chain(agents.into_iter().next().map(cursors)) {
            // An actor that ended tells nobody.
            let _ended = to.cast(OwnerMsg::Found(Box::new(Input::Trouble(trouble))));
        }
    })
}

/// Says the same again and again, at once for the first time.
pub(super) fn ticks(to: &ActorRef<OwnerMsg>, every: Duration, message: fn() -> OwnerMsg) -> Pump {
    let to = to.clone();
    Pump::run(async move {
        let mut beat = tokio::time::interval(every);
        loop {
            beat.tick().await;
            if to.cast(message()).is_err() {
                return;
            }
        }
    })
}
