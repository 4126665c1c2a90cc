//! Classes 4 and 5: the last after-image of every record, written with the expected revision;
//! an older one never replaces a newer (spec 02, STATE).

use std::sync::Arc;

use async_nats::HeaderMap;
use bytes::Bytes;

use crate::client::{Bus, RawMessage};
use crate::codec::CodecError;
use crate::error::PublishError;
use crate::state::OwnerMeta;
use crate::subject::Subject;
use crate::subject::key::key_subject;
use crate::subject::pattern::STATE;
use crate::{codec, stamp, surely};
use tetrarch_core::held::Held;
use tetrarch_core::ledger::{Entry, Record, RecordKey};

use super::OutboxError;

/// What one key of STATE is to hold.
#[derive(Debug)]
pub(super) struct StateImage {
    pub(super) subject: String,
    ledger: u64,
    headers: HeaderMap,
    payload: Bytes,
}

/// The image of a key as an entry has it; a dropped one leaves a deletion marker.
pub(super) fn of(
    key: RecordKey,
    ledger: u64,
    record: Option<&Record>,
) -> Result<StateImage, OutboxError> {
    let subject = Subject::State(key);
    let (headers, payload) = match record {
        Some(record) => {
            (stamp::of_entry(ledger).headers(&subject), codec::record_json(record, ledger)?)
        }
        None => (stamp::dropped(&subject, ledger), Vec::new()),
    };
    Ok(StateImage { subject: subject.to_string(), ledger, headers, payload: payload.into() })
}

/// What these entries have that this version cannot write.
pub(super) fn markers(entries: &[(u64, Arc<Entry>)]) -> Result<Vec<StateImage>, OutboxError> {
    let held = |(ledger, entry): &(u64, Arc<Entry>)| {
        let held = entry.held.clone();
        let ledger = *ledger;
        held.into_iter().map(move |held| marker(&held, ledger))
    };
    entries.iter().flat_map(held).collect()
}

/// What says that the ledger has a record which this version cannot write.
fn marker(held: &Held, ledger: u64) -> Result<StateImage, OutboxError> {
    let headers = stamp::of_entry(ledger).headers(&Subject::StateMeta);
    let payload = codec::held_json(held, ledger)?.into();
    Ok(StateImage { subject: key_subject(&held.name), ledger, headers, payload })
}

/// The record that says how far the outbox got.
pub(super) fn meta(meta: &OwnerMeta) -> StateImage {
    StateImage {
        subject: Subject::StateMeta.to_string(),
        ledger: meta.outbox_through,
        headers: stamp::of_entry(meta.outbox_through).headers(&Subject::StateMeta),
        payload: meta.to_json().into(),
    }
}

/// Whether what is stored is somebody's word: garbage is never as new, whatever it says of itself.
fn is_sound(found: &RawMessage) -> bool {
    let read = || codec::record_from_json(&found.subject, &found.payload);
    stamp::is_dropped(found)
        || matches!(read(), Ok(_) | Err(CodecError::TooNew { .. }))
        || found.subject == Subject::StateMeta.to_string()
            && OwnerMeta::from_json(&found.payload).is_ok()
}

/// Writes one image unless what is stored is as new; gives the key's revision.
pub(super) async fn put(
    bus: Bus,
    image: StateImage,
    mut expect: u64,
) -> Result<(String, u64), OutboxError> {
    let StateImage { subject, ledger, headers, payload } = image;
    loop {
        match surely::publish(&bus, &subject, &headers, &payload, Some(expect)).await {
            Ok(revision) => return Ok((subject, revision)),
            Err(PublishError::WrongLast { last, .. }) => {
                let found = match surely::named(&bus, STATE, last).await? {
                    None if last > 0 => surely::last_by_subject(&bus, STATE, &subject).await?,
                    found => found,
                };
                expect = found.as_ref().map_or(0, |found| found.seq);
                if found
                    .as_ref()
                    .is_some_and(|found| stamp::ledger_seq(found) >= ledger && is_sound(found))
                {
                    return Ok((subject, expect));
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Writes an image, or drops the key where the ledger has none, over what stands there at a revision,
/// whatever that says of itself. None when somebody else wrote it meanwhile.
pub(super) async fn repair(
    bus: &Bus,
    subject: &str,
    known: Option<&(Record, u64)>,
    through: u64,
    revision: u64,
) -> Result<Option<u64>, OutboxError> {
    let (headers, payload) = match known {
        Some((record, ledger)) => {
            let headers = stamp::of_entry(*ledger).headers(&Subject::State(record.key()));
            (headers, codec::record_json(record, *ledger)?)
        }
        None => (stamp::dropped(&Subject::StateMeta, through), Vec::new()),
    };
    match surely::publish(bus, subject, &headers, &payload.into(), Some(revision)).await {
        Ok(revision) => Ok(Some(revision)),
        Err(PublishError::WrongLast { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Writes an image over what stands there at a revision.
pub(super) async fn over(
    bus: &Bus,
    image: StateImage,
    revision: u64,
) -> Result<(String, u64), OutboxError> {
    let StateImage { subject, headers, payload, .. } = image;
    let stored = surely::publish(bus, &subject, &headers, &payload, Some(revision)).await?;
    Ok((subject, stored))
}
