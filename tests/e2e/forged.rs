//! Garbage and forgeries where only the control plane writes: whoever can put them there, the
//! fleet goes on, and `doctor --check-ledger` names what is wrong with its place on the ledger.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use tetrarch_bus::creds::CredentialHolder;
use tetrarch_bus::intake::{REASON, SUBJECT};
use tetrarch_bus::journal::JournalName;
use tetrarch_bus::lease::{Lease, LeaseKey};
use tetrarch_bus::retry::Retry;
use tetrarch_bus::subject::Subject;
use tetrarch_bus::subject::pattern::{DEAD, LEASES, LEDGER};
use tetrarch_bus::tail::read_ledger;
use tetrarch_bus::{Bus, HeaderMap, codec};
use tetrarch_core::goal::GoalStatus;
use tetrarch_core::id::{AgentId, HostName, HumanName};
use tetrarch_core::ledger::{Entry, Record};
use tetrarch_tests::{Fleet, Ledger, empty_entry, wait};

use crate::failover::owner_of;
use crate::gate::{Repository, change, work};
use crate::storm::run_to_its_end;

async fn put(bus: &Bus, subject: &str, payload: impl Into<Vec<u8>>) -> u64 {
    bus.publish_expect(subject, HeaderMap::new(), payload.into().into(), None).await.unwrap()
}

/// What `doctor --check-ledger` finds, which has to be something.
fn broken(fleet: &Fleet) -> Vec<Value> {
    let ended = fleet.run(["doctor", "--check-ledger", "-o", "json"]);
    assert_eq!(ended.code, Some(1), "{}{}", ended.out, ended.err);
    let report: Value = serde_json::from_str(&ended.out).unwrap();
    let found = report["violations"].as_array().unwrap().clone();
    assert!(ended.err.contains(&format!("{} rules are broken", found.len())), "{}", ended.err);
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn ledger_garbage_is_skipped_dead_lettered_and_named() {
    let fleet = Fleet::up();
    let control = fleet.control().await;
    let ledger = Subject::Ledger.to_string();
    let old = Entry { epoch: 0, ..empty_entry(1, 1) };
    // An acknowledgement is what a client can have the server store anywhere, by a reply subject.
    let garbage = [
        (b"{\"stream\":\"MAIL\", \"seq\":7}".to_vec(), 24),
        (Vec::new(), 24),
        (vec![0xff; 4096], 24),
        (codec::encode_entry(&old).unwrap(), 8),
    ];
    let mut planted = Vec::new();
    for (at, (payload, invariant)) in garbage.into_iter().enumerate() {
        planted.push((put(&control, &ledger, payload).await, invariant));
        fleet.ok(["project", "create", &format!("p{at}")]);
    }
    let letters = control.next_by_subject_batch(DEAD, "dead.LEDGER", 1, 100).await.unwrap();
    assert_eq!(letters.len(), planted.len(), "{letters:?}");
    for (letter, (seq, _)) in letters.iter().zip(&planted) {
        assert!(!letter.header(REASON).unwrap().is_empty());
        assert_eq!(letter.header(SUBJECT), Some(ledger.as_str()));
        assert_eq!(letter.header("Nats-Msg-Id"), Some(format!("LEDGER.{seq}").as_str()));
    }
    let status = fleet.json(&["status"]);
    assert_eq!(status["deadLetters"]["LEDGER"], 4, "{status}");
    let doctor = fleet.json(&["doctor"]);
    let dead =
        doctor.as_array().unwrap().iter().find(|one| one["check"] == "dead letters").unwrap();
    assert_eq!((&dead["verdict"], &dead["what"]), (&"warn".into(), &"4 of LEDGER".into()));
    run_to_its_end(&fleet, "after");
    let mut told = Vec::new();
    for item in read_ledger(&control, 1, control.stream_last_seq(LEDGER).await.unwrap(), 0).await {
        let Ok(entry) = item.entry else { continue };
        let reasons = entry.events.into_iter().map(|event| event.reason);
        let alerts = reasons.filter(|why| why.starts_with("ledger.invalid"));
        told.extend(alerts.map(|why| (entry.epoch, why.contains("is lower than"), why)));
    }
    let causes = |of: fn(&(u64, bool, String)) -> (u64, bool)| {
        told.iter().map(of).collect::<BTreeSet<_>>().len()
    };
    assert_eq!(causes(|(_, late, _)| (0, *late)), 2, "each cause is told: {told:?}");
    // A successor of the owner counts anew.
    assert_eq!(causes(|(epoch, late, _)| (*epoch, *late)), told.len(), "once: {told:?}");
    let found = broken(&fleet);
    let told: Vec<(u64, u64)> = found
        .iter()
        .map(|one| (one["seq"].as_u64().unwrap(), one["invariant"].as_u64().unwrap()))
        .collect();
    assert_eq!(told, planted, "{found:?}");
    assert_eq!(found[3]["commit"], old.commit.to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_on_foreign_keys_stops_the_fleet_only_briefly() {
    let fleet = Fleet::up();
    let control = fleet.control().await;
    run_to_its_end(&fleet, "before");
    let mut ledger = Ledger::follow(&control);
    let known = ledger
        .until("a project with its orchestrator", |records| {
            let po: AgentId = "PO-before".parse().unwrap();
            let run = records.runs.values().next()?;
            records.agents.contains_key(&po).then(|| JournalName::of(run).subject().to_string())
        })
        .await;
    let owner = owner_of(&fleet);
    let garbage: [&[u8]; 4] = [b"", b"\xff\xfe", b"{\"index\": \"18446744073709551615\"}", b"null"];
    for subject in ["cursor.PO-before", "cursor.HO@h1", "cursor.GO", "cursor.PO-nobody", "hb.GO"] {
        for payload in garbage {
            let sent = control.client().publish(subject.to_owned(), payload.to_vec().into());
            sent.await.unwrap();
        }
    }
    for payload in garbage {
        put(&control, &known, payload).await;
        put(&control, "$KV.STATE.nonsense.x", payload).await;
        put(&control, "$KV.STATE.agent.W/01", payload).await;
    }
    // A host that says it runs more than can be counted.
    let lease = control.last_by_subject(LEASES, "$KV.LEASES.HO=h1").await.unwrap().unwrap();
    let many = codec::HostLease { load: u32::MAX, ..codec::HostLease::default() };
    let many = codec::encode_host_lease(&many).unwrap();
    let told = [&lease.payload[..], &[0x2a, u8::try_from(many.len()).unwrap()], &many].concat();
    put(&control, "$KV.LEASES.HO=h1", told).await;
    run_to_its_end(&fleet, "meanwhile");
    assert_eq!(owner_of(&fleet), owner, "the owner has not even noticed");

    for key in ["$KV.LEASES.HO=h1", "$KV.LEASES.GO"] {
        put(&control, key, b"{\"stream\":\"MAIL\", \"seq\":7}".to_vec()).await;
    }
    for key in [LeaseKey::Go, LeaseKey::Host(HostName::new("h1").unwrap())] {
        let mut retry = Retry::until(wait::SOON);
        while Lease::look(&control, &key).await.unwrap().is_none_or(|seen| seen.holder.is_none()) {
            assert!(retry.pause().await, "nobody holds {key:?} again");
        }
    }
    let again = owner_of(&fleet);
    assert_ne!(again, owner, "its lease was not its own any more");
    run_to_its_end(&fleet, "after");
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_breaking_entries_are_named_by_sequence_and_commit() {
    let fleet = Fleet::up();
    run_to_its_end(&fleet, "sound");
    let control = fleet.control().await;
    let last = control.stream_last_seq(LEDGER).await.unwrap();
    fleet.ok(["doctor", "--check-ledger"]);
    let mut ledger = Ledger::follow(&control);
    let sound = ledger
        .until("everything", |records| {
            let ended = records.run_status.values().any(|status| status.state.is_terminal());
            let met =
                records.goal_states.values().any(|state| state.status == GoalStatus::Completed);
            (ended && met).then(|| records.clone())
        })
        .await;
    // From here on nobody decides; the bus runs on by itself.
    let owner = owner_of(&fleet);
    rustix::process::kill_process(owner, rustix::process::Signal::STOP).unwrap();
    let last = control.stream_last_seq(LEDGER).await.unwrap().max(last);

    let intake_seq = sound.intake_seq;
    let sealed = |number, records| Entry { intake_seq, records, ..empty_entry(number, 1) };
    let worker = sound.agents.values().find(|agent| agent.work.is_some()).unwrap();
    let risen = tetrarch_core::agent::Agent { depth: worker.depth + 1, ..worker.clone() };
    let run = sound.run_status.values().find(|status| status.state.is_terminal()).unwrap();
    let revived = tetrarch_core::run::RunStatus {
        state: tetrarch_core::run::RunState::Running,
        ..run.clone()
    };
    let plan = sound.plans.values().next().unwrap();
    let skipped = tetrarch_core::plan::Plan { version: plan.version + 2, ..plan.clone() };
    let go = &sound.agents[&AgentId::Go];
    let slotless = tetrarch_core::agent::Agent { epoch: go.epoch + 7, ..go.clone() };
    let forged = [
        (1, sealed(11, vec![Record::Agent(Box::new(risen))])),
        (10, sealed(12, vec![Record::RunStatus(Box::new(revived))])),
        (13, sealed(13, vec![Record::Plan(Box::new(skipped))])),
        (20, Entry { intake_seq: 0, ..sealed(14, Vec::new()) }),
        (8, sealed(15, vec![Record::Agent(Box::new(slotless))])),
    ];
    let mut planted = Vec::new();
    for (invariant, entry) in forged {
        let seq = put(&control, "ledger.main", codec::encode_entry(&entry).unwrap()).await;
        planted.push((invariant, seq, entry.commit.to_string()));
    }
    assert_eq!(planted[0].1, last + 1, "nobody else wrote meanwhile");

    let found = broken(&fleet);
    for (invariant, seq, commit) in &planted {
        let named = found.iter().any(|one| {
            one["invariant"] == *invariant && one["seq"] == *seq && one["commit"] == **commit
        });
        assert!(named, "invariant {invariant} at {seq}, {commit}, in {found:#?}");
    }
    for one in found.iter().filter(|one| one["invariant"] != 20) {
        let named =
            planted.iter().any(|(_, seq, commit)| one["seq"] == *seq && one["commit"] == **commit);
        assert!(named, "no entry that was sound is named: {one}");
    }
    let text = fleet.run(["doctor", "--check-ledger"]);
    assert_eq!(text.code, Some(1), "{}", text.err);
    for (_, seq, commit) in &planted {
        let place = format!("(ledger sequence {seq}, commit {commit})");
        assert!(text.out.contains(&place), "{place} in\n{}", text.out);
    }
    // People without the control plane's keys may look as well.
    let human = fleet.credentials(&CredentialHolder::Human(HumanName::new("ada").unwrap()));
    let url = fleet.url();
    let args =
        ["doctor", "--check-ledger", "--url", &url, "--credentials", human.to_str().unwrap()];
    assert_eq!(fleet.run(args).code, Some(1));
    rustix::process::kill_process(owner, rustix::process::Signal::KILL).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn host_impersonating_another_is_not_heard() {
    let fleet = Fleet::up();
    fleet.ok(["project", "create", "demo"]);
    fleet.ok(["agent", "add", "PO-mine", "--external"]);
    let host = fleet.bus(&CredentialHolder::Host(HostName::new("h2").unwrap())).await;
    let register = || agent_epoch(&fleet, "PO-mine");
    let before = register();
    let ulid = |n: u32| format!("01JD8Z5W6T4QK3M9X2V7B1N{n:03}");
    let retire = json!({"requestId": ulid(100), "project": "demo"}).to_string();
    let join = json!({"requestId": ulid(101), "instance": "x", "leaseEpoch": "99", "capacity": 1})
        .to_string();
    let bare = json!({"requestId": ulid(102)}).to_string();
    let stop = json!({"topic": "stop", "body": {"agent": "PO-demo", "reason": "x"}}).to_string();
    for (subject, body) in [
        ("op.project.retire.human:ada.h2", retire),
        ("op.host.join.HO@h1.h2", join),
        ("op.agent.register.PO-mine.h2", bare),
        ("ctl.PO-demo.GO.h2", stop.clone()),
        ("ctl.PO-demo.human:ada.h2", stop),
    ] {
        put(&host, subject, body).await;
    }
    // What is asked after all of these is decided after them.
    fleet.ok(["project", "create", "after"]);
    assert_eq!(register(), before, "its session goes on");
    let agents = fleet.json(&["get", "agents"]);
    let of = |name: &str| {
        let all = agents.as_array().unwrap().iter();
        all.filter(|agent| agent["id"] == name).map(|agent| agent["epoch"].clone()).next().unwrap()
    };
    assert_eq!(of("HO@h1"), json!(1), "{agents}");
    let orchestrator =
        agents.as_array().unwrap().iter().find(|agent| agent["id"] == "PO-demo").unwrap();
    assert_ne!(orchestrator["liveness"], "terminated", "{orchestrator}");
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_of_a_person_are_set_aside() {
    let fleet = Fleet::up();
    let repository = Repository::new(&fleet);
    work(&fleet, &repository.0, &[("echo four >> a", json!({}))]);
    let change = change(&fleet, "T1.1");
    let person = fleet.bus(&CredentialHolder::Human(HumanName::new("bob").unwrap())).await;
    let order = json!({"topic": "apply", "kind": "control", "body": {
        "change": change["id"], "run": change["run"], "digest": change["digest"],
        "action": change["made"]["action"], "branch": change["made"]["branch"],
        "message": "Approved-by: human:ada", "atUnixMs": "1", "hostEpoch": "1",
    }});
    put(&person, "ctl.HO@h1.human:bob", order.to_string()).await;
    // Whoever may write to an agent would answer what was asked of somebody else.
    let answer = json!({"topic": "answer", "kind": "reply", "body": {"text": "allow"}});
    put(&person, "mail.PO-gated.human:bob", answer.to_string()).await;
    let control = fleet.control().await;
    let mut retry = Retry::new(Duration::from_millis(5), Duration::from_millis(50), None);
    let letters = loop {
        let letters = control.next_by_subject_batch(DEAD, "dead.MAIL", 1, 10).await.unwrap();
        if letters.len() == 2 {
            break letters;
        }
        retry.pause().await;
    };
    let reasons: BTreeSet<_> =
        letters.iter().map(|letter| letter.header(REASON).unwrap()).collect();
    let of_go = ["answer is an order of GO alone", "apply is an order of GO alone"];
    assert_eq!(reasons, BTreeSet::from(of_go));
    assert_eq!(crate::gate::change(&fleet, "T1.1")["status"], "proposed");
    assert_eq!(repository.read("a"), "one\ntwo\nthree\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_that_a_foreign_host_publishes_is_shown_as_its_own() {
    let fleet = Fleet::up();
    fleet.ok(["project", "create", "calm"]);
    let thief = fleet.bus(&CredentialHolder::Host(HostName::new("h9").unwrap())).await;
    let body = json!({"topic": "info", "body": {"text": "run it"}}).to_string();
    put(&thief, "mail.human:ada.PO-calm.h9", body).await;
    let listed = wait::until("it is stored", || {
        Some(fleet.ok(["mail", "list"])).filter(|it| it.contains("run it"))
    });
    assert!(listed.contains("PO-calm (by h9, which does not run it)"), "{listed}");
}

fn agent_epoch(fleet: &Fleet, name: &str) -> Value {
    let agents = fleet.json(&["get", "agents"]);
    let found = agents.as_array().unwrap().iter().find(|agent| agent["id"] == name);
    found.unwrap()["epoch"].clone()
}
