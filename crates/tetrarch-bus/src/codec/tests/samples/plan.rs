//! Nodes, their states, and events of plans.

use tetrarch_core::assignment::Purpose;
use tetrarch_core::budget::Limits;
use tetrarch_core::goal::{GoalResult, GoalStatus};
use tetrarch_core::intensity::Failures;
use tetrarch_core::plan::rollup::NodeCounts;
use tetrarch_core::plan::{
    Node, NodeChange, NodeResult, NodeState, NodeStatus, NodeView, PlacementWish, PlanEvent,
    PlanReason, PlanSource, Review, RiskLevel,
};
use tetrarch_core::priority::{Priorities, Priority};
use tetrarch_core::role::Role;
use tetrarch_core::time::{BusTime, Millis};

use super::{TRACE, artifact, blocker, dispatch, id, limits, placement, result, words};

pub(super) fn node(full: bool) -> Node {
    Node {
        id: id("S1.2.3"),
        name: "n".to_owned(),
        objective: "o".to_owned(),
        acceptance: words("a"),
        expected_outcome: "e".to_owned(),
        estimated_effort: "an hour".to_owned(),
        risk_level: full.then_some(RiskLevel::High),
        definition_of_done: "d".to_owned(),
        depends_on: if full { vec![id("P1"), id("T1.1")] } else { Vec::new() },
        role: Role::Reviewer,
        domain: full.then(|| id("api")),
        profile: full.then(|| id("default")),
        tools: words("t").into_iter().collect(),
        key_facts: words("k"),
        output_schema: full.then(|| "{}".to_owned()),
        scope_paths: words("s"),
        budget: if full { limits() } else { Limits::default() },
        wall: full.then_some(Millis(1)),
        max_attempts: 2,
        review: full.then(|| Review { domain: id("api"), profile: Some(id("strict")) }),
        placement: if full { placement() } else { PlacementWish::default() },
        recovery: if full { dispatch::policy() } else { Default::default() },
        added: if full { 1 } else { 0 },
        defined: if full { 4 } else { 0 },
        spawned: full,
    }
}

pub(super) fn node_state(full: bool) -> NodeState {
    NodeState {
        id: id("S1.2.3"),
        status: NodeStatus::InProgress,
        assignee: full.then(|| id("W:~")),
        assignment: full.then(|| id("asg_~")),
        purpose: if full { Purpose::Review } else { Purpose::Execute },
        attempts: 1,
        findings: words("f"),
        blocker: full.then(blocker),
        result: full.then(|| NodeResult {
            run: Some(id("run_~")),
            deliverable: "d".to_owned(),
            artifacts: vec![artifact()],
            evidence: result().evidence,
            crystallization: "c".to_owned(),
        }),
        since: BusTime(3),
        failures: Failures::new(if full { vec![BusTime(3)] } else { Vec::new() }),
        latest: full.then(|| id("asg_~")),
        begun: if full { 3 } else { 0 },
        settled: if full { 4 } else { 0 },
        priorities: priorities(full),
        created: BusTime(2),
        started: full.then_some(BusTime(3)),
    }
}

pub(super) fn priorities(full: bool) -> Priorities {
    let said = |number| full.then(|| Priority::new(number).unwrap());
    Priorities { user: said(80), overseer: said(0) }
}

pub(super) fn goal_result() -> GoalResult {
    GoalResult { summary: "s".to_owned(), deliverable: "d".to_owned(), artifacts: vec![artifact()] }
}

pub(in super::super) fn plan_event(full: bool) -> PlanEvent {
    let view = NodeView {
        id: id("T1.2"),
        title: "t".to_owned(),
        status: NodeStatus::Blocked,
        assignee: full.then(|| id("W:~")),
        purpose: Purpose::Execute,
        attempts: 1,
        findings: words("f"),
        priorities: priorities(full),
        created: BusTime(2),
    };
    let change = NodeChange {
        node: id("T1.2"),
        from: full.then_some(NodeStatus::Queued),
        to: NodeStatus::InProgress,
        why: "w".to_owned(),
    };
    PlanEvent {
        epic: id("goal_~"),
        plan: id("plan_~"),
        project: id("demo"),
        version: 4,
        source: PlanSource::Human,
        reason: PlanReason::GuardViolation,
        changes: vec![change],
        full: !full,
        nodes: vec![view],
        folded: if full { vec![id("T1.1")] } else { Vec::new() },
        counts: if full {
            NodeCounts { todo: 1, queued: 2, in_progress: 3, blocked: 4, done: 5, cancelled: 6 }
        } else {
            NodeCounts::default()
        },
        definitions: vec![node(full)],
        title: if full { "t".to_owned() } else { String::new() },
        output: full.then(|| id("T1.2")),
        goal: GoalStatus::Active,
        percent: 100,
        result: full.then(goal_result),
        priorities: priorities(full),
        trace: full.then(|| TRACE.to_owned()),
        at: BusTime(u64::MAX),
    }
}
