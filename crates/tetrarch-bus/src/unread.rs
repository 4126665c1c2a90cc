//! Mail that nobody has read, for the owner: what ends soon is set aside and its writer told (spec 02,
//! Inbox). It reads the stream and the cursors, and changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use crate::client::Bus;
use crate::cursor::{CursorError, read_cursor};
use crate::inbox::{Incoming, incoming};
use crate::intake::read_dead;
use crate::subject::pattern::{EVERY_MAIL, MAIL};
use crate::subject::{Origin, Subject};
use tetrarch_core::cursor::Cursor;
use tetrarch_core::id::{AgentId, Principal};
use tetrarch_core::mail::Lane;
use tetrarch_core::mail::receipt::is_about_mail;
use tetrarch_core::time::BusTime;

/// Messages read at one stroke.
const BATCH: usize = 200;

/// Goes through mail in the stream's order, each message once.
#[derive(Debug)]
pub struct Unread {
    bus: Bus,
    next: u64,
}

impl Unread {
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
