//! The mass-failure guard: when it trips, what it holds back, how fast it lets go.

use super::*;

#[test]
fn mass_failure_needs_much_silence_on_several_hosts() {
    for (total, silent, hosts, trips) in [
        (10, 3, 2, false),
        (10, 4, 2, true),
        (10, 4, 1, false),
        (10, 10, 1, false),
        (9, 9, 9, false),
        (10, 10, 10, true),
        (100, 30, 9, false),
        (100, 31, 9, true),
        (100, 31, 2, true),
    ] {
        let mut stage = Stage::new();
        for who in 0..total {
            let host = if who < silent { who % hosts } else { 99 };
            stage.track(who, host, Active, if who < silent { 0 } else { W });
        }
        // Those that were never heard, or are gone, are no active ones.
        for who in 200..300 {
            let state = [Register, Offline, Terminated][who as usize % 3];
            stage.track(who, who, state, 0);
        }
        let said = stage.sweep(W);
        let case = format!("{silent} of {total} on {hosts} hosts");
        if trips {
            let (silent, active) = (u64::from(silent), u64::from(total));
            let hosts = hosts as usize;
            assert_eq!(said, [Proposal::MassSilence { silent, active, hosts }], "{case}");
        } else {
            assert_eq!((alerts(&said), stales(&said)), (0, silent as usize), "{case}");
        }
    }
}

#[test]
fn host_counts_as_all_its_agents() {
    for (agents, trips) in [(4, true), (3, false)] {
        let mut stage = Stage::new();
        for host in 0..5 {
            stage.track_many(host, host, Active, if host < 2 { 0 } else { W }, 1);
        }
        for host in 0..2 {
            stage.sweeper.weigh(&host, agents);
        }
        for host in 2..5 {
            stage.sweeper.weigh(&host, 5);
        }
        // 8 of 23 are more than 30 %, 6 of 21 are not.
        assert_eq!(alerts(&stage.sweep(W)), usize::from(trips), "{agents}");
    }
}

#[test]
fn mass_silence_is_held_for_one_window_and_reported_once() {
    let mut stage = Stage::fifty();
    stage.track(90, 90, Register, 0);
    assert_eq!(alerts(&stage.sweep(W)), 1);
    for at in [W + 1, W + W / 2, 2 * W - 1] {
        assert_eq!(stage.sweep(at), [], "at {at}");
    }
    for who in 0..20 {
        assert_eq!(stage.observe(who, 2 * W - 1), Heard::Alive);
    }
    let said = stage.sweep(2 * W);
    assert_eq!((alerts(&said), stales(&said), said.len()), (0, 30, 30));
    assert_eq!(stage.sweep(3 * W - 2), []);
    let said: Vec<_> = (3 * W - 1..5 * W - 1).flat_map(|at| stage.sweep(at)).collect();
    assert_eq!((alerts(&said), offlines(&said)), (0, (20..50).collect()), "oldest first");
}

#[test]
fn held_agents_are_declared_at_fifty_per_second_oldest_first() {
    let mut stage = Stage::new();
    for who in 0..200 {
        stage.track(who, who % 7, Active, 199 - u64::from(who));
    }
    let mut declared: Vec<(u64, u32)> = Vec::new();
    let mut at = 0;
    while declared.len() < 200 {
        at += 10;
        assert!(at < 20 * W, "{declared:?}");
        declared.extend(offlines(&stage.sweep(at)).into_iter().map(|who| (at, who)));
    }
    assert!(declared[0].0 <= 3 * W + 20, "{declared:?}");
    assert!(declared.windows(2).all(|two| two[0].1 > two[1].1), "{declared:?}");
    for (index, (at, _)) in declared.iter().enumerate() {
        if let Some((later, _)) = declared.get(index + 50) {
            assert!(later - at >= 1_000, "{index} at {at}");
            assert!(later - at <= 1_020, "{index} at {at}");
        }
    }
}

#[test]
fn guard_is_unchanged_after_a_mass_failure() {
    let mut stage = Stage::fifty();
    let all: Vec<_> = (0..=60).flat_map(|tenth| stage.sweep(W * tenth / 10)).collect();
    assert_eq!((alerts(&all), offlines(&all).len()), (1, 50));
    for who in 100..200 {
        stage.track(who, 0, Active, 6 * W);
    }
    stage.sweep(7 * W);
    assert_eq!(offlines(&stage.sweep(9 * W)).len(), 100, "one host alone is declared at once");
    for who in 200..250 {
        stage.track(who, who, Active, 9 * W);
    }
    assert_eq!(alerts(&stage.sweep(10 * W)), 1, "the next mass failure is told again");
}

#[test]
fn large_host_uses_the_rate_of_its_agents() {
    let mut stage = Stage::new();
    for host in 0..3 {
        stage.track_many(host, host, Active, 0, 50);
    }
    assert_eq!(alerts(&stage.sweep(W)), 1);
    let mut declared = Vec::new();
    for at in 200..700 {
        let at = at * 10;
        declared.extend(offlines(&stage.sweep(at)).into_iter().map(|_| at));
    }
    assert_eq!(declared.len(), 3);
    assert!(declared.windows(2).all(|two| two[1] - two[0] >= 1_000), "{declared:?}");
}

#[test]
fn agent_resuming_while_held_was_never_silent() {
    let mut stage = Stage::fifty();
    stage.sweep(W);
    for who in 0..50 {
        stage.observe(who, W + 1);
    }
    assert_eq!(stage.sweep(2 * W), []);
    let said = stage.sweep(2 * W + 1);
    assert_eq!((alerts(&said), said.len()), (1, 1), "silent again, told again");
}
