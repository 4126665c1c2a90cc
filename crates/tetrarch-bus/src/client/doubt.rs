//! Doubt in the server behind a connection that stands: one that is cut off from the rest of its
//! cluster takes everything and acknowledges nothing, for as long as it lasts. A client that hears
//! no acknowledgement looks for another server. It judges no single answer.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_nats::connection::State;
use async_nats::{ReconnectToServer, Server, ServerAddr};

use super::Bus;
use crate::error::PublishError;

/// So long without an answer, and another server may know more. Less than an election takes: during
/// one a change of servers costs nothing.
const DOUBT_AFTER: Duration = Duration::from_secs(4);

/// Since when nothing was answered that needs a majority; none when something was since. Reads of
/// messages do not count: a server that is cut off answers them with what it has.
#[derive(Debug, Default)]
pub(super) struct Doubt(Mutex<Doubted>);

#[derive(Debug, Default)]
struct Doubted {
    writes: Option<Instant>,
    asks: Option<Instant>,
    /// When the server was changed last: what was sent before says nothing of the next one.
    changed: Option<Instant>,
}

/// What a server is asked that needs a majority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Write,
    Api,
}

impl Doubt {
    fn doubted(&self) -> MutexGuard<'_, Doubted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who acknowledges writes has a majority: what else it does not answer is not for want of that, and another
    /// server would not know more.
    fn answered(&self, asked: Asked) {
        let mut doubted = self.doubted();
        match asked {
            Asked::Write => *doubted = Doubted { changed: doubted.changed, ..Doubted::default() },
            Asked::Api => doubted.asks = None,
        }
    }

    /// There is no server just now: what is not answered meanwhile says nothing of the next one.
    fn changes(&self, now: Instant) {
        *self.doubted() = Doubted { changed: Some(now), ..Doubted::default() };
    }

    /// Something that was sent at `sent` was not answered until `now`; whether another server is to
    /// be tried, which is said once of each.
    fn unanswered(&self, asked: Asked, sent: Instant, now: Instant) -> bool {
        let mut doubted = self.doubted();
        let sent = doubted.changed.map_or(sent, |changed| changed.max(sent));
        let first = *doubted.since(asked).get_or_insert(sent);
        let long = now.duration_since(first) >= DOUBT_AFTER;
        if long {
            *doubted = Doubted { changed: Some(now), ..Doubted::default() };
        }
        long
    }
}

impl Doubted {
    fn since(&mut self, asked: Asked) -> &mut Option<Instant> {
        match asked {
            Asked::Write => &mut self.writes,
            Asked::Api => &mut self.asks,
        }
    }
}

/// Whose turn it is: a connection that was lost or given up goes on with the next server, never at
/// once with the same one, which drawing lots would allow.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<Option<ServerAddr>>);

impl Turns {
    /// The server to try now; none for the first connection, which is drawn by lot.
    pub(super) fn next(&self, pool: &[Server]) -> Option<ReconnectToServer> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let was_last = |server: &Server| match &*last {
            Some(last) => server.addr == *last,
            None => server.did_connect,
        };
        let at = pool.iter().position(was_last)?;
        let addr = pool[(at + 1) % pool.len()].addr.clone();
        *last = Some(addr.clone());
        Some(ReconnectToServer { addr, delay: None })
    }
}

impl Bus {
    /// Takes note of how a publish that was sent at `sent` ended.
    pub(super) async fn note_publish(&self, sent: Instant, ended: Option<&PublishError>) {
        let unanswered = ended.is_some_and(PublishError::is_passing);
        self.note(Asked::Write, sent, unanswered).await;
    }

    /// Takes note of whether a question to the JetStream API that was asked at `sent` was answered.
    pub(crate) async fn note_ask(&self, sent: Instant, answered: bool) {
        self.note(Asked::Api, sent, !answered).await;
    }

    async fn note(&self, asked: Asked, sent: Instant, unanswered: bool) {
        if !unanswered {
            self.doubt.answered(asked);
            return;
        }
        if self.client.connection_state() != State::Connected {
            self.doubt.changes(Instant::now());
            return;
        }
        let elsewhere = self.servers > 1 || !self.client.server_info().connect_urls.is_empty();
        if elsewhere && self.doubt.unanswered(asked, sent, Instant::now()) {
            tracing::warn!("this server answers nothing that needs a majority; trying another");
            // A connection that is closed for good needs no other server.
            let _closed = self.client.force_reconnect().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lasts_is_doubted_and_each_server_is_given_its_time() {
        let (doubt, at) = (Doubt::default(), Instant::now());
        let later = |ms| at + Duration::from_millis(ms);
        assert!(!doubt.unanswered(Asked::Write, at, later(3_999)));
        assert!(
            doubt.unanswered(Asked::Write, later(3_000), later(4_000)),
            "counted from the first"
        );
        assert!(!doubt.unanswered(Asked::Api, at, later(4_001)), "nor did the last server");
        assert!(!doubt.unanswered(Asked::Write, later(3_500), later(7_999)), "a time of its own");
        doubt.answered(Asked::Api);
        assert!(doubt.unanswered(Asked::Write, later(7_999), later(8_001)), "it has no majority");
        assert!(!doubt.unanswered(Asked::Write, later(8_001), later(9_000)));
        assert!(!doubt.unanswered(Asked::Api, later(8_001), later(9_000)));
        doubt.answered(Asked::Write);
        for asked in [Asked::Write, Asked::Api] {
            assert!(!doubt.unanswered(asked, later(9_000), later(12_999)), "it has: {asked:?}");
        }
    }

    #[test]
    fn what_is_not_answered_while_there_is_no_server_is_not_held_against_the_next() {
        let (doubt, at) = (Doubt::default(), Instant::now());
        let later = |ms| at + Duration::from_millis(ms);
        assert!(!doubt.unanswered(Asked::Write, at, later(3_000)));
        doubt.changes(later(5_000));
        assert!(!doubt.unanswered(Asked::Write, later(4_000), later(8_999)));
        assert!(doubt.unanswered(Asked::Write, later(4_000), later(9_000)));
    }

    #[test]
    fn a_lost_connection_goes_on_with_the_next_server() {
        let server = |number: usize, connected: bool| {
            let addr = format!("nats://10.0.0.{number}:4222").parse().unwrap();
            Server {
                addr,
                failed_attempts: 0,
                did_connect: connected,
                is_discovered: false,
                last_error: None,
            }
        };
        let turns = Turns::default();
        let next = |pool: &[Server]| turns.next(pool).map(|next| next.addr.host().to_owned());
        let pool = |connected: usize| [1, 2, 3].map(|number| server(number, number == connected));
        assert_eq!(next(&pool(0)), None, "the first one is drawn");
        for host in ["10.0.0.3", "10.0.0.1", "10.0.0.2"] {
            assert_eq!(next(&pool(2)).as_deref(), Some(host));
        }
        assert_eq!(next(&pool(2)[..1]), None, "the one it used was taken out");
        assert_eq!(next(&pool(2)[1..2]).as_deref(), Some("10.0.0.2"), "there is no other");
    }
}
