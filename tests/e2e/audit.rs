//! The audit trail by the command line (spec 09): who did what with which credential, its export, and what
//! is told of an export that somebody changed.

use std::path::{Path, PathBuf};

use async_nats::HeaderMap;
use serde_json::{Value, json};
use tetrarch_bus::creds::CredentialHolder;
use tetrarch_core::audit::chain::Chain;
use tetrarch_tests::Fleet;
use tetrarch_tests::wait::until;

use super::gate::{Repository, change, id, work};

/// The acts that are listed, once they have one of this kind about this.
fn acts(fleet: &Fleet, what: &str, about: &str) -> Vec<Value> {
    let is_it = |act: &Value| act["what"] == what && act["about"].as_str().unwrap().contains(about);
    until(&format!("{what} of {about}"), || {
        let all = fleet.json(&["audit"]).as_array().unwrap().clone();
        all.iter().any(is_it).then_some(all)
    })
}

/// The one act of this kind and outcome, as (actor, credential, about).
fn the_one(acts: &[Value], what: &str, outcome: &str) -> (String, String, String) {
    let found: Vec<&Value> =
        acts.iter().filter(|it| it["what"] == what && it["outcome"] == outcome).collect();
    assert_eq!(found.len(), 1, "{what}: {acts:#?}");
    let text = |field: &str| found[0][field].as_str().unwrap_or_default().to_owned();
    assert!(!text("request").is_empty(), "{found:?}");
    (text("actor"), text("credential"), text("about"))
}

fn user(fleet: &Fleet, name: &str) -> String {
    fleet.json(&["creds", "show", name])["user"].as_str().unwrap().to_owned()
}

#[test]
fn privileged_acts_are_listed_with_sender_and_verified_credential() {
    let fleet = Fleet::up();
    let repository = Repository::new(&fleet);
    let script = "set -e; echo four >> a; git add a; git commit -qm 'Add four'";
    work(&fleet, &repository.0, &[(script, json!({}))]);
    let change = id(&change(&fleet, "T1.1"));
    fleet.ok(["approve", &change, "--apply"]);
    fleet.ok(["project", "create", "paid", "--tokens", "100"]);
    fleet.ok(["budget", "raise", "PO-paid", "--tokens", "50", "--as", "ben"]);
    fleet.ok(["agent", "add", "PO-demo", "--external"]);
    let hidden = "\u{1b}[2J\u{202e}gone";
    fleet.ok(["agent", "retire", "PO-demo", "--yes", "--reason", hidden]);
    let refused = fleet.run(["agent", "retire", "GO", "--yes", "--as", "ben"]);
    assert!(refused.err.contains("ends with its process"), "{}", refused.err);

    let all = acts(&fleet, "creds.revoke", "PO-demo");
    let (me, ben) = ("human:ada".to_owned(), "human:ben".to_owned());
    let (mine, his) = (user(&fleet, &me), user(&fleet, &ben));
    let (actor, credential, about) = the_one(&all, "approval.decide", "done");
    assert_eq!((&actor, &credential), (&me, &mine));
    assert!(about.starts_with(&format!("{change} approved as ")), "{about}");
    assert_eq!(the_one(&all, "apply.request", "done").2, change);
    let raised = ("human:ben".to_owned(), his.clone(), "PO-paid 50 tokens more".to_owned());
    assert_eq!(the_one(&all, "budget.raise", "done"), raised);
    let (actor, credential, about) = the_one(&all, "agent.retire", "done");
    assert_eq!((actor, credential, about), (me.clone(), mine, format!("PO-demo: {hidden}")));
    assert_eq!(the_one(&all, "agent.retire", "refused").0, ben);
    let (host, by_host, _) = the_one(&all, "host.join", "done");
    assert_eq!(by_host, user(&fleet, &host), "its host's own credential");
    assert_eq!(the_one(&all, "creds.revoke", "done").0, me);

    let of = |args: &[&str]| fleet.json(&[&["audit"], args].concat()).as_array().unwrap().len();
    assert_eq!(of(&["--who", &his, "--since", "1h"]), 2, "what he asked for, and was refused");
    assert_eq!(of(&["--who", "human:b*", "--what", "b*"]), 1);
    assert_eq!(of(&["--what", "budget.raise", "--since", "1h"]), 1);
    assert_eq!(of(&["--what", "budget.raise", "--until", "1h"]), 0);
    let shown = fleet.ok(["audit", "--what", "agent.*"]);
    assert!(shown.contains("\\u{1b}[2J\\u{202e}gone"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn credential_claimed_by_a_sender_is_not_believed() {
    let fleet = Fleet::up();
    let eve = fleet.bus(&CredentialHolder::Human("eve".parse().unwrap())).await;
    fleet.ok(["project", "create", "mine"]);
    let (hers, mine) = (user(&fleet, "human:eve"), user(&fleet, "human:ada"));
    let mut headers = HeaderMap::new();
    for _ in 0..2 {
        headers.append("Nats-Request-Info", json!({ "user": mine }).to_string());
    }
    let body = json!({"requestId": "01JD8Z5W6T4QK3M9X2V7B1N0A1", "project": "nothing"}).to_string();
    let subject = "op.project.retire.human:eve";
    eve.client().publish_with_headers(subject, headers, body.into()).await.unwrap();
    let all = tokio::task::block_in_place(|| acts(&fleet, "project.retire", "nothing"));
    let (actor, credential, _) = the_one(&all, "project.retire", "refused");
    assert_eq!((actor.as_str(), credential), ("human:eve", hers));
}

/// Verifies a file and gives what is said of it, which has to be this.
fn told(fleet: &Fleet, file: &Path, args: &[&str], code: i32, words: &str) {
    let file = file.to_str().unwrap();
    let ended = fleet.run([&["audit", "verify", file], args].concat());
    assert_eq!(ended.code, Some(code), "{}{}", ended.out, ended.err);
    assert!(format!("{}{}", ended.out, ended.err).contains(words), "{}{}", ended.out, ended.err);
}

#[test]
fn exported_trail_is_verified_offline_and_tampering_reported() {
    let mut fleet = Fleet::up();
    fleet.ok(["project", "create", "paid", "--tokens", "100"]);
    fleet.ok(["budget", "raise", "PO-paid", "--tokens", "50"]);
    let file: PathBuf = fleet.cwd().join("trail.jsonl");
    let path = file.to_str().unwrap();
    let exported = fleet.json(&["audit", "export", path]);
    let head = exported["head"].as_str().unwrap().to_owned();
    assert!(exported["entries"].as_u64().unwrap() >= 4, "{exported}");
    let again = fleet.run(["audit", "export", path]);
    assert_eq!(again.code, Some(1), "what is there is kept: {}", again.err);
    told(&fleet, &file, &["--head", &head], 0, "as the ledger has them");

    let whole = std::fs::read_to_string(&file).unwrap();
    let changed = |text: &str| fleet.file("changed.jsonl", text);
    let altered = changed(&whole.replace("PO-paid 50", "PO-paid 90"));
    told(&fleet, &altered, &[], 1, "was altered");
    let cut = changed(&whole[..whole.len() - 1]);
    told(&fleet, &cut, &[], 1, "cut off");
    // Made anew with one act less, the chain holds: the ledger and the head tell.
    let parsed: Vec<Value> =
        whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut chain = Chain::default();
    let mut forged = chain.header(&parsed[0]["header"].to_string());
    let kept = parsed.iter().filter(|line| line["entry"]["what"] != "budget.raise");
    for line in kept.filter(|line| line["entry"].is_object()) {
        forged += &chain.entry(&line["entry"].to_string());
    }
    let forged = changed(&(forged + &chain.seal()));
    told(&fleet, &forged, &[], 1, "differs from the ledger");
    told(&fleet, &forged, &["--head", &head], 1, "it was rewritten");

    fleet.stop();
    told(&fleet, &file, &["--head", &head], 0, "not compared with the ledger");
    told(&fleet, &forged, &["--head", &head], 1, "it was rewritten");
    // What is done meanwhile waits, and a question says so.
    fleet.ok(["creds", "issue", "human:dora", "--role", "admin"]);
    let asked = fleet.run(["audit", "--what", "creds.*"]);
    assert!(asked.err.contains("acts on credentials in"), "{}", asked.err);
    fleet.start();
    let all = acts(&fleet, "creds.issue", "human dora");
    assert!(
        all.iter().any(|it| it["about"].as_str().unwrap().contains(&user(&fleet, "human:dora")))
    );
}
