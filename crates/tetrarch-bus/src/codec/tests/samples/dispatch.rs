//! An assignment, and something that was sent for it.

use tetrarch_core::assignment::{Assignment, AssignmentStatus, Purpose, Recovery};
use tetrarch_core::dispatch::{Dispatch, DispatchMode, DispatchOutcome};
use tetrarch_core::overseer::Rung;
use tetrarch_core::overseer::policy::RecoveryPolicy;
use tetrarch_core::time::{BusTime, Millis};

use super::id;

pub(super) fn sample(full: bool) -> Dispatch {
    Dispatch {
        id: id("dsp_~"),
        assignment: id("asg_~"),
        at: BusTime(1),
        mode: if full { DispatchMode::Planner } else { DispatchMode::Spawn },
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

pub(super) fn assignment(full: bool) -> Assignment {
    Assignment {
        id: id("asg_~"),
        epic: id("goal_~"),
        node: id("T1.2"),
        purpose: Purpose::Review,
        agent: id("R:api:~"),
        run: id("run_~"),
        status: AssignmentStatus::Stalled,
        reason: "r".to_owned(),
        attempt: 2,
        follows: full.then(|| id("asg_~")),
        created: BusTime(1),
        updated: BusTime(2),
        recovery: recovery(full),
        policy: if full { policy() } else { RecoveryPolicy::default() },
        refused: if full { vec![BusTime(3), BusTime(4)] } else { Vec::new() },
        launch: full.then(|| Box::new(Dispatch { to: id("R:api:~"), ..sample(true) })),
    }
}

pub(super) fn policy() -> RecoveryPolicy {
    RecoveryPolicy {
        from: Some(Rung::Resend),
        max_retries: Some(0),
        idle_after: Some(Millis(60_000)),
        min_resend_interval: Some(Millis(1_000)),
        reassign: Some(false),
    }
}

fn recovery(full: bool) -> Recovery {
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
