//! Watching plans, and waiting for an answer.

use std::pin::pin;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use tetrarch_bus::creds::CredentialHolder;
use tetrarch_bus::subject::pattern::PLANS;
use tetrarch_bus::watch::{From, Replies, ReplyError, plan_events};
use tetrarch_core::id::{HumanName, Principal, RequestId, Ulid};
use tetrarch_core::ledger::{Decision, Entry, Record};
use tetrarch_core::mail::Mail;
use tetrarch_core::time::BusTime;

use super::{batch, empty_entry, epic, info, outbox, plan_event, soon};

fn human() -> HumanName {
    HumanName::new("Shai").unwrap()
}

fn answer(request: RequestId) -> Mail {
    Mail { correlation: Some(request), ..info(&Principal::Human(human()), "done") }
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_are_watched_from_the_start_or_from_now() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let entries: Vec<Entry> = (1..=4u32)
        .map(|version| Entry {
            plans: vec![plan_event(epic(1), version), plan_event(epic(2), version)],
            ..empty_entry(version.into(), 1)
        })
        .collect();
    let all = batch(1, &entries);
    outbox(&bus).publish(&all[..2]).await.unwrap();
    let person = server.bus(&CredentialHolder::Human(human())).await;
    let start = plan_events(&person, Some(epic(1)), From::Start).await.unwrap();
    let now = plan_events(&person, None, From::Now).await.unwrap();
    outbox(&bus).publish(&all).await.unwrap();
    let one: Vec<u32> =
        soon("the plan's events", start.take(4).map(|(_, event)| event.unwrap().version).collect())
            .await;
    assert_eq!(one, [1, 2, 3, 4]);
    let mut now = pin!(now);
    let mut both = Vec::new();
    while both.len() < 4 {
        let (_, event) = soon("the next event", now.next()).await.unwrap();
        let event = event.unwrap();
        both.push((event.version, event.epic));
    }
    both.sort();
    assert_eq!(both, [(3, epic(1)), (3, epic(2)), (4, epic(1)), (4, epic(2))]);
}

/// What others write must not make a watcher of one epic read anew: a project watches many.
#[tokio::test(flavor = "multi_thread")]
async fn idle_plan_watch_uses_one_consumer_until_it_ends() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let told = |seq: u128, version: u32, of: u128| Entry {
        plans: vec![plan_event(epic(of), version)],
        ..empty_entry(seq, 1)
    };
    let mut out = outbox(&bus);
    out.publish(&batch(1, &[told(1, 1, 1)])).await.unwrap();
    let advisory = |what: &str| format!("$JS.EVENT.ADVISORY.CONSUMER.{what}.PLANS.*");
    let mut made = bus.client().subscribe(advisory("CREATED")).await.unwrap();
    let mut ended = bus.client().subscribe(advisory("DELETED")).await.unwrap();
    bus.client().flush().await.unwrap();
    // The fleet's connections make none at all.
    let person = server.control().await;
    let watched = plan_events(&person, Some(epic(1)), From::Start).await.unwrap();
    let mut watched = Box::pin(watched);
    soon("the first version", watched.next()).await.unwrap().1.unwrap();

    out.publish(&batch(2, &[told(2, 1, 2)])).await.unwrap();
    let statistics = person.client().statistics();
    let sent = || statistics.out_messages.load(Ordering::Relaxed);
    let before = sent();
    let mut next = tokio::spawn(async move { (watched.next().await, watched) });
    let mut beats = tokio::time::interval(Duration::from_millis(50));
    soon("a look at the stream and at its subjects", async {
        while sent() < before + 2 {
            tokio::select! {
                _ = beats.tick() => {}
                _ = &mut next => panic!("nothing was written about this epic"),
            }
        }
    })
    .await;
    person.stream_last_seq(PLANS).await.unwrap();
    out.publish(&batch(3, &[told(3, 2, 1)])).await.unwrap();
    let (_, mut watched) = soon("the second version", next).await.unwrap();
    out.publish(&batch(4, &[told(4, 3, 1)])).await.unwrap();
    soon("the third version", watched.next()).await.unwrap().1.unwrap();
    drop(watched);
    soon("the end of the consumer", ended.next()).await.unwrap();
    assert!(made.next().now_or_never().is_some(), "one was made");
    assert!(made.next().now_or_never().is_none(), "and no other");
}

#[tokio::test(flavor = "multi_thread")]
async fn answer_is_found_in_the_mail_or_in_the_decision() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let person = server.bus(&CredentialHolder::Human(human())).await;
    let owner = Principal::Human(human());
    let (mailed, decided, open) = (RequestId(Ulid(1)), RequestId(Ulid(2)), RequestId(Ulid(3)));

    let mut replies = Replies::open(&person, &owner).await.unwrap();
    let patience = Duration::from_secs(15);
    let waiting = tokio::spawn(async move { (replies.wait(mailed, patience).await, replies) });
    let other = Mail { correlation: Some(open), ..answer(open) };
    let reply = Entry { mail: vec![other, answer(mailed)], ..empty_entry(1, 1) };
    outbox(&bus).publish(&batch(1, &[reply])).await.unwrap();
    let (got, mut replies) = soon("the reply", waiting).await.unwrap();
    assert_eq!(got.unwrap(), answer(mailed));

    let decision = Decision {
        request: decided,
        digest: String::new(),
        sender: owner,
        answer: Some(Box::new(answer(decided))),
        at: BusTime(1_000),
        act: None,
        also: vec![],
    };
    let record = Record::Decision(Box::new(decision));
    let recorded = Entry { records: vec![record], ..empty_entry(2, 1) };
    outbox(&bus).publish(&batch(2, &[recorded])).await.unwrap();
    assert_eq!(replies.wait(decided, patience).await.unwrap(), answer(decided));

    let none = replies.wait(RequestId(Ulid(9)), Duration::from_millis(50)).await;
    assert!(matches!(none, Err(ReplyError::Unanswered { .. })), "{none:?}");
}
