//! What begins at set times (spec 05, Schedules): given, taken back, told, and begun when it is due. A
//! firing and the schedule's next time are one commit, and what begins is named after the time it was
//! due, so that it begins once whichever owner finds it due.

use serde_json::{Value, json};

use crate::error::{ErrorCode, Refusal};
use crate::id::{AgentId, HumanName, Principal, ProjectName, RequestId, ScheduleId};
use crate::ledger::{EventKind, Record, RecordKey};
use crate::limits::{
    FIRED_BYTES_MAX, FIRED_MAX, SCHEDULE_PLAN_BYTES_MAX, SCHEDULES_MAX, SCHEDULES_OWN_MAX,
    TEXT_BYTES_MAX,
};
use crate::mail::{MailBody, OpReply};
use crate::plan::schema::{self, PlanFile};
use crate::request::Request;
use crate::request::schedules::ScheduleOp;
use crate::schedule::{Deed, FIRINGS_TAKEN_MAX, Rhythm, Schedule};
use crate::step::Draft;
use crate::time::BusTime;

use super::goals::fits;
use super::work::Answer;
use super::{Policy, consulting, conversing, profiles, weight};

const RULE: &str = "05 Schedules";

/// Does what is asked, or tells it.
///
/// # Errors
/// Not the sender's to decide, nothing that can begin, or no such schedule.
pub(super) fn operate(
    draft: &mut Draft<'_>,
    request: &Request,
    op: &ScheduleOp,
    reply: OpReply,
) -> Result<OpReply, Refusal> {
    if request.sender.from.agent().is_some() {
        super::current(draft, &request.sender)?;
    }
    let from = &request.sender.from;
    match op {
        ScheduleOp::Create { rhythm, deed } => {
            let detail = create(draft, ScheduleId(request.id.0), from, rhythm, deed)?;
            Ok(OpReply { detail, ..reply })
        }
        ScheduleOp::Delete { schedule } => {
            delete(draft, from, *schedule)?;
            Ok(OpReply { detail: schedule.to_string(), ..reply })
        }
        ScheduleOp::List { page } => {
            let mut answer = Answer::default();
            let all = draft.base().schedules.iter().map(|(id, schedule)| (*id, told(schedule)));
            answer.page("schedules", all, *page);
            Ok(OpReply { data: Some(answer.finish()), ..reply })
        }
    }
}

/// A schedule without its plan.
fn told(schedule: &Schedule) -> Value {
    let deed = match &schedule.deed {
        Deed::Goal { project, .. } => json!({"goal": {"project": project.to_string()}}),
        Deed::Mail { to, text } => json!({"mail": {"to": to.to_string(), "text": text}}),
        Deed::Turn(turn) => json!({"turn": {
            "conversation": turn.conversation.as_str(),
            "project": turn.project.as_str(),
            "text": turn.text,
            "tell": turn.tell.as_ref().map(HumanName::as_str),
        }}),
    };
    json!({
        "id": schedule.id.to_string(),
        "owner": schedule.owner.to_string(),
        "when": schedule.rhythm.in_words(),
        "what": deed,
        "lastUnixMs": schedule.last.map(|at| at.0),
        "nextUnixMs": schedule.next.map(|at| at.0),
        "fired": schedule.fired,
        "outcome": schedule.outcome,
    })
}

fn create(
    draft: &mut Draft<'_>,
    id: ScheduleId,
    from: &Principal,
    rhythm: &Rhythm,
    deed: &Deed,
) -> Result<String, Refusal> {
    if draft.base().schedules.len() >= SCHEDULES_MAX {
        let detail = format!("the limit of {SCHEDULES_MAX} schedules is reached; delete one first");
        return Err(Refusal::new(ErrorCode::Conflict, detail));
    }
    let own = draft.base().schedules.values().filter(|schedule| schedule.owner == *from).count();
    if own >= SCHEDULES_OWN_MAX {
        let detail =
            format!("{from} has {SCHEDULES_OWN_MAX} schedules, the limit; delete one first");
        return Err(Refusal::new(ErrorCode::Conflict, detail));
    }
    if draft.base().schedules.contains_key(&id) {
        let detail = format!("schedule {id} already exists; use another requestId");
        return Err(Refusal::new(ErrorCode::Conflict, detail));
    }
    match deed {
        Deed::Goal { project, plan } => {
            may_give(draft, from, project)?;
            fits("plan", plan, SCHEDULE_PLAN_BYTES_MAX)?;
            profiles::suffice(draft, project, from, &read_plan(plan)?)?;
        }
        Deed::Mail { to, text } => {
            may_write(draft, from, to)?;
            fits("text", text, TEXT_BYTES_MAX)?;
        }
        Deed::Turn(turn) => conversing::may_begin(draft, from, turn)?,
    }
    let invalid = |error: crate::schedule::RhythmError| {
        Refusal::new(ErrorCode::InvalidRequest, error.to_string())
    };
    if let Rhythm::Cron { expression, zone } = rhythm {
        fits("cron", expression, EXPRESSION_BYTES_MAX)?;
        fits("zone", zone, EXPRESSION_BYTES_MAX)?;
    }
    let next = rhythm.first(deed, draft.now).map_err(invalid)?;
    draft.event(EventKind::ScheduleCreated, RULE, format!("{id}: {}", rhythm.in_words()));
    draft.put(Record::Schedule(Box::new(Schedule {
        id,
        owner: from.clone(),
        rhythm: rhythm.clone(),
        deed: deed.clone(),
        created: draft.now,
        last: None,
        next: Some(next),
        fired: 0,
        outcome: String::new(),
    })));
    Ok(id.to_string())
}

/// Longest cron expression or name of a time zone, in bytes.
const EXPRESSION_BYTES_MAX: usize = 256;

fn may_give(draft: &Draft<'_>, from: &Principal, project: &ProjectName) -> Result<(), Refusal> {
    if draft.base().projects.get(project).is_none_or(|known| known.retired) {
        let detail =
            format!("project {project} was not found; create it with operation `project.create`");
        return Err(Refusal::new(ErrorCode::NotFound, detail));
    }
    let own = |agent: &AgentId| *agent == AgentId::Go || *agent == AgentId::Po(project.clone());
    match from.agent() {
        Some(agent) if !own(agent) => {
            let detail = format!("{agent} may not give goals to {project}");
            Err(Refusal::new(ErrorCode::Unauthorized, detail))
        }
        Some(_) | None => Ok(()),
    }
}

/// Mail at set times is people's, to people.
fn may_write(draft: &Draft<'_>, from: &Principal, to: &Principal) -> Result<(), Refusal> {
    if let Some(agent) = from.agent().filter(|agent| **agent != AgentId::Go) {
        let detail = format!("{agent} is an agent; only a human may schedule mail");
        return Err(Refusal::new(ErrorCode::Unauthorized, detail));
    }
    match to.agent() {
        Some(agent) if draft.agent(agent).is_none() => {
            Err(Refusal::new(ErrorCode::NotFound, format!("agent {agent} was not found")))
        }
        // It is GO that writes then, and whoever may not write to agents may make schedules.
        Some(agent) if from.agent().is_none() => {
            let detail = format!("{agent} is an agent; scheduled mail goes to people");
            Err(Refusal::new(ErrorCode::Unauthorized, detail))
        }
        Some(_) | None => Ok(()),
    }
}

fn read_plan(plan: &str) -> Result<PlanFile, Refusal> {
    let invalid = |detail: String| Refusal::new(ErrorCode::InvalidPlan, format!("plan: {detail}"));
    let document: Value = serde_json::from_str(plan).map_err(|error| invalid(error.to_string()))?;
    schema::parse_either(&document).map_err(|problems| {
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        invalid(problems.join("; "))
    })
}

fn delete(draft: &mut Draft<'_>, from: &Principal, id: ScheduleId) -> Result<(), Refusal> {
    let Some(schedule) = draft.base().schedules.get(&id) else {
        let detail = format!("schedule {id} was not found; `tetrarch schedule list` lists all");
        return Err(Refusal::new(ErrorCode::NotFound, detail));
    };
    if from.agent().is_some_and(|agent| *agent != AgentId::Go) && *from != schedule.owner {
        let detail = format!("{id} is {}'s", schedule.owner);
        return Err(Refusal::new(ErrorCode::Unauthorized, detail));
    }
    let reason = format!("{id}: begun {} times", schedule.fired);
    draft.event(EventKind::ScheduleDeleted, RULE, reason);
    draft.forget(RecordKey::Schedule(id));
    Ok(())
}

/// What somebody scheduled begins no more: their credential is revoked.
pub(super) fn stop(draft: &mut Draft<'_>, owner: &Principal) {
    let all = draft.base().schedules.values();
    let due = all.filter(|schedule| schedule.owner == *owner && schedule.next.is_some());
    for schedule in due {
        let outcome = format!("stopped: the credential of {owner} is revoked");
        draft.event(EventKind::Alert, RULE, format!("{}: {outcome}", schedule.id));
        draft.put(Record::Schedule(Box::new(Schedule { outcome, next: None, ..schedule.clone() })));
    }
}

/// Begins what is due, as much as one decision has room for; the rest is due at the next tick. While
/// no work is taken nothing begins.
pub(super) fn fire_due(draft: &mut Draft<'_>, policy: &Policy) {
    if policy.halted.is_some() {
        return;
    }
    let now = draft.now;
    let due = draft.base().scheduled().take_while(|(at, _)| *at <= now).take(FIRED_MAX);
    for (at, id) in due {
        let Some(schedule) = draft.base().schedules.get(&id) else { continue };
        fire(draft, policy, schedule.clone(), at);
        if weight::step(draft.base(), draft.written()) >= FIRED_BYTES_MAX {
            return;
        }
    }
    draft.request = None;
}

/// Begins it once for the time it was due and all that have passed since.
fn fire(draft: &mut Draft<'_>, policy: &Policy, mut schedule: Schedule, due: BusTime) {
    // Anybody can tell the first beforehand, and may have taken it.
    let mut epics = (0..=FIRINGS_TAKEN_MAX).map(|index| schedule.firing(due, index));
    let free = epics.find(|epic| !consulting::is_taken(draft, *epic));
    let epic = free.unwrap_or_else(|| schedule.firing(due, 0));
    draft.request = Some(RequestId(epic.0));
    let begun = match &schedule.deed {
        Deed::Goal { project, plan } => read_plan(plan).and_then(|plan| {
            consulting::give(draft, policy, epic, project, &schedule.owner, &plan)
                .map(|_| format!("{epic} for {project}"))
        }),
        Deed::Mail { to, text } => {
            // Sent by GO, so it says whose words they are.
            let text = format!("{} by {}: {text}", schedule.owner, schedule.id);
            draft.mail(to.clone(), None, MailBody::Info { text });
            Ok(format!("mail to {to}"))
        }
        Deed::Turn(turn) => conversing::begin_scheduled(draft, &schedule, turn),
    };
    let id = schedule.id;
    schedule.outcome = match begun {
        Ok(what) => what,
        Err(refusal) => {
            let text = format!("{id} could not begin: {refusal}");
            draft.mail(schedule.owner.clone(), None, MailBody::Info { text });
            refusal.to_string()
        }
    };
    schedule.last = Some(due);
    schedule.fired += 1;
    // A rhythm that was one stays one; should this version not read it, it is due no more.
    schedule.next = schedule.rhythm.next(schedule.created, draft.now).unwrap_or_default();
    let late = draft.now - due;
    let reason = format!("{id}: {}; {late} after it was due", schedule.outcome);
    draft.event(EventKind::ScheduleFired, RULE, reason);
    draft.put(Record::Schedule(Box::new(schedule)));
}
