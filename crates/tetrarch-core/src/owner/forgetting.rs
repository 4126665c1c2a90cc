//! What is over is not remembered for ever (spec 02, Streams): decisions, terminated sub-agents,
//! ended runs, their assignments, closed goals with their plans, in bounded portions. Beyond a number the
//! oldest go before their time. A run and a goal leave one milestone each. Names that are used again keep
//! their epochs for good.

use crate::id::{AssignmentId, EpicId, RunId};
use crate::ledger::{EventKind, RecordKey};
use crate::limits::{
    DECISION_KEPT, DECISION_LEAST, DECISIONS_FORGOTTEN_MAX, DECISIONS_KEPT_MAX, ENDED_KEPT,
    ENDED_LEAST, ENDED_MAX, FORGOTTEN_MAX, FORGOTTEN_WITHIN, GOAL_KEPT, GOALS_LOOKED_AT, GOALS_MAX,
};
use crate::records::{Ended, Records};
use crate::step::Draft;
use crate::time::{BusTime, Millis};

use super::Policy;

const RULE: &str = "02 Streams";

/// How long what is over is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// Decisions (spec 03).
    pub decisions: Millis,
    /// How many decisions; the oldest beyond go before their time.
    pub decisions_max: usize,
    /// How long a decision stays, however many there are.
    pub decisions_least: Millis,
    /// Terminated sub-agents, ended runs and assignments.
    pub ended: Millis,
    /// Closed goals with their plans; never shorter than what is ended in them.
    pub goals: Millis,
    /// How long after its time it may stay, until the next tick that comes anyhow.
    pub within: Millis,
    /// How many of what is ended; the oldest beyond go before their time.
    pub ended_max: usize,
    /// How many closed goals, likewise.
    pub goals_max: usize,
    /// How long what is ended or closed stays, however many there are.
    pub least: Millis,
}

impl Kept {
    /// Of things in the order of their ends, those to be forgotten now: what is over its time, and the
    /// oldest beyond a number.
    fn due<T>(
        self,
        all: impl Iterator<Item = (BusTime, T)>,
        beyond: usize,
        kept: Millis,
        now: BusTime,
    ) -> impl Iterator<Item = T> {
        let before = move |kept: Millis| BusTime(now.0.saturating_sub(kept.0));
        let due = move |at: usize, since: BusTime| {
            since < before(kept) || at < beyond && since < before(self.least)
        };
        let all = all.enumerate().take_while(move |(at, (since, _))| due(*at, *since));
        all.map(|(_, (_, one))| one)
    }
}

impl Default for Kept {
    fn default() -> Self {
        Self {
            decisions: DECISION_KEPT,
            decisions_max: DECISIONS_KEPT_MAX,
            decisions_least: DECISION_LEAST,
            ended: ENDED_KEPT,
            goals: GOAL_KEPT,
            within: FORGOTTEN_WITHIN,
            ended_max: ENDED_MAX,
            goals_max: GOALS_MAX,
            least: ENDED_LEAST,
        }
    }
}

/// Forgets a portion of what is to be forgotten.
pub(super) fn forget_due(draft: &mut Draft<'_>, kept: Kept) {
    let (records, now) = (draft.base(), draft.now);
    let before = |kept: Millis| records.decided_before(BusTime(now.0.saturating_sub(kept.0)));
    let mut beyond = records.decisions.len().saturating_sub(kept.decisions_max);
    let mut over = before(kept.decisions).take(DECISIONS_FORGOTTEN_MAX).count();
    let least = before(kept.decisions_least.min(kept.decisions));
    for id in least.take(DECISIONS_FORGOTTEN_MAX) {
        if over == 0 && beyond == 0 {
            break;
        }
        over = over.saturating_sub(1);
        beyond = beyond.saturating_sub(records.decided_with(id));
        draft.forget(RecordKey::Decision(*id));
    }
    let beyond = records.ended().len().saturating_sub(kept.ended_max);
    let mut room = FORGOTTEN_MAX;
    for what in kept.due(records.ended(), beyond, kept.ended, now) {
        if room == 0 {
            break;
        }
        room -= 1;
        match what {
            Ended::Agent(id) => draft.forget(RecordKey::Agent(id.clone())),
            Ended::Assignment(id) => room = forget_assignment(draft, *id, room),
            Ended::Change(id) => draft.forget(RecordKey::Change(*id)),
            Ended::Question(id) => draft.forget(RecordKey::Question(*id)),
            Ended::Run(id) => forget_run(draft, *id),
            Ended::Turn(id) => draft.forget(RecordKey::Turn(id.clone())),
        }
    }
    let beyond = records.closed().len().saturating_sub(kept.goals_max);
    let closed = kept.due(records.closed(), beyond, kept.goals, now);
    let mut looked_at = closed.take(GOALS_LOOKED_AT);
    // One, since a plan may be as large as a commit.
    if let Some(epic) = looked_at.find(|epic| !records.is_worked_on(*epic)) {
        forget_goal(draft, epic);
    }
}

/// When what is to be forgotten has waited for longer than until a tick that comes anyhow, so that
/// more ticks are needed; none when nothing is ever to be forgotten.
#[must_use]
pub fn forgetting_is_late(records: &Records, policy: &Policy) -> Option<BusTime> {
    let Kept { decisions, ended, within, ended_max, goals_max, least, .. } = policy.kept;
    let many = records.decisions.len() > policy.kept.decisions_max;
    let decided = if many { policy.kept.decisions_least.min(decisions) } else { decisions };
    let decided = records.first_decided().map(|at| at + decided);
    let many = records.ended().len() > ended_max;
    let over = if many { least.min(ended) } else { ended };
    let ended = records.ended().next().map(|(since, _)| since + over);
    let goals = (records.closed().len() > goals_max).then(|| records.closed().next()).flatten();
    let closed = goals.map(|(since, _)| since + least);
    decided.into_iter().chain(ended).chain(closed).min().map(|at| at + within)
}

/// Forgets an assignment with what was sent for it, or as much of that as there is room for. Gives the
/// room that is left.
fn forget_assignment(draft: &mut Draft<'_>, id: AssignmentId, room: usize) -> usize {
    let records = draft.base();
    let sent = || records.dispatched_for(id).filter(|sent| !records.is_first_launch(*sent));
    for dispatch in sent().take(room) {
        draft.forget(RecordKey::Dispatch(dispatch));
        if records.plannings.contains_key(&dispatch) {
            draft.forget(RecordKey::Planning(dispatch));
        }
    }
    let sent = sent().count();
    if sent <= room {
        draft.forget(RecordKey::Assignment(id));
    }
    room.saturating_sub(sent)
}

fn forget_run(draft: &mut Draft<'_>, id: RunId) {
    let records = draft.base();
    if let (Some(run), Some(status)) = (records.runs.get(&id), records.run_status.get(&id)) {
        let journal = status.archive.as_ref();
        let journal =
            journal.map_or_else(String::new, |it| format!("; its journal is artifact {it}"));
        let reason = format!("it ended {} and is no longer kept{journal}", status.state);
        let event = draft.event(EventKind::RunArchived, RULE, reason);
        event.run = Some(id);
        event.agent = Some(run.agent.clone());
        event.epic = Some(run.epic);
        event.node = Some(run.node);
    }
    draft.forget(RecordKey::Run(id));
    draft.forget(RecordKey::RunStatus(id));
}

fn forget_goal(draft: &mut Draft<'_>, epic: EpicId) {
    let records = draft.base();
    if let (Some(goal), Some(state)) = (records.goals.get(&epic), records.goal_states.get(&epic)) {
        let reason = format!("{:?} was {} and is no longer kept", goal.spec.title, state.status);
        draft.event(EventKind::GoalArchived, RULE, reason).epic = Some(epic);
    }
    let nodes = records.nodes.get(&epic).into_iter().flat_map(|nodes| nodes.keys());
    nodes.for_each(|node| draft.forget(RecordKey::Node(epic, *node)));
    let states = records.node_states.get(&epic).into_iter().flat_map(|states| states.keys());
    states.for_each(|node| draft.forget(RecordKey::NodeState(epic, *node)));
    let drafts = records.drafts.get(&epic).into_iter().flat_map(|drafts| drafts.keys());
    drafts.for_each(|id| draft.forget(RecordKey::Draft(epic, *id)));
    let left = records.crystallizations.get(&epic).into_iter().flat_map(|left| left.keys());
    left.for_each(|node| draft.forget(RecordKey::Crystallization(epic, *node)));
    let asked = records.plannings.values().filter(|planning| planning.epic == epic);
    asked.for_each(|planning| draft.forget(RecordKey::Planning(planning.id)));
    draft.forget(RecordKey::Plan(epic));
    draft.forget(RecordKey::GoalState(epic));
    draft.forget(RecordKey::Goal(epic));
}
