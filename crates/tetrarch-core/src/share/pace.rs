//! What a user of a server may publish, connect and leave untaken, and who is beyond it by what the server tells of
//! connections (docs/decisions/0081).

use std::collections::BTreeMap;

use super::BURST_SECONDS;
use crate::time::Moment;
use crate::words::words;

/// What one user of a server may publish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Messages a second; twice as many at once.
    pub messages: u64,
    /// Bytes a second; twice as many at once.
    pub bytes: u64,
    /// Bytes at once, and again in [`KEPT`]: servers keep the ids of messages in memory for that long.
    pub kept_bytes: u64,
    /// Connections of an agent at once, with those that ended since the look before.
    pub connections: usize,
    /// The same of a person, whose every command is one.
    pub people_connections: usize,
    /// Subscriptions over all connections: what the fleet publishes is delivered to each.
    pub subscriptions: u64,
    /// Bytes that wait in the server until the user takes them.
    pub waiting: u64,
}

/// The time in milliseconds in which a user has its [`Pace::kept_bytes`] back.
const KEPT: u64 = 120_000;

impl Pace {
    /// What may be published at once, and the milliseconds in which it drains.
    fn buckets(&self) -> [(Overuse, u64, u64); 3] {
        let (burst, drained) =
            (|rate: u64| rate.saturating_mul(BURST_SECONDS), BURST_SECONDS * 1_000);
        [
            (Overuse::Messages, burst(self.messages), drained),
            (Overuse::Bytes, burst(self.bytes), drained),
            (Overuse::KeptBytes, self.kept_bytes, KEPT),
        ]
    }
}

impl Default for Pace {
    /// Far more than any program needs, and less than what slows a server.
    fn default() -> Self {
        const MIB: u64 = 1024 * 1024;
        Self {
            messages: 10_000,
            bytes: 16 * MIB,
            kept_bytes: 512 * MIB,
            connections: 16,
            people_connections: 64,
            subscriptions: 2_048,
            waiting: 64 * MIB,
        }
    }
}

/// What a server tells of one connection, also at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// Whose it is.
    pub user: String,
    /// Whether that is a person.
    pub is_person: bool,
    /// Its number, which no other has.
    pub connection: u64,
    /// Messages it published so far.
    pub messages: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// What it subscribes to.
    pub subscriptions: u64,
    /// Bytes that wait until it takes them.
    pub waiting: u64,
}

words! {
    /// What a user does more of than its [`Pace`] allows.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Overuse {
        /// Messages.
        Messages = "it publishes too many messages a second",
        /// Bytes.
        Bytes = "it publishes too many bytes a second",
        /// Bytes that the server keeps.
        KeptBytes = "it publishes more bytes than the server can keep",
        /// Connections.
        Connections = "it has too many connections",
        /// Subscriptions.
        Subscriptions = "it has too many subscriptions",
        /// Bytes that it does not take.
        Waiting = "it does not take what it asked for",
    }
}

/// What a user did since the last look, over all its connections.
#[derive(Debug, Default)]
struct Recent {
    messages: u64,
    bytes: u64,
    connections: usize,
    is_person: bool,
    subscriptions: u64,
    waiting: u64,
}

impl Recent {
    /// What it has more of than it may at once.
    fn beyond(&self, pace: &Pace) -> Option<Overuse> {
        let connections = if self.is_person { pace.people_connections } else { pace.connections };
        [
            (self.connections > connections, Overuse::Connections),
            (self.subscriptions > pace.subscriptions, Overuse::Subscriptions),
            (self.waiting > pace.waiting, Overuse::Waiting),
        ]
        .into_iter()
        .find_map(|(is_beyond, overuse)| is_beyond.then_some(overuse))
    }
}

/// What users published of late: a leaky bucket for each of messages, bytes and kept bytes. Looks are late at
/// times, so a rate is judged over [`BURST_SECONDS`] and not between two looks.
#[derive(Debug, Clone)]
pub struct Talkers {
    pace: Pace,
    looked: Option<Moment>,
    seen: BTreeMap<u64, (u64, u64)>,
    owed: BTreeMap<String, [u64; 3]>,
}

impl Talkers {
    /// Nobody has been looked at.
    #[must_use]
    pub fn new(pace: Pace) -> Self {
        Self { pace, looked: None, seen: BTreeMap::new(), owed: BTreeMap::new() }
    }

    /// Whoever has more than it may at once, or published more than it may, over all its connections. The first
    /// look finds nobody: what is old is not fast.
    pub fn look(
        &mut self,
        told: impl IntoIterator<Item = Told>,
        now: Moment,
    ) -> Vec<(String, Overuse)> {
        let looked = self.looked.replace(now);
        let mut said: BTreeMap<String, Recent> = BTreeMap::new();
        let mut seen = BTreeMap::new();
        for told in told {
            let (connection, messages, bytes) = (told.connection, told.messages, told.bytes);
            let (before, bytes_before) = self.seen.get(&connection).copied().unwrap_or_default();
            let user = said.entry(told.user).or_default();
            user.messages += messages.saturating_sub(before);
            user.bytes += bytes.saturating_sub(bytes_before);
            user.connections += 1;
            user.is_person |= told.is_person;
            user.subscriptions += told.subscriptions;
            user.waiting += told.waiting;
            seen.insert(connection, (messages, bytes));
        }
        self.seen = seen;
        let Some(last) = looked else { return Vec::new() };
        let buckets = self.pace.buckets();
        let passed = now.0.saturating_sub(last.0);
        self.owed.retain(|_, owed| {
            for (owed, (_, size, drained)) in owed.iter_mut().zip(buckets) {
                *owed = owed.saturating_sub(size.saturating_mul(passed) / drained);
            }
            owed.iter().any(|owed| *owed > 0)
        });
        let mut over = Vec::new();
        for (user, recent) in said {
            let owed = self.owed.entry(user.clone()).or_default();
            let Recent { messages, bytes, .. } = recent;
            for (owed, more) in owed.iter_mut().zip([messages, bytes, bytes]) {
                *owed = owed.saturating_add(more);
            }
            let full = owed.iter().zip(buckets).find(|(owed, (_, size, _))| *owed > size);
            let published = full.map(|(_, (overuse, ..))| overuse);
            let overuse = published.or_else(|| recent.beyond(&self.pace));
            over.extend(overuse.map(|overuse| (user, overuse)));
        }
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(user: &str, connection: u64, messages: u64, bytes: u64) -> Told {
        let (user, is_person) = (user.to_owned(), false);
        Told { user, is_person, connection, messages, bytes, subscriptions: 0, waiting: 0 }
    }

    const NOBODY: [(String, Overuse); 0] = [];

    #[test]
    fn user_rate_counts_messages_and_bytes_over_all_connections() {
        let mut talkers = Talkers::new(Pace { messages: 100, bytes: 1_000, ..Pace::default() });
        let old = [told("a", 1, 9_999, 0), told("b", 2, 0, 0)];
        assert_eq!(talkers.look(old, Moment(0)), NOBODY, "what is old is not fast");
        let just = [told("a", 1, 10_199, 0), told("b", 2, 0, 2_000)];
        assert_eq!(talkers.look(just, Moment(500)), NOBODY, "two seconds' worth at once");
        let more = [told("a", 1, 10_199, 0), told("a", 3, 50, 0), told("b", 2, 0, 2_500)];
        assert_eq!(talkers.look(more, Moment(1_000)), NOBODY, "half a second's worth came back");
        let more = [told("a", 1, 10_199, 0), told("a", 3, 101, 0), told("b", 2, 0, 3_001)];
        let over = [("a".to_owned(), Overuse::Messages), ("b".to_owned(), Overuse::Bytes)];
        assert_eq!(talkers.look(more, Moment(1_500)), over);
        assert_eq!(talkers.look([told("a", 4, 0, 0)], Moment(2_000)), NOBODY);
    }

    /// The look in between came late, so twice as long as it seems passed before the next.
    #[test]
    fn late_look_makes_no_steady_sender_too_fast() {
        let mut talkers = Talkers::new(Pace { messages: 100, ..Pace::default() });
        let mut sent = |messages, at| talkers.look([told("a", 1, messages, 0)], Moment(at));
        assert_eq!(sent(0, 0), NOBODY);
        assert_eq!(sent(10, 900), NOBODY, "asked at 100, answered at 900");
        assert_eq!(sent(110, 1_100), NOBODY);
    }

    #[test]
    fn stored_bytes_of_a_user_are_bounded_and_refill() {
        let mut talkers = Talkers::new(Pace { kept_bytes: 120_000, ..Pace::default() });
        let mut sent = |bytes, at| talkers.look([told("a", 1, 0, bytes)], Moment(at));
        assert_eq!(sent(7, 0), NOBODY, "what is old does not count");
        assert_eq!(sent(7 + 120_000, 1_000), NOBODY, "as many as it may");
        assert_eq!(sent(7 + 121_000, 2_000), NOBODY, "1,000 came back in a second");
        assert_eq!(sent(7 + 122_001, 3_000), [("a".to_owned(), Overuse::KeptBytes)]);
        assert_eq!(sent(7 + 122_001, 4_000), NOBODY);
    }

    #[test]
    fn connections_of_an_agent_and_of_a_person_are_bounded() {
        let pace = Pace { connections: 2, people_connections: 3, ..Pace::default() };
        for (is_person, most) in [(false, 2), (true, 3)] {
            let mut talkers = Talkers::new(pace);
            let many = |count| (0..count).map(move |it| Told { is_person, ..told("a", it, 0, 0) });
            assert_eq!(talkers.look(many(most + 1), Moment(0)), NOBODY, "the first look");
            assert_eq!(talkers.look(many(most), Moment(500)), NOBODY);
            let over = [("a".to_owned(), Overuse::Connections)];
            assert_eq!(talkers.look(many(most + 1), Moment(1_000)), over);
        }
    }

    #[test]
    fn subscriptions_of_a_user_are_bounded_over_all_connections() {
        let mut talkers = Talkers::new(Pace { subscriptions: 100, ..Pace::default() });
        let with = |subscriptions| {
            [(1, 60), (2, subscriptions)]
                .map(|(it, subscriptions)| Told { subscriptions, ..told("a", it, 0, 0) })
        };
        assert_eq!(talkers.look(with(40), Moment(0)), NOBODY);
        assert_eq!(talkers.look(with(40), Moment(500)), NOBODY);
        let over = [("a".to_owned(), Overuse::Subscriptions)];
        assert_eq!(talkers.look(with(41), Moment(1_000)), over);
    }

    #[test]
    fn user_that_takes_nothing_is_found_by_what_waits_on_all_connections() {
        let mut talkers = Talkers::new(Pace { waiting: 100, ..Pace::default() });
        let told = |waiting| {
            [(1, 50), (2, waiting)]
                .map(|(connection, waiting)| Told { waiting, ..told("a", connection, 0, 0) })
        };
        assert_eq!(talkers.look(told(50), Moment(0)), NOBODY);
        assert_eq!(talkers.look(told(50), Moment(500)), NOBODY);
        let over = talkers.look(told(51), Moment(1_000));
        assert_eq!(over, [("a".to_owned(), Overuse::Waiting)]);
    }
}
