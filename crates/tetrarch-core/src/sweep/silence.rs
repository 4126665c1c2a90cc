//! How long a silence has to last to mean something: the arithmetic of windows for one session
//! (spec 04, The five states). It knows no other session and remembers nothing.

use crate::limits::{
    OFFLINE_WINDOWS, PREPARING, REGISTER_WINDOWS, STALE_WINDOWS, WINDOW_MAX, WINDOW_MIN,
};
use crate::liveness::Liveness;
use crate::time::{Millis, Moment};

/// A window that is out of bounds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the liveness window of {}ms is out of range; allowed: {}ms to {}ms",
    .window.0, WINDOW_MIN.0, WINDOW_MAX.0
)]
pub struct WindowError {
    /// The window that was given.
    pub window: Millis,
}

/// The lengths of time that silence is measured by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    window: Millis,
    register_deadline: Millis,
}

/// What is known of one session's signs of life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signs {
    /// Where the session stands.
    pub state: Liveness,
    /// The last sign of life; the admission of a session in `register`.
    pub last: Moment,
    /// Its host said that it prepares the session; counts in `register` only.
    pub preparing: bool,
}

impl Windows {
    /// Windows of this length, from 50 ms to 60 s, with a register deadline of six of them.
    ///
    /// # Errors
    /// The window, when it is shorter or longer (spec 04).
    pub fn new(window: Millis) -> Result<Self, WindowError> {
        if !(WINDOW_MIN..=WINDOW_MAX).contains(&window) {
            return Err(WindowError { window });
        }
        Ok(Self { window, register_deadline: times(window, REGISTER_WINDOWS) })
    }

    /// The same with another register deadline.
    #[must_use]
    pub fn with_register_deadline(self, register_deadline: Millis) -> Self {
        Self { register_deadline, ..self }
    }

    /// One window.
    #[must_use]
    pub fn window(self) -> Millis {
        self.window
    }

    /// The longest the sweeper may go without hearing itself: half a window (spec 04).
    #[must_use]
    pub fn own_gap_max(self) -> Millis {
        Millis(self.window.0 / 2)
    }

    /// Whole windows missed at `now`. Silence begins with the last sign of life, or with the
    /// moment since which the sweeper listens without a gap: what it could not hear is not
    /// missed, and everybody has a full window from then on.
    #[must_use]
    pub fn missed(self, last: Moment, listening_since: Moment, now: Moment) -> u64 {
        (now - last.max(listening_since)).0 / self.window.0
    }

    /// Where the session stands at `now`, for a sweeper that listens since `listening_since`.
    #[must_use]
    pub fn judge(self, signs: Signs, listening_since: Moment, now: Moment) -> Liveness {
        match signs.state {
            Liveness::Register if now >= self.register_ends(signs, listening_since) => {
                Liveness::Offline
            }
            Liveness::Active | Liveness::Stale => {
                match self.missed(signs.last, listening_since, now) {
                    OFFLINE_WINDOWS.. => Liveness::Offline,
                    STALE_WINDOWS.. => Liveness::Stale,
                    0 if now - signs.last < self.window => Liveness::Active,
                    0 => signs.state,
                }
            }
            Liveness::Register | Liveness::Offline | Liveness::Terminated => signs.state,
        }
    }

    /// When silence makes the next difference to the session; none when it never does.
    pub(super) fn next(self, signs: Signs, listening_since: Moment) -> Option<Moment> {
        let silent_since = signs.last.max(listening_since);
        match signs.state {
            Liveness::Register => Some(self.register_ends(signs, listening_since)),
            Liveness::Active => Some(silent_since + times(self.window, STALE_WINDOWS)),
            Liveness::Stale => Some(silent_since + times(self.window, OFFLINE_WINDOWS)),
            Liveness::Offline | Liveness::Terminated => None,
        }
    }

    /// A sweeper that has not listened for three windows declares nobody offline.
    pub(super) fn register_ends(self, signs: Signs, listening_since: Moment) -> Moment {
        let patience = if signs.preparing {
            self.register_deadline.max(PREPARING)
        } else {
            self.register_deadline
        };
        (signs.last + patience).max(listening_since + times(self.window, OFFLINE_WINDOWS))
    }
}

fn times(window: Millis, count: u64) -> Millis {
    Millis(window.0.saturating_mul(count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::liveness::Liveness::{Active, Offline, Register, Stale, Terminated};

    const W: u64 = 1_000;

    /// Where a session stands whose last sign was at 100 windows.
    fn judged(state: Liveness, listening_since: u64, now: u64) -> Liveness {
        let windows = Windows::new(Millis(W)).unwrap();
        let signs = Signs { state, last: Moment(100 * W), preparing: false };
        windows.judge(signs, Moment(listening_since), Moment(now))
    }

    #[test]
    fn registering_session_has_its_deadline_and_three_windows() {
        assert_eq!(judged(Register, 0, 106 * W - 1), Register);
        assert_eq!(judged(Register, 0, 106 * W), Offline);
        assert_eq!(judged(Register, 105 * W, 108 * W - 1), Register);
        assert_eq!(judged(Register, 105 * W, 108 * W), Offline);
    }

    #[test]
    fn session_heard_within_a_window_is_active_and_unheard_one_unchanged() {
        for state in [Active, Stale] {
            assert_eq!(judged(state, 0, 101 * W - 1), Active, "{state}");
            assert_eq!(judged(state, 0, 101 * W), Stale, "{state}");
            assert_eq!(judged(state, 0, 103 * W - 1), Stale, "{state}");
            assert_eq!(judged(state, 0, 103 * W), Offline, "{state}");
            // The sweeper has just begun to listen.
            assert_eq!(judged(state, 101 * W, 101 * W - 1), Active, "{state}");
            assert_eq!(judged(state, 101 * W, 101 * W), state, "{state}");
            assert_eq!(judged(state, 150 * W, 150 * W), state, "{state}");
        }
        assert_eq!(judged(Offline, 0, 100 * W), Offline);
        assert_eq!(judged(Terminated, 0, 900 * W), Terminated);
    }
}
