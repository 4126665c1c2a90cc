//! Makes the consumers with which agents outside read their inboxes (spec 02, Inbox). They ask for them
//! under their own name and say from which position on; where a consumer delivers, which subjects it has
//! and how it is acknowledged is not theirs to say (spec 09). It runs beside the owner and decides nothing.

use std::time::Duration;

use async_nats::Subscriber;
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, pull};
use bytes::Bytes;
use futures::StreamExt;
use serde::Deserialize;
use serde_json::json;

use crate::client::Bus;
use crate::error::ReadError;
use crate::subject::Subject;
use crate::subject::pattern::{self, MAIL};
use tetrarch_core::id::{AgentId, Principal};
use tetrarch_core::mail::Lane;

/// How long the server keeps a consumer from which nobody takes anything.
const ABANDONED: Duration = Duration::from_secs(24 * 60 * 60);
/// What an agent asks for: `{"lane": "mail", "after": 17}`.
const EXAMPLE: &str = r#"{"lane": "mail", "after": 0}"#;

/// Requests for inboxes, one at a time.
#[derive(Debug)]
pub struct Openings {
    bus: Bus,
    requests: Subscriber,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Wanted {
    lane: LaneName,
    /// The position behind which it begins; what the agent has stored of the lane.
    #[serde(default)]
    after: u64,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum LaneName {
    Ctl,
    Mail,
}

impl From<LaneName> for Lane {
    fn from(name: LaneName) -> Self {
        match name {
            LaneName::Ctl => Self::Ctl,
            LaneName::Mail => Self::Mail,
        }
    }
}

/// Why there is no inbox.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("`{0}` is no agent's name")]
    Name(String),
    #[error("the request cannot be read: {0}; write it as {EXAMPLE}")]
    Body(#[from] serde_json::Error),
    #[error("the consumer cannot be made: {0}; ask again")]
    Bus(String),
}

/// The consumer of an agent's inbox on one lane.
pub(crate) fn consumer_name(lane: Lane, agent: &AgentId) -> String {
    match lane {
        Lane::Ctl => format!("ctl-{agent}"),
        Lane::Mail => format!("mail-{agent}"),
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

    /// Answers each request, until the connection is closed.
    pub async fn serve(mut self) {
        while let Some(request) = self.requests.next().await {
            let answer = match self.open(&request.subject, &request.payload).await {
                Ok(consumer) => json!({ "stream": MAIL, "consumer": consumer }),
                Err(error) => json!({ "error": error.to_string() }),
            };
            let Some(reply) = request.reply else { continue };
            let answer = Bytes::from(answer.to_string());
            // Whoever gets no answer asks again.
            let _unsent = self.bus.client.publish(reply, answer).await;
        }
    }

    /// Makes the consumer anew, so that what a session took and did not store comes again at once.
    async fn open(&self, subject: &str, payload: &[u8]) -> Result<String, Refused> {
        let name = subject.rsplit('.').next().unwrap_or_default();
        let agent: AgentId = name.parse().map_err(|_| Refused::Name(name.to_owned()))?;
        let Wanted { lane, after } = serde_json::from_slice(payload)?;
        let name = consumer_name(lane.into(), &agent);
        let config = pull::Config {
            durable_name: Some(name.clone()),
            deliver_policy: DeliverPolicy::ByStartSequence {
                start_sequence: after.saturating_add(1),
            },
            ack_policy: AckPolicy::Explicit,
            filter_subject: Subject::inbox(lane.into(), &Principal::Agent(agent)),
            inactive_threshold: ABANDONED,
            ..pull::Config::default()
        };
        let failed = |error: &dyn std::error::Error| Refused::Bus(error.to_string());
        let stream = self.bus.js.get_stream_no_info(MAIL).await.map_err(|error| failed(&error))?;
        // There may be none; that one is there and stays shows when it is made.
        let _none = stream.delete_consumer(&name).await;
        stream.create_consumer(config).await.map_err(|error| failed(&error))?;
        Ok(name)
    }
}
