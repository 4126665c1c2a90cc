//! Whose turn it is: for each consumer the newest request alone, and no consumer twice before each other that
//! waits. So whoever asks without end is in nobody's way. It knows nothing of what is asked.

use std::collections::{HashMap, VecDeque};

/// Consumers that are waited for; what is asked for more of them is dropped, and asked again.
const WAITING_MAX: usize = 10_000;

/// What waits.
#[derive(Debug)]
pub(super) struct Turns<T> {
    order: VecDeque<String>,
    newest: HashMap<String, T>,
}

impl<T> Turns<T> {
    /// Nothing waits.
    pub(super) fn new() -> Self {
        Self { order: VecDeque::new(), newest: HashMap::new() }
    }

    /// Takes a request for a consumer, in place of one that still waits.
    pub(super) fn ask(&mut self, consumer: &str, request: T) {
        if let Some(waits) = self.newest.get_mut(consumer) {
            *waits = request;
        } else if self.order.len() < WAITING_MAX {
            self.order.push_back(consumer.to_owned());
            self.newest.insert(consumer.to_owned(), request);
        }
    }

    /// The next one.
    pub(super) fn next(&mut self) -> Option<T> {
        self.newest.remove(&self.order.pop_front()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_asks_without_end_has_one_turn_in_each_round() {
        let mut turns = Turns::new();
        for number in 0..1_000 {
            turns.ask("mail-PO-loud", number);
        }
        turns.ask("mail-PO-quiet", 7);
        assert_eq!(turns.next(), Some(999), "its newest");
        turns.ask("mail-PO-loud", 1_000);
        assert_eq!(turns.next(), Some(7));
        assert_eq!((turns.next(), turns.next()), (Some(1_000), None));
    }

    #[test]
    fn as_many_consumers_wait_as_may() {
        let mut turns = Turns::new();
        for number in 0..=WAITING_MAX {
            turns.ask(&format!("mail-PO-{number}"), number);
        }
        turns.ask("mail-PO-0", 77);
        assert_eq!(turns.next(), Some(77), "who waits may ask again");
        let rest: Vec<usize> = std::iter::from_fn(|| turns.next()).collect();
        assert_eq!(rest.last(), Some(&(WAITING_MAX - 1)));
    }
}
