//! Turns of conversations and state graphs: records, mail and operations.

use serde_json::Value;
use tetrarch_core::conversation::lane::TurnLane;
use tetrarch_core::conversation::{Turn, TurnDue, TurnId, TurnMove, TurnStatus};
use tetrarch_core::graph::{Delegation, Doing, GraphRecord, GraphVersion, Position};
use tetrarch_core::limits::ATTEMPTS_DEFAULT;

use super::error::CodecError;
use super::json;
use super::op::nobody;
use super::wire::{Wire, field, message, words};
use crate::proto::v1 as pb;

words!(TurnLane, TurnStatus);

impl Wire<pb::TurnPosition> for Position {
    fn put(&self) -> pb::TurnPosition {
        let values = Value::Object(self.values.clone()).to_string();
        pb::TurnPosition { at: self.at.put(), stuck: self.stuck, values }
    }

    fn get(held: pb::TurnPosition) -> Result<Self, CodecError> {
        let values = json::parse("values", held.values.as_bytes())?;
        let Value::Object(values) = values else {
            return Err(CodecError::field("values", "is not a mapping"));
        };
        Ok(Self { at: field("at", held.at)?, stuck: held.stuck, values })
    }
}

message! { Turn, Turn {
    id: TurnId {
        human: human, conversation: conversation, number: number,
    },
    lane, project, graph, version, text, schedule, tell, channel, mode, kept_mode, trace: traceparent, status, moved, position, epic, answer, order,
    working, outcome, result, said: said_unix_ms, since: since_unix_ms,
} }
message!(GraphVersion, StateGraphVersion { version, text, applied: applied_unix_ms });
message!(GraphRecord, StateGraph { project, name, versions });
message! { TurnDue, TurnDue {
    turn: TurnId {
        human: human, conversation: conversation, number: number,
    },
    moved, graph, text, said: said_unix_ms, position, outcome, result,
} }

impl Wire<Option<pb::TurnDoing>> for Doing {
    fn put(&self) -> Option<pb::TurnDoing> {
        let of = |kind: &str, text: &str| pb::TurnDoing {
            kind: kind.to_owned(),
            text: text.to_owned(),
            ..pb::TurnDoing::default()
        };
        Some(match self {
            Self::Spawn(work) => pb::TurnDoing {
                profile: work.profile.put(),
                domain: work.domain.put(),
                attempts: work.attempts,
                intents: work.intents.clone(),
                ..of("spawn", &work.task)
            },
            Self::Ask(text) => of("ask", text),
            Self::Answer(text) => of("answer", text),
            Self::Stuck(why) => of("stuck", why),
        })
    }

    fn get(held: Option<pb::TurnDoing>) -> Result<Self, CodecError> {
        let held = held.ok_or_else(CodecError::missing)?;
        Ok(match held.kind.as_str() {
            "spawn" => {
                let attempts = if held.attempts == 0 { ATTEMPTS_DEFAULT } else { held.attempts };
                Self::Spawn(Delegation {
                    task: held.text,
                    profile: field("profile", held.profile)?,
                    domain: field("domain", held.domain)?,
                    attempts,
                    intents: held.intents,
                })
            }
            "ask" => Self::Ask(held.text),
            "answer" => Self::Answer(held.text),
            "stuck" => Self::Stuck(held.text),
            other => {
                let why = format!("unknown word {other:?}; allowed: spawn, ask, answer, stuck");
                return Err(CodecError::field("kind", why));
            }
        })
    }
}

message!(TurnMove, ConversationMove {
    turn: TurnId { human: human, conversation: conversation, number: number },
    moved, position, path, doing, request_id <- nobody, sender <- nobody,
});
