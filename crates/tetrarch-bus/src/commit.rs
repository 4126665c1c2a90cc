//! The commit: one message of the ledger, fenced by the expected sequence of its last one, and
//! repeated until its outcome is known (spec 02). It does not decide what is committed, and
//! while a commit is open there is no other.

use bytes::Bytes;

use crate::client::Bus;
use crate::codec::{self, CodecError};
use crate::envelope::Envelope;
use crate::error::{PublishError, ReadError};
use crate::subject::Subject;
use crate::subject::pattern::LEDGER;
use crate::surely;
use tetrarch_core::ledger::Entry;
use tetrarch_core::limits::LEASE_EPOCH_MAX;

/// Why an entry is not in the ledger. After each of these the committer is used up: the caller
/// stops or loads anew and makes another one.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// An owner of a higher epoch writes the ledger now: stop.
    #[error(
        "cannot commit: an owner of the higher epoch {epoch} writes the ledger; this owner stops"
    )]
    Deposed {
        /// Its epoch.
        epoch: u64,
    },
    /// The ledger is not where it was taken to be: load it anew and decide again.
    #[error(
        "cannot commit: the ledger's last entry is {last}, not the expected one; reload and decide again"
    )]
    Reload {
        /// The ledger's last sequence, 0 when it is empty; what is loaded has to reach it.
        last: u64,
    },
    /// The entry cannot be encoded: it breaks a bound.
    #[error("cannot encode the entry: {0}")]
    Encoding(#[from] CodecError),
    /// The server refuses it for good.
    #[error("cannot publish the entry: {0}")]
    Refused(PublishError),
    /// What a refusal named cannot be read, for good.
    #[error("cannot read the ledger: {0}")]
    Unreadable(#[from] ReadError),
}

/// The one writer of the ledger.
#[derive(Debug)]
pub struct Committer {
    bus: Bus,
    last: u64,
    epoch: u64,
    open: bool,
}

impl Committer {
    /// A writer of `epoch` that goes on after the entry at sequence `last`, 0 for an empty ledger.
    #[must_use]
    pub fn new(bus: Bus, last: u64, epoch: u64) -> Self {
        Self { bus, last, epoch, open: false }
    }

    /// The sequence of the last entry that is known to be in the ledger.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Puts one entry into the ledger; gives its sequence. An unknown outcome is resolved by
    /// sending the same bytes again until there is an answer (spec 02, Unknown outcome). It waits
    /// for ever; a caller that drops it has to load anew, and is told so by the next commit.
    ///
    /// # Errors
    /// See [`CommitError`].
    pub async fn commit(&mut self, entry: &Entry) -> Result<u64, CommitError> {
        if self.open {
            return Err(CommitError::Reload { last: self.last });
        }
        let payload = Bytes::from(codec::encode_entry(entry)?);
        let envelope = Envelope { msg_id: Some(entry.commit.to_string()), ..Envelope::default() };
        let headers = envelope.headers(&Subject::Ledger);
        let subject = Subject::Ledger.to_string();
        self.open = true;
        let sent = surely::publish(&self.bus, &subject, &headers, &payload, Some(self.last)).await;
        let seq = match sent {
            Ok(seq) => seq,
            Err(PublishError::WrongLast { last, .. }) => self.judge(entry, last).await?,
            Err(
                error @ (PublishError::Busy { .. }
                | PublishError::Unknown { .. }
                | PublishError::Refused { .. }),
            ) => return Err(CommitError::Refused(error)),
        };
        self.last = seq;
        self.open = false;
        Ok(seq)
    }

    /// Reads exactly the entry that a refusal named.
    async fn judge(&self, entry: &Entry, last: u64) -> Result<u64, CommitError> {
        let named = surely::named(&self.bus, LEDGER, last).await?;
        let found = named.and_then(|message| codec::decode_entry(&message.payload).ok());
        match found {
            Some(found) if found.commit == entry.commit => Ok(last),
            // No owner has a higher epoch than a lease can have: that one is skipped by everyone.
            Some(found) if (self.epoch + 1..=LEASE_EPOCH_MAX).contains(&found.epoch) => {
                Err(CommitError::Deposed { epoch: found.epoch })
            }
            Some(_) | None => Err(CommitError::Reload { last }),
        }
    }
}
