//! Drafts (spec 05, Plan events): a change that is proposed is a record until a human or GO approves
//! it, has it refined or rejects it. Whoever decides is asked to look: by mail, and by the public event
//! `plan.review_needed`.

use crate::error::{ErrorCode, Refusal};
use crate::id::{AgentId, DraftId, EpicId, Principal};
use crate::ledger::{EventKind, Record, RecordKey};
use crate::limits::{DRAFT_BYTES_MAX, DRAFTS_KEPT_MAX, DRAFTS_OPEN_MAX, TEXT_BYTES_MAX};
use crate::mail::{MailBody, OpReply};
use crate::plan::PlanReason;
use crate::plan::change::{self, Edit, Present};
use crate::plan::proposal::{DraftStatus, DraftVerdict, Proposal, ReviewAsk, may_decide};
use crate::plan::tidying::Tidying;
use crate::request::planning::Wanted;
use crate::step::Draft;

use super::{Desk, RULE, applying, possible, said};
use crate::owner::{fit, questions, weight};

/// Keeps a change until somebody decides on it.
pub(super) fn keep<C>(
    desk: &mut Desk<'_, '_>,
    wanted: &Wanted<C>,
    base: u32,
    edit: Edit,
) -> Result<OpReply, Refusal> {
    let epic = wanted.epic;
    let present = desk.present(epic)?;
    let changed =
        change::change(&present, base, &edit).map_err(|error| error.refusal(present.version))?;
    if changed.is_nothing(&present) {
        let detail = "the plan does not change; there is nothing to propose";
        return Err(Refusal::new(ErrorCode::InvalidPlan, detail).at_version(present.version));
    }
    possible(desk.draft, epic, &changed, present.version)?;
    narrow(desk, &present, &edit)?;
    let size: usize = edit.puts.iter().map(weight::node).sum();
    if size > DRAFT_BYTES_MAX {
        let detail = format!(
            "plan: the draft has {size} bytes; the limit is {DRAFT_BYTES_MAX}; propose it in parts"
        );
        return Err(Refusal::new(ErrorCode::InvalidPlan, detail).at_version(present.version));
    }
    let by = desk.request.sender.from.clone();
    let id = DraftId::derive(desk.draft.now, &desk.draft.seed("draft"), "draft", 0);
    if let Some(replaced) = wanted.replaces {
        supersede(desk, epic, replaced, id)?;
    }
    make_room(desk.draft, epic)?;
    let what = applying::words(&changed);
    let now = desk.draft.now;
    let event = desk.draft.event(
        EventKind::DraftProposed,
        RULE,
        format!("{id}: {what}: {}", wanted.reason),
    );
    event.epic = Some(epic);
    event.agent = by.agent().cloned();
    desk.draft.put(Record::Draft(Box::new(Proposal {
        id,
        epic,
        author: by.clone(),
        base_version: base,
        edit,
        reason: wanted.reason.clone(),
        status: DraftStatus::Open,
        notes: String::new(),
        decided_by: None,
        version: None,
        created: now,
        since: now,
    })));
    if by.agent().is_some() {
        let text = format!("{by} proposes {id} for version {base}: {what}: {}", wanted.reason);
        ask(desk, epic, id, &text)?;
    }
    Ok(OpReply {
        epic: Some(epic),
        version: Some(present.version),
        detail: format!("{id} waits for a decision: {what}"),
        data: Some(format!("{{\"draft\":\"{id}\"}}")),
        ..desk.reply.clone()
    })
}

/// An agent with work of its own proposes no tools that it does not have: whoever approves reads its reason.
fn narrow(desk: &Desk<'_, '_>, present: &Present<'_>, edit: &Edit) -> Result<(), Refusal> {
    let author = desk.request.sender.from.agent().and_then(|id| desk.draft.agent(id));
    let Some(author) = author.filter(|author| author.work.is_some()) else { return Ok(()) };
    for node in &edit.puts {
        let same = present.nodes.get(&node.id).is_some_and(|before| before.tools == node.tools);
        let beyond = node.tools.not_in(&author.tools);
        if !same && !beyond.is_empty() {
            let (id, tools) = (node.id, beyond.join(", "));
            let detail = format!("{id}: the tools {tools} are beyond those of {}", author.id);
            return Err(Refusal::new(ErrorCode::Unauthorized, detail));
        }
    }
    Ok(())
}

/// Keeps what the overseer proposes by itself, and asks the goal's owner to look. Not when there are too many
/// drafts, or it is too large for one: nobody waits for it.
pub(in crate::owner) fn keep_own(
    draft: &mut Draft<'_>,
    epic: EpicId,
    base: u32,
    tidying: &Tidying,
) {
    let size: usize = tidying.edit.puts.iter().map(weight::node).sum();
    let Some(owner) = draft.base().goals.get(&epic).map(|goal| goal.owner.clone()) else { return };
    if size > DRAFT_BYTES_MAX || make_room(draft, epic).is_err() {
        return;
    }
    let (by, now) = (Principal::Agent(AgentId::Go), draft.now);
    let before = draft.proposals(epic).len();
    let id = DraftId::derive(now, &epic.to_string(), "tidying", before);
    let (what, why) = (applying::words(&tidying.changed), &tidying.why);
    draft.event(EventKind::DraftProposed, RULE, format!("{id}: {what}: {why}")).epic = Some(epic);
    draft.put(Record::Draft(Box::new(Proposal {
        id,
        epic,
        author: by.clone(),
        base_version: base,
        edit: tidying.edit.clone(),
        reason: why.clone(),
        status: DraftStatus::Open,
        notes: String::new(),
        decided_by: None,
        version: None,
        created: now,
        since: now,
    })));
    let text = format!("the overseer proposes {id} for version {base}: {what}: {why}");
    let text = fit::Room::of(TEXT_BYTES_MAX).text(&text, usize::MAX);
    let to = questions::desk_of(draft, &owner);
    if to != by {
        draft.mail(to, Some(epic), MailBody::ReviewNeeded { reason: text.clone() });
    }
    let reason = PlanReason::Replan;
    draft.review(epic, ReviewAsk { by, reason, draft: Some(id), text });
}

/// Asks GO and the goal's owner to look.
fn ask(desk: &mut Desk<'_, '_>, epic: EpicId, id: DraftId, text: &str) -> Result<(), Refusal> {
    let by = desk.request.sender.from.clone();
    let text = fit::Room::of(TEXT_BYTES_MAX).text(text, usize::MAX);
    let owner = questions::desk_of(desk.draft, &desk.goal(epic)?.owner);
    let go = Principal::Agent(AgentId::Go);
    for to in [go, owner] {
        if to != by {
            let body = MailBody::ReviewNeeded { reason: text.clone() };
            desk.draft.mail(to, Some(epic), body);
        }
    }
    let reason = PlanReason::Replan;
    desk.draft.review(epic, ReviewAsk { by, reason, draft: Some(id), text });
    Ok(())
}

/// So many drafts are kept; of those that are decided on the oldest gives way.
fn make_room(draft: &mut Draft<'_>, epic: EpicId) -> Result<(), Refusal> {
    let kept = draft.proposals(epic);
    let is_open = |proposal: &&Proposal| proposal.status == DraftStatus::Open;
    let open = kept.values().filter(is_open).count();
    if open >= DRAFTS_OPEN_MAX {
        let detail = format!(
            "{epic} has {open} open drafts; the limit is {DRAFTS_OPEN_MAX}; decide on one, or name the draft to replace"
        );
        return Err(Refusal::new(ErrorCode::Conflict, detail));
    }
    if kept.len() >= DRAFTS_KEPT_MAX {
        let decided = kept.values().filter(|proposal| !is_open(proposal));
        // One that this decision itself closed is written, so it is not forgotten.
        let known = decided.filter(|proposal| proposal.since < draft.now);
        let oldest = known.min_by_key(|proposal| (proposal.since, proposal.id));
        if let Some(oldest) = oldest.map(|proposal| proposal.id) {
            draft.forget(RecordKey::Draft(epic, oldest));
        }
    }
    Ok(())
}

/// A draft takes the place of an open one, its author's own or with people's and GO's authority.
fn supersede(
    desk: &mut Desk<'_, '_>,
    epic: EpicId,
    id: DraftId,
    by: DraftId,
) -> Result<(), Refusal> {
    let (proposal, _) = open(desk.draft, (epic, id), DraftVerdict::Reject)?;
    let from = &desk.request.sender.from;
    if proposal.author != *from && !may_decide(from) {
        let detail = format!("{id} is {}'s", proposal.author);
        return Err(Refusal::new(ErrorCode::Unauthorized, detail));
    }
    close(desk, proposal, DraftStatus::Superseded, &format!("{by} took its place"), None);
    Ok(())
}

/// A draft, and what a verdict makes of it.
fn open(
    draft: &Draft<'_>,
    (epic, id): (EpicId, DraftId),
    verdict: DraftVerdict,
) -> Result<(Proposal, DraftStatus), Refusal> {
    let Some(proposal) = draft.proposals(epic).remove(&id) else {
        let detail = format!("{epic} has no draft {id}; `tetrarch plan drafts {epic}` lists them");
        return Err(Refusal::new(ErrorCode::NotFound, detail));
    };
    if let Some(to) = proposal.status.after(verdict) {
        return Ok((proposal, to));
    }
    let by = proposal.decided_by.as_ref().map_or_else(String::new, |by| format!(" by {by}"));
    let detail = format!("{id} is {}{by}: {}", proposal.status, proposal.notes);
    Err(Refusal::new(ErrorCode::Conflict, detail))
}

/// `todo.draft`: a human or GO approves a draft, has it refined or rejects it; its author may take it
/// back.
pub(super) fn decide(
    desk: &mut Desk<'_, '_>,
    epic: EpicId,
    id: DraftId,
    verdict: DraftVerdict,
    reason: &str,
) -> Result<OpReply, Refusal> {
    desk.goal(epic)?;
    let from = desk.request.sender.from.clone();
    if from.agent().is_some() {
        crate::owner::current(desk.draft, &desk.request.sender)?;
    }
    let (proposal, to) = open(desk.draft, (epic, id), verdict)?;
    let own = proposal.author == from && verdict == DraftVerdict::Reject;
    if !may_decide(&from) && !own {
        let detail = format!("{from} may not decide on drafts; only people and GO may");
        return Err(Refusal::new(ErrorCode::Unauthorized, detail));
    }
    let reply = OpReply { epic: Some(epic), ..desk.reply.clone() };
    match verdict {
        DraftVerdict::Approve => {
            desk.open(epic)?;
            let (base, why) = (proposal.base_version, format!("{id}: {}", proposal.reason));
            let made = desk.apply(epic, base, &proposal.edit, PlanReason::Replan, &why)?;
            close(desk, proposal, to, reason, made.version);
            Ok(made)
        }
        DraftVerdict::Refine => {
            said("reason", reason)?;
            tell(desk, &proposal, &format!("{from} wants {id} refined: {reason}"));
            let event =
                desk.draft.event(EventKind::DraftDecided, RULE, format!("{id}: refine: {reason}"));
            event.epic = Some(epic);
            let refined = Proposal {
                status: to,
                notes: reason.to_owned(),
                decided_by: Some(from),
                ..proposal
            };
            desk.draft.put(Record::Draft(Box::new(refined)));
            let detail = format!("{id} stays open; its author is told");
            Ok(OpReply { detail, ..reply })
        }
        DraftVerdict::Reject => {
            said("reason", reason)?;
            close(desk, proposal, to, reason, None);
            Ok(OpReply { detail: format!("{id} is rejected"), ..reply })
        }
    }
}

fn close(
    desk: &mut Desk<'_, '_>,
    proposal: Proposal,
    status: DraftStatus,
    notes: &str,
    version: Option<u32>,
) {
    let from = desk.request.sender.from.clone();
    let notes = fit::Room::of(TEXT_BYTES_MAX).text(notes, usize::MAX);
    let id = proposal.id;
    let event = desk.draft.event(EventKind::DraftDecided, RULE, format!("{id}: {status}: {notes}"));
    event.epic = Some(proposal.epic);
    event.agent = proposal.author.agent().cloned();
    tell(desk, &proposal, &format!("{id} is {status} by {from}: {notes}"));
    desk.draft.put(Record::Draft(Box::new(Proposal {
        status,
        notes,
        decided_by: Some(from),
        version,
        since: desk.draft.now,
        ..proposal
    })));
}

/// Tells a draft's author what became of it, unless it was their own doing.
fn tell(desk: &mut Desk<'_, '_>, proposal: &Proposal, text: &str) {
    if proposal.author != desk.request.sender.from {
        let body = MailBody::Info { text: text.to_owned() };
        desk.draft.mail(proposal.author.clone(), Some(proposal.epic), body);
    }
}
