//! Leases: one holder, a higher epoch with each change of hands, expiry that renewal moves.

use std::time::{Duration, Instant};

use tetrarch_bus::error::PublishError;
use tetrarch_bus::lease::{AcquireError, Lease, LeaseKey, LeaseRequest, RenewError};
use tetrarch_bus::subject::pattern::LEASES;
use tetrarch_bus::{Bus, HeaderMap, topology};
use tetrarch_core::id::HostName;

use super::Fixture;

fn claim(key: LeaseKey, instance: &str, ttl_secs: Option<u32>) -> LeaseRequest {
    LeaseRequest {
        key,
        instance: instance.to_owned(),
        address: "here".to_owned(),
        floor: 0,
        ttl_secs,
        now_unix_ms: 1,
        body: Vec::new(),
    }
}

fn host() -> LeaseKey {
    LeaseKey::Host(HostName::new("h1").unwrap())
}

/// Asks until the key is free, without a fixed wait.
async fn until_free(bus: &Bus, key: &LeaseKey) {
    let start = Instant::now();
    while Lease::look(bus, key).await.unwrap().is_some() {
        assert!(start.elapsed() < Duration::from_secs(10), "it never expired");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_many_claims_wins_and_others_learn_the_holder() {
    let (_fixture, bus) = Fixture::with_streams().await;
    let claims =
        (0..20).map(|number| {
            let bus = bus.clone();
            async move {
                Lease::acquire(&bus, claim(LeaseKey::Go, &format!("i{number}"), Some(30))).await
            }
        });
    let results = futures::future::join_all(claims).await;
    let winners: Vec<u64> =
        results.iter().filter_map(|r| r.as_ref().ok()).map(Lease::epoch).collect();
    assert_eq!(winners, [1]);
    let now = Lease::look(&bus, &LeaseKey::Go).await.unwrap().unwrap().holder.unwrap();
    for result in results {
        match result {
            Err(AcquireError::Held { holder, .. }) => assert_eq!(holder, now),
            Err(error) => panic!("{error}"),
            Ok(_) => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_change_of_holder_raises_the_epoch() {
    let (_fixture, bus) = Fixture::with_streams().await;
    let first = Lease::acquire(&bus, claim(host(), "a", None)).await.unwrap();
    assert_eq!(first.epoch(), 1);
    let mut second = Lease::acquire(&bus, claim(host(), "a", None)).await.unwrap();
    assert_eq!(second.epoch(), 2);
    second.renew(vec![7]).await.unwrap();
    let seen = Lease::look(&bus, &host()).await.unwrap().unwrap();
    assert_eq!(seen.holder.as_ref().unwrap().body, [7]);
    second.release().await.unwrap();
    assert!(Lease::look(&bus, &host()).await.unwrap().unwrap().holder.is_none());
    let third = Lease::acquire(&bus, claim(host(), "b", None)).await.unwrap();
    assert_eq!(third.epoch(), 3);
    let above = LeaseRequest { floor: 40, ..claim(host(), "b", None) };
    assert_eq!(Lease::acquire(&bus, above).await.unwrap().epoch(), 41);
}

#[tokio::test(flavor = "multi_thread")]
async fn holder_that_lost_its_lease_is_told_and_stays_out() {
    let (_fixture, bus) = Fixture::with_streams().await;
    let mut old = Lease::acquire(&bus, claim(host(), "a", None)).await.unwrap();
    let new = Lease::acquire(&bus, claim(host(), "a", None)).await.unwrap();
    let error = old.renew(Vec::new()).await.unwrap_err();
    assert!(matches!(error, RenewError::Lost { .. }), "{error}");
    let error = old.release().await.unwrap_err();
    assert!(matches!(error, PublishError::WrongLast { .. }), "{error}");
    let seen = Lease::look(&bus, &host()).await.unwrap().unwrap();
    assert_eq!((seen.seq, seen.epoch), (new.seq(), new.epoch()));
}

#[tokio::test(flavor = "multi_thread")]
async fn revoking_works_only_without_a_renewal() {
    let (_fixture, bus) = Fixture::with_streams().await;
    let mut lease = Lease::acquire(&bus, claim(host(), "a", None)).await.unwrap();
    let seen = Lease::look(&bus, &host()).await.unwrap().unwrap();
    lease.renew(Vec::new()).await.unwrap();
    let error = Lease::revoke(&bus, &host(), Some(&seen)).await.unwrap_err();
    assert!(matches!(error, PublishError::WrongLast { .. }), "{error}");
    let seen = Lease::look(&bus, &host()).await.unwrap().unwrap();
    Lease::revoke(&bus, &host(), Some(&seen)).await.unwrap();
    let error = lease.renew(Vec::new()).await.unwrap_err();
    assert!(matches!(error, RenewError::Lost { holder: None, .. }), "{error}");
    assert_eq!(Lease::acquire(&bus, claim(host(), "b", None)).await.unwrap().epoch(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_notices_that_the_bus_is_an_older_copy_of_itself() {
    let (_fixture, bus) = Fixture::with_streams().await;
    let mut lease = Lease::acquire(&bus, claim(host(), "a", None)).await.unwrap();
    let copied = bus.get_seq(LEASES, lease.seq()).await.unwrap().unwrap();
    let acknowledged = lease.renew(Vec::new()).await.unwrap();
    bus.jetstream().delete_stream(LEASES).await.unwrap();
    topology::apply(&bus, 1).await.unwrap();
    let headers = HeaderMap::new();
    let last = bus.publish_expect(&copied.subject, headers, copied.payload, Some(0)).await.unwrap();
    let error = lease.renew(Vec::new()).await.unwrap_err();
    let RenewError::WentBack { acknowledged: was, last: is, .. } = error else { panic!("{error}") };
    assert_eq!((was, is), (acknowledged, last));
    let seen = Lease::look(&bus, &host()).await.unwrap().unwrap();
    assert_eq!(seen.seq, last, "nothing was renewed");
}

#[tokio::test(flavor = "multi_thread")]
async fn unrenewed_lease_expires_even_after_earlier_renewals() {
    let (_fixture, bus) = Fixture::with_streams().await;
    let mut lease = Lease::acquire(&bus, claim(LeaseKey::Go, "a", Some(1))).await.unwrap();
    lease.renew(Vec::new()).await.unwrap();
    until_free(&bus, &LeaseKey::Go).await;
    let error = lease.renew(Vec::new()).await.unwrap_err();
    assert!(matches!(error, RenewError::Lost { holder: None, .. }), "{error}");
    let floor = lease.epoch();
    let next = LeaseRequest { floor, ..claim(LeaseKey::Go, "b", Some(1)) };
    assert_eq!(Lease::acquire(&bus, next).await.unwrap().epoch(), 2);
    until_free(&bus, &LeaseKey::Go).await;
    let long = claim(LeaseKey::Go, "c", Some(30));
    Lease::acquire(&bus, long).await.unwrap().release().await.unwrap();
    let next = claim(LeaseKey::Go, "d", Some(1));
    Lease::acquire(&bus, next).await.unwrap();
    until_free(&bus, &LeaseKey::Go).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lease_of_the_highest_epoch_can_be_taken_over() {
    let (_fixture, bus) = Fixture::with_streams().await;
    // As protobuf: the instance, the epoch; and what is no lease at all.
    let highest = [&b"\x0a\x03one\x10"[..], &[0xff; 9], &[0x01]].concat();
    for forged in [highest, b"\xff\xff".to_vec(), Vec::new()] {
        bus.publish_expect("$KV.LEASES.HO=h1", Default::default(), forged.into(), None)
            .await
            .unwrap();
        let lease = Lease::acquire(&bus, claim(host(), "one", None)).await.unwrap();
        assert_eq!(Lease::look(&bus, &host()).await.unwrap().unwrap().epoch, lease.epoch());
        lease.release().await.unwrap();
    }
}
