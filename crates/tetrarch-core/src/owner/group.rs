//! Group commit: the steps of many inputs become one ledger entry (spec 02). Each step is
//! folded into the records at once, so the next input decides on it; a refused commit throws
//! the records away and loads them again. One entry raises an epic's version by one at most.

use std::collections::BTreeMap;

use crate::goal::GoalStatus;
use crate::id::{CommitId, EpicId};
use crate::ledger::{Entry, Record, RecordKey};
use crate::limits::{COMMIT_BYTES_MAX, COMMIT_INPUTS_MAX, STEP_BYTES_MAX};
use crate::plan::PlanEvent;
use crate::plan::proposal::{PlanReview, ReviewAsk};
use crate::plan::view::views;
use crate::records::Records;
use crate::step::{PlanTouch, Step};
use crate::time::BusTime;

use super::weight;

/// The entry in the making.
#[derive(Debug, Clone, Default)]
pub struct Group {
    step: Step,
    inputs: usize,
    intake_seq: u64,
    weight: usize,
}

/// Weight at which a group is full, in bytes: any one step fits beside it, with the nodes that stand in
/// its plans, and so does the event of each plan.
const FULL: usize = COMMIT_BYTES_MAX - STEP_BYTES_MAX;

impl Group {
    /// Folds a step into the records and notes it for the entry. `intake_seq`: the sequence of
    /// the request behind it, when there is one.
    pub fn add(&mut self, records: &mut Records, step: Step, intake_seq: Option<u64>) {
        self.inputs += 1;
        if let Some(after) = step.intake {
            records.intake_seq = after;
            self.intake_seq = 0;
        }
        self.intake_seq = self.intake_seq.max(intake_seq.unwrap_or(0));
        self.weight += weight::written(&step);
        for (key, record) in step.records {
            records.put(record.clone());
            // What an earlier input of the group forgot is known again.
            self.step.dropped.retain(|dropped| *dropped != key);
            self.step.records.insert(key, record);
        }
        for key in step.dropped {
            records.remove(&key);
            self.step.records.remove(&key);
            self.step.dropped.push(key);
        }
        self.step.events.extend(step.events);
        self.step.seals.extend(step.seals);
        self.step.mail.extend(step.mail);
        self.step.reviews.extend(step.reviews);
        for (epic, touch) in step.plans {
            match self.step.plans.get_mut(&epic) {
                Some(known) => {
                    if touch.reason.is_a_change() && !known.reason.is_a_change() {
                        (known.source, known.reason) = (touch.source, touch.reason);
                    }
                    known.changes.extend(touch.changes);
                    known.defined.extend(touch.defined);
                }
                None => {
                    self.step.plans.insert(epic, touch);
                }
            }
        }
    }

    /// Whether the next input belongs to the next entry.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let counted = self.inputs >= COMMIT_INPUTS_MAX && !self.is_empty();
        counted || self.weight >= FULL
    }

    /// Whether nothing was written: requests that changed nothing are covered by the next entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.step.is_empty()
    }

    /// Inputs added so far.
    #[must_use]
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Makes the entry: versions of the touched plans are raised and their events written.
    #[must_use]
    pub fn finish(
        self,
        records: &mut Records,
        commit: CommitId,
        epoch: u64,
        now: BusTime,
    ) -> Entry {
        let mut step = self.step;
        let plans: BTreeMap<EpicId, PlanTouch> = std::mem::take(&mut step.plans);
        let mut events = Vec::with_capacity(plans.len());
        for (epic, touch) in plans {
            if let Some(event) = raise(records, &mut step, epic, touch, now) {
                events.push(event);
            }
        }
        let reviews = reviews(records, std::mem::take(&mut step.reviews), now);
        records.epoch = epoch;
        records.intake_seq = records.intake_seq.max(self.intake_seq);
        Entry {
            commit,
            epoch,
            at: now,
            intake_seq: records.intake_seq,
            events: step.events,
            records: step.records.into_values().collect(),
            held: Vec::new(),
            dropped: step.dropped,
            seals: step.seals,
            mail: step.mail,
            plans: events,
            reviews,
        }
    }
}

/// One event for each plan that people should look at: a subject takes one of an entry.
fn reviews(records: &Records, asked: Vec<(EpicId, ReviewAsk)>, now: BusTime) -> Vec<PlanReview> {
    let mut reviews: BTreeMap<EpicId, PlanReview> = BTreeMap::new();
    for (epic, ask) in asked {
        let Some(plan) = records.plans.get(&epic) else { continue };
        let review = reviews.entry(epic).or_insert_with(|| PlanReview {
            epic,
            plan: plan.id,
            project: plan.project.clone(),
            version: plan.version,
            asks: Vec::new(),
            trace: plan.trace.clone(),
            at: now,
        });
        review.asks.push(ask);
    }
    reviews.into_values().collect()
}

/// Raises an epic's version and describes the plan as it now is.
fn raise(
    records: &mut Records,
    step: &mut Step,
    epic: EpicId,
    touch: PlanTouch,
    now: BusTime,
) -> Option<PlanEvent> {
    let mut plan = records.plans.get(&epic)?.clone();
    plan.version += 1;
    plan.source = touch.source;
    plan.reason = touch.reason;
    plan.updated = now;
    let created = plan.version == 1;
    let nodes = records.nodes.get(&epic)?;
    let states = records.node_states.get(&epic)?;
    let goal = records.goals.get(&epic)?;
    let goal_state = records.goal_states.get(&epic)?;
    let event = PlanEvent {
        epic,
        plan: plan.id,
        project: plan.project.clone(),
        version: plan.version,
        source: plan.source,
        reason: plan.reason,
        changes: touch.changes,
        nodes: views(nodes, states),
        definitions: if created {
            nodes.values().cloned().collect()
        } else {
            touch.defined.iter().filter_map(|id| nodes.get(id).cloned()).collect()
        },
        title: if created { goal.title.clone() } else { String::new() },
        output: plan.output,
        goal: goal_state.status,
        percent: goal_state.percent,
        result: match goal_state.status {
            GoalStatus::Completed => goal_state.result.clone(),
            GoalStatus::Active
            | GoalStatus::Paused
            | GoalStatus::Cancelled
            | GoalStatus::Archived => None,
        },
        priorities: goal_state.priorities,
        trace: touch.trace,
        at: now,
    };
    let record = Record::Plan(Box::new(plan));
    records.put(record.clone());
    step.records.insert(RecordKey::Plan(epic), record);
    Some(event)
}
