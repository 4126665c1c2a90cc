//! Fair shares: a sender that asks for more than its own is refused and slows nobody, and what only reads
//! leaves nothing behind (spec 09, On the bus; spec 02, Reads decide nothing).
#![expect(clippy::unwrap_used, reason = "a test fails by panicking where it went wrong")]

use std::collections::BTreeSet;

use futures::future::join_all;
use tetrarch_bus::creds::CredentialHolder;
use tetrarch_bus::envelope::Envelope;
use tetrarch_bus::send::send_request;
use tetrarch_bus::subject::pattern::{LEDGER, MAIL, RUNS, STATE, inbox_open};
use tetrarch_bus::subject::{OpName, Subject};
use tetrarch_bus::watch::Replies;
use tetrarch_bus::{Bus, HeaderMap, codec};
use tetrarch_core::agent::Mode;
use tetrarch_core::brief::Tools;
use tetrarch_core::budget::Limits;
use tetrarch_core::error::ErrorCode;
use tetrarch_core::id::{AgentId, HumanName, Principal, ProjectName, RequestId, RunId, Ulid};
use tetrarch_core::ledger::EventKind;
use tetrarch_core::limits::UNREAD_MAX;
use tetrarch_core::mail::{Lane, MailBody, OpReply};
use tetrarch_core::owner::Policy;
use tetrarch_core::plan::PlacementWish;
use tetrarch_core::request::{Op, ProjectCreate};
use tetrarch_engine::GlobalConfig;
use tetrarch_tests::wait::soon;
use tetrarch_tests::{Ledger, Owner, Server, settled};

/// Requests a second that one sender may ask here.
const RATE: u64 = 50;
/// Requests of a flood.
const FLOOD: u128 = 3_000;

struct Asker {
    from: Principal,
    bus: Bus,
    replies: Replies,
}

impl Asker {
    async fn new(server: &Server, name: &str) -> Self {
        let name = HumanName::new(name).unwrap();
        let bus = server.bus(&CredentialHolder::Human(name.clone())).await;
        let from = Principal::Human(name);
        let replies = Replies::open(&bus, &from).await.unwrap();
        Self { from, bus, replies }
    }

    async fn send(&self, id: RequestId, op: &Op) {
        let subject = Subject::Op { op: OpName::of(op), from: self.from.clone(), via: None };
        let headers = Envelope { msg_id: Some(id.to_string()), ..Envelope::default() };
        let payload = codec::encode_op(op, id).unwrap().into();
        send_request(&self.bus, &subject, headers.headers(&subject), payload, None).await.unwrap();
    }

    /// The next answer to this one's requests.
    async fn answer(&mut self) -> (RequestId, OpReply) {
        loop {
            let mail = soon("an answer", self.replies.next()).await.unwrap();
            if let MailBody::Reply(reply) = mail.body {
                return (mail.correlation.unwrap(), reply);
            }
        }
    }
}

async fn owner(server: &Server) -> Owner {
    owner_with_rate(server, RATE).await
}

async fn owner_with_rate(server: &Server, requests_per_second: u64) -> Owner {
    let policy = Policy { requests_per_second, ..Policy::default() };
    let mut owner =
        Owner::start(server, GlobalConfig { policy, ..Owner::config("owner", 600) }).await;
    owner.until_ready().await;
    owner
}

/// An operation that is decided on, and refused.
fn op() -> Op {
    Op::ProjectMode { project: ProjectName::new("none").unwrap(), mode: Mode::Tight }
}

#[tokio::test(flavor = "multi_thread")]
async fn flooding_sender_is_refused_and_another_is_answered() {
    let server = tetrarch_tests::server().await;
    let owner = owner(&server).await;
    let (mut loud, mut quiet) =
        (Asker::new(&server, "loud").await, Asker::new(&server, "quiet").await);
    let ids = (1..=FLOOD).map(|id| RequestId(Ulid(id)));
    join_all(ids.map(|id| {
        let (loud, op) = (&loud, op());
        async move { loud.send(id, &op).await }
    }))
    .await;
    // What is not answered when all is decided never is.
    let control = server.control().await;
    let mut asked = 0;
    while asker_meta(&control).await <= u64::try_from(FLOOD).unwrap() {
        asked += 1;
        quiet.send(RequestId(Ulid(FLOOD + asked)), &op()).await;
        assert_eq!(quiet.answer().await.1.error, Some(ErrorCode::NotFound), "it is decided on");
        // STATE is written now and then, so this is within its own rate.
        settled(&control).await;
    }
    let asked = usize::try_from(asked).unwrap();
    let (mut decided, mut refused) = (0, Vec::new());
    let stored = control.stream_last_seq(MAIL).await.unwrap();
    while decided + refused.len() + asked < usize::try_from(stored).unwrap() {
        let (id, reply) = loud.answer().await;
        match reply.error {
            Some(ErrorCode::NotFound) => decided += 1,
            Some(ErrorCode::Unavailable) => refused.push((id, reply.detail)),
            other => panic!("{other:?}: {reply:?}"),
        }
    }
    assert!((100..1_000).contains(&decided), "a burst and what came back meanwhile: {decided}");
    assert!((1..300).contains(&refused.len()), "most are dropped: {}", refused.len());
    let (again, words) = refused.remove(0);
    let rate = "human:loud exceeds its rate of 50 requests a second";
    let waiting = "100 requests of human:loud wait for a decision";
    assert!(words.contains(rate) || words.contains(waiting), "{words}");
    // A refusal is no decision. The stream knows a message id for two minutes, so it gets another.
    let subject = Subject::Op { op: OpName::of(&op()), from: loud.from.clone(), via: None };
    let headers = Envelope { msg_id: Some("again".to_owned()), ..Envelope::default() };
    let reply = soon("its turn", async {
        loop {
            let payload = codec::encode_op(&op(), again).unwrap().into();
            let headers = headers.headers(&subject);
            send_request(&loud.bus, &subject, headers, payload, None).await.unwrap();
            let (id, reply) = loud.answer().await;
            if reply.error != Some(ErrorCode::Unavailable) {
                return (id, reply);
            }
        }
    })
    .await;
    assert_eq!((reply.0, reply.1.error), (again, Some(ErrorCode::NotFound)));
    owner.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sender_is_answered_before_the_many_that_another_asked_earlier() {
    let server = tetrarch_tests::server().await;
    owner_with_rate(&server, 100_000).await.stop().await;
    let (mut loud, mut quiet) =
        (Asker::new(&server, "loud").await, Asker::new(&server, "quiet").await);
    join_all((1..=FLOOD).map(|id| {
        let (loud, op) = (&loud, op());
        async move { loud.send(RequestId(Ulid(id)), &op).await }
    }))
    .await;
    quiet.send(RequestId(Ulid(FLOOD + 1)), &op()).await;
    let owner = owner_with_rate(&server, 100_000).await;
    quiet.answer().await;
    let control = server.control().await;
    let stored = control.stream_last_seq(MAIL).await.unwrap();
    assert!(u128::from(stored) < FLOOD / 2, "{stored} of {FLOOD} were answered before");
    let mut left: BTreeSet<RequestId> = (1..=FLOOD).map(|id| RequestId(Ulid(id))).collect();
    while !left.is_empty() {
        let (id, _) = loud.answer().await;
        assert!(left.remove(&id), "{id} is answered once");
    }
    owner.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn read_leaves_nothing_on_the_ledger_and_is_answered_once() {
    let server = tetrarch_tests::server().await;
    let first = owner(&server).await;
    let mut asker = Asker::new(&server, "ada").await;
    let control = server.control().await;
    asker.send(RequestId(Ulid(1)), &op()).await;
    asker.answer().await;
    let stored = async |streams: [&'static str; 3]| {
        let each = streams.map(|stream| control.stream_last_seq(stream));
        join_all(each).await.into_iter().map(Result::unwrap).collect::<Vec<_>>()
    };
    // STATE follows the answer.
    soon("the decision in STATE", async {
        while asker_meta(&control).await < 1 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let before = stored([LEDGER, STATE, MAIL]).await;
    for id in 2..=21 {
        asker.send(RequestId(Ulid(id)), &Op::AgentStatus { agent: AgentId::Go }).await;
        let (correlation, reply) = asker.answer().await;
        assert_eq!((correlation, reply.error), (RequestId(Ulid(id)), None));
        assert_eq!(reply.agent, Some(AgentId::Go));
    }
    // An answer is heard as it comes, and stored when the disk has it.
    let all = async { while stored([MAIL, MAIL, MAIL]).await[0] < before[2] + 20 {} };
    soon("the last answer in MAIL", all).await;
    let after = stored([LEDGER, STATE, MAIL]).await;
    assert_eq!(after, [before[0], before[1], before[2] + 20], "an answer each, and nothing else");
    first.stop().await;
    let second = owner(&server).await;
    asker.send(RequestId(Ulid(99)), &op()).await;
    // A repeated answer may be heard once more; the stream knows it by its request's sequence.
    while asker.answer().await.0 != RequestId(Ulid(99)) {}
    settled(&control).await;
    assert_eq!(stored([MAIL, MAIL, MAIL]).await[0], after[2] + 1, "none is stored twice");
    second.stop().await;
}

async fn asker_meta(control: &Bus) -> u64 {
    let meta = tetrarch_bus::state::load_meta(control).await.unwrap();
    meta.map_or(0, |meta| meta.intake_seq)
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_that_fills_its_stream_is_dropped_and_the_owner_survives() {
    let server = tetrarch_tests::server().await;
    let owner = owner(&server).await;
    let (mut loud, mut quiet) =
        (Asker::new(&server, "loud").await, Asker::new(&server, "quiet").await);
    let control = server.control().await;
    let mut config =
        control.jetstream().get_stream(MAIL).await.unwrap().cached_info().config.clone();
    config.max_bytes = 2 * 1024 * 1024;
    control.jetstream().update_stream(&config).await.unwrap();
    quiet.send(RequestId(Ulid(1)), &op()).await;
    assert_eq!(quiet.answer().await.1.error, Some(ErrorCode::NotFound));
    // Until the stream takes no more.
    let to = Principal::Agent(AgentId::Go);
    let subject = Subject::Mail { lane: Lane::Mail, to, from: loud.from.clone(), via: None };
    let refused = soon("a full stream", async {
        loop {
            let (headers, payload) = (HeaderMap::new(), vec![b'x'; 64 * 1024].into());
            let sent = loud.bus.publish_expect(&subject.to_string(), headers, payload, None).await;
            if let Err(error) = sent {
                return error;
            }
        }
    })
    .await;
    assert!(refused.to_string().contains("maximum bytes exceeded"), "{refused}");
    // The answer waits for room, which the owner makes.
    quiet.send(RequestId(Ulid(2)), &op()).await;
    assert_eq!(quiet.answer().await.1.error, Some(ErrorCode::NotFound));
    loud.send(RequestId(Ulid(3)), &op()).await;
    assert_eq!(loud.answer().await.1.error, Some(ErrorCode::NotFound), "it is not banished");
    assert!(!owner.task.is_finished());
    told(&control, "mail.dropped: ").await;
    owner.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_to_unknown_agents_is_dropped() {
    let server = tetrarch_tests::server().await;
    let owner = owner(&server).await;
    let loud = Asker::new(&server, "loud").await;
    let control = server.control().await;
    let strangers = (0..2_000).map(|number| AgentId::Po(format!("p{number}").parse().unwrap()));
    let subjects: Vec<String> = strangers
        .map(|to| {
            let (to, from) = (Principal::Agent(to), loud.from.clone());
            Subject::Mail { lane: Lane::Mail, to, from, via: None }.to_string()
        })
        .collect();
    publish(&loud.bus, &subjects).await;
    told(&control, "mail.dropped: ").await;
    has_room(&control, MAIL).await;
    owner.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn journals_of_unknown_agents_are_dropped() {
    let server = tetrarch_tests::server().await;
    let owner = owner(&server).await;
    let ghost: AgentId = "PO-ghost".parse().unwrap();
    let loud = server.bus(&CredentialHolder::External(ghost.clone())).await;
    let runs = (1..=2_000).map(|number| RunId(Ulid(number)));
    let subjects: Vec<String> =
        runs.map(|run| Subject::Run { agent: ghost.clone(), run }.to_string()).collect();
    publish(&loud, &subjects).await;
    has_room(&server.control().await, RUNS).await;
    owner.stop().await;
}

async fn publish(bus: &Bus, subjects: &[String]) {
    for some in subjects.chunks(500) {
        join_all(some.iter().map(|subject| {
            let sent = bus.publish_expect(subject, HeaderMap::new(), "{}".into(), None);
            async move { sent.await.unwrap() }
        }))
        .await;
    }
}

async fn has_room(control: &Bus, stream: &str) {
    soon("room", async {
        while control.stream_messages(stream).await.unwrap() >= 1_000 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sender_exceeding_its_readers_backlog_is_refused() {
    let server = tetrarch_tests::server().await;
    let owner = owner(&server).await;
    let control = server.control().await;
    let (mut loud, mut quiet) =
        (Asker::new(&server, "loud").await, Asker::new(&server, "quiet").await);
    let project = ProjectName::new("demo").unwrap();
    let create = Op::ProjectCreate(ProjectCreate {
        project,
        mode: Mode::Solo,
        external: true,
        tools: Tools::default(),
        budget: Limits::default(),
        local_max_depth: None,
        placement: PlacementWish::default(),
    });
    quiet.send(RequestId(Ulid(3)), &create).await;
    assert_eq!(quiet.answer().await.1.error, None);
    // It has a consumer, and takes nothing from it.
    let wanted = r#"{"lane": "mail", "after": 0}"#.into();
    let reader = server.bus(&CredentialHolder::External("PO-demo".parse().unwrap())).await;
    let opened = reader.client().request(inbox_open("PO-demo"), wanted).await.unwrap();
    assert!(!String::from_utf8_lossy(&opened.payload).contains("error"), "{opened:?}");
    let subject = format!("mail.PO-demo.{}", loud.from);
    let mut left = UNREAD_MAX + 1;
    while left > 0 {
        let some = left.min(500);
        let written = (0..some)
            .map(|_| control.publish_expect(&subject, HeaderMap::new(), "{}".into(), None));
        assert!(join_all(written).await.iter().all(Result::is_ok));
        left -= some;
    }
    told(&control, "mail.unread").await;
    loud.send(RequestId(Ulid(1)), &op()).await;
    let (_, refused) = loud.answer().await;
    assert_eq!(refused.error, Some(ErrorCode::Unavailable), "{refused:?}");
    assert!(refused.detail.contains("unread messages of human:loud"), "{refused:?}");
    quiet.send(RequestId(Ulid(2)), &op()).await;
    assert_eq!(quiet.answer().await.1.error, Some(ErrorCode::NotFound), "others are not");
    owner.stop().await;
}

/// Waits until people were told of something.
async fn told(control: &Bus, beginning: &str) {
    let mut ledger = Ledger::follow(control);
    while !ledger.events(EventKind::Alert).iter().any(|event| event.reason.starts_with(beginning)) {
        ledger.until_next(beginning).await;
    }
}
