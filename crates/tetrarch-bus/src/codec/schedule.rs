//! What begins at set times: records and operations.

use serde_json::Value;
use tetrarch_core::duration;
use tetrarch_core::id::RequestId;
use tetrarch_core::request::Op;
use tetrarch_core::request::schedules::ScheduleOp;
use tetrarch_core::schedule::{Deed, Rhythm, Schedule, UTC};
use tetrarch_core::time::{BusTime, Millis};

use super::error::CodecError;
use super::json::{self, Unknown};
use super::op::finish;
use super::read;
use crate::proto::v1 as pb;

fn written(deed: &Deed) -> (Option<pb::ScheduledGoal>, Option<pb::ScheduledMail>) {
    match deed {
        Deed::Goal { project, plan } => {
            let (project, plan) = (project.to_string(), plan.clone());
            (Some(pb::ScheduledGoal { project, plan }), None)
        }
        Deed::Mail { to, text } => {
            let (to, text) = (to.to_string(), text.clone());
            (None, Some(pb::ScheduledMail { to, text }))
        }
    }
}

fn deed(
    goal: Option<pb::ScheduledGoal>,
    mail: Option<pb::ScheduledMail>,
) -> Result<Deed, CodecError> {
    match (goal, mail) {
        (Some(goal), None) => {
            if goal.plan.is_empty() {
                return Err(CodecError::Missing { field: "goal.plan".to_owned() });
            }
            Ok(Deed::Goal { project: read::text("goal.project", &goal.project)?, plan: goal.plan })
        }
        (None, Some(mail)) => {
            if mail.text.is_empty() {
                return Err(CodecError::Missing { field: "mail.text".to_owned() });
            }
            Ok(Deed::Mail { to: read::text("mail.to", &mail.to)?, text: mail.text })
        }
        (None, None) => Err(CodecError::Missing { field: "goal or mail".to_owned() }),
        (Some(_), Some(_)) => {
            Err(CodecError::field("mail", "is given together with a goal; give one of them"))
        }
    }
}

fn rhythm(cron: String, zone: String, every: Option<Millis>) -> Result<Rhythm, CodecError> {
    match (read::some(cron), every) {
        (Some(expression), None) => {
            let zone = read::some(zone).unwrap_or_else(|| UTC.to_owned());
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

impl From<&Schedule> for pb::ScheduleRecord {
    fn from(schedule: &Schedule) -> Self {
        let (goal, mail) = written(&schedule.deed);
        let (cron, zone, every) = match &schedule.rhythm {
            Rhythm::Cron { expression, zone } => (expression.clone(), zone.clone(), Millis(0)),
            Rhythm::Every(every) => (String::new(), String::new(), *every),
        };
        Self {
            id: schedule.id.to_string(),
            owner: schedule.owner.to_string(),
            cron,
            zone,
            every_ms: every.0,
            goal,
            mail,
            created_unix_ms: schedule.created.0,
            last_unix_ms: schedule.last.map(|at| at.0),
            next_unix_ms: schedule.next.map(|at| at.0),
            fired: schedule.fired,
            outcome: schedule.outcome.clone(),
        }
    }
}

impl TryFrom<pb::ScheduleRecord> for Schedule {
    type Error = CodecError;
    fn try_from(schedule: pb::ScheduleRecord) -> Result<Self, CodecError> {
        let every = (schedule.every_ms > 0).then_some(Millis(schedule.every_ms));
        Ok(Self {
            id: read::text("id", &schedule.id)?,
            owner: read::text("owner", &schedule.owner)?,
            rhythm: rhythm(schedule.cron, schedule.zone, every)?,
            deed: deed(schedule.goal, schedule.mail)?,
            created: BusTime(schedule.created_unix_ms),
            last: schedule.last_unix_ms.map(BusTime),
            next: schedule.next_unix_ms.map(BusTime),
            fired: schedule.fired,
            outcome: schedule.outcome,
        })
    }
}

/// The body of an operation.
pub(super) fn encode(op: &ScheduleOp, id: RequestId) -> Result<Vec<u8>, CodecError> {
    let (request_id, sender) = (id.to_string(), String::new());
    match op {
        ScheduleOp::Create { rhythm, deed } => {
            let (goal, mail) = written(deed);
            let (cron, zone, every) = match rhythm {
                Rhythm::Cron { expression, zone } => {
                    (expression.clone(), zone.clone(), String::new())
                }
                Rhythm::Every(every) => (String::new(), String::new(), duration::print(*every)),
            };
            let message = pb::ScheduleCreate { request_id, sender, cron, zone, every, goal, mail };
            finish("ScheduleCreate", &message)
        }
        ScheduleOp::Delete { schedule } => {
            let schedule = schedule.to_string();
            finish("ScheduleDelete", &pb::ScheduleDelete { request_id, sender, schedule })
        }
        ScheduleOp::List { page } => {
            let (limit, after) = read::shown_page(page);
            finish("ScheduleList", &pb::ScheduleList { request_id, sender, limit, after })
        }
    }
}

/// Reads the body of `schedule.<verb>`.
pub(super) fn decode(verb: &str, body: Value) -> Result<Op, CodecError> {
    Ok(Op::Schedule(match verb {
        "create" => {
            let create: pb::ScheduleCreate =
                json::message("ScheduleCreate", body, Unknown::Refused)?;
            let every = read::length("every", &create.every, None, None)?;
            ScheduleOp::Create {
                rhythm: rhythm(create.cron, create.zone, every)?,
                deed: Box::new(deed(create.goal, create.mail)?),
            }
        }
        "delete" => {
            let delete: pb::ScheduleDelete =
                json::message("ScheduleDelete", body, Unknown::Refused)?;
            ScheduleOp::Delete { schedule: read::text("schedule", &delete.schedule)? }
        }
        "list" => {
            let list: pb::ScheduleList = json::message("ScheduleList", body, Unknown::Refused)?;
            ScheduleOp::List { page: read::page(list.limit, &list.after)? }
        }
        other => return Err(super::op::unknown(&format!("schedule.{other}"))),
    }))
}
