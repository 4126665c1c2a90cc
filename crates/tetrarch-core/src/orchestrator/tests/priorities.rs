//! What people and the overseer say of urgency decides who is staffed first when slots are scarce, and
//! nothing else does.

use super::*;
use crate::priority::Priority;

fn said(user: u32) -> Priorities {
    Priorities { user: Some(Priority::new(user).unwrap()), overseer: None }
}

fn queued(ids: &[&str]) -> Vec<NodeView> {
    ids.iter().map(|id| view(id, NodeStatus::Queued)).collect()
}

/// The nodes that are asked for, in their order.
fn asked(effects: &[Effect]) -> Vec<String> {
    requests(effects).iter().map(|(_, request)| request.node.unwrap().to_string()).collect()
}

fn staffed(event: PlanEvent) -> Vec<String> {
    asked(&learn(&mut po(), event))
}

const FIVE: [&str; 5] = ["T1.1", "T1.2", "T1.3", "T1.4", "T1.5"];

#[test]
fn default_order_is_the_plans_order() {
    let mut views = queued(&FIVE);
    views.push(view("T1.6", NodeStatus::Done));
    let mut event = plan(1, views);
    // The fifth scores the most: it alone ends a chain.
    event.definitions[4].depends_on = vec!["T1.6".parse().unwrap()];
    assert_eq!(staffed(event.clone()), ["T1.1", "T1.2", "T1.3"]);
    event.nodes[0].priorities = said(50);
    assert_eq!(staffed(event), ["T1.5", "T1.1", "T1.2"], "one word makes the score count");
}

#[test]
fn urgent_work_comes_first_and_low_work_last() {
    let mut event = plan(1, queued(&FIVE));
    event.nodes[3].priorities = said(100);
    event.nodes[0].priorities = said(0);
    assert_eq!(staffed(event), ["T1.4", "T1.2", "T1.3"], "equals stay in the plan's order");
}

#[test]
fn review_precedes_urgent_work() {
    let mut views = queued(&["T1.1", "T1.2", "T1.3"]);
    views.push(NodeView { purpose: Purpose::Review, ..view("T1.4", NodeStatus::InProgress) });
    views[2].priorities = said(100);
    let mut event = plan(1, views);
    let domain = Domain::new("quality").unwrap();
    event.definitions[3].review = Some(Review { domain, profile: None });
    assert_eq!(staffed(event), ["T1.4", "T1.3", "T1.1"]);
}

/// Two epics of two nodes each; the second one's goal is this urgent.
fn two(urgent: Option<u32>) -> Vec<(EpicId, String)> {
    let mut po = po();
    let other = EpicId(Ulid(8));
    po.step(NOW, Input::TakeOn(other));
    // No slot is free until both are known.
    let limit = denied(RequestId(Ulid(1)), DenialReason::ChildrenLimitExceeded);
    po.pending.insert(RequestId(Ulid(1)), (other, "T9.9".parse().unwrap()));
    mail(&mut po, NOW, "GO", MailBody::SpawnAnswer(limit));
    let nodes = || queued(&["T1.1", "T1.2"]);
    let second = PlanEvent {
        epic: other,
        priorities: urgent.map(said).unwrap_or_default(),
        ..plan(1, nodes())
    };
    let mut effects = learn(&mut po, plan(1, nodes()));
    effects.extend(learn(&mut po, second));
    assert_eq!(requests(&effects), []);
    let effects = po.step(NOW + Millis::from_secs(60), Input::Tick);
    let found = requests(&effects).into_iter();
    found.map(|(_, request)| (request.epic, request.node.unwrap().to_string())).collect()
}

#[test]
fn more_urgent_goal_is_staffed_first() {
    let pair = |epic, node: &str| (EpicId(Ulid(epic)), node.to_owned());
    let as_ever = [pair(7, "T1.1"), pair(7, "T1.2"), pair(8, "T1.1")];
    assert_eq!(two(None), as_ever);
    assert_eq!(two(Some(50)), as_ever, "normal is what counts where nobody said anything");
    assert_eq!(two(Some(75)), [pair(8, "T1.1"), pair(8, "T1.2"), pair(7, "T1.1")]);
    assert_eq!(two(Some(25)), as_ever);
}
