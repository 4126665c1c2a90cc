//! The owner's intake: what others ask and report, in the order of `REQUESTS`, from a position
//! on (spec 02). Nothing is acknowledged: the commit that covers a request moves the position.
//! Intake is bounded here, where messages are pulled. It does not judge what it reads.

mod askers;

use std::collections::{BTreeMap, VecDeque};

use askers::Askers;
use bytes::Bytes;

use crate::client::{Bus, RawMessage};
use crate::codec;
use crate::envelope::Envelope;
use crate::error::{PublishError, ReadError};
use crate::follow::StreamFollower;
use crate::subject::pattern::{DEAD, DEAD_SUBJECTS, REQUESTS};
use crate::subject::{Origin, Subject};
use crate::{stamp, surely};
use tetrarch_core::request::Request;
use tetrarch_core::time::BusTime;

/// Why a dead letter is one.
pub const REASON: &str = "Tetrarch-Reason";
/// The subject it came on.
pub const SUBJECT: &str = "Tetrarch-Subject";
/// Messages read at one stroke.
const BATCH: usize = 200;
/// Longest text in a header, in characters.
const HEADER_CHARS_MAX: usize = 512;
/// What is kept of a message that could not be handled, in bytes: larger than any record.
const DEAD_BYTES_MAX: usize = 64 * 1024;

/// What came with a message of `REQUESTS`.
#[derive(Debug)]
pub enum Intaken {
    /// A request; malformed ones of a known sender too.
    Request {
        /// What is asked or reported.
        request: Box<Request>,
        /// When it was stored.
        at: BusTime,
        /// How large its message is, in bytes.
        bytes: usize,
        /// Whether no other of its message follows: only then is the message decided with it.
        last: bool,
    },
    /// Nobody can be told about it: it goes to the dead letters.
    Undecodable(DeadLetter),
}

/// A message that could not be handled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// Which stream it came on.
    pub origin: Origin,
    /// Its sequence there.
    pub seq: u64,
    /// Its subject.
    pub subject: String,
    /// What is wrong with it, in words.
    pub reason: String,
    /// Its bytes as they came.
    pub payload: Bytes,
}

/// The reader of `REQUESTS`.
#[derive(Debug)]
pub struct Intake {
    follower: StreamFollower,
    askers: Askers,
    /// What was read and not yet given.
    waiting: VecDeque<Intaken>,
    beyond: Option<u64>,
}

impl Intake {
    /// Reads from sequence `from` on: one more than the highest that is decided. When that is
    /// beyond the stream's end it reads on from the end, and [`Intake::beyond`] says so.
    ///
    /// # Errors
    /// The bus does not let this credential read; while it is away this waits.
    pub async fn open(bus: &Bus, from: u64) -> Result<Self, ReadError> {
        let last = surely::stream_last_seq(bus, REQUESTS).await?;
        let beyond = (from > last + 1).then_some(last);
        if beyond.is_some() {
            tracing::error!(from, last, "decided requests are missing in the stream");
        }
        let follower = StreamFollower::new(bus.clone(), REQUESTS, Vec::new(), from.min(last + 1));
        let (askers, waiting) = (Askers::listen(bus).await, VecDeque::new());
        Ok(Self { follower, askers, waiting, beyond })
    }

    /// The stream's last sequence, when the position to read from was beyond it: requests were
    /// lost or the stream was made anew, which somebody has to be told (spec 02, Amnesia guard).
    #[must_use]
    pub fn beyond(&self) -> Option<u64> {
        self.beyond
    }

    /// Waits for one message, then adds what has already arrived, at most `max` requests in all. Waits
    /// while the bus is away. Safe to drop: nothing is lost.
    pub async fn next(&mut self, max: usize) -> Vec<Intaken> {
        while self.waiting.is_empty() {
            tokio::select! {
                message = self.follower.next() => self.take(message),
                () = self.askers.hear() => {}
            }
        }
        while self.waiting.len() < max
            && let Some(message) = self.follower.arrived()
        {
            self.take(message);
        }
        self.waiting.drain(..max.min(self.waiting.len())).collect()
    }

    /// Waits for something else, and goes on listening who asks.
    pub async fn beside<T>(&mut self, other: impl Future<Output = T>) -> T {
        let mut other = std::pin::pin!(other);
        loop {
            tokio::select! {
                done = &mut other => return done,
                () = self.askers.hear() => {}
            }
        }
    }

    fn take(&mut self, message: RawMessage) {
        let credential = self.askers.of(&message);
        let RawMessage { seq, subject, headers, payload, time_unix_ms } = message;
        match codec::decode_requests(&subject, &headers, &payload, seq) {
            Ok(requests) => {
                let (count, bytes) = (requests.len(), payload.len());
                self.waiting.extend((1..).zip(requests).map(|(number, request)| {
                    let request = Request { credential: credential.clone(), ..request };
                    let (request, last) = (Box::new(request), number == count);
                    Intaken::Request { request, at: BusTime(time_unix_ms), bytes, last }
                }));
            }
            Err(error) => self.waiting.push_back(Intaken::Undecodable(DeadLetter {
                origin: Origin::Requests,
                seq,
                subject,
                reason: error.to_string(),
                payload,
            })),
        }
    }
}

/// Keeps a message that could not be handled, with the reason, for people; once, also when it is
/// repeated soon. Of a large one its beginning is kept, so that whoever sends garbage does not have it
/// written twice. Waits while the bus is away.
///
/// # Errors
/// The server refuses it for good.
pub async fn dead_letter(bus: &Bus, letter: &DeadLetter) -> Result<u64, PublishError> {
    let subject = Subject::Dead(letter.origin);
    let id = format!("{}.{}", letter.origin.as_str(), letter.seq);
    let envelope = Envelope { msg_id: Some(id), ..Envelope::default() };
    let mut headers = envelope.headers(&subject);
    let (bytes, kept) = (letter.payload.len(), letter.payload.len().min(DEAD_BYTES_MAX));
    let reason = match bytes == kept {
        true => letter.reason.clone(),
        false => format!("the first {kept} of {bytes} bytes are kept; {}", letter.reason),
    };
    headers.insert(REASON, plain(&reason));
    headers.insert(SUBJECT, plain(&letter.subject));
    let payload = letter.payload.slice(..kept);
    surely::publish(bus, &subject.to_string(), &headers, &payload, None).await
}

/// How many messages of each stream could not be handled, as long as they are kept.
///
/// # Errors
/// The bus is away, or does not let this credential ask.
pub async fn dead_letters(bus: &Bus) -> Result<BTreeMap<Origin, u64>, ReadError> {
    let subjects = bus.stream_subjects(DEAD, DEAD_SUBJECTS).await?;
    let counted = subjects.into_iter().filter_map(|(subject, count)| match subject.parse() {
        Ok(Subject::Dead(origin)) => Some((origin, count)),
        Ok(_) | Err(_) => None,
    });
    Ok(counted.collect())
}

/// What could not be handled of one stream, as long as it is kept, with when it was set aside; in the
/// order in which it was. One without its sequence there has 0.
///
/// # Errors
/// The bus is away, or does not let this credential read.
pub async fn read_dead(bus: &Bus, origin: Origin) -> Result<Vec<(BusTime, DeadLetter)>, ReadError> {
    let at = Subject::Dead(origin).to_string();
    let mut letters = Vec::new();
    let mut next = 1;
    loop {
        let batch = bus.next_by_subject_batch(DEAD, &at, next, BATCH).await?;
        let Some(last) = batch.last() else { return Ok(letters) };
        next = last.seq + 1;
        letters.extend(batch.into_iter().map(|message| dead(origin, message)));
    }
}

fn dead(origin: Origin, message: RawMessage) -> (BusTime, DeadLetter) {
    let text = |name| message.header(name).unwrap_or_default().to_owned();
    let of_origin = |id: &str| id.strip_prefix(origin.as_str())?.strip_prefix('.')?.parse().ok();
    let letter = DeadLetter {
        origin,
        seq: stamp::message_id(&message.headers).and_then(of_origin).unwrap_or(0),
        subject: text(SUBJECT),
        reason: text(REASON),
        payload: message.payload.clone(),
    };
    (BusTime(message.time_unix_ms), letter)
}

/// Text as a header may hold it.
fn plain(text: &str) -> String {
    let printed = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    printed.take(HEADER_CHARS_MAX).collect()
}
