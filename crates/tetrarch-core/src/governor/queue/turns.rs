//! Whose turn it is among those who wait for the owner, and up to where `REQUESTS` is decided when turns are taken
//! (docs/decisions/0135). What one sender asks keeps its order; senders take turns.

use std::collections::{BTreeMap, VecDeque};

use super::StoredRequest;
use crate::owner::Input;
use crate::share::{self, Holder};

/// Requests of one sender in an entry: each is answered, and what a recipient is sent goes out one after the other, for
/// which the next entry's mail waits.
const IN_ENTRY_MAX: u64 = 16;

/// What waits.
#[derive(Debug)]
pub(super) struct QueuedInput<P> {
    pub(super) input: Input,
    /// What is known of its message; none when it is no request.
    pub(super) stored: Option<StoredRequest>,
    /// Given back when it is dropped, which is with the decision.
    pub(super) _place: Option<P>,
}

#[derive(Debug)]
struct SenderQueue<P> {
    waiting: VecDeque<QueuedInput<P>>,
    /// How many more are taken before it is another sender's turn.
    left: u64,
}

/// A queue for each sender, and one for what nobody sent.
#[derive(Debug)]
pub(super) struct SenderTurns<P> {
    queues: BTreeMap<Option<Holder>, SenderQueue<P>>,
    /// Whose queues have something, in the order of their turns.
    order: VecDeque<Option<Holder>>,
    /// How many of each sender are in the entry that is made.
    in_entry: BTreeMap<Holder, u64>,
    /// Whose queues have something for the next entry.
    held: Vec<Option<Holder>>,
    count: usize,
}

impl<P> Default for SenderTurns<P> {
    fn default() -> Self {
        Self {
            queues: BTreeMap::new(),
            order: VecDeque::new(),
            in_entry: BTreeMap::new(),
            held: Vec::new(),
            count: 0,
        }
    }
}

impl<P> SenderTurns<P> {
    /// Adds what somebody sent. A sender of whom nothing waited is the last to have its turn.
    pub(super) fn push(&mut self, holder: Option<Holder>, queued: QueuedInput<P>) {
        self.count += 1;
        if let Some(queue) = self.queues.get_mut(&holder) {
            queue.waiting.push_back(queued);
            return;
        }
        if self.is_full(holder.as_ref()) {
            self.held.push(holder.clone());
        } else {
            self.order.push_back(holder.clone());
        }
        let queue = SenderQueue { waiting: VecDeque::from([queued]), left: turn(holder.as_ref()) };
        self.queues.insert(holder, queue);
    }

    /// Takes the first of the sender whose turn it is.
    pub(super) fn next(&mut self) -> Option<QueuedInput<P>> {
        let holder = self.order.pop_front()?;
        let queue = self.queues.get_mut(&holder)?;
        let queued = queue.waiting.pop_front()?;
        self.count -= 1;
        queue.left -= 1;
        let (is_empty, is_over) = (queue.waiting.is_empty(), queue.left == 0);
        if is_over {
            queue.left = turn(holder.as_ref());
        }
        if let Some(holder) = &holder {
            *self.in_entry.entry(holder.clone()).or_default() += 1;
        }
        if is_empty {
            self.queues.remove(&holder);
        } else if self.is_full(holder.as_ref()) {
            self.held.push(holder);
        } else if is_over {
            self.order.push_back(holder);
        } else {
            self.order.push_front(holder);
        }
        Some(queued)
    }

    /// Whether as many of a sender are in the entry as may be.
    fn is_full(&self, holder: Option<&Holder>) -> bool {
        let Some(holder) = holder else { return false };
        self.in_entry.get(holder).is_some_and(|it| *it >= IN_ENTRY_MAX * share::times(holder))
    }

    /// What is taken from now on is of another entry.
    pub(super) fn next_entry(&mut self) {
        self.in_entry.clear();
        self.order.extend(self.held.drain(..));
    }

    /// Whether there is one to take now.
    pub(super) fn has_next(&self) -> bool {
        !self.order.is_empty()
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// How many of a sender wait.
    pub(super) fn waiting_of(&self, holder: &Holder) -> usize {
        self.queues.get(&Some(holder.clone())).map_or(0, |queue| queue.waiting.len())
    }
}

/// How many are taken in one turn: a host's are those of all its agents, and what nobody sent is of all.
fn turn(holder: Option<&Holder>) -> u64 {
    holder.map_or(share::HOST_TIMES, share::times)
}

/// Up to where the messages of `REQUESTS` are decided, which are read in their order and decided out of it.
#[derive(Debug, Default)]
pub(super) struct Decided {
    /// Messages of which requests wait, and how many.
    waiting: BTreeMap<u64, usize>,
    /// The last message that was read to its end.
    read: u64,
}

impl Decided {
    /// A request of a message was read, which may be its last.
    pub(super) fn read(&mut self, seq: u64, last: bool) {
        *self.waiting.entry(seq).or_default() += 1;
        if last {
            self.read = self.read.max(seq);
        }
    }

    /// A request of a message waits no more.
    pub(super) fn decided(&mut self, seq: u64) {
        if let Some(waiting) = self.waiting.get_mut(&seq) {
            *waiting -= 1;
            if *waiting == 0 {
                self.waiting.remove(&seq);
            }
        }
    }

    /// The sequence up to which none waits.
    pub(super) fn through(&self) -> u64 {
        let before = self.waiting.first_key_value().map(|(seq, _)| seq.saturating_sub(1));
        before.map_or(self.read, |before| before.min(self.read))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(name: &str) -> Option<Holder> {
        Some(Holder::Own(name.parse().unwrap()))
    }

    fn turns(given: &[(&str, usize)]) -> SenderTurns<()> {
        let mut turns = SenderTurns::default();
        for (name, count) in given {
            for _ in 0..*count {
                let holder = match name.strip_prefix("host ") {
                    Some(host) => Some(Holder::Host(host.parse().unwrap())),
                    None if name.is_empty() => None,
                    None => holder(name),
                };
                let instance = (*name).to_owned();
                let input = Input::Started { epoch: 1, instance };
                turns.push(holder, QueuedInput { input, stored: None, _place: None });
            }
        }
        turns
    }

    fn order(mut turns: SenderTurns<()>) -> String {
        let mut order = Vec::new();
        while let Some(QueuedInput { input: Input::Started { instance, .. }, .. }) = turns.next() {
            order.push(instance);
        }
        assert_eq!((turns.len(), turns.order.len()), (0, 0));
        order.join(" ")
    }

    #[test]
    fn senders_take_turns_one_request_each() {
        assert_eq!(order(turns(&[("PO-a", 4), ("PO-b", 1)])), "PO-a PO-b PO-a PO-a PO-a");
        assert_eq!(order(turns(&[("PO-a", 1), ("PO-b", 2)])), "PO-a PO-b PO-b");
    }

    #[test]
    fn host_and_owner_take_several_in_a_turn() {
        for many in ["host h", ""] {
            let found = order(turns(&[(many, 11), ("PO-a", 2)]));
            let ten = [many; 10].join(" ");
            assert_eq!(found, format!("{ten} PO-a {many} PO-a"));
        }
    }

    #[test]
    fn sender_has_a_bounded_part_of_an_entry() {
        let most = usize::try_from(IN_ENTRY_MAX).unwrap();
        let mut all = turns(&[("PO-a", most + 1), ("PO-b", 1), ("", 1_000)]);
        let taken = std::iter::from_fn(|| all.next()).count();
        assert_eq!((taken, all.len(), all.has_next()), (most + 1 + 1_000, 1, false));
        let again = QueuedInput { input: Input::Tick, stored: None, _place: None };
        all.push(holder("PO-a"), again);
        assert!(all.next().is_none());
        all.next_entry();
        assert_eq!(std::iter::from_fn(|| all.next()).count(), 2);
        for _ in 0..most {
            all.push(
                holder("PO-b"),
                QueuedInput { input: Input::Tick, stored: None, _place: None },
            );
            assert!(all.next().is_some());
        }
        all.push(holder("PO-b"), QueuedInput { input: Input::Tick, stored: None, _place: None });
        assert!(!all.has_next(), "also when nothing of it waited meanwhile");
    }

    #[test]
    fn sender_that_comes_again_waits_for_the_turns_of_others() {
        let mut waiting = turns(&[("PO-a", 1), ("PO-b", 2)]);
        assert_eq!(waiting.waiting_of(&holder("PO-b").unwrap()), 2);
        waiting.next();
        let input = Input::Tick;
        waiting.push(holder("PO-a"), QueuedInput { input, stored: None, _place: None });
        assert!(matches!(waiting.next().unwrap().input, Input::Started { .. }));
        assert_eq!(waiting.next().unwrap().input, Input::Tick);
    }

    #[test]
    fn messages_are_decided_up_to_the_first_that_waits() {
        let mut decided = Decided::default();
        assert_eq!(decided.through(), 0);
        for seq in [5, 6, 7] {
            decided.read(seq, true);
        }
        decided.decided(6);
        assert_eq!(decided.through(), 4);
        decided.decided(5);
        assert_eq!(decided.through(), 6);
        decided.decided(7);
        assert_eq!(decided.through(), 7);
    }

    #[test]
    fn message_of_several_requests_is_decided_with_the_last() {
        let mut decided = Decided::default();
        decided.read(3, true);
        decided.decided(3);
        decided.read(4, false);
        decided.decided(4);
        assert_eq!(decided.through(), 3, "the rest is still to be read");
        decided.read(4, false);
        decided.read(4, true);
        decided.decided(4);
        assert_eq!(decided.through(), 3);
        decided.decided(4);
        assert_eq!(decided.through(), 4);
    }
}
