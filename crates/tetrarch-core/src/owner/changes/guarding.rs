//! Which files a change may touch (spec 05, Reservations), and what refusals lead to.

use crate::change::{Change, refusals};
use crate::id::{AgentId, Principal};
use crate::ledger::{EventKind, Record};
use crate::mail::{Alert, MailBody};
use crate::plan::PlanReason;
use crate::plan::proposal::ReviewAsk;
use crate::reservation::{Breach, Reservation, guard as rule};
use crate::step::Draft;

use super::note;
use crate::owner::questions;

const RULE: &str = "05 Reservations";

/// Whether a change touches only what its work may, and nothing that somebody else holds.
///
/// # Errors
/// The first file that it may not, in words.
pub(super) fn guard(draft: &Draft<'_>, change: &Change) -> Result<(), String> {
    breach(draft, change).map_err(|(why, _)| why)
}

/// The same, saying whether it will not be otherwise later.
pub(super) fn breach(draft: &Draft<'_>, change: &Change) -> Result<(), (String, bool)> {
    let records = draft.base();
    let held: Vec<&Reservation> = change
        .project
        .as_ref()
        .map(|project| records.reserved_in(project, draft.now).collect())
        .unwrap_or_default();
    let who = (&change.agent, change.epoch);
    let files = &change.made.action.files;
    let found = rule(held.iter().copied(), who, &change.scope, files, draft.now);
    found.map_err(|breach| match breach {
        Breach::OutOfScope { path } => {
            (format!("{path:?} is not within {}", change.scope.join(" ")), true)
        }
        Breach::Reserved { path, by } => {
            let Reservation { agent, id, fencing, .. } = by;
            (format!("{path:?} is reserved by {agent} as {id}, number {fencing}"), false)
        }
    })
}

/// Tells the parent of a refusal, and people at the third within an hour.
pub(super) fn count(draft: &mut Draft<'_>, change: &Change, why: &str) {
    let text = format!("{} of {}: {why}", change.id, change.agent);
    note(draft, change, EventKind::Alert, RULE, why);
    if let Some(parent) = draft.agent(&change.agent).and_then(|agent| agent.parent.clone()) {
        let body = MailBody::Alert { alert: Alert::GuardViolation, text: text.clone() };
        draft.mail(Principal::Agent(parent), Some(change.epic), body);
    }
    let Some(mut assignment) = draft.assignment(change.assignment).cloned() else { return };
    let (refused, review) = refusals(&assignment.refused, draft.now);
    assignment.refused = refused;
    draft.put(Record::Assignment(Box::new(assignment)));
    if review {
        ask_for_review(draft, change, &text);
    }
}

fn ask_for_review(draft: &mut Draft<'_>, change: &Change, text: &str) {
    let go = Principal::Agent(AgentId::Go);
    let desk = questions::desk_of(draft, &change.to);
    let by = Principal::Agent(change.agent.clone());
    for to in [go, desk] {
        let body = MailBody::ReviewNeeded { reason: text.to_owned() };
        draft.mail(to, Some(change.epic), body);
    }
    let reason = PlanReason::GuardViolation;
    let text = text.to_owned();
    draft.review(change.epic, ReviewAsk { by, reason, draft: None, text });
}
