//! Records that this version cannot take part in: what a newer version wrote, and what cannot be read
//! (spec 02, Encodings; spec 10, 26). Their bytes stay where they are, and nothing is decided on them.

use std::fmt;

use crate::ledger::RecordKey;

/// Why a record cannot be read without loss.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unread {
    /// A newer version wrote it.
    Newer {
        /// The version of the schema that reads it without loss.
        needs: u32,
        /// The version that this node reads.
        reads: u32,
    },
    /// It is garbage, or what wrote it was wrong.
    Undecodable {
        /// What is wrong with it.
        reason: String,
    },
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Newer { needs, reads } => {
                write!(f, "needs schema version {needs}, this node reads {reads}")
            }
            Self::Undecodable { reason } => write!(f, "cannot be read: {reason}"),
        }
    }
}

/// A record that is left as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Its key in STATE, as text.
    pub name: String,
    /// What it is; none when this version does not know such records.
    pub key: Option<RecordKey>,
    /// Why it is left as it is.
    pub why: Unread,
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.why)
    }
}
