//! Who pays for what the planner is asked, and what becomes of what cannot be paid (docs/decisions/0059).

use serde_json::json;

use super::consulting::{TOOK, a_plan, nodes, only, oversee, planner, propose, told, wish};
use super::fleet::{Fleet, create, human, plan_of, po, project, task};
use crate::agent::{Mode, Project};
use crate::budget::{Limits, Spend};
use crate::converse::cost::Price;
use crate::ledger::EventKind;
use crate::liveness::Liveness;
use crate::owner::Input;
use crate::planner::{Planner, Planning, PlanningStatus, metering};
use crate::request::{Op, ProjectCreate, Report};

/// A planner that costs a micro-dollar for a token.
fn dear() -> Planner {
    let price = Some(Price { input: 1_000_000, output: 1_000_000, cached: 0 });
    Planner { price, ..planner() }
}

/// A fleet whose project may spend so much, with a planner.
fn granted(budget: Limits) -> Fleet {
    let mut fleet = Fleet::new();
    fleet.join("h1", "life1", 20);
    fleet.op(&human(), Op::ProjectCreate(ProjectCreate { budget, ..create(false) }));
    fleet.report(&po(), Report::Ready);
    fleet.policy.planner = Some(dear());
    fleet
}

fn tokens(tokens: u64) -> Limits {
    Limits { tokens: Some(tokens), ..Limits::default() }
}

/// The question that a goal without a plan leads to, where everything can be paid.
fn question() -> Planning {
    let mut fleet = granted(Limits::default());
    fleet.op(&human(), wish());
    only(&fleet).clone()
}

fn worst(calls: u32) -> Spend {
    metering::worst(&dear(), &question(), calls)
}

#[test]
fn planning_cost_is_reserved_and_its_usage_booked() {
    let plenty = Limits { tokens: Some(1_000_000), cost_micro: Some(1_000_000), turns: Some(9) };
    let mut fleet = granted(plenty);
    fleet.op(&human(), wish());
    let asked = only(&fleet).clone();
    assert_eq!((asked.calls, asked.set_aside), (3, worst(3)));
    let account = fleet.agent(&po()).account;
    assert_eq!((account.reserved, account.spent), (worst(3), Spend::default()));

    let entry = propose(&mut fleet, asked.id, Some(&a_plan().to_string()));
    let took = Spend { tokens: 150, cost_micro: 150, turns: 2 };
    let account = fleet.agent(&po()).account;
    assert_eq!((account.reserved, account.spent), (Spend::default(), took));
    let kept = only(&fleet);
    assert_eq!((kept.set_aside, kept.used), (Spend::default(), took));
    let [why] = told(&entry, EventKind::PlannerAnswered).try_into().unwrap();
    assert!(why.contains("150 tokens, 150 millionths"), "{why}");
    propose(&mut fleet, asked.id, Some(&a_plan().to_string()));
    assert_eq!(fleet.agent(&po()).account.spent, took, "it is paid once");
}

#[test]
fn unlimited_account_pays_without_reserving() {
    let mut fleet = granted(Limits::default());
    fleet.op(&human(), wish());
    let asked = only(&fleet).clone();
    assert_eq!((asked.calls, asked.set_aside), (3, Spend::default()));
    assert_eq!(fleet.agent(&po()).account.reserved, Spend::default());
    propose(&mut fleet, asked.id, None);
    assert_eq!(fleet.agent(&po()).account.spent.tokens, TOOK.input + TOOK.output);
}

#[test]
fn answers_are_limited_by_the_budget() {
    let free = Limits::default();
    let rows = [
        (tokens(worst(3).tokens), 3),
        (tokens(worst(3).tokens - 1), 2),
        (tokens(worst(2).tokens), 2),
        (tokens(worst(2).tokens - 1), 1),
        (tokens(worst(1).tokens), 1),
        (tokens(worst(1).tokens - 1), 0),
        (Limits { turns: Some(2), ..free }, 2),
        (Limits { turns: Some(0), ..free }, 0),
        (Limits { cost_micro: Some(worst(1).cost_micro), ..free }, 1),
        (Limits { cost_micro: Some(worst(1).cost_micro - 1), ..free }, 0),
    ];
    for (budget, calls) in rows {
        let mut fleet = granted(budget);
        let reply = fleet.op(&human(), wish());
        let asked = only(&fleet).clone();
        assert_eq!(asked.calls, calls, "{budget:?}");
        if calls > 0 {
            assert_eq!((asked.status, reply.version), (PlanningStatus::Asked, None));
            continue;
        }
        assert_eq!((asked.status, reply.version), (PlanningStatus::Refused, Some(1)));
        assert!(asked.reason.starts_with("not asked: the account of PO-demo"), "{}", asked.reason);
        assert!(asked.reason.contains("budget_exceeded: "), "{}", asked.reason);
        assert_eq!(nodes(&fleet, reply.epic.unwrap()), ["P1", "T1.1"], "the goal is one task");
        assert_eq!(fleet.agent(&po()).account.reserved, Spend::default());
        let events = fleet.ledger.iter().flat_map(|entry| &entry.events);
        let told = events.filter(|event| event.kind == EventKind::PlannerAnswered);
        assert_eq!(told.filter(|event| event.agent == Some(po())).count(), 1, "`why` tells it");
    }
}

#[test]
fn reservation_of_a_dead_owner_counts_as_spent_and_is_repeated() {
    for (budget, again) in [
        (2 * worst(3).tokens, Some(3)),
        (2 * worst(3).tokens - 1, Some(2)),
        (worst(3).tokens, None),
    ] {
        let mut fleet = granted(tokens(budget));
        let epic = fleet.op(&human(), wish()).epic.unwrap();
        let asked = only(&fleet).clone();
        fleet.one(Input::AskAgain(asked.id));
        let (account, kept) = (fleet.agent(&po()).account, only(&fleet).clone());
        assert_eq!(account.spent, asked.set_aside, "nobody knows what it took");
        assert_eq!(kept.used, asked.set_aside);
        let Some(calls) = again else {
            assert_eq!(
                (kept.status, account.reserved),
                (PlanningStatus::Refused, Spend::default())
            );
            assert!(kept.problems[0].starts_with("not asked: "), "{:?}", kept.problems);
            assert_eq!(nodes(&fleet, epic), ["P1", "T1.1"]);
            assert_eq!(fleet.one(Input::AskAgain(asked.id)).records, [], "it is answered");
            continue;
        };
        assert_eq!((kept.status, kept.calls), (PlanningStatus::Asked, calls));
        assert_eq!(account.reserved, kept.set_aside);
        propose(&mut fleet, asked.id, Some(&a_plan().to_string()));
        let spent = fleet.agent(&po()).account.spent.tokens;
        assert_eq!(spent, asked.set_aside.tokens + TOOK.input + TOOK.output);
    }
}

#[test]
fn unaffordable_split_moves_the_ladder_on_at_once() {
    let mut fleet = granted(tokens(600));
    let epic = fleet.goal(plan_of(&[task("T1.1", json!({"maxAttempts": 2}))]));
    let worker = fleet.worker(epic, "T1.1");
    for _ in 0..fleet.policy.overseer.max_retries {
        oversee(&mut fleet);
    }
    let entry = oversee(&mut fleet);
    let whys = told(&entry, EventKind::Recovery);
    assert!(
        whys.iter().any(|why| why.starts_with("reassign: not asked: the account of PO-demo")),
        "{whys:?}"
    );
    assert_eq!(fleet.agent(&worker).liveness, Liveness::Terminated);
    assert_eq!(only(&fleet).status, PlanningStatus::Refused);
}

#[test]
fn reservation_of_an_ending_orchestrator_counts_as_spent() {
    let mut fleet = granted(tokens(worst(3).tokens));
    fleet.op(&human(), wish());
    let asked = only(&fleet).clone();
    fleet.op(&human(), Op::ProjectRetire { project: project() });
    let account = fleet.agent(&po()).account;
    assert_eq!((account.reserved, account.spent), (Spend::default(), asked.set_aside));
    propose(&mut fleet, asked.id, Some(&a_plan().to_string()));
    assert_eq!(only(&fleet).status, PlanningStatus::Dropped);
    assert_eq!(fleet.agent(&po()).account.spent, asked.set_aside, "it is paid once");
}

#[test]
fn orchestrator_begun_anew_keeps_its_projects_budget_mode_and_fencing() {
    let mut fleet = granted(tokens(600));
    fleet.goal(plan_of(&[task("T1.1", json!({}))]));
    let project_of = |fleet: &mut Fleet, op| {
        assert_eq!(fleet.op(&human(), op).error, None);
        let again = Op::ProjectCreate(create(false));
        assert_eq!(fleet.op(&human(), again).error, None);
        (fleet.agent(&po()).account.limit, fleet.records.projects[&project()].clone())
    };
    fleet.op(&human(), Op::ProjectMode { project: project(), mode: Mode::Tight });
    let known = Project { fencing: 7, ..fleet.records.projects[&project()].clone() };
    fleet.records.projects.insert(project(), known);
    let stop = Op::AgentRetire { agent: po(), reason: "enough".to_owned() };
    let (limit, kept) = project_of(&mut fleet, stop);
    assert_eq!((limit, kept.mode, kept.fencing), (tokens(600), Mode::Tight, 7));
    let retire = Op::ProjectRetire { project: project() };
    let (limit, kept) = project_of(&mut fleet, retire);
    assert_eq!((limit, kept.mode, kept.fencing), (Limits::default(), Mode::Orchestrator, 7));
}
