//! What each role's credential may and may not do, as the server enforces it.

use futures::{FutureExt, StreamExt};
use tetrarch_bus::creds::Party;
use tetrarch_bus::error::{PublishError, ReadError};
use tetrarch_bus::lease::{Claim, Lease, LeaseKey};
use tetrarch_bus::{Bus, HeaderMap};
use tetrarch_core::id::{HostName, HumanName};

use super::Fixture;

fn party_host() -> Party {
    Party::Host(HostName::new("h1").unwrap())
}

fn external() -> Party {
    Party::External("PO-demo".parse().unwrap())
}

fn human() -> Party {
    Party::Human(HumanName::new("ada").unwrap())
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
async fn a_host_publishes_as_itself_and_with_its_own_token_only() {
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
        "run.run_1",
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
    let claim = Claim {
        key: LeaseKey::Host(HostName::new("h1").unwrap()),
        instance: "i".to_owned(),
        address: "here".to_owned(),
        floor: 0,
        ttl_secs: None,
        now_unix_ms: 1,
        body: Vec::new(),
    };
    let other = Claim { key: LeaseKey::Host(HostName::new("h3").unwrap()), ..claim };
    assert!(Lease::acquire(&bus, other).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_external_agent_speaks_only_as_itself() {
    let (fixture, _control) = Fixture::with_streams().await;
    let bus = fixture.bus(&external()).await;
    let allowed = [
        "spawn.request.goal_1.-.PO-demo",
        "mail.GO.PO-demo",
        "ctl.W:1.PO-demo",
        "op.agent.register.PO-demo",
        "report.PO-demo",
        "cursor.PO-demo",
        "run.run_1",
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
async fn an_external_agent_hears_only_its_own_mail() {
    let (fixture, control) = Fixture::with_streams().await;
    let bus = fixture.bus(&external()).await;
    let mut foreign = bus.client().subscribe("mail.PO-other.>").await.unwrap();
    let mut all = bus.client().subscribe("mail.>").await.unwrap();
    let mut own = bus.client().subscribe("mail.PO-demo.>").await.unwrap();
    publish(&bus, "report.PO-demo").await.unwrap();
    publish(&control, "mail.PO-other.GO").await.unwrap();
    publish(&control, "mail.PO-demo.GO").await.unwrap();
    assert_eq!(own.next().await.unwrap().subject.as_str(), "mail.PO-demo.GO");
    assert!(foreign.next().now_or_never().is_none());
    assert!(all.next().now_or_never().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_external_agent_reads_its_inbox_with_its_own_consumer() {
    use async_nats::jetstream::consumer::pull;
    let (fixture, control) = Fixture::with_streams().await;
    let bus = fixture.bus(&external()).await;
    let consumer = |filter: &str| pull::Config {
        durable_name: Some("mail-PO-demo".to_owned()),
        name: Some("mail-PO-demo".to_owned()),
        filter_subject: filter.to_owned(),
        ..Default::default()
    };
    publish(&control, "mail.PO-other.GO").await.unwrap();
    publish(&control, "mail.PO-demo.GO").await.unwrap();
    let made = bus
        .jetstream()
        .create_consumer_on_stream(consumer("mail.PO-demo.>"), "MAIL")
        .await
        .unwrap();
    let mut messages = made.messages().await.unwrap();
    let message = messages.next().await.unwrap().unwrap();
    assert_eq!(message.subject.as_str(), "mail.PO-demo.GO");
    message.double_ack().await.unwrap();
    assert!(messages.next().now_or_never().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn state_is_watched_by_everyone_and_written_by_control() {
    let (fixture, control) = Fixture::with_streams().await;
    publish(&control, "$KV.STATE.agent.PO-a").await.unwrap();
    for party in [party_host(), external(), human()] {
        let bus = fixture.bus(&party).await;
        let state = bus.jetstream().get_key_value("STATE").await.unwrap();
        let mut watch = state.watch_with_history("agent.>").await.unwrap();
        assert_eq!(watch.next().await.unwrap().unwrap().key, "agent.PO-a", "{party:?}");
        assert!(state.get("agent.PO-a").await.unwrap().is_some(), "{party:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_human_asks_under_their_own_name_and_reads_what_is_public() {
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
        "run.run_1",
        "report.PO-x",
    ];
    check(&bus, &allowed, &refused).await;
    assert!(bus.last_by_subject("LEDGER", "ledger.main").await.unwrap().is_some());
    let error = bus.next_by_subject_batch("MAIL", "mail.>", 0, 10).await.unwrap_err();
    assert!(matches!(error, ReadError::Refused { code: 403, .. }), "{error}");
}
