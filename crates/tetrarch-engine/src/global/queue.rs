//! What waits for the owner's decision, in its order, with the places it holds until then: what is not
//! decided on is not read from the bus either. Requests beyond their sender's share are told apart here
//! by core's rule.

use std::collections::VecDeque;
use std::sync::Arc;

use tetrarch_core::limits::ANSWERED_WITHIN;
use tetrarch_core::owner::{Input, Posted, is_only_answered};
use tetrarch_core::request::Request;
use tetrarch_core::share::{Backlog, Shares, Verdict};
use tetrarch_core::time::{BusTime, Millis};
use tetrarch_core::trouble::Trouble;

use crate::pump::MailboxPermit;

/// What is next.
pub(super) enum QueueItem {
    /// It is decided on. The last request of a message has its sequence.
    Decide(Input, Option<u64>),
    /// It is answered from the records.
    Read(Box<Request>, Option<u64>),
    /// Nothing becomes of the request with this sequence.
    Passed(Option<u64>),
}

/// A request's message in `REQUESTS`.
#[derive(Debug, Clone, Copy)]
pub(super) struct StoredRequest {
    /// Its sequence, if the request is the last one of it.
    pub(super) seq: Option<u64>,
    /// When it was stored.
    pub(super) at: BusTime,
    /// Its size in bytes.
    pub(super) bytes: usize,
}

struct QueuedInput {
    input: Input,
    stored: Option<StoredRequest>,
    /// Given back with the last of its batch.
    _permit: Option<Arc<MailboxPermit>>,
}

/// The queue.
pub(super) struct Queue {
    waiting: VecDeque<QueuedInput>,
    shares: Shares,
}

impl Queue {
    /// A queue that begins with these, and has shares of so many requests a second.
    pub(super) fn new(requests_per_second: u64, first: impl Iterator<Item = Input>) -> Self {
        let waiting =
            first.map(|input| QueuedInput { input, stored: None, _permit: None }).collect();
        Self { waiting, shares: Shares::new(requests_per_second) }
    }

    /// Adds what holds no place: there are few of it.
    pub(super) fn push(&mut self, input: Input) {
        self.waiting.push_back(QueuedInput { input, stored: None, _permit: None });
    }

    /// Adds what holds a place until it is decided on.
    pub(super) fn push_with_permit(&mut self, input: Input, permit: Arc<MailboxPermit>) {
        self.waiting.push_back(QueuedInput { input, stored: None, _permit: Some(permit) });
    }

    /// Adds a request of a batch.
    pub(super) fn push_request(
        &mut self,
        request: Box<Request>,
        stored: StoredRequest,
        permit: &Arc<MailboxPermit>,
    ) {
        let (input, permit) = (Input::Request(request), Some(Arc::clone(permit)));
        self.waiting.push_back(QueuedInput { input, stored: Some(stored), _permit: permit });
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

    /// Whether a message to GO is within its writer's share; what is beyond it is not read.
    pub(super) fn takes_mail(&mut self, posted: &Posted, now: BusTime) -> bool {
        posted
            .writer
            .as_ref()
            .is_none_or(|(from, via)| self.shares.takes_mail(from, via.as_ref(), now))
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

#[cfg(test)]
mod tests {
    use tetrarch_core::id::{RequestId, Ulid};
    use tetrarch_core::request::{Report, RequestBody, Sender};

    use super::*;
    use crate::pump::{MailboxSlots, WithPermit};

    fn request(seq: u64) -> Box<Request> {
        let from = "PO-demo".parse().unwrap();
        Box::new(Request {
            seq,
            sender: Sender { from, via: None, session: None, epoch: 1 },
            id: RequestId(Ulid(u128::from(seq))),
            digest: String::new(),
            trace: None,
            credential: None,
            body: RequestBody::Report(Report::Ready),
        })
    }

    #[tokio::test]
    async fn batch_awaiting_decisions_keeps_its_permit() {
        let slots = MailboxSlots::new(1);
        let mut queue = Queue::new(1_000, std::iter::empty());
        let WithPermit { permit, .. } = slots.try_reserve(()).unwrap();
        let permit = Arc::new(permit);
        for seq in 1..=2 {
            let stored = StoredRequest { seq: Some(seq), at: BusTime(0), bytes: 100 };
            queue.push_request(request(seq), stored, &permit);
        }
        drop(permit);
        for seq in 1..=2 {
            assert!(slots.try_reserve(()).is_none(), "{seq} is not decided on");
            assert!(
                matches!(queue.next(BusTime(0)), Some(QueueItem::Decide(_, Some(it))) if it == seq)
            );
        }
        assert!(slots.try_reserve(()).is_some());
    }
}
