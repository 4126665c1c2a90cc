//! Work under the hands of people and agents (spec 05, Plan events and Status machines): a leaf is
//! called done, tried again, said to be urgent. What is only told of work is in `telling`.

mod completing;
mod telling;

use crate::error::{ErrorCode, Refusal};
use crate::goal::Goal;
use crate::id::{AgentId, EpicId, NodeId, Principal};
use crate::ledger::{EventKind, Record};
use crate::limits::{INSTRUCTION_BYTES_MAX, LIST_MAX, TEXT_BYTES_MAX};
use crate::mail::OpReply;
use crate::plan::advice::of_leaves;
use crate::plan::{DEPENDS, ESCALATED, NodeChange, NodeState, NodeStatus, PlanReason, graph};
use crate::priority::{Priority, Voice};
use crate::request::Request;
use crate::request::work::{WorkOp, WorkVerb};
use crate::step::Draft;

use super::goals::{fits, known, voice_of};
use super::{Policy, overseeing, questions};

pub(super) use telling::Answer;

const RULE: &str = "05 Status machines";

/// Does what is asked, or tells it.
///
/// # Errors
/// No such goal or node, not the sender's to decide, or not from where the node stands.
pub(super) fn operate(
    draft: &mut Draft<'_>,
    policy: &Policy,
    request: &Request,
    op: &WorkOp,
    reply: OpReply,
) -> Result<OpReply, Refusal> {
    let epic = op.epic;
    let goal = known(draft, epic)?.clone();
    let sender = sender_of(draft, request, &goal)?;
    let reply = OpReply { epic: Some(epic), ..reply };
    let told = |data| Ok(OpReply { data: Some(data), ..reply.clone() });
    match &op.verb {
        WorkVerb::Complete(done) => {
            let detail = completing::complete(draft, policy, (epic, &sender), done)?;
            Ok(OpReply { detail, ..reply })
        }
        WorkVerb::Unblock { node, note } => {
            unblock(draft, (epic, *node), &sender, note)?;
            Ok(OpReply { detail: format!("{node} is queued again"), ..reply })
        }
        WorkVerb::Reprioritise { priorities, reason } => {
            let count = reprioritise(draft, epic, &sender, priorities, reason)?;
            Ok(OpReply { detail: format!("{count} leaves changed"), ..reply })
        }
        WorkVerb::List { status, page } => told(telling::list(draft, epic, *status, *page)),
        WorkVerb::Insights { page } => told(telling::insights(draft, epic, *page)),
        WorkVerb::Recommend { limit } => told(telling::recommended(draft, epic, *limit)),
    }
}

/// Who asks, as far as a goal's work is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Sender {
    /// A human, GO, or the orchestrator of the goal's project: decides on any of its work.
    Decides(Principal),
    /// Another agent of the project: only on its own.
    Works(AgentId),
}

impl Sender {
    /// Who decides.
    fn deciding(&self, what: &str) -> Result<&Principal, Refusal> {
        match self {
            Self::Decides(who) => Ok(who),
            Self::Works(agent) => {
                let detail = format!("{agent} may not {what}; only its project's orchestrator may");
                Err(Refusal::new(ErrorCode::Unauthorized, detail))
            }
        }
    }
}

fn sender_of(draft: &Draft<'_>, request: &Request, goal: &Goal) -> Result<Sender, Refusal> {
    let from = &request.sender.from;
    let Principal::Agent(id) = from else { return Ok(Sender::Decides(from.clone())) };
    let agent = super::current(draft, &request.sender)?;
    if *id == AgentId::Go || *id == AgentId::Po(goal.project.clone()) {
        return Ok(Sender::Decides(from.clone()));
    }
    if agent.project.as_ref() == Some(&goal.project) {
        return Ok(Sender::Works(id.clone()));
    }
    let detail = format!("{id} does not work on {}", goal.project);
    Err(Refusal::new(ErrorCode::Unauthorized, detail))
}

/// A leaf's state.
fn leaf(draft: &Draft<'_>, epic: EpicId, id: NodeId) -> Result<NodeState, Refusal> {
    if let Some(state) = draft.node_state(epic, id) {
        return Ok(state.clone());
    }
    let (code, detail) = if draft.node(epic, id).is_some() {
        let why = "its status follows from its children";
        (ErrorCode::Conflict, format!("{id} is not a leaf: {why}"))
    } else {
        (ErrorCode::NotFound, format!("{epic} has no node {id}"))
    };
    Err(Refusal::new(code, detail))
}

/// Refuses where nothing more is done for the goal.
fn still_open(draft: &Draft<'_>, epic: EpicId) -> Result<(), Refusal> {
    match draft.goal_state(epic).filter(|state| state.status.is_closed()) {
        Some(state) => {
            let detail = format!("{epic} is {}; its work is over", state.status);
            Err(Refusal::new(ErrorCode::Conflict, detail))
        }
        None => Ok(()),
    }
}

/// Puts a blocked leaf back in the queue. A question that people are asked about it is theirs to
/// answer, in this way or in words.
fn unblock(
    draft: &mut Draft<'_>,
    (epic, id): (EpicId, NodeId),
    sender: &Sender,
    note: &str,
) -> Result<(), Refusal> {
    let by = sender.deciding("unblock work")?;
    fits("note", note, INSTRUCTION_BYTES_MAX)?;
    still_open(draft, epic)?;
    let state = leaf(draft, epic, id)?;
    let Some(blocker) = state.blocker.filter(|_| state.status == NodeStatus::Blocked) else {
        let detail = format!("{id} is {}; only a blocked node can be unblocked", state.status);
        return Err(Refusal::new(ErrorCode::Conflict, detail));
    };
    if blocker.kind == DEPENDS {
        let detail = format!("{id} waits for its dependencies; change the plan to remove them");
        return Err(Refusal::new(ErrorCode::Conflict, detail));
    }
    if blocker.kind == ESCALATED && by.agent().is_some() {
        let detail = format!("people are asked about {id}: it waits for {}", blocker.needs);
        return Err(Refusal::new(ErrorCode::Unauthorized, detail));
    }
    let why = format!("{by} unblocked it");
    questions::withdraw_escalated(draft, epic, Some(id), &why);
    let said = (!note.is_empty()).then(|| format!("{by}: {note}"));
    overseeing::try_again(draft, (epic, id), &why, said);
    Ok(())
}

/// Notes how urgent nodes are, as the sender sees it; gives how many leaves changed.
fn reprioritise(
    draft: &mut Draft<'_>,
    epic: EpicId,
    sender: &Sender,
    priorities: &[(NodeId, Option<Priority>)],
    reason: &str,
) -> Result<usize, Refusal> {
    let by = sender.deciding("set the priority of work")?.clone();
    fits("reason", reason, TEXT_BYTES_MAX)?;
    still_open(draft, epic)?;
    if priorities.is_empty() || priorities.len() > LIST_MAX {
        let detail = format!("priorities: {} entries; allowed: 1 to {LIST_MAX}", priorities.len());
        return Err(Refusal::new(ErrorCode::InvalidPlan, detail));
    }
    let mut meant = Vec::new();
    for (id, priority) in priorities {
        meant.extend(open_below(draft, epic, *id)?.into_iter().map(|leaf| (leaf, *priority)));
    }
    let mut changed = 0;
    for (leaf, priority) in meant {
        let Some(state) = draft.node_state(epic, leaf).cloned() else { continue };
        let said = state.priorities.with(voice_of(&by), priority);
        if said != state.priorities {
            changed += 1;
            put_priority(draft, epic, NodeState { priorities: said, ..state }, priority, reason);
        }
    }
    Ok(changed)
}

/// The unsettled leaves that a node stands for.
fn open_below(draft: &Draft<'_>, epic: EpicId, id: NodeId) -> Result<Vec<NodeId>, Refusal> {
    let nodes = draft.nodes(epic);
    if !nodes.contains_key(&id) {
        return Err(Refusal::new(ErrorCode::NotFound, format!("{epic} has no node {id}")));
    }
    let below = graph::leaves(&nodes).into_iter().filter(|leaf| graph::is_within(*leaf, id));
    let open = |leaf: &NodeId| {
        draft.node_state(epic, *leaf).is_some_and(|state| !state.status.is_settled())
    };
    let open: Vec<NodeId> = below.filter(open).collect();
    if open.is_empty() {
        let detail = format!("{id} is settled; its priority cannot change");
        return Err(Refusal::new(ErrorCode::Conflict, detail));
    }
    Ok(open)
}

/// Puts the best recommended work first, where nobody has said what is urgent and the plan's order would put other
/// work first.
pub(super) fn put_best_first(draft: &mut Draft<'_>, epic: EpicId) {
    let leaves = telling::leaves(draft, epic);
    if leaves.values().any(|leaf| leaf.priorities.is_set()) {
        return;
    }
    let best = of_leaves(&draft.nodes(epic), &leaves, draft.now);
    let ready = || best.iter().filter(|best| best.ready).map(|best| best.name);
    let Some(first) = ready().next().filter(|first| Some(*first) != ready().min()) else { return };
    let Some(state) = draft.node_state(epic, first).cloned() else { return };
    let said = Some(Priority::HIGH);
    let priorities = state.priorities.with(Voice::Overseer, said);
    put_priority(
        draft,
        epic,
        NodeState { priorities, ..state },
        said,
        "it is recommended before the rest",
    );
}

fn put_priority(
    draft: &mut Draft<'_>,
    epic: EpicId,
    state: NodeState,
    priority: Option<Priority>,
    reason: &str,
) {
    let voice = voice_of(&draft.actor);
    let said = priority.map_or_else(|| "none".to_owned(), |said| said.to_string());
    let why = format!("{} priority {said}", voice.as_str());
    let words = if reason.is_empty() { why.clone() } else { format!("{why}: {reason}") };
    let event = draft.event(EventKind::NodePriority, "05 Insights", words);
    event.epic = Some(epic);
    event.node = Some(state.id);
    let (node, status) = (state.id, state.status);
    draft.put(Record::NodeState(epic, Box::new(state)));
    let change = NodeChange { node, from: Some(status), to: status, why };
    draft.touch(epic, PlanReason::ManualOverride).changes.push(change);
}
