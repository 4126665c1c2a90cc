//! A call that was passed on: its answer on the way to the program, and what it took. It is carried to its end also when
//! the program has left, since what it took is known then; it is booked once, and before the program has the end of the
//! answer. A call that nobody carries to its end stays set aside, which counts as spent.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::StreamBody;
use hyper::body::Frame;
use tetrarch_core::converse::Reply;
use tetrarch_core::converse::cost::{Tokens, tokens_of};
use tetrarch_core::order::RunnerEvent;
use tetrarch_model::UpstreamAnswer;
use tetrarch_telemetry::{Answered, Chat};
use tokio::sync::mpsc;

use super::GatewayState;
use super::api::UsageReader;
use super::request::ModelCall;

/// Parts of an answer that wait for the program.
const PARTS: usize = 4;

/// A call for which something is set aside.
pub(super) struct OpenCall {
    state: Arc<GatewayState>,
    events: mpsc::Sender<RunnerEvent>,
    /// Under which it is set aside; taken when it is booked.
    name: Option<String>,
    model: String,
    worst: Tokens,
    reader: UsageReader,
    chat: Option<Chat>,
}

impl OpenCall {
    pub(super) fn new(
        state: Arc<GatewayState>,
        events: mpsc::Sender<RunnerEvent>,
        name: String,
        call: &ModelCall,
        chat: Chat,
    ) -> Self {
        let (reader, model, worst) = (UsageReader::new(call.api), call.model.clone(), call.worst());
        Self { state, events, name: Some(name), model, worst, reader, chat: Some(chat) }
    }

    /// The model's server did not take it.
    pub(super) async fn refused(mut self, kind: &str, words: &str) {
        self.failed(kind, words);
        self.book(Tokens::default()).await;
    }

    /// The whole answer came at once.
    pub(super) async fn answered(mut self, answer: &[u8]) {
        self.reader.feed_whole(answer);
        self.over().await;
    }

    /// The answer cannot be taken, so what it took stays unknown.
    pub(super) fn lost(mut self, words: &str) {
        self.failed("broken_off", words);
    }

    /// Passes a stream on to its end.
    pub(super) async fn pass_on(
        mut self,
        mut answer: UpstreamAnswer,
        program: mpsc::Sender<io::Result<Bytes>>,
    ) {
        loop {
            let part = match answer.chunk().await {
                Ok(Some(chunk)) => {
                    self.reader.feed(&chunk);
                    if self.reader.is_over {
                        self.over().await;
                    }
                    Ok(chunk)
                }
                // A stream that ends without its last event has ended all the same, if it said what it took.
                Ok(None) => return self.over().await,
                Err(cause) => {
                    self.failed("broken_off", &cause.to_string());
                    self.book(self.broken_off()).await;
                    Err(io::Error::other(cause))
                }
            };
            let broke = part.is_err();
            // A program that has left is told nothing more; its call goes on.
            let _left = program.send(part).await;
            if broke {
                return;
            }
        }
    }

    fn failed(&mut self, kind: &str, words: &str) {
        if let Some(chat) = self.chat.take() {
            chat.failed(kind, words);
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
        let written = self.worst.output.min(tokens_of(self.reader.bytes));
        Tokens {
            input: if told.input > 0 { told.input } else { self.worst.input },
            cached: told.cached,
            output: told.output.max(written),
        }
    }

    async fn book(&mut self, tokens: Tokens) {
        let Some(call) = self.name.take() else { return };
        let used = self.state.spend(&self.model, tokens);
        // Of a run that has ended, what is set aside counts as spent.
        let _ended = self.events.send(RunnerEvent::Spent { call, used }).await;
    }
}

/// The two ends of a stream's way to its program.
pub(super) fn parts() -> (
    mpsc::Sender<io::Result<Bytes>>,
    StreamBody<impl futures::Stream<Item = io::Result<Frame<Bytes>>>>,
) {
    let (tell, told) = mpsc::channel(PARTS);
    let parts = futures::stream::unfold(told, async |mut told: mpsc::Receiver<_>| {
        let part: io::Result<Bytes> = told.recv().await?;
        Some((part.map(Frame::data), told))
    });
    (tell, StreamBody::new(parts))
}
