//! The life of credentials by the command line: made, listed, replaced, revoked, with a fleet that runs.

use serde_json::json;
use tetrarch_bus::Bus;
use tetrarch_bus::client::ConnectOptions;
use tetrarch_bus::creds::CredentialHolder;
use tetrarch_tests::wait::soon;
use tetrarch_tests::{Ended, Fleet};

async fn is_taken(fleet: &Fleet, file: &str) -> bool {
    let options = ConnectOptions {
        urls: vec![fleet.url()],
        credentials: Some(file.into()),
        name: "test".to_owned(),
        ..ConnectOptions::default()
    };
    Bus::connect(&options).await.is_ok()
}

fn states(fleet: &Fleet) -> Vec<(String, String)> {
    let listed = fleet.json(&["creds", "list"]);
    let text = |row: &serde_json::Value, field: &str| row[field].as_str().unwrap().to_owned();
    listed.as_array().unwrap().iter().map(|row| (text(row, "name"), text(row, "state"))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn credential_is_issued_rotated_and_revoked_while_the_fleet_runs() {
    let fleet = Fleet::up();
    let unsaid = fleet.run(["creds", "issue", "human:eve", "--expires", "30d"]);
    assert_eq!(unsaid.code, Some(2), "nobody is an admin unasked: {}", unsaid.out);
    assert!(unsaid.err.contains("human:eve has no role yet"), "{}", unsaid.err);
    let issued = fleet.run(["creds", "issue", "human:eve", "--role", "viewer", "--expires", "30d"]);
    assert!(issued.err.contains("human:eve has the role viewer"), "{}", issued.err);
    let file = issued.out.trim();
    assert_eq!(fleet.json(&["creds", "issue", "human:eve"])["file"], file);
    assert!(is_taken(&fleet, file).await);
    let eve = fleet.bus(&CredentialHolder::Human("eve".parse().unwrap())).await;

    let kept = fleet.run(["creds", "issue", "human:eve", "--expires", "1d"]);
    assert_eq!(kept.code, Some(5), "{}", kept.out);
    assert!(kept.err.contains("`tetrarch creds rotate human:eve --expires 1d`"), "{}", kept.err);
    let copy = fleet.file("copy.creds", &std::fs::read_to_string(file).unwrap());
    let copy = copy.to_str().unwrap();
    assert_eq!(fleet.ok(["creds", "rotate", "human:eve"]).trim(), file);
    assert!(!is_taken(&fleet, copy).await, "the old one is not taken");
    assert!(is_taken(&fleet, file).await);

    let asked = fleet.run(["creds", "revoke", "human:eve"]);
    assert_eq!(asked.code, Some(2), "nothing is lost unasked: {}", asked.err);
    fleet.ok(["creds", "revoke", "human:eve", "--yes"]);
    assert!(!is_taken(&fleet, file).await);
    soon("being cut off", async {
        while eve.client().connection_state() == async_nats::connection::State::Connected {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(states(&fleet).contains(&("human:eve".to_owned(), "revoked".to_owned())));
    let refused = fleet.run(["--as", "eve", "mail", "list"]);
    assert!(refused.err.contains("`tetrarch creds issue human:eve`"), "{}", refused.err);
    let mute = fleet.run(["--as", "eve", "ask", "hello"]);
    assert_eq!((mute.code, mute.out.as_str()), (refused.code, ""), "{}", mute.err);
    assert!(mute.err.contains("`tetrarch creds issue human:eve`"), "{}", mute.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn revoking_needs_the_operator_key_kept_elsewhere() {
    let elsewhere = tempfile::tempdir().unwrap();
    let key = elsewhere.path().join("operator.nk");
    let mut fleet = Fleet::up();
    let file = fleet.ok(["creds", "issue", "human:eve", "--role", "viewer"]);
    fleet.stop();
    std::fs::rename(fleet.data_dir().join("keys/operator.nk"), &key).unwrap();
    let refused = fleet.run(["up"]);
    assert_eq!(refused.code, Some(1), "{}", refused.err);
    assert!(refused.err.contains("--operator-key or bus.operator_key"), "{}", refused.err);

    let key = key.to_str().unwrap();
    let fleet = fleet.with_option("--operator-key", key).started();
    assert!(is_taken(&fleet, file.trim()).await);
    let refused = fleet.run(["creds", "revoke", "human:eve", "--yes"]);
    assert!(refused.err.contains("operator's key"), "{}", refused.err);
    assert!(is_taken(&fleet, file.trim()).await, "the server was not told");
    fleet.ok(["creds", "revoke", "human:eve", "--yes", "--operator-key", key]);
    assert!(!is_taken(&fleet, file.trim()).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn credential_that_was_moved_away_is_revoked_by_name() {
    let fleet = Fleet::up();
    let issue = || fleet.ok(["creds", "issue", "human:mona"]).trim().to_owned();
    let file = fleet.ok(["creds", "issue", "human:mona", "--role", "viewer"]);
    let moved = |to: &str| {
        let to = fleet.data_dir().join(to);
        std::fs::rename(file.trim(), &to).unwrap();
        to.to_str().unwrap().to_owned()
    };
    let one = moved("one");
    let shown = fleet.json(&["creds", "show", "human:mona"]);
    assert_eq!((&shown["state"], &shown["file"]), (&json!("valid"), &json!(null)), "{shown}");
    issue();
    assert_eq!(role(&fleet, "mona"), "viewer", "never more than before");
    let two = moved("two");
    assert!(is_taken(&fleet, &one).await && is_taken(&fleet, &two).await);
    let mona = states(&fleet).into_iter().filter(|(name, _)| name == "human:mona");
    assert_eq!(mona.count(), 2, "each that a server takes is listed");

    fleet.ok(["creds", "revoke", "human:mona", "--yes"]);
    assert!(!is_taken(&fleet, &one).await && !is_taken(&fleet, &two).await);
    let refused = fleet.run(["--as", "mona", "status"]);
    assert!(refused.err.contains("is revoked"), "{}", refused.err);
    issue();
    assert_eq!(role(&fleet, "mona"), "viewer");
    let three = moved("three");
    fleet.ok(["creds", "rotate", "human:mona"]);
    assert!(!is_taken(&fleet, &three).await, "rotated");
    assert_eq!(role(&fleet, "mona"), "viewer");
}

#[tokio::test(flavor = "multi_thread")]
async fn retired_agent_loses_its_credential() {
    let fleet = Fleet::up();
    let added = fleet.json(&["agent", "add", "PO-demo", "--external"]);
    let file = added["credentials"].as_str().unwrap();
    assert!(is_taken(&fleet, file).await);
    fleet.ok(["agent", "retire", "PO-demo", "--yes"]);
    assert!(!is_taken(&fleet, file).await);
    let shown = fleet.json(&["creds", "show", "PO-demo"]);
    assert_eq!(shown["state"], "revoked");
    let seed = |value: &serde_json::Value| value.as_str().is_some_and(|it| it.starts_with("SU"));
    assert!(!shown.as_object().unwrap().values().any(seed), "no key is shown: {shown}");
}

#[test]
fn mail_to_a_person_without_a_credential_is_refused() {
    let fleet = Fleet::up();
    let schedule = "schedule create --every 1h --text hi --mail-to";
    for words in ["mail send", schedule] {
        let words: Vec<&str> = words.split(' ').collect();
        let to = |human: &'static str| {
            let end: &[&str] = if words.len() == 2 { &[human, "hi"] } else { &[human] };
            fleet.run(words.iter().chain(end))
        };
        let refused = to("human:nobody");
        assert_eq!(refused.code, Some(3), "{}{}", refused.out, refused.err);
        assert!(refused.err.contains("human:nobody was not found"), "{}", refused.err);
        assert!(
            refused.err.contains("`tetrarch creds issue human:nobody --role viewer`"),
            "{}",
            refused.err
        );
        fleet.ok(["creds", "issue", "human:mona", "--role", "viewer"]);
        assert_eq!(to("human:mona").code, Some(0), "{words:?}");
    }
}

#[test]
fn reserved_name_gets_no_credential() {
    let fleet = Fleet::prepared();
    let cases = [
        ("PO-*", "project name has '*'"),
        ("human:a.b", "human"),
        ("GO", "the control plane"),
        ("W:01JD8Z5W6T4QK3M9X2V7B1N0AC", "is run by a host"),
    ];
    for (name, words) in cases {
        let refused = fleet.run(["creds", "issue", name]);
        assert_eq!(refused.code, Some(2), "{name}: {}", refused.err);
        assert!(refused.err.contains(words), "{name}: {}", refused.err);
    }
    let listed = fleet.run(["creds", "list"]);
    assert_eq!(listed.code, Some(3), "{}{}", listed.out, listed.err);
}

/// What is done in somebody's name.
fn by(fleet: &Fleet, name: &str, words: &[&str]) -> Ended {
    fleet.run(words.iter().copied().chain(["--as", name]))
}

/// It is refused by the server, at once, and whoever asked is told which role it takes.
#[track_caller]
fn takes(fleet: &Fleet, name: &str, words: &[&str], role: &str) {
    let refused = by(fleet, name, words);
    assert_eq!(refused.code, Some(4), "{name}: {words:?}: {}{}", refused.out, refused.err);
    let why = format!("requires the role {role}; human:{name} has the role");
    let next = format!("`tetrarch creds rotate human:{name} --role {role}");
    assert!(refused.err.contains(&why) && refused.err.contains(&next), "{}", refused.err);
}

fn role(fleet: &Fleet, name: &str) -> String {
    let shown = fleet.json(&["creds", "show", &format!("human:{name}")]);
    assert_eq!(shown["state"], "valid", "{shown}");
    shown["role"].as_str().unwrap().to_owned()
}

const PEOPLE: [(&str, &str); 3] = [("vera", "viewer"), ("olga", "operator"), ("axel", "approver")];

#[test]
fn people_are_limited_to_their_role_and_told_the_required_one() {
    let fleet = Fleet::up();
    for (name, role) in PEOPLE {
        fleet.ok(["creds", "issue", &format!("human:{name}"), "--role", role]);
    }
    fleet.ok(["project", "create", "demo"]);
    let reads =
        ["status", "get agents", "describe PO-demo", "inbox --everyone", "mail list", "file list"];
    for (name, _) in PEOPLE {
        for words in reads {
            let read = by(&fleet, name, &words.split(' ').collect::<Vec<_>>());
            assert_eq!(read.code, Some(0), "{name}: {words}: {}", read.err);
        }
        takes(&fleet, name, &["project", "create", "other"], "admin");
    }
    let epic = "goal_01JD8Z5W6T4QK3M9X2V7B1N0AC";
    let spawn = ["spawn", "PO-demo", "worker", "--task", "x", "--epic", epic];
    let steer = ["steer", "PO-demo", "look here"];
    let write = ["mail", "send", "PO-demo", "hello"];
    let answer = ["answer", "qst_01JD8Z5W6T4QK3M9X2V7B1N0AC", "yes"];
    for words in [&spawn[..], &steer] {
        takes(&fleet, "vera", words, "operator");
        for name in ["olga", "axel"] {
            let asked = by(&fleet, name, words);
            assert!(!asked.err.contains("requires the role"), "{name}: {words:?}: {}", asked.err);
            assert_ne!(asked.code, Some(6), "{name}: {words:?}: {}", asked.err);
        }
    }
    let plan = fleet.file(
        "plan.json",
        &json!({
            "project": "demo", "title": "Try it",
            "phases": [{"id": "P1", "name": "p", "tasks": [
                {"id": "T1.1", "name": "t", "profile": "done", "acceptance": ["it is"]},
            ]}],
            "profiles": {"done": {"argv": ["true"]}},
        })
        .to_string(),
    );
    let run = ["run", plan.to_str().unwrap()];
    takes(&fleet, "vera", &run, "operator");
    let ran = by(&fleet, "olga", &run);
    assert_eq!(ran.code, Some(0), "in a project that there is: {}", ran.err);
    let other = std::fs::read_to_string(&plan).unwrap().replace("[\"true\"]", "[\"/bin/true\"]");
    let other = fleet.file("other.json", &other);
    takes(&fleet, "olga", &["run", other.to_str().unwrap()], "admin");
    let shown = || fleet.ok(["profile", "show", "demo", "done"]);
    assert!(!shown().contains("/bin/true"), "{}", shown());
    fleet.ok(["run", other.to_str().unwrap()]);
    assert!(shown().contains("/bin/true"), "{}", shown());
    let again = by(&fleet, "olga", &["run", other.to_str().unwrap()]);
    assert_eq!(again.code, Some(0), "it is the project's now: {}", again.err);
    for name in ["vera", "olga"] {
        takes(&fleet, name, &write, "approver");
        takes(&fleet, name, &answer, "approver");
    }
    let sent = by(&fleet, "axel", &write);
    assert_eq!(sent.code, Some(0), "{}", sent.err);
    let answered = by(&fleet, "axel", &answer);
    assert_eq!(answered.code, Some(3), "the owner answers that there is none: {}", answered.err);

    // As the refusal says.
    fleet.ok(["creds", "rotate", "human:olga", "--role", "approver"]);
    let sent = by(&fleet, "olga", &write);
    assert_eq!(sent.code, Some(0), "{}", sent.err);
}

#[test]
fn person_keeps_the_role_when_the_credential_is_replaced_or_renewed() {
    let mut fleet = Fleet::up();
    fleet.ok(["project", "create", "early"]);
    fleet.stop();
    // As an earlier version left it: there was one role of people.
    let keys = fleet.data_dir().join("keys");
    for (_, role) in PEOPLE {
        std::fs::remove_file(keys.join(format!("role-{role}.nk"))).unwrap();
    }
    fleet.start();
    fleet.ok(["project", "create", "late"]);
    assert_eq!(role(&fleet, "ada"), "admin");
    let every = |fleet: &Fleet, when: &str| {
        for (name, wanted) in PEOPLE {
            assert_eq!(role(fleet, name), wanted, "{when}");
        }
        takes(fleet, "vera", &["pause", "PO-late"], "operator");
    };
    for (name, role) in PEOPLE {
        fleet.ok(["creds", "issue", &format!("human:{name}"), "--role", role]);
    }
    every(&fleet, "issued");
    let kept = fleet.run(["creds", "issue", "human:vera", "--role", "admin"]);
    assert_eq!(kept.code, Some(5), "{}", kept.out);
    assert!(kept.err.contains("`tetrarch creds rotate human:vera --role admin`"), "{}", kept.err);
    for (name, _) in PEOPLE {
        fleet.ok(["creds", "issue", &format!("human:{name}")]);
        fleet.ok(["creds", "rotate", &format!("human:{name}"), "--expires", "30d"]);
    }
    every(&fleet, "replaced");
    for (words, why) in [
        (["creds", "issue", "HO@h1", "--role", "viewer"], "HO@h1 is not a person"),
        (["creds", "rotate", "HO@h1", "--role", "viewer"], "HO@h1 is not a person"),
        (["creds", "rotate", "human:vera", "--role", "boss"], "viewer, operator, approver, admin"),
    ] {
        let refused = fleet.run(words);
        assert_eq!(refused.code, Some(2), "{words:?}: {}", refused.err);
        assert!(refused.err.contains(why), "{words:?}: {}", refused.err);
    }
    let file = fleet.data_dir().join("creds/human-vera.creds");
    let before = std::fs::read_to_string(&file).unwrap();
    fleet.stop();
    // Every credential of the fleet is then for an account that there is no more.
    std::fs::remove_file(keys.join("fleet.nk")).unwrap();
    fleet.start();
    assert_ne!(std::fs::read_to_string(&file).unwrap(), before, "it is renewed");
    every(&fleet, "renewed");
}
