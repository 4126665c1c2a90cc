//! Inboxes: order, control before mail, what the owner sent again, and lost hints.

use tetrarch_bus::creds::CredentialHolder;
use tetrarch_bus::cursor::{read_cursor, write_cursor};
use tetrarch_bus::envelope::{MSG_ID, SEQ};
use tetrarch_bus::inbox::{Inbox, Incoming, Wakeup};
use tetrarch_bus::intake::{DeadLetter, dead_letter};
use tetrarch_bus::send::{Author, send_mail};
use tetrarch_bus::subject::Origin;
use tetrarch_bus::subject::Subject;
use tetrarch_bus::unread::UnreadMail;
use tetrarch_bus::{Bus, HeaderMap, codec};
use tetrarch_core::cursor::{Cursor, Positions};
use tetrarch_core::id::{AgentId, HostName, Principal, SessionId, Ulid};
use tetrarch_core::ledger::Entry;
use tetrarch_core::mail::receipt::{About, Receipt, Stage};
use tetrarch_core::mail::{Lane, Mail, MailBody, SessionOrder};
use tetrarch_core::time::BusTime;

use super::{batch, empty_entry, info, mail, outbox, soon, worker};

fn me() -> Principal {
    worker(1).into()
}

fn stop(reason: &str) -> Mail {
    let order = SessionOrder {
        agent: worker(1),
        session: Some(SessionId(Ulid(1))),
        epoch: 1,
        host_epoch: 0,
        reason: reason.to_owned(),
    };
    mail(&me(), MailBody::Stop(order))
}

async fn write(bus: &Bus, mail: &Mail, id: &str) -> u64 {
    write_as(bus, 1, mail, id).await
}

async fn write_as(bus: &Bus, epoch: u64, mail: &Mail, id: &str) -> u64 {
    let author = Author { from: worker(2).into(), via: None, session: None, epoch };
    send_mail(bus, &author, mail, id, None).await.unwrap()
}

async fn open(wakeup: &Wakeup, positions: Positions) -> Inbox {
    Inbox::open(wakeup, &me(), positions).await.unwrap()
}

async fn next(inbox: &mut Inbox) -> Incoming {
    soon("the next message", inbox.next()).await.unwrap()
}

fn says(incoming: &Incoming) -> String {
    let body = &incoming.content.as_ref().unwrap().0.body;
    if let MailBody::Stop(order) = body {
        return order.reason.clone();
    }
    let MailBody::Info { text } = body else { panic!("{body:?}") };
    text.clone()
}

async fn nothing(inbox: &mut Inbox) {
    let wait = std::time::Duration::from_millis(300);
    let more = tokio::time::timeout(wait, inbox.next()).await;
    assert!(more.is_err(), "{more:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn message_resent_by_the_next_session_is_read() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let said = info(&me(), "please");
    let first = write_as(&bus, 1, &said, "request").await;
    assert_eq!(write_as(&bus, 1, &said, "request").await, first, "a repeat is stored once");
    assert_ne!(write_as(&bus, 2, &said, "request").await, first);
    let wakeup = Wakeup::start(bus.clone());
    let mut inbox = open(&wakeup, Positions::default()).await;
    for epoch in [1, 2] {
        let message = next(&mut inbox).await;
        assert_eq!(message.content.as_ref().unwrap().1.epoch, epoch);
    }
    nothing(&mut inbox).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deferred_mail_keeps_its_position_and_control_passes() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let wakeup = Wakeup::start(bus.clone());
    let (hold, held) = tokio::sync::watch::channel(true);
    let mut inbox = open(&wakeup, Positions::default()).await.held_by(held);
    for number in 0..3 {
        write(&bus, &info(&me(), &number.to_string()), &format!("m{number}")).await;
    }
    write(&bus, &stop("one"), "c1").await;
    assert_eq!(says(&next(&mut inbox).await), "one");
    nothing(&mut inbox).await;
    hold.send(false).unwrap();
    for number in 0..3 {
        assert_eq!(says(&next(&mut inbox).await), number.to_string());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_come_in_order_and_control_before_mail() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    for number in 0..450 {
        write(&bus, &info(&me(), &number.to_string()), &format!("m{number}")).await;
    }
    write(&bus, &stop("one"), "c1").await;
    write(&bus, &info(&worker(3).into(), "not mine"), "other").await;
    let wakeup = Wakeup::start(bus.clone());
    let mut inbox = open(&wakeup, Positions { mail: 10, ctl: 0 }).await;
    let first = next(&mut inbox).await;
    assert_eq!((first.lane, says(&first).as_str()), (Lane::Ctl, "one"));
    assert!(first.id.starts_with(&format!("{}.1.c1.", worker(2))), "{}", first.id);
    let (_, sender) = first.content.as_ref().unwrap();
    assert_eq!(sender.from, worker(2).into());
    for number in 10..400u64 {
        let message = next(&mut inbox).await;
        assert_eq!((message.seq, says(&message)), (number + 1, number.to_string()));
    }
    write(&bus, &stop("two"), "c2").await;
    let (mut mails, mut stopped_after) = (0, None);
    while mails < 50 {
        let message = next(&mut inbox).await;
        match message.lane {
            Lane::Ctl => stopped_after = Some(mails),
            Lane::Mail => mails += 1,
        }
    }
    assert!(stopped_after.is_some_and(|after| after < 50), "control overtakes waiting mail");
    nothing(&mut inbox).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hints_wake_a_waiting_reader() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let wakeup = Wakeup::start(server.control().await);
    let mut inbox = open(&wakeup, Positions::default()).await;
    for number in 0..50 {
        let reading = tokio::spawn(async move {
            let message = next(&mut inbox).await;
            (message, inbox)
        });
        let lane = if number % 2 == 0 { Lane::Mail } else { Lane::Ctl };
        let text = number.to_string();
        let mail = if lane == Lane::Mail { info(&me(), &text) } else { stop(&text) };
        let seq = write(&bus, &mail, &format!("m{number}")).await;
        let (message, back) = reading.await.unwrap();
        inbox = back;
        assert_eq!((message.lane, message.seq, says(&message)), (lane, seq, text));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn resent_owner_mail_is_skipped_even_after_a_restart() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let entries: Vec<Entry> = (1..=3u128)
        .map(|n| Entry {
            mail: vec![info(&me(), &n.to_string()), stop(&n.to_string())],
            ..empty_entry(n, 1)
        })
        .collect();
    outbox(&bus).publish(&batch(5, &entries)).await.unwrap();
    let wakeup = Wakeup::start(bus.clone());
    let mut inbox = open(&wakeup, Positions::default()).await;
    let mut positions = Positions::default();
    for lane in [Lane::Ctl, Lane::Mail] {
        for number in 1..=3 {
            let message = next(&mut inbox).await;
            assert_eq!((message.lane, says(&message)), (lane, number.to_string()));
            match lane {
                Lane::Ctl => positions.ctl = message.seq,
                Lane::Mail => positions.mail = message.seq,
            }
        }
    }
    let again = async |place: &str, text: &str| {
        let subject =
            Subject::Mail { lane: Lane::Mail, to: me(), from: AgentId::Go.into(), via: None };
        let mut headers = HeaderMap::new();
        headers.insert(MSG_ID, format!("late-{place}"));
        headers.insert(SEQ, place);
        let payload = codec::encode_mail(&info(&me(), text)).unwrap().into();
        bus.publish_expect(&subject.to_string(), headers, payload, None).await.unwrap();
    };
    again("5.0", "1").await;
    again("7.0", "3").await;
    write(&bus, &info(&me(), "from a sibling"), "s").await;
    again("6.0", "2").await;
    again("7.2", "new").await;
    let mut restarted = open(&wakeup, positions).await;
    for inbox in [&mut inbox, &mut restarted] {
        assert_eq!(says(&next(inbox).await), "from a sibling");
        assert_eq!(says(&next(inbox).await), "new");
        nothing(inbox).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_sent_during_a_disconnect_is_read() {
    let mut server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let wakeup = Wakeup::start(server.control().await);
    let mut inbox = open(&wakeup, Positions::default()).await;
    write(&bus, &info(&me(), "before"), "m1").await;
    assert_eq!(says(&next(&mut inbox).await), "before");
    let reading = tokio::spawn(async move { (next(&mut inbox).await, inbox) });
    server.kill().await;
    server.restart().await;
    write(&bus, &info(&me(), "after"), "m2").await;
    let (message, _inbox) = reading.await.unwrap();
    assert_eq!(says(&message), "after");
}

#[tokio::test(flavor = "multi_thread")]
async fn hint_of_an_unstored_message_is_harmless() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let wakeup = Wakeup::start(server.control().await);
    let mut inbox = open(&wakeup, Positions::default()).await;
    let subject = Subject::Mail { lane: Lane::Mail, to: me(), from: worker(2).into(), via: None };
    let payload = codec::encode_mail(&info(&me(), "refused")).unwrap();
    let refused =
        bus.publish_expect(&subject.to_string(), HeaderMap::new(), payload.into(), Some(77)).await;
    assert!(refused.is_err());
    wakeup.nudge();
    nothing(&mut inbox).await;
    write(&bus, &info(&me(), "stored"), "m1").await;
    assert_eq!(says(&next(&mut inbox).await), "stored");
    nothing(&mut inbox).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn undecodable_mail_is_handed_on_with_its_position() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let subject = Subject::Mail { lane: Lane::Mail, to: me(), from: worker(2).into(), via: None };
    bus.publish_expect(&subject.to_string(), HeaderMap::new(), "{]".into(), None).await.unwrap();
    write(&bus, &info(&me(), "fine"), "m").await;
    let wakeup = Wakeup::start(bus.clone());
    let mut inbox = open(&wakeup, Positions::default()).await;
    let bad = next(&mut inbox).await;
    assert!(bad.content.is_err());
    assert_eq!((bad.seq, bad.id.as_str(), &bad.payload[..]), (1, "1", b"{]".as_slice()));
    assert_eq!(says(&next(&mut inbox).await), "fine");
}

#[tokio::test(flavor = "multi_thread")]
async fn position_beyond_the_end_is_reset() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    write(&bus, &info(&me(), "had"), "m1").await;
    let wakeup = Wakeup::start(bus.clone());
    let mut inbox = open(&wakeup, Positions { mail: 900, ctl: 900 }).await;
    write(&bus, &info(&me(), "new"), "m2").await;
    assert_eq!(says(&next(&mut inbox).await), "new");
}

#[tokio::test(flavor = "multi_thread")]
async fn host_reads_many_inboxes_over_one_connection() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let host = server.bus(&CredentialHolder::Host(HostName::new("a").unwrap())).await;
    let wakeup = Wakeup::start(host);
    let mut inboxes = Vec::new();
    for number in 0..300u128 {
        let id = Principal::from(worker(1_000 + number));
        inboxes.push((id.clone(), Inbox::open(&wakeup, &id, Positions::default()).await.unwrap()));
    }
    let mails = inboxes.iter().map(|(id, _)| info(id, &id.to_string())).collect();
    outbox(&bus).publish(&batch(1, &[Entry { mail: mails, ..empty_entry(1, 1) }])).await.unwrap();
    for (id, inbox) in &mut inboxes {
        assert_eq!(says(&next(inbox).await), id.to_string());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_mail_is_found_once_old_unless_set_aside() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let order = Entry { seals: vec![super::seal(&worker(1), 1)], ..empty_entry(1, 1) };
    outbox(&bus).publish(&batch(1, &[order])).await.unwrap();
    let read = write(&bus, &info(&me(), "read"), "m1").await;
    let (cursor, at) = read_cursor(&bus, &worker(1)).await.unwrap().unwrap();
    let moved = Cursor { positions: Positions { mail: read, ctl: 0 }, ..cursor };
    write_cursor(&bus, &moved, at).await.unwrap();
    let unread = write(&bus, &info(&me(), "unread"), "m2").await;
    write(&bus, &info(&worker(3).into(), "to nobody with a cursor"), "m3").await;
    let about = MailBody::Receipt(Receipt {
        of: About { seq: 1, message: String::new(), topic: String::new() },
        stage: Stage::Consumed,
    });
    write(&bus, &mail(&me(), about), "m4").await;
    let dead = write(&bus, &info(&me(), "set aside"), "m5").await;
    let letter = DeadLetter {
        origin: Origin::Mail,
        seq: dead,
        subject: "mail".to_owned(),
        reason: "why".to_owned(),
        payload: "{}".into(),
    };
    dead_letter(&bus, &letter).await.unwrap();
    let mut found = UnreadMail::new(bus.clone());
    assert!(found.before(BusTime(1)).await.unwrap().is_empty(), "none of it is that old");
    let later = BusTime(u64::MAX);
    let all = found.before(later).await.unwrap();
    let all: Vec<_> = all.iter().map(|(reader, message)| (reader.clone(), message.seq)).collect();
    assert_eq!(all, [(worker(1), unread)]);
    assert!(found.before(later).await.unwrap().is_empty(), "each is looked at once");
}
