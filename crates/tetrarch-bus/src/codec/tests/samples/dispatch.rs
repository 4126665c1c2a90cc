//! Something that was sent for an assignment, and what the assignment knows of it.

use tetrarch_core::assignment::Recovery;
use tetrarch_core::dispatch::{Dispatch, DispatchMode, DispatchOutcome};
use tetrarch_core::overseer::Rung;
use tetrarch_core::time::BusTime;

use super::id;

pub(super) fn sample(full: bool) -> Dispatch {
    Dispatch {
        id: id("dsp_~"),
        assignment: id("asg_~"),
        at: BusTime(1),
        mode: if full { DispatchMode::Mail } else { DispatchMode::Spawn },
        rung: full.then_some(Rung::Resend),
        to: id("W:~"),
        session: full.then(|| id("~")),
        text: "how is it?".to_owned(),
        hash: "h".to_owned(),
        outcome: if full { DispatchOutcome::Timeout } else { DispatchOutcome::Accepted },
        run: full.then(|| id("run_~")),
        notes: "n".to_owned(),
    }
}

pub(super) fn recovery(full: bool) -> Recovery {
    Recovery {
        dispatch: full.then(|| id("dsp_~")),
        dispatched: BusTime(2),
        consumed: full,
        last_activity: BusTime(3),
        expected_next_update: full.then_some(BusTime(4)),
        retries: 1,
        last_retry: full.then_some(BusTime(2)),
        backoff_until: BusTime(5),
    }
}
