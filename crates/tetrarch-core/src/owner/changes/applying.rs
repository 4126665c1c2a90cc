//! Orders to merge what was approved, and what hosts say came of them. The approval is used up by the
//! commit that gives the order; an order may be given again, its answer may come again.

use crate::change::{ApplyOrder, ApplyOutcome, Approval, Change, ChangeStatus};
use crate::error::{ErrorCode, Refusal};
use crate::id::{AgentId, ChangeId, HostName, Principal};
use crate::ledger::{EventKind, Record};
use crate::limits::LIST_MAX;
use crate::liveness::Liveness;
use crate::mail::MailBody;
use crate::step::Draft;
use crate::time::BusTime;

use super::{GATE, RULE, conflict, guarding, note, over, refusal, settle};

/// Characters of a brief's goal that a merge's title repeats.
const TITLE_CHARS: usize = 60;
/// Conflicting files that a record keeps.
const CONFLICTS_BYTES_MAX: usize = 8 * 1024;

/// `apply.request`: orders the host to merge what was approved, once.
///
/// # Errors
/// It is not approved, or not any more; its host is not there; it touches what it may not.
pub(super) fn apply(draft: &mut Draft<'_>, change: Change) -> Result<String, Refusal> {
    if let Some(over) = over(draft, &change) {
        return Err(over);
    }
    let approval = change.approved_at(draft.now).map_err(|why| refusal(&change, &why))?.clone();
    if change.status != ChangeStatus::Approved {
        return Err(conflict(format!("{} is {}", change.id, change.status)));
    }
    let ho = AgentId::Ho(change.host.clone());
    let up = draft.agent(&ho).is_some_and(|ho| ho.liveness == Liveness::Active);
    if !up {
        let detail = format!("{} is on host {}, which is offline", change.made.branch, change.host);
        return Err(Refusal::new(ErrorCode::Unavailable, detail));
    }
    if let Err((why, for_good)) = guarding::breach(draft, &change) {
        guarding::count(draft, &change, &why);
        if for_good {
            settle(draft, change, ChangeStatus::Refused, &why);
        }
        return Err(conflict(why));
    }
    let Change { id, host, .. } = &change;
    let detail = format!("{host} merges {id} into {}", change.made.action.target);
    note(draft, &change, EventKind::ChangeOrdered, GATE, &approval.digest);
    let change = Change {
        status: ChangeStatus::Applying,
        earlier: change.earlier.iter().map(|it| used(it, draft.now)).collect(),
        approval: Some(used(&approval, draft.now)),
        since: draft.now,
        ..change
    };
    order(draft, &change);
    draft.put(Record::Change(Box::new(change)));
    Ok(detail)
}

fn used(approval: &Approval, now: BusTime) -> Approval {
    Approval { used: Some(now), ..approval.clone() }
}

/// Sends the order for a change whose approval is used.
fn order(draft: &mut Draft<'_>, change: &Change) {
    let Some(approval) = &change.approval else { return };
    let host = AgentId::Ho(change.host.clone());
    let order = ApplyOrder {
        change: change.id,
        host_epoch: draft.agent(&host).map_or(0, |host| host.epoch),
        run: change.run,
        digest: approval.digest.clone(),
        action: change.made.action.clone(),
        branch: change.made.branch.clone(),
        message: message(draft, change),
        at: approval.at,
    };
    draft.mail(Principal::Agent(host), Some(change.epic), MailBody::Apply(Box::new(order)));
}

fn message(draft: &Draft<'_>, change: &Change) -> String {
    let goal = draft.run(change.run).map_or("", |run| run.brief.goal.as_str());
    let words = goal.split(|c: char| c.is_control()).next().unwrap_or_default();
    let title: String = words.chars().take(TITLE_CHARS).collect();
    let Change { id, agent, run, epic, node, .. } = change;
    let approvals = change.earlier.iter().chain(&change.approval);
    let by: String = approvals.map(|it| format!("Approved-by: {}\n", it.by)).collect();
    format!(
        "Apply {id}: {title}\n\nTetrarch-Change: {id}\nTetrarch-Run: {run}\nTetrarch-Agent: {agent}\n\
         Tetrarch-Node: {epic} {node}\n{by}"
    )
}

/// A host began a life: what an earlier one was ordered to merge, it is ordered again. Which of them
/// was merged it finds out by itself.
pub(in crate::owner) fn order_again(draft: &mut Draft<'_>, host: &HostName) {
    let open: Vec<Change> = draft.base().applying_on(host).cloned().collect();
    for change in &open {
        order(draft, change);
    }
}

/// What a host says came of an order. It may say so again.
///
/// # Errors
/// It is not that host's to say, or there is no such change.
pub(in crate::owner) fn settled(
    draft: &mut Draft<'_>,
    by: &AgentId,
    id: ChangeId,
    outcome: &ApplyOutcome,
) -> Result<(), Refusal> {
    let Some(change) = draft.base().changes.get(&id).cloned() else {
        return Err(Refusal::new(ErrorCode::NotFound, format!("change {id} was not found")));
    };
    if *by != AgentId::Ho(change.host.clone()) {
        let detail = format!("{id} is merged by {}, not by {by}", change.host);
        return Err(Refusal::new(ErrorCode::Unauthorized, detail));
    }
    if change.status != ChangeStatus::Applying {
        return Ok(());
    }
    match outcome {
        ApplyOutcome::Applied { commit } => {
            let why = format!("{} is in {}", commit, change.made.action.target);
            let commit = commit.clone();
            settle(draft, Change { commit, ..change }, ChangeStatus::Applied, &why);
        }
        ApplyOutcome::Conflicted { files, reason } => {
            let mut room = CONFLICTS_BYTES_MAX;
            let fits = |file: &&String| {
                let there = file.len() <= room;
                room = room.saturating_sub(file.len());
                there
            };
            let conflicts = files.iter().take(LIST_MAX).take_while(fits).cloned().collect();
            settle(draft, Change { conflicts, ..change }, ChangeStatus::Conflicted, reason);
        }
        ApplyOutcome::Refused { reason } => {
            note(draft, &change, EventKind::Alert, RULE, reason);
            settle(draft, change, ChangeStatus::Refused, reason);
        }
    }
    Ok(())
}
