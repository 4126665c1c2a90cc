//! Class 1: the old run's journal ends, then the agent's cursor is sealed for its new session.
//! The rule is the core's; here it is written with expected sequences until it holds.

use crate::client::{Bus, RawMessage};
use crate::codec;
use crate::error::PublishError;
use crate::journal::Writer;
use crate::subject::Subject;
use crate::subject::pattern::{CURSORS, RUNS};
use crate::{stamp, surely};
use tetrarch_core::cursor::{self, Positions};
use tetrarch_core::journal::{JournalEntry, JournalEvent};
use tetrarch_core::ledger::Seal;

use super::OutboxError;

/// Carries out one seal. The journal first: once it has ended its positions are final, and the
/// cursor takes them over when they are higher.
pub(super) async fn seal(bus: &Bus, order: &Seal) -> Result<(), OutboxError> {
    let handled = match order.ends {
        Some(run) => {
            let Seal { agent, session, epoch, .. } = order.clone();
            let next = Writer { run, agent, session, epoch };
            let cause = format!("sealed for epoch {epoch}");
            end_journal(bus, &next, &cause).await?.positions
        }
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

/// The end of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalEnd {
    /// The sequence of its last entry.
    pub seq: u64,
    /// The inbox positions that are handled in it.
    pub positions: Positions,
}

/// Appends the last entry of a run's journal, in the name of a session that follows, so that whoever
/// wrote it writes no more. One that has an entry of that epoch, or a later one, has ended.
///
/// # Errors
/// See [`OutboxError`].
pub async fn end_journal(bus: &Bus, next: &Writer, cause: &str) -> Result<JournalEnd, OutboxError> {
    let Writer { run, agent, session, epoch } = next.clone();
    let subject = next.journal().subject();
    let headers = stamp::of_session(session, epoch).headers(&subject);
    let subject = subject.to_string();
    let mut found = surely::last_by_subject(bus, RUNS, &subject).await?;
    loop {
        let last = found.as_ref().and_then(|message| codec::decode_journal(&message.payload).ok());
        let positions = last.as_ref().map_or_else(Positions::default, |last| last.positions);
        let expect = found.as_ref().map_or(0, |message| message.seq);
        if last.as_ref().is_some_and(|last| last.epoch >= epoch) {
            return Ok(JournalEnd { seq: expect, positions });
        }
        let end = JournalEntry {
            run,
            agent: agent.clone(),
            session,
            epoch,
            index: last.as_ref().map_or(0, |last| last.index).saturating_add(1),
            positions,
            event: JournalEvent::Ended { cause: cause.to_owned() },
            then: Vec::new(),
        };
        let payload = codec::encode_journal(&end)?.into();
        match surely::publish(bus, &subject, &headers, &payload, Some(expect)).await {
            Ok(seq) => return Ok(JournalEnd { seq, positions }),
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
