//! Records of questions to people.

use tetrarch_core::question::{Question, QuestionStatus};
use tetrarch_core::time::BusTime;

use super::error::CodecError;
use super::read;
use crate::proto::v1 as pb;

impl From<&Question> for pb::QuestionRecord {
    fn from(question: &Question) -> Self {
        Self {
            id: question.id.to_string(),
            agent: question.agent.to_string(),
            run: question.run.to_string(),
            epic: question.epic.to_string(),
            node: question.node.to_string(),
            escalates: read::show(question.escalates.as_ref()),
            to: question.to.to_string(),
            text: question.text.clone(),
            options: question.options.clone(),
            status: question.status.as_str().to_owned(),
            answer: question.answer.clone(),
            answered_by: read::show(question.answered_by.as_ref()),
            asked_unix_ms: question.asked.0,
            since_unix_ms: question.since.0,
        }
    }
}

impl TryFrom<pb::QuestionRecord> for Question {
    type Error = CodecError;
    fn try_from(question: pb::QuestionRecord) -> Result<Self, CodecError> {
        let status = &question.status;
        Ok(Self {
            id: read::text("id", &question.id)?,
            agent: read::text("agent", &question.agent)?,
            run: read::text("run", &question.run)?,
            epic: read::text("epic", &question.epic)?,
            node: read::text("node", &question.node)?,
            escalates: read::optional("escalates", &question.escalates)?,
            to: read::text("to", &question.to)?,
            text: question.text,
            options: question.options,
            status: read::word("status", status, &QuestionStatus::ALL, QuestionStatus::as_str)?,
            answer: question.answer,
            answered_by: read::optional("answeredBy", &question.answered_by)?,
            asked: BusTime(question.asked_unix_ms),
            since: BusTime(question.since_unix_ms),
        })
    }
}
