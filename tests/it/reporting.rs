//! Reports of one host that go out together: fewer messages, each report decided on once, and a host
//! that says nothing of what others run (spec 02, Few messages; spec 09, On the bus).
#![expect(clippy::unwrap_used, reason = "a test fails by panicking where it went wrong")]

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::join_all;
use futures::{FutureExt, StreamExt};
use serde_json::{Value, json};
use tetrarch_bus::codec::{HostedReport, encode_op, encode_report, encode_reports};
use tetrarch_bus::creds::CredentialHolder;
use tetrarch_bus::envelope::{Envelope, KIND, MSG_ID};
use tetrarch_bus::intake::{Intake, Intaken};
use tetrarch_bus::retry::Retry;
use tetrarch_bus::send::{Author, Reports, SendError, send_request};
use tetrarch_bus::subject::pattern::{MAIL, REQUESTS};
use tetrarch_bus::subject::{OpName, Subject};
use tetrarch_bus::{Bus, HeaderMap};
use tetrarch_core::agent::Mode;
use tetrarch_core::brief::Tools;
use tetrarch_core::budget::Limits;
use tetrarch_core::id::{
    AgentId, HostName, HumanName, Principal, ProjectName, RequestId, SessionId, Ulid,
};
use tetrarch_core::ledger::EventKind;
use tetrarch_core::limits::REQUEST_BYTES_MAX;
use tetrarch_core::liveness::Liveness;
use tetrarch_core::plan::PlacementWish;
use tetrarch_core::records::Records;
use tetrarch_core::request::{HostJoin, Op, ProjectCreate, Report, Request, RequestBody};
use tetrarch_engine::GlobalConfig;
use tetrarch_tests::wait::{SOON, soon};
use tetrarch_tests::{Ledger, Owner, Server};

fn host(name: &str) -> HostName {
    HostName::new(name).unwrap()
}

async fn bus_of(server: &Server, name: &str) -> Bus {
    server.bus(&CredentialHolder::Host(host(name))).await
}

fn author(name: &str) -> Author {
    Author {
        from: Principal::Agent(AgentId::Ho(host(name))),
        via: Some(host(name)),
        session: Some(SessionId(Ulid(1))),
        epoch: 1,
    }
}

fn hosted(number: u128, report: Report) -> HostedReport {
    HostedReport {
        agent: AgentId::Worker(Ulid(number)),
        session: SessionId(Ulid(number)),
        epoch: 1,
        trace: None,
        id: RequestId(Ulid(number)),
        report,
    }
}

fn ready(number: u128) -> HostedReport {
    hosted(number, Report::Ready)
}

/// Where an agent's report is that went out alone.
fn at(number: u128) -> String {
    let from = Principal::Agent(hosted(number, Report::Ready).agent);
    Subject::Report { from, via: Some(host("h1")) }.to_string()
}

/// So many requests, each with whether it is the last of its message.
async fn taken(bus: &Bus, count: usize) -> Vec<(Request, bool)> {
    let mut intake = Intake::open(bus, 1).await.unwrap();
    let mut all = Vec::new();
    while all.len() < count {
        for one in soon("the next request", intake.next(7)).await {
            let Intaken::Request { request, last, .. } = one else { panic!("{one:?}") };
            assert!(matches!(request.body, RequestBody::Report(_)), "{request:?}");
            all.push((*request, last));
        }
    }
    let more = tokio::time::timeout(Duration::from_millis(200), intake.next(1)).await;
    assert!(more.is_err(), "nothing comes twice: {more:?}");
    all
}

/// Reports that wait when the first message goes out, and their outcomes.
async fn send_all(bus: &Bus, name: &str, all: Vec<HostedReport>) -> Vec<Result<(), SendError>> {
    let (reports, sending) = Reports::new(bus.clone(), author(name));
    let mut sent = Box::pin(join_all(all.into_iter().map(|report| {
        let reports = reports.clone();
        async move { reports.send(report).await }
    })));
    assert!((&mut sent).now_or_never().is_none(), "nobody sends yet");
    let (outcomes, ()) = tokio::join!(sent, async {
        drop(reports);
        sending.await;
    });
    outcomes
}

fn each_stored(outcomes: Vec<Result<(), SendError>>) {
    outcomes.into_iter().for_each(Result::unwrap);
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_reports_go_out_together_in_order() {
    let server = tetrarch_tests::server().await;
    let (bus, control) = (bus_of(&server, "h1").await, server.control().await);
    each_stored(send_all(&bus, "h1", vec![ready(1)]).await);
    each_stored(send_all(&bus, "h1", (2..=200).map(ready).collect()).await);
    let messages = control.stream_last_seq(REQUESTS).await.unwrap();
    assert!((5..=20).contains(&messages), "{messages} messages for 200 reports");
    let taken = taken(&control, 200).await;
    let numbers: Vec<u128> = taken.iter().map(|(request, _)| request.id.0.0).collect();
    assert_eq!(numbers, (1..=200).collect::<Vec<_>>(), "each once, in order");
    for pair in taken.windows(2) {
        let [(one, last), (next, _)] = pair else { panic!("{pair:?}") };
        assert_eq!(*last, one.seq < next.seq, "the last of a message, and no other, ends it");
        assert_eq!(next.sender.session, Some(SessionId(next.id.0)));
    }
    assert!(taken[199].1);
    let alone = control.last_by_subject(REQUESTS, &at(1)).await.unwrap().unwrap();
    assert_eq!((alone.seq, alone.header(KIND)), (1, Some("report/1")), "as ever");
    let last = control.last_by_subject(REQUESTS, "report.HO@h1.h1").await.unwrap().unwrap();
    assert_eq!(last.header(KIND), Some("reports/1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_too_large_together_go_out_alone() {
    let server = tetrarch_tests::server().await;
    let (bus, control) = (bus_of(&server, "h1").await, server.control().await);
    // What stands for a password is longer. The stream takes a little more than is read.
    let redacted = "a://b:[redacted:".len() + "url_password]@ ".len();
    let password = ["a://b:", "c@ "].concat().repeat((REQUEST_BYTES_MAX + 4_000) / redacted / 2);
    let whole = "c".repeat(REQUEST_BYTES_MAX - 1_000);
    let causes = [password.clone(), password, whole.clone(), whole];
    let all = (1..).zip(causes).map(|(number, cause)| hosted(number, Report::Gone { cause }));
    each_stored(send_all(&bus, "h1", all.collect()).await);
    let taken = taken(&control, 4).await;
    assert_eq!(taken.iter().map(|(it, _)| it.seq).collect::<Vec<_>>(), [1, 2, 3, 4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_reports_are_each_told_why() {
    let server = tetrarch_tests::server().await;
    let bus = bus_of(&server, "h1").await;
    let outcomes = send_all(&bus, "h2", (1..=3).map(ready).collect()).await;
    assert_eq!(outcomes.len(), 3);
    for outcome in outcomes {
        assert!(matches!(outcome, Err(SendError::Refused(_))), "{outcome:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn resent_reports_are_stored_once() {
    let server = tetrarch_tests::server().await;
    let (bus, control) = (bus_of(&server, "h1").await, server.control().await);
    let mut heard = control.client().subscribe("report.>").await.unwrap();
    control.client().flush().await.unwrap();
    let statistics = bus.client().statistics();
    let published = || statistics.out_messages.load(Ordering::Relaxed);
    let before = published();
    server.pause().await;
    let sent =
        tokio::spawn(async move { send_all(&bus, "h1", (1..=10).map(ready).collect()).await });
    let mut retry = Retry::until(SOON);
    while published() < before + 2 {
        assert!(retry.pause().await, "it is not sent again");
    }
    server.resume();
    each_stored(soon("all of them", sent).await.unwrap());
    let copies =
        [soon("one", heard.next()).await.unwrap(), soon("again", heard.next()).await.unwrap()];
    let [one, again] = copies.map(|copy| (copy.headers.unwrap(), copy.payload));
    assert_eq!(one.0.get(MSG_ID), again.0.get(MSG_ID));
    assert_eq!(one.1, again.1, "the same bytes");
    assert_eq!(taken(&control, 10).await.len(), 10);
}

async fn ask(bus: &Bus, from: Principal, via: Option<HostName>, op: &Op, number: u128) {
    let subject = Subject::Op { op: OpName::of(op), from, via };
    let payload = encode_op(op, RequestId(Ulid(number))).unwrap().into();
    send_request(bus, &subject, HeaderMap::new(), payload, None).await.unwrap();
}

/// An owner with two hosts that do nothing, and the orchestrator of a project on each.
async fn fleet(server: &Server, ledger: &mut Ledger) -> (Owner, [HostedReport; 2]) {
    let config = GlobalConfig { window: Duration::from_secs(60), ..Owner::config("owner", 600) };
    let mut owner = Owner::start(server, config).await;
    owner.until_ready().await;
    let control = server.control().await;
    let names = ["h1", "h2"];
    for (number, name) in (1..).zip(names) {
        let (who, name) = (author(name).from, host(name));
        let (instance, address) = ("one".to_owned(), "here".to_owned());
        let join = HostJoin { instance, address, lease_epoch: 1, labels: Vec::new(), capacity: 8 };
        ask(&control, who, Some(name.clone()), &Op::HostJoin(join), number).await;
        let create = ProjectCreate {
            project: ProjectName::new(name.as_str()).unwrap(),
            mode: Mode::Orchestrator,
            external: false,
            tools: Tools::default(),
            budget: Limits::default(),
            local_max_depth: None,
            placement: PlacementWish { host: Some(name), labels: Vec::new() },
        };
        let ada = Principal::Human(HumanName::new("ada").unwrap());
        ask(&control, ada, None, &Op::ProjectCreate(create), number + 10).await;
    }
    let placed = ledger.until("an orchestrator on each host", |records| {
        let of = |(number, name)| {
            let agent = AgentId::Po(ProjectName::new(name).unwrap());
            let session = records.agents.get(&agent)?.session?;
            Some(HostedReport { agent, session, ..ready(number) })
        };
        Some([of((21, names[0]))?, of((22, names[1]))?])
    });
    let placed = placed.await;
    (owner, placed)
}

#[tokio::test(flavor = "multi_thread")]
async fn report_for_anothers_agent_is_refused_beside_decided_ones() {
    let server = tetrarch_tests::server().await;
    let (bus, control) = (bus_of(&server, "h1").await, server.control().await);
    let mut ledger = Ledger::follow(&control);
    let (owner, [own, anothers]) = fleet(&server, &mut ledger).await;
    let together = encode_reports([&anothers, &own].into_iter()).unwrap();
    let mut together: Value = serde_json::from_slice(&together).unwrap();
    together["reports"].as_array_mut().unwrap().insert(1, json!({"agent": "GO", "report": {}}));
    let payload = together.to_string();
    let put = async |subject: &str, payload: Vec<u8>| {
        bus.publish_expect(subject, HeaderMap::new(), payload.into(), None).await.unwrap()
    };
    put("report.HO@h1.h1", payload.clone().into()).await;
    let is_active = |records: &Records, who: &HostedReport| {
        records.agents[&who.agent].liveness == Liveness::Active
    };
    ledger.until("its own", |records| is_active(records, &own).then_some(())).await;
    // The same again, as after a long absence of the bus; then one of it alone.
    put("report.HO@h1.h1", payload.into()).await;
    let alone = Subject::Report { from: own.agent.clone().into(), via: Some(host("h1")) };
    let mut headers =
        Envelope { session: Some(own.session), epoch: Some(own.epoch), ..Envelope::default() }
            .headers(&alone);
    headers.insert(MSG_ID, "alone");
    let body = encode_report(&own.report, own.id).unwrap().into();
    send_request(&bus, &alone, headers, body, None).await.unwrap();
    let ada = Principal::Human(HumanName::new("ada").unwrap());
    let mode = Op::ProjectMode { project: ProjectName::new("h1").unwrap(), mode: Mode::Tight };
    ask(&control, ada, None, &mode, 99).await;
    let last = control.stream_last_seq(REQUESTS).await.unwrap();
    ledger.until("everything", |records| (records.intake_seq == last).then_some(())).await;
    ledger.until("the other", |records| (!is_active(records, &anothers)).then_some(())).await;
    let became = ledger.events(EventKind::AgentLiveness);
    let became = became.iter().filter(|event| event.agent.as_ref() == Some(&own.agent));
    let active = became.filter(|event| event.reason.contains("-> active"));
    assert_eq!(active.count(), 1, "decided once");
    let refused = ledger.events(EventKind::Refused);
    let refused: Vec<_> =
        refused.iter().map(|it| (it.agent.as_ref(), it.reason.as_str())).collect();
    let why = "report ready: E_UNAUTHORIZED: PO-h2 is not placed on h1";
    assert_eq!(refused, [(Some(&anothers.agent), why); 2]);
    // Answers go out beside the ledger.
    let complaints = async || {
        let mail = control.next_by_subject_batch(MAIL, "mail.HO@h1.GO", 1, 10).await.unwrap();
        let said = mail.iter().map(|mail| String::from_utf8_lossy(&mail.payload).into_owned());
        said.filter(|mail| mail.contains("reports[1].agent: h1 does not publish for GO")).count()
    };
    let mut retry = Retry::until(SOON);
    while complaints().await < 2 {
        assert!(retry.pause().await, "garbage is not answered each time");
    }
    owner.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn half_decided_reports_of_a_message_are_not_covered() {
    /// So few that a commit ends within a message.
    const EACH: u128 = 63;
    const MESSAGES: u128 = 8;
    let server = tetrarch_tests::server().await;
    let control = server.control().await;
    for message in 0..MESSAGES {
        let all: Vec<_> = (1..=EACH).map(|number| ready(message * EACH + number)).collect();
        let payload = encode_reports(all.iter()).unwrap().into();
        let headers = HeaderMap::new();
        control.publish_expect("report.HO@h1.h1", headers, payload, None).await.unwrap();
    }
    let mut owner = Owner::start(&server, Owner::config("owner", 600)).await;
    owner.until_ready().await;
    let mut ledger = Ledger::follow(&control);
    let all = u64::try_from(MESSAGES).unwrap();
    ledger.until("everything", |records| (records.intake_seq == all).then_some(())).await;
    let (mut decided, mut halves) = (Vec::new(), 0);
    for (_, entry) in &ledger.entries {
        let refused = entry.events.iter().filter(|event| event.kind == EventKind::Refused);
        decided.extend(refused.map(|event| event.request.unwrap().0.0));
        let whole = decided.len() / usize::try_from(EACH).unwrap();
        assert_eq!(usize::try_from(entry.intake_seq).unwrap(), whole);
        halves += usize::from(decided.len() % usize::try_from(EACH).unwrap() > 0);
    }
    assert_eq!(decided, (1..=EACH * MESSAGES).collect::<Vec<_>>(), "each once, in order");
    assert!(halves > 0, "no commit ended within a message");
    owner.stop().await;
}
