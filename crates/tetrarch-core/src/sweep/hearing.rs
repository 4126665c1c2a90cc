//! Whether the sweeper itself can hear: since when its own canary comes back without a gap
//! (spec 04, The sweeper). It judges nobody else.

use crate::sweep::Windows;
use crate::time::Moment;

/// The unbroken time in which the sweeper heard its own canary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hearing {
    since: Moment,
    until: Moment,
}

impl Hearing {
    pub(super) fn new(since: Moment, until: Moment) -> Self {
        Self { since, until: until.max(since) }
    }

    /// The canary came back. After a gap of more than half a window hearing begins anew.
    pub(super) fn canary(self, at: Moment, windows: Windows) -> Self {
        if at - self.until > windows.own_gap_max() {
            Self::new(at, at)
        } else {
            Self { until: self.until.max(at), ..self }
        }
    }

    /// Since when it hears, when it still does.
    pub(super) fn since(self, now: Moment, windows: Windows) -> Option<Moment> {
        (now - self.until <= windows.own_gap_max()).then_some(self.since)
    }

    /// When the unbroken time began.
    pub(super) fn begin(self) -> Moment {
        self.since
    }

    /// Whether nothing was missed between an earlier state and this one.
    pub(super) fn goes_on_from(self, before: Self) -> bool {
        self.since == before.since
    }
}
