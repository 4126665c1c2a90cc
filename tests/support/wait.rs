//! Waiting for a state that tells nobody when it comes: a file, a process. It must not be used
//! for what says so by itself (the ledger, a program's words).

use std::time::{Duration, Instant};

/// Time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Longest wait for something that has to happen.
pub const SOON: Duration = Duration::from_secs(30);

/// Looks until there is something to see, and gives it.
///
/// # Panics
/// It did not come within [`SOON`].
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + SOON;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(Instant::now() < end, "{what} did not happen within {SOON:?}");
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Waits for a future that has to end.
///
/// # Panics
/// It did not end within [`SOON`].
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(SOON, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what} did not happen within {SOON:?}"),
    }
}
