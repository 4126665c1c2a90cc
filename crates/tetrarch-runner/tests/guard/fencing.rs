//! What becomes of a host's programs when its lease is over (spec 04, Hosts).

use rustix::process::Signal;

use crate::machine::is_frozen;
use crate::stage::{FAR, Host, any_alive, until};

#[tokio::test]
async fn programs_freeze_at_the_deadline_and_thaw_on_the_next_renewal() {
    for grouped in [true, false] {
        let mut host = Host::start(grouped, FAR).await;
        host.beat(FAR).await;
        let family = host.family().await;
        assert!(!family.iter().any(|pid| is_frozen(*pid)));
        host.beat(300).await;
        let frozen = host.frozen().await;
        assert!(family.iter().all(|pid| frozen.contains(pid)), "{family:?} {frozen:?}");
        let before = host.counts();
        host.beat(FAR).await;
        host.counts_on().await;
        assert!(host.counts().iter().all(|(name, (pid, _))| before[name].0 == *pid));
        host.beat(0).await;
        host.frozen().await;
        host.beat(FAR).await;
        host.counts_on().await;
    }
}

#[tokio::test]
async fn nothing_is_frozen_before_the_first_renewal() {
    let mut host = Host::start(false, 1).await;
    host.family().await;
    host.counts_on().await;
}

#[tokio::test]
async fn programs_frozen_too_long_are_killed_and_others_may_follow() {
    for grouped in [true, false] {
        let mut host = Host::start(grouped, 1000).await;
        let family = host.family().await;
        host.beat(100).await;
        host.frozen().await;
        host.gone(&family).await;
        host.beat(FAR).await;
        host.family().await;
        host.counts_on().await;
    }
}

#[tokio::test]
async fn killed_host_freezes_at_its_deadline_and_guard_ends_its_programs() {
    for grouped in [true, false] {
        let mut host = Host::start(grouped, 2000).await;
        let family = host.family().await;
        host.beat(500).await;
        let guard = host.guard();
        host.kill().await;
        assert_eq!(host.guard(), guard);
        host.frozen().await;
        assert!(any_alive(&family));
        host.gone(&family).await;
        host.unguarded().await;
    }
}

#[tokio::test]
async fn host_killed_before_its_first_renewal_freezes_at_once() {
    let mut host = Host::start(false, 6000).await;
    let family = host.family().await;
    host.kill().await;
    host.frozen().await;
    host.gone(&family).await;
    host.unguarded().await;
}

#[tokio::test]
async fn guard_of_a_dead_host_without_programs_ends() {
    let mut host = Host::start(true, FAR).await;
    host.beat(FAR).await;
    host.guard();
    host.kill().await;
    host.unguarded().await;
}

#[tokio::test]
async fn stopped_host_freezes_and_resumes_with_its_programs() {
    for grouped in [true, false] {
        let mut host = Host::start(grouped, FAR).await;
        host.family().await;
        host.beat(300).await;
        host.signal(Signal::STOP);
        host.frozen().await;
        host.signal(Signal::CONT);
        host.beat(FAR).await;
        host.counts_on().await;
    }
}

#[tokio::test]
async fn programs_of_a_host_that_stays_stopped_are_killed() {
    for grouped in [true, false] {
        let mut host = Host::start(grouped, 1000).await;
        let family = host.family().await;
        host.beat(300).await;
        host.signal(Signal::STOP);
        host.frozen().await;
        host.gone(&family).await;
        assert_eq!(host.guards().len(), 1);
    }
}

#[tokio::test]
async fn kill_is_answered_when_all_are_dead_and_later_programs_run() {
    for grouped in [true, false] {
        let mut host = Host::start(grouped, FAR).await;
        let family = host.family().await;
        host.beat(0).await;
        host.frozen().await;
        host.say("kill").await;
        host.hear("killed").await;
        assert!(!any_alive(&family));
        assert!(host.marked().is_empty());
        host.family().await;
        host.counts_on().await;
    }
}

#[tokio::test]
async fn guard_told_to_end_touches_nothing() {
    let mut host = Host::start(true, FAR).await;
    host.beat(FAR).await;
    host.family().await;
    host.say("end").await;
    host.hear("ended").await;
    host.unguarded().await;
    host.counts_on().await;
}

#[tokio::test]
async fn other_host_of_the_same_name_is_left_alone() {
    for grouped in [true, false] {
        let mut other = Host::start(grouped, 1).await;
        other.beat(FAR).await;
        let untouched = other.family().await;
        let mut host = Host::start(grouped, 1000).await;
        let family = host.family().await;
        host.beat(100).await;
        host.frozen().await;
        other.counts_on().await;
        host.gone(&family).await;
        other.counts_on().await;
        assert!(!untouched.iter().any(|pid| is_frozen(*pid)));
        let now: Vec<i32> = other.counts().into_values().map(|(pid, _)| pid).collect();
        assert_eq!(now, untouched);
    }
}

#[tokio::test]
async fn foreign_cont_signal_does_not_release_a_frozen_program() {
    let mut host = Host::start(false, FAR).await;
    let family = host.family().await;
    host.beat(0).await;
    host.frozen().await;
    let before = host.counts();
    // The guard may stop them again before one of them has done anything.
    until("a moment awake", || {
        family.iter().for_each(|pid| crate::machine::send(*pid, Signal::CONT));
        host.counts() != before
    })
    .await;
    host.frozen().await;
}
