//! What becomes of a request: it is decided on once, answered the same again, and refused when no
//! commit has room for what it would write (spec 02, Operations).

use crate::audit::{self, CredentialAct};
use crate::error::{ErrorCode, Refusal};
use crate::id::{AgentId, Principal, sha256_hex};
use crate::ledger::{Decision, EventKind, Record};
use crate::limits::{DECISIONS_MAX, UNREAD_MAX};
use crate::mail::Mail;
use crate::records::Records;
use crate::request::{DIGEST_HALF, MalformedKind, Request, RequestBody, Sender};
use crate::share::{Backlog, Excess};
use crate::step::{Draft, Step};
use crate::time::BusTime;

use super::weight::{self, Overweight};
use super::{Policy, changes, operations, refuse, reports, schedules, spawn};

/// Decides on a request or a report.
pub(super) fn decide(records: &Records, policy: &Policy, now: BusTime, request: &Request) -> Step {
    let step = decide_small(records, policy, now, request);
    match weight::overweight(records, &step) {
        None => step,
        Some(part) => too_large(records, policy, now, request, part),
    }
}

/// Refuses a request beyond its sender's share. It is not decided on: the same may be asked again.
pub(super) fn over_share(records: &Records, now: BusTime, request: &Request, why: &Excess) -> Step {
    let mut draft = Draft::new(records, now, request.sender.from.clone());
    draft.request = request.given_id();
    draft.trace.clone_from(&request.trace);
    let from = &request.sender.from;
    let detail = match why {
        Excess::Rate(rate) => format!(
            "{from} exceeds its rate of {rate} requests a second (limits.requests_per_second), of which a request that is slow to decide takes several; send the same request again later"
        ),
        Excess::Large(rate) => format!(
            "{from} exceeds {rate} KiB a second of requests larger than 4 KiB, or of what requests have written beyond 16 KiB; send the same request again later"
        ),
        Excess::Waiting(most) => format!(
            "{most} requests of {from} wait for a decision; send the same request again later"
        ),
        Excess::Unread(Backlog { reader, count, .. }) => format!(
            "{reader} has {count} unread messages of {from}; the limit is {UNREAD_MAX}; send the same request again when they are read"
        ),
    };
    refuse(&mut draft, request, &Refusal::new(ErrorCode::Unavailable, detail));
    draft.finish()
}

/// Whether a request is only answered, and nothing of it is written: it reads, or it cannot be read.
#[must_use]
pub fn is_only_answered(request: &Request) -> bool {
    match &request.body {
        RequestBody::Op(op) => op.is_read(),
        RequestBody::Malformed { .. } => true,
        RequestBody::Spawn(_) | RequestBody::Report(_) => false,
    }
}

/// The answer to a request that is only answered; none when it is one to decide on.
#[must_use]
pub fn answer(records: &Records, policy: &Policy, now: BusTime, request: &Request) -> Option<Mail> {
    if !is_only_answered(request) {
        return None;
    }
    let step = decide(records, policy, now, request);
    step.mail.into_iter().next()
}

fn decide_small(records: &Records, policy: &Policy, now: BusTime, request: &Request) -> Step {
    let mut draft = Draft::new(records, now, request.sender.from.clone());
    draft.request = request.given_id();
    draft.trace.clone_from(&request.trace);
    if matches!(request.body, RequestBody::Report(_)) {
        answered(&mut draft, policy, request);
        return draft.finish();
    }
    if matches!(request.body, RequestBody::Op(_))
        && let Err(refusal) = vouched(records, &request.sender)
    {
        refuse(&mut draft, request, &refusal);
        return draft.finish();
    }
    if is_only_answered(request) {
        answered(&mut draft, policy, request);
        return draft.finish();
    }
    if let Some(decision) = records.decisions.get(&request.id) {
        answer_again(&mut draft, request, decision);
        return draft.finish();
    }
    if records.decisions.len() >= DECISIONS_MAX {
        let detail = format!(
            "the limit of {DECISIONS_MAX} remembered decisions is reached; try again later"
        );
        refuse(&mut draft, request, &Refusal::new(ErrorCode::Unavailable, detail));
        return draft.finish();
    }
    answered(&mut draft, policy, request);
    decided(&mut draft, request);
    draft.finish()
}

/// What a request comes to in itself.
fn answered(draft: &mut Draft<'_>, policy: &Policy, request: &Request) {
    match &request.body {
        RequestBody::Spawn(wanted) => spawn::spawn(draft, policy, request, wanted),
        RequestBody::Op(op) => operations::operate(draft, policy, request, op),
        RequestBody::Report(report) => reports::report(draft, policy, request, report),
        RequestBody::Malformed { kind, error, .. } => {
            let code = match kind {
                MalformedKind::Plan => ErrorCode::InvalidPlan,
                MalformedKind::Spawn | MalformedKind::Other => ErrorCode::InvalidRequest,
            };
            refuse(draft, request, &Refusal::new(code, error.clone()));
        }
    }
}

/// A host publishes for itself and for the agents that are placed on it (spec 09, On the bus).
fn vouched(records: &Records, sender: &Sender) -> Result<(), Refusal> {
    let Some(via) = &sender.via else { return Ok(()) };
    let own = sender.from == Principal::Agent(AgentId::Ho(via.clone()));
    let agent = sender.from.agent().and_then(|id| records.agents.get(id));
    let placed = agent.and_then(|agent| agent.placement.as_ref()).map(|at| &at.host);
    if own || placed == Some(via) {
        return Ok(());
    }
    let detail = format!("{} is not placed on {via}", sender.from);
    Err(Refusal::new(ErrorCode::Unauthorized, detail))
}

/// Remembers what was decided on a request.
fn decided(draft: &mut Draft<'_>, request: &Request) {
    let answer = draft.answer_to(&request.sender.from).cloned().map(Box::new);
    let decision = Decision {
        request: request.id,
        digest: request.digest.clone(),
        sender: request.sender.from.clone(),
        answer,
        at: draft.now,
        act: audit::act(request).map(Box::new),
        also: Vec::new(),
    };
    draft.put(Record::Decision(Box::new(decision)));
}

/// Notes what was done with a credential, once.
pub(super) fn noted(records: &Records, now: BusTime, it: &CredentialAct) -> Step {
    let mut draft = Draft::new(records, now, it.by.clone());
    if !records.decisions.contains_key(&it.id) {
        let decision = Decision {
            request: it.id,
            digest: sha256_hex(it.act.about.as_bytes()),
            sender: it.by.clone(),
            answer: None,
            at: now,
            act: Some(Box::new(it.act.clone())),
            also: Vec::new(),
        };
        draft.put(Record::Decision(Box::new(decision)));
        if let Some(owner) = &it.ends {
            schedules::stop(&mut draft, owner);
            changes::withdraw(&mut draft, owner);
        }
    }
    draft.finish()
}

/// What a request that no commit has room for comes to: it is refused; a result, which cannot be,
/// is noted without its texts.
fn too_large(
    records: &Records,
    policy: &Policy,
    now: BusTime,
    request: &Request,
    part: Overweight,
) -> Step {
    let mut draft = Draft::new(records, now, request.sender.from.clone());
    draft.request = request.given_id();
    draft.trace.clone_from(&request.trace);
    let detail = format!("{part}; request less at once, and store long texts as artifacts");
    if let RequestBody::Report(report) = &request.body {
        draft.event(EventKind::Alert, "02 Bounds", detail.clone()).agent =
            request.sender.from.agent().cloned();
        reports::report(&mut draft, policy, request, &report.bare(&detail));
        return draft.finish();
    }
    refuse(&mut draft, request, &Refusal::new(ErrorCode::InvalidRequest, detail));
    decided(&mut draft, request);
    draft.finish()
}

/// The same request is answered the same; another body under its id is a conflict.
fn answer_again(draft: &mut Draft<'_>, request: &Request, decision: &Decision) {
    if is_same(&decision.digest, &request.digest) && decision.sender == request.sender.from {
        if let Some(answer) = &decision.answer {
            draft.mail_again((**answer).clone());
        }
        return;
    }
    let detail = format!("request id {} was used with another body", request.id);
    refuse(draft, request, &Refusal::new(ErrorCode::Conflict, detail));
}

/// Whether two digests are of one request: byte for byte, or as it was read.
fn is_same(one: &str, other: &str) -> bool {
    match (one.split_at_checked(DIGEST_HALF), other.split_at_checked(DIGEST_HALF)) {
        (Some((bytes, read)), Some((other_bytes, other_read))) => {
            bytes == other_bytes || read == other_read
        }
        (_, _) => one == other,
    }
}
