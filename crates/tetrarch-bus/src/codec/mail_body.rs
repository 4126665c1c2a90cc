//! Bodies of mail, by topic.

use serde_json::Value;
use tetrarch_core::id::EpicId;
use tetrarch_core::mail::receipt;
use tetrarch_core::mail::{
    Alert, Duty, Launch, Mail, MailBody, ResultReady, SessionOrder, SpawnAnswer, StatusRequest,
};
use tetrarch_core::verb::Verb;

use super::error::CodecError;
use super::json::{self, Unknown};
use super::mail::around;
use super::{read, verbs};
use crate::proto::v1 as pb;

/// The whole mail, its body by its kind.
pub(super) fn write(mail: &Mail) -> Result<Vec<u8>, CodecError> {
    match &mail.body {
        MailBody::SpawnAnswer(answer) | MailBody::SponsorAnswer(answer) => {
            around(mail, &pb::SpawnAnswer::from(answer))
        }
        MailBody::Sponsor(sponsor) => around(mail, &pb::SponsorRequest::from(sponsor)),
        MailBody::Launch(launch) => around(mail, &pb::Launch::from(&**launch)),
        MailBody::Kill(order)
        | MailBody::Stop(order)
        | MailBody::Rotate(order)
        | MailBody::Superseded(order) => around(mail, &pb::SessionOrder::from(order)),
        MailBody::Verb(order) => around(mail, &pb::VerbOrder::from(&**order)),
        MailBody::BudgetRaised(raised) => around(mail, &pb::BudgetRaised::from(&**raised)),
        MailBody::Apply(order) => around(mail, &pb::ApplyOrder::from(&**order)),
        MailBody::TakeOn { epic } => around(mail, &pb::TakeOn { epic: epic.to_string() }),
        MailBody::StatusRequest(asked) => around(mail, &pb::StatusRequest::from(asked)),
        MailBody::ResultReady(ready) => around(mail, &pb::ResultReady::from(&**ready)),
        MailBody::AgentCompleted { agent, session, reason } => {
            let (agent, session) = (agent.to_string(), session.to_string());
            around(mail, &pb::AgentCompleted { agent, session, reason: reason.clone() })
        }
        MailBody::Violation { sender, parent, denied, count } => around(
            mail,
            &pb::Violation {
                sender: sender.to_string(),
                parent: parent.to_string(),
                denied: denied.iter().map(Into::into).collect(),
                count: *count,
            },
        ),
        MailBody::AgentLost { agent, session, crashed: _, cause } => {
            let (agent, session) = (agent.to_string(), session.to_string());
            around(mail, &pb::AgentLost { agent, session, cause: cause.clone() })
        }
        MailBody::Question { id, agent, run, question, options } => around(
            mail,
            &pb::Question {
                agent: agent.to_string(),
                run: run.to_string(),
                question: question.clone(),
                options: options.clone(),
                id: id.to_string(),
            },
        ),
        MailBody::Answer { question, text } => {
            let question = read::show(question.as_ref());
            around(mail, &pb::Answer { text: text.clone(), question })
        }
        MailBody::Alert { text, .. } | MailBody::Info { text } => {
            around(mail, &pb::Words { text: text.clone() })
        }
        MailBody::Receipt(receipt) => around(mail, &pb::Receipt::from(receipt)),
        MailBody::Dead(dead) => around(mail, &pb::DeadNotice::from(dead)),
        MailBody::Reply(reply) => around(mail, &pb::OpReply::from(reply)),
        MailBody::ReviewNeeded { reason } => {
            around(mail, &pb::ReviewNeeded { reason: reason.clone() })
        }
        MailBody::SponsorSilent { agent, sponsor, request } => around(
            mail,
            &pb::SponsorSilent {
                agent: agent.to_string(),
                sponsor: sponsor.to_string(),
                request: request.to_string(),
            },
        ),
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
        "spawn.accepted" | "spawn.denied" => MailBody::SpawnAnswer(answer(body)?),
        "spawn.sponsor.answer" => MailBody::SponsorAnswer(answer(body)?),
        "spawn.sponsor" => {
            let sponsor: pb::SponsorRequest = message("SponsorRequest", body)?;
            MailBody::Sponsor(sponsor.try_into()?)
        }
        "launch" => MailBody::Launch(Box::new(message::<pb::Launch>("Launch", body)?.try_into()?)),
        "kill" => MailBody::Kill(order(body)?),
        "stop" => MailBody::Stop(order(body)?),
        "rotate" => MailBody::Rotate(order(body)?),
        "steer" => verb(Verb::Steer, body)?,
        "interrupt" => verb(Verb::Interrupt, body)?,
        "pause" => verb(Verb::Pause, body)?,
        "resume" => verb(Verb::Resume, body)?,
        "apply" => {
            let order: pb::ApplyOrder = message("ApplyOrder", body)?;
            MailBody::Apply(Box::new(order.try_into()?))
        }
        "budget.raised" => {
            let raised: pb::BudgetRaised = message("BudgetRaised", body)?;
            MailBody::BudgetRaised(Box::new(raised.try_into()?))
        }
        "superseded" => MailBody::Superseded(order(body)?),
        "status.request" => MailBody::StatusRequest(asked(body)?),
        "result.ready" => {
            let ready: pb::ResultReady = message("ResultReady", body)?;
            MailBody::ResultReady(Box::new(ready.try_into()?))
        }
        "reply" => MailBody::Reply(message::<pb::OpReply>("OpReply", body)?.try_into()?),
        "answer" => {
            let answer: pb::Answer = message("Answer", body)?;
            let question = read::optional("question", &answer.question)?;
            MailBody::Answer { question, text: answer.text }
        }
        "info" => MailBody::Info { text: message::<pb::Words>("Words", body)?.text },
        "plan.review_needed" => {
            let needed: pb::ReviewNeeded = message("ReviewNeeded", body)?;
            MailBody::ReviewNeeded { reason: needed.reason }
        }
        "instruction" if body.get("epic").is_some() => {
            let instruction: pb::TakeOn = message("TakeOn", body)?;
            MailBody::TakeOn { epic: read::text("epic", &instruction.epic)? }
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
        "agent.completed" => {
            let done: pb::AgentCompleted = message("AgentCompleted", body)?;
            MailBody::AgentCompleted {
                agent: read::text("agent", &done.agent)?,
                session: read::text("session", &done.session)?,
                reason: done.reason,
            }
        }
        "governor.violation" => {
            let violation: pb::Violation = message("Violation", body)?;
            MailBody::Violation {
                sender: read::text("sender", &violation.sender)?,
                parent: read::text("parent", &violation.parent)?,
                denied: read::each("denied", violation.denied)?,
                count: violation.count,
            }
        }
        "agent.crashed" | "agent.offline" => {
            let lost: pb::AgentLost = message("AgentLost", body)?;
            MailBody::AgentLost {
                agent: read::text("agent", &lost.agent)?,
                session: read::text("session", &lost.session)?,
                crashed: topic == "agent.crashed",
                cause: lost.cause,
            }
        }
        "question" => {
            let question: pb::Question = message("Question", body)?;
            MailBody::Question {
                id: read::text("id", &question.id)?,
                agent: read::text("agent", &question.agent)?,
                run: read::text("run", &question.run)?,
                question: question.question,
                options: question.options,
            }
        }
        receipt::RECEIPT => MailBody::Receipt(message::<pb::Receipt>("Receipt", body)?.try_into()?),
        receipt::DEAD => MailBody::Dead(message::<pb::DeadNotice>("DeadNotice", body)?.try_into()?),
        "sponsor.silent" => {
            let silent: pb::SponsorSilent = message("SponsorSilent", body)?;
            MailBody::SponsorSilent {
                agent: read::text("agent", &silent.agent)?,
                sponsor: read::text("sponsor", &silent.sponsor)?,
                request: read::text("request", &silent.request)?,
            }
        }
        _ => match Alert::ALL.into_iter().find(|alert| alert.as_str() == topic) {
            Some(alert) => {
                MailBody::Alert { alert, text: message::<pb::Words>("Words", body)?.text }
            }
            None => MailBody::Unknown { topic: topic.to_owned(), json: body.to_string() },
        },
    })
}

fn message<P: serde::de::DeserializeOwned>(
    what: &'static str,
    body: Value,
) -> Result<P, CodecError> {
    json::message(what, body, Unknown::Ignored)
}

impl From<&StatusRequest> for pb::StatusRequest {
    fn from(asked: &StatusRequest) -> Self {
        Self {
            dispatch: asked.dispatch.to_string(),
            assignment: asked.assignment.to_string(),
            node: asked.node.to_string(),
            session: asked.session.to_string(),
            text: asked.text.clone(),
        }
    }
}

fn asked(body: Value) -> Result<StatusRequest, CodecError> {
    let asked: pb::StatusRequest = message("StatusRequest", body)?;
    Ok(StatusRequest {
        dispatch: read::text("dispatch", &asked.dispatch)?,
        assignment: read::text("assignment", &asked.assignment)?,
        node: read::text("node", &asked.node)?,
        session: read::text("session", &asked.session)?,
        text: asked.text,
    })
}

fn answer(body: Value) -> Result<SpawnAnswer, CodecError> {
    message::<pb::SpawnAnswer>("SpawnAnswer", body)?.try_into()
}

fn order(body: Value) -> Result<SessionOrder, CodecError> {
    let order: pb::SessionOrder = message("SessionOrder", body)?;
    Ok(SessionOrder {
        agent: read::text("agent", &order.agent)?,
        session: read::optional("session", &order.session)?,
        epoch: order.epoch,
        host_epoch: order.host_epoch,
        reason: order.reason,
    })
}

impl From<&SessionOrder> for pb::SessionOrder {
    fn from(order: &SessionOrder) -> Self {
        Self {
            agent: order.agent.to_string(),
            session: read::show(order.session.as_ref()),
            epoch: order.epoch,
            host_epoch: order.host_epoch,
            reason: order.reason.clone(),
        }
    }
}

impl From<&Launch> for pb::Launch {
    fn from(launch: &Launch) -> Self {
        use pb::launch::Duty as D;
        let duty = match &launch.duty {
            Duty::Run(run) => D::Run(run.into()),
            Duty::Project(epics) => D::ProjectDuty(pb::ProjectDuty {
                epics: epics.iter().map(EpicId::to_string).collect(),
            }),
            Duty::Human(human) => D::Human(human.to_string()),
        };
        Self {
            agent: launch.agent.to_string(),
            session: launch.session.to_string(),
            epoch: launch.epoch,
            host_epoch: launch.host_epoch,
            parent: launch.parent.to_string(),
            project: read::show(launch.project.as_ref()),
            depth: launch.depth.into(),
            duty: Some(duty),
        }
    }
}

impl TryFrom<pb::Launch> for Launch {
    type Error = CodecError;
    fn try_from(launch: pb::Launch) -> Result<Self, CodecError> {
        use pb::launch::Duty as D;
        let duty = match launch.duty {
            Some(D::Run(run)) => {
                Duty::Run(run.try_into().map_err(|error: CodecError| error.under("run"))?)
            }
            Some(D::ProjectDuty(duty)) => {
                Duty::Project(read::texts("projectDuty.epics", &duty.epics)?)
            }
            Some(D::Human(human)) => Duty::Human(read::text("human", &human)?),
            None => return Err(CodecError::field("duty", "give run, projectDuty or human")),
        };
        Ok(Self {
            agent: read::text("agent", &launch.agent)?,
            session: read::text("session", &launch.session)?,
            epoch: launch.epoch,
            host_epoch: launch.host_epoch,
            parent: read::text("parent", &launch.parent)?,
            project: read::optional("project", &launch.project)?,
            depth: read::small("depth", launch.depth)?,
            duty,
        })
    }
}

impl From<&ResultReady> for pb::ResultReady {
    fn from(ready: &ResultReady) -> Self {
        Self {
            agent: ready.agent.to_string(),
            node: ready.node.to_string(),
            run: ready.run.to_string(),
            result: Some((&ready.result).into()),
            verdict: ready.verdict.as_ref().map(Into::into),
        }
    }
}

impl TryFrom<pb::ResultReady> for ResultReady {
    type Error = CodecError;
    fn try_from(ready: pb::ResultReady) -> Result<Self, CodecError> {
        Ok(Self {
            agent: read::text("agent", &ready.agent)?,
            node: read::text("node", &ready.node)?,
            run: read::text("run", &ready.run)?,
            result: read::message("result", ready.result)?,
            verdict: read::maybe("verdict", ready.verdict)?,
        })
    }
}
