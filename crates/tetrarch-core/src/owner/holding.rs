//! What is decided where a record is one that this version cannot read (spec 02, Encodings; spec 10,
//! 26): a request that would write it is refused, anything else leaves it out. So no field of it is
//! ever lost, and the rest goes on.

use std::fmt::Write as _;

use crate::error::{ErrorCode, Refusal};
use crate::id::Principal;
use crate::ledger::RecordKey;
use crate::mail::MailBody;
use crate::records::Records;
use crate::request::Request;
use crate::step::{Draft, Step};
use crate::time::BusTime;

use super::refuse;

/// Records that one refusal names.
const NAMED_MAX: usize = 3;

/// What a request comes to, given what it would come to if these records were not there.
pub(super) fn request(records: &Records, now: BusTime, request: &Request, step: Step) -> Step {
    let Some(detail) = spoiled(records, request, &step) else { return step };
    let mut draft = Draft::new(records, now, request.sender.from.clone());
    draft.request = request.given_id();
    draft.trace.clone_from(&request.trace);
    refuse(&mut draft, request, &Refusal::new(ErrorCode::Unavailable, detail));
    draft.finish()
}

/// Anything that is no request: what it would write of such records is left out.
pub(super) fn spare(records: &Records, mut step: Step) -> Step {
    step.records.retain(|key, _| !records.held.contains_key(key));
    step.dropped.retain(|key| !records.held.contains_key(key));
    step
}

/// Why a request cannot be decided; none when it has nothing to do with such records.
fn spoiled(records: &Records, request: &Request, step: &Step) -> Option<String> {
    let sender = match &request.sender.from {
        Principal::Agent(agent) => Some(RecordKey::Agent(agent.clone())),
        Principal::Human(_) => None,
    };
    let mut touched = step.records.keys().chain(&step.dropped).chain(&sender);
    if let Some(held) = touched.find_map(|key| records.held.get(key)) {
        return Some(format!(
            "{held}; it is left as it is until the version of tetrarch that wrote it runs again"
        ));
    }
    let missing = step.mail.iter().find_map(|mail| {
        let MailBody::Reply(reply) = &mail.body else { return None };
        (reply.error == Some(ErrorCode::NotFound)).then_some(&reply.detail)
    })?;
    let mut detail = format!("{missing}, unless it is among what is left as it is:");
    for held in records.held.values().take(NAMED_MAX) {
        // Writing to text does not fail.
        let _written = write!(detail, " {held};");
    }
    let more = records.held.len().saturating_sub(NAMED_MAX);
    let _written = write!(detail, " and {more} more. Start the version that wrote them");
    Some(detail)
}
