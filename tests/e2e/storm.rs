//! Hostile clients: storms of seeded garbage on every subject that a credential allows, against a
//! fleet that works (spec 10, invariant 24). Nobody panics, nobody is restarted, nothing grows
//! without bound, and what cannot be handled is set aside with its reason.

use std::process::Command;

use serde_json::{Value, json};
use tetrarch_bus::Bus;
use tetrarch_bus::creds::CredentialHolder;
use tetrarch_bus::intake::REASON;
use tetrarch_bus::subject::pattern::policy::grant;
use tetrarch_bus::subject::pattern::{CURSORS, DEAD, MAIL, REQUESTS, RUNS};
use tetrarch_core::id::{HostName, HumanName};
use tetrarch_tests::{Ended, Fleet, Ledger, Process, Program, python};

use crate::external::External;
use crate::{acting, script};

/// What the first seed is unless `STORM_SEED` says it.
const SEED: u64 = 1;
/// Messages of one storm, of each party.
const MESSAGES: usize = 600;
/// What a process may grow by from one storm to the next, in KiB: they are alike, so what grows by
/// more keeps what it should let go of.
pub(crate) const GROWTH_KIB: u64 = 24 * 1024;

/// Work is done as before, the ledger is sound, and nothing of the fleet had to be started again.
pub(crate) fn assert_goes_on(mut fleet: Fleet) {
    run_to_its_end(&fleet, "after");
    fleet.ok(["doctor", "--check-ledger"]);
    let ended = fleet.stop();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    for word in ["restarting it", "panicked"] {
        assert!(!ended.err.contains(word), "{word}: {}", ended.err);
    }
    assert_eq!(fleet.processes(), []);
}

/// One run of one hosted agent, from a plan to a result.
pub(crate) fn run_to_its_end(fleet: &Fleet, project: &str) -> Ended {
    let plan = json!({
        "project": project,
        "output": "T1.1",
        "goal": {"title": "Work goes on"},
        "phases": [{"id": "P1", "name": "Work", "tasks": [
            {"id": "T1.1", "name": "nest", "profile": "nest", "acceptance": ["it came out"]},
        ]}],
        "profiles": {
            "nest": {"argv": acting(&["nest"])},
            "deeper": {"argv": acting(&["deeper"])},
        },
    });
    let file = fleet.file(&format!("{project}.json"), &plan.to_string());
    let ended = fleet.run(["run", "--quiet", file.to_str().unwrap()]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.out, ended.err);
    ended
}

/// Every message of a stream that is kept, as the storm sends it again.
async fn sent_before(bus: &Bus, stream: &str) -> Vec<Value> {
    let found = bus.next_by_subject_batch(stream, ">", 1, 200).await.unwrap();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    found.iter().map(|one| json!([one.subject, hex(&one.payload)])).collect()
}

/// What a storm of a party is made of.
fn material(party: &CredentialHolder, name: &str, words: &[String], old: &[Value]) -> Value {
    let publish = grant(party.role()).publish;
    let publish: Vec<String> = publish.iter().map(|p| p.replace("{{name()}}", name)).collect();
    json!({"publish": publish, "words": words, "old": old})
}

fn storm(fleet: &Fleet, party: &CredentialHolder, seed: u64, what: &Value) -> Program {
    let file = fleet.file(&format!("storm-{:?}-{seed}.json", party.role()), &what.to_string());
    let mut command = Command::new(python());
    command.arg(script("storm.py")).arg(fleet.url()).arg(fleet.credentials(party));
    command.args([seed.to_string(), MESSAGES.to_string()]).arg(file);
    Program::start(&mut command)
}

/// The bus, the owner and the host of a fleet.
pub(crate) fn pillars(fleet: &Fleet) -> Vec<Process> {
    let is_pillar = |one: &Process| {
        [" serve --global", " host ", "nats-server"].iter().any(|word| one.command.contains(word))
            && one.agent.is_none()
    };
    fleet.processes().into_iter().filter(is_pillar).collect()
}

/// The memory that a process holds, in KiB.
pub(crate) fn resident(process: &Process) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.pid)).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Waits until the owner has decided everything that was sent before this.
pub(crate) fn everything_is_decided(fleet: &mut Fleet, round: u64) {
    let asked = fleet.run(["project", "create", &format!("round-{round}")]);
    if asked.code != Some(0) {
        panic!("{}\nup said:\n{}", asked.err, fleet.stop().err);
    }
}

#[expect(clippy::print_stdout, reason = "whoever sees it fail has to make it again")]
fn tell(what: &str) {
    println!("{what}");
}

fn seed() -> u64 {
    std::env::var("STORM_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(SEED)
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_storms_on_every_subject_stop_nobody_and_fill_nothing() {
    let mut fleet = Fleet::up();
    let control = fleet.control().await;
    let mut ledger = Ledger::follow(&control);
    let mut external = External::join(&fleet, &mut ledger, "stormy").await;
    let epic = external.goal().await;
    run_to_its_end(&fleet, "before");
    let before = pillars(&fleet);
    assert_eq!(before.len(), 3, "{before:?}");

    let parties = [
        (CredentialHolder::External(external.name.parse().unwrap()), external.name.clone()),
        (CredentialHolder::Human(HumanName::new("ada").unwrap()), "ada".to_owned()),
        (CredentialHolder::Host(HostName::new("h9").unwrap()), "h9".to_owned()),
    ];
    let named = ["GO", "HO@h1", "HO@h9", "PO-nobody", "human:ada", "h1", "h9", "-", "T1_1", "goal"];
    let ops = ["create", "agent", "status", "host", "join", "plan", "graph", "apply", "request"];
    let mut words: Vec<String> = named.iter().chain(&ops).map(|&word| word.to_owned()).collect();
    words.extend([epic, external.name.clone()]);

    let seed = seed();
    tell(&format!("STORM_SEED={seed} makes this storm again"));
    let mut old = Vec::new();
    for stream in [REQUESTS, MAIL, RUNS, CURSORS] {
        old.extend(sent_before(&control, stream).await);
    }
    let mut sizes = Vec::new();
    for round in 0..3 {
        let mut storms = Vec::new();
        for (at, (party, name)) in parties.iter().enumerate() {
            let what = material(party, name, &words, &old);
            storms.push(storm(&fleet, party, seed + 10 * round + at as u64, &what));
        }
        for storm in storms {
            let Ended { code, out, err, .. } = storm.ended();
            assert_eq!(code, Some(0), "the storm's connection ended: {out}{err}");
        }
        everything_is_decided(&mut fleet, round);
        sizes.push(pillars(&fleet).iter().map(resident).collect::<Vec<u64>>());
    }
    tell(&format!("resident KiB after each storm: {sizes:?}"));
    assert_eq!(pillars(&fleet), before, "the same processes");
    for (at, pillar) in before.iter().enumerate() {
        // What is never given back grows with each storm; a collected heap may grow in one of them.
        let steps = sizes.windows(2).map(|pair| pair[1][at].saturating_sub(pair[0][at]));
        let grown = steps.min().unwrap();
        assert!(grown < GROWTH_KIB, "{} grew by {grown} KiB: {sizes:?}", pillar.command);
    }

    // Hosts may publish there as well, on the subjects that the storm knows; these are the owner's.
    let dead = control.next_by_subject_batch(DEAD, "dead.REQUESTS", 1, 1000).await.unwrap();
    assert!(dead.len() > 10, "what nobody can be told of is set aside: {}", dead.len());
    for letter in &dead {
        assert!(letter.header(REASON).is_some_and(|reason| !reason.is_empty()), "{letter:?}");
    }
    assert_goes_on(fleet);
}
