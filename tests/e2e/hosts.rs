//! Several hosts on one machine: one plan's work is shared, a name belongs to one process
//! (spec 02, Client rules; spec 03, Placement).

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use serde_json::json;
use tetrarch_bus::creds::CredentialHolder;
use tetrarch_core::id::HostName;
use tetrarch_core::liveness::Liveness;
use tetrarch_core::records::Records;
use tetrarch_core::role::Role;
use tetrarch_tests::{Fleet, Ledger, wait};

use crate::acting;
use crate::external::External;

/// Tasks that need each other: none ends before all three run.
const TOGETHER: usize = 3;
/// Letters that say an epoch their writer does not have.
const LIES: usize = 8;
/// How long STATE may lag behind who writes.
const STATE_LAG: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread")]
async fn two_hosts_share_the_work_of_one_plan() {
    let fleet = Fleet::up();
    // The second has a data directory of its own, as one on another machine would.
    let far = fleet.cwd().join("far");
    let credential = fleet.credentials(&CredentialHolder::Host(HostName::new("h2").unwrap()));
    let mut second = fleet.command(["host", "--name", "h2", "--url", &fleet.url()]);
    second.arg("--data-dir").arg(&far).arg("--credentials").arg(credential);
    let mut second = tetrarch_tests::Program::start(&mut second);
    second.line(|line| line.trim() == "ready");

    let meeting = fleet.cwd().join("meeting");
    std::fs::create_dir(&meeting).unwrap();
    let count = TOGETHER.to_string();
    let tasks: Vec<_> = (1..=TOGETHER)
        .map(|n| json!({"id": format!("T1.{n}"), "name": "meet", "acceptance": ["all came"]}))
        .collect();
    let plan = json!({
        "project": "shared",
        "goal": {"title": "Work on two hosts"},
        "phases": [{"id": "P1", "name": "Meet", "tasks": tasks}],
        "profiles": {"default": {
            "argv": acting(&["meet", meeting.to_str().unwrap(), &count]), "wall": "60s",
        }},
    });
    let plan = fleet.file("shared.json", &plan.to_string());
    fleet.ok(["run", plan.to_str().unwrap()]);

    let control = fleet.control().await;
    let mut ledger = Ledger::follow(&control);
    let places: BTreeSet<String> = ledger
        .until("all workers are known", |records| {
            let workers = records.agents.values().filter(|a| Role::of(&a.id) == Role::Worker);
            let places: Vec<_> =
                workers.filter_map(|a| Some(a.placement.as_ref()?.host.to_string())).collect();
            (places.len() >= TOGETHER).then(|| places.into_iter().collect())
        })
        .await;
    assert_eq!(places, ["h1", "h2"].map(str::to_owned).into());
    let hosts = fleet.json(&["get", "hosts"]);
    assert_eq!(hosts.as_array().unwrap().len(), 2, "{hosts}");

    // A process with the name of one that lives is refused, and told who lives.
    let credential = fleet.credentials(&CredentialHolder::Host(HostName::new("h2").unwrap()));
    let mut rival = fleet.command(["host", "--name", "h2", "--url", &fleet.url()]);
    rival.arg("--data-dir").arg(fleet.cwd().join("rival")).arg("--credentials").arg(credential);
    let mut rival = tetrarch_tests::Program::start(&mut rival);
    rival.close_input();
    let refused = rival.ended();
    assert_eq!(refused.code, Some(5), "{}", refused.err);
    let holder = format!("pid {}", second.pid());
    assert!(refused.err.contains("HO@h2") && refused.err.contains(&holder), "{}", refused.err);

    // One with the same data directory as well.
    let mut twin = fleet.command(["host", "--name", "h2", "--url", &fleet.url()]);
    let mut twin = tetrarch_tests::Program::start(twin.arg("--data-dir").arg(&far));
    twin.close_input();
    let refused = twin.ended();
    assert_eq!(refused.code, Some(5), "{}", refused.err);
    assert!(refused.err.contains("HO@h2"), "{}", refused.err);

    second.signal(rustix::process::Signal::INT);
    let ended = second.ended();
    assert_eq!(ended.code, Some(0), "{}", ended.err);

    // One that is gone is forgotten, one that lives is not.
    wait::until("h2 is forgotten", || {
        let said = fleet.run(["host", "forget", "h2", "--yes"]);
        (said.code == Some(0)).then_some(())
    });
    let lives = fleet.run(["host", "forget", "h1", "--yes"]);
    assert_eq!(lives.code, Some(5), "{}{}", lives.out, lives.err);
    assert!(lives.err.contains("h1 is active"), "{}", lives.err);
    let hosts = fleet.json(&["get", "hosts"]);
    assert_eq!(hosts.as_array().unwrap().len(), 1, "{hosts}");
}

#[tokio::test(flavor = "multi_thread")]
async fn drained_host_hands_over_its_agents_until_it_is_undrained() {
    let fleet = Fleet::prepared().with_env("TETRARCH_RUNS_DRAIN", "1s").started();
    let gate = fleet.cwd().join("gate");
    let task = json!({
        "id": "T1.1", "name": "wait", "profile": "waits", "acceptance": ["x"],
    });
    let plan = json!({
        "project": "moved",
        "goal": {"title": "Move"},
        "phases": [{"id": "P1", "name": "Move", "tasks": [task]}],
        "profiles": {"waits": {"argv": acting(&["gate", gate.to_str().unwrap()]), "wall": "60s"}},
    });
    let plan = fleet.file("moved.json", &plan.to_string());
    fleet.ok(["run", plan.to_str().unwrap(), "--detach"]);
    let mut ledger = Ledger::follow(&fleet.control().await);
    let on = |host: &'static str| {
        move |records: &Records| {
            let at_work = records.agents.values().filter(|it| Role::of(&it.id) == Role::Worker);
            let mut at_work = at_work.filter(|it| it.liveness == Liveness::Active);
            let worker = at_work.find(|it| {
                it.placement.as_ref().is_some_and(|placement| placement.host.as_str() == host)
            })?;
            Some(worker.id.clone())
        }
    };
    let worker = ledger.until("a worker on the first host", on("h1")).await;
    let mut second = fleet.spawn(["host", "--name", "h2"]);
    second.line(|line| line.trim() == "ready");

    let asked = fleet.run(["host", "drain", "h1"]);
    assert_eq!(asked.code, Some(2), "{}", asked.err);
    assert!(asked.err.contains("`tetrarch host drain h1 --yes`"), "{}", asked.err);
    fleet.ok(["host", "drain", "h1", "--yes"]);
    assert_eq!(ledger.until("the worker on the second host", on("h2")).await, worker);
    let hosts = fleet.ok(["get", "hosts"]);
    assert!(hosts.contains("drained"), "{hosts}");
    fleet.ok(["host", "drain", "h1", "--undo"]);
    let hosts = fleet.ok(["get", "hosts"]);
    assert!(!hosts.contains("drained"), "{hosts}");
    std::fs::File::create(&gate).unwrap();
    fleet.ok(["wait", "@last", "--for", "completed", "--timeout", "60s"]);
    fleet.ok(["doctor", "--check-ledger"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_with_an_impossible_epoch_delays_no_host() {
    let fleet = Fleet::up();
    let control = fleet.control().await;
    let mut ledger = Ledger::follow(&control);
    let mut liar = External::join(&fleet, &mut ledger, "liar").await;
    let mut headers = HeaderMap::new();
    headers.insert("Tetrarch-Epoch", "99");
    let body = json!({"topic": "info", "body": {"text": "hello"}}).to_string();
    for _ in 0..LIES {
        let body = body.clone().into();
        let sent = liar.bus.publish_expect("mail.HO@h1.PO-liar", headers.clone(), body, None);
        sent.await.unwrap();
    }
    let plan = json!({
        "project": "honest",
        "goal": {"title": "Begin at once"},
        "phases": [{"id": "P1", "name": "Work", "tasks": [
            {"id": "T1.1", "name": "begin", "acceptance": ["begun"]},
        ]}],
        "profiles": {"default": {"argv": ["true"], "wall": "60s"}},
    });
    let plan = fleet.file("honest.json", &plan.to_string());
    let began = Instant::now();
    fleet.ok(["run", plan.to_str().unwrap()]);
    let took = began.elapsed();
    // Its two launches each come behind a letter.
    assert!(took < STATE_LAG, "the host stood still: {took:?}");
    // As soon as the mail is set aside.
    let told = wait::soon("word of the dead letter", liar.letter("mail.dead")).await;
    assert_eq!(told["body"]["to"], "HO@h1", "{told}");
}
