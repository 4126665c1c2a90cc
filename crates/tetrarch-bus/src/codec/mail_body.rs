//! Bodies of mail, by topic.

use prost::Name;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tetrarch_core::mail::receipt;
use tetrarch_core::mail::{
    Alert, Duty, Launch, Mail, MailBody, ResultReady, SessionOrder, StatusRequest,
};
use tetrarch_core::verb::Verb;

use super::error::CodecError;
use super::mail::around;
use super::wire::{Wire, field, get, message, put};
use super::{json, verbs};
use crate::proto::v1 as pb;

/// The whole mail, its body by its kind.
pub(super) fn write(mail: &Mail) -> Result<Vec<u8>, CodecError> {
    match &mail.body {
        MailBody::SpawnAnswer(answer) | MailBody::SponsorAnswer(answer) => {
            around::<pb::SpawnAnswer>(mail, &answer.put())
        }
        MailBody::Sponsor(sponsor) => around::<pb::SponsorRequest>(mail, &sponsor.put()),
        MailBody::Launch(launch) => around::<pb::Launch>(mail, &launch.put()),
        MailBody::Kill(order)
        | MailBody::Stop(order)
        | MailBody::Rotate(order)
        | MailBody::Superseded(order) => around::<pb::SessionOrder>(mail, &order.put()),
        MailBody::Verb(order) => around::<pb::VerbOrder>(mail, &order.put()),
        MailBody::BudgetRaised(raised) => around::<pb::BudgetRaised>(mail, &raised.put()),
        MailBody::Apply(order) => around::<pb::ApplyOrder>(mail, &order.put()),
        MailBody::TakeOn { epic } => around(mail, &put!(TakeOn { epic })),
        MailBody::TurnDue(due) => around::<pb::TurnDue>(mail, &due.put()),
        MailBody::StatusRequest(asked) => around::<pb::StatusRequest>(mail, &asked.put()),
        MailBody::ResultReady(ready) => around::<pb::ResultReady>(mail, &ready.put()),
        MailBody::AgentCompleted { agent, session, reason } => {
            around(mail, &put!(AgentCompleted { agent, session, reason }))
        }
        MailBody::Violation { sender, parent, denied, count } => {
            around(mail, &put!(Violation { sender, parent, denied, count }))
        }
        MailBody::AgentLost { agent, session, crashed: _, cause } => {
            around(mail, &put!(AgentLost { agent, session, cause }))
        }
        MailBody::Question { id, agent, run, question, options, origin } => {
            around(mail, &put!(Question { id, agent, run, question, options, origin }))
        }
        MailBody::Answer { question, text } => around(mail, &put!(Answer { question, text })),
        MailBody::Alert { text, .. } | MailBody::Info { text } => {
            around(mail, &put!(Words { text }))
        }
        MailBody::Receipt(receipt) => around::<pb::Receipt>(mail, &receipt.put()),
        MailBody::Dead(dead) => around::<pb::DeadNotice>(mail, &dead.put()),
        MailBody::Reply(reply) => around::<pb::OpReply>(mail, &reply.put()),
        MailBody::ReviewNeeded { reason } => around(mail, &put!(ReviewNeeded { reason })),
        MailBody::SponsorSilent { agent, sponsor, request } => {
            around(mail, &put!(SponsorSilent { agent, sponsor, request }))
        }
        MailBody::Unknown { topic: _, json } => {
            around(mail, &json::parse("mail body", json.as_bytes())?)
        }
    }
}

/// The message that a body's JSON is one of; none of a topic that this version does not know.
#[must_use]
pub fn mail_body_message(body: &MailBody) -> Option<&'static str> {
    Some(match body {
        MailBody::SpawnAnswer(_) | MailBody::SponsorAnswer(_) => "SpawnAnswer",
        MailBody::Sponsor(_) => "SponsorRequest",
        MailBody::Launch(_) => "Launch",
        MailBody::Kill(_) | MailBody::Stop(_) | MailBody::Rotate(_) | MailBody::Superseded(_) => {
            "SessionOrder"
        }
        MailBody::Verb(_) => "VerbOrder",
        MailBody::BudgetRaised(_) => "BudgetRaised",
        MailBody::Apply(_) => "ApplyOrder",
        MailBody::TakeOn { .. } => "TakeOn",
        MailBody::TurnDue(_) => "TurnDue",
        MailBody::StatusRequest(_) => "StatusRequest",
        MailBody::ResultReady(_) => "ResultReady",
        MailBody::AgentCompleted { .. } => "AgentCompleted",
        MailBody::Violation { .. } => "Violation",
        MailBody::AgentLost { .. } => "AgentLost",
        MailBody::Question { .. } => "Question",
        MailBody::Answer { .. } => "Answer",
        MailBody::Alert { .. } | MailBody::Info { .. } => "Words",
        MailBody::Receipt(_) => "Receipt",
        MailBody::Dead(_) => "DeadNotice",
        MailBody::Reply(_) => "OpReply",
        MailBody::ReviewNeeded { .. } => "ReviewNeeded",
        MailBody::SponsorSilent { .. } => "SponsorSilent",
        MailBody::Unknown { .. } => return None,
    })
}

/// Reads the body of a topic.
pub(super) fn read(topic: &str, body: Value) -> Result<MailBody, CodecError> {
    Ok(match topic {
        "spawn.accepted" | "spawn.denied" => {
            MailBody::SpawnAnswer(told::<pb::SpawnAnswer, _>(body)?)
        }
        "spawn.sponsor.answer" => MailBody::SponsorAnswer(told::<pb::SpawnAnswer, _>(body)?),
        "spawn.sponsor" => MailBody::Sponsor(told::<pb::SponsorRequest, _>(body)?),
        "launch" => MailBody::Launch(told::<pb::Launch, _>(body)?),
        "kill" => MailBody::Kill(told::<pb::SessionOrder, _>(body)?),
        "stop" => MailBody::Stop(told::<pb::SessionOrder, _>(body)?),
        "rotate" => MailBody::Rotate(told::<pb::SessionOrder, _>(body)?),
        "steer" => verb(Verb::Steer, body)?,
        "interrupt" => verb(Verb::Interrupt, body)?,
        "pause" => verb(Verb::Pause, body)?,
        "resume" => verb(Verb::Resume, body)?,
        "apply" => MailBody::Apply(told::<pb::ApplyOrder, _>(body)?),
        "budget.raised" => MailBody::BudgetRaised(told::<pb::BudgetRaised, _>(body)?),
        "superseded" => MailBody::Superseded(told::<pb::SessionOrder, _>(body)?),
        "turn" => MailBody::TurnDue(told::<pb::TurnDue, _>(body)?),
        "status.request" => MailBody::StatusRequest(told::<pb::StatusRequest, _>(body)?),
        "result.ready" => MailBody::ResultReady(told::<pb::ResultReady, _>(body)?),
        "reply" => MailBody::Reply(told::<pb::OpReply, _>(body)?),
        "answer" => {
            get!(json::event::<pb::Answer>(body)?, MailBody::Answer { question, text })
        }
        "info" => get!(json::event::<pb::Words>(body)?, MailBody::Info { text }),
        "plan.review_needed" => {
            get!(json::event::<pb::ReviewNeeded>(body)?, MailBody::ReviewNeeded { reason })
        }
        "instruction" if body.get("epic").is_some() => {
            get!(json::event::<pb::TakeOn>(body)?, MailBody::TakeOn { epic })
        }
        _ => return read_notice(topic, body),
    })
}

fn verb(verb: Verb, body: Value) -> Result<MailBody, CodecError> {
    Ok(MailBody::Verb(Box::new(verbs::order(verb, body)?)))
}

/// Bodies that tell of somebody else, and topics that this version does not know.
fn read_notice(topic: &str, body: Value) -> Result<MailBody, CodecError> {
    Ok(match topic {
        "agent.completed" => get!(
            json::event::<pb::AgentCompleted>(body)?,
            MailBody::AgentCompleted { agent, session, reason }
        ),
        "governor.violation" => get!(
            json::event::<pb::Violation>(body)?,
            MailBody::Violation { sender, parent, denied, count }
        ),
        "agent.crashed" | "agent.offline" => {
            let lost: pb::AgentLost = json::event(body)?;
            MailBody::AgentLost {
                agent: field("agent", lost.agent)?,
                session: field("session", lost.session)?,
                crashed: topic == "agent.crashed",
                cause: lost.cause,
            }
        }
        "question" => get!(
            json::event::<pb::Question>(body)?,
            MailBody::Question { id, agent, run, question, options, origin }
        ),
        receipt::RECEIPT => MailBody::Receipt(told::<pb::Receipt, _>(body)?),
        receipt::DEAD => MailBody::Dead(told::<pb::DeadNotice, _>(body)?),
        "sponsor.silent" => get!(
            json::event::<pb::SponsorSilent>(body)?,
            MailBody::SponsorSilent { agent, sponsor, request }
        ),
        _ => match Alert::ALL.into_iter().find(|alert| alert.as_str() == topic) {
            Some(alert) => MailBody::Alert { alert, text: json::event::<pb::Words>(body)?.text },
            None => MailBody::Unknown { topic: topic.to_owned(), json: body.to_string() },
        },
    })
}

/// What a body tells that is a message of its own.
fn told<P: DeserializeOwned + Name, C: Wire<P>>(body: Value) -> Result<C, CodecError> {
    C::get(json::event(body)?)
}

message!(StatusRequest, StatusRequest { dispatch, assignment, node, session, text });
message!(SessionOrder, SessionOrder { agent, session, epoch, host_epoch, reason });
message!(ResultReady, ResultReady { agent, node, run, result, verdict });

message!(Launch, Launch { agent, session, epoch, host_epoch, parent, project, depth, delegation, duty });

impl Wire<Option<pb::launch::Duty>> for Duty {
    fn put(&self) -> Option<pb::launch::Duty> {
        use pb::launch::Duty as D;
        Some(match self {
            Self::Run(run) => D::Run(run.put()),
            Self::Project(epics) => D::ProjectDuty(put!(ProjectDuty { epics })),
            Self::Human(human) => D::Human(human.put()),
        })
    }

    fn get(held: Option<pb::launch::Duty>) -> Result<Self, CodecError> {
        use pb::launch::Duty as D;
        Ok(match held {
            Some(D::Run(run)) => Self::Run(field("run", run)?),
            Some(D::ProjectDuty(duty)) => Self::Project(field("project_duty.epics", duty.epics)?),
            Some(D::Human(human)) => Self::Human(field("human", human)?),
            None => return Err(CodecError::field("", "give run, projectDuty or human")),
        })
    }
}
