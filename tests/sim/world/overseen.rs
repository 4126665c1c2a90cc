//! What an overseer may never do (spec 05, The tick), looked at entry by entry with a longer memory than
//! records have: ask too soon, ask what is not written down, repeat itself under another name.

use std::collections::BTreeSet;

use tetrarch_core::dispatch::{DispatchMode, DispatchOutcome};
use tetrarch_core::id::{EpicId, NodeId};
use tetrarch_core::ledger::{Entry, EventKind, Record};
use tetrarch_core::mail::{MailBody, StatusRequest};
use tetrarch_core::overseer::Rung;
use tetrarch_core::plan::rollup::rollup;
use tetrarch_core::plan::{ESCALATED, NodeState, NodeStatus};
use tetrarch_core::question::QuestionStatus;

use super::World;

impl World {
    /// What is wrong with the status requests of an entry, given the records before it.
    pub(super) fn overseen(&mut self, entry: &Entry) -> Vec<String> {
        let asked = entry.mail.iter().filter_map(|mail| {
            if let MailBody::StatusRequest(asked) = &mail.body { Some(asked) } else { None }
        });
        let mut seen = BTreeSet::new();
        let first = asked.map(|asked| (asked, seen.insert(asked.dispatch))).collect::<Vec<_>>();
        let wrong = |(asked, first)| self.asked_rightly(entry, asked, first).err();
        first.into_iter().filter_map(wrong).collect()
    }

    fn asked_rightly(
        &mut self,
        entry: &Entry,
        asked: &StatusRequest,
        first: bool,
    ) -> Result<(), String> {
        let id = asked.assignment;
        let intent = entry.records.iter().find_map(|record| {
            let Record::Dispatch(one) = record else { return None };
            Some(one).filter(|one| one.id == asked.dispatch)
        });
        let after = entry.records.iter().find_map(|record| {
            let Record::Assignment(one) = record else { return None };
            Some(one).filter(|one| one.id == id)
        });
        let (Some(intent), Some(after), Some(before)) =
            (intent, after, self.truth.assignments.get(&id))
        else {
            return Err(format!("invariant 14: {} is sent without its record", asked.dispatch));
        };
        // One entry may hold requests that were decided at different times; the assignment says the last.
        let sent = if first && !self.truth.dispatches.contains_key(&asked.dispatch) {
            intent.at
        } else {
            after.recovery.last_retry.unwrap_or(after.recovery.dispatched)
        };
        let answered = entry.events.iter().any(|event| {
            event.kind == EventKind::Recovery
                && event.run == Some(before.run)
                && event.reason.starts_with("update: ")
        });
        let until = before.recovery.backoff_until;
        if until > sent && !answered {
            return Err(format!(
                "the tick: {id} is asked {} before its backoff ends",
                until - sent
            ));
        }
        let words = (id, asked.text.clone());
        let last = self.watch.asked.insert(words, sent);
        let common = &self.rules.policy.overseer;
        let least = before.policy.patience(common).min_resend_interval;
        if let Some(last) = last.filter(|last| sent < *last + least) {
            return Err(format!("the tick: {id} is told the same again after {}", sent - last));
        }
        let old = before.recovery.dispatch.and_then(|id| self.truth.dispatches.get(&id));
        let open = old.filter(|old| {
            (old.mode, old.outcome) == (DispatchMode::Mail, DispatchOutcome::Accepted)
                && old.session == Some(asked.session)
                && old.text == asked.text
                && old.id != asked.dispatch
        });
        let arrived = |old| {
            entry.records.iter().any(|record| {
                matches!(record, Record::Dispatch(one)
                    if one.id == old && one.outcome == DispatchOutcome::Ok)
            })
        };
        match open.filter(|old| !arrived(old.id)) {
            Some(old) => {
                let (rung, new) = (Rung::Resend, asked.dispatch);
                Err(format!("the tick: {rung} of {} as {new}", old.id))
            }
            None => Ok(()),
        }
    }

    /// Whether a node waits for the answer to a question that is open.
    pub(super) fn is_escalated(&self, state: &NodeState) -> bool {
        let blocker = state.blocker.as_ref().filter(|blocker| blocker.kind == ESCALATED);
        blocker.is_some_and(|blocker| {
            self.truth.questions.values().any(|question| {
                question.status == QuestionStatus::Open
                    && blocker.needs.contains(&question.id.to_string())
            })
        })
    }

    /// Whether something of a goal waits for what was cancelled with its agent, and people were asked to
    /// plan it anew.
    pub(super) fn is_left_waiting(&self, epic: EpicId) -> bool {
        let (Some(nodes), Some(states)) =
            (self.truth.nodes.get(&epic), self.truth.node_states.get(&epic))
        else {
            return false;
        };
        let Some(folded) = self.truth.plans.get(&epic).map(|plan| &plan.folded) else {
            return false;
        };
        let statuses = states.iter().map(|(id, state)| (*id, state.status)).collect();
        let ids: Vec<NodeId> = nodes.keys().copied().collect();
        let derived = rollup(&statuses, &ids, folded).statuses;
        let stands = |id: &NodeId, wanted| derived.get(id) == Some(&wanted);
        let waits = nodes.values().any(|node| {
            let lost = |needed: &NodeId| stands(needed, NodeStatus::Cancelled);
            stands(&node.id, NodeStatus::Todo) && node.depends_on.iter().any(lost)
        });
        let told = |entry: &Entry| {
            let of = entry.reviews.iter().filter(|review| review.epic == epic);
            of.flat_map(|review| &review.asks).any(|ask| ask.draft.is_none())
        };
        waits && self.bus.ledger.iter().any(told)
    }

    /// In the end every assignment has ended, or people are asked about it.
    pub(super) fn all_ended(&self) -> Result<(), String> {
        let mut open = self.truth.assignments.values().filter(|one| !one.status.is_terminal());
        match open.next() {
            Some(one) => Err(format!("the tick: {} is {} at the end", one.id, one.status)),
            None => Ok(()),
        }
    }
}
