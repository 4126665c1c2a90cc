//! Class 3: plan events, one at a time for each epic and subject, so that no version repeats or
//! goes back on the stream, also after a fail-over (spec 02, Plan events go out).

use std::collections::HashMap;
use std::sync::Arc;

use async_nats::HeaderMap;
use bytes::Bytes;

use crate::client::{Bus, RawMessage};
use crate::codec::{self, CodecError};
use crate::envelope::Envelope;
use crate::error::PublishError;
use crate::subject::Subject;
use crate::subject::pattern::{EVERY_PLAN_EVENT, PLANS};
use crate::{stamp, surely};
use tetrarch_core::id::EpicId;
use tetrarch_core::ledger::Entry;
use tetrarch_core::plan::PlanEvent;

use super::OutboxError;

/// Subjects whose last messages are read at once; the server gives 1,024 at most.
const SUBJECTS_AT_ONCE: usize = 512;

/// The last message of a plan subject.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tip {
    /// Its sequence in the stream, 0 when there is none.
    seq: u64,
    /// The ledger sequence it carries.
    ledger: u64,
}

/// A plan event on its way.
#[derive(Debug)]
pub(super) struct PlanMessage {
    pub(super) epic: EpicId,
    pub(super) subject: String,
    ledger: u64,
    headers: HeaderMap,
    payload: Bytes,
}

/// How far each subject of plan events is published.
#[derive(Debug, Clone, Default)]
pub struct PlanTips(HashMap<String, u64>);

impl PlanTips {
    /// Reads them. Waits while the bus is away.
    ///
    /// # Errors
    /// See [`OutboxError`].
    pub async fn read(bus: &Bus) -> Result<Self, OutboxError> {
        let subjects = surely::stream_subjects(bus, PLANS, EVERY_PLAN_EVENT).await?;
        let mut tips = HashMap::new();
        for some in subjects.chunks(SUBJECTS_AT_ONCE) {
            let some: Vec<&str> = some.iter().map(String::as_str).collect();
            let last = surely::last_per_subject(bus, PLANS, &some).await?;
            tips.extend(last.into_iter().map(|message| {
                let ledger = stamp::ledger_seq(&message);
                (message.subject, ledger)
            }));
        }
        Ok(Self(tips))
    }

    /// Whether an event of this entry of the ledger is not published.
    #[must_use]
    pub fn lacks(&self, ledger: u64, event: &PlanEvent) -> bool {
        self.0.get(&subject_of(event).to_string()).is_none_or(|through| *through < ledger)
    }
}

/// The plan events of these entries, in order.
pub(super) fn notices(entries: &[(u64, Arc<Entry>)]) -> Result<Vec<PlanMessage>, OutboxError> {
    let mut notices = Vec::new();
    for (ledger, entry) in entries {
        for event in &entry.plans {
            let subject = subject_of(event);
            let envelope = Envelope { trace: event.trace.clone(), ..stamp::of_entry(*ledger) };
            notices.push(PlanMessage {
                epic: event.epic,
                subject: subject.to_string(),
                ledger: *ledger,
                headers: envelope.headers(&subject),
                payload: told(event)?.into(),
            });
        }
        for review in &entry.reviews {
            let subject = Subject::PlanReviewNeeded(review.epic);
            let envelope = Envelope { trace: review.trace.clone(), ..stamp::of_entry(*ledger) };
            notices.push(PlanMessage {
                epic: review.epic,
                subject: subject.to_string(),
                ledger: *ledger,
                headers: envelope.headers(&subject),
                payload: codec::encode_plan_review(review)?.into(),
            });
        }
    }
    Ok(notices)
}

/// An event as it is published. One that became larger than a message is told without its nodes, which STATE has: what
/// is in the ledger has to go out, or nothing after it does.
fn told(event: &PlanEvent) -> Result<Vec<u8>, CodecError> {
    match codec::encode_plan_event(event) {
        Err(CodecError::TooLarge { .. }) => {
            let (nodes, definitions) = (Vec::new(), Vec::new());
            codec::encode_plan_event(&PlanEvent {
                full: false,
                nodes,
                definitions,
                ..event.clone()
            })
        }
        told => told,
    }
}

/// The subjects that an epic's events are published on.
pub(super) fn subjects(epic: EpicId) -> [String; 3] {
    let all =
        [Subject::PlanCreated(epic), Subject::PlanUpdated(epic), Subject::PlanReviewNeeded(epic)];
    all.map(|subject| subject.to_string())
}

/// Publishes one epic's events in order; gives what is the last message of each subject now.
/// `known` is what is cached for each of them.
pub(super) async fn publish_line(
    bus: Bus,
    notices: Vec<PlanMessage>,
    known: Vec<Option<Tip>>,
) -> Result<Vec<(String, Tip)>, OutboxError> {
    let mut tips: Vec<(String, Tip)> = Vec::new();
    for (notice, cached) in notices.iter().zip(known) {
        let newer = tips.iter().rev().find(|(subject, _)| *subject == notice.subject);
        let tip = match newer.map(|(_, tip)| *tip).or(cached) {
            Some(tip) => tip,
            None => tip_of(surely::last_by_subject(&bus, PLANS, &notice.subject).await?.as_ref()),
        };
        let tip = publish(&bus, notice, tip).await?;
        tips.push((notice.subject.clone(), tip));
    }
    Ok(tips)
}

async fn publish(bus: &Bus, notice: &PlanMessage, mut tip: Tip) -> Result<Tip, OutboxError> {
    while notice.ledger > tip.ledger {
        let sent =
            surely::publish(bus, &notice.subject, &notice.headers, &notice.payload, Some(tip.seq));
        match sent.await {
            Ok(seq) => return Ok(Tip { seq, ledger: notice.ledger }),
            Err(PublishError::WrongLast { last, .. }) => {
                tip = match surely::named(bus, PLANS, last).await? {
                    None if last > 0 => {
                        tip_of(surely::last_by_subject(bus, PLANS, &notice.subject).await?.as_ref())
                    }
                    found => tip_of(found.as_ref()),
                };
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(tip)
}

fn subject_of(event: &PlanEvent) -> Subject {
    match event.version {
        1 => Subject::PlanCreated(event.epic),
        _ => Subject::PlanUpdated(event.epic),
    }
}

fn tip_of(message: Option<&RawMessage>) -> Tip {
    match message {
        None => Tip { seq: 0, ledger: 0 },
        Some(message) => Tip { seq: message.seq, ledger: stamp::ledger_seq(message) },
    }
}
