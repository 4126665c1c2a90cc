//! What people's tools watch: plan events as they come, and the answer to what they asked.
//! It sends nothing and decides nothing.

use std::time::Duration;

use async_nats::Subscriber;
use futures::stream::unfold;
use futures::{Stream, StreamExt};
use tokio::time::Instant;

use crate::client::{Bus, next_published};
use crate::codec::{self, CodecError};
use crate::envelope;
use crate::error::ReadError;
use crate::follow::StreamFollower;
use crate::state::{self, Select};
use crate::subject::Subject;
use crate::subject::pattern::PLANS;
use tetrarch_core::id::{AgentId, EpicId, Principal, RequestId, SessionId};
use tetrarch_core::ledger::{Record, RecordKey};
use tetrarch_core::mail::{Lane, Mail};
use tetrarch_core::plan::PlanEvent;

/// How often the decision is looked up while no reply comes: a reply may be lost with the
/// connection, the decision is not.
const LOOK_UP: Duration = Duration::from_secs(1);

/// From where to watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// What comes from now on.
    Now,
    /// Everything that is still kept.
    Start,
    /// Everything from this sequence in `PLANS` on.
    Seq(u64),
}

/// A plan event and its sequence in `PLANS`, or why it cannot be read.
pub type WatchedPlanEvent = (u64, Result<PlanEvent, CodecError>);

/// Plan events of one epic or of all, in the stream's order, for ever.
///
/// # Errors
/// The bus is away, or does not let this credential read.
pub async fn plan_events(
    bus: &Bus,
    epic: Option<EpicId>,
    from: From,
) -> Result<impl Stream<Item = WatchedPlanEvent> + Send + use<>, ReadError> {
    let next = match from {
        From::Now => bus.stream_last_seq(PLANS).await? + 1,
        From::Start => 1,
        From::Seq(seq) => seq,
    };
    let filters = epic.map(Subject::plan_events).into_iter().collect();
    let follower = StreamFollower::new(bus.clone(), PLANS, filters, next);
    Ok(unfold(follower, |mut follower| async move {
        loop {
            let message = follower.next().await;
            let event = match message.subject.parse::<Subject>() {
                Ok(Subject::PlanCreated(_) | Subject::PlanUpdated(_)) => {
                    codec::decode_plan_event(&message.payload)
                }
                Ok(_) | Err(_) => continue,
            };
            return Some(((message.seq, event), follower));
        }
    }))
}

/// The sequence in `PLANS` of an epic's last plan event; none when it has none.
///
/// # Errors
/// The bus is away, or does not let this credential read.
pub async fn last_plan_event(bus: &Bus, epic: EpicId) -> Result<Option<u64>, ReadError> {
    let subjects = [Subject::PlanCreated(epic), Subject::PlanUpdated(epic)].map(|s| s.to_string());
    let texts: Vec<&str> = subjects.iter().map(String::as_str).collect();
    let newest = bus.last_per_subject(PLANS, &texts).await?;
    Ok(newest.iter().map(|message| message.seq).max())
}

/// A heartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentHeartbeat {
    /// Whose.
    pub agent: AgentId,
    /// Its epoch; 1 when it did not say.
    pub epoch: u64,
    /// Its session, when it said.
    pub session: Option<SessionId>,
}

/// Hears of every heartbeat of an external agent, and of the owner's own, as it happens.
#[derive(Debug)]
pub struct Heartbeats {
    client: async_nats::Client,
    beats: Subscriber,
}

impl Heartbeats {
    /// Listens to all agents.
    ///
    /// # Errors
    /// The connection is closed.
    pub async fn listen(bus: &Bus) -> Result<Self, ReadError> {
        let beats = bus.listen(Subject::heartbeats().to_owned()).await?;
        Ok(Self { client: bus.client.clone(), beats })
    }

    /// The next heartbeat; none ever when the connection was closed. Safe to drop.
    pub async fn next(&mut self) -> AgentHeartbeat {
        loop {
            let Some(beat) = next_published(&mut self.beats).await else {
                return std::future::pending().await;
            };
            let Ok(Subject::Heartbeat(agent)) = beat.subject.as_str().parse::<Subject>() else {
                continue;
            };
            // What cannot be read is a sign of life all the same; it says nothing of whose.
            let told = codec::decode_heartbeat(&agent, &beat.payload).ok();
            let header = beat.headers.as_ref().and_then(envelope::epoch);
            let epoch = header.or(told.as_ref().map(|told| told.epoch)).unwrap_or(1);
            return AgentHeartbeat { agent, epoch, session: told.map(|told| told.session) };
        }
    }

    /// Sends the owner's own heartbeat: a canary, which comes back to whoever still hears.
    pub async fn send_canary(&self) {
        let subject = Subject::Heartbeat(AgentId::Go).to_string();
        // What is not sent does not come back, which is what it is for.
        let _unsent = self.client.publish(subject, Vec::new().into()).await;
    }
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ReplyError {
    /// No subscription can be made.
    #[error("cannot subscribe to the replies of {owner}: {reason}")]
    Subscribe {
        /// Who asks.
        owner: String,
        /// What the client said.
        reason: String,
    },
    /// Nobody decided within the given patience; the request stays asked.
    #[error("no answer to {request} within {} ms; it is still queued: check the owner with `tetrarch status`, or retry with the same id", within.as_millis())]
    Unanswered {
        /// The request.
        request: RequestId,
        /// The patience.
        within: Duration,
    },
    /// The connection is closed for good.
    #[error("connection closed while waiting for the answer to {request}; retry with the same id")]
    Closed {
        /// The request.
        request: RequestId,
    },
}

/// The replies to one principal. Opened before the request is sent, so that none is missed. They are heard and
/// not read: whoever could forge one does not know the id of a request before it is answered.
#[derive(Debug)]
pub struct Replies {
    bus: Bus,
    mail: Subscriber,
}

impl Replies {
    /// Listens to what is written to `owner`.
    ///
    /// # Errors
    /// No subscription can be made.
    pub async fn open(bus: &Bus, owner: &Principal) -> Result<Self, ReplyError> {
        let pattern = Subject::inbox(Lane::Mail, owner);
        let mail = bus.client.subscribe(pattern).await.map_err(|error| ReplyError::Subscribe {
            owner: owner.to_string(),
            reason: error.to_string(),
        })?;
        Ok(Self { bus: bus.clone(), mail })
    }

    /// Waits for the answer to a request: the reply, or the decision in STATE when the reply was
    /// lost.
    ///
    /// # Errors
    /// No answer within `patience`.
    pub async fn wait(
        &mut self,
        request: RequestId,
        patience: Duration,
    ) -> Result<Mail, ReplyError> {
        let deadline = Instant::now() + patience;
        let mut look_up = tokio::time::interval(LOOK_UP);
        loop {
            tokio::select! {
                message = self.mail.next() => {
                    let message = message.ok_or(ReplyError::Closed { request })?;
                    let headers = message.headers.unwrap_or_default();
                    let mail = codec::decode_mail(&message.subject, &headers, &message.payload);
                    if let Ok((mail, _)) = mail
                        && mail.correlation == Some(request)
                    {
                        return Ok(mail);
                    }
                }
                _ = look_up.tick() => {
                    if let Some(answer) = self.decided(request).await {
                        return Ok(answer);
                    }
                }
                () = tokio::time::sleep_until(deadline) => {
                    return Err(ReplyError::Unanswered { request, within: patience });
                }
            }
        }
    }

    /// The next mail that can be read; none when the connection is closed for good. Safe to drop. What
    /// came while the connection was lost is not among it.
    pub async fn next(&mut self) -> Option<Mail> {
        loop {
            let message = self.mail.next().await?;
            let headers = message.headers.unwrap_or_default();
            if let Ok((mail, _)) = codec::decode_mail(&message.subject, &headers, &message.payload)
            {
                return Some(mail);
            }
        }
    }

    async fn decided(&self, request: RequestId) -> Option<Mail> {
        let wanted = [Select::One(RecordKey::Decision(request))];
        match state::read_records(&self.bus, &wanted).await {
            Ok(found) => found.records.into_iter().find_map(|(record, _)| {
                let Record::Decision(decision) = record else { return None };
                decision.answer.map(|answer| *answer)
            }),
            Err(error) => {
                tracing::debug!(%error, "the decision could not be looked up");
                None
            }
        }
    }
}
