//! What the writer of a message hears of it: receipts, and that it was set aside (spec 02, Mail).
//! Neither is ever answered in the same way, so none of them leads to another.

use super::{Lane, Mail, MailBody};
use crate::id::{HostName, Principal};
use crate::words::words;

words! {
    /// How far a message came. That it is stored the bus says itself, by its acknowledgement.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Stage {
        /// Its reader took it from the stream.
        Delivered = "delivered",
        /// Its reader's position, which is kept, has passed it.
        Consumed = "consumed",
    }
}

/// Which message something is told of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// Its sequence in `MAIL`, which its writer got when it was stored.
    pub seq: u64,
    /// Its message id.
    pub message: String,
    /// Its topic; empty when that could not be read.
    pub topic: String,
}

/// `receipt`. The same stage of the same message may be told twice after a death: by both it is
/// known again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// Of which message.
    pub of: About,
    /// How far it came.
    pub stage: Stage,
}

/// `mail.dead`: a message was set aside, nobody will handle it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadNotice {
    /// Which message.
    pub of: About,
    /// To whom it was.
    pub to: Principal,
    /// Why, in words.
    pub reason: String,
}

/// A message that its reader set aside, as the owner is told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetAside {
    /// Which message.
    pub of: About,
    /// Who wrote it, as the subject says.
    pub from: Principal,
    /// The host that published it for its writer.
    pub via: Option<HostName>,
    /// Why, in words.
    pub reason: String,
}

impl Mail {
    /// Whether its writer is owed receipts: asked for, by mail, and for no receipt itself.
    #[must_use]
    pub fn owes_receipts(&self) -> bool {
        self.ack_required && self.body.lane() == Lane::Mail && !self.body.is_about_mail()
    }
}

impl MailBody {
    /// Whether it tells of another message: what becomes of it is told to nobody.
    #[must_use]
    pub fn is_about_mail(&self) -> bool {
        matches!(self, Self::Receipt(_) | Self::Dead(_))
    }
}

/// Whether a topic tells of another message.
#[must_use]
pub fn is_about_mail(topic: &str) -> bool {
    topic == RECEIPT || topic == DEAD
}

/// The topic of receipts.
pub const RECEIPT: &str = "receipt";
/// The topic of notices of dead letters.
pub const DEAD: &str = "mail.dead";
