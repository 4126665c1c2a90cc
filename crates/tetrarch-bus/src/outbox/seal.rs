//! Class 1: the old run's journal ends, then the agent's cursor is sealed for its new session.
//! The rule is the core's; here it is written with expected sequences until it holds.

use crate::client::{Bus, RawMessage};
use crate::codec;
use crate::error::PublishError;
use crate::subject::Subject;
use crate::subject::pattern::{CURSORS, RUNS};
use crate::{stamp, surely};
use tetrarch_core::cursor::{self, Positions};
use tetrarch_core::id::RunId;
use tetrarch_core::journal::{JournalEntry, JournalEvent};
use tetrarch_core::ledger::Seal;

use super::OutboxError;

/// Carries out one seal. The journal first: once it has ended its positions are final, and the
/// cursor takes them over when they are higher.
pub(super) async fn seal(bus: &Bus, order: &Seal) -> Result<(), OutboxError> {
    let handled = match order.ends {
        Some(run) => end_journal(bus, run, order).await?,
        None => Positions::default(),
    };
    let subject = Subject::Cursor(order.agent.clone());
    let headers = stamp::of_session(order.session, order.epoch).headers(&subject);
    let subject = subject.to_string();
    let mut found = match order.epoch {
        1 => None,
        _ => surely::last_by_subject(bus, CURSORS, &subject).await?,
    };
    loop {
        let cursor = found.as_ref().and_then(|message| codec::decode_cursor(&message.payload).ok());
        let sealed = cursor::seal(cursor.as_ref(), order);
        let Some(mut sealed) = sealed else {
            return Ok(());
        };
        sealed.positions = sealed.positions.max(handled);
        let payload = codec::encode_cursor(&sealed)?.into();
        let expect = found.as_ref().map_or(0, |message| message.seq);
        match surely::publish(bus, &subject, &headers, &payload, Some(expect)).await {
            Ok(_) => return Ok(()),
            Err(error) => found = overtaken(bus, CURSORS, &subject, error).await?,
        }
    }
}

/// Appends the last entry of a run's journal, in the name of the session that follows; gives the
/// positions handled in it.
async fn end_journal(bus: &Bus, run: RunId, order: &Seal) -> Result<Positions, OutboxError> {
    let subject = Subject::Run(run);
    let headers = stamp::of_session(order.session, order.epoch).headers(&subject);
    let subject = subject.to_string();
    let mut found = surely::last_by_subject(bus, RUNS, &subject).await?;
    loop {
        let last = found.as_ref().and_then(|message| codec::decode_journal(&message.payload).ok());
        let positions = last.as_ref().map_or_else(Positions::default, |last| last.positions);
        if last.as_ref().is_some_and(|last| last.epoch >= order.epoch) {
            return Ok(positions);
        }
        let end = JournalEntry {
            run,
            agent: order.agent.clone(),
            session: order.session,
            epoch: order.epoch,
            index: last.as_ref().map_or(0, |last| last.index).saturating_add(1),
            positions,
            event: JournalEvent::Ended { cause: format!("sealed for epoch {}", order.epoch) },
        };
        let payload = codec::encode_journal(&end)?.into();
        let expect = found.as_ref().map_or(0, |message| message.seq);
        match surely::publish(bus, &subject, &headers, &payload, Some(expect)).await {
            Ok(_) => return Ok(positions),
            Err(error) => found = overtaken(bus, RUNS, &subject, error).await?,
        }
    }
}

/// The message that a refused write ran into, none when the subject is empty.
async fn overtaken(
    bus: &Bus,
    stream: &str,
    subject: &str,
    error: PublishError,
) -> Result<Option<RawMessage>, OutboxError> {
    let PublishError::WrongLast { last, .. } = error else {
        return Err(error.into());
    };
    match surely::named(bus, stream, last).await? {
        None if last > 0 => Ok(surely::last_by_subject(bus, stream, subject).await?),
        found => Ok(found),
    }
}
