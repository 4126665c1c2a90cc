//! Changes of plans: what is read of them, what is left to the owner to say, and the public event.

use serde_json::{Value, json};
use tetrarch_core::plan::PlanEvent;
use tetrarch_core::request::planning::{PlanMode, PlanOp};
use tetrarch_core::request::{Op, RequestBody};

use super::requests::{complaint, decode, decode_json};
use super::samples::planning::{self, review};
use super::samples::{U, id, plan_event};
use crate::codec::*;

#[test]
fn invalid_plan_in_a_change_is_left_to_the_owner() {
    let plan = json!({"title": "t", "phases": [
        {"id": "P1", "name": "p", "tasks": [{"id": "T1.1", "name": "n", "acceptance": ["a"]}]}]});
    let wanted = planning::wanted(true, plan.clone());
    let bytes = encode_todo_plan(id("~"), &wanted).unwrap();
    let RequestBody::Op(op) = decode("op.todo.plan.PO-demo", &bytes).body else { panic!() };
    let Op::Plan(PlanOp::Plan(read)) = &op else { panic!("{op:?}") };
    assert_eq!((read.epic, read.mode, read.base_version), (id("goal_~"), PlanMode::Draft, Some(4)));
    assert_eq!(read.what.as_ref().unwrap().nodes.len(), 2);
    assert!(encode_op(&op, id("~")).is_err(), "the author's words are gone");

    let body = |fields: Value| {
        let mut body = json!({"requestId": U, "epic": format!("goal_{U}"),
            "baseVersion": 1, "plan": plan, "reason": "r"});
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        body
    };
    let subject = "op.todo.plan.human:ada";
    let RequestBody::Op(op) = decode_json(subject, &body(json!({"plan": {"phasen": []}}))).body
    else {
        panic!("it is read")
    };
    let Op::Plan(PlanOp::Plan(read)) = op else { panic!("{op:?}") };
    assert!(read.what.unwrap_err().contains("phasen"));
    for (fields, words) in [
        (json!({"baseVersion": null}), "baseVersion is missing"),
        (json!({"plan": null}), "plan is missing"),
        (json!({"mode": "perhaps"}), "mode: unknown word"),
        (json!({"draft": format!("drf_{U}")}), "draft: only a draft can replace"),
    ] {
        let error = complaint(subject, &body(fields));
        assert!(error.starts_with(words), "{error}");
    }
    let subtasks = json!({"requestId": U, "epic": format!("goal_{U}"), "baseVersion": 1,
        "node": "T1.1", "subtasks": [{"name": "n"}], "reason": "r"});
    let RequestBody::Op(op) = decode_json("op.todo.split.GO", &subtasks).body else { panic!() };
    let Op::Plan(PlanOp::Split(read)) = op else { panic!("{op:?}") };
    assert!(read.what.unwrap_err().starts_with("[0].acceptance: is missing"));
}

#[test]
fn review_round_trips() {
    for full in [true, false] {
        let review = review(full);
        let bytes = encode_plan_review(&review).unwrap();
        assert_eq!(decode_plan_review(&bytes).unwrap(), review);
        let value: Value = serde_json::from_slice(&bytes).unwrap();
        let source = value.get("source").and_then(Value::as_str).unwrap_or_default();
        assert_eq!(source, if full { "agent" } else { "" });
    }
}

#[test]
fn a_plan_event_of_an_earlier_version_tells_every_node() {
    let event = PlanEvent { full: false, folded: Vec::new(), ..plan_event(true) };
    assert_eq!(decode_plan_event(&encode_plan_event(&event).unwrap()).unwrap(), event);
    let mut value: Value = serde_json::from_slice(&encode_plan_event(&event).unwrap()).unwrap();
    value.as_object_mut().unwrap().remove("counts");
    let read = decode_plan_event(value.to_string().as_bytes()).unwrap();
    assert!(read.full && read.nodes == event.nodes);
}
