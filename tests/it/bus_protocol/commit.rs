//! Commits: lost answers, refusals and deposed owners.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::Ordering;

use tetrarch_bus::codec;
use tetrarch_bus::commit::{CommitError, Committer};
use tetrarch_bus::error::PublishError;
use tetrarch_bus::retry::Retry;
use tetrarch_bus::subject::{Subject, pattern};
use tetrarch_bus::tail::{InvalidEntry, read_ledger};
use tetrarch_bus::{Bus, HeaderMap};
use tetrarch_core::ledger::Entry;

use super::{SOON, empty_entry, soon};

/// What reaches the ledger when the answer is lost on the way back.
async fn land(bus: &Bus, entry: &Entry, expect: u64) -> u64 {
    let payload = codec::encode_entry(entry).unwrap().into();
    bus.publish_expect(&Subject::Ledger.to_string(), HeaderMap::new(), payload, Some(expect))
        .await
        .unwrap()
}

async fn ledger(bus: &Bus) -> Vec<(u64, Result<Entry, InvalidEntry>)> {
    let last = bus.stream_last_seq(pattern::LEDGER).await.unwrap();
    let items = soon("reading the ledger", read_ledger(bus, 1, last, 0)).await;
    items.into_iter().map(|item| (item.seq, item.entry)).collect()
}

/// One task reads the ledger and renews the lease.
#[tokio::test]
async fn reading_a_long_ledger_lets_its_task_do_something_else_at_each_entry() {
    const ENTRIES: u64 = 300;
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let mut committer = Committer::new(bus.clone(), 0, 1);
    for number in 1..=ENTRIES {
        committer.commit(&empty_entry(number.into(), 1)).await.unwrap();
    }
    let mut turns = 0;
    let mut reading = pin!(read_ledger(&bus, 1, ENTRIES, 0));
    let counted = poll_fn(|context| {
        turns += 1;
        reading.as_mut().poll(context)
    });
    let read = soon("reading the ledger", counted).await.len();
    assert_eq!(read, 300);
    assert!(turns > ENTRIES, "{turns}");
}

#[tokio::test(flavor = "multi_thread")]
async fn entry_with_a_lost_answer_is_committed_once() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let mut committer = Committer::new(bus.clone(), 0, 1);
    assert_eq!(committer.commit(&empty_entry(1, 1)).await.unwrap(), 1);
    let landed = land(&bus, &empty_entry(2, 1), 1).await;
    assert_eq!(committer.commit(&empty_entry(2, 1)).await.unwrap(), landed);
    assert_eq!(committer.commit(&empty_entry(3, 1)).await.unwrap(), 3);
    let found: Vec<Entry> = ledger(&bus).await.into_iter().map(|(_, e)| e.unwrap()).collect();
    assert_eq!(found, [empty_entry(1, 1), empty_entry(2, 1), empty_entry(3, 1)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn owner_of_a_higher_epoch_deposes() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let mut old = Committer::new(bus.clone(), 0, 1);
    old.commit(&empty_entry(1, 1)).await.unwrap();
    let mut new = Committer::new(bus.clone(), 1, 2);
    new.commit(&empty_entry(2, 2)).await.unwrap();
    let refused = old.commit(&empty_entry(3, 1)).await;
    assert!(matches!(refused, Err(CommitError::Deposed { epoch: 2 })), "{refused:?}");
    assert_eq!(ledger(&bus).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_entry_in_the_way_requires_a_reload() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let mut first = Committer::new(bus.clone(), 0, 1);
    first.commit(&empty_entry(1, 1)).await.unwrap();
    let mut lagging = Committer::new(bus.clone(), 0, 1);
    let refused = lagging.commit(&empty_entry(2, 1)).await;
    assert!(matches!(refused, Err(CommitError::Reload { last: 1 })), "{refused:?}");
    let again = lagging.commit(&empty_entry(2, 1)).await;
    assert!(matches!(again, Err(CommitError::Reload { .. })), "it is used up: {again:?}");
    let garbage = b"no entry".as_slice().into();
    let subject = Subject::Ledger.to_string();
    bus.publish_expect(&subject, HeaderMap::new(), garbage, Some(1)).await.unwrap();
    let refused = first.commit(&empty_entry(3, 1)).await;
    assert!(matches!(refused, Err(CommitError::Reload { last: 2 })), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn commit_survives_a_server_restart() {
    let mut server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let mut committer = Committer::new(bus.clone(), 0, 1);
    committer.commit(&empty_entry(1, 1)).await.unwrap();
    server.kill().await;
    let open = tokio::spawn(async move {
        let seq = committer.commit(&empty_entry(2, 1)).await;
        (seq, committer)
    });
    server.restart().await;
    let (seq, mut committer) = soon("the commit", open).await.unwrap();
    assert_eq!(seq.unwrap(), 2);
    assert_eq!(committer.commit(&empty_entry(3, 1)).await.unwrap(), 3);
    assert_eq!(ledger(&bus).await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn paused_server_stores_a_repeated_commit_once() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let mut committer = Committer::new(bus.clone(), 0, 1);
    committer.commit(&empty_entry(1, 1)).await.unwrap();
    let sent = bus.client().statistics();
    let before = sent.out_messages.load(Ordering::Relaxed);
    server.pause().await;
    let second = empty_entry(2, 1);
    let open = committer.commit(&second);
    let resume = async {
        let mut retry = Retry::until(SOON);
        while sent.out_messages.load(Ordering::Relaxed) < before + 2 {
            assert!(retry.pause().await, "it was not sent again");
        }
        server.resume();
    };
    let (seq, ()) = soon("the commit", async { tokio::join!(open, resume) }).await;
    assert_eq!(seq.unwrap(), 2);
    assert_eq!(ledger(&bus).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_commits_are_distinguished() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    land(&bus, &empty_entry(1, 3), 0).await;
    land(&bus, &empty_entry(2, 2), 1).await;
    let subject = Subject::Ledger.to_string();
    let garbage = b"no entry".as_slice().into();
    bus.publish_expect(&subject, HeaderMap::new(), garbage, Some(2)).await.unwrap();
    land(&bus, &empty_entry(4, 3), 3).await;
    let found = ledger(&bus).await;
    assert!(found[0].1.is_ok());
    assert!(matches!(found[1].1, Err(InvalidEntry::Deposed { epoch: 2, highest: 3, .. })));
    assert!(matches!(found[2].1, Err(InvalidEntry::Undecodable(_))));
    assert!(found[3].1.is_ok());
    assert_eq!(found.iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), [1, 2, 3, 4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn publish_is_unknown_once_its_connection_is_lost() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    server.pause().await;
    let payload = codec::encode_entry(&empty_entry(1, 1)).unwrap().into();
    let subject = Subject::Ledger.to_string();
    let sent = bus.start_publish(&subject, HeaderMap::new(), payload, None).await.unwrap();
    server.kill().await;
    let outcome = soon("an outcome", sent.stored()).await;
    let Err(PublishError::Unknown { reason, .. }) = outcome else { panic!("{outcome:?}") };
    assert!(reason.contains("connection was lost"), "no timeout was waited for: {reason}");
}
