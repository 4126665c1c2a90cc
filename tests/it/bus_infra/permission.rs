//! What each role's credential may and may not do, as the server enforces it.

use std::time::Duration;

use async_nats::jetstream::consumer::PullConsumer;
use bytes::Bytes;
use futures::{FutureExt, StreamExt};
use serde_json::{Value, json};
use tetrarch_bus::creds::CredentialHolder;
use tetrarch_bus::error::{PublishError, ReadError};
use tetrarch_bus::lease::{Lease, LeaseKey, LeaseRequest};
use tetrarch_bus::mailbox::opening::Openings;
use tetrarch_bus::subject::Subject;
use tetrarch_bus::subject::pattern::{inbox_open, policy};
use tetrarch_bus::{Bus, HeaderMap};
use tetrarch_core::id::{EpicId, HostName, HumanName, Ulid};
use tetrarch_tests::wait::soon;

use super::Fixture;

fn party_host() -> CredentialHolder {
    CredentialHolder::Host(HostName::new("h1").unwrap())
}

fn external() -> CredentialHolder {
    CredentialHolder::External("PO-demo".parse().unwrap())
}

fn human() -> CredentialHolder {
    CredentialHolder::Human(HumanName::new("ada").unwrap())
}

async fn publish(bus: &Bus, subject: &str) -> Result<u64, PublishError> {
    bus.publish_expect(subject, HeaderMap::new(), "{}".into(), None).await
}

async fn check(bus: &Bus, allowed: &[&str], refused: &[&str]) {
    for subject in allowed {
        let result = publish(bus, subject).await;
        assert!(result.is_ok(), "{subject}: {result:?}");
    }
    for subject in refused {
        let result = publish(bus, subject).await;
        let denied = matches!(result, Err(PublishError::Refused { code: 403, .. }));
        assert!(denied, "{subject}: {result:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn host_publishes_only_as_itself_with_its_own_token() {
    let (fixture, _control) = Fixture::with_streams().await;
    let bus = fixture.bus(&party_host()).await;
    let allowed = [
        "spawn.request.goal_1.-.PO-x.h1",
        "mail.GO.PO-x.h1",
        "ctl.W:1.PO-x.h1",
        "op.agent.replace.PO-x.h1",
        "report.PO-x.h1",
        "report.HO@h1",
        "op.host.join.HO@h1",
        "op.host.join.HO@h1.h1",
        "cursor.PO-x",
        "run.PO-x.run_1",
        "dead.MAIL",
        "$KV.LEASES.HO=h1",
    ];
    let refused = [
        "ledger.main",
        "$KV.STATE.agent.x",
        "plan.updated.goal_1",
        "$KV.LEASES.GO",
        "$KV.LEASES.HO=h2",
        "mail.GO.PO-x.h2",
        "report.PO-x.h2",
        "report.PO-x",
        "op.host.join.HO@h2",
        "op.agent.replace.PO-x",
        "mail.PO-x.GO",
        "$JS.API.STREAM.DELETE.LEDGER",
        "$JS.API.STREAM.PURGE.MAIL",
    ];
    check(&bus, &allowed, &refused).await;
    let batch = bus.next_by_subject_batch("MAIL", "mail.GO.>", 0, 10).await.unwrap();
    assert_eq!(batch.len(), 1);
    let claim = LeaseRequest {
        key: LeaseKey::Host(HostName::new("h1").unwrap()),
        instance: "i".to_owned(),
        address: "here".to_owned(),
        floor: 0,
        ttl_secs: None,
        now_unix_ms: 1,
        body: Vec::new(),
    };
    let other = LeaseRequest { key: LeaseKey::Host(HostName::new("h3").unwrap()), ..claim };
    assert!(Lease::acquire(&bus, other).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn external_agent_publishes_only_as_itself() {
    let (fixture, _control) = Fixture::with_streams().await;
    let bus = fixture.bus(&external()).await;
    let allowed = [
        "spawn.request.goal_1.-.PO-demo",
        "mail.GO.PO-demo",
        "ctl.W:1.PO-demo",
        "op.agent.register.PO-demo",
        "report.PO-demo",
        "cursor.PO-demo",
        "run.PO-demo.run_1",
    ];
    let refused = [
        "ledger.main",
        "$KV.STATE.agent.PO-demo",
        "plan.updated.goal_1",
        "$KV.LEASES.GO",
        "spawn.request.goal_1.-.PO-other",
        "mail.GO.PO-other",
        "mail.GO.PO-demo.h1",
        "report.GO",
        "report.PO-demo.h1",
        "op.agent.register.PO-other",
        "cursor.PO-other",
        "dead.MAIL",
        "hb.PO-other",
        "$JS.API.STREAM.INFO.LEDGER",
        "$JS.API.CONSUMER.CREATE.MAIL",
        "$JS.API.CONSUMER.CREATE.MAIL.mail-PO-demo.mail.>",
        "$JS.API.CONSUMER.LIST.MAIL",
        "$JS.API.STREAM.MSG.GET.MAIL",
        "$JS.fleet.API.STREAM.INFO.LEDGER",
        "$JS.fleet.API.STREAM.MSG.GET.MAIL",
        "$JS.fleet.API.DIRECT.GET.MAIL",
        "$JS.fleet.API.CONSUMER.CREATE.MAIL.mail-PO-demo.mail.PO-demo.>",
        "inbox.open.PO-other",
        "run.PO-other.run_1",
        "stream.PO-other.run_1",
        "$JS.fleet.API.DIRECT.GET.RUNS.run.PO-other.run_1",
        "$JS.fleet.API.DIRECT.GET.RUNS",
        "$O.ARTIFACTS.C.x",
    ];
    check(&bus, &allowed, &refused).await;
    let error = bus.next_by_subject_batch("MAIL", "mail.>", 0, 10).await.unwrap_err();
    assert!(matches!(error, ReadError::Refused { code: 403, .. }), "{error}");
    let error = bus.last_by_subject("CURSORS", "cursor.PO-other").await.unwrap_err();
    assert!(matches!(error, ReadError::Refused { code: 403, .. }), "{error}");
    let cursor = bus.last_by_subject("CURSORS", "cursor.PO-demo").await.unwrap();
    assert!(cursor.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn external_agent_hears_only_its_own_mail() {
    let (fixture, control) = Fixture::with_streams().await;
    let bus = fixture.bus(&external()).await;
    let mut foreign = bus.client().subscribe("mail.PO-other.>").await.unwrap();
    let mut all = bus.client().subscribe("mail.>").await.unwrap();
    let mut own = bus.client().subscribe("mail.PO-demo.>").await.unwrap();
    let mut shared = bus.client().subscribe("_INBOX.>").await.unwrap();
    let mut answers = bus.client().subscribe("_INBOX_human:ada.>").await.unwrap();
    publish(&bus, "report.PO-demo").await.unwrap();
    fixture.bus(&human()).await.stream_last_seq("KV_STATE").await.unwrap();
    publish(&control, "mail.PO-other.GO").await.unwrap();
    publish(&control, "mail.PO-demo.GO").await.unwrap();
    assert_eq!(own.next().await.unwrap().subject.as_str(), "mail.PO-demo.GO");
    assert!(foreign.next().now_or_never().is_none());
    assert!(all.next().now_or_never().is_none());
    assert!(shared.next().now_or_never().is_none());
    assert!(answers.next().now_or_never().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn external_agent_reads_its_inbox_through_its_consumer() {
    let (fixture, control) = Fixture::with_streams().await;
    let openings = tokio::spawn(Openings::listen(&control).await.unwrap().serve());
    let bus = fixture.bus(&external()).await;
    publish(&control, "mail.PO-other.GO").await.unwrap();
    publish(&control, "mail.PO-demo.GO").await.unwrap();
    let open = |name: &str, body: &'static str| bus.client().request(inbox_open(name), body.into());
    let answer = open("PO-demo", r#"{"lane": "mail"}"#).await.unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&answer.payload).unwrap();
    assert_eq!(answer, serde_json::json!({"consumer": "mail-PO-demo", "stream": "MAIL"}));
    let stream = bus.jetstream().get_stream_no_info("MAIL").await.unwrap();
    let made: PullConsumer = stream.get_consumer("mail-PO-demo").await.unwrap();
    let config = &made.cached_info().config;
    assert_eq!((config.max_waiting, config.max_expires), (4, Duration::from_secs(60)));
    let mut messages = made.fetch().max_messages(10).messages().await.unwrap();
    let message = messages.next().await.unwrap().unwrap();
    assert_eq!(message.subject.as_str(), "mail.PO-demo.GO");
    message.double_ack().await.unwrap();
    assert!(messages.next().await.is_none());
    for wrong in ["", "{}", r#"{"lane": "all"}"#, r#"{"lane": "ctl", "deliver": "run.x"}"#] {
        let answer = open("PO-demo", wrong).await.unwrap();
        assert!(answer.payload.starts_with(br#"{"error""#), "{wrong}: {answer:?}");
    }
    let before = denials(&bus, &inbox_open("PO-other")).await;
    assert!(before, "another's inbox");
    openings.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_asks_for_consumers_without_end_delays_nobody_elses() {
    let (fixture, control) = Fixture::with_streams().await;
    let openings = tokio::spawn(Openings::listen(&control).await.unwrap().serve());
    let loud = fixture.bus(&external()).await;
    let quiet = fixture.bus(&CredentialHolder::External("PO-quiet".parse().unwrap())).await;
    let ask = Bytes::from_static(br#"{"lane": "mail"}"#);
    for _ in 0..20_000 {
        let reply = "_INBOX_PO-demo.nobody";
        let asked = loud.client().publish_with_reply(inbox_open("PO-demo"), reply, ask.clone());
        asked.await.unwrap();
    }
    loud.client().flush().await.unwrap();
    let opened = quiet.client().request(inbox_open("PO-quiet"), ask);
    let opened = soon("a consumer for another", opened).await.unwrap();
    let opened: Value = serde_json::from_slice(&opened.payload).unwrap();
    assert_eq!(opened["consumer"], "mail-PO-quiet");
    openings.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn person_reads_missed_plan_events_through_their_consumer() {
    let (fixture, control) = Fixture::with_streams().await;
    let openings = tokio::spawn(Openings::listen(&control).await.unwrap().serve());
    let epics = [EpicId(Ulid(1)), EpicId(Ulid(2))];
    for epic in epics {
        publish(&control, &Subject::PlanCreated(epic).to_string()).await.unwrap();
    }
    let bus = fixture.bus(&human()).await;
    let open = async |who: &str, body: &str| -> Value {
        let answer = bus.client().request(inbox_open(who), body.to_owned().into()).await.unwrap();
        serde_json::from_slice(&answer.payload).unwrap()
    };
    let body = json!({"lane": "plan", "epic": epics[1].to_string()}).to_string();
    let answer = open("human:ada", &body).await;
    assert_eq!(answer, json!({"consumer": "plan-human:ada", "stream": "PLANS"}));
    let stream = bus.jetstream().get_stream_no_info("PLANS").await.unwrap();
    let made: PullConsumer = stream.get_consumer("plan-human:ada").await.unwrap();
    let mut messages = made.fetch().max_messages(10).messages().await.unwrap();
    let message = messages.next().await.unwrap().unwrap();
    assert_eq!(message.subject.as_str(), Subject::PlanCreated(epics[1]).to_string());
    message.double_ack().await.unwrap();
    assert!(messages.next().await.is_none(), "of one epic alone");
    for (wrong, why) in [
        (r#"{"lane": "mail"}"#, "tetrarch mail list"),
        (r#"{"lane": "plan", "epic": "goal_x"}"#, "is not a goal id"),
        (r#"{"lane": "plan", "version": 3}"#, "`version` with `epic`"),
    ] {
        let answer = open("human:ada", wrong).await;
        assert!(answer["error"].as_str().unwrap().contains(why), "{wrong}: {answer}");
    }
    assert!(denials(&bus, &inbox_open("human:eve")).await, "another's");
    openings.abort();
}

/// Whether the server refuses a publish of this subject.
async fn denials(bus: &Bus, subject: &str) -> bool {
    matches!(publish(bus, subject).await, Err(PublishError::Refused { code: 403, .. }))
}

#[tokio::test(flavor = "multi_thread")]
async fn reply_to_a_foreign_subject_is_not_stored() {
    let (fixture, control) = Fixture::with_streams().await;
    publish(&control, "mail.PO-demo.GO").await.unwrap();
    let openings = tokio::spawn(Openings::listen(&control).await.unwrap().serve());
    for party in [party_host(), external(), human()] {
        let bus = fixture.bus(&party).await;
        let grant = policy::grant(party.role());
        let name = party.user_name();
        let asks = grant.publish.iter().map(|subject| {
            subject.replace("{{name()}}", &name).replace('*', "x1").replace('>', "x2")
        });
        let elsewhere =
            ["ledger.main", "$KV.STATE.agent.GO", "$KV.LEASES.GO", "ctl.HO@h1.GO", "run.x.r9"];
        for (place, ask) in asks.enumerate() {
            let reply = elsewhere[place % elsewhere.len()];
            bus.client()
                .publish_with_reply(ask, reply, r#"{"seq":1,"batch":9,"next_by_subj":">"}"#.into())
                .await
                .unwrap();
        }
        // What the server answered to this came after all of those.
        bus.stream_last_seq("KV_STATE").await.unwrap();
        bus.client().flush().await.unwrap();
        bus.stream_last_seq("KV_STATE").await.unwrap();
        for (stream, subject) in [
            ("LEDGER", "ledger.main"),
            ("KV_STATE", "$KV.STATE.agent.GO"),
            ("KV_LEASES", "$KV.LEASES.GO"),
            ("MAIL", "ctl.HO@h1.GO"),
            ("RUNS", "run.x.r9"),
        ] {
            let found = control.last_by_subject(stream, subject).await.unwrap();
            assert!(found.is_none(), "{party:?}: {subject}: {found:?}");
        }
    }
    openings.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn state_is_readable_by_everyone_and_writable_by_control() {
    let (fixture, control) = Fixture::with_streams().await;
    for party in [party_host(), external(), human()] {
        let bus = fixture.bus(&party).await;
        let mut heard = bus.client().subscribe("$KV.STATE.>").await.unwrap();
        bus.stream_last_seq("KV_STATE").await.unwrap();
        publish(&control, "$KV.STATE.agent.PO-a").await.unwrap();
        assert_eq!(heard.next().await.unwrap().subject.as_str(), "$KV.STATE.agent.PO-a");
        let found = bus.last_by_subject("KV_STATE", "$KV.STATE.agent.PO-a").await.unwrap();
        assert!(found.is_some(), "{party:?}");
        assert!(denials(&bus, "$KV.STATE.agent.PO-a").await, "{party:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn human_asks_under_their_own_name_and_reads_public_subjects() {
    let (fixture, control) = Fixture::with_streams().await;
    publish(&control, "ledger.main").await.unwrap();
    publish(&control, "mail.PO-x.GO").await.unwrap();
    let bus = fixture.bus(&human()).await;
    let allowed = [
        "op.goal.create.human:ada",
        "mail.IO@ada.human:ada",
        "ctl.W:1.human:ada",
        "spawn.request.goal_1.-.human:ada",
    ];
    let refused = [
        "op.goal.create.human:bob",
        "op.goal.create.ada",
        "op.goal.create.GO",
        "ledger.main",
        "$KV.STATE.agent.x",
        "$KV.LEASES.GO",
        "cursor.PO-x",
        "run.PO-x.run_1",
        "report.PO-x",
    ];
    check(&bus, &allowed, &refused).await;
    assert!(bus.last_by_subject("LEDGER", "ledger.main").await.unwrap().is_some());
    assert!(!bus.next_by_subject_batch("MAIL", "mail.>", 0, 10).await.unwrap().is_empty());
}
