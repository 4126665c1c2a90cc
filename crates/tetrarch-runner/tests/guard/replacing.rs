//! A guard that is hurt itself.

use rustix::process::Signal;

use crate::machine::send;
use crate::stage::{FAR, Host, until};

async fn replaced(host: &Host, guard: i32) {
    until("another guard", || matches!(host.guards()[..], [next] if next != guard)).await;
}

#[tokio::test]
async fn dead_guard_is_replaced_by_one_knowing_the_deadline() {
    let mut host = Host::start(false, FAR).await;
    host.family().await;
    host.beat(1500).await;
    let guard = host.guard();
    send(guard, Signal::KILL);
    replaced(&host, guard).await;
    host.frozen().await;
}

#[tokio::test]
async fn programs_frozen_by_a_dead_guard_are_thawed_by_its_successor() {
    for grouped in [true, false] {
        let mut host = Host::start(grouped, FAR).await;
        host.family().await;
        host.beat(0).await;
        host.frozen().await;
        let guard = host.guard();
        send(guard, Signal::KILL);
        replaced(&host, guard).await;
        host.beat(FAR).await;
        host.counts_on().await;
    }
}

#[tokio::test]
async fn signals_to_the_host_do_not_end_its_guard() {
    let mut host = Host::start(false, FAR).await;
    host.beat(FAR).await;
    host.family().await;
    let guard = host.guard();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        send(guard, signal);
    }
    host.beat(0).await;
    host.frozen().await;
    assert_eq!(host.guard(), guard);
}
