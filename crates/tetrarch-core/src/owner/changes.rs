//! Changes before the branches they are for (spec 06, Worktrees and the apply gate; spec 09, Human
//! gate): proposed by runs, decided on by humans, merged by the host where the repository lies. What
//! an approval is for is `change`'s, which files may be changed `reservation`'s.

mod applying;
mod guarding;

use crate::assignment::Purpose;
use crate::change::{Approval, Change, ChangeStatus, Made, NotApproved};
use crate::error::{ErrorCode, Refusal};
use crate::id::{AgentId, ChangeId, Principal, RunId};
use crate::ledger::{EventKind, Record};
use crate::limits::{EXPIRED_MAX, TEXT_BYTES_MAX};
use crate::mail::{MailBody, OpReply};
use crate::request::{GateOp, GateVerdict, Request};
use crate::step::Draft;

use super::{Policy, fit, questions};

pub(super) use applying::{order_again, settled};

const RULE: &str = "06 Worktrees and the apply gate";
const GATE: &str = "09 Human gate";

/// A run made a change: it waits for a human, unless it breaks a rule. What an earlier run made of the
/// same node gives way to it.
///
/// # Errors
/// What is wrong with it.
pub(super) fn propose(
    draft: &mut Draft<'_>,
    policy: &Policy,
    agent: &AgentId,
    run: RunId,
    made: &Made,
) -> Result<(), Refusal> {
    if let Some(flaw) = made.action.flaw() {
        return Err(Refusal::new(ErrorCode::InvalidRequest, flaw));
    }
    let Some(run) = draft.run(run).cloned() else {
        return Err(Refusal::new(ErrorCode::NotFound, format!("run {run} was not found")));
    };
    let reviewed = draft.assignment(run.assignment).map(|it| it.purpose) == Some(Purpose::Review);
    let known = |change: &Change| change.made == *made;
    if reviewed || draft.base().made_by(run.id).any(known) {
        // A review changes nothing, and a report may come twice.
        return Ok(());
    }
    let (Some(placement), Some(goal)) = (&run.placement, draft.base().goals.get(&run.epic)) else {
        let detail = format!("{} is placed nowhere, or of a goal that is not known", run.id);
        return Err(Refusal::new(ErrorCode::NotFound, detail));
    };
    let id = ChangeId::derive(draft.now, &draft.seed("change"), &run.id.to_string(), 0);
    let change = Change {
        id,
        agent: agent.clone(),
        epoch: run.epoch,
        run: run.id,
        assignment: run.assignment,
        epic: run.epic,
        node: run.node,
        project: draft.agent(agent).and_then(|agent| agent.project.clone()),
        host: placement.host.clone(),
        scope: run.brief.scope_paths.clone(),
        made: made.clone(),
        to: goal.owner.clone(),
        status: ChangeStatus::Proposed,
        reason: if made.salvaged { "what a run left that did not succeed" } else { "" }.to_owned(),
        conflicts: Vec::new(),
        needed: policy
            .approvals
            .needed(draft.agent(agent).and_then(|agent| agent.project.as_ref())),
        earlier: Vec::new(),
        approval: None,
        commit: String::new(),
        proposed: draft.now,
        until: draft.now + policy.approval_ttl,
        since: draft.now,
    };
    let earlier: Vec<Change> = draft.base().waiting_of(run.epic, run.node).cloned().collect();
    for earlier in earlier {
        settle(draft, earlier, ChangeStatus::Superseded, &format!("{id} took its place"));
    }
    note(draft, &change, EventKind::ChangeProposed, RULE, &what(&change));
    if let Err(why) = guarding::guard(draft, &change) {
        guarding::count(draft, &change, &why);
        settle(draft, change, ChangeStatus::Refused, &why);
        return Ok(());
    }
    let text = format!(
        "{id} of {agent} waits for a decision: {}; review it with `tetrarch change show {id}`",
        what(&change)
    );
    tell(draft, &change, text);
    draft.put(Record::Change(Box::new(change)));
    Ok(())
}

/// A change in one line.
fn what(change: &Change) -> String {
    let Made { action, additions, deletions, salvaged, .. } = &change.made;
    let count = action.files.len();
    let left = if *salvaged { ", left by a run that did not succeed" } else { "" };
    format!("{count} files +{additions} -{deletions} for {}{left}", action.target)
}

/// Tells whoever decides, at their desk.
fn tell(draft: &mut Draft<'_>, change: &Change, text: String) {
    let to = questions::desk_of(draft, &change.to);
    draft.mail(to, Some(change.epic), MailBody::Info { text });
}

fn note(draft: &mut Draft<'_>, change: &Change, kind: EventKind, rule: &str, what: &str) {
    let what = fit::Room::of(TEXT_BYTES_MAX).text(what, usize::MAX);
    let event = draft.event(kind, rule, format!("{}: {what}", change.id));
    event.agent = Some(change.agent.clone());
    event.run = Some(change.run);
    event.epic = Some(change.epic);
    event.node = Some(change.node);
}

/// A change comes to stand elsewhere, and whoever decides is told unless they did it.
fn settle(draft: &mut Draft<'_>, change: Change, status: ChangeStatus, why: &str) {
    let reason = fit::Room::of(TEXT_BYTES_MAX).text(why, usize::MAX);
    note(draft, &change, EventKind::ChangeSettled, RULE, &format!("{status}: {reason}"));
    let text = format!("{} is {status}: {reason}", change.id);
    tell(draft, &change, text);
    let since = draft.now;
    draft.put(Record::Change(Box::new(Change { status, reason, since, ..change })));
}

/// `approval.decide` and `apply.request`. Only humans ask for them.
///
/// # Errors
/// There is no such change, it does not wait any more, or what was looked at is not what is there.
pub(super) fn operate(
    draft: &mut Draft<'_>,
    policy: &Policy,
    request: &Request,
    op: &GateOp,
    reply: OpReply,
) -> Result<OpReply, Refusal> {
    let (GateOp::Decide { change: id, .. } | GateOp::Apply { change: id }) = op;
    let Some(change) = draft.base().changes.get(id).cloned() else {
        let detail = format!("change {id} was not found; `tetrarch inbox` lists open changes");
        return Err(Refusal::new(ErrorCode::NotFound, detail));
    };
    let reply = OpReply { epic: Some(change.epic), agent: Some(change.agent.clone()), ..reply };
    let by = &request.sender.from;
    let detail = match op {
        GateOp::Decide { verdict: GateVerdict::Approve { digest }, reason, .. } => {
            if !policy.approvals.may(by) {
                let detail = format!("{by} is not an approver (people.approvers)");
                return Err(Refusal::new(ErrorCode::Unauthorized, detail));
            }
            approve(draft, change, by, digest, reason)?
        }
        GateOp::Decide { verdict: GateVerdict::Deny, reason, .. } => {
            deny(draft, change, by, reason)?
        }
        GateOp::Apply { .. } => applying::apply(draft, change)?,
    };
    Ok(OpReply { detail, ..reply })
}

fn conflict(detail: impl Into<String>) -> Refusal {
    Refusal::new(ErrorCode::Conflict, detail)
}

/// Where the work of a change is that the gate lets through no more.
fn stays(change: &Change) -> String {
    let Change { made, host, .. } = change;
    format!(
        "its commits stay on {} on {host}: merge them yourself, or have the work done again",
        made.branch
    )
}

/// A change that is over, or out of its time.
fn over(draft: &Draft<'_>, change: &Change) -> Option<Refusal> {
    let Change { id, status, reason, .. } = change;
    if status.is_terminal() && *status != ChangeStatus::Applied {
        return Some(conflict(format!("{id} is {status}: {reason}")));
    }
    let late = draft.now >= change.until && !status.is_terminal();
    let waited =
        || format!("{id} has expired and cannot be approved or applied; {}", stays(change));
    (late && *status != ChangeStatus::Applying).then(|| conflict(waited()))
}

fn approve(
    draft: &mut Draft<'_>,
    change: Change,
    by: &Principal,
    digest: &str,
    reason: &str,
) -> Result<String, Refusal> {
    if let Some(over) = over(draft, &change) {
        return Err(over);
    }
    let id = change.id;
    match change.status {
        ChangeStatus::Proposed | ChangeStatus::Conflicted => {}
        ChangeStatus::Approved
        | ChangeStatus::Applying
        | ChangeStatus::Applied
        | ChangeStatus::Denied
        | ChangeStatus::Refused
        | ChangeStatus::Expired
        | ChangeStatus::Superseded => {
            return Err(conflict(format!("{id} is already {}: {}", change.status, change.reason)));
        }
    }
    let present = change.made.action.digest();
    if digest != present {
        return Err(conflict(format!(
            "{id} is now {present}, not {digest}; review it again with `tetrarch change show {id}`"
        )));
    }
    said(reason)?;
    let earlier: Vec<Approval> = change.given().cloned().collect();
    if earlier.iter().any(|it| it.by == *by) {
        let given = NotApproved::TooFew { given: earlier.len(), needed: change.needed };
        return Err(conflict(format!("{by} has already approved {id}: {given}")));
    }
    let approval = Approval {
        by: by.clone(),
        digest: present,
        at: draft.now,
        until: change.until,
        used: None,
    };
    let people = earlier.len() + 1;
    let of =
        if change.needed > 1 { format!(", {people} of {}", change.needed) } else { String::new() };
    let more = if reason.is_empty() { "" } else { ": " };
    let reason = format!("approved by {by}{of}{more}{reason}");
    note(
        draft,
        &change,
        EventKind::ChangeDecided,
        GATE,
        &format!("{reason} ({})", approval.digest),
    );
    let left = change.until - draft.now;
    if !change.is_enough(people) {
        // Those that an order used stay beside it: they are what that order was given by.
        let earlier = change.earlier.iter().cloned().chain([approval]).collect();
        let detail = format!(
            "{id} has {people} of {} approvals; the others have {left}, each by `tetrarch approve {id}`",
            change.needed
        );
        let since = draft.now;
        draft.put(Record::Change(Box::new(Change { reason, earlier, since, ..change })));
        return Ok(detail);
    }
    draft.put(Record::Change(Box::new(Change {
        status: ChangeStatus::Approved,
        reason,
        conflicts: Vec::new(),
        earlier,
        approval: Some(approval),
        since: draft.now,
        ..change
    })));
    Ok(format!("{id} may be applied within {left}: tetrarch apply {id}"))
}

fn said(reason: &str) -> Result<(), Refusal> {
    if reason.len() <= TEXT_BYTES_MAX {
        return Ok(());
    }
    let detail = format!("reason: {} bytes; the limit is {TEXT_BYTES_MAX}", reason.len());
    Err(Refusal::new(ErrorCode::InvalidRequest, detail))
}

fn deny(
    draft: &mut Draft<'_>,
    change: Change,
    by: &Principal,
    reason: &str,
) -> Result<String, Refusal> {
    let id = change.id;
    let ordered = change.status == ChangeStatus::Applying && !draft.base().is_stranded(&change);
    if change.status.is_terminal() || ordered {
        return Err(conflict(format!("{id} is {}: {}", change.status, change.reason)));
    }
    said(reason)?;
    if reason.is_empty() {
        let detail = "reason: it is empty; give a reason, the agent's project reads it";
        return Err(Refusal::new(ErrorCode::InvalidRequest, detail));
    }
    let why = format!("denied by {by}: {reason}");
    note(draft, &change, EventKind::ChangeDecided, GATE, &why);
    if let Some(parent) = draft.agent(&change.agent).and_then(|agent| agent.parent.clone()) {
        let text = format!("{id} of {} is {why}", change.agent);
        draft.mail(Principal::Agent(parent), Some(change.epic), MailBody::Info { text });
    }
    let detail = format!("{id} is denied; {} stays on {}", change.made.branch, change.host);
    let (status, since) = (ChangeStatus::Denied, draft.now);
    draft.put(Record::Change(Box::new(Change { status, reason: why, since, ..change })));
    Ok(detail)
}

/// Approvals of a person whose credential is revoked count no more, unless an order to merge has used them: what they
/// were given for waits again.
pub(super) fn withdraw(draft: &mut Draft<'_>, by: &Principal) {
    let given = |change: &&Change| change.given().any(|approval| approval.by == *by);
    let open: Vec<Change> =
        draft.base().waiting_changes().filter(given).take(EXPIRED_MAX).cloned().collect();
    for change in open {
        let why = format!("the approval of {by} is withdrawn: the credential of {by} is revoked");
        note(draft, &change, EventKind::ChangeDecided, GATE, &why);
        let id = change.id;
        let text = format!("{id}: {why}; review it with `tetrarch change show {id}`");
        tell(draft, &change, text);
        let status = match change.status {
            ChangeStatus::Approved => ChangeStatus::Proposed,
            other @ (ChangeStatus::Proposed
            | ChangeStatus::Conflicted
            | ChangeStatus::Applying
            | ChangeStatus::Applied
            | ChangeStatus::Denied
            | ChangeStatus::Refused
            | ChangeStatus::Expired
            | ChangeStatus::Superseded) => other,
        };
        let stays = |approval: &Approval| approval.by != *by || approval.used.is_some();
        let mut left: Vec<Approval> =
            change.earlier.iter().chain(&change.approval).cloned().collect();
        left.retain(stays);
        let (earlier, approval, since) = (left, None, draft.now);
        draft.put(Record::Change(Box::new(Change {
            status,
            reason: why,
            earlier,
            approval,
            since,
            ..change
        })));
    }
}

/// Why it may not be applied, as an answer.
fn refusal(change: &Change, why: &NotApproved) -> Refusal {
    let code = match why {
        NotApproved::NotHuman { .. } => ErrorCode::Unauthorized,
        NotApproved::Missing
        | NotApproved::TooFew { .. }
        | NotApproved::Used
        | NotApproved::OtherDigest { .. }
        | NotApproved::Expired { .. } => ErrorCode::Conflict,
    };
    Refusal::new(code, format!("{} is {}: {why}", change.id, change.status))
}

/// Lets changes expire that nobody decided on, or applied, in time.
pub(super) fn expire_due(draft: &mut Draft<'_>) {
    let now = draft.now;
    let due = draft.base().waiting_changes().filter(|change| change.until <= now);
    let due: Vec<Change> = due.take(EXPIRED_MAX).cloned().collect();
    for change in due {
        let why = match change.status {
            ChangeStatus::Approved => "it was approved but not applied in time",
            ChangeStatus::Applying => "its host was ordered to merge it but did not report in time",
            ChangeStatus::Proposed | ChangeStatus::Conflicted
                if change.given().next().is_some() =>
            {
                "too few people approved it in time"
            }
            ChangeStatus::Proposed
            | ChangeStatus::Conflicted
            | ChangeStatus::Applied
            | ChangeStatus::Denied
            | ChangeStatus::Refused
            | ChangeStatus::Expired
            | ChangeStatus::Superseded => "nobody decided in time",
        };
        let why = format!("{why}; {}", stays(&change));
        settle(draft, change, ChangeStatus::Expired, &why);
    }
}
