//! Records before and after an entry: only legal transitions, terminal is final, nothing that
//! only grows ever falls, a slot is freed by its child's end (spec 10, invariants 2, 3, 5, 6, 10,
//! 18). An entry may hold several steps, so any legal path between the two images will do.

use std::fmt::Display;

use crate::agent::{Agent, Mode};
use crate::assignment::{Assignment, AssignmentStatus};
use crate::budget::{Counter, Spend};
use crate::crystallization::Crystallization;
use crate::dispatch::{Dispatch, DispatchOutcome};
use crate::goal::GoalStatus;
use crate::graph::GraphRecord;
use crate::id::{AgentId, EpicId};
use crate::ledger::{Entry, EventKind, Record, RecordKey};
use crate::liveness::Liveness;
use crate::plan::proposal::DraftStatus;
use crate::plan::{Node, NodeState, NodeStatus};
use crate::planner::{Planning, PlanningStatus};
use crate::question::QuestionStatus;
use crate::records::Records;
use crate::reservation::Reservation;
use crate::run::{RunEvent, RunState, RunStatus};

use super::tree::is_live;
use super::{Findings, folding, gate};

/// Looks at every record that an entry changes.
pub(super) fn check(before: &Records, entry: &Entry, found: &mut Findings) {
    for record in &entry.records {
        match record {
            Record::Agent(agent) => {
                let old = before.agents.get(&agent.id);
                slots(before, entry, old, agent, found);
                if let Some(old) = old {
                    one_agent(old, agent, found);
                    grant(entry, old, agent, found);
                }
            }
            Record::RunStatus(status) => {
                let old = before.run_status.get(&status.id);
                run(old, status, found);
            }
            Record::Run(run) => {
                let same = before.runs.get(&run.id).is_none_or(|old| old == &**run);
                found.must(same, 10, &run.id, "a run's definition changed");
            }
            Record::Assignment(new) => {
                assignment(before, new, found);
                if let Some(launch) = &new.launch {
                    dispatch(before, launch, found);
                }
            }
            Record::Dispatch(new) => dispatch(before, new, found),
            Record::Question(question) => {
                let old = before.questions.get(&question.id);
                let kept =
                    old.is_none_or(|old| old.status == QuestionStatus::Open || old == &**question);
                found.must(kept, 10, &question.id, "it was answered or withdrawn, and changed");
            }
            Record::Node(epic, new) => definition(before, *epic, new, found),
            Record::Change(new) => gate::one_change(before, new, found),
            Record::Reservation(new) => reservation(before, new, found),
            Record::Planning(new) => planning(before, new, found),
            Record::NodeState(epic, state) => node(before, *epic, state, found),
            Record::Draft(draft) => {
                let old = before.drafts.get(&draft.epic).and_then(|all| all.get(&draft.id));
                let kept = old.is_none_or(|old| old.status == DraftStatus::Open || *old == **draft);
                found.must(kept, 10, &draft.id, "it was decided on, and changed");
            }
            Record::GoalState(state) => {
                let old = before.goal_states.get(&state.id);
                let old = old.map_or(GoalStatus::Active, |state| state.status);
                let to = |from: GoalStatus, to: GoalStatus| from.to(to).is_ok();
                reachable(&state.id, &GoalStatus::ALL, old, state.status, to, found);
            }
            Record::Snapshot(new) => {
                let old = before.snapshot.as_ref().map_or(0, |old| old.through);
                let (through, seq) = (new.through, found.seq.unwrap_or(u64::MAX));
                let what = format_args!("it goes up to {through}, the one before it up to {old}");
                found.must(old < through && through < seq, 20, &"snapshot", what);
            }
            Record::Crystallization(it) => handed_over(before, it, found),
            Record::Schedule(_) | Record::QueuedSpawn(_) => waiting(before, record, found),
            Record::Turn(_) | Record::Graph(_) | Record::Note(_) => talked(before, record, found),
            Record::Plan(plan) => folding::check(before, entry, plan, found),
            Record::Host(_)
            | Record::Project(_)
            | Record::Profile(..)
            | Record::Goal(_)
            | Record::Decision(_) => {}
        }
    }
    gate::orders(before, entry, found);
    entry.dropped.iter().for_each(|key| forgotten(before, entry, key, found));
}

/// Turns go on, and graphs and notes get new versions; a note may be written anew after it was deleted.
fn talked(before: &Records, record: &Record, found: &mut Findings) {
    if let Record::Turn(new) = record {
        let goes_on = before
            .turns
            .get(&new.id)
            .is_none_or(|old| old.moved <= new.moved && (!old.status.is_over() || *old == **new));
        found.must(goes_on, 10, &new.id, "it had ended, or was moved back");
    }
    if let Record::Note(new) = record {
        let old = before.notes.get(&(new.project.clone(), new.name.clone()));
        let rises = new.version == 1 || old.is_none_or(|old| old.version < new.version);
        found.must(rises, 13, &new.name, "its version did not rise");
    }
    if let Record::Graph(new) = record {
        let old = before.graphs.get(&(new.project.clone(), new.name.clone()));
        let latest = |it: &GraphRecord| it.versions.last().map_or(0, |it| it.version);
        let rises = old.map_or(0, latest) < latest(new);
        found.must(rises, 13, &new.name, "its version did not rise");
    }
}

/// Firings are counted, and a place in a queue is one request's, of which fewer and fewer wait.
fn waiting(before: &Records, record: &Record, found: &mut Findings) {
    if let Record::Schedule(new) = record {
        let old = before.schedules.get(&new.id);
        let grows = old.is_none_or(|old| old.fired <= new.fired && old.last <= new.last);
        found.must(grows, 10, &new.id, "its firings were uncounted");
    }
    if let Record::QueuedSpawn(new) = record {
        let old = before.queued_spawns.get(&(new.parent.clone(), new.place));
        let shrinks = old.is_none_or(|old| {
            let all = new.waiting.iter().all(|waiting| old.has(waiting.index));
            old.request == new.request && all
        });
        found.must(shrinks, 10, &new.request, "somebody waits anew in its place");
    }
}

fn handed_over(before: &Records, it: &Crystallization, found: &mut Findings) {
    let known = before.goals.contains_key(&it.epic);
    found.must(known, 13, &it.id, "something is handed over of a goal that is not known");
}

fn reservation(before: &Records, new: &Reservation, found: &mut Findings) {
    let last = before.projects.get(&new.project).map_or(0, |project| project.fencing);
    let grows = before.reservations.contains_key(&new.id) || new.fencing > last;
    found.must(grows, 5, &new.id, "its number was given before");
}

fn forgotten(before: &Records, entry: &Entry, key: &RecordKey, found: &mut Findings) {
    if let RecordKey::Agent(id) = key {
        let live = before.agents.get(id).is_some_and(is_live);
        found.must(!live, 5, id, "it is forgotten before it ended");
    }
    forgotten_work(before, entry, key, found);
}

/// Whether some legal path leads from one state to another; notes the pair when none does.
pub(super) fn reachable<S: Copy + PartialEq + Display>(
    subject: &dyn Display,
    all: &[S],
    from: S,
    to: S,
    legal: impl Fn(S, S) -> bool,
    found: &mut Findings,
) {
    if from == to {
        return;
    }
    let mut seen = vec![from];
    let mut next = 0;
    while let Some(at) = seen.get(next).copied() {
        next += 1;
        for state in all {
            if !seen.contains(state) && legal(at, *state) {
                seen.push(*state);
            }
        }
    }
    found.must(seen.contains(&to), 10, subject, format_args!("{from} -> {to}: no legal path"));
}

fn one_agent(old: &Agent, new: &Agent, found: &mut Findings) {
    let id = &new.id;
    found.must(
        new.epoch >= old.epoch,
        6,
        id,
        format_args!("epoch {} follows {}", new.epoch, old.epoch),
    );
    let moved = (&new.parent, new.depth) != (&old.parent, old.depth);
    found.must(!moved, 1, id, "it has another parent or another depth");
    let again = old.liveness == Liveness::Terminated;
    if new.epoch == old.epoch {
        let waits = again && new.session.is_none();
        let same = new.session == old.session || waits;
        found.must(same, 6, id, format_args!("epoch {} has two sessions", new.epoch));
        if !waits {
            let to = |from: Liveness, to: Liveness| from.to(to).is_ok();
            reachable(id, &Liveness::ALL, old.liveness, new.liveness, to, found);
        }
    } else {
        let other = new.session != old.session;
        found.must(other, 6, id, format_args!("epoch {} keeps the session before", new.epoch));
    }
    if again {
        return;
    }
    let (was, is) = (old.account.used_in_all(), new.account.used_in_all());
    let fell = is.tokens < was.tokens || is.cost_micro < was.cost_micro || is.turns < was.turns;
    found.must(!fell, 18, id, format_args!("{is:?} is spent, it was {was:?}"));
    for counter in Counter::ALL {
        let drew = new.account.drawn.of(counter) > old.account.drawn.of(counter);
        let meter = new.account.meter(counter);
        let fits = meter.limit.is_none_or(|limit| meter.spent + meter.reserved <= limit);
        found.must(!drew || fits, 18, id, format_args!("it drew more {counter} than were free"));
    }
    let loosened = new.local_max_depth > old.local_max_depth && *id != AgentId::Go;
    found.must(!loosened, 1, id, "its subtree's depth limit grew");
}

/// Between its beginning and its end a grant only grows, and that is a human's doing.
fn grant(entry: &Entry, old: &Agent, new: &Agent, found: &mut Findings) {
    let (was, is) = (old.account.limit, new.account.limit);
    if was == is || old.liveness == Liveness::Terminated {
        return;
    }
    let what = "it was granted another amount, without an end between";
    found.must(is.is_raise_of(was), 18, &new.id, what);
    let raised = entry.events.iter().any(|event| {
        let by_human = event.actor.agent().is_none();
        event.kind == EventKind::Budget && event.agent.as_ref() == Some(&new.id) && by_human
    });
    found.must(raised, 19, &new.id, "its grant was raised, and no human did so");
}

fn slots(before: &Records, entry: &Entry, old: Option<&Agent>, new: &Agent, found: &mut Findings) {
    let id = &new.id;
    let none = Vec::new();
    let held = old.map_or(&none, |old| &old.slots);
    for slot in held {
        if new.slots.iter().any(|kept| kept.child == slot.child) {
            continue;
        }
        let child = after(before, entry, &slot.child);
        let ended = child.is_none_or(|child| !is_live(child));
        found.must(
            ended,
            5,
            id,
            format_args!("the slot of {} is freed before it ended", slot.child),
        );
    }
    if new.slots.len() <= held.len() {
        return;
    }
    let cap = cap(before, entry, new);
    let count = new.slots.len();
    found.must(
        count <= cap,
        2,
        id,
        format_args!("it grew to {count} slots, its mode allows {cap}"),
    );
}

/// The most that a project's mode allowed while an entry was decided.
fn cap(before: &Records, entry: &Entry, agent: &Agent) -> usize {
    let Some(project) = &agent.project else { return Mode::default().slots(agent) };
    let changed = entry
        .records
        .iter()
        .any(|record| matches!(record, Record::Project(changed) if changed.name == *project));
    let known = before.projects.get(project).filter(|_| !changed);
    known.map_or_else(Mode::default, |project| project.mode).slots(agent)
}

/// An agent as an entry leaves it.
fn after<'a>(before: &'a Records, entry: &'a Entry, id: &AgentId) -> Option<&'a Agent> {
    for record in &entry.records {
        if let Record::Agent(agent) = record
            && agent.id == *id
        {
            return Some(agent);
        }
    }
    before.agents.get(id)
}

fn run(old: Option<&RunStatus>, new: &RunStatus, found: &mut Findings) {
    let from = old.map_or(RunState::Queued, |old| old.state);
    let to =
        |from: RunState, to: RunState| RunEvent::ALL.iter().any(|event| from.on(*event) == Ok(to));
    reachable(&new.id, &RunState::ALL, from, new.state, to, found);
    let Some(old) = old else { return };
    // Where its journal is kept is known later than what it ended with, and said once.
    let kept = RunStatus { archive: new.archive.clone(), ..old.clone() };
    let as_it_was = old == new || (old.archive.is_none() && kept == *new);
    let final_ = old.state.is_terminal() && !as_it_was;
    found.must(!final_, 10, &new.id, "it had ended and changed");
    let early = new.archive.is_some() && !new.state.is_terminal();
    found.must(!early, 10, &new.id, "its journal is kept and it has not ended");
    let fell = old.usage.max(new.usage) != new.usage;
    found.must(!fell, 18, &new.id, "its usage fell");
}

fn assignment(before: &Records, new: &Assignment, found: &mut Findings) {
    let old = before.assignments.get(&new.id);
    let from = old.map_or(AssignmentStatus::Queued, |old| old.status);
    let to = |from: AssignmentStatus, to: AssignmentStatus| from.to(to, true).is_ok();
    reachable(&new.id, &AssignmentStatus::ALL, from, new.status, to, found);
    let Some(old) = old else { return };
    let bound = |it: &Assignment| (it.epic, it.node, it.purpose, it.agent.clone(), it.attempt);
    found.must(bound(old) == bound(new), 14, &new.id, "it is bound to something else");
    let final_ = old.status.is_terminal() && old != new;
    found.must(!final_, 10, &new.id, "it had ended and changed");
}

/// What was asked stays what it was, and is answered once.
fn planning(before: &Records, new: &Planning, found: &mut Findings) {
    let Some(old) = before.plannings.get(&new.id) else { return };
    let asked = |it: &Planning| {
        (it.purpose, it.epic, it.assignment, it.node, it.base_version, it.inputs.clone())
    };
    found.must(asked(old) == asked(new), 10, &new.id, "what the planner was asked changed");
    let (was, is) = (old.used, new.used);
    found.must(was.max(is) == is, 18, &new.id, "what asking the planner took became less");
    let aside = new.status == PlanningStatus::Asked || new.set_aside == Spend::default();
    found.must(aside, 18, &new.id, "it is answered, and something is set aside for it");
    let open = old.status == PlanningStatus::Asked || old == new;
    found.must(open, 10, &new.id, "the planner's answer was settled, and changed");
}

fn dispatch(before: &Records, new: &Dispatch, found: &mut Findings) {
    let Some(old) = before.dispatches.get(&new.id) else { return };
    let sent = |it: &Dispatch| (it.assignment, it.session, it.hash.clone(), it.mode, it.at);
    found.must(sent(old) == sent(new), 14, &new.id, "something else was sent under its id");
    let known = old.outcome != DispatchOutcome::Accepted && old.outcome != new.outcome;
    found.must(!known, 10, &new.id, "what came of it was known, and changed");
}

/// A plan that changes keeps its ids, and what was done under them (spec 05).
fn forgotten_work(before: &Records, entry: &Entry, key: &RecordKey, found: &mut Findings) {
    let Some((epic, id)) = key.node() else { return };
    if entry.dropped.contains(&RecordKey::Goal(epic)) {
        return;
    }
    let subject = format!("{epic} {id}");
    if entry.dropped.contains(&RecordKey::Node(epic, id)) {
        // Its state goes with it, which `folding` counts.
        let node = before.nodes.get(&epic).and_then(|nodes| nodes.get(&id));
        let node = node.is_none_or(|node| node.spawned);
        found.must(node, 10, &subject, "its id is forgotten while its goal is kept");
        let told = entry.records.iter().any(|it| matches!(it, Record::Plan(it) if it.epic == epic));
        found.must(told, 13, &subject, "it left the plan, which does not say so");
        return;
    }
    // Its attempt may end with it.
    let over = |record: &Record, state: &NodeState| {
        matches!(record, Record::Assignment(it)
            if state.assignment == Some(it.id) && it.status.is_terminal())
    };
    let ended = |state: &NodeState| entry.records.iter().any(|record| over(record, state));
    let states = before.node_states.get(&epic);
    let free = states.and_then(|states| states.get(&id)).is_none_or(|state| {
        let idle = state.status != NodeStatus::InProgress || ended(state);
        idle && !state.status.is_settled()
    });
    found.must(free, 10, &subject, "its state is forgotten, and it was settled or worked on");
}

fn definition(before: &Records, epic: EpicId, new: &Node, found: &mut Findings) {
    let old = before.nodes.get(&epic).and_then(|nodes| nodes.get(&new.id));
    let used = before.plans.get(&epic).is_some_and(|plan| folding::is_used(&plan.folded, new.id));
    found.must(old.is_some() || !used, 10, &format!("{epic} {}", new.id), "its id was used before");
    let state = before.node_states.get(&epic).and_then(|states| states.get(&new.id));
    let (Some(old), Some(state)) = (old, state) else { return };
    let kept = !state.status.is_settled() || old == new;
    let what = format_args!("it is {} and its definition changed", state.status);
    found.must(kept, 10, &format!("{epic} {}", new.id), what);
}

fn node(before: &Records, epic: EpicId, new: &NodeState, found: &mut Findings) {
    let states = before.node_states.get(&epic);
    let old = states.and_then(|states| states.get(&new.id));
    let subject = format!("{epic} {}", new.id);
    let from = old.map_or(NodeStatus::Todo, |old| old.status);
    let to = |from: NodeStatus, to: NodeStatus| from.to(to, true).is_ok();
    reachable(&subject, &NodeStatus::ALL, from, new.status, to, found);
    let Some(old) = old else { return };
    found.must(new.attempts >= old.attempts, 10, &subject, "its attempts were uncounted");
    let final_ = old.status.is_settled() && old != new;
    found.must(!final_, 10, &subject, "it was settled and changed");
}
