//! An answer as it comes.

use futures::StreamExt;
use genai::chat::{ChatStream, ChatStreamEvent};
use tetrarch_core::converse::Reply;

use crate::key::Key;
use crate::trouble::Trouble;
use crate::words;

/// What is heard of an answer.
#[derive(Debug)]
pub enum Said {
    /// Some words.
    Text(String),
    /// Something of which nothing can be told yet.
    More,
    /// All of it; nothing follows.
    All(Reply),
}

/// An answer that is being given.
pub struct Speech {
    stream: ChatStream,
    key: Option<Key>,
}

impl Speech {
    pub(crate) fn new(stream: ChatStream, key: Option<Key>) -> Self {
        Self { stream, key }
    }

    /// Listens on. Dropping it between two calls loses nothing.
    ///
    /// # Errors
    /// What went wrong; an answer that ends without its end among it.
    pub async fn next(&mut self) -> Result<Said, Trouble> {
        match self.stream.next().await {
            Some(Ok(ChatStreamEvent::Chunk(chunk))) => Ok(Said::Text(chunk.content)),
            Some(Ok(ChatStreamEvent::End(end))) => Ok(Said::All(words::reply(end))),
            Some(Ok(
                ChatStreamEvent::Start
                | ChatStreamEvent::ReasoningChunk(_)
                | ChatStreamEvent::ThoughtSignatureChunk(_)
                | ChatStreamEvent::ToolCallChunk(_)
                | ChatStreamEvent::Heartbeat,
            )) => Ok(Said::More),
            Some(Err(error)) => Err(Trouble::of(&error, self.key.as_ref())),
            None => Err(Trouble::broken_off()),
        }
    }
}
