//! One lane of one inbox: its position, what hints announced and was not found yet, and when to
//! read again (spec 02, Inbox). Knows nothing of the other lane.

use std::collections::VecDeque;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_nats::{HeaderMap, Message};
use tokio::time::Instant;

use crate::client::{Bus, RawMessage};
use crate::envelope::LedgerPosition;
use crate::error::ReadError;
use crate::stamp;
use crate::subject::Subject;
use crate::subject::pattern::MAIL;
use tetrarch_core::id::{AgentId, Principal};
use tetrarch_core::mail::Lane;

/// Messages read at one stroke.
const BATCH: usize = 200;
/// When to read again what a hint announced and was not found: a replica may lag.
const AGAIN: [Duration; 3] =
    [Duration::from_millis(5), Duration::from_millis(20), Duration::from_millis(100)];
/// How long a message may take to be stored whose hint came before anybody listened.
const UNHEARD: Duration = Duration::from_millis(100);
/// Trying to read for longer than this means that the next message may be why it fails.
const TRIED_LONG: Duration = Duration::from_secs(1);
/// Found messages whose hints may still come.
const REMEMBERED: usize = 256;

/// Reader of one lane.
#[derive(Debug)]
pub(super) struct LaneReader {
    pattern: String,
    owner_subject: String,
    position: u64,
    /// The highest place of owner mail so far; none until it is found out.
    owner_seen: Option<Option<LedgerPosition>>,
    ready: VecDeque<RawMessage>,
    due: bool,
    /// Whether all was read, so that there is no more than hints announced since.
    caught_up: bool,
    announced: Vec<u64>,
    found: VecDeque<u64>,
    again: Option<(usize, Instant)>,
    /// When to read without any hint, once.
    once_more: Option<Instant>,
    /// The next message may be one that breaks the connection it comes on.
    suspect: bool,
    /// Since when it is tried to read on without success; a dropped read is none.
    tried: Option<Instant>,
    progress: Arc<AtomicU64>,
}

impl LaneReader {
    pub(super) fn new(
        lane: Lane,
        owner: &Principal,
        position: u64,
        progress: Arc<AtomicU64>,
    ) -> Self {
        let from_owner =
            Subject::Mail { lane, to: owner.clone(), from: AgentId::Go.into(), via: None };
        Self {
            pattern: Subject::inbox(lane, owner),
            owner_subject: from_owner.to_string(),
            position,
            owner_seen: (position == 0).then_some(None),
            ready: VecDeque::new(),
            due: true,
            caught_up: false,
            announced: Vec::new(),
            found: VecDeque::new(),
            again: None,
            once_more: Some(Instant::now() + UNHEARD),
            suspect: false,
            tried: None,
            progress,
        }
    }

    /// Takes note of a hint, unless what it announces was found already.
    pub(super) fn announced(&mut self, hint: &Message) {
        let mark = mark(&hint.subject, hint.headers.as_ref(), &hint.payload);
        if let Some(place) = self.found.iter().position(|found| *found == mark) {
            self.found.remove(place);
            return;
        }
        self.announced.push(mark);
        self.again = None;
        self.due = true;
    }

    /// Reads whether or not a hint came.
    pub(super) fn wake(&mut self) {
        self.caught_up = false;
        self.due = true;
    }

    /// Whether the lane has to be read before anything behind it.
    pub(super) fn is_due(&self) -> bool {
        let now = Instant::now();
        self.ready.is_empty() && (self.due || self.read_again_at().is_some_and(|at| at <= now))
    }

    /// When to read again without a hint.
    pub(super) fn read_again_at(&self) -> Option<Instant> {
        self.again.map(|(_, at)| at).into_iter().chain(self.once_more).min()
    }

    pub(super) fn pop(&mut self) -> Option<RawMessage> {
        self.ready.pop_front()
    }

    /// Reads on from the position. Safe to drop.
    pub(super) async fn read(&mut self, bus: &Bus) -> Result<(), ReadError> {
        let suspect = self.suspect;
        let asked = Instant::now();
        let most = self.most(asked);
        let batch = self.batch(bus, most).await?;
        self.once_more = self.once_more.filter(|at| *at > asked);
        let from_owner = batch.iter().any(|message| message.subject == self.owner_subject);
        if from_owner && self.owner_seen.is_none() {
            self.owner_seen = Some(self.highest_before(bus).await?);
        }
        self.take(batch, most, suspect);
        Ok(())
    }

    /// How many messages are asked for: one, when all before the one that was announced is read.
    fn most(&self, now: Instant) -> usize {
        let by_hint = self.once_more.is_none_or(|at| at > now);
        if self.caught_up && by_hint && self.announced.len() == 1 { 1 } else { BATCH }
    }

    /// Takes what was read when so many were asked for, one alone after a failure; what the owner sent again is left
    /// out.
    fn take(&mut self, batch: Vec<RawMessage>, most: usize, suspect: bool) {
        let (count, any) = (batch.len(), !batch.is_empty());
        for message in batch {
            self.position = message.seq;
            self.note_found(&message);
            if message.subject == self.owner_subject
                && let Some(place) = stamp::place(&message)
            {
                if Some(place) <= self.owner_seen.flatten() {
                    continue;
                }
                self.owner_seen = Some(Some(place));
            }
            self.ready.push_back(message);
        }
        self.progress.fetch_max(self.position, Ordering::Relaxed);
        // One that was asked for alone may be another than was announced: then there are more.
        let full = count == most && (most == BATCH || !self.announced.is_empty());
        self.due = full || suspect && any;
        self.caught_up = !self.due;
        self.plan_again();
    }

    /// What comes next; after a failure one message alone, in the one way that no message can
    /// break.
    async fn batch(&mut self, bus: &Bus, most: usize) -> Result<Vec<RawMessage>, ReadError> {
        let (pattern, next) = (&self.pattern, self.position.saturating_add(1));
        let tried = self.tried.get_or_insert_with(Instant::now);
        self.suspect |= tried.elapsed() > TRIED_LONG;
        let batch = if self.suspect {
            let found = bus.next_as_text(MAIL, std::slice::from_ref(pattern), next).await?;
            self.suspect = found.as_ref().is_some_and(|(_, breaks)| *breaks);
            found.into_iter().map(|(message, _)| message).collect()
        } else {
            let batch = bus.next_by_subject_batch(MAIL, pattern, next, most).await;
            self.suspect = batch.is_err();
            batch?
        };
        self.tried = None;
        Ok(batch)
    }

    /// The highest place among the owner's messages up to the position: what an earlier life of
    /// this reader has had.
    async fn highest_before(&self, bus: &Bus) -> Result<Option<LedgerPosition>, ReadError> {
        let mut highest = None;
        let mut next = 1;
        loop {
            let batch = bus.next_by_subject_batch(MAIL, &self.owner_subject, next, BATCH).await?;
            for message in &batch {
                if message.seq > self.position {
                    return Ok(highest);
                }
                highest = stamp::place(message).max(highest);
            }
            match batch.last() {
                Some(last) => next = last.seq + 1,
                None => return Ok(highest),
            }
        }
    }

    fn note_found(&mut self, message: &RawMessage) {
        let mark = mark(&message.subject, Some(&message.headers), &message.payload);
        match self.announced.iter().position(|announced| *announced == mark) {
            Some(place) => {
                self.announced.swap_remove(place);
            }
            None => {
                if self.found.len() == REMEMBERED {
                    self.found.pop_front();
                }
                self.found.push_back(mark);
            }
        }
    }

    /// Something that was announced is missing: read again soon, a few times.
    fn plan_again(&mut self) {
        let step = self.again.take().map_or(0, |(step, _)| step + 1);
        if self.announced.is_empty() || self.due {
            return;
        }
        match AGAIN.get(step) {
            Some(wait) => self.again = Some((step, Instant::now() + *wait)),
            None => {
                self.announced.clear();
                self.suspect = true;
                self.wake();
            }
        }
    }
}

/// Tells one message from another: by its id, or its content when it has none.
fn mark(subject: &str, headers: Option<&HeaderMap>, payload: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    subject.hash(&mut hasher);
    match headers.and_then(stamp::message_id) {
        Some(id) => id.hash(&mut hasher),
        None => payload.hash(&mut hasher),
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use tetrarch_core::id::ProjectName;

    use super::*;

    /// A stored message.
    fn stored(seq: u64) -> RawMessage {
        RawMessage {
            seq,
            subject: "mail.GO.PO-a".to_owned(),
            headers: HeaderMap::new(),
            payload: seq.to_string().into(),
            time_unix_ms: 1,
        }
    }

    /// The hint that the server gives of it.
    fn hint(of: &RawMessage) -> Message {
        Message {
            subject: of.subject.as_str().into(),
            reply: None,
            payload: of.payload.clone(),
            headers: None,
            status: None,
            description: None,
            length: of.payload.len(),
        }
    }

    /// A lane that was opened a while ago and has read all there was.
    fn caught_up() -> LaneReader {
        let owner = Principal::Agent(AgentId::Po(ProjectName::new("p").unwrap()));
        let mut lane = LaneReader::new(Lane::Mail, &owner, 0, Arc::default());
        assert_eq!(lane.most(Instant::now()), BATCH, "a lane that is opened has much to read");
        lane.once_more = None;
        lane.take(Vec::new(), BATCH, false);
        lane
    }

    #[tokio::test]
    async fn message_that_is_announced_alone_is_asked_for_alone() {
        let mut lane = caught_up();
        assert!(!lane.is_due());
        lane.announced(&hint(&stored(1)));
        assert_eq!((lane.is_due(), lane.most(Instant::now())), (true, 1));
        lane.take(vec![stored(1)], 1, false);
        assert_eq!(lane.pop().map(|message| message.seq), Some(1));
        assert!(!lane.is_due(), "there is no more than was announced");
        lane.announced(&hint(&stored(2)));
        lane.announced(&hint(&stored(3)));
        assert_eq!(lane.most(Instant::now()), BATCH, "two are read at one stroke");
    }

    #[tokio::test]
    async fn unannounced_message_before_an_announced_one_loses_neither() {
        let mut lane = caught_up();
        lane.announced(&hint(&stored(2)));
        lane.take(vec![stored(1)], 1, false);
        assert_eq!(lane.pop().map(|message| message.seq), Some(1));
        assert_eq!((lane.is_due(), lane.most(Instant::now())), (true, BATCH));
        lane.take(vec![stored(2)], BATCH, false);
        assert_eq!(lane.pop().map(|message| message.seq), Some(2));
        assert!(!lane.is_due());
    }

    #[tokio::test]
    async fn lane_that_is_woken_or_read_once_more_is_read_whole() {
        for wake in [true, false] {
            let mut lane = caught_up();
            lane.announced(&hint(&stored(1)));
            if wake {
                lane.wake();
            } else {
                lane.once_more = Some(Instant::now());
            }
            assert_eq!(lane.most(Instant::now()), BATCH, "{wake}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn lane_is_read_at_once_and_again_after_a_while() {
        let owner = Principal::Agent(AgentId::Go);
        let mut lane = LaneReader::new(Lane::Mail, &owner, 0, Arc::default());
        assert!(lane.is_due());
        lane.due = false;
        assert!(!lane.is_due());
        tokio::time::advance(UNHEARD).await;
        assert!(lane.is_due());
    }
}
