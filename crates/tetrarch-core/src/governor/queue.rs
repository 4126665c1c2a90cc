//! What waits for the owner's decision, with the places it holds until then: what is not decided on is not read from
//! the bus either. Each sender's requests are decided in their order, and senders take turns (docs/decisions/0135), so
//! that nobody waits for all that another asked before. Requests beyond their sender's share are told apart here.

mod turns;

use turns::{Decided, QueuedInput, SenderTurns};

use crate::limits::ANSWERED_WITHIN;
use crate::mail::MailBody;
use crate::owner::{Input, Posted, is_only_answered};
use crate::request::Request;
use crate::share::{Backlog, Holder, Shares, Verdict};
use crate::time::{BusTime, Millis};
use crate::trouble::Trouble;

/// What is next, each with the sequence in `REQUESTS` up to which everything is decided with it.
#[derive(Debug)]
pub enum QueueItem {
    /// It is decided on.
    Decide(Input, u64),
    /// It is answered from the records.
    Read(Box<Request>, u64),
    /// Nothing becomes of a request.
    Passed(u64),
}

/// A request's message in `REQUESTS`.
#[derive(Debug, Clone, Copy)]
pub struct StoredRequest {
    /// Whether the request is the last one of its message.
    pub last: bool,
    /// When it was stored.
    pub at: BusTime,
    /// Its size in bytes.
    pub bytes: usize,
}

/// The queue. Its bound is the number of places that are given out.
#[derive(Debug)]
pub(super) struct Queue<P> {
    turns: SenderTurns<P>,
    decided: Decided,
    shares: Shares,
    /// When something was first taken from it.
    began: Option<BusTime>,
}

impl<P> Queue<P> {
    /// An empty queue with shares of so many requests a second.
    pub(super) fn new(requests_per_second: u64) -> Self {
        let shares = Shares::new(requests_per_second);
        Self { turns: SenderTurns::default(), decided: Decided::default(), shares, began: None }
    }

    /// Adds what holds no place: there are few of it.
    pub(super) fn push(&mut self, input: Input) {
        self.turns.push(None, QueuedInput { input, stored: None, _place: None });
    }

    /// Adds what holds a place until it is decided on.
    pub(super) fn push_placed(&mut self, input: Input, place: P) {
        let writer = if let Input::Post(posted) = &input { posted.writer.as_ref() } else { None };
        let holder = writer.map(|(from, via)| Holder::of_mail(from, via.as_ref()));
        self.turns.push(holder, QueuedInput { input, stored: None, _place: Some(place) });
    }

    /// Adds a request, which holds a place too. One of a sender of which as many wait as it may ask at once is refused.
    pub(super) fn push_request(&mut self, request: Box<Request>, stored: StoredRequest, place: P) {
        let (seq, holder) = (request.seq, Holder::of(&request.sender));
        self.decided.read(seq, stored.last);
        let waiting = self.turns.waiting_of(&holder);
        // What was stored while there was no owner waits for as long as it takes.
        let is_new = self.began.is_some_and(|began| stored.at >= began);
        let judged =
            if is_new { self.shares.room(&request, waiting, stored.at) } else { Verdict::Within };
        let input = match judged {
            Verdict::Within => Input::Request(request),
            Verdict::Refused(why) => Input::OverShare(request, why),
            Verdict::Dropped => return self.decided.decided(seq),
        };
        let queued = QueuedInput { input, stored: Some(stored), _place: Some(place) };
        self.turns.push(Some(holder), queued);
    }

    pub(super) fn len(&self) -> usize {
        self.turns.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.turns.len() == 0
    }

    /// Whether there is one to take for the entry that is made.
    pub(super) fn has_next(&self) -> bool {
        self.turns.has_next()
    }

    /// What is taken from now on is of another entry.
    pub(super) fn next_entry(&mut self) {
        self.turns.next_entry();
    }

    /// Takes what is next. A read that nobody waits for any more is passed over.
    pub(super) fn next(&mut self, now: BusTime) -> Option<QueueItem> {
        self.began.get_or_insert(now);
        let QueuedInput { input, stored, .. } = self.turns.next()?;
        if let Input::Request(request) | Input::OverShare(request, _) = &input {
            self.decided.decided(request.seq);
        }
        let through = self.decided.through();
        let (request, StoredRequest { at, bytes, .. }) = match (input, stored) {
            (Input::Request(request), Some(stored)) => (request, stored),
            (other, _) => return Some(QueueItem::Decide(other, through)),
        };
        Some(match self.shares.judge(&request, bytes, at) {
            Verdict::Within if is_only_answered(&request) => {
                if now - at > ANSWERED_WITHIN {
                    QueueItem::Passed(through)
                } else {
                    QueueItem::Read(request, through)
                }
            }
            Verdict::Within => QueueItem::Decide(Input::Request(request), through),
            Verdict::Refused(why) => QueueItem::Decide(Input::OverShare(request, why), through),
            Verdict::Dropped => QueueItem::Passed(through),
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
