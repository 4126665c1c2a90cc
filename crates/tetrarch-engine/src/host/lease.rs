//! The host's lease as its heartbeat (spec 04, Hosts): renewed every third of a window by a task
//! of its own, so that no work delays it. When it was last renewed is told to whoever freezes.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use tetrarch_bus::lease::{Lease, RenewError};
use tetrarch_core::vitals::Vitals;
use tetrarch_failpoint::{Failpoint, reach_if};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use super::rows::VitalsRotation;
use super::{HostConfig, lease_body};
use crate::error::{EngineError, EngineResult};

/// Renewals of a lease in one window (spec 04).
const RENEWALS_PER_WINDOW: u32 = 3;
/// Attempts at a renewal that failed, in one window: each moment without one is a moment nearer to
/// being frozen.
const ATTEMPTS_PER_WINDOW: u32 = 15;
/// A renewal comes up to this part of its interval early, so that hosts do not beat together.
const JITTER_PERCENT: u64 = 10;
/// The least patience with one renewal, however short the window.
const PATIENCE_MIN: Duration = Duration::from_millis(500);

/// What the task gives back: the lease, and why it was lost if it was.
type RenewalResult = (Lease, Option<EngineError>);

/// The task that renews a host's lease.
pub(super) struct LeaseRenewer {
    task: JoinHandle<RenewalResult>,
    stop: oneshot::Sender<()>,
    rows: watch::Sender<Vec<Vitals>>,
}

impl LeaseRenewer {
    /// Begins to renew. `renewed` is told the moment at which each acknowledged renewal was sent.
    pub(super) fn start(
        mut lease: Lease,
        config: HostConfig,
        renewed: watch::Sender<Option<Instant>>,
    ) -> Self {
        let (rows, told) = watch::channel(Vec::new());
        let (stop, stopped) = oneshot::channel::<()>();
        renewed.send_replace(Some(lease.sent_at()));
        let task = tokio::spawn(async move {
            let lost = tokio::select! {
                lost = keep(&mut lease, &config, &told, &renewed) => Some(lost),
                _ = stopped => None,
            };
            (lease, lost)
        });
        Self { task, stop, rows }
    }

    /// What the next renewal tells of the sessions here.
    pub(super) fn tell(&self, rows: Vec<Vitals>) {
        self.rows.send_replace(rows);
    }

    /// Waits until the lease is lost; gives why. Safe to drop.
    pub(super) async fn lost(&mut self) -> EngineError {
        match (&mut self.task).await {
            Ok((_, Some(lost))) => lost,
            Ok((_, None)) => EngineError::LeaseLost("the renewals were stopped".to_owned()),
            Err(broken) => EngineError::ActorDied("lease".to_owned(), broken.to_string()),
        }
    }

    /// Stops renewing and gives the lease back to the bus, so that nobody waits for its silence.
    pub(super) async fn release(self) -> EngineResult {
        // A task that has ended needs no word.
        let _ended = self.stop.send(());
        match self.task.await {
            Ok((lease, None)) => Ok(lease.release().await?),
            Ok((_, Some(lost))) => Err(lost),
            Err(broken) => Err(EngineError::ActorDied("lease".to_owned(), broken.to_string())),
        }
    }
}

/// Renews until the lease is another's. A renewal whose outcome is unknown is made again at the
/// next beat.
async fn keep(
    lease: &mut Lease,
    config: &HostConfig,
    rows: &watch::Receiver<Vec<Vitals>>,
    renewed: &watch::Sender<Option<Instant>>,
) -> EngineError {
    let patience = config.window.max(PATIENCE_MIN);
    let mut turns = VitalsRotation::default();
    let mut failed = false;
    for beat in 0u64.. {
        let wait =
            if failed { config.window / ATTEMPTS_PER_WINDOW } else { interval(config, beat) };
        tokio::time::sleep(wait).await;
        failed = true;
        let all = rows.borrow().clone();
        reach_if(Failpoint::HeartbeatDue, || any_runs(&all));
        let body = match lease_body(config, all.len(), turns.next(all)) {
            Ok(body) => body,
            Err(error) => return error,
        };
        match tokio::time::timeout(patience, lease.renew(body)).await {
            Ok(Ok(_)) => {
                reach_if(Failpoint::HeartbeatSent, || any_runs(&rows.borrow()));
                failed = false;
                renewed.send_replace(Some(lease.sent_at()));
            }
            Ok(Err(error @ (RenewError::Lost { .. } | RenewError::WentBack { .. }))) => {
                return EngineError::LeaseLost(error.to_string());
            }
            Ok(Err(error)) => tracing::warn!(%error, "a renewal of the host's lease failed"),
            Err(_) => tracing::warn!(?patience, "a renewal of the host's lease was not answered"),
        }
    }
    EngineError::LeaseLost("the renewals ended".to_owned())
}

/// Whether a program runs among these sessions.
fn any_runs(rows: &[Vitals]) -> bool {
    rows.iter().any(|row| row.run_state.is_some())
}

/// The time to the next beat: a third of a window, a little less each time in another way.
fn interval(config: &HostConfig, beat: u64) -> Duration {
    let mut hasher = DefaultHasher::new();
    (&config.instance, config.life, beat).hash(&mut hasher);
    let early = u32::try_from(hasher.finish() % (JITTER_PERCENT + 1)).unwrap_or(0);
    config.window / RENEWALS_PER_WINDOW * (100 - early) / 100
}
