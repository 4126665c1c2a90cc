//! The intake: every request once and in order, whatever happens to the server or the consumer.

use async_nats::jetstream::consumer::PullConsumer;
use futures::TryStreamExt;
use tetrarch_bus::codec::encode_report;
use tetrarch_bus::envelope::{Envelope, MSG_ID};
use tetrarch_bus::intake::{DeadLetter, Intake, Intaken, REASON, dead_letter, read_dead};
use tetrarch_bus::send::{SendError, send_request};
use tetrarch_bus::subject::{Origin, Subject, pattern};
use tetrarch_bus::{Bus, HeaderMap};
use tetrarch_core::id::{RequestId, Ulid};
use tetrarch_core::request::{Report, RequestBody};

use super::{soon, worker};

async fn report(bus: &Bus, number: u128) -> u64 {
    let id = RequestId(Ulid(number));
    let subject = Subject::Report { from: worker(1).into(), via: None };
    let envelope = Envelope { msg_id: Some(id.to_string()), ..Envelope::default() };
    let payload = encode_report(&Report::Ready, id).unwrap().into();
    send_request(bus, &subject, envelope.headers(&subject), payload, None).await.unwrap()
}

async fn take(intake: &mut Intake, count: usize) -> Vec<u128> {
    let mut taken = Vec::new();
    while taken.len() < count {
        for one in soon("the next request", intake.next(256)).await {
            match one {
                Intaken::Request { request, .. } => {
                    assert_eq!(request.body, RequestBody::Report(Report::Ready));
                    taken.push(request.id.0.0);
                }
                Intaken::Undecodable(letter) => panic!("{letter:?}"),
            }
        }
    }
    taken
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_come_in_order_without_loss() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    for number in 0..600 {
        report(&bus, number).await;
    }
    assert_eq!(report(&bus, 0).await, 1, "the same again is known");
    let mut intake = Intake::open(&bus, 101).await.unwrap();
    assert_eq!(intake.beyond(), None);
    let first = soon("the first", intake.next(7)).await;
    assert!((1..=7).contains(&first.len()));
    assert!(matches!(&first[0], Intaken::Request { request, .. } if request.seq == 101));
    let rest = take(&mut intake, 500 - first.len()).await;
    let expected: Vec<u128> = (100 + first.len() as u128..600).collect();
    assert_eq!(rest, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn intake_survives_a_server_restart() {
    let mut server = tetrarch_tests::server().await;
    let bus = server.control().await;
    for number in 0..10 {
        report(&bus, number).await;
    }
    let mut intake = Intake::open(&bus, 1).await.unwrap();
    assert_eq!(take(&mut intake, 10).await, (0..10).collect::<Vec<u128>>());
    for number in 10..20 {
        report(&bus, number).await;
    }
    server.kill().await;
    server.restart().await;
    let late = tokio::spawn({
        let bus = bus.clone();
        async move {
            for number in 20..30 {
                report(&bus, number).await;
            }
        }
    });
    assert_eq!(take(&mut intake, 20).await, (10..30).collect::<Vec<u128>>());
    late.await.unwrap();
    let nothing = tokio::time::timeout(std::time::Duration::from_millis(200), intake.next(1)).await;
    assert!(nothing.is_err(), "nothing comes twice: {nothing:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_consumer_is_recreated() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    report(&bus, 0).await;
    let mut intake = Intake::open(&bus, 1).await.unwrap();
    assert_eq!(take(&mut intake, 1).await, [0]);
    let stream = bus.jetstream().get_stream(pattern::REQUESTS).await.unwrap();
    let names: Vec<String> = stream.consumer_names().try_collect().await.unwrap();
    assert_eq!(names.len(), 1);
    let consumer: PullConsumer = stream.get_consumer(&names[0]).await.unwrap();
    stream.delete_consumer(&consumer.cached_info().name).await.unwrap();
    report(&bus, 1).await;
    assert_eq!(take(&mut intake, 1).await, [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn position_beyond_the_end_is_reset_and_reported() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    report(&bus, 0).await;
    let mut intake = Intake::open(&bus, 50).await.unwrap();
    assert_eq!(intake.beyond(), Some(1));
    report(&bus, 1).await;
    assert_eq!(take(&mut intake, 1).await, [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn unanswerable_message_is_dead_lettered_once_with_its_reason() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    bus.publish_expect("report.nobody", HeaderMap::new(), "{}".into(), None).await.unwrap();
    report(&bus, 1).await;
    let mut intake = Intake::open(&bus, 1).await.unwrap();
    let first = soon("the first", intake.next(1)).await;
    let [Intaken::Undecodable(letter)] = first.as_slice() else { panic!("{first:?}") };
    assert_eq!((letter.seq, letter.subject.as_str()), (1, "report.nobody"));
    dead_letter(&bus, letter).await.unwrap();
    dead_letter(&bus, letter).await.unwrap();
    let dead = bus.next_by_subject_batch(pattern::DEAD, ">", 1, 10).await.unwrap();
    assert_eq!(dead.len(), 1);
    assert_eq!(dead[0].subject, Subject::Dead(Origin::Requests).to_string());
    assert!(dead[0].header(REASON).unwrap().contains("nobody"));
    assert_eq!(dead[0].header(MSG_ID), Some("REQUESTS.1"));
    assert_eq!(dead[0].payload, "{}");
    let read = read_dead(&bus, Origin::Requests).await.unwrap();
    assert_eq!(
        read.into_iter().map(|(_, letter)| letter).collect::<Vec<_>>(),
        std::slice::from_ref(letter)
    );
    assert_eq!(read_dead(&bus, Origin::Mail).await.unwrap(), []);
    assert_eq!(take(&mut intake, 1).await, [1]);
    let large = DeadLetter { seq: 3, payload: vec![b'x'; 65_537].into(), ..letter.clone() };
    dead_letter(&bus, &large).await.unwrap();
    let read = read_dead(&bus, Origin::Requests).await.unwrap();
    let (_, cut) = read.last().unwrap();
    assert_eq!(cut.payload.len(), 65_536);
    assert!(cut.reason.starts_with("the first 65536 of 65537 bytes are kept; "), "{}", cut.reason);
}

#[tokio::test(flavor = "multi_thread")]
async fn sending_gives_up_only_after_the_given_timeout() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    server.pause().await;
    let subject = Subject::Report { from: worker(1).into(), via: None };
    let patience = Some(std::time::Duration::from_millis(10));
    let sending = send_request(&bus, &subject, HeaderMap::new(), "{}".into(), patience);
    let refused = soon("giving up", sending).await;
    assert!(matches!(refused, Err(SendError::BusDown { .. })), "{refused:?}");
    server.resume();
    let host = tetrarch_core::id::HostName::new("a").unwrap();
    let other = server.bus(&tetrarch_bus::creds::CredentialHolder::Host(host)).await;
    let refused = send_request(&other, &subject, HeaderMap::new(), "{}".into(), None).await;
    assert!(matches!(refused, Err(SendError::Refused(_))), "{refused:?}");
}
