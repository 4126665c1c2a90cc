//! Turns of conversations and state graphs: records, mail and operations.

use serde_json::Value;
use tetrarch_core::conversation::lane::TurnLane;
use tetrarch_core::conversation::{Turn, TurnDue, TurnId, TurnMove, TurnStatus};
use tetrarch_core::graph::{Delegation, Doing, GraphRecord, GraphVersion, Position};
use tetrarch_core::id::RequestId;
use tetrarch_core::limits::ATTEMPTS_DEFAULT;
use tetrarch_core::request::Op;
use tetrarch_core::request::conversations::{ConversationOp, GraphApply, TurnSay};

use super::error::CodecError;
use super::json;
use super::op::{body, read as read_body, unknown};
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

message!(
    Turn,
    Turn {
        id: TurnId { human: human, conversation: conversation, number: number },
        lane,
        project,
        graph,
        version,
        text,
        status,
        moved,
        position,
        epic,
        answer,
        order,
        working,
        outcome,
        result,
        said: said_unix_ms,
        since: since_unix_ms,
    }
);
message!(GraphVersion, StateGraphVersion { version, text, applied: applied_unix_ms });
message!(GraphRecord, StateGraph { project, name, versions });
message!(
    TurnDue,
    TurnDue {
        turn: TurnId { human: human, conversation: conversation, number: number },
        moved,
        graph,
        text,
        said: said_unix_ms,
        position,
        outcome,
        result,
    }
);

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

/// The body of an operation.
pub(super) fn encode(op: &ConversationOp, id: RequestId) -> Result<Vec<u8>, CodecError> {
    match op {
        ConversationOp::Say(TurnSay { conversation, text, lane, project, graph }) => {
            body!(id, ConversationSay { conversation, text, lane, project, graph })
        }
        ConversationOp::Move(it) => {
            let TurnMove { turn, moved, position, path, doing } = &**it;
            let TurnId { human, conversation, number } = turn;
            body!(
                id,
                ConversationMove { human, conversation, number, moved, position, path, doing }
            )
        }
        ConversationOp::Graph(GraphApply { project, graph }) => {
            body!(id, GraphApply { project, graph })
        }
    }
}

/// Reads the body of an operation of this name.
pub(super) fn decode(name: &str, body: Value) -> Result<Op, CodecError> {
    Ok(Op::Conversation(match name {
        "conversation.say" => {
            let mut said: pb::ConversationSay = json::request(body)?;
            if said.lane.is_empty() {
                said.lane = TurnLane::default().put();
            }
            ConversationOp::Say(TurnSay {
                conversation: field("conversation", said.conversation)?,
                text: said.text,
                lane: field("lane", said.lane)?,
                project: field("project", said.project)?,
                graph: field("graph", said.graph)?,
            })
        }
        "conversation.move" => {
            let it: pb::ConversationMove = json::request(body)?;
            let turn = TurnId {
                human: field("human", it.human)?,
                conversation: field("conversation", it.conversation)?,
                number: it.number,
            };
            ConversationOp::Move(Box::new(TurnMove {
                turn,
                moved: it.moved,
                position: field("position", it.position)?,
                path: it.path,
                doing: field("doing", it.doing)?,
            }))
        }
        "graph.apply" => {
            ConversationOp::Graph(read_body!(body, GraphApply, GraphApply { project, graph }))
        }
        other => return Err(unknown(other)),
    }))
}
