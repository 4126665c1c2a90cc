//! Makes the consumers with which parties outside read: agents their inboxes (spec 02, Inbox), agents and people
//! the plan events that they missed. They ask under their own name and say from which position on; where a
//! consumer delivers, which subjects it has and how it is acknowledged is not theirs to say (spec 09). It runs
//! beside the owner and decides nothing.

mod turns;

use std::fmt;
use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, pull};
use async_nats::{Message, Subscriber};
use bytes::Bytes;
use futures::{FutureExt, StreamExt};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::unconstrained;

use crate::client::Bus;
use crate::codec::{self, CodecError};
use crate::error::ReadError;
use crate::retry::Retry;
use crate::subject::Subject;
use crate::subject::pattern::{self, EVERY_PLAN_EVENT, MAIL, PLANS};
use tetrarch_core::id::{EpicId, Principal};
use tetrarch_core::mail::Lane;

use turns::Turns;

/// How long the server keeps a consumer from which nobody takes anything.
const ABANDONED: Duration = Duration::from_secs(24 * 60 * 60);
/// Pull requests that wait at one consumer: each can have heartbeats sent to any subject.
const PULLS_MAX: i64 = 4;
/// How long one may wait.
const PULL_EXPIRES_MAX: Duration = Duration::from_secs(60);
/// How long the making of a consumer is tried; others wait for it.
const REMADE_WITHIN: Duration = Duration::from_millis(500);
/// What is asked for.
const EXAMPLE: &str =
    r#"{"lane": "mail", "after": 0}, or {"lane": "plan", "epic": "goal_...", "version": 7}"#;

/// Requests for consumers, one at a time, each asker in its turn.
#[derive(Debug)]
pub struct Openings {
    bus: Bus,
    requests: Subscriber,
}

/// What one asks for. `after` is the position behind which it begins: what the reader has stored.
#[derive(Debug, Deserialize)]
#[serde(tag = "lane", deny_unknown_fields, rename_all = "lowercase")]
enum ConsumerRequest {
    Ctl {
        #[serde(default)]
        after: u64,
    },
    Mail {
        #[serde(default)]
        after: u64,
    },
    /// Plan events of one epic, or of all; of one also behind a version instead of a position.
    Plan { after: Option<u64>, epic: Option<String>, version: Option<u32> },
}

/// What waits for its turn, and where its answer goes.
type Waits = (Principal, ConsumerRequest, async_nats::Subject);

impl ConsumerRequest {
    fn consumer(&self, who: &Principal) -> String {
        match self {
            Self::Ctl { .. } => consumer_name(Lane::Ctl, who),
            Self::Mail { .. } => consumer_name(Lane::Mail, who),
            Self::Plan { .. } => format!("plan-{who}"),
        }
    }
}

/// A consumer as it is made.
#[derive(Debug)]
struct Consumer {
    stream: &'static str,
    name: String,
    filter: String,
    after: u64,
}

/// Why there is no consumer.
#[derive(Debug, thiserror::Error)]
enum ConsumerRefused {
    #[error("`{0}` is not an agent or a person")]
    Name(String),
    #[error("`{0}` has no mailbox for programs; people read mail with `tetrarch mail list`")]
    Person(Principal),
    #[error("`{0}` is not a goal id; expected `goal_` and a ULID")]
    Epic(String),
    #[error("give either `after`, or `version` with `epic`")]
    Position,
    #[error("cannot read the request: {0}; expected {EXAMPLE}")]
    Body(#[from] serde_json::Error),
    #[error("cannot read the plan's events: {0}; try again")]
    Read(#[from] ReadError),
    #[error("cannot decode an event of the plan: {0}; use `after` instead of `version`")]
    Event(#[from] CodecError),
    #[error("cannot create the consumer: {0}; try again")]
    Bus(String),
}

/// The consumer of an agent's inbox on one lane.
pub(crate) fn consumer_name(lane: Lane, reader: &impl fmt::Display) -> String {
    match lane {
        Lane::Ctl => format!("ctl-{reader}"),
        Lane::Mail => format!("mail-{reader}"),
    }
}

impl Openings {
    /// Listens to requests.
    ///
    /// # Errors
    /// The connection is closed.
    pub async fn listen(bus: &Bus) -> Result<Self, ReadError> {
        let requests = bus.listen(pattern::inbox_open("*")).await?;
        Ok(Self { bus: bus.clone(), requests })
    }

    /// Answers requests, until the connection is closed: of those for one consumer that come before its turn
    /// the last.
    pub async fn serve(mut self) {
        let mut turns = Turns::new();
        while let Some(first) = self.requests.next().await {
            self.take(first, &mut turns).await;
            loop {
                // One turn takes so long that many come meanwhile.
                while let Some(Some(more)) = unconstrained(self.requests.next()).now_or_never() {
                    self.take(more, &mut turns).await;
                }
                let Some((who, wanted, reply)) = turns.next() else { break };
                let answer = match self.open(who, wanted).await {
                    Ok(made) => json!({ "stream": made.stream, "consumer": made.name }),
                    Err(error) => refusal(&error),
                };
                self.answer(reply, &answer).await;
            }
        }
    }

    /// Has a request wait for its turn; what cannot be read is answered at once.
    async fn take(&self, request: Message, turns: &mut Turns<Waits>) {
        let Some(reply) = request.reply else { return };
        match asked(&request.subject, &request.payload) {
            Ok((who, wanted)) => turns.ask(&wanted.consumer(&who), (who, wanted, reply)),
            Err(error) => self.answer(reply, &refusal(&error)).await,
        }
    }

    /// Whoever gets no answer asks again.
    async fn answer(&self, reply: async_nats::Subject, answer: &Value) {
        let _unsent = self.bus.client.publish(reply, Bytes::from(answer.to_string())).await;
    }

    /// Makes the consumer anew, so that what a session took and did not store comes again at once.
    async fn open(
        &self,
        who: Principal,
        wanted: ConsumerRequest,
    ) -> Result<Consumer, ConsumerRefused> {
        let name = wanted.consumer(&who);
        let made = match wanted {
            ConsumerRequest::Ctl { after } => inbox((Lane::Ctl, name), who, after)?,
            ConsumerRequest::Mail { after } => inbox((Lane::Mail, name), who, after)?,
            ConsumerRequest::Plan { after, epic, version } => {
                let parsed = |text: String| text.parse().map_err(|_| ConsumerRefused::Epic(text));
                let epic: Option<EpicId> = epic.map(parsed).transpose()?;
                let after = match (after, epic, version) {
                    (after, _, None) => after.unwrap_or(0),
                    (None, Some(epic), Some(version)) => self.behind(epic, version).await?,
                    (_, _, Some(_)) => return Err(ConsumerRefused::Position),
                };
                let filter = epic.map_or(EVERY_PLAN_EVENT.to_owned(), Subject::plan_events);
                Consumer { stream: PLANS, name, filter, after }
            }
        };
        let config = pull::Config {
            durable_name: Some(made.name.clone()),
            deliver_policy: DeliverPolicy::ByStartSequence {
                start_sequence: made.after.saturating_add(1),
            },
            ack_policy: AckPolicy::Explicit,
            filter_subject: made.filter.clone(),
            inactive_threshold: ABANDONED,
            max_waiting: PULLS_MAX,
            max_expires: PULL_EXPIRES_MAX,
            ..pull::Config::default()
        };
        let failed = |error: &dyn std::error::Error| ConsumerRefused::Bus(error.to_string());
        let stream = self.bus.js.get_stream_no_info(made.stream).await;
        let stream = stream.map_err(|error| failed(&error))?;
        let mut retry = Retry::until(REMADE_WITHIN);
        loop {
            // There may be none; that one is there and stays shows when it is made.
            let _none = stream.delete_consumer(&made.name).await;
            match stream.create_consumer(config.clone()).await {
                Ok(_) => return Ok(made),
                // The server may still be removing the files of the one before.
                Err(error) if !retry.pause().await => return Err(failed(&error)),
                Err(error) => tracing::debug!(consumer = made.name, %error, "making it again"),
            }
        }
    }

    /// The position before the first event of an epic that is newer than a version. Versions grow with positions,
    /// so it takes as many reads as the stream's length has binary digits.
    async fn behind(&self, epic: EpicId, version: u32) -> Result<u64, ConsumerRefused> {
        // Version 1 has a subject of its own; whoever has none begins with it.
        if version == 0 {
            return Ok(0);
        }
        let subject = Subject::PlanUpdated(epic).to_string();
        let extent = self.bus.stream_extent(PLANS).await?;
        let (mut known, mut newer) = (extent.first - 1, extent.last);
        while known < newer {
            let middle = known + (newer - known) / 2;
            let found = self.bus.next_by_subject_batch(PLANS, &subject, middle + 1, 1).await?;
            let event = found.first().map(|event| codec::decode_plan_event(&event.payload));
            match (event.transpose()?, found.first()) {
                (Some(event), Some(message)) if event.version <= version => known = message.seq,
                (Some(_) | None, Some(_) | None) => newer = middle,
            }
        }
        Ok(known)
    }
}

fn asked(subject: &str, payload: &[u8]) -> Result<(Principal, ConsumerRequest), ConsumerRefused> {
    let name = subject.rsplit('.').next().unwrap_or_default();
    let who = name.parse().map_err(|_| ConsumerRefused::Name(name.to_owned()))?;
    Ok((who, serde_json::from_slice(payload)?))
}

fn refusal(error: &ConsumerRefused) -> Value {
    json!({ "error": error.to_string() })
}

fn inbox(
    (lane, name): (Lane, String),
    who: Principal,
    after: u64,
) -> Result<Consumer, ConsumerRefused> {
    if matches!(who, Principal::Human(_)) {
        return Err(ConsumerRefused::Person(who));
    }
    Ok(Consumer { stream: MAIL, name, filter: Subject::inbox(lane, &who), after })
}
