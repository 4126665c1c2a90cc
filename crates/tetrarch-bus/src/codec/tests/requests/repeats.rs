//! What tells the same request from another, and the id of one that cannot be read.

use serde_json::json;
use tetrarch_core::limits::REQUEST_BYTES_MAX;
use tetrarch_core::request::{DIGEST_HALF, Request, RequestBody};

use super::super::samples::{U, id};
use super::{SPAWN, decode, decode_json};

#[test]
fn digest_covers_body_and_subject() {
    let body = json!({"requestId": U, "kind": "ready"});
    let one = decode_json("report.PO-demo", &body);
    assert_eq!(one.digest, decode_json("report.PO-demo", &body).digest);
    assert_ne!(one.digest, decode_json("report.PO-other", &body).digest);
    assert_eq!(one.digest.len(), 64);
    let of_hosts =
        ["report.W:01JD8Z5W6T4QK3M9X2V7B1N0AC.h1", "report.W:01JD8Z5W6T4QK3M9X2V7B1N0AC.h2"];
    let [here, there] = of_hosts.map(|subject| decode_json(subject, &body).digest);
    assert_eq!(here, there, "the next session of an agent asks the same from another host");
}

/// Whether two digests are of one request, as the owner compares them.
fn halves(one: &str, other: &str) -> (bool, bool) {
    (one[..DIGEST_HALF] == other[..DIGEST_HALF], one[DIGEST_HALF..] == other[DIGEST_HALF..])
}

#[test]
fn respelled_body_has_other_bytes_and_same_meaning() {
    let subject = "op.goal.create.human:ada";
    let plan = r#"{"title": "t", "phases": [{"id": "P1", "name": "p", "tasks": [{"id": "T1.1", "name": "n", "acceptance": ["a"]}]}]}"#;
    let spelled = r#"{"phases":[{"tasks":[{"deps":[],"acceptance":["a"],"name":"n","id":"T1.1"}],"name":"p","id":"P1"}],"title":"t"}"#;
    let cases = [
        (
            subject,
            format!(r#"{{"requestId":"{U}","project":"demo","plan":{plan}}}"#),
            format!(r#"{{ "plan":{spelled}, "project":"demo", "requestId":"{U}" }}"#),
        ),
        (
            SPAWN,
            format!(
                r#"{{"requestId":"{U}","requestedSubagents":[{{"role":"worker","brief":
            {{"goal":"g","expectedOutput":{{"type":"object","required":["a"]}}}}}}]}}"#
            ),
            format!(
                r#"{{"requested_subagents":[{{"brief":{{"expectedOutput":{{"required":["a"],
            "type":"object"}},"goal":"g"}},"role":"W"}}],"request_id":"{U}","ackRequired":true,
            "parent":null}}"#
            ),
        ),
        (
            "op.host.drain.human:ada",
            format!(r#"{{"requestId":"{U}","host":"h"}}"#),
            format!(r#"{{"host":"h","undo":false,"reason":"","requestId":"{U}"}}"#),
        ),
    ];
    for (subject, one, other) in cases {
        let [one, other] = [one, other].map(|body| decode(subject, body.as_bytes()));
        let read = |request: &Request| format!("{:?}", request.body);
        assert!(!read(&one).contains("Malformed"), "{one:?}");
        assert_eq!(
            halves(&one.digest, &other.digest),
            (false, true),
            "{}\n{}",
            read(&one),
            read(&other)
        );
    }
    let drain =
        |host| decode_json("op.host.drain.human:ada", &json!({"requestId": U, "host": host}));
    assert_eq!(halves(&drain("h").digest, &drain("i").digest), (false, false));
}

#[test]
fn undecodable_request_keeps_its_stated_id() {
    let broken = [
        (format!(r#"{{"requestId" : "{U}", "requestedSubagents": ["#), Some(id(U))),
        (format!(r#"{{"request_id":"{U}" "#), Some(id(U))),
        (format!(r#"{{"requestId":"{U}","x":"{}"}}"#, "y".repeat(REQUEST_BYTES_MAX)), Some(id(U))),
        (format!(r#"{{"requestId": {U}"#), None),
        (format!(r#"{{"requestId":"{}"#, &U[..9]), None),
        ("not json".to_owned(), None),
    ];
    for (body, expected) in broken {
        let request = decode(SPAWN, body.as_bytes());
        assert!(matches!(request.body, RequestBody::Malformed { .. }), "{request:?}");
        assert_eq!(request.given_id(), expected, "{}", &body[..40.min(body.len())]);
    }
}
