//! What begins at set times: records and operations.

use serde_json::Value;
use tetrarch_core::duration;
use tetrarch_core::id::RequestId;
use tetrarch_core::request::schedules::ScheduleOp;
use tetrarch_core::schedule::{Deed, Rhythm, Schedule, ScheduledTurn, UTC};
use tetrarch_core::time::Millis;

use super::error::CodecError;
use super::op::finish;
use super::wire::{Wire, field, message};
use super::{json, read};
use crate::proto::v1 as pb;

/// A deed as messages say it: one of three.
#[derive(Default)]
struct DeedFields {
    goal: Option<pb::ScheduledGoal>,
    mail: Option<pb::ScheduledMail>,
    turn: Option<pb::ScheduledTurn>,
}

message!(ScheduledTurn, ScheduledTurn { conversation, project, graph, text, tell });

fn written(deed: &Deed) -> DeedFields {
    match deed {
        Deed::Goal { project, plan } => {
            let (project, plan) = (project.to_string(), plan.clone());
            DeedFields { goal: Some(pb::ScheduledGoal { project, plan }), ..DeedFields::default() }
        }
        Deed::Mail { to, text } => {
            let (to, text) = (to.to_string(), text.clone());
            DeedFields { mail: Some(pb::ScheduledMail { to, text }), ..DeedFields::default() }
        }
        Deed::Turn(turn) => DeedFields { turn: Some(turn.put()), ..DeedFields::default() },
    }
}

fn deed(given: DeedFields) -> Result<Deed, CodecError> {
    let filled = |text: &str, name: &str| {
        if text.is_empty() { Err(CodecError::Missing { field: name.to_owned() }) } else { Ok(()) }
    };
    match (given.goal, given.mail, given.turn) {
        (Some(goal), None, None) => {
            filled(&goal.plan, "goal.plan")?;
            Ok(Deed::Goal { project: field("goal.project", goal.project)?, plan: goal.plan })
        }
        (None, Some(mail), None) => {
            filled(&mail.text, "mail.text")?;
            Ok(Deed::Mail { to: field("mail.to", mail.to)?, text: mail.text })
        }
        (None, None, Some(turn)) => {
            filled(&turn.text, "turn.text")?;
            Ok(Deed::Turn(field("turn", turn)?))
        }
        (None, None, None) => Err(CodecError::Missing { field: "goal, mail or turn".to_owned() }),
        (Some(_), Some(_), _) => {
            Err(CodecError::field("mail", "is given together with a goal; give one of them"))
        }
        (Some(_), None, Some(_)) => {
            Err(CodecError::field("turn", "is given together with a goal; give one of them"))
        }
        (None, Some(_), Some(_)) => {
            Err(CodecError::field("turn", "is given together with mail; give one of them"))
        }
    }
}

fn rhythm(cron: String, zone: String, every: Option<Millis>) -> Result<Rhythm, CodecError> {
    match (Some(cron).filter(|cron| !cron.is_empty()), every) {
        (Some(expression), None) => {
            let zone = if zone.is_empty() { UTC.to_owned() } else { zone };
            Ok(Rhythm::Cron { expression, zone })
        }
        (None, Some(_)) if !zone.is_empty() => {
            Err(CodecError::field("zone", "an interval has no time zone; remove it"))
        }
        (None, Some(every)) => Ok(Rhythm::Every(every)),
        (None, None) => Err(CodecError::Missing { field: "cron or every".to_owned() }),
        (Some(_), Some(_)) => {
            Err(CodecError::field("every", "is given together with cron; give one of them"))
        }
    }
}

impl Wire<pb::ScheduleRecord> for Schedule {
    fn put(&self) -> pb::ScheduleRecord {
        let DeedFields { goal, mail, turn } = written(&self.deed);
        let (cron, zone, every) = match &self.rhythm {
            Rhythm::Cron { expression, zone } => (expression.clone(), zone.clone(), Millis(0)),
            Rhythm::Every(every) => (String::new(), String::new(), *every),
        };
        pb::ScheduleRecord {
            id: self.id.put(),
            owner: self.owner.put(),
            cron,
            zone,
            every_ms: every.put(),
            goal,
            mail,
            turn,
            created_unix_ms: self.created.put(),
            last_unix_ms: self.last.put(),
            next_unix_ms: self.next.put(),
            fired: self.fired,
            outcome: self.outcome.clone(),
        }
    }

    fn get(held: pb::ScheduleRecord) -> Result<Self, CodecError> {
        let every = (held.every_ms > 0).then_some(Millis(held.every_ms));
        Ok(Self {
            id: field("id", held.id)?,
            owner: field("owner", held.owner)?,
            rhythm: rhythm(held.cron, held.zone, every)?,
            deed: deed(DeedFields { goal: held.goal, mail: held.mail, turn: held.turn })?,
            created: Wire::get(held.created_unix_ms)?,
            last: Wire::get(held.last_unix_ms)?,
            next: Wire::get(held.next_unix_ms)?,
            fired: held.fired,
            outcome: held.outcome,
        })
    }
}

/// The body of `schedule.create`.
pub(super) fn encode(rhythm: &Rhythm, deed: &Deed, id: RequestId) -> Result<Vec<u8>, CodecError> {
    let DeedFields { goal, mail, turn } = written(deed);
    let (cron, zone, every) = match rhythm {
        Rhythm::Cron { expression, zone } => (expression.clone(), zone.clone(), String::new()),
        Rhythm::Every(every) => (String::new(), String::new(), duration::print(*every)),
    };
    let (request_id, sender) = (id.to_string(), String::new());
    finish(&pb::ScheduleCreate { request_id, sender, cron, zone, every, goal, mail, turn })
}

/// Reads the body of `schedule.create`.
pub(super) fn create(body: Value) -> Result<ScheduleOp, CodecError> {
    let create: pb::ScheduleCreate = json::request(body)?;
    let every = read::length("every", &create.every, None, None)?;
    let rhythm = rhythm(create.cron, create.zone, every)?;
    let deed = deed(DeedFields { goal: create.goal, mail: create.mail, turn: create.turn })?;
    Ok(ScheduleOp::Create { rhythm, deed: Box::new(deed) })
}
