//! A call that was passed on: its answer on the way to the program, and what it took. Books it once, and before the
//! program has the end of the answer.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use tetrarch_core::converse::Reply;
use tetrarch_core::converse::cost::Tokens;
use tetrarch_core::order::RunnerEvent;
use tetrarch_model::UpstreamAnswer;
use tetrarch_telemetry::{Answered, Chat};
use tokio::sync::mpsc;

use super::GatewayState;
use super::api::{ModelCall, UsageReader};

/// A call for which something is set aside.
pub(super) struct OpenCall {
    state: Arc<GatewayState>,
    events: mpsc::Sender<RunnerEvent>,
    /// Under which it is set aside; taken when it is booked.
    name: Option<String>,
    call: ModelCall,
    reader: UsageReader,
    chat: Option<Chat>,
}

impl OpenCall {
    pub(super) fn new(
        state: Arc<GatewayState>,
        events: mpsc::Sender<RunnerEvent>,
        name: String,
        call: ModelCall,
        chat: Chat,
    ) -> Self {
        let reader = UsageReader::new(call.api);
        Self { state, events, name: Some(name), call, reader, chat: Some(chat) }
    }

    /// The model's server did not take it.
    pub(super) async fn refused(mut self, kind: &str, words: &str) {
        if let Some(chat) = self.chat.take() {
            chat.failed(kind, words);
        }
        self.book(Tokens::default()).await;
    }

    /// The whole answer came at once.
    pub(super) async fn answered(mut self, answer: &[u8]) {
        self.reader.feed_whole(answer);
        self.over().await;
    }

    /// The next part of a stream, or its end; none when the program has it all.
    pub(super) async fn next(&mut self, answer: &mut UpstreamAnswer) -> Option<io::Result<Bytes>> {
        match answer.chunk().await {
            Ok(Some(chunk)) => {
                self.reader.feed(&chunk);
                if self.reader.is_over {
                    self.over().await;
                }
                Some(Ok(chunk))
            }
            Ok(None) => {
                // A stream that ends without its last event has ended all the same, if it said what it took.
                self.over().await;
                None
            }
            Err(cause) => {
                if let Some(chat) = self.chat.take() {
                    chat.failed("broken_off", &cause.to_string());
                }
                self.book(self.broken_off()).await;
                Some(Err(io::Error::other(cause)))
            }
        }
    }

    async fn over(&mut self) {
        let told = self.reader.tokens.filter(|tokens| *tokens != Tokens::default());
        let tokens = told.unwrap_or_else(|| self.broken_off());
        if let Some(chat) = self.chat.take() {
            let answered = Answered { tokens: Some(tokens), ..Answered::default() };
            chat.answered(&answered, &Reply::default());
        }
        self.book(tokens).await;
    }

    /// What was said that it took, or what it may have taken so far.
    fn broken_off(&self) -> Tokens {
        let told = self.reader.tokens.unwrap_or_default();
        let reckoned = self.call.broken_off(self.reader.bytes);
        Tokens {
            input: if told.input > 0 { told.input } else { reckoned.input },
            cached: told.cached,
            output: told.output.max(reckoned.output),
        }
    }

    fn spent(&mut self, tokens: Tokens) -> Option<RunnerEvent> {
        let call = self.name.take()?;
        Some(RunnerEvent::Spent { call, used: self.state.spend(&self.call.model, tokens) })
    }

    async fn book(&mut self, tokens: Tokens) {
        if let Some(spent) = self.spent(tokens) {
            // Of a run that has ended, what is set aside counts as spent.
            let _ended = self.events.send(spent).await;
        }
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        let tokens = self.broken_off();
        if let Some(spent) = self.spent(tokens) {
            // What is not told now counts with its worst case at the run's end.
            let _full = self.events.try_send(spent);
        }
    }
}
