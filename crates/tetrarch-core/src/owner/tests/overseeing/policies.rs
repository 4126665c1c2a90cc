//! A node's own recovery policy: its assignments carry it, and the ladder goes by it (spec 05, The tick).

use serde_json::{Value, json};

use super::{arrives, asked, assignment, before, due, oversee, questions, says, silence, wear_out};
use crate::assignment::AssignmentStatus;
use crate::id::{AgentId, EpicId};
use crate::ledger::EventKind;
use crate::liveness::Liveness;
use crate::overseer::Telemetry;
use crate::owner::tests::fleet::{Fleet, plan_of, task};
use crate::owner::{Input, stalling};
use crate::time::Millis;

fn working(policy: &Value) -> (Fleet, EpicId, AgentId) {
    let fields = json!({"maxAttempts": 3, "recoveryPolicy": policy});
    let (mut fleet, epic) = Fleet::with_goal(plan_of(&[task("T1.1", fields)]));
    let worker = fleet.worker(epic, "T1.1");
    (fleet, epic, worker)
}

/// What the ladder did first when its time came.
fn first_rung(policy: &Value) -> String {
    let (mut fleet, _, worker) = working(policy);
    let at = due(&fleet, &worker);
    let entry = oversee(&mut fleet, at);
    let told = entry.events.iter().find(|event| event.kind == EventKind::Recovery);
    told.unwrap().reason.split(':').next().unwrap().to_owned()
}

#[test]
fn ladder_starts_at_the_nodes_rung() {
    for (policy, rung) in [
        (json!({}), "nudge"),
        (json!("nudge"), "nudge"),
        // The launch was consumed: there is nothing to send again, and nobody to plan.
        (json!("resend_last"), "reassign"),
        (json!("replan"), "reassign"),
        (json!("reassign"), "reassign"),
        (json!("escalate"), "escalate"),
        (json!({"maxRetries": 0}), "reassign"),
        (json!({"maxRetries": 0, "reassign": false}), "escalate"),
    ] {
        assert_eq!(first_rung(&policy), rung, "{policy}");
    }
}

#[test]
fn agent_is_idle_after_its_nodes_limit() {
    for own in [Millis::from_secs(60), Millis::from_secs(24 * 3600)] {
        let (mut fleet, _, worker) =
            working(&json!({"idleAfter": own.0 / 1_000, "minResendInterval": "1s"}));
        let at = assignment(&fleet, &worker).recovery.quiet_since() + own;
        let stands = |fleet: &Fleet, at| stalling(&fleet.records, &fleet.policy, &silence(), at);
        assert!(stands(&fleet, before(at)).is_empty());
        assert_eq!(oversee(&mut fleet, before(at)).records, []);
        assert_eq!(stands(&fleet, at), [fleet.run_of(&worker)]);
        assert_eq!(asked(&oversee(&mut fleet, at)).len(), 1);
        assert_eq!(oversee(&mut fleet, at).records, [], "twice at one moment");
    }
}

#[test]
fn newly_listening_owner_waits_the_nodes_limit() {
    let own = Millis::from_secs(60);
    let (mut fleet, _, worker) = working(&json!({"idleAfter": "1m", "minResendInterval": "1m"}));
    let since = assignment(&fleet, &worker).recovery.quiet_since() + Millis(10);
    let mut look = |at| {
        fleet.now = at;
        fleet.one(Input::Oversee(Telemetry { since, ..Telemetry::default() }))
    };
    assert_eq!(look(before(since + own)).records, []);
    assert_eq!(asked(&look(since + own)).len(), 1);
}

#[test]
fn asking_follows_the_nodes_count_and_interval() {
    let (mut fleet, _, worker) =
        working(&json!({"maxRetries": 4, "idleAfter": "1s", "minResendInterval": "1h"}));
    fleet.policy.overseer.backoff.max = Millis(0);
    let mut sent = Vec::new();
    let begun = fleet.now;
    for minute in 0..(10 * 60) {
        let at = begun + Millis::from_secs(minute * 60);
        for request in asked(&oversee(&mut fleet, at)) {
            sent.push(at);
            arrives(&mut fleet, &worker, request.dispatch);
        }
        if fleet.agent(&worker).liveness == Liveness::Terminated {
            break;
        }
    }
    assert_eq!(sent.len(), 4);
    assert!(sent.windows(2).all(|two| two[1] - two[0] >= Millis::from_secs(3600)), "{sent:?}");
    assert_eq!(fleet.agent(&worker).liveness, Liveness::Terminated, "then another gets it");
}

#[test]
fn work_kept_for_its_agent_is_not_reassigned() {
    let (mut fleet, _, worker) = working(&json!({"reassign": false}));
    let at = wear_out(&mut fleet, &worker);
    oversee(&mut fleet, at);
    assert_eq!(questions(&fleet.records).len(), 1, "people are asked instead");

    let (mut fleet, _, worker) = working(&json!({"reassign": false, "maxRetries": 0}));
    fleet.policy.overseer.backoff.max = Millis(0);
    says(&mut fleet, &worker, r#"{"status": "done"}"#);
    assert_eq!(questions(&fleet.records).len(), 1, "as when nothing shows that it is done");
}

#[test]
fn next_assignment_inherits_the_policy() {
    let (mut fleet, epic, worker) = working(&json!("reassign"));
    let first = assignment(&fleet, &worker).clone();
    let at = due(&fleet, &worker);
    oversee(&mut fleet, at);
    assert_eq!(fleet.records.assignments[&first.id].status, AssignmentStatus::Cancelled);
    let next = fleet.worker(epic, "T1.1");
    let second = assignment(&fleet, &next);
    assert_eq!((second.policy, second.follows), (first.policy, Some(first.id)));
    assert!(!second.policy.is_default());
}
