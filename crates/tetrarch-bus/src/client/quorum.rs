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
pub(super) struct QuorumWatch(Mutex<QuorumState>);

#[derive(Debug, Default)]
struct QuorumState {
    writes: Option<Instant>,
    asks: Option<Instant>,
    /// When the server was changed last: what was sent before says nothing of the next one.
    changed: Option<Instant>,
}

/// What a server is asked that needs a majority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QuorumProbe {
    Write,
    Api,
}

impl QuorumWatch {
    fn state(&self) -> MutexGuard<'_, QuorumState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who acknowledges writes has a majority: what else it does not answer is not for want of that, and another
    /// server would not know more.
    fn answered(&self, asked: QuorumProbe) {
        let mut state = self.state();
        match asked {
            QuorumProbe::Write => {
                *state = QuorumState { changed: state.changed, ..QuorumState::default() }
            }
            QuorumProbe::Api => state.asks = None,
        }
    }

    /// There is no server just now: what is not answered meanwhile says nothing of the next one.
    fn changes(&self, now: Instant) {
        *self.state() = QuorumState { changed: Some(now), ..QuorumState::default() };
    }

    /// Something that was sent at `sent` was not answered until `now`; whether another server is to
    /// be tried, which is said once of each.
    fn unanswered(&self, asked: QuorumProbe, sent: Instant, now: Instant) -> bool {
        let mut state = self.state();
        let sent = state.changed.map_or(sent, |changed| changed.max(sent));
        let first = *state.since(asked).get_or_insert(sent);
        let long = now.duration_since(first) >= DOUBT_AFTER;
        if long {
            *state = QuorumState { changed: Some(now), ..QuorumState::default() };
        }
        long
    }
}

impl QuorumState {
    fn since(&mut self, asked: QuorumProbe) -> &mut Option<Instant> {
        match asked {
            QuorumProbe::Write => &mut self.writes,
            QuorumProbe::Api => &mut self.asks,
        }
    }
}

/// Whose turn it is: a connection that was lost or given up goes on with the next server, never at
/// once with the same one, which drawing lots would allow.
#[derive(Debug, Default)]
pub(super) struct ServerRotation(Mutex<Option<ServerAddr>>);

impl ServerRotation {
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
        self.note(QuorumProbe::Write, sent, unanswered).await;
    }

    /// Takes note of whether a question to the JetStream API that was asked at `sent` was answered.
    pub(crate) async fn note_ask(&self, sent: Instant, answered: bool) {
        self.note(QuorumProbe::Api, sent, !answered).await;
    }

    async fn note(&self, asked: QuorumProbe, sent: Instant, unanswered: bool) {
        if !unanswered {
            self.quorum.answered(asked);
            return;
        }
        if self.client.connection_state() != State::Connected {
            self.quorum.changes(Instant::now());
            return;
        }
        let elsewhere = self.servers > 1 || !self.client.server_info().connect_urls.is_empty();
        if elsewhere && self.quorum.unanswered(asked, sent, Instant::now()) {
            tracing::warn!("this server has no majority; trying another server");
            // A connection that is closed for good needs no other server.
            let _closed = self.client.force_reconnect().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lasting_quorum_loss_is_reported_per_server() {
        let (quorum, at) = (QuorumWatch::default(), Instant::now());
        let later = |ms| at + Duration::from_millis(ms);
        assert!(!quorum.unanswered(QuorumProbe::Write, at, later(3_999)));
        assert!(
            quorum.unanswered(QuorumProbe::Write, later(3_000), later(4_000)),
            "counted from the first"
        );
        assert!(!quorum.unanswered(QuorumProbe::Api, at, later(4_001)), "nor did the last server");
        assert!(
            !quorum.unanswered(QuorumProbe::Write, later(3_500), later(7_999)),
            "a time of its own"
        );
        quorum.answered(QuorumProbe::Api);
        assert!(
            quorum.unanswered(QuorumProbe::Write, later(7_999), later(8_001)),
            "it has no majority"
        );
        assert!(!quorum.unanswered(QuorumProbe::Write, later(8_001), later(9_000)));
        assert!(!quorum.unanswered(QuorumProbe::Api, later(8_001), later(9_000)));
        quorum.answered(QuorumProbe::Write);
        for asked in [QuorumProbe::Write, QuorumProbe::Api] {
            assert!(!quorum.unanswered(asked, later(9_000), later(12_999)), "it has: {asked:?}");
        }
    }

    #[test]
    fn silence_without_a_server_does_not_count_against_the_next_one() {
        let (quorum, at) = (QuorumWatch::default(), Instant::now());
        let later = |ms| at + Duration::from_millis(ms);
        assert!(!quorum.unanswered(QuorumProbe::Write, at, later(3_000)));
        quorum.changes(later(5_000));
        assert!(!quorum.unanswered(QuorumProbe::Write, later(4_000), later(8_999)));
        assert!(quorum.unanswered(QuorumProbe::Write, later(4_000), later(9_000)));
    }

    #[test]
    fn lost_connection_moves_to_the_next_server() {
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
        let turns = ServerRotation::default();
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
