//! Group commit: the steps of many inputs become one ledger entry (spec 02). Each step is
//! folded into the records at once, so the next input decides on it; a refused commit throws
//! the records away and loads them again. One entry raises an epic's version by one at most.

use std::collections::BTreeMap;

use crate::id::{CommitId, EpicId, NodeId};
use crate::ledger::{Decision, Entry, Record, RecordKey};
use crate::limits::{COMMIT_BYTES_MAX, COMMIT_INPUTS_MAX, RECORD_BYTES_MAX, STEP_BYTES_MAX};
use crate::liveness::Liveness;
use crate::plan::proposal::{PlanReview, ReviewAsk};
use crate::plan::{Plan, PlanEvent, folding, view};
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

/// Decisions that one record keeps, in bytes.
const DECISIONS_BYTES_MAX: usize = RECORD_BYTES_MAX / 2;

impl Group {
    /// Folds a step into the records and notes it for the entry. `through`: the sequence up to which requests are
    /// decided with it. Gives about how many bytes it writes, with the events of its plans.
    pub fn add(&mut self, records: &mut Records, step: Step, through: u64) -> usize {
        self.inputs += 1;
        let told = weight::step(records, &step);
        if let Some(after) = step.intake {
            records.intake_seq = after;
            self.intake_seq = 0;
        }
        self.intake_seq = self.intake_seq.max(through);
        self.weight += weight::written(records, &step);
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
        told
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
        together(records, &mut step);
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

/// Has one record keep the decisions on requests of agents: they are as many as lives, and nobody but the owner
/// reads them (spec 02, Few messages).
fn together(records: &mut Records, step: &mut Step) {
    let decided = step.records.values().filter_map(|record| {
        let Record::Decision(decision) = record else { return None };
        decision.is_kept_with_others().then(|| (**decision).clone())
    });
    let decided: Vec<Decision> = decided.collect();
    let mut kept: Vec<(usize, Decision)> = Vec::new();
    for decision in decided {
        let weight = weight::decision(&decision);
        match kept.last_mut() {
            Some((all, first)) if *all + weight <= DECISIONS_BYTES_MAX => {
                step.records.remove(&RecordKey::Decision(decision.request));
                records.remove(&RecordKey::Decision(decision.request));
                *all += weight;
                first.also.push(decision);
            }
            Some(_) | None => kept.push((weight, decision)),
        }
    }
    for (_, first) in kept.into_iter().filter(|(_, first)| !first.also.is_empty()) {
        let record = Record::Decision(Box::new(first));
        records.put(record.clone());
        step.records.insert(record.key(), record);
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

/// Raises an epic's version, folds what is over and describes the plan as it now is.
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
    let folded = fold(records, step, &mut plan);
    let record = Record::Plan(Box::new(plan));
    records.put(record.clone());
    step.records.insert(RecordKey::Plan(epic), record);
    let changed = view::changed(epic, step.records.keys().chain(&step.dropped));
    let nodes = records.nodes.get(&epic)?;
    let definitions = if created {
        nodes.values().cloned().collect()
    } else {
        touch.defined.iter().filter_map(|id| nodes.get(id).cloned()).collect()
    };
    let goal = records.goals.get(&epic)?;
    Some(PlanEvent {
        changes: touch.changes,
        folded,
        definitions,
        title: if created { goal.spec.title.clone() } else { String::new() },
        trace: touch.trace,
        ..view::told(records, epic, &changed)?
    })
}

/// Takes the nodes of ended children out of their plan, with what they handed over, except the latest and those
/// whose agent is not gone (spec 05, Nothing grows with history); gives their ids.
fn fold(records: &mut Records, step: &mut Step, plan: &mut Plan) -> Vec<NodeId> {
    let epic = plan.epic;
    let (Some(nodes), Some(states)) = (records.nodes.get(&epic), records.node_states.get(&epic))
    else {
        return Vec::new();
    };
    let is_over = |id: &NodeId| {
        let latest = states.get(id).and_then(|state| state.latest);
        let latest = latest.and_then(|id| records.assignments.get(&id));
        let agent = latest.and_then(|it| records.agents.get(&it.agent));
        latest.is_none_or(|it| it.status.is_terminal())
            && agent.is_none_or(|it| it.liveness == Liveness::Terminated)
            && records.waiting_of(epic, *id).next().is_none()
    };
    let settled = |id: &NodeId| states.get(id).is_some_and(|state| state.status.is_settled());
    let mut over = folding::beyond(nodes, |id| states.get(&id));
    over.retain(|id| settled(id) && is_over(id));
    for id in &over {
        let phase = NodeId::phase(id.phase_number());
        if let Some(state) = records.node_states.get(&epic).and_then(|states| states.get(id)) {
            plan.folded.entry(phase).or_default().add(state);
        }
        let handed_over = records.crystallizations.get(&epic);
        let handed_over = handed_over.is_some_and(|it| it.contains_key(&Some(*id)));
        let own = [RecordKey::Node(epic, *id), RecordKey::NodeState(epic, *id)];
        let also = handed_over.then_some(RecordKey::Crystallization(epic, Some(*id)));
        for key in own.into_iter().chain(also) {
            records.remove(&key);
            step.records.remove(&key);
            step.dropped.push(key);
        }
    }
    over
}
