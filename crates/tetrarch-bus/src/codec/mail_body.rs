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

/// The bodies by their topics: those that are a message of their own, then those of fields. A body that needs more
/// than its message to be read is written out.
macro_rules! bodies {
    (
        [$($($topic:pat_param)|+ => $whole:ident: $message:ident,)*]
        [$($name:literal => $body:ident: $pb:ident { $($f:ident),* },)*]
    ) => {
        /// The whole mail, its body by its kind.
        pub(super) fn write(mail: &Mail) -> Result<Vec<u8>, CodecError> {
            match &mail.body {
                $(MailBody::$whole(it) => around::<pb::$message>(mail, &it.put()),)*
                $(MailBody::$body { $($f),* } => around(mail, &put!($pb { $($f),* })),)*
                MailBody::Verb(order) => around::<pb::VerbOrder>(mail, &order.put()),
                MailBody::TakeOn { epic } => around(mail, &put!(TakeOn { epic })),
                MailBody::AgentLost { agent, session, crashed: _, cause } => {
                    around(mail, &put!(AgentLost { agent, session, cause }))
                }
                MailBody::Alert { alert: _, text } => around(mail, &put!(Words { text })),
                MailBody::Unknown { topic: _, json } => {
                    around(mail, &json::parse("mail body", json.as_bytes())?)
                }
            }
        }

        /// The message that a body's JSON is one of; none of a topic that this version does not know.
        #[must_use]
        pub fn mail_body_message(body: &MailBody) -> Option<&'static str> {
            Some(match body {
                $(MailBody::$whole(_) => pb::$message::NAME,)*
                $(MailBody::$body { .. } => pb::$pb::NAME,)*
                MailBody::Verb(_) => pb::VerbOrder::NAME,
                MailBody::TakeOn { .. } => pb::TakeOn::NAME,
                MailBody::AgentLost { .. } => pb::AgentLost::NAME,
                MailBody::Alert { .. } => pb::Words::NAME,
                MailBody::Unknown { .. } => return None,
            })
        }

        /// Reads the body of a topic.
        pub(super) fn read(topic: &str, body: Value) -> Result<MailBody, CodecError> {
            Ok(match topic {
                $($($topic)|+ => MailBody::$whole(told::<pb::$message, _>(body)?),)*
                $($name => get!(json::event::<pb::$pb>(body)?, MailBody::$body { $($f),* }),)*
                "instruction" if body.get("epic").is_some() => {
                    get!(json::event::<pb::TakeOn>(body)?, MailBody::TakeOn { epic })
                }
                "agent.crashed" | "agent.offline" => {
                    let lost: pb::AgentLost = json::event(body)?;
                    MailBody::AgentLost {
                        agent: field("agent", lost.agent)?,
                        session: field("session", lost.session)?,
                        crashed: topic == "agent.crashed",
                        cause: lost.cause,
                    }
                }
                _ => return read_other(topic, body),
            })
        }
    };
}

bodies! {
    [
        "spawn.accepted" | "spawn.denied" | "spawn.queued" => SpawnAnswer: SpawnAnswer,
        "spawn.sponsor.answer" => SponsorAnswer: SpawnAnswer,
        "spawn.sponsor" => Sponsor: SponsorRequest,
        "launch" => Launch: Launch,
        "kill" => Kill: SessionOrder,
        "stop" => Stop: SessionOrder,
        "rotate" => Rotate: SessionOrder,
        "superseded" => Superseded: SessionOrder,
        "apply" => Apply: ApplyOrder,
        "budget.raised" => BudgetRaised: BudgetRaised,
        "turn" => TurnDue: TurnDue,
        "status.request" => StatusRequest: StatusRequest,
        "result.ready" => ResultReady: ResultReady,
        "reply" => Reply: OpReply,
        receipt::RECEIPT => Receipt: Receipt,
        receipt::DEAD => Dead: DeadNotice,
    ]
    [
        "answer" => Answer: Answer { question, text },
        "info" => Info: Words { text },
        "plan.review_needed" => ReviewNeeded: ReviewNeeded { reason },
        "agent.completed" => AgentCompleted: AgentCompleted { agent, session, reason },
        "governor.violation" => Violation: Violation { sender, parent, denied, count },
        "question" => Question: Question { id, agent, run, question, options, origin },
        "sponsor.silent" => SponsorSilent: SponsorSilent { agent, sponsor, request },
    ]
}

/// Orders of a verb, alerts, and topics that this version does not know.
fn read_other(topic: &str, body: Value) -> Result<MailBody, CodecError> {
    if let Some(verb) = Verb::ALL.into_iter().find(|verb| verb.as_str() == topic) {
        return Ok(MailBody::Verb(Box::new(verbs::order(verb, body)?)));
    }
    Ok(match Alert::ALL.into_iter().find(|alert| alert.as_str() == topic) {
        Some(alert) => MailBody::Alert { alert, text: json::event::<pb::Words>(body)?.text },
        None => MailBody::Unknown { topic: topic.to_owned(), json: body.to_string() },
    })
}

/// What a body tells that is a message of its own.
fn told<P: DeserializeOwned + Name, C: Wire<P>>(body: Value) -> Result<C, CodecError> {
    C::get(json::event(body)?)
}

message!(StatusRequest, StatusRequest { dispatch, assignment, node, session, text });
message!(SessionOrder, SessionOrder { agent, session, epoch, host_epoch, reason });
message!(ResultReady, ResultReady { agent, node, run, result, verdict });

message!(
    Launch,
    Launch { agent, session, epoch, host_epoch, parent, project, depth, delegation, duty }
);

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
