//! One turn of a model: asked once, heard as it speaks, and asked again when it is busy or breaks off, so often
//! and no more (spec 06, Runners). Meanwhile the run is blocked.

use std::time::Duration;

use tetrarch_core::brief::{Outcome, RunResult};
use tetrarch_core::converse::Reply;
use tetrarch_core::id::RunId;
use tetrarch_core::order::RunnerEvent;
use tetrarch_model::{AnswerPart, Model, ModelFailure, ModelRequest, TRIES, pause};
use tokio::time::sleep;

use super::deltas::Deltas;
use super::input::{ConversationInput, Halt, Yields};
use crate::channels::Teller;

/// How long a model may say nothing at all.
const IDLE: Duration = Duration::from_secs(120);
/// What is passed on of words that are said again from their beginning.
const AGAIN: &str = "\n[it broke off and is asked again]\n";

/// What is needed for a turn.
#[derive(Debug, Clone, Copy)]
pub(super) struct TurnContext<'a> {
    pub(super) model: &'a Model,
    pub(super) teller: &'a Teller,
    /// Longest turn.
    pub(super) within: Duration,
    /// The variable with the key, for people.
    pub(super) key_from: &'a str,
}

/// Why a try brought nothing.
#[derive(Debug)]
pub(super) enum NoAnswer {
    /// The conversation is to end.
    Halt(Halt),
    /// The model did not answer, or not to the end.
    Broke(BrokeOff),
}

impl From<Halt> for NoAnswer {
    fn from(halt: Halt) -> Self {
        Self::Halt(halt)
    }
}

/// How a try broke off.
#[derive(Debug)]
pub(super) struct BrokeOff {
    /// Whether the model had heard what it was asked, or may have.
    pub(super) heard: bool,
    /// Why it is not asked again; none when it is.
    pub(super) ends: Option<String>,
}

/// The tries of one turn.
#[derive(Debug)]
pub(super) struct Tries {
    made: u32,
    blocked: bool,
    /// How long the server wants to be left alone.
    after: Option<Duration>,
    /// Tells one turn's waits from another's.
    seed: String,
}

impl Tries {
    /// Of a run's turn.
    pub(super) fn new(run: RunId, step: u64) -> Self {
        Self { made: 0, blocked: false, after: None, seed: format!("{run}.{step}") }
    }

    /// Waits as long as the next try has to.
    pub(super) async fn pause(&self, input: &mut ConversationInput) -> Result<(), Halt> {
        if self.made == 0 {
            return Ok(());
        }
        input.during(Yields::AtOnce, sleep(pause(self.made, &self.seed, self.after))).await
    }

    /// There are no more of them.
    pub(super) async fn over(&mut self, teller: &Teller) {
        if std::mem::take(&mut self.blocked) {
            teller.tell(RunnerEvent::Unblocked).await;
        }
    }
}

impl TurnContext<'_> {
    /// Asks once.
    pub(super) async fn ask(
        self,
        input: &mut ConversationInput,
        request: &ModelRequest<'_>,
        tries: &mut Tries,
    ) -> Result<Reply, NoAnswer> {
        let trouble = match input.during(Yields::AtOnce, self.hear(request)).await? {
            Ok(reply) => return Ok(reply),
            Err(trouble) => trouble,
        };
        tries.made += 1;
        tries.after = trouble.after;
        let text = format!("[the model did not answer: {}]", trouble.words);
        self.teller.tell(RunnerEvent::Log { text }).await;
        let over = !trouble.again || tries.made >= TRIES;
        if !over && !std::mem::replace(&mut tries.blocked, true) {
            self.teller.tell(RunnerEvent::Blocked { reason: reason(&trouble) }).await;
        }
        let ends = over.then(|| self.failure(tries.made, &trouble));
        Err(NoAnswer::Broke(BrokeOff { heard: trouble.heard, ends }))
    }

    async fn hear(self, request: &ModelRequest<'_>) -> Result<Reply, ModelFailure> {
        let mut any = false;
        let heard = async {
            let mut speech = self.model.speech(request, IDLE.min(self.within), self.within).await?;
            let mut deltas = Deltas::default();
            loop {
                let (text, reply) = match speech.next().await? {
                    AnswerPart::Text(text) => (deltas.add(&text), None),
                    AnswerPart::More => (None, None),
                    AnswerPart::All(reply) => (deltas.rest(), Some(reply)),
                };
                if let Some(text) = text {
                    any = true;
                    self.teller.tell(RunnerEvent::Text { text }).await;
                }
                if let Some(reply) = reply {
                    return Ok(reply);
                }
            }
        };
        let heard = heard.await;
        if heard.is_err() && any {
            self.teller.tell(RunnerEvent::Text { text: AGAIN.to_owned() }).await;
        }
        heard
    }

    fn failure(&self, tries: u32, trouble: &ModelFailure) -> String {
        let key = match (trouble.status, self.key_from) {
            (Some(401 | 403), "") => "; the profile names no key: set its keyFrom to env:NAME",
            (Some(401 | 403), _) => "; look at the key that keyFrom names, ",
            (_, _) => "",
        };
        let named = if key.ends_with(", ") { self.key_from } else { "" };
        let requests =
            if tries == 1 { "1 request".to_owned() } else { format!("{tries} requests") };
        format!("the model was given up after {requests}: {}{key}{named}", trouble.words)
    }
}

/// Why a run is blocked, in a word and in the server's.
fn reason(trouble: &ModelFailure) -> String {
    let word = if trouble.status == Some(429) { "rate_limited" } else { "model_unavailable" };
    format!("{word}: {}", trouble.words)
}

/// The result of a run whose model cannot be heard.
pub(super) fn failed(why: &str) -> RunResult {
    RunResult::ended(Outcome::Failure, why)
}
