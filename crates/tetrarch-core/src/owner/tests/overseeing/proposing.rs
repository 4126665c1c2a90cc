//! What the overseer proposes by itself: once, to whom it may concern, and never more than that.

use serde_json::{Value, json};

use super::silence;
use crate::goal::GoalStatus;
use crate::id::{AgentId, EpicId, Principal};
use crate::ledger::Entry;
use crate::limits::CRITERIA_MAX;
use crate::mail::MailBody;
use crate::overseer::Telemetry;
use crate::owner::Input;
use crate::owner::tests::fleet::{Fleet, human, plan_of, task};
use crate::plan::proposal::{DraftStatus, DraftVerdict, Proposal};
use crate::priority::Priority;
use crate::request::Op;
use crate::request::goals::{GoalOp, GoalVerb};
use crate::request::planning::PlanOp;
use crate::request::work::{WorkOp, WorkVerb};
use crate::time::{BusTime, Millis};

/// A task that asks for more than one agent shows at once.
fn large(id: &str) -> Value {
    let criteria: Vec<String> = (0..=CRITERIA_MAX).map(|n| format!("c{n}")).collect();
    task(id, json!({"acceptance": criteria}))
}

fn proposing(tasks: &[Value]) -> (Fleet, EpicId) {
    let (mut fleet, epic) = Fleet::with_goal(plan_of(tasks));
    fleet.policy.proposes = true;
    (fleet, epic)
}

fn look(fleet: &mut Fleet) -> Entry {
    fleet.one(Input::Oversee(silence()))
}

fn drafts(fleet: &Fleet, epic: EpicId) -> Vec<Proposal> {
    fleet.records.drafts.get(&epic).into_iter().flatten().map(|(_, one)| one.clone()).collect()
}

fn decide(fleet: &mut Fleet, draft: &Proposal, verdict: DraftVerdict) {
    let (epic, draft) = (draft.epic, draft.id);
    let op = PlanOp::Decide { epic, draft, verdict, reason: "so be it".to_owned() };
    let reply = fleet.op(&human(), Op::Plan(op));
    assert_eq!(reply.error, None, "{}", reply.detail);
}

#[test]
fn nothing_is_proposed_unless_enabled() {
    let (mut fleet, _) = Fleet::with_goal(plan_of(&[large("T1.1")]));
    assert_eq!(look(&mut fleet).records, []);
}

#[test]
fn second_look_proposes_nothing_twice() {
    let (mut fleet, epic) = proposing(&[large("T1.1"), large("T1.2")]);
    let version = fleet.version(epic);
    let entry = look(&mut fleet);
    let [draft] = drafts(&fleet, epic).try_into().unwrap();
    assert_eq!((draft.author, draft.status), (Principal::Agent(AgentId::Go), DraftStatus::Open));
    assert_eq!((draft.base_version, fleet.version(epic)), (version, version), "it is as it was");
    assert!(entry.plans.is_empty());
    assert_eq!(entry.reviews[0].asks[0].draft, Some(draft.id));
    let told: Vec<_> = entry.mail.iter().filter(|mail| mail.to == human()).collect();
    let [mail] = told.as_slice() else { panic!("{told:?}") };
    assert!(matches!(&mail.body, MailBody::ReviewNeeded { reason } if reason.contains("T1.1")));

    assert_eq!(look(&mut fleet).records, [], "at the same moment");
    fleet.now = fleet.now + Millis::from_secs(60);
    assert_eq!(look(&mut fleet).records, [], "while one is open there is no other");
}

#[test]
fn rejected_proposal_is_not_repeated() {
    let (mut fleet, epic) = proposing(&[large("T1.1"), large("T1.2")]);
    for left in [1, 0] {
        fleet.now = fleet.now + Millis::from_secs(60);
        look(&mut fleet);
        let all = drafts(&fleet, epic);
        let open = all.iter().find(|draft| draft.status == DraftStatus::Open).unwrap();
        decide(&mut fleet, &open.clone(), DraftVerdict::Reject);
        assert_eq!(all.len(), 2 - left, "the other task is next");
    }
    fleet.now = fleet.now + Millis::from_secs(60);
    assert_eq!(look(&mut fleet).records, []);
}

#[test]
fn approved_proposal_leaves_nothing_to_propose() {
    let (mut fleet, epic) = proposing(&[large("T1.1")]);
    look(&mut fleet);
    let [draft] = drafts(&fleet, epic).try_into().unwrap();
    decide(&mut fleet, &draft, DraftVerdict::Approve);
    assert_eq!(drafts(&fleet, epic)[0].status, DraftStatus::Approved);
    assert!(fleet.records.nodes[&epic].contains_key(&"S1.1.2".parse().unwrap()));
    fleet.now = fleet.now + Millis::from_secs(60);
    assert_eq!(look(&mut fleet).records, []);
}

#[test]
fn only_changed_plans_are_examined() {
    let (mut fleet, epic) = proposing(&[large("T1.1")]);
    let changed = fleet.records.plans[&epic].updated;
    let looked = |at| Input::Oversee(Telemetry { looked: at, ..silence() });
    assert_eq!(fleet.one(looked(BusTime(changed.0 + 1))).records, []);
    assert_eq!(fleet.one(looked(changed)).records.len(), 1);
}

#[test]
fn inactive_goal_gets_no_proposals() {
    for (verb, status) in
        [(GoalVerb::Pause, GoalStatus::Paused), (GoalVerb::Cancel, GoalStatus::Cancelled)]
    {
        let (mut fleet, epic) = proposing(&[large("T1.1")]);
        fleet.op(&human(), Op::Goal(GoalOp { epic, verb, reason: String::new() }));
        assert_eq!(fleet.records.goal_states[&epic].status, status);
        assert_eq!(look(&mut fleet).records, []);
    }
}

#[test]
fn work_in_progress_is_not_proposed_for_change() {
    let (mut fleet, epic) = proposing(&[large("T1.1")]);
    fleet.worker(epic, "T1.1");
    assert_eq!(look(&mut fleet).records, []);
}

#[test]
fn best_recommended_work_is_put_first_once_and_only_where_nobody_said_so() {
    let after = |id: &str, on: &str| task(id, json!({"deps": [on]}));
    // Most of what is left waits for the second task.
    let plan = [
        task("T1.1", json!({})),
        task("T1.2", json!({})),
        after("T1.3", "T1.2"),
        after("T1.4", "T1.2"),
    ];
    for (said, put) in [(None, 1), (Some(50), 0)] {
        let (mut fleet, epic) = proposing(&plan);
        if let Some(number) = said {
            let priorities = vec![("T1.1".parse().unwrap(), Some(Priority::new(number).unwrap()))];
            let verb = WorkVerb::Reprioritise { priorities, reason: String::new() };
            fleet.op(&human(), Op::Work(WorkOp { epic, verb }));
        }
        let entry = look(&mut fleet);
        assert_eq!(entry.events.len(), put, "{entry:?}");
        let state = fleet.node(epic, "T1.2");
        assert_eq!(state.priorities.overseer, (put == 1).then_some(Priority::HIGH));
        fleet.now = fleet.now + Millis::from_secs(60);
        assert_eq!(look(&mut fleet).records, [], "it was said");
    }
}
