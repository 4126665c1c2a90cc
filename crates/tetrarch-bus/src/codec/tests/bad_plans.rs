//! What is wrong with a goal that is given: its plan, or what is around it.

use serde_json::{Value, json};
use tetrarch_core::request::{MalformedKind, RequestBody};

use super::requests::decode_json;
use super::samples::U;

#[test]
fn invalid_plan_and_invalid_request_are_distinguished() {
    let kind = |body: &Value| {
        let request = decode_json("op.goal.create.human:ada", body);
        let RequestBody::Malformed { kind, error, .. } = request.body else { panic!("{body}") };
        (kind, error)
    };
    for plan in [json!({"phasen": []}), json!({"goal": {"title": ""}}), json!("no plan"), json!(7)]
    {
        let (kind, error) = kind(&json!({"requestId": U, "project": "demo", "plan": plan}));
        assert_eq!(kind, MalformedKind::Plan, "{error}");
    }
    assert_eq!(kind(&json!({"requestId": U, "project": "demo"})).0, MalformedKind::Plan);
    let around = [
        json!({"requestId": U, "project": "demo", "plan": {}, "colour": "red"}),
        json!({"requestId": "no ulid", "project": "demo", "plan": {}}),
        json!({"requestId": U, "project": "De mo", "plan": {"goal": {"title": "t"}}}),
    ];
    for body in around {
        let (kind, error) = kind(&body);
        assert_eq!(kind, MalformedKind::Other, "{error}");
    }
}
