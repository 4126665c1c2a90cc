//! Mail that nobody has read, for the owner: what ends soon is set aside and its writer told (spec 02,
//! Inbox). It reads the stream and the cursors, and changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use async_nats::jetstream::context::ConsumerInfoErrorKind;

use crate::client::Bus;
use crate::cursor::{CursorError, read_cursor};
use crate::error::ReadError;
use crate::follow::{FollowStep, StreamFollower};
use crate::inbox::{Incoming, incoming};
use crate::intake::read_dead;
use crate::mailbox::opening::consumer_name;
use crate::subject::pattern::{EVERY_MAIL, MAIL};
use crate::subject::{Origin, Subject};
use tetrarch_core::cursor::Cursor;
use tetrarch_core::id::{AgentId, Principal};
use tetrarch_core::mail::Lane;
use tetrarch_core::mail::receipt::is_about_mail;
use tetrarch_core::time::BusTime;

/// Messages read at one stroke.
const BATCH: usize = 200;

/// How many messages on these subjects of the mail lane an agent has not come to, by its cursor or its
/// consumer. One that has neither is not known to read there.
///
/// # Errors
/// Its cursor or its consumer cannot be read.
pub async fn count(bus: &Bus, reader: &AgentId, subjects: Vec<String>) -> Result<u64, CursorError> {
    let handled = read_cursor(bus, reader).await?.map(|(cursor, _)| cursor.positions.mail);
    let Some(position) = handled.max(acknowledged(bus, reader).await?) else { return Ok(0) };
    let mut follower = StreamFollower::new(bus.clone(), MAIL, subjects, position.saturating_add(1));
    Ok(match follower.step().await {
        FollowStep::Message { pending, .. } => pending + 1,
        FollowStep::Nothing => 0,
    })
}

/// Up to where an agent outside acknowledged its mail; none when it has no consumer.
async fn acknowledged(bus: &Bus, reader: &AgentId) -> Result<Option<u64>, ReadError> {
    let what = consumer_name(Lane::Mail, reader);
    let unanswered = |reason: String| ReadError::Unanswered { what: what.clone(), reason };
    let stream = bus.js.get_stream_no_info(MAIL).await;
    let stream = stream.map_err(|error| unanswered(error.to_string()))?;
    match stream.consumer_info(&what).await {
        Ok(info) => Ok(Some(info.ack_floor.stream_sequence)),
        Err(error) if error.kind() == ConsumerInfoErrorKind::NotFound => Ok(None),
        Err(error) => Err(unanswered(error.to_string())),
    }
}

/// Goes through mail in the stream's order, each message once.
#[derive(Debug)]
pub struct UnreadMail {
    bus: Bus,
    next: u64,
}

impl UnreadMail {
    /// From the beginning of the stream on.
    #[must_use]
    pub fn new(bus: Bus) -> Self {
        Self { bus, next: 1 }
    }

    /// What was stored before this moment and is neither read by its reader nor set aside. Mail to
    /// people and to agents without a cursor is theirs alone; what GO wrote, and what tells of other
    /// mail, is told to nobody.
    ///
    /// # Errors
    /// The bus is away, or does not let this credential read; asking again goes on from there.
    pub async fn before(
        &mut self,
        moment: BusTime,
    ) -> Result<Vec<(AgentId, Incoming)>, CursorError> {
        let mut cursors: BTreeMap<AgentId, Option<Cursor>> = BTreeMap::new();
        let (mut found, mut next) = (Vec::new(), self.next);
        'all: loop {
            let batch = self.bus.next_by_subject_batch(MAIL, EVERY_MAIL, next, BATCH).await?;
            if batch.is_empty() {
                break;
            }
            for message in batch {
                if message.time_unix_ms >= moment.0 {
                    break 'all;
                }
                next = message.seq + 1;
                let message = incoming(Lane::Mail, message);
                let Some(reader) = reader(&message) else { continue };
                if !cursors.contains_key(&reader) {
                    let cursor = read_cursor(&self.bus, &reader).await?;
                    cursors.insert(reader.clone(), cursor.map(|(cursor, _)| cursor));
                }
                let cursor = cursors.get(&reader).and_then(Option::as_ref);
                if cursor.is_some_and(|cursor| cursor.has_not_seen(message.seq)) {
                    found.push((reader, message));
                }
            }
        }
        if !found.is_empty() {
            let dead = read_dead(&self.bus, Origin::Mail).await?;
            let dead: BTreeSet<u64> = dead.into_iter().map(|(_, letter)| letter.seq).collect();
            found.retain(|(_, message)| !dead.contains(&message.seq));
        }
        self.next = next;
        Ok(found)
    }
}

/// The agent whose reading of a message can be told from its cursor, when its writer would be told.
fn reader(message: &Incoming) -> Option<AgentId> {
    let Ok(Subject::Mail { to: Principal::Agent(to), from, .. }) = message.subject.parse() else {
        return None;
    };
    let told = from != Principal::Agent(AgentId::Go) && !is_about_mail(&message.about().topic);
    told.then_some(to)
}
