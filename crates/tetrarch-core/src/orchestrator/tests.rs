//! What a project orchestrator does about what it learns: staffing within its slots, waiting,
//! sponsoring, putting results together.

mod priorities;
mod refusals;
mod sponsoring;

use super::*;
use crate::goal::GoalResult;
use crate::id::{CommitId, Domain, PlanId, ProjectName, Ulid};
use crate::plan::schema::one_task;
use crate::plan::{NodeView, PlanReason, PlanSource, Review};
use crate::priority::Priorities;
use crate::request::TaskWish;

const NOW: BusTime = BusTime(1_000_000);

fn epic() -> EpicId {
    EpicId(Ulid(7))
}

fn po() -> Orchestrator {
    let mut po = Orchestrator::new("PO-a".parse().unwrap(), SessionId(Ulid(1)));
    assert_eq!(po.step(NOW, Input::TakeOn(epic())), [Effect::Watch(epic())]);
    po
}

fn node(id: &str) -> Node {
    let mut node = one_task("work").nodes.pop().unwrap();
    node.id = id.parse().unwrap();
    node.name = format!("node {id}");
    node.objective = format!("do {id}");
    node
}

fn view(id: &str, status: NodeStatus) -> NodeView {
    NodeView {
        id: id.parse().unwrap(),
        title: id.to_owned(),
        status,
        assignee: None,
        purpose: Purpose::Execute,
        attempts: 0,
        findings: Vec::new(),
        priorities: Priorities::default(),
        created: BusTime(0),
    }
}

fn plan(version: u32, nodes: Vec<NodeView>) -> PlanEvent {
    PlanEvent {
        epic: epic(),
        plan: PlanId(Ulid(3)),
        project: ProjectName::new("a").unwrap(),
        version,
        source: PlanSource::Overseer,
        reason: PlanReason::InitialCreate,
        changes: Vec::new(),
        definitions: nodes.iter().map(|view| node(&view.id.to_string())).collect(),
        full: true,
        nodes,
        folded: Vec::new(),
        counts: Default::default(),
        title: "goal".to_owned(),
        output: None,
        goal: GoalStatus::Active,
        percent: 0,
        result: None,
        priorities: Priorities::default(),
        trace: None,
        at: NOW,
    }
}

fn requests(effects: &[Effect]) -> Vec<(RequestId, SpawnRequest)> {
    let request = |effect: &Effect| {
        if let Effect::Request { id, request, .. } = effect {
            Some((*id, (**request).clone()))
        } else {
            None
        }
    };
    effects.iter().filter_map(request).collect()
}

fn learn(po: &mut Orchestrator, event: PlanEvent) -> Vec<Effect> {
    po.step(NOW, Input::Plan(Box::new(event)))
}

fn mail(po: &mut Orchestrator, now: BusTime, from: &str, body: MailBody) -> Vec<Effect> {
    let mail = Mail {
        to: "PO-a".parse().unwrap(),
        epic: Some(epic()),
        correlation: None,
        cause: CommitId(Ulid(1)).to_string(),
        ack_required: false,
        trace: None,
        body,
    };
    po.step(now, Input::Mail { from: from.parse().unwrap(), mail: Box::new(mail) })
}

fn answer(request: RequestId, parent: &str) -> SpawnAnswer {
    SpawnAnswer {
        epic: Some(epic()),
        request: Some(request),
        parent: Some(parent.parse().unwrap()),
        ..SpawnAnswer::default()
    }
}

fn denied(request: RequestId, reason: DenialReason) -> SpawnAnswer {
    let denied = Denied {
        index: 0,
        role: Role::Worker,
        reason,
        limit: Some(3),
        current: Some(3),
        detail: "because".to_owned(),
    };
    SpawnAnswer { denied: vec![denied], ..answer(request, "PO-a") }
}

#[test]
fn three_slots_are_filled_with_ready_leaves() {
    let mut po = po();
    let queued = |id| view(id, NodeStatus::Queued);
    let nodes = ["P1", "T1.1", "T1.2", "S1.2.1", "S1.2.2", "T1.3"].map(queued).to_vec();
    let asked = requests(&learn(&mut po, plan(1, nodes)));
    let ids: Vec<String> =
        asked.iter().map(|(_, request)| request.node.unwrap().to_string()).collect();
    assert_eq!(ids, ["T1.1", "S1.2.1", "S1.2.2"], "leaves only, in the plan's order");
    assert!(requests(&po.step(NOW, Input::Tick)).is_empty(), "nothing is asked for twice");
}

#[test]
fn work_waiting_for_review_comes_first() {
    let mut po = po();
    let queued = |id| view(id, NodeStatus::Queued);
    let mut nodes = ["T1.1", "T1.2", "T1.3"].map(queued).to_vec();
    nodes.push(NodeView { purpose: Purpose::Review, ..view("T1.4", NodeStatus::InProgress) });
    let mut event = plan(1, nodes);
    let domain = Domain::new("quality").unwrap();
    event.definitions[3].review = Some(Review { domain, profile: None });
    let asked = requests(&learn(&mut po, event));
    assert_eq!(asked.len(), 3);
    let first = &asked[0].1;
    assert_eq!(first.node, Some("T1.4".parse().unwrap()));
    assert_eq!(first.subagents[0].role, Role::Reviewer);
}

#[test]
fn transient_refusal_is_retried_after_its_wait() {
    let mut po = po();
    let asked = requests(&learn(&mut po, plan(1, vec![view("T1.1", NodeStatus::Queued)])));
    let refusal = denied(asked[0].0, DenialReason::NoHostAvailable);
    let effects = mail(&mut po, NOW, "GO", MailBody::SpawnAnswer(refusal));
    assert!(requests(&effects).is_empty(), "not at once");
    let due = po.next_deadline().unwrap();
    assert!(due > NOW);
    assert!(requests(&po.step(BusTime(due.0 - 1), Input::Tick)).is_empty(), "not before");
    let again = requests(&po.step(due, Input::Tick));
    assert_eq!(again.len(), 1);
    assert_ne!(again[0].0, asked[0].0, "a denial is final: it is another request");
}

#[test]
fn refusal_is_retried_at_once_after_a_change_notice() {
    for (from, asks) in [("GO", 1), ("HO@h1", 0)] {
        let mut po = po();
        let asked = requests(&learn(&mut po, plan(1, vec![view("T1.1", NodeStatus::Queued)])));
        let refusal = denied(asked[0].0, DenialReason::CircuitOpen);
        mail(&mut po, NOW, "GO", MailBody::SpawnAnswer(refusal));
        let text = "your circuit is closed".to_owned();
        let effects = mail(&mut po, NOW, from, MailBody::Info { text });
        assert_eq!(requests(&effects).len(), asks, "{from}");
    }
}

#[test]
fn permanent_refusal_blocks_the_node() {
    let mut po = po();
    let asked = requests(&learn(&mut po, plan(1, vec![view("T1.1", NodeStatus::Queued)])));
    let refusal = denied(asked[0].0, DenialReason::ToolNotAllowed);
    let effects = mail(&mut po, NOW, "GO", MailBody::SpawnAnswer(refusal));
    let blocked = effects.iter().any(|effect| {
        matches!(effect, Effect::Op { op, .. }
            if matches!(&**op, Op::WorkBlock { node, blocker, .. }
                if node.to_string() == "T1.1" && blocker.kind == "tool_not_allowed"))
    });
    assert!(blocked, "{effects:?}");
}

#[test]
fn specialist_answer_is_passed_on_by_any_incarnation() {
    let mut po = po();
    let specialist = format!("S:api:{}", Ulid(9));
    let passed = answer(RequestId(Ulid(5)), &specialist);
    let effects = mail(&mut po, NOW, "GO", MailBody::SpawnAnswer(passed.clone()));
    let relayed = effects.iter().find_map(|effect| {
        if let Effect::Mail(mail) = effect { Some((**mail).clone()) } else { None }
    });
    let relayed = relayed.unwrap();
    assert_eq!(relayed.to.to_string(), specialist);
    assert_eq!(relayed.body, MailBody::SponsorAnswer(passed));
}

#[test]
fn reached_goal_is_assembled_once_from_what_is_there() {
    let mut po = po();
    let mut event = plan(1, vec![view("T1.1", NodeStatus::Done)]);
    event.goal = GoalStatus::Completed;
    let effects = learn(&mut po, event.clone());
    assert!(effects.contains(&Effect::Collect(epic())), "the result was not seen: read it");
    let collected =
        |results| Input::Collected { epic: epic(), plan: None, nodes: Vec::new(), results };
    assert!(po.step(NOW, collected(Vec::new())).is_empty(), "STATE lags behind");
    let due = po.next_deadline().unwrap();
    assert_eq!(po.step(due, Input::Tick), [Effect::Collect(epic())]);
    let found = Collected { deliverable: "42".to_owned(), artifacts: Vec::new() };
    let effects = po.step(due, collected(vec![("T1.1".parse().unwrap(), found)]));
    let reported: Vec<&Report> = effects
        .iter()
        .filter_map(|e| if let Effect::Report(report) = e { Some(&**report) } else { None })
        .collect();
    let [Report::Result { epic: Some(of), result, .. }] = reported[..] else {
        panic!("{effects:?}");
    };
    assert_eq!(*of, epic());
    assert!(result.deliverable.contains("42"));
    event.version = 2;
    assert!(learn(&mut po, event).is_empty(), "not twice");
}

#[test]
fn finished_epic_is_dropped() {
    let told = |goal, result: Option<&str>| {
        let mut po = po();
        let mut event = plan(1, vec![view("T1.1", NodeStatus::Cancelled)]);
        event.goal = goal;
        event.result = result.map(|deliverable| GoalResult {
            summary: String::new(),
            deliverable: deliverable.to_owned(),
            artifacts: Vec::new(),
        });
        learn(&mut po, event).contains(&Effect::Leave(epic()))
    };
    assert!(!told(GoalStatus::Active, None));
    assert!(!told(GoalStatus::Paused, None));
    assert!(!told(GoalStatus::Completed, None), "its result is not recorded");
    assert!(told(GoalStatus::Completed, Some("42")));
    assert!(told(GoalStatus::Cancelled, None));
    assert!(told(GoalStatus::Archived, None));
}

/// A changed plan is staffed as it is now: what is new and ready, and what was refused as it was
/// defined before; not what was given up.
#[test]
fn changed_plan_is_staffed_as_it_is_now() {
    let mut po = po();
    let nodes = |first, second| vec![view("P1", first), view("T1.1", first), view("T1.2", second)];
    let asked = requests(&learn(&mut po, plan(1, nodes(NodeStatus::Queued, NodeStatus::Todo))));
    let refused = answer_with(&asked[0], DenialReason::NoHostAvailable);
    assert!(requests(&mail(&mut po, NOW, "GO", refused)).is_empty(), "it waits");

    let mut changed = nodes(NodeStatus::Queued, NodeStatus::Cancelled);
    changed.push(view("T1.3", NodeStatus::Queued));
    let mut event = PlanEvent { reason: PlanReason::Replan, ..plan(2, changed) };
    let other = Node { objective: "do it otherwise".to_owned(), ..node("T1.1") };
    event.definitions = vec![other, node("T1.3")];
    let asked = requests(&learn(&mut po, event));
    let wanted: Vec<(String, TaskWish)> = asked
        .iter()
        .map(|(_, request)| (request.node.unwrap().to_string(), request.subagents[0].task.clone()))
        .collect();
    let task = |text: &str| TaskWish::Task(text.to_owned());
    let expected = [("T1.1", task("do it otherwise")), ("T1.3", task("do T1.3"))];
    assert_eq!(wanted, expected.map(|(id, task)| (id.to_owned(), task)));
}

fn answer_with((request, _): &(RequestId, SpawnRequest), reason: DenialReason) -> MailBody {
    MailBody::SpawnAnswer(denied(*request, reason))
}

#[test]
fn a_plan_that_tells_what_changed_goes_on_from_the_version_before_it() {
    let mut po = po();
    learn(&mut po, plan(1, vec![view("T1.1", NodeStatus::Done), view("T1.2", NodeStatus::Todo)]));
    let mut event = plan(2, vec![view("T1.2", NodeStatus::Queued)]);
    (event.full, event.folded) = (false, vec!["T1.1".parse().unwrap()]);
    assert_eq!(requests(&learn(&mut po, event)).len(), 1, "the rest is as it was");
    let known = &po.epics[&epic()];
    let ids: Vec<NodeId> = known.plan.iter().flat_map(|it| &it.nodes).map(|it| it.id).collect();
    assert_eq!(ids, ["T1.2".parse().unwrap()]);
    assert_eq!(known.nodes.len(), 1, "what left the plan is forgotten");
}

#[test]
fn plan_with_a_missing_version_is_read_from_state_and_continues() {
    let mut po = po();
    let part = |version, status| {
        let mut event = plan(version, vec![view("T1.2", status)]);
        (event.full, event.definitions) = (false, Vec::new());
        event
    };
    assert_eq!(learn(&mut po, part(7, NodeStatus::Blocked)), [Effect::Collect(epic())]);
    assert_eq!(learn(&mut po, part(8, NodeStatus::Queued)), [], "it is asked for once");
    let state = |version| {
        let nodes = vec![view("T1.1", NodeStatus::Done), view("T1.2", NodeStatus::Todo)];
        let whole = plan(version, nodes);
        let nodes = whole.definitions.clone();
        let whole = Some(Box::new(PlanEvent { definitions: Vec::new(), ..whole }));
        Input::Collected { epic: epic(), plan: whole, nodes, results: Vec::new() }
    };
    assert_eq!(po.step(NOW, state(5)), [], "STATE lags behind");
    let due = po.next_deadline().unwrap();
    assert_eq!(po.step(due, Input::Tick), [Effect::Collect(epic())]);
    let effects = po.step(due, state(6));
    let asked = requests(&effects);
    assert_eq!(asked.len(), 1, "{effects:?}");
    assert_eq!(asked[0].1.node, Some("T1.2".parse().unwrap()), "as the last event has it");
    assert_eq!(po.epics[&epic()].plan.as_ref().map(|plan| plan.version), Some(8));
}
