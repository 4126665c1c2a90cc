//! Slots that are held, answers that come again, and refusals of each kind.

use super::*;
use crate::mail::Spawned;

fn queued(count: usize) -> PlanEvent {
    let views = (1..=count).map(|n| view(&format!("T1.{n}"), NodeStatus::Queued));
    plan(1, views.collect())
}

fn worker(n: u128) -> AgentId {
    AgentId::Worker(Ulid(n))
}

fn accepted(request: RequestId, agent: AgentId, on: &str) -> MailBody {
    let spawned = Spawned {
        agent,
        session: SessionId(Ulid(8)),
        epoch: 1,
        depth: 2,
        node: on.parse().unwrap(),
        host: crate::id::HostName::new("h").unwrap(),
    };
    MailBody::SpawnAnswer(SpawnAnswer { spawned: vec![spawned], ..answer(request, "PO-a") })
}

fn completed(agent: AgentId) -> MailBody {
    MailBody::AgentCompleted { agent, session: SessionId(Ulid(8)), reason: String::new() }
}

fn full(request: RequestId, limit: u64, current: u64) -> MailBody {
    let mut refused = denied(request, DenialReason::ChildrenLimitExceeded);
    refused.denied[0].limit = Some(limit);
    refused.denied[0].current = Some(current);
    MailBody::SpawnAnswer(refused)
}

fn said(effects: &[Effect]) -> Vec<&Op> {
    let mut ops = Vec::new();
    for effect in effects {
        if let Effect::Op { op, .. } = effect {
            ops.push(&**op);
        }
    }
    ops
}

#[test]
fn admitted_child_is_not_requested_again_before_the_plan_update() {
    let mut po = po();
    let asked = requests(&learn(&mut po, queued(1)));
    let effects = mail(&mut po, NOW, "GO", accepted(asked[0].0, worker(1), "T1.1"));
    assert_eq!(effects, [], "the plan still shows the node as queued");
    let effects = mail(&mut po, NOW, "GO", completed(worker(1)));
    assert_eq!(requests(&effects).len(), 1, "its agent has ended, the node may be had again");
}

#[test]
fn repeated_answer_revives_nobody() {
    let mut po = po();
    let asked = requests(&learn(&mut po, queued(4)));
    let again = accepted(asked[0].0, worker(1), "T1.1");
    mail(&mut po, NOW, "GO", again.clone());
    mail(&mut po, NOW, "GO", completed(worker(1)));
    mail(&mut po, NOW, "GO", again);
    let ended = requests(&mail(&mut po, NOW, "GO", full(asked[1].0, 3, 2)));
    assert_eq!(ended.len(), 0);
    assert_eq!(po.children.len(), 0);
}

#[test]
fn new_session_learns_of_unknown_children() {
    let mut po = po();
    let asked = requests(&learn(&mut po, queued(4)));
    assert_eq!(asked.len(), 3);
    for (id, _) in &asked {
        let effects = mail(&mut po, NOW, "GO", full(*id, 3, 3));
        assert_eq!(requests(&effects).len(), 0, "all slots are held by earlier children");
    }
    let effects = mail(&mut po, NOW, "GO", completed(worker(9)));
    assert_eq!(requests(&effects).len(), 1, "one of them ended");
}

#[test]
fn tighter_mode_is_learned_from_a_refusal_for_a_while() {
    let mut po = po();
    let asked = requests(&learn(&mut po, queued(3)));
    mail(&mut po, NOW, "GO", accepted(asked[0].0, worker(1), "T1.1"));
    for (id, _) in &asked[1..] {
        mail(&mut po, NOW, "GO", full(*id, 1, 1));
    }
    let effects = mail(&mut po, NOW, "GO", completed(worker(1)));
    assert_eq!(requests(&effects).len(), 1, "one at a time");
    let due = po.next_deadline().unwrap();
    assert_eq!(due, NOW + LIMIT_BELIEVED);
    assert!(requests(&po.step(BusTime(due.0 - 1), Input::Tick)).is_empty());
    assert_eq!(requests(&po.step(due, Input::Tick)).len(), 2, "the mode may be another by now");
    assert_eq!(po.next_deadline(), None, "no timer is left behind");
}

#[test]
fn pending_plan_update_causes_no_request_loop() {
    for reason in [DenialReason::NodeNotAssignable, DenialReason::ToolNotAllowed] {
        let mut po = po();
        let asked = requests(&learn(&mut po, queued(1)));
        let refused = MailBody::SpawnAnswer(denied(asked[0].0, reason));
        let effects = mail(&mut po, NOW, "GO", refused);
        assert_eq!(requests(&effects).len(), 0, "{reason}");
    }
}

#[test]
fn waits_grow_and_reset_on_admission() {
    let mut po = po();
    let mut now = NOW;
    let mut asked = requests(&learn(&mut po, queued(1)));
    let mut waits = Vec::new();
    for _ in 0..10 {
        let refused = denied(asked[0].0, DenialReason::NoHostAvailable);
        mail(&mut po, now, "GO", MailBody::SpawnAnswer(refused));
        let due = po.next_deadline().unwrap();
        waits.push((due - now).0);
        now = due;
        asked = requests(&po.step(now, Input::Tick));
    }
    assert_eq!(waits, [250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]);
    mail(&mut po, now, "GO", accepted(asked[0].0, worker(1), "T1.1"));
    assert_eq!(po.next_deadline(), None);
}

#[test]
fn budget_refusal_is_retried_while_somebody_works() {
    let mut po = po();
    let asked = requests(&learn(&mut po, queued(2)));
    mail(&mut po, NOW, "GO", accepted(asked[0].0, worker(1), "T1.1"));
    let refused = |request| MailBody::SpawnAnswer(denied(request, DenialReason::BudgetExceeded));
    let effects = mail(&mut po, NOW, "GO", refused(asked[1].0));
    assert_eq!(said(&effects), Vec::<&Op>::new());
    mail(&mut po, NOW, "GO", completed(worker(1)));
    let due = po.next_deadline().unwrap();
    let again = requests(&po.step(due, Input::Tick));
    for (id, _) in &again {
        let effects = mail(&mut po, due, "GO", refused(*id));
        assert_eq!(said(&effects).len(), 1, "nobody is left who could give anything back");
    }
}

#[test]
fn inactive_goal_requests_nothing() {
    for goal in [GoalStatus::Paused, GoalStatus::Cancelled, GoalStatus::Archived] {
        let mut po = po();
        let event = PlanEvent { goal, ..queued(2) };
        assert_eq!(requests(&learn(&mut po, event)).len(), 0, "{goal}");
    }
    let mut po = po();
    assert_eq!(requests(&learn(&mut po, queued(2))).len(), 2);
    let older = PlanEvent { goal: GoalStatus::Paused, ..queued(2) };
    learn(&mut po, older);
    assert!(po.epics[&epic()].is_active(), "an event of a version that is known says nothing");
}
