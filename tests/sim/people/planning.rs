//! People change plans and goals while they are worked on (spec 05, Plan events): what they see may be old,
//! and what they want may be impossible.

use serde_json::json;
use tetrarch_core::brief::Evidence;
use tetrarch_core::error::ErrorCode;
use tetrarch_core::goal::GoalStatus;
use tetrarch_core::id::{EpicId, NodeId, Tier};
use tetrarch_core::mail::OpReply;
use tetrarch_core::plan::change::NewNode;
use tetrarch_core::plan::proposal::{DraftStatus, DraftVerdict};
use tetrarch_core::plan::schema::{one_task, parse_new};
use tetrarch_core::plan::{NodeStatus, graph};
use tetrarch_core::priority::Priority;
use tetrarch_core::request::goals::{GoalOp, GoalVerb};
use tetrarch_core::request::planning::{Addition, Merging, PlanMode, PlanOp, Splitting, Wanted};
use tetrarch_core::request::work::{Completion, WorkOp, WorkVerb};
use tetrarch_core::request::{Op, RequestBody};

use super::People;
use crate::wire::Reach;

/// What it is called once it is made, and the operation that asks for it.
type Asked = (&'static str, Op);

impl People {
    /// Changes something about a goal or its plan.
    pub(crate) fn change_plan(&mut self, epic: EpicId, reach: &mut Reach<'_>) {
        let asked = match reach.dice.below(14) {
            0 | 1 => add(epic, PlanMode::Apply, reach),
            2 | 3 => split(epic, reach),
            4 | 5 => merge(epic, reach),
            6 => drop_one(epic, reach),
            7 => add(epic, PlanMode::Draft, reach),
            8 | 9 => decide(epic, reach).or_else(|| add(epic, PlanMode::Draft, reach)),
            10 => complete(epic, reach),
            11 => reprioritise(epic, reach),
            _ => goal(epic, reach),
        };
        if let Some((what, op)) = asked {
            let id = self.ask(RequestBody::Op(op), reach);
            self.changes.insert(id, what);
        }
    }

    /// Whatever was paused goes on.
    pub(crate) fn resume_all(&mut self, reach: &mut Reach<'_>) {
        for epic in self.goals.clone() {
            let op = Op::Goal(GoalOp { epic, verb: GoalVerb::Resume, reason: String::new() });
            self.ask(RequestBody::Op(op), reach);
        }
    }
}

/// Notes what came of a change.
pub(super) fn answered(what: &'static str, reply: &OpReply, reach: &mut Reach<'_>) {
    match reply.error {
        None => reach.tally.note(what),
        Some(ErrorCode::Conflict) => reach.tally.note("change refused: conflict"),
        Some(ErrorCode::InvalidPlan) => reach.tally.note("change refused: not valid"),
        Some(_) => {}
    }
}

/// A draft of one more node, as an orchestrator proposes it.
pub(crate) fn proposal(epic: EpicId, reach: &mut Reach<'_>) -> Option<Op> {
    add(epic, PlanMode::Draft, reach).map(|(_, op)| op)
}

/// A change of the plan as it was some versions ago.
fn wanted<C>(epic: EpicId, mode: PlanMode, what: C, reach: &mut Reach<'_>) -> Option<Wanted<C>> {
    let version = reach.truth.plans.get(&epic)?.version;
    let back = u32::try_from(reach.dice.below(4)).unwrap_or(0);
    Some(Wanted {
        epic,
        mode,
        base_version: Some(version.saturating_sub(back).max(1)),
        reason: "it is better so".to_owned(),
        replaces: None,
        what: Ok(what),
    })
}

fn new_node(parent: NodeId, id: Option<NodeId>, deps: &[NodeId]) -> NewNode {
    let deps: Vec<String> = deps.iter().map(ToString::to_string).collect();
    let mut node = json!({"name": "more", "acceptance": ["it holds"], "maxAttempts": 10});
    node["deps"] = json!(deps);
    if let Some(id) = id {
        node["id"] = json!(id.to_string());
    }
    parse_new(&node, parent).expect("it is a node").remove(0)
}

/// The leaves that stand at one of these.
fn leaves(epic: EpicId, at: &[NodeStatus], reach: &Reach<'_>) -> Vec<NodeId> {
    let states = reach.truth.node_states.get(&epic).into_iter().flatten();
    states.filter(|(_, state)| at.contains(&state.status)).map(|(id, _)| *id).collect()
}

const FREE: [NodeStatus; 3] = [NodeStatus::Todo, NodeStatus::Queued, NodeStatus::Blocked];

fn add(epic: EpicId, mode: PlanMode, reach: &mut Reach<'_>) -> Option<Asked> {
    let nodes = reach.truth.nodes.get(&epic)?;
    let phases: Vec<NodeId> = nodes.keys().copied().filter(|id| id.parent().is_none()).collect();
    let parent = *reach.dice.pick(&phases)?;
    let known: Vec<NodeId> =
        nodes.keys().copied().filter(|id| id.parent() == Some(parent)).collect();
    // An id that is taken, now and then.
    let taken = if reach.dice.percent(15) { reach.dice.pick(&known).copied() } else { None };
    // Much moves meanwhile, so that few of those that are proposed could be made if they waited for something.
    let waits = if mode == PlanMode::Draft { 10 } else { 40 };
    let dep = if reach.dice.percent(waits) { reach.dice.pick(&known).copied() } else { None };
    let node = new_node(parent, taken, dep.as_slice());
    let what = match mode {
        PlanMode::Apply => "plan changed: node added",
        PlanMode::Draft => "draft kept",
    };
    let wanted = wanted(epic, mode, Box::new(Addition { parent, node }), reach)?;
    Some((what, Op::Plan(PlanOp::Add(wanted))))
}

fn split(epic: EpicId, reach: &mut Reach<'_>) -> Option<Asked> {
    let tasks = leaves(epic, &NodeStatus::ALL, reach);
    let tasks: Vec<NodeId> = tasks.into_iter().filter(|id| id.tier() == Tier::Task).collect();
    let node = *reach.dice.pick(&tasks)?;
    let count = reach.dice.range(1, 3);
    let subtasks = (0..count).map(|_| new_node(node, None, &[])).collect();
    let wanted = wanted(epic, PlanMode::Apply, Splitting { node, subtasks }, reach)?;
    Some(("plan changed: task split", Op::Plan(PlanOp::Split(wanted))))
}

fn merge(epic: EpicId, reach: &mut Reach<'_>) -> Option<Asked> {
    let free = leaves(epic, &FREE, reach);
    let first = *reach.dice.pick(&free)?;
    let beside = |id: &NodeId| id.parent() == first.parent() && *id != first;
    let others: Vec<NodeId> = free.into_iter().filter(beside).collect();
    let other = *reach.dice.pick(&others)?;
    let nodes = vec![first, other];
    let merging = Merging { nodes, name: String::new(), objective: String::new() };
    let wanted = wanted(epic, PlanMode::Apply, merging, reach)?;
    Some(("plan changed: leaves merged", Op::Plan(PlanOp::Merge(wanted))))
}

/// The whole plan without one of its leaves.
fn drop_one(epic: EpicId, reach: &mut Reach<'_>) -> Option<Asked> {
    let nodes = reach.truth.nodes.get(&epic)?;
    let gone = *reach.dice.pick(&graph::leaves(nodes))?;
    let kept = nodes.values().filter(|node| node.id != gone).cloned().collect();
    let output = reach.truth.plans.get(&epic)?.output;
    let plan =
        Box::new(tetrarch_core::plan::schema::PlanFile { nodes: kept, output, ..one_task("goal") });
    let wanted = wanted(epic, PlanMode::Apply, plan, reach)?;
    Some(("plan changed: node dropped", Op::Plan(PlanOp::Plan(wanted))))
}

fn decide(epic: EpicId, reach: &mut Reach<'_>) -> Option<Asked> {
    let drafts = reach.truth.drafts.get(&epic)?;
    let open = drafts.values().filter(|draft| draft.status == DraftStatus::Open);
    let open: Vec<_> = open.map(|draft| draft.id).collect();
    let draft = *reach.dice.pick(&open)?;
    let (what, verdict) = *reach.dice.pick(&[
        ("draft approved", DraftVerdict::Approve),
        ("draft approved", DraftVerdict::Approve),
        ("draft sent back", DraftVerdict::Refine),
        ("draft rejected", DraftVerdict::Reject),
    ])?;
    let reason = "as it is".to_owned();
    Some((what, Op::Plan(PlanOp::Decide { epic, draft, verdict, reason })))
}

fn complete(epic: EpicId, reach: &mut Reach<'_>) -> Option<Asked> {
    let all = leaves(epic, &NodeStatus::ALL, reach);
    let node = *reach.dice.pick(&all)?;
    // Without anything to show, now and then.
    let shown = if reach.dice.percent(85) { "seen to be done" } else { "" };
    let done = Completion {
        node,
        crystallization: shown.to_owned(),
        evidence: Evidence::default(),
        reason: "I did it".to_owned(),
    };
    let verb = WorkVerb::Complete(Box::new(done));
    Some(("called done by a human", Op::Work(WorkOp { epic, verb })))
}

fn reprioritise(epic: EpicId, reach: &mut Reach<'_>) -> Option<Asked> {
    let free = leaves(epic, &FREE, reach);
    let node = *reach.dice.pick(&free)?;
    let priority = Priority::new(u32::try_from(reach.dice.below(101)).ok()?).ok();
    let verb = WorkVerb::Reprioritise { priorities: vec![(node, priority)], reason: String::new() };
    Some(("priorities said", Op::Work(WorkOp { epic, verb })))
}

fn goal(epic: EpicId, reach: &mut Reach<'_>) -> Option<Asked> {
    let status = reach.truth.goal_states.get(&epic)?.status;
    let (what, verb) = match status {
        GoalStatus::Active if reach.dice.percent(8) => {
            ("goal cancelled by a human", GoalVerb::Cancel)
        }
        GoalStatus::Active => ("goal paused", GoalVerb::Pause),
        GoalStatus::Paused => ("goal resumed", GoalVerb::Resume),
        GoalStatus::Completed | GoalStatus::Cancelled => ("goal put away", GoalVerb::Archive),
        GoalStatus::Archived => return None,
    };
    Some((what, Op::Goal(GoalOp { epic, verb, reason: String::new() })))
}
