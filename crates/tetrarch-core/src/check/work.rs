//! Work: an agent, its run, its assignment and its node say the same of each other (spec 10,
//! invariants 6, 10, 12, 14).

use crate::agent::{Agent, Work};
use crate::assignment::Assignment;
use crate::plan::NodeState;
use crate::records::Records;
use crate::role::Role;
use crate::run::{Run, RunState, RunStatus};

use super::Findings;
use super::folding::is_used;
use super::tree::is_live;

/// Looks at every agent's work, every run and every assignment.
pub(super) fn check(records: &Records, found: &mut Findings) {
    for agent in records.agents.values() {
        let works = Role::of(&agent.id).takes_slot();
        found.must(works == agent.work.is_some(), 14, &agent.id, "its role and its work disagree");
        if let Some(work) = &agent.work {
            if is_live(agent) {
                live_work(records, agent, work, found);
            } else {
                ended_work(records, agent, work, found);
            }
        }
    }
    for run in records.runs.values() {
        let status = records.run_status.get(&run.id);
        found.must(status.is_some(), 10, &run.id, "it has no state");
        if let Some(status) = status {
            one_run(records, run, status, found);
        }
    }
    for id in records.run_status.keys() {
        found.must(records.runs.contains_key(id), 10, id, "it has a state and no definition");
    }
    for assignment in records.assignments.values() {
        one_assignment(records, assignment, found);
    }
}

fn live_work(records: &Records, agent: &Agent, work: &Work, found: &mut Findings) {
    let id = &agent.id;
    let run = records.runs.get(&work.run);
    let status = records.run_status.get(&work.run);
    let assignment = records.assignments.get(&work.assignment);
    let (Some(run), Some(status), Some(assignment)) = (run, status, assignment) else {
        found.must(false, 14, id, "its run or its assignment is not known");
        return;
    };
    let current = run.epoch == agent.epoch && Some(run.session) == agent.session;
    found.must(
        current,
        6,
        id,
        format_args!("epoch {}, its run {} is of epoch {}", agent.epoch, run.id, run.epoch),
    );
    let placed = run.placement == agent.placement;
    found.must(placed, 6, id, "its run is placed elsewhere");
    found.must(
        !status.state.is_terminal(),
        10,
        id,
        format_args!("it is {}, its run has ended {}", agent.liveness, status.state),
    );
    found.must(
        !assignment.status.is_terminal(),
        10,
        id,
        format_args!("it is {}, its assignment is {}", agent.liveness, assignment.status),
    );
    let agree = run.agent == *id
        && assignment.agent == *id
        && assignment.run == run.id
        && (assignment.epic, assignment.node) == (work.epic, work.node)
        && (run.epic, run.node, run.assignment) == (work.epic, work.node, work.assignment);
    found.must(agree, 14, id, "its work, its run and its assignment disagree");
}

fn ended_work(records: &Records, agent: &Agent, work: &Work, found: &mut Findings) {
    if let Some(status) = records.run_status.get(&work.run) {
        found.must(
            status.state.is_terminal(),
            10,
            &agent.id,
            format_args!("it is terminated, its run is {}", status.state),
        );
    }
    if let Some(assignment) = records.assignments.get(&work.assignment) {
        found.must(
            assignment.status.is_terminal(),
            10,
            &agent.id,
            format_args!("it is terminated, its assignment is {}", assignment.status),
        );
    }
}

fn one_run(records: &Records, run: &Run, status: &RunStatus, found: &mut Findings) {
    found.must(run.agent == status.agent, 14, &run.id, "its state is another agent's");
    if !status.state.is_terminal() {
        let agent = records.agents.get(&run.agent).filter(|agent| is_live(agent));
        let own = agent.and_then(|agent| agent.work.as_ref()).is_some_and(|w| w.run == run.id);
        found.must(
            own,
            10,
            &run.id,
            format_args!("it is {} and nobody's current run", status.state),
        );
    }
    let reported = match status.state {
        RunState::Done | RunState::Failed => status.result.is_some(),
        RunState::Queued
        | RunState::Spawning
        | RunState::Running
        | RunState::AwaitingInput
        | RunState::Blocked
        | RunState::PausedByUser
        | RunState::Compacting
        | RunState::Cancelling
        | RunState::Orphaned => status.result.is_none(),
    };
    found.must(
        reported,
        10,
        &run.id,
        format_args!("it is {} and its result disagrees", status.state),
    );
    let before = run.continues.and_then(|id| Some((id, records.run_status.get(&id)?.state)));
    if let Some((id, state)) = before {
        found.must(
            state == RunState::Orphaned,
            12,
            &run.id,
            format_args!("it goes on from {id}, which is {state}"),
        );
    }
}

fn one_assignment(records: &Records, assignment: &Assignment, found: &mut Findings) {
    let id = &assignment.id;
    let states = records.node_states.get(&assignment.epic);
    let Some(state) = states.and_then(|states| states.get(&assignment.node)) else {
        // A node that was worked on before may have been split since, or have left its plan.
        let known = records.nodes.get(&assignment.epic);
        let known = known.is_some_and(|nodes| nodes.contains_key(&assignment.node));
        let plan = records.plans.get(&assignment.epic);
        let left = plan.is_some_and(|plan| is_used(&plan.folded, assignment.node));
        let over = (known || left) && assignment.status.is_terminal();
        found.must(over, 14, id, format_args!("its node {} is no leaf", assignment.node));
        return;
    };
    if assignment.status.is_terminal() {
        return;
    }
    let holds = |state: &NodeState| {
        state.assignment == Some(*id)
            && state.assignee.as_ref() == Some(&assignment.agent)
            && state.purpose == assignment.purpose
            && assignment.attempt <= state.attempts
    };
    found.must(
        holds(state),
        14,
        id,
        format_args!("it is {}, its node {} says otherwise", assignment.status, state.id),
    );
    let agent = records.agents.get(&assignment.agent).filter(|agent| is_live(agent));
    let works = agent.and_then(|agent| agent.work.as_ref()).is_some_and(|w| w.assignment == *id);
    found.must(
        works,
        14,
        id,
        format_args!("it is {} and {} does not work on it", assignment.status, assignment.agent),
    );
}
