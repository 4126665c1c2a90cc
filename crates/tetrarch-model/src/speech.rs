//! An answer as it comes.

use std::time::Duration;

use futures::StreamExt;
use genai::chat::{ChatStream, ChatStreamEvent};
use tetrarch_core::converse::Reply;
use tetrarch_telemetry::Chat;
use tokio::time::{Instant, timeout_at};

use crate::trouble::ModelFailure;
use crate::words;

/// What is heard of an answer.
#[derive(Debug)]
pub enum AnswerPart {
    /// Some words.
    Text(String),
    /// Something of which nothing can be told yet.
    More,
    /// All of it; nothing follows.
    All(Reply),
}

/// When an answer has to be complete.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    within: Duration,
    /// None is never.
    until: Option<Instant>,
}

impl Deadline {
    /// So long from now.
    pub(crate) fn after(within: Duration) -> Self {
        Self { within, until: Instant::now().checked_add(within) }
    }
}

/// An answer that is being given.
pub struct ModelAnswer {
    stream: ChatStream,
    /// None once it is over.
    chat: Option<Chat>,
    deadline: Deadline,
    /// Whether any of it has come.
    speaks: bool,
}

impl ModelAnswer {
    pub(crate) fn new(stream: ChatStream, chat: Chat, deadline: Deadline) -> Self {
        Self { stream, chat: Some(chat), deadline, speaks: false }
    }

    /// Listens on. Dropping it between two calls loses nothing.
    ///
    /// # Errors
    /// What went wrong; an answer that ends without its end among it, and one that takes too long.
    pub async fn next(&mut self) -> Result<AnswerPart, ModelFailure> {
        let next = match self.deadline.until {
            Some(until) => timeout_at(until, self.stream.next()).await,
            None => Ok(self.stream.next().await),
        };
        let mut trouble = match next {
            Ok(Some(Ok(ChatStreamEvent::Chunk(chunk)))) => {
                self.speaks = true;
                return Ok(AnswerPart::Text(chunk.content));
            }
            Ok(Some(Ok(ChatStreamEvent::End(end)))) => {
                let answered = words::heard(&end);
                let reply = words::reply(end);
                if let Some(chat) = self.chat.take() {
                    chat.answered(&answered, &reply);
                }
                return Ok(AnswerPart::All(reply));
            }
            Ok(Some(Ok(ChatStreamEvent::Start | ChatStreamEvent::Heartbeat))) => {
                return Ok(AnswerPart::More);
            }
            Ok(Some(Ok(
                ChatStreamEvent::ReasoningChunk(_)
                | ChatStreamEvent::ThoughtSignatureChunk(_)
                | ChatStreamEvent::ToolCallChunk(_),
            ))) => {
                self.speaks = true;
                return Ok(AnswerPart::More);
            }
            Ok(Some(Err(error))) => ModelFailure::of(&error),
            Ok(None) => ModelFailure::broken_off(),
            Err(_) => ModelFailure::late(self.deadline.within),
        };
        if let Some(chat) = self.chat.take() {
            chat.failed(&trouble.kind(), &trouble.words);
        }
        trouble.heard |= self.speaks;
        Err(trouble)
    }
}
