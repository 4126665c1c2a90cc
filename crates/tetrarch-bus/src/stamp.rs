//! What messages are stamped with: the place in the ledger they come from, the incarnation that
//! writes them, the marker of a dropped record. Headers only; bodies are the codec's.

use async_nats::HeaderMap;

use crate::client::RawMessage;
use crate::envelope::{Envelope, LedgerPosition, MSG_ID, SEQ};
use crate::subject::Subject;
use tetrarch_core::id::SessionId;

/// What a key-value client writes for a deletion.
const OPERATION: &str = "KV-Operation";
const DELETED: &str = "DEL";
/// How long the server keeps what says so.
const TIME_TO_LIVE: &str = "Nats-TTL";
/// For longer than a fail-over takes. What is dropped was known for a day at least, so an owner that
/// could still write an image from before was deposed as long ago.
const DROPPED_KEPT: &str = "120s";

/// What something says that comes from a ledger entry as a whole.
pub(crate) fn of_entry(ledger_seq: u64) -> Envelope {
    let place = Some(LedgerPosition { ledger_seq, index: 0 });
    Envelope { place, ..Envelope::default() }
}

/// What something says that an incarnation writes about itself.
pub(crate) fn of_session(session: SessionId, epoch: u64) -> Envelope {
    Envelope { session: Some(session), epoch: Some(epoch), ..Envelope::default() }
}

/// Headers of a key of STATE that is no longer kept. The marker goes by itself, so that what was
/// ever known leaves nothing behind.
pub(crate) fn dropped(subject: &Subject, ledger_seq: u64) -> HeaderMap {
    let mut headers = of_entry(ledger_seq).headers(subject);
    headers.insert(OPERATION, DELETED);
    headers.insert(TIME_TO_LIVE, DROPPED_KEPT);
    headers
}

/// Whether a message of STATE says that its key is no longer kept.
pub(crate) fn is_dropped(message: &RawMessage) -> bool {
    message.header(OPERATION).is_some()
}

/// The place in the ledger a message comes from, none when it does not say.
pub(crate) fn place(message: &RawMessage) -> Option<LedgerPosition> {
    message.header(SEQ)?.parse().ok()
}

/// The sequence of the ledger entry a message comes from, 0 when it does not say.
pub(crate) fn ledger_seq(message: &RawMessage) -> u64 {
    place(message).map_or(0, |place| place.ledger_seq)
}

/// The message's id.
pub(crate) fn message_id(headers: &HeaderMap) -> Option<&str> {
    headers.get(MSG_ID).map(async_nats::HeaderValue::as_str)
}
