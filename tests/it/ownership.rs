//! Being the owner: a standby takes over, an owner whose ledger lost its memory does not start
//! (spec 04, The GO lease; spec 02, Amnesia guard).

use std::time::{Duration, Instant};

use futures::StreamExt;
use tetrarch_bus::envelope::Envelope;
use tetrarch_bus::lease::{Lease, LeaseKey};
use tetrarch_bus::send::send_request;
use tetrarch_bus::state::load_meta;
use tetrarch_bus::subject::pattern::LEDGER;
use tetrarch_bus::subject::{OpName, Subject};
use tetrarch_bus::topology;
use tetrarch_bus::{HeaderMap, codec};
use tetrarch_core::id::{HumanName, Principal, RequestId, Ulid};
use tetrarch_core::request::Op;
use tetrarch_engine::{EngineError, GlobalConfig};
use tetrarch_tests::wait::soon;
use tetrarch_tests::{Owner, Server, empty_entry};
use tokio::sync::watch;

/// A time to live that no test waits for.
const LONG_SECS: u32 = 600;
const SHORT_SECS: u32 = 2;

async fn owner(server: &Server, instance: &str, ttl_secs: u32) -> Owner {
    Owner::start(server, Owner::config(instance, ttl_secs)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn standby_takes_over_when_the_lease_is_released() {
    let server = tetrarch_tests::server().await;
    let mut first = owner(&server, "first", LONG_SECS).await;
    first.until_ready().await;
    let mut second = owner(&server, "second", LONG_SECS).await;
    let bus = server.control().await;
    first.stop().await;
    second.until_ready().await;
    let held = Lease::look(&bus, &LeaseKey::Go).await.unwrap().unwrap();
    assert_eq!((held.holder.unwrap().instance.as_str(), held.epoch), ("second", 2));
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ended_owner_leaves_nothing_however_it_ended() {
    let server = tetrarch_tests::server().await;
    for (instance, aborted) in [("stopped", false), ("aborted", true)] {
        let (halt, halted) = watch::channel(None);
        let config = GlobalConfig { halted, ..Owner::config(instance, SHORT_SECS) };
        let mut owner = Owner::start(&server, config).await;
        owner.until_ready().await;
        if aborted {
            owner.task.abort();
        } else {
            owner.stop().await;
        }
        // Every actor of the owner listens to it.
        soon("its actors' end", halt.closed()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn standby_waits_little_longer_than_a_dead_owners_lease() {
    let server = tetrarch_tests::server().await;
    let mut first = owner(&server, "first", SHORT_SECS).await;
    first.until_ready().await;
    let mut second = owner(&server, "second", SHORT_SECS).await;
    first.task.abort();
    let dead = Instant::now();
    second.until_ready().await;
    let took = dead.elapsed();
    // The server drops what expired once a second.
    let late = Duration::from_secs(u64::from(SHORT_SECS) + 4);
    assert!(took < late, "it took {took:?}");
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn owner_does_not_continue_on_a_recreated_ledger() {
    let server = tetrarch_tests::server().await;
    let mut first = owner(&server, "first", LONG_SECS).await;
    let bus = server.control().await;
    let mut written = bus.client().subscribe(Subject::StateMeta.to_string()).await.unwrap();
    bus.client().flush().await.unwrap();
    first.until_ready().await;
    if load_meta(&bus).await.unwrap().is_none() {
        soon("the first commit in STATE", written.next()).await.unwrap();
    }
    first.stop().await;
    bus.jetstream().delete_stream(LEDGER).await.unwrap();
    topology::apply(&bus, 1).await.unwrap();
    let second = owner(&server, "second", LONG_SECS).await;
    let refused = soon("a refusal", second.task).await.unwrap();
    assert!(matches!(refused, Err(EngineError::Amnesia { .. })), "{refused:?}");
    assert!(!*second.ready.borrow());
}

/// What refuses a commit need not say that a later owner is there: the last message of the ledger is
/// no entry here, in a cluster it may not show yet. The simulation found an owner that went on.
#[tokio::test(flavor = "multi_thread")]
async fn owner_does_not_write_behind_an_unnamed_later_owner() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let mut first = owner(&server, "first", LONG_SECS).await;
    first.until_ready().await;
    let begun = bus.stream_last_seq(LEDGER).await.unwrap();
    let later = codec::encode_entry(&empty_entry(1, 9)).unwrap();
    for (payload, expect) in [(later, begun), (b"no entry".to_vec(), begun + 1)] {
        let subject = Subject::Ledger.to_string();
        let sent = bus.publish_expect(&subject, HeaderMap::new(), payload.into(), Some(expect));
        sent.await.unwrap();
    }
    let human = HumanName::new("ada").unwrap();
    let (op, id) = (Op::HumanJoin { human: human.clone() }, RequestId(Ulid(7)));
    let subject = Subject::Op { op: OpName::of(&op), from: Principal::Human(human), via: None };
    let envelope = Envelope { msg_id: Some(id.to_string()), ..Envelope::default() };
    let payload = codec::encode_op(&op, id).unwrap().into();
    send_request(&bus, &subject, envelope.headers(&subject), payload, None).await.unwrap();
    let refused = soon("a refusal", first.task).await.unwrap();
    assert!(matches!(refused, Err(EngineError::Deposed { epoch: 9 })), "{refused:?}");
    assert_eq!(bus.stream_last_seq(LEDGER).await.unwrap(), begun + 2, "nothing was written");
}

#[tokio::test(flavor = "multi_thread")]
async fn new_owner_epoch_exceeds_the_ledgers_despite_stale_state() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let earlier = codec::encode_entry(&empty_entry(1, 9)).unwrap().into();
    let subject = Subject::Ledger.to_string();
    bus.publish_expect(&subject, HeaderMap::new(), earlier, Some(0)).await.unwrap();
    let mut first = owner(&server, "first", LONG_SECS).await;
    first.until_ready().await;
    let held = Lease::look(&bus, &LeaseKey::Go).await.unwrap().unwrap();
    assert_eq!(held.epoch, 10);
    first.stop().await;
}
