//! The simulated bus against a real one: the same generated sequence of commits, seals, claims,
//! moves, journal entries, leases and reads has to come to the same on both. The simulation of
//! `tests/sim` is worth what this finds.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking where it went wrong")]

mod deed;
mod model;
mod reality;

use std::collections::BTreeMap;

use tetrarch_bus::lease::{Lease, LeaseKey};
use tetrarch_bus::retry::Retry;
use tetrarch_tests::dice::Dice;
use tetrarch_tests::wait::SOON;

use deed::{Deed, Outcome, deeds};
use model::Model;
use reality::Reality;

/// Sequences of an ordinary run; `FIDELITY_SEQUENCES` says otherwise.
const SEQUENCES: u64 = 64;
/// Deeds in each.
const DEEDS: usize = 60;

fn sequences() -> u64 {
    let wanted = std::env::var("FIDELITY_SEQUENCES").ok();
    wanted.map_or(SEQUENCES, |text| text.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn simulated_bus_agrees_with_the_real_one() {
    let server = tetrarch_tests::server().await;
    let (mut reality, mut model) = (Reality::new(server.control().await), Model::default());
    let mut seen = BTreeMap::new();
    for seed in 0..sequences() {
        let mut dice = Dice::new(seed);
        for (at, deed) in deeds(seed, DEEDS, &mut dice).into_iter().enumerate() {
            let expected = model.perform(&deed);
            if expected == Outcome::NotYet {
                // A real claim waits ten seconds for a seal that it does not see.
                continue;
            }
            let found = reality.perform(&deed).await;
            assert_eq!(found, expected, "sequence {seed}, {at}: {deed:?}");
            *seen.entry(format!("{} {}", deed.kind(), found.kind())).or_insert(0_u32) += 1;
        }
    }
    let rare: Vec<&str> = EXPECTED.into_iter().filter(|kind| !seen.contains_key(*kind)).collect();
    assert_eq!(rare, Vec::<&str>::new(), "these never happened: {seen:#?}");
}

/// What has to happen in the sequences of an ordinary run.
const EXPECTED: [&str; 23] = [
    "acquire held",
    "acquire stored",
    "append fenced",
    "append stored",
    "claim stored",
    "claim refused",
    "claim of an earlier life",
    "commit deposed",
    "commit reload",
    "commit stored",
    "look shown",
    "move fenced",
    "move stored",
    "open fenced",
    "open stored",
    "read shown",
    "release fenced",
    "release stored",
    "renew lost",
    "renew stored",
    "revoke fenced",
    "revoke stored",
    "seal shown",
];

#[tokio::test(flavor = "multi_thread")]
async fn expired_lease_is_free_on_both() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let (mut reality, mut model) = (Reality::new(bus.clone()), Model::default());
    let acquire = |instance, floor| Deed::Acquire { key: 0, instance, floor, ttl_secs: Some(1) };
    let first = acquire(0, 0);
    assert_eq!(reality.perform(&first).await, model.perform(&first));
    let mut retry = Retry::until(SOON);
    while Lease::look(&bus, &LeaseKey::Go).await.unwrap().is_some() {
        assert!(retry.pause().await, "it does not expire");
    }
    model.expire(0);
    for deed in [Deed::Renew { holder: 0 }, Deed::Look { key: 0 }] {
        assert_eq!(reality.perform(&deed).await, model.perform(&deed), "{deed:?}");
    }
    // What the server wrote when it expired is no business of a client, so sequences may differ.
    let second = acquire(1, 4);
    let (found, expected) = (reality.perform(&second).await, model.perform(&second));
    let Outcome::Acquired { epoch: found, .. } = found else { panic!("{found:?}") };
    assert!(matches!(expected, Outcome::Acquired { epoch, .. } if epoch == found && epoch == 5));
}

/// What lags behind may refuse what would be done, never do what would be refused.
#[test]
fn lagging_replica_refuses_more_and_never_less() {
    let mut refused = 0;
    for seed in 0..sequences() {
        let mut dice = Dice::new(seed);
        let mut model = Model::default();
        for (at, deed) in deeds(seed, DEEDS, &mut dice).into_iter().enumerate() {
            let before = model.clone();
            let honest = before.clone().perform(&deed);
            model.lag_by_chance(&mut dice);
            let found = model.perform(&deed);
            model.catch_up();
            let stale = before.was_so(&deed, &found);
            let allowed = found == honest || found.is_refusal() || stale;
            assert!(allowed, "sequence {seed}, {at}: {deed:?} gave {found:?}, not {honest:?}");
            refused += u32::from(found != honest);
        }
    }
    assert!(refused > 0, "nothing lagged behind");
}
