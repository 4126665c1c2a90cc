//! Reservations of files (spec 05, Reservations): given to sessions, listed, released, and forgotten
//! when their time or their session is over. The rules are in `reservation`.

use serde_json::{Value, json};

use crate::agent::Project;
use crate::error::{ErrorCode, Refusal};
use crate::id::{Principal, ProjectName, ReservationId};
use crate::ledger::{EventKind, Record, RecordKey};
use crate::limits::{
    ANSWER_BYTES_MAX, LIST_MAX, RESERVATIONS_MAX, RESERVED_FOR, RESERVED_FOR_LEAST,
    RESERVED_FOR_MAX, TEXT_BYTES_MAX,
};
use crate::mail::OpReply;
use crate::request::{FileOp, Request};
use crate::reservation::{Mode, Reservation, Wanted, reserve};
use crate::step::Draft;
use crate::time::{BusTime, Millis};

const RULE: &str = "05 Reservations";
/// Reservations that are forgotten in one go.
const FORGOTTEN_MAX: usize = 64;
/// The longest glob, in bytes.
const GLOB_BYTES_MAX: usize = 1024;

/// Decides on an operation.
///
/// # Errors
/// Somebody else holds it, there is none, or what is wrong with what is wanted.
pub(super) fn operate(
    draft: &mut Draft<'_>,
    request: &Request,
    op: &FileOp,
    reply: OpReply,
) -> Result<OpReply, Refusal> {
    match op {
        FileOp::Reserve { paths, mode, ttl, reason } => {
            let ttl = ttl.unwrap_or(RESERVED_FOR);
            bounded(paths, ttl, reason)?;
            let given = give(draft, request, (paths, *mode, ttl, reason))?;
            let detail = format!("{} until it is released, at most for {ttl}", mode.as_str());
            let data = Some(shown(&given).to_string());
            Ok(OpReply { detail, agent: Some(given.agent), data, ..reply })
        }
        FileOp::Release { reservation } => {
            let held = draft.base().reservations.get(reservation);
            let held = held.filter(|it| draft.base().is_standing(it, draft.now)).cloned();
            let held = held.ok_or_else(|| {
                Refusal::new(
                    ErrorCode::NotFound,
                    format!(
                        "reservation {reservation} was not found; `tetrarch file list` lists all"
                    ),
                )
            })?;
            if request.sender.from.agent().is_some() {
                let sender = super::current(draft, &request.sender)?.id.clone();
                if sender != held.agent {
                    let detail = format!("{reservation} is held by {}", held.agent);
                    return Err(Refusal::new(ErrorCode::Unauthorized, detail));
                }
            }
            end(draft, &held, "released");
            Ok(OpReply { agent: Some(held.agent), ..reply })
        }
        FileOp::List { project, page } => {
            let project = listed_project(draft, request, project.as_ref())?;
            let held = draft.base().reserved_in(&project, draft.now);
            let wanted: Vec<&Reservation> = held.filter(|it| Some(it.id) > page.after).collect();
            let (data, detail) = page_of(&wanted, page.limit, shown, |it| it.id.to_string());
            Ok(OpReply { detail, data: Some(data), ..reply })
        }
    }
}

/// A page of what an answer tells, as JSON text, and where the next one begins.
pub(super) fn page_of<T>(
    wanted: &[&T],
    limit: Option<usize>,
    shown: impl Fn(&T) -> Value,
    name: impl Fn(&T) -> String,
) -> (String, String) {
    let most = limit.unwrap_or(usize::MAX);
    let (data, kept) = within_answer(wanted.iter().take(most).map(|it| shown(it)));
    let detail = match wanted.get(..kept) {
        Some([.., last]) if kept < wanted.len() => {
            let left = wanted.len() - kept;
            format!("{left} more are not listed; continue with after {}", name(last))
        }
        Some(_) | None => String::new(),
    };
    (data, detail)
}

/// The project that an operation is about: an agent's own, any for people.
pub(super) fn listed_project(
    draft: &Draft<'_>,
    request: &Request,
    named: Option<&ProjectName>,
) -> Result<ProjectName, Refusal> {
    if let (Principal::Human(_), Some(named)) = (&request.sender.from, named) {
        return Ok(named.clone());
    }
    let own = own_project(draft, request)?;
    match named {
        Some(named) if *named != own => {
            let detail = format!("{} does not work on project {named}", request.sender.from);
            Err(Refusal::new(ErrorCode::Unauthorized, detail))
        }
        Some(_) | None => Ok(own),
    }
}

fn own_project(draft: &Draft<'_>, request: &Request) -> Result<ProjectName, Refusal> {
    let agent = super::current(draft, &request.sender)?;
    agent.project.clone().ok_or_else(|| {
        let detail = format!("{} belongs to no project; give the project", agent.id);
        Refusal::new(ErrorCode::InvalidRequest, detail)
    })
}

fn bounded(paths: &[String], ttl: Millis, reason: &str) -> Result<(), Refusal> {
    let wrong = |detail: String| Err(Refusal::new(ErrorCode::InvalidRequest, detail));
    if !(1..=LIST_MAX).contains(&paths.len()) {
        return wrong(format!("paths: {} entries; allowed: 1 to {LIST_MAX}", paths.len()));
    }
    for (place, path) in paths.iter().enumerate() {
        let outside = path.starts_with('/') || path.split('/').any(|segment| segment == "..");
        if outside || !(1..=GLOB_BYTES_MAX).contains(&path.len()) {
            return wrong(format!(
                "paths[{place}]: a glob of 1 to {GLOB_BYTES_MAX} bytes, relative to the project's \
                 root and within it"
            ));
        }
    }
    if !(RESERVED_FOR_LEAST..=RESERVED_FOR_MAX).contains(&ttl) {
        return wrong(format!("ttl: {ttl}; allowed: {RESERVED_FOR_LEAST} to {RESERVED_FOR_MAX}"));
    }
    if reason.len() > TEXT_BYTES_MAX {
        let size = reason.len();
        return wrong(format!("reason: {size} bytes; the limit is {TEXT_BYTES_MAX}"));
    }
    Ok(())
}

fn give(
    draft: &mut Draft<'_>,
    request: &Request,
    (paths, mode, ttl, reason): (&[String], Mode, Millis, &str),
) -> Result<Reservation, Refusal> {
    let name = own_project(draft, request)?;
    let holder = super::current(draft, &request.sender)?;
    let (agent, epoch, session) = (holder.id.clone(), holder.epoch, holder.session);
    let (records, now) = (draft.base(), draft.now);
    let (Some(session), Some(project)) = (session, records.projects.get(&name)) else {
        return Err(Refusal::new(ErrorCode::NotFound, format!("project {name} was not found")));
    };
    if records.reservations_of(&name) >= RESERVATIONS_MAX {
        let detail = format!(
            "{name} has {RESERVATIONS_MAX} reservations; release some, or wait until some expire"
        );
        return Err(Refusal::new(ErrorCode::Unavailable, detail));
    }
    let standing: Vec<&Reservation> = records.reserved_in(&name, now).collect();
    let wanted = Wanted { agent: &agent, epoch, paths, mode };
    let next = reserve(standing.iter().copied(), wanted, now).map_err(|held| taken(&held, now))?;
    let fencing = next.max(project.fencing + 1);
    let id = ReservationId::derive(now, &request.id.to_string(), "reservation", 0);
    let given = Reservation {
        id,
        project: name,
        fencing,
        agent: agent.clone(),
        session,
        epoch,
        paths: paths.to_vec(),
        mode,
        until: now + ttl,
        reason: reason.to_owned(),
    };
    draft.put(Record::Project(Project { fencing, ..project.clone() }));
    let words = format!("{} {}: {reason}", mode.as_str(), paths.join(" "));
    let mut words = words;
    words.truncate(words.floor_char_boundary(TEXT_BYTES_MAX));
    draft.event(EventKind::FilesReserved, RULE, words).agent = Some(agent);
    draft.put(Record::Reservation(Box::new(given.clone())));
    Ok(given)
}

/// Who holds what is wanted.
fn taken(standing: &[&Reservation], now: BusTime) -> Refusal {
    let holders: Vec<String> = standing
        .iter()
        .take(3)
        .map(|held| {
            let left = held.until - now;
            let Reservation { id, agent, mode, reason, .. } = held;
            let path = held.paths.first().map_or("", String::as_str);
            format!("{agent} holds {path} {} as {id} for {left} more: {reason}", mode.as_str())
        })
        .collect();
    Refusal::new(ErrorCode::Conflict, holders.join("; "))
}

fn end(draft: &mut Draft<'_>, held: &Reservation, why: &str) {
    let event = draft.event(EventKind::FilesReleased, RULE, format!("{}: {why}", held.id));
    event.agent = Some(held.agent.clone());
    draft.forget(RecordKey::Reservation(held.id));
}

/// Forgets reservations whose time or whose session is over, a bounded number at a time.
pub(super) fn forget_over(draft: &mut Draft<'_>) {
    let (records, now) = (draft.base(), draft.now);
    let over = records.reservations.values().filter(|it| !records.is_standing(it, now));
    for held in over.take(FORGOTTEN_MAX) {
        let why = if held.until <= now { "it expired" } else { "its session ended" };
        end(draft, held, why);
    }
}

fn shown(held: &Reservation) -> Value {
    json!({
        "id": held.id.to_string(),
        "project": held.project.to_string(),
        "fencing": held.fencing.to_string(),
        "agent": held.agent.to_string(),
        "paths": held.paths,
        "mode": held.mode.as_str(),
        "untilUnixMs": held.until.0.to_string(),
        "reason": held.reason,
    })
}

/// As many as an answer has room for, as JSON text, and how many it has not.
fn within_answer(all: impl Iterator<Item = Value>) -> (String, usize) {
    let (mut text, mut kept) = ("[".to_owned(), 0);
    for one in all {
        let one = one.to_string();
        if text.len() + one.len() + 2 > ANSWER_BYTES_MAX {
            break;
        }
        if kept > 0 {
            text.push(',');
        }
        text.push_str(&one);
        kept += 1;
    }
    text.push(']');
    (text, kept)
}
