//! What a backend is given for one run: what it is told, what is asked of it, and where it tells
//! what it sees. Knows nothing of processes.

use std::sync::Arc;

use tetrarch_core::id::RunId;
use tetrarch_core::order::{Inbound, Observed, RunnerEvent};
use tetrarch_core::time::Millis;
use tetrarch_core::verb::Command;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{Instant, sleep_until};

use crate::worktree::WorktreeFinalizer;

/// Events of one run that are told and not handled.
const EVENTS_MAX: usize = 64;

/// What is asked of a run. A level, not an event: the last request stands, so it can neither
/// queue up behind lines nor get lost.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum StopRequest {
    /// To go on.
    #[default]
    Nothing,
    /// To end within bounds (spec 06, The three verbs).
    Stop {
        /// Time to reach a boundary.
        drain: Millis,
        /// Time between TERM and KILL.
        kill_grace: Millis,
        /// Why.
        reason: String,
    },
    /// To checkpoint and end within the same bounds, so that its next session goes on.
    Rotate {
        /// Time to reach a boundary.
        drain: Millis,
        /// Time between TERM and KILL.
        kill_grace: Millis,
        /// Why.
        reason: String,
    },
    /// To end at once.
    Kill,
}

impl StopRequest {
    /// Whether this gives way to something else that is asked: a rotation to anything, a stop to
    /// everything but a rotation, a kill to nothing.
    #[must_use]
    pub fn gives_way_to(&self, wanted: &Self) -> bool {
        match self {
            Self::Nothing | Self::Rotate { .. } => true,
            Self::Stop { .. } => !matches!(wanted, Self::Rotate { .. }),
            Self::Kill => false,
        }
    }
}

/// A backend's place in one run.
#[derive(Debug)]
pub struct RunChannels {
    /// Lines for the program.
    pub lines: mpsc::Receiver<Inbound>,
    /// What is asked of the run; a closed channel means [`StopRequest::Kill`].
    pub asked: watch::Receiver<StopRequest>,
    /// Verbs for the program, to be looked for before every line, and at every boundary. Each is
    /// answered by [`RunnerEvent::Receipt`]: delivered, and effective once it was taken; a pause is
    /// effective when the program stands still. A backend that drops this takes none: whatever
    /// comes is refused.
    pub verbs: mpsc::Receiver<Command>,
    /// Where it tells what it sees.
    pub teller: Teller,
}

/// Tells what a run does to whoever gave the order.
#[derive(Debug, Clone)]
pub struct Teller {
    run: RunId,
    observed: mpsc::Sender<Observed>,
    permits: Arc<Semaphore>,
    closing: watch::Receiver<Option<Instant>>,
    ending: WorktreeFinalizer,
}

impl Teller {
    pub(crate) fn new(
        run: RunId,
        observed: mpsc::Sender<Observed>,
        closing: watch::Receiver<Option<Instant>>,
    ) -> Self {
        let permits = Arc::new(Semaphore::new(EVENTS_MAX));
        Self { run, observed, permits, closing, ending: WorktreeFinalizer::default() }
    }

    /// What is done before the run's end is told.
    pub(crate) fn ending(&self) -> &WorktreeFinalizer {
        &self.ending
    }

    /// The run it speaks of.
    #[must_use]
    pub fn run(&self) -> RunId {
        self.run
    }

    /// Tells one event. Waits while the listener has as many of this run in hand as there are places:
    /// that is the back-pressure, which no other run feels. Once the
    /// runner is closing it waits only for a moment, since nobody may be listening any more.
    pub async fn tell(&self, event: RunnerEvent) {
        for event in self.ending.before(&event).await {
            self.tell_on(event).await;
        }
        self.tell_on(event).await;
    }

    async fn tell_on(&self, event: RunnerEvent) {
        let mut closing = self.closing.clone();
        let given_up = async move {
            if let Ok(Some(end)) = closing.wait_for(Option::is_some).await.map(|end| *end) {
                sleep_until(end).await;
            }
        };
        tokio::select! {
            biased;
            () = self.send(event) => {}
            () = given_up => {
                tracing::debug!(run = %self.run, "the listener took no more before closing");
            }
        }
    }
}

impl Teller {
    async fn send(&self, event: RunnerEvent) {
        // The semaphore is never closed.
        let Ok(permit) = Arc::clone(&self.permits).acquire_owned().await else { return };
        let observed = Observed { run: self.run, event, place: Box::new(permit) };
        if self.observed.send(observed).await.is_err() {
            tracing::debug!(run = %self.run, "nobody listens to this run any more");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tetrarch_core::id::Ulid;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn run_with_unhandled_events_delays_no_other() {
        let (tell, mut told) = mpsc::channel(1);
        let (_closing, closed) = watch::channel(None);
        let [chatty, quiet] =
            [1, 2].map(|run| Teller::new(RunId(Ulid(run)), tell.clone(), closed.clone()));
        let event = || RunnerEvent::Log { text: "again".to_owned() };
        let mut kept = Vec::new();
        for _ in 0..EVENTS_MAX {
            chatty.tell(event()).await;
            kept.push(told.recv().await.unwrap());
        }
        let more = timeout(Duration::from_secs(1), chatty.tell(event()));
        assert!(more.await.is_err(), "it waits for its own places");
        quiet.tell(event()).await;
        assert_eq!(told.recv().await.unwrap().run, quiet.run());
        kept.pop();
        chatty.tell(event()).await;
        assert_eq!(told.recv().await.unwrap().run, chatty.run());
    }

    #[test]
    fn stop_request_is_never_weakened() {
        let (time, reason) = (Millis(1), String::new());
        let stop = StopRequest::Stop { drain: time, kill_grace: time, reason: reason.clone() };
        let rotate = StopRequest::Rotate { drain: time, kill_grace: time, reason };
        for (asked, wanted, taken) in [
            (&StopRequest::Nothing, &rotate, true),
            (&StopRequest::Nothing, &stop, true),
            (&rotate, &stop, true),
            (&rotate, &StopRequest::Kill, true),
            (&stop, &rotate, false),
            (&stop, &stop, true),
            (&stop, &StopRequest::Kill, true),
            (&StopRequest::Kill, &rotate, false),
            (&StopRequest::Kill, &stop, false),
        ] {
            assert_eq!(asked.gives_way_to(wanted), taken, "{asked:?}, then {wanted:?}");
        }
    }
}
