//! The ladder row by row, and what holds of every view.

use proptest::prelude::*;

use super::*;

const IDLE: u64 = 900_000;

/// An active assignment whose last dispatch was consumed at 0 and that shows nothing since.
fn view() -> View {
    View {
        status: AssignmentStatus::Active,
        goal_open: true,
        liveness: Liveness::Active,
        run: RunState::Running,
        last_dispatch: BusTime(0),
        consumed: true,
        last_activity: BusTime(0),
        expected_next_update: None,
        retries: 0,
        backoff_until: BusTime(0),
        diagnosis: Diagnosis::Unknown,
        means: Means::default(),
    }
}

fn at(view: &View, now: u64) -> (AssignmentStatus, Option<Rung>) {
    let Verdict { status, rung, .. } = judge(view, &Patience::default(), BusTime(now));
    (status, rung)
}

fn rung(view: &View) -> Option<Rung> {
    at(view, IDLE).1
}

#[test]
fn silence_is_a_stall_from_the_idle_limit() {
    assert_eq!(at(&view(), IDLE - 1), (AssignmentStatus::Active, None));
    assert_eq!(at(&view(), IDLE), (AssignmentStatus::Stalled, Some(Rung::Nudge)));
    let heard = View { last_activity: BusTime(1_000), ..view() };
    assert_eq!(at(&heard, IDLE + 999), (AssignmentStatus::Active, None));
    assert_eq!(at(&heard, IDLE + 1_000), (AssignmentStatus::Stalled, Some(Rung::Nudge)));
}

#[test]
fn missed_promised_update_is_a_stall() {
    let promised = View {
        expected_next_update: Some(BusTime(400_000)),
        last_activity: BusTime(350_000),
        ..view()
    };
    assert_eq!(at(&promised, 399_999), (AssignmentStatus::Active, None));
    assert_eq!(at(&promised, 400_000), (AssignmentStatus::Stalled, Some(Rung::Nudge)));
}

#[test]
fn waiting_agent_is_excused_and_crash_is_no_stall() {
    use RunState::{
        AwaitingInput, Blocked, Cancelling, Compacting, Done, Failed, Orphaned, PausedByUser,
        Queued, Running, Spawning,
    };
    for run in [AwaitingInput, PausedByUser, Compacting, Cancelling, Done, Failed, Orphaned] {
        let view = View { run, ..view() };
        assert_eq!(at(&view, 10 * IDLE), (AssignmentStatus::Active, None), "{run}");
    }
    for run in [Queued, Spawning, Running, Blocked] {
        assert_eq!(rung(&View { run, ..view() }), Some(Rung::Nudge), "{run}");
    }
    for liveness in [Liveness::Offline, Liveness::Terminated] {
        let view = View { liveness, ..view() };
        assert_eq!(at(&view, 10 * IDLE), (AssignmentStatus::Active, None), "{liveness}");
    }
    for liveness in [Liveness::Register, Liveness::Active, Liveness::Stale] {
        assert_eq!(rung(&View { liveness, ..view() }), Some(Rung::Nudge), "{liveness}");
    }
}

#[test]
fn only_open_dispatches_are_checked() {
    use AssignmentStatus::{Active, Blocked, Cancelled, Dispatched, Done, Queued, Stalled};
    for status in [Queued, Blocked, Done, Cancelled] {
        assert_eq!(at(&View { status, ..view() }, 10 * IDLE), (status, None));
    }
    for status in [Dispatched, Active, Stalled] {
        assert_eq!(at(&View { status, ..view() }, IDLE), (Stalled, Some(Rung::Nudge)));
    }
}

#[test]
fn activity_after_the_last_dispatch_ends_a_stall() {
    let stalled = View {
        status: AssignmentStatus::Stalled,
        last_dispatch: BusTime(IDLE),
        last_activity: BusTime(IDLE),
        ..view()
    };
    assert_eq!(at(&stalled, IDLE + 1_000), (AssignmentStatus::Stalled, None), "just asked");
    let answered = View { last_activity: BusTime(IDLE + 1), ..stalled };
    assert_eq!(at(&answered, IDLE + 1_000), (AssignmentStatus::Active, None));
}

#[test]
fn every_row_of_the_recovery_ladder_holds() {
    let default = Means::default();
    let tried = |retries| View { retries, ..view() };
    assert_eq!(rung(&tried(0)), Some(Rung::Nudge));
    assert_eq!(rung(&tried(1)), Some(Rung::Nudge));
    assert_eq!(rung(&tried(2)), Some(Rung::Reassign));
    let lost = |retries| View { consumed: false, ..tried(retries) };
    assert_eq!(rung(&lost(0)), Some(Rung::Resend));
    assert_eq!(rung(&lost(1)), Some(Rung::Resend));
    assert_eq!(rung(&lost(2)), Some(Rung::Reassign));
    let means = |means| View { means, ..tried(2) };
    assert_eq!(rung(&means(Means { replan: true, ..default })), Some(Rung::Replan));
    assert_eq!(rung(&means(Means { reassign: false, ..default })), Some(Rung::Escalate));
    let diagnosed = |diagnosis| View { diagnosis, ..view() };
    assert_eq!(rung(&diagnosed(Diagnosis::Slow)), Some(Rung::Nudge));
    assert_eq!(rung(&diagnosed(Diagnosis::WaitsForHuman)), Some(Rung::Escalate));
    assert_eq!(rung(&diagnosed(Diagnosis::Failed)), Some(Rung::Reassign));
}

#[test]
fn recovery_policy_may_start_at_a_later_rung() {
    let all = Means { from: Rung::Nudge, replan: true, reassign: true };
    let from = |from, consumed| rung(&View { means: Means { from, ..all }, consumed, ..view() });
    assert_eq!(from(Rung::Nudge, true), Some(Rung::Nudge));
    assert_eq!(from(Rung::Resend, false), Some(Rung::Resend));
    assert_eq!(from(Rung::Resend, true), Some(Rung::Replan), "there is nothing to send again");
    assert_eq!(from(Rung::Replan, false), Some(Rung::Replan));
    assert_eq!(from(Rung::Reassign, false), Some(Rung::Reassign));
    assert_eq!(from(Rung::Escalate, false), Some(Rung::Escalate));
}

#[test]
fn nothing_is_sent_before_its_time() {
    let waits = View { backoff_until: BusTime(IDLE + 1), ..view() };
    assert_eq!(at(&waits, IDLE), (AssignmentStatus::Stalled, None));
    assert_eq!(at(&waits, IDLE + 1), (AssignmentStatus::Stalled, Some(Rung::Nudge)));
    let promised = View { expected_next_update: Some(BusTime(0)), ..view() };
    assert_eq!(at(&promised, 299_999), (AssignmentStatus::Stalled, None), "the same words");
    assert_eq!(at(&promised, 300_000), (AssignmentStatus::Stalled, Some(Rung::Nudge)));
    let human = View { diagnosis: Diagnosis::WaitsForHuman, ..promised };
    assert_eq!(at(&human, 1), (AssignmentStatus::Stalled, Some(Rung::Escalate)), "other words");
    let paused = View { goal_open: false, ..view() };
    assert_eq!(at(&paused, IDLE), (AssignmentStatus::Stalled, None));
}

fn times() -> impl Strategy<Value = BusTime> {
    (0u64..4).prop_map(|n| BusTime(n * 450_000))
}

prop_compose! {
    fn views()(
        status in prop::sample::select(&AssignmentStatus::ALL[..]),
        goal_open: bool,
        liveness in prop::sample::select(&[Liveness::Active, Liveness::Stale, Liveness::Offline][..]),
        run in prop::sample::select(&RunState::ALL[..]),
        last_dispatch in times(),
        consumed: bool,
        last_activity in times(),
        expected_next_update in prop::option::of(times()),
        retries in 0u32..4,
        backoff_until in times(),
        from in prop::sample::select(&Rung::ALL[..]),
        replan: bool,
        reassign: bool,
    ) -> View {
        View {
            status, goal_open, liveness, run, last_dispatch, consumed, last_activity,
            expected_next_update, retries, backoff_until, diagnosis: Diagnosis::Unknown,
            means: Means { from, replan, reassign },
        }
    }
}

proptest! {
    #[test]
    fn status_follows_its_transition_table(view in views(), now in times()) {
        let (to, _) = at(&view, now.0);
        prop_assert!(to == view.status || view.status.to(to, true).is_ok());
    }

    #[test]
    fn dispatches_keep_their_minimum_interval(view in views(), now in times()) {
        let patience = Patience::default();
        let verdict = judge(&view, &patience, now);
        if let Some(rung) = verdict.rung {
            prop_assert!(view.goal_open && view.backoff_until <= now);
            prop_assert_eq!(verdict.status, AssignmentStatus::Stalled);
            if rung <= Rung::Resend {
                prop_assert!(view.last_dispatch + patience.min_resend_interval <= now);
                prop_assert!(view.retries < patience.max_retries);
            }
        }
    }

    #[test]
    fn repeated_tick_at_one_moment_finds_nothing_new(view in views(), now in times()) {
        // Nothing was sent or heard of later than now.
        let now = now.max(view.last_activity).max(view.last_dispatch);
        let first = judge(&view, &Patience::default(), now);
        let sent = matches!(first.rung, Some(Rung::Nudge | Rung::Resend));
        let after = View {
            status: first.status,
            last_dispatch: if sent { now } else { view.last_dispatch },
            expected_next_update: view.expected_next_update.filter(|_| !sent),
            retries: view.retries + u32::from(sent),
            ..view
        };
        if sent || first.rung.is_none() {
            let again = judge(&after, &Patience::default(), now);
            prop_assert_eq!(again.rung, None);
            prop_assert_eq!(again.status, first.status);
        }
    }
}
