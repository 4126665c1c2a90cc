//! Patience with a bus that is between two leaders: a process that starts meanwhile must not end
//! for it (spec 02, Client rules). It never waits for what another party has to do.

use std::time::Duration;

use tetrarch_bus::retry::Retry;

use crate::error::{EngineError, EngineResult};

/// How long is tried: three elections of a cluster, each of at most 9 s.
const PATIENCE: Duration = Duration::from_secs(30);
/// First and longest wait between two attempts.
const WAITS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// Does something again while what hinders it passes.
///
/// # Errors
/// What does not pass, or has not passed in time.
pub(crate) async fn until_answered<T, E, F>(mut attempt: impl FnMut() -> F) -> EngineResult<T>
where
    E: Into<EngineError>,
    F: Future<Output = Result<T, E>>,
{
    let mut retry = Retry::new(WAITS.0, WAITS.1, Some(PATIENCE));
    loop {
        let error = match attempt().await {
            Ok(done) => return Ok(done),
            Err(error) => error.into(),
        };
        if !error.is_passing() {
            return Err(error);
        }
        tracing::warn!(%error, "the bus does not answer; trying again");
        if !retry.pause().await {
            return Err(error);
        }
    }
}
