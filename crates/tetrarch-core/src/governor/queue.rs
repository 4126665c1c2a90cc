//! What waits for the owner's decision, in its order, with the places it holds until then: what is not
//! decided on is not read from the bus either. Requests beyond their sender's share are told apart here.

use std::collections::VecDeque;

use crate::limits::ANSWERED_WITHIN;
use crate::mail::MailBody;
use crate::owner::{Input, Posted, is_only_answered};
use crate::request::Request;
use crate::share::{Backlog, Shares, Verdict};
use crate::time::{BusTime, Millis};
use crate::trouble::Trouble;

/// What is next.
#[derive(Debug)]
pub enum QueueItem {
    /// It is decided on. The last request of a message has its sequence.
    Decide(Input, Option<u64>),
    /// It is answered from the records.
    Read(Box<Request>, Option<u64>),
    /// Nothing becomes of the request with this sequence.
    Passed(Option<u64>),
}

/// A request's message in `REQUESTS`.
#[derive(Debug, Clone, Copy)]
pub struct StoredRequest {
    /// Its sequence, if the request is the last one of it.
    pub seq: Option<u64>,
    /// When it was stored.
    pub at: BusTime,
    /// Its size in bytes.
    pub bytes: usize,
}

#[derive(Debug)]
struct QueuedInput<P> {
    input: Input,
    stored: Option<StoredRequest>,
    /// Given back when it is dropped, which is with the decision.
    _place: Option<P>,
}

/// The queue. Its bound is the number of places that are given out.
#[derive(Debug)]
pub(super) struct Queue<P> {
    waiting: VecDeque<QueuedInput<P>>,
    shares: Shares,
}

impl<P> Queue<P> {
    /// An empty queue with shares of so many requests a second.
    pub(super) fn new(requests_per_second: u64) -> Self {
        Self { waiting: VecDeque::new(), shares: Shares::new(requests_per_second) }
    }

    /// Adds what holds no place: there are few of it.
    pub(super) fn push(&mut self, input: Input) {
        self.waiting.push_back(QueuedInput { input, stored: None, _place: None });
    }

    /// Adds what holds a place until it is decided on.
    pub(super) fn push_placed(&mut self, input: Input, place: P) {
        self.waiting.push_back(QueuedInput { input, stored: None, _place: Some(place) });
    }

    /// Adds a request, which holds a place too.
    pub(super) fn push_request(&mut self, request: Box<Request>, stored: StoredRequest, place: P) {
        let (input, stored) = (Input::Request(request), Some(stored));
        self.waiting.push_back(QueuedInput { input, stored, _place: Some(place) });
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes what is next. A read that nobody waits for any more is passed over.
    pub(super) fn next(&mut self, now: BusTime) -> Option<QueueItem> {
        let QueuedInput { input, stored, .. } = self.waiting.pop_front()?;
        let (request, StoredRequest { seq, at, bytes }) = match (input, stored) {
            (Input::Request(request), Some(stored)) => (request, stored),
            (other, _) => return Some(QueueItem::Decide(other, None)),
        };
        Some(match self.shares.judge(&request, bytes, at) {
            Verdict::Within if is_only_answered(&request) => {
                if now - at > ANSWERED_WITHIN {
                    QueueItem::Passed(seq)
                } else {
                    QueueItem::Read(request, seq)
                }
            }
            Verdict::Within => QueueItem::Decide(Input::Request(request), seq),
            Verdict::Refused(why) => QueueItem::Decide(Input::OverShare(request, why), seq),
            Verdict::Dropped => QueueItem::Passed(seq),
        })
    }

    /// Counts what the decision on a request took of the processor's time.
    pub(super) fn took(&mut self, request: &Request, took: Millis, now: BusTime) {
        self.shares.took(request, took, now);
    }

    /// Counts about how many bytes the decision on a request wrote.
    pub(super) fn wrote(&mut self, request: &Request, bytes: usize, now: BusTime) {
        self.shares.wrote(request, bytes, now);
    }

    /// Whether a message to GO is within its writer's share; what is beyond it is not read.
    pub(super) fn takes_mail(&mut self, posted: &Posted, now: BusTime) -> bool {
        let passed_on = matches!(&posted.content, Ok((mail, _)) if matches!(mail.body, MailBody::ReviewNeeded { .. }));
        let writer = posted.writer.as_ref();
        writer
            .is_none_or(|(from, via)| self.shares.takes_mail((from, via.as_ref()), passed_on, now))
    }

    /// Has the requests refused of those whose mail is left unread, and tells people of news.
    pub(super) fn refuse_for_unread(&mut self, found: Vec<Backlog>) {
        let backlogs = self.shares.unread(found);
        if !backlogs.is_empty() {
            self.push(Input::Trouble(Trouble::MailUnread { backlogs }));
        }
    }

    /// Tells people who asked for more than its share since the last time.
    pub(super) fn tell_over_share(&mut self) {
        let senders = self.shares.beyond();
        if !senders.is_empty() {
            let rate = self.shares.rate();
            self.push(Input::Trouble(Trouble::OverShare { senders, rate }));
        }
    }
}
