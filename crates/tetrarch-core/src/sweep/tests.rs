//! The rows of spec 04 on silence, at both ends of every bound. Windows are one second long here.

mod mass;

use proptest::prelude::*;

use super::*;
use crate::limits::PREPARING;
use crate::liveness::Liveness::{Active, Offline, Register, Stale, Terminated};
use crate::time::Millis;

const W: u64 = 1_000;
const THIRD: u64 = W / 3;

fn windows() -> Windows {
    Windows::new(Millis(W)).unwrap()
}

/// A sweeper whose canary comes back three times a window.
struct Stage {
    sweeper: Sweeper<u32>,
    heard_at: u64,
}

impl Stage {
    fn new() -> Self {
        Self::since(0)
    }

    fn since(since: u64) -> Self {
        let mut sweeper = Sweeper::new(windows(), MassPolicy::default());
        sweeper.listening(Moment(since), Moment(since));
        Self { sweeper, heard_at: since }
    }

    fn track(&mut self, who: u32, host: u32, state: Liveness, at: u64) {
        self.track_many(who, host, state, at, 1);
    }

    fn track_many(&mut self, who: u32, host: u32, state: Liveness, at: u64, agents: u32) {
        let host = HostName::new(&format!("h{host}")).unwrap();
        self.sweeper.track(Watch { who, host, epoch: 1, state, agents }, Moment(at));
    }

    /// Hears the canary up to `at` and sweeps then.
    fn sweep(&mut self, at: u64) -> Vec<Proposal<u32>> {
        while self.heard_at < at {
            self.heard_at = (self.heard_at + THIRD).min(at);
            self.sweeper.canary(Moment(self.heard_at));
        }
        self.sweeper.sweep(Moment(at))
    }

    fn observe(&mut self, who: u32, at: u64) -> Heard {
        self.sweeper.observe(&who, 1, Moment(at))
    }

    /// Fifty agents on five hosts, active since 0.
    fn fifty() -> Self {
        let mut stage = Self::new();
        for who in 0..50 {
            stage.track(who, who % 5, Active, 0);
        }
        stage
    }
}

fn active(who: u32) -> Proposal<u32> {
    Proposal::Active { who, epoch: 1 }
}

fn stale(who: u32, missed: u64) -> Proposal<u32> {
    Proposal::Stale { who, epoch: 1, missed }
}

fn offline(who: u32, missed: u64) -> Proposal<u32> {
    Proposal::Offline { who, epoch: 1, missed }
}

fn alerts(proposals: &[Proposal<u32>]) -> usize {
    proposals.iter().filter(|p| matches!(p, Proposal::MassSilence { .. })).count()
}

fn offlines(proposals: &[Proposal<u32>]) -> Vec<u32> {
    let who = |p: &Proposal<u32>| match p {
        Proposal::Offline { who, .. } => Some(*who),
        Proposal::Active { .. } | Proposal::Stale { .. } | Proposal::MassSilence { .. } => None,
    };
    proposals.iter().filter_map(who).collect()
}

fn stales(proposals: &[Proposal<u32>]) -> usize {
    proposals.iter().filter(|p| matches!(p, Proposal::Stale { .. })).count()
}

#[test]
fn windows_are_from_50_ms_to_60_s() {
    for (window, good) in [(0, false), (49, false), (50, true), (60_000, true), (60_001, false)] {
        let made = Windows::new(Millis(window));
        assert_eq!(made.is_ok(), good, "{window}");
        if let Err(error) = made {
            assert_eq!(error.window, Millis(window));
            assert!(error.to_string().ends_with("allowed: 50ms to 60000ms"), "{error}");
        }
    }
}

#[test]
fn silence_is_counted_in_whole_missed_windows() {
    for (state, at, expected) in [
        (Active, W - 1, vec![]),
        (Active, W, vec![stale(7, 1)]),
        (Active, 2 * W - 1, vec![stale(7, 1)]),
        (Active, 2 * W, vec![stale(7, 2)]),
        (Active, 3 * W - 1, vec![stale(7, 2)]),
        (Active, 3 * W, vec![offline(7, 3)]),
        (Active, 9 * W, vec![offline(7, 9)]),
        (Stale, W - 1, vec![]),
        (Stale, 3 * W - 1, vec![]),
        (Stale, 3 * W, vec![offline(7, 3)]),
        (Register, 6 * W - 1, vec![]),
        (Register, 6 * W, vec![offline(7, 6)]),
        (Offline, 9 * W, vec![]),
        (Terminated, 9 * W, vec![]),
    ] {
        let mut stage = Stage::new();
        stage.track(7, 0, state, 0);
        assert_eq!(stage.sweep(at), expected, "{state} at {at}");
        assert_eq!(stage.sweep(at), [], "{state} at {at}: said once");
    }
}

#[test]
fn stale_precedes_offline() {
    let mut stage = Stage::new();
    stage.track(7, 0, Active, 0);
    for (at, expected) in [
        (W - 1, vec![]),
        (W, vec![stale(7, 1)]),
        (2 * W, vec![]),
        (3 * W - 1, vec![]),
        (3 * W, vec![offline(7, 3)]),
        (4 * W, vec![]),
    ] {
        assert_eq!(stage.sweep(at), expected, "at {at}");
    }
    assert_eq!(stage.sweeper.state(&7), Some(Offline));
}

#[test]
fn sign_of_life_resets_the_silence() {
    let mut stage = Stage::new();
    stage.track(7, 0, Active, 0);
    for (sign, at, expected) in [
        (Some(W - 1), W, vec![]),
        (None, 2 * W - 2, vec![]),
        (None, 2 * W - 1, vec![stale(7, 1)]),
        (Some(2 * W + 1), 2 * W + 2, vec![active(7)]),
        (None, 3 * W, vec![]),
        (None, 3 * W + 1, vec![stale(7, 1)]),
        // One that arrives late is no step back.
        (Some(W), 5 * W, vec![active(7), stale(7, 2)]),
        (None, 5 * W + 1, vec![offline(7, 3)]),
    ] {
        if let Some(sign) = sign {
            assert_eq!(stage.observe(7, sign), Heard::Alive);
        }
        assert_eq!(stage.sweep(at), expected, "at {at}");
    }
    assert_eq!(stage.observe(7, 5 * W + 2), Heard::Superseded, "an offline one never comes back");
    assert_eq!(stage.sweep(5 * W + 2), []);
}

#[test]
fn foreign_signs_change_nothing() {
    for (state, epoch, heard, after) in [
        (Register, 1, Heard::Alive, Active),
        (Active, 1, Heard::Alive, Active),
        (Stale, 1, Heard::Alive, Active),
        (Register, 0, Heard::Superseded, Register),
        (Active, 0, Heard::Superseded, Active),
        (Stale, 2, Heard::Superseded, Stale),
        (Offline, 1, Heard::Superseded, Offline),
        (Terminated, 1, Heard::Superseded, Terminated),
    ] {
        let mut stage = Stage::new();
        stage.track(7, 0, state, 0);
        assert_eq!(stage.sweeper.observe(&7, epoch, Moment(9)), heard, "{state} {epoch}");
        assert_eq!(stage.sweeper.state(&7), Some(after), "{state} {epoch}");
        let said = if after == state { vec![] } else { vec![active(7)] };
        assert_eq!(stage.sweep(10), said, "{state} {epoch}");
        assert_eq!(stage.sweep(W).is_empty(), after != Active || heard == Heard::Alive);
    }
    assert_eq!(Stage::new().observe(8, 9), Heard::Unknown);
}

#[test]
fn preparing_agent_has_a_minute_for_its_first_heartbeat() {
    for (deadline, preparing, ends) in [
        (6 * W, false, 6 * W),
        (6 * W, true, PREPARING.0),
        (90_000, true, 90_000),
        (4 * W, false, 4 * W),
        // Nobody goes offline before three windows of listening.
        (2 * W, false, 3 * W),
    ] {
        let windows = windows().with_register_deadline(Millis(deadline));
        let mut stage = Stage::new();
        stage.sweeper = Sweeper::new(windows, MassPolicy::default());
        stage.sweeper.listening(Moment(0), Moment(0));
        stage.track(7, 0, Register, 0);
        if preparing {
            stage.sweeper.prepares(&7);
        }
        assert_eq!(stage.sweep(ends - 1), [], "{deadline} {preparing}");
        assert_eq!(offlines(&stage.sweep(ends)), [7], "{deadline} {preparing}");
    }
}

#[test]
fn restarted_sweeper_gives_everybody_a_full_window() {
    let start = 100 * W;
    for (state, last, at, expected) in [
        (Active, 0, start + W - 1, vec![]),
        (Active, 0, start + W, vec![stale(7, 1)]),
        (Active, 0, start + 3 * W - 1, vec![stale(7, 2)]),
        (Active, 0, start + 3 * W, vec![offline(7, 3)]),
        (Active, start - 1, start + W - 1, vec![]),
        (Active, start + 1, start + W, vec![]),
        (Stale, 0, start + 3 * W - 1, vec![]),
        (Stale, 0, start + 3 * W, vec![offline(7, 3)]),
        (Register, 0, start + 3 * W - 1, vec![]),
        (Register, 0, start + 3 * W, vec![offline(7, 3)]),
    ] {
        let mut stage = Stage::since(start);
        stage.track(7, 0, state, last);
        assert_eq!(stage.sweep(at), expected, "{state} last seen {last}, at {at}");
    }
}

#[test]
fn deaf_sweeper_declares_nobody() {
    let mut stage = Stage::new();
    stage.sweeper = Sweeper::new(windows(), MassPolicy::default());
    stage.track(7, 0, Active, 0);
    assert_eq!(stage.sweeper.sweep(Moment(9 * W)), [], "it never heard itself");
    stage.sweeper.canary(Moment(9 * W));
    assert_eq!(stage.sweeper.sweep(Moment(10 * W)), [], "it does not any more");
    let mut stage = Stage::new();
    stage.track(7, 0, Active, 0);
    stage.sweep(2 * W + W / 2 - 1);
    assert_eq!(stage.sweeper.sweep(Moment(3 * W)), [], "for more than half a window");
    stage.sweeper.canary(Moment(2 * W + W / 2));
    assert_eq!(stage.sweeper.sweep(Moment(3 * W)), [offline(7, 3)], "for half a window");
}

#[test]
fn gap_above_half_a_window_is_the_sweepers_own() {
    for (gap, offline_at) in [(W / 2, 3 * W), (W / 2 + 1, 2 * W + W / 2 + 1 + 3 * W)] {
        let mut stage = Stage::new();
        stage.track(7, 0, Active, 0);
        assert_eq!(stage.sweep(2 * W), [stale(7, 2)]);
        stage.heard_at = 2 * W + gap;
        stage.sweeper.canary(Moment(stage.heard_at));
        assert_eq!(stage.sweep(offline_at - 1), [], "gap {gap}");
        assert_eq!(stage.sweep(offline_at), [offline(7, 3)], "gap {gap}");
    }
}

#[test]
fn reconnect_forgives_delayed_signs() {
    let mut stage = Stage::fifty();
    assert_eq!(alerts(&stage.sweep(W)), 1);
    let again = W + 100;
    stage.sweeper.listening(Moment(again), Moment(again));
    stage.heard_at = again;
    assert_eq!(stage.sweep(again + W - 1), []);
    let said = stage.sweep(again + W);
    assert_eq!((alerts(&said), said.len()), (1, 1), "it begins anew");
}

#[test]
fn tracked_again_or_forgotten_entry_is_a_new_one() {
    let mut stage = Stage::new();
    stage.track(7, 0, Active, 0);
    stage.track(8, 0, Active, 0);
    stage.track(9, 0, Register, 0);
    assert_eq!(stage.observe(9, 1), Heard::Alive);
    stage.sweeper.forget(&8);
    stage.sweeper.forget(&9);
    stage.sweeper.forget(&9);
    assert_eq!(stage.sweeper.state(&9), None);
    let host = HostName::new("h0").unwrap();
    let next = Watch { who: 7, host, epoch: 2, state: Register, agents: 1 };
    assert_eq!(stage.sweeper.epoch(&7), Some(1));
    stage.sweeper.track(next, Moment(W));
    assert_eq!((stage.sweeper.epoch(&7), stage.sweeper.epoch(&9)), (Some(2), None));
    assert_eq!(stage.observe(7, W), Heard::Superseded);
    assert_eq!(stage.sweep(7 * W - 1), []);
    assert_eq!(stage.sweep(7 * W), [Proposal::Offline { who: 7, epoch: 2, missed: 6 }]);
}

#[derive(Debug, Clone)]
enum Act {
    Track(u32, u32, usize, u32),
    Observe(u32),
    Forget(u32),
    Weigh(u32, u32),
    Deaf(u64),
    Pass(u64),
}

fn act() -> impl Strategy<Value = Act> {
    let who = 0u32..40;
    prop_oneof![
        3 => (who.clone(), 0u32..4, 0usize..5, 1u32..4)
            .prop_map(|(who, host, state, agents)| Act::Track(who, host, state, agents)),
        6 => who.clone().prop_map(Act::Observe),
        1 => who.clone().prop_map(Act::Forget),
        1 => (who, 0u32..9).prop_map(|(who, agents)| Act::Weigh(who, agents)),
        1 => (0u64..2 * W).prop_map(Act::Deaf),
        8 => (0u64..W).prop_map(Act::Pass),
    ]
}

proptest! {
    /// Offline implies three windows without a sign in which the sweeper listened (spec 10, 11),
    /// nobody is forgotten, and the counters say what a count says.
    #[test]
    fn sweep_counts_always_balance(
        acts in proptest::collection::vec(act(), 0..120),
    ) {
        let mut stage = Stage::new();
        let (mut now, mut since) = (0, 0);
        let mut last: BTreeMap<u32, u64> = BTreeMap::new();
        for act in acts {
            match act {
                Act::Track(who, host, state, agents) => {
                    stage.track_many(who, host, Liveness::ALL[state], now, agents);
                    last.insert(who, now);
                }
                Act::Observe(who) => {
                    if stage.observe(who, now) == Heard::Alive {
                        last.insert(who, now);
                    }
                }
                Act::Forget(who) => stage.sweeper.forget(&who),
                Act::Weigh(who, agents) => stage.sweeper.weigh(&who, agents),
                Act::Deaf(time) => {
                    now += time;
                    if time > W / 2 {
                        since = now;
                    }
                    stage.heard_at = now;
                    stage.sweeper.canary(Moment(now));
                }
                Act::Pass(time) => {
                    now += time;
                    for who in offlines(&stage.sweep(now)) {
                        prop_assert!(now - last[&who].max(since) >= 3 * W, "{who} at {now}");
                    }
                }
            }
            balanced(&stage.sweeper)?;
        }
        // Whoever is still silent is declared in the end.
        let quiet = (1..200).flat_map(|tenth| stage.sweep(now + tenth * W / 10)).count();
        let open = stage.sweeper.watched.values().filter(|watched| {
            matches!(watched.signs.state, Register | Active | Stale)
        });
        prop_assert_eq!(open.count(), 0, "{} were said", quiet);
    }
}

fn balanced(sweeper: &Sweeper<u32>) -> Result<(), TestCaseError> {
    let (mut heard, mut silent, mut places) = (0, 0, 0);
    let mut hosts = BTreeSet::new();
    for (who, watched) in &sweeper.watched {
        if matches!(watched.signs.state, Active | Stale) {
            heard += u64::from(watched.agents);
        }
        if sweeper.census.is_silent(&watched.share) {
            silent += u64::from(watched.agents);
            hosts.insert(watched.host.clone());
        }
        match watched.place {
            Place::Nowhere => {
                prop_assert!(matches!(watched.signs.state, Offline | Terminated), "{who}");
            }
            Place::Queued(at) => prop_assert!(sweeper.queue.contains(&(at, *who))),
            Place::Waiting(at) => prop_assert!(sweeper.waiting.contains(&(at, *who))),
        }
        places += usize::from(watched.place != Place::Nowhere);
    }
    prop_assert_eq!(sweeper.queue.len() + sweeper.waiting.len(), places);
    prop_assert_eq!(sweeper.census.heard(), heard);
    prop_assert_eq!(sweeper.census.silent(), silent);
    prop_assert_eq!(sweeper.census.silent_hosts(), hosts.len());
    Ok(())
}

#[test]
fn superseded_sender_is_told_once_per_window_within_a_bound() {
    let mut stage = Stage::new();
    let mut tells = |who: u32, at: u64| stage.sweeper.corrects(&who, Moment(at));
    assert!(tells(1, 0) && tells(2, 0), "each by itself");
    assert!(!tells(1, W - 1));
    assert!(tells(1, W) && tells(2, W));
    assert!((3..).take(CORRECTED_MAX - 2).all(|who| tells(who, W)));
    assert!(!tells(0, W), "as many as there may be");
    assert!(tells(0, 2 * W));
}
