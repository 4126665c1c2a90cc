//! The life of credentials by the command line: made, listed, replaced, revoked, with a fleet that runs.

use tetrarch_bus::Bus;
use tetrarch_bus::client::ConnectOptions;
use tetrarch_bus::creds::Party;
use tetrarch_tests::Fleet;
use tetrarch_tests::wait::soon;

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
async fn a_credential_is_issued_rotated_and_revoked_while_the_fleet_runs() {
    let fleet = Fleet::up();
    let file = fleet.ok(["creds", "issue", "human:eve", "--expires", "30d"]);
    let file = file.trim();
    assert!(is_taken(&fleet, file).await);
    let eve = fleet.bus(&Party::Human("eve".parse().unwrap())).await;

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
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_retired_has_no_credential_any_more() {
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
fn a_name_that_may_have_no_credential_is_refused_and_nothing_is_made() {
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
