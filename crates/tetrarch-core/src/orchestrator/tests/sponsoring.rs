//! Specialists' requests, and results that are read or collected.

use super::*;
use crate::mail::Spawned;

fn specialist() -> AgentId {
    AgentId::Specialist(Domain::new("api").unwrap(), Ulid(9))
}

fn works() -> PlanEvent {
    let assignee = Some(specialist());
    plan(1, vec![NodeView { assignee, ..view("T1.1", NodeStatus::InProgress) }])
}

fn wanted() -> MailBody {
    let wanted = SpawnRequest {
        epic: epic(),
        node: None,
        parent: None,
        requested_by: None,
        reason: "help".to_owned(),
        caller_depth: Some(2),
        caller_max_depth: Some(3),
        caller_local_max_depth: Some(3),
        subagents: Vec::new(),
        ack_required: false,
        wait: false,
    };
    MailBody::Sponsor(SponsorRequest { request: RequestId(Ulid(5)), wanted })
}

fn from_specialist(po: &mut Orchestrator) -> Vec<Effect> {
    mail(po, NOW, &specialist().to_string(), wanted())
}

fn relayed(effects: &[Effect]) -> Vec<(String, SpawnAnswer)> {
    let mail = |effect: &Effect| {
        if let Effect::Mail(mail) = effect
            && let MailBody::SponsorAnswer(answer) = &mail.body
        {
            return Some((mail.to.to_string(), answer.clone()));
        }
        None
    };
    effects.iter().filter_map(mail).collect()
}

#[track_caller]
fn assert_forwarded(effects: &[Effect]) {
    let forwarded = requests(effects);
    assert_eq!(forwarded.len(), 1, "{effects:?}");
    let (id, request) = &forwarded[0];
    assert_eq!(*id, RequestId(Ulid(5)), "under the same id");
    assert_eq!(request.parent, Some(specialist()));
    assert_eq!(request.requested_by, Some(specialist().into()));
    assert_eq!(request.caller_depth, None, "the claims were the specialist's own");
    assert!(request.ack_required, "the answer has to be passed on");
}

#[test]
fn worker_on_an_open_epic_is_sponsored() {
    let mut po = po();
    learn(&mut po, works());
    assert_forwarded(&from_specialist(&mut po));
    assert_forwarded(&from_specialist(&mut po));
}

#[test]
fn request_of_a_stranger_is_refused() {
    let mut po = po();
    learn(&mut po, plan(1, vec![view("T1.1", NodeStatus::Done)]));
    let told = relayed(&from_specialist(&mut po));
    assert_eq!((told.len(), told[0].0.clone()), (1, specialist().to_string()));
    assert_eq!(told[0].1.reason, "unauthorized");
    let mut po = super::po();
    learn(&mut po, PlanEvent { goal: GoalStatus::Paused, ..works() });
    assert_eq!(relayed(&from_specialist(&mut po)).len(), 1, "the goal is paused");
    let mut nobody = Orchestrator::new("PO-a".parse().unwrap(), SessionId(Ulid(1)));
    assert_eq!(relayed(&from_specialist(&mut nobody)).len(), 1, "an epic it does not work on");
}

#[test]
fn sponsored_request_waits_for_the_plan() {
    let mut po = po();
    assert_eq!(from_specialist(&mut po), [], "the plan is on its way");
    assert_forwarded(&learn(&mut po, works()));
}

#[test]
fn admission_counts_before_the_plan_shows_it() {
    let mut po = po();
    let asked = requests(&learn(&mut po, plan(1, vec![view("T1.1", NodeStatus::Queued)])));
    let spawned = Spawned {
        agent: specialist(),
        session: SessionId(Ulid(8)),
        epoch: 1,
        depth: 2,
        node: "T1.1".parse().unwrap(),
        host: crate::id::HostName::new("h").unwrap(),
    };
    let accepted = SpawnAnswer { spawned: vec![spawned], ..answer(asked[0].0, "PO-a") };
    mail(&mut po, NOW, "GO", MailBody::SpawnAnswer(accepted));
    assert_forwarded(&from_specialist(&mut po));
}

#[test]
fn refusal_without_parent_is_passed_on() {
    let mut po = po();
    learn(&mut po, works());
    from_specialist(&mut po);
    let refused = SpawnAnswer { parent: None, ..answer(RequestId(Ulid(5)), "PO-a") };
    let told = relayed(&mail(&mut po, NOW, "GO", MailBody::SpawnAnswer(refused)));
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].0, specialist().to_string());
}

fn result(agent: AgentId, text: &str) -> MailBody {
    let mut result = RunResult::ended(Outcome::Success, "");
    result.deliverable = text.to_owned();
    MailBody::ResultReady(Box::new(ResultReady {
        agent,
        node: "T1.1".parse().unwrap(),
        run: crate::id::RunId(Ulid(6)),
        result,
        verdict: None,
    }))
}

fn reported(effects: &[Effect]) -> Vec<String> {
    let report = |effect: &Effect| {
        if let Effect::Report(report) = effect
            && let Report::Result { result, .. } = &**report
        {
            return Some(result.deliverable.clone());
        }
        None
    };
    effects.iter().filter_map(report).collect()
}

fn reached(version: u32) -> PlanEvent {
    PlanEvent {
        goal: GoalStatus::Completed,
        output: Some("T1.1".parse().unwrap()),
        definitions: Vec::new(),
        ..plan(version, vec![view("T1.1", NodeStatus::Done)])
    }
}

#[test]
fn reviewer_output_is_not_the_works_output() {
    let mut po = po();
    learn(&mut po, plan(1, vec![view("T1.1", NodeStatus::InProgress)]));
    mail(&mut po, NOW, "GO", result(AgentId::Worker(Ulid(1)), "the work"));
    let reviewer = AgentId::Reviewer(Domain::new("quality").unwrap(), Ulid(2));
    mail(&mut po, NOW, "GO", result(reviewer, "the verdict"));
    assert_eq!(reported(&learn(&mut po, reached(2))), ["the work"]);
}

#[test]
fn input_of_an_earlier_session_is_collected_again() {
    let mut po = po();
    let unknown = PlanEvent {
        definitions: Vec::new(),
        ..plan(1, vec![view("T1.1", NodeStatus::InProgress)])
    };
    assert_eq!(learn(&mut po, unknown), [Effect::Collect(epic())]);
    // Whose result it is cannot be told without the definition.
    mail(&mut po, NOW, "GO", result(AgentId::Worker(Ulid(1)), "early"));
    assert_eq!(po.step(NOW, Input::Tick), [], "it is asked for once");
    let collected = |nodes, results| Input::Collected { epic: epic(), plan: None, nodes, results };
    assert_eq!(po.step(NOW, collected(Vec::new(), Vec::new())), []);
    let due = po.next_deadline().unwrap();
    assert_eq!(po.step(due, Input::Tick), [Effect::Collect(epic())], "STATE lagged behind");
    assert_eq!(po.step(due, collected(vec![node("T1.1")], Vec::new())), []);
    assert_eq!(po.next_deadline(), None);

    let effects = po.step(due, Input::Plan(Box::new(reached(2))));
    assert_eq!(effects, [Effect::Collect(epic())], "also after it was complete once");
    let found = Collected { deliverable: "found".to_owned(), artifacts: Vec::new() };
    let effects = po.step(due, collected(Vec::new(), vec![("T1.1".parse().unwrap(), found)]));
    assert_eq!(reported(&effects), ["found"]);
}

#[test]
fn oversized_assembly_names_its_parts() {
    let mut po = po();
    learn(&mut po, plan(1, vec![view("T1.1", NodeStatus::InProgress)]));
    let large = "x".repeat(crate::limits::DELIVERABLE_BYTES_MAX + 1);
    mail(&mut po, NOW, "GO", result(AgentId::Worker(Ulid(1)), &large));
    let told = reported(&learn(&mut po, reached(2)));
    assert!(told[0].len() < 100 && told[0].contains("T1.1"), "{told:?}");
}
