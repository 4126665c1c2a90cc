//! What a host finds of its earlier lives when it starts (spec 04, Hosts).

use crate::stage::{FAR, Host, any_alive};

#[tokio::test]
async fn new_life_ends_leftovers_of_an_earlier_one() {
    for grouped in [true, false] {
        let mut first = Host::start(grouped, FAR).await;
        first.beat(FAR).await;
        let family = first.family().await;
        first.kill().await;
        first.counts_on().await;
        let second = first.next_life().await;
        assert!(second.cleared >= family.len(), "{}", second.cleared);
        assert!(!any_alive(&family));
        assert!(first.marked().is_empty());
        first.unguarded().await;
        assert_eq!(second.guards().len(), 1);
    }
}

#[tokio::test]
async fn frozen_leftovers_of_an_earlier_life_are_ended() {
    for grouped in [true, false] {
        let mut first = Host::start(grouped, FAR).await;
        let family = first.family().await;
        first.beat(200).await;
        first.kill().await;
        first.frozen().await;
        let mut second = first.next_life().await;
        assert!(!any_alive(&family));
        first.unguarded().await;
        second.beat(FAR).await;
        second.family().await;
    }
}

#[tokio::test]
async fn same_host_name_of_another_installation_is_no_earlier_life() {
    let mut other = Host::start(false, FAR).await;
    let family = other.family().await;
    let host = Host::start(false, FAR).await;
    assert_eq!(host.cleared, 0);
    assert!(family.iter().all(|pid| crate::machine::is_alive(*pid)));
    other.counts_on().await;
}
