//! What an owner does about garbage where only owners write: STATE is mended from the ledger, what is
//! no commit is skipped and told once, artifacts that nothing names go (spec 02; 06, Artifacts).
#![expect(clippy::unwrap_used, reason = "a test fails by panicking where it went wrong")]

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use tetrarch_bus::archive;
use tetrarch_bus::artifact::Artifacts;
use tetrarch_bus::codec::encode_entry;
use tetrarch_bus::intake::{REASON, dead_letters};
use tetrarch_bus::state::{load, load_meta};
use tetrarch_bus::subject::Origin;
use tetrarch_bus::subject::pattern::{ARTIFACTS, DEAD, LEDGER, MAIL, STATE, object_chunk};
use tetrarch_bus::tail::read_ledger;
use tetrarch_bus::{Bus, HeaderMap};
use tetrarch_core::agent::Project;
use tetrarch_core::id::ProjectName;
use tetrarch_core::ledger::{Entry, EventKind, Record};
use tetrarch_core::limits::LEASE_EPOCH_MAX;
use tetrarch_core::records::Records;
use tetrarch_core::time::{BusTime, Millis};
use tetrarch_tests::life::Life;
use tetrarch_tests::wait::soon;
use tetrarch_tests::{Owner, Server, agreeing, empty_entry, settled};

const LONG_SECS: u32 = 600;
const UNAVAILABLE: &str = "unavailable";
const META: &str = "$KV.STATE.meta";
const GO: &str = "$KV.STATE.agent.GO";

async fn owner(server: &Server, instance: &str) -> Owner {
    let mut owner = Owner::start(server, Owner::config(instance, LONG_SECS)).await;
    owner.until_ready().await;
    owner
}

async fn put(bus: &Bus, subject: &str, payload: impl Into<Vec<u8>>) -> u64 {
    let headers = HeaderMap::new();
    bus.publish_expect(subject, headers, payload.into().into(), None).await.unwrap()
}

/// Says of itself that it comes from a late entry, so that what is older would not replace it.
async fn put_as_if_late(bus: &Bus, subject: &str, payload: &str) {
    let mut headers = HeaderMap::new();
    headers.insert("Tetrarch-Seq", "9999999.0");
    let payload = payload.to_owned().into_bytes();
    bus.publish_expect(subject, headers, payload.into(), None).await.unwrap();
}

/// Alerts of a kind since an entry, each with its words.
async fn alerts(bus: &Bus, since: u64, kind: &str) -> Vec<String> {
    let last = bus.stream_last_seq(LEDGER).await.unwrap();
    let items = read_ledger(bus, since + 1, last, 0).await;
    let entries = items.into_iter().filter_map(|item| item.entry.ok());
    let events = entries.flat_map(|entry| entry.events);
    let alerts = events.filter(|event| event.kind == EventKind::Alert);
    alerts.map(|event| event.reason).filter(|reason| reason.starts_with(kind)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_in_state_is_repaired_from_the_ledger_and_reported() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    for life in ["one", "two"] {
        let owner = owner(&server, life).await;
        agreeing(&bus).await;
        owner.stop().await;
    }
    let before = agreeing(&bus).await;
    let garbage: [&[&str]; 5] =
        [&[GO], &[META], &[META, GO], &["$KV.STATE.nonsense.x"], &[GO, META]];
    for (round, broken) in garbage.iter().enumerate() {
        let since = bus.stream_last_seq(LEDGER).await.unwrap();
        for subject in *broken {
            match round {
                4 => put_as_if_late(&bus, subject, "{}").await,
                _ => drop(put(&bus, subject, b"\xff\x00garbage".to_vec()).await),
            }
        }
        let owner = owner(&server, &format!("mending-{round}")).await;
        let after = agreeing(&bus).await;
        assert!(after.epoch > before.epoch, "{} after {}", after.epoch, before.epoch);
        let account = |records: &Records| records.agents.values().map(|agent| agent.created).max();
        assert_eq!(account(&after), account(&before), "GO is who it was");
        settled(&bus).await;
        let meta = load_meta(&bus).await.unwrap().unwrap();
        assert_eq!(meta.owner_epoch, after.epoch);
        let told = alerts(&bus, since, "state.mended").await;
        assert_eq!(told.len(), 1, "{broken:?}: {told:?}");
        assert!(told[0].contains(broken[0]) || broken.len() > 1, "{told:?}");
        owner.stop().await;
    }
    let since = bus.stream_last_seq(LEDGER).await.unwrap();
    let owner = owner(&server, "sound").await;
    agreeing(&bus).await;
    assert_eq!(alerts(&bus, since, "state.mended").await, [""; 0]);
    owner.stop().await;
}

/// Asks for a project, and waits for what the owner answers.
async fn create(bus: &Bus, project: &str, number: u32) -> Option<String> {
    let asked = json!({
        "requestId": format!("01JD8Z5W6T4QK3M9X2V7B1P{number:03}"),
        "project": project,
        "external": true,
    });
    let since = bus.stream_last_seq(MAIL).await.unwrap();
    put(bus, "op.project.create.human:ada", asked.to_string()).await;
    let answered = async {
        loop {
            let mail = bus.next_by_subject_batch(MAIL, "mail.human:ada.>", since + 1, 10).await;
            for letter in mail.unwrap() {
                let body: Value = serde_json::from_slice(&letter.payload).unwrap();
                if body["correlation"] == asked["requestId"] {
                    return body["body"]["error"].as_str().map(ToOwned::to_owned);
                }
            }
        }
    };
    soon("an answer", answered).await
}

#[tokio::test(flavor = "multi_thread")]
async fn newer_records_are_left_unchanged_and_the_rest_goes_on() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let first = owner(&server, "first").await;
    assert_eq!(create(&bus, "mine", 1).await, None);
    agreeing(&bus).await;
    first.stop().await;
    let newer = r#"{"name":"theirs","mood":"new","schemaVersion":2,"minReaderVersion":2}"#;
    let planted = ["$KV.STATE.project.theirs", "$KV.STATE.dream.x"];
    for subject in planted {
        put_as_if_late(&bus, subject, newer).await;
    }
    for life in ["second", "third"] {
        let since = bus.stream_last_seq(LEDGER).await.unwrap();
        let owner = owner(&server, life).await;
        let number = if life == "second" { 10 } else { 20 };
        assert_eq!(create(&bus, "theirs", number).await, Some(UNAVAILABLE.to_owned()));
        assert_eq!(create(&bus, life, number + 1).await, None);
        let told = alerts(&bus, since, "records.held").await;
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("2 records") && told[0].contains("project.theirs"), "{told:?}");
        let mended = alerts(&bus, since, "state.mended").await.len();
        assert_eq!(mended, usize::from(life == "third"), "it gives no occasion itself");
        owner.stop().await;
        // Something else there is garbage: all of STATE is compared with the ledger.
        put(&bus, GO, b"garbage".to_vec()).await;
    }
    for subject in planted {
        let kept = bus.last_per_subject(STATE, &[subject]).await.unwrap();
        assert_eq!(kept[0].payload, newer.as_bytes(), "{subject}");
    }
}

/// The tag of a record's `project`, a message.
const PROJECT_FIELD: u8 = 12 << 3 | 2;

/// One more element of an entry's `records`, in protobuf: which version reads it, its key, the rest.
fn raw_record(needs: u8, key: &str, rest: &[u8]) -> Vec<u8> {
    let text = [&[3 << 3 | 2, u8::try_from(key.len()).unwrap()], key.as_bytes()].concat();
    let record = [&[1 << 3, needs, 2 << 3, needs], text.as_slice(), rest].concat();
    [&[6 << 3 | 2, u8::try_from(record.len()).unwrap()], record.as_slice()].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn commit_of_a_newer_owner_is_read_without_its_undecodable_parts() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let first = owner(&server, "first").await;
    assert_eq!(create(&bus, "mine", 1).await, None);
    let records = agreeing(&bus).await;
    first.stop().await;
    let mine = records.projects.values().next().unwrap().clone();
    let sound = Project { name: ProjectName::new("sound").unwrap(), ..mine };
    let entry = Entry { records: vec![Record::Project(sound)], ..empty_entry(9, records.epoch) };
    let mut payload = encode_entry(&entry).unwrap();
    payload.extend(raw_record(9, "project.newer", b""));
    payload.extend(raw_record(1, "project.broken", &[PROJECT_FIELD, 0]));
    put(&bus, "ledger.main", payload).await;
    for life in ["second", "third"] {
        let owner = owner(&server, life).await;
        let number = if life == "second" { 10 } else { 20 };
        for (project, refused) in [("newer", 1), ("broken", 2)] {
            let got = create(&bus, project, number + refused).await;
            assert_eq!(got, Some(UNAVAILABLE.to_owned()), "{project} in the {life} life");
        }
        owner.stop().await;
        let state = load(&bus).await.records;
        let shown = |name: &str| {
            let of = |it: &Record| matches!(it, Record::Project(it) if it.name.as_str() == name);
            state.iter().any(|(record, _)| of(record))
        };
        assert!(shown("sound") && !shown("newer") && !shown("broken"), "{state:?}");
    }
    let set_aside = dead_letters(&bus).await.unwrap();
    assert_eq!(set_aside.get(&Origin::Ledger), Some(&1), "what is broken, once: {set_aside:?}");
    let marker = bus.last_per_subject(STATE, &["$KV.STATE.project.newer"]).await.unwrap();
    let marker: Value = serde_json::from_slice(&marker[0].payload).unwrap();
    assert_eq!((&marker["minReaderVersion"], &marker["name"]), (&9.into(), &Value::Null));
}

#[tokio::test(flavor = "multi_thread")]
async fn trimmed_ledger_repairs_state_from_its_snapshot() {
    let server = tetrarch_tests::server().await;
    let life = Life { entries: 1_200, look_every: 1_200, snapshot_every: 500, kept: Millis(500) };
    life.live(&server, |_| {}).await;
    let bus = server.control().await;
    assert!(bus.stream_extent(LEDGER).await.unwrap().first > 1, "it is trimmed");
    let loaded = load(&bus).await;
    let keys: BTreeSet<&String> =
        loaded.revisions.keys().filter(|key| key.as_str() != META).collect();
    assert!(keys.len() >= 4, "{keys:?}");
    for key in keys.into_iter().chain([&"$KV.STATE.snapshot.main".to_owned(), &META.to_owned()]) {
        put(&bus, key, b"garbage".to_vec()).await;
    }
    let owner = owner(&server, "mending").await;
    agreeing(&bus).await;
    owner.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_commits_are_counted_and_reported_once_per_cause() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let first = owner(&server, "first").await;
    agreeing(&bus).await;
    first.stop().await;
    let owner = owner(&server, "second").await;
    agreeing(&bus).await;
    let since = bus.stream_last_seq(LEDGER).await.unwrap();
    let forged =
        |number, epoch| encode_entry(&Entry { epoch, ..empty_entry(number, epoch) }).unwrap();
    for round in 0..4_u128 {
        for payload in [
            b"\xff\xff".to_vec(),
            forged(100 + round, 1),
            forged(200 + round, u64::MAX),
            forged(300 + round, LEASE_EPOCH_MAX + 1),
        ] {
            put(&bus, "ledger.main", payload).await;
        }
        // The owner meets them with its next commit.
        let body = format!(
            "{{\"requestId\":\"01JD8Z5W6T4QK3M9X2V7B1N{round:03}\",\"project\":\"p{round}\",\
             \"external\":true}}"
        );
        let asked = put(&bus, "op.project.create.human:ada", body.into_bytes()).await;
        let decided = async {
            while load_meta(&bus).await.unwrap().is_none_or(|meta| meta.intake_seq < asked) {}
        };
        soon("a decision", decided).await;
    }
    let records = agreeing(&bus).await;
    assert_eq!(records.projects.len(), 4);
    assert_eq!(records.epoch, 2, "no forged epoch counts");
    let told = alerts(&bus, since, "ledger.invalid").await;
    assert_eq!(told.len(), 3, "one of each cause: {told:?}");
    assert_eq!(dead_letters(&bus).await.unwrap().get(&Origin::Ledger), Some(&16));
    let letters = bus.next_by_subject_batch(DEAD, "dead.LEDGER", 1, 100).await.unwrap();
    let reasons: BTreeSet<&str> = letters
        .iter()
        .map(|letter| letter.header(REASON).unwrap().split(' ').next().unwrap())
        .collect();
    assert!(reasons.len() >= 2 && letters.len() == 16, "{reasons:?}");
    owner.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn owner_takes_over_from_a_possible_forged_epoch() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let first = owner(&server, "first").await;
    agreeing(&bus).await;
    first.stop().await;
    put(&bus, "ledger.main", encode_entry(&empty_entry(7, 1_000)).unwrap()).await;
    put(&bus, "ledger.main", b"garbage after it".to_vec()).await;
    let second = owner(&server, "second").await;
    let took_over = async { while replayed_epoch(&bus).await < 1_001 {} };
    soon("an owner above the forged epoch", took_over).await;
    second.stop().await;
}

/// The epoch of the last valid entry.
async fn replayed_epoch(bus: &Bus) -> u64 {
    let last = bus.stream_last_seq(LEDGER).await.unwrap();
    let items = read_ledger(bus, 1, last, 0).await;
    items.iter().filter_map(|item| item.entry.as_ref().ok()).map(|entry| entry.epoch).max().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn unreferenced_artifacts_are_swept_and_named_or_restored_ones_stay() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let artifacts = Artifacts::new(&bus);
    let text = |text: &str| text.repeat(40_000).into_bytes();
    let mut stored = Vec::new();
    for name in ["in a record", "in a journal", "in mail", "in a kept journal", "nowhere"] {
        stored.push(artifacts.put_bytes(&text(name), "text/plain").await.unwrap().sha256);
    }
    // An upload that was cut off.
    put(&bus, &object_chunk("CutOff"), text("a part")).await;
    let named = |sha256: &str| format!("{{\"artifacts\":[{{\"sha256\":\"{sha256}\"}}]}}");
    put(&bus, "run.PO-x.run_01JD8Z5W6T4QK3M9X2V7B1N000", named(&stored[1])).await;
    put(&bus, "mail.human:ada.GO", named(&stored[2])).await;
    // The journal of a run that is forgotten: nothing names it.
    let lines = format!("{{\"run\":\"run_01JD8Z5W6T4QK3M9X2V7B1N001\"}}\n{}\n", named(&stored[3]));
    let journal = artifacts.put_bytes(lines.as_bytes(), archive::MEDIA_TYPE).await.unwrap().sha256;
    let mut config = Owner::config("sweeping", LONG_SECS);
    // Long enough for an owner to start, so that what is swept was seen to be old first.
    config.retention.unnamed = Millis(1_500);
    let mut owner = Owner::start(&server, config).await;
    owner.until_ready().await;
    put(&bus, "$KV.STATE.project.names", named(&stored[0])).await;

    let gone = async {
        while artifacts.stat(&stored[4]).await.unwrap().is_some()
            || !bus.stream_subjects(ARTIFACTS, &object_chunk("CutOff")).await.unwrap().is_empty()
        {
        }
    };
    soon("the end of what nothing names", gone).await;
    for kept in stored[..4].iter().chain([&journal]) {
        let bytes = artifacts.get_bytes(kept).await.unwrap();
        assert!(!bytes.is_empty());
    }
    // Stored anew it is whole again.
    let again = artifacts.put_bytes(&text("nowhere"), "text/plain").await.unwrap();
    assert_eq!(again.sha256, stored[4]);
    assert_eq!(artifacts.get_bytes(&again.sha256).await.unwrap(), text("nowhere"));
    owner.stop().await;
    let left = bus.stream_subjects(STATE, "$KV.STATE.project.*").await.unwrap();
    assert!(!left.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn artifact_stored_again_since_the_scan_is_not_swept() {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let artifacts = Artifacts::new(&bus);
    let name = artifacts.put_bytes(b"twice", "text/plain").await.unwrap().sha256;
    let seen = artifacts.stored().await.remove(0);
    assert_eq!(seen.sha256, name);
    // As a put does when it finds it and it is not young any more.
    let subject = tetrarch_bus::subject::pattern::object_meta(&name);
    let found = bus.last_by_subject(ARTIFACTS, &subject).await.unwrap().unwrap();
    put(&bus, &subject, found.payload.to_vec()).await;
    assert!(!artifacts.sweep(&seen).await.unwrap());
    assert_eq!(artifacts.get_bytes(&name).await.unwrap(), b"twice");
    let seen = artifacts.stored().await.remove(0);
    assert!(seen.since >= BusTime(found.time_unix_ms));
    assert!(artifacts.sweep(&seen).await.unwrap());
    assert_eq!(bus.stream_messages(ARTIFACTS).await.unwrap(), 0);
    tokio::time::timeout(Duration::from_secs(5), artifacts.stored()).await.unwrap();
}
