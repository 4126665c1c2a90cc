//! What can go wrong with a connection, a read and a write on the bus, told apart by what the
//! caller may do next. Errors of one module only are beside that module.

use std::path::PathBuf;
use std::time::Duration;

use crate::server::Version;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Nothing answers there.
    #[error("cannot connect to nats-server at {url}: {reason}")]
    Unreachable {
        /// Where it was looked for.
        url: String,
        /// What the network said.
        reason: String,
    },
    /// A server answers, but there is no TLS with it that can be trusted.
    #[error("cannot connect with TLS to nats-server at {url}: {reason}")]
    Tls {
        /// Which server.
        url: String,
        /// What is wrong with its certificate, or with the file of its authority.
        reason: String,
        /// What to do.
        next: &'static str,
    },
    /// The server refused the credential.
    #[error(
        "nats-server at {url} refused the credential {credentials}: {reason}; it belongs to another installation, has expired or was revoked (`tetrarch creds list` shows it)"
    )]
    Refused {
        /// Which server.
        url: String,
        /// The credential file, or that there was none.
        credentials: String,
        /// What the server said.
        reason: String,
    },
    /// The server runs without JetStream, or this account has none.
    #[error(
        "nats-server at {url} has no JetStream for this account ({reason}); enable it or check bus.api_prefix"
    )]
    NoJetStream {
        /// Which server.
        url: String,
        /// What the server said.
        reason: String,
    },
    /// A server answers, but nobody for its JetStream.
    #[error(
        "JetStream of nats-server at {url} was not available for {} s: the cluster has no majority, or the disk is full; see the server log and start the missing servers",
        within.as_secs()
    )]
    Leaderless {
        /// Which server.
        url: String,
        /// The patience.
        within: Duration,
    },
    /// The server lacks what the bus contract needs.
    #[error("nats-server at {url} has version {found}; {needed} or newer is required")]
    TooOld {
        /// Which server.
        url: String,
        /// Its version.
        found: String,
        /// The oldest that works.
        needed: Version,
    },
    /// The credential file cannot be used.
    #[error("cannot use credential file {path}: {reason}")]
    Credentials {
        /// Which file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

/// Why a read gave nothing. A read is a hint: the caller may always try again.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// No answer came in time, or the connection was lost.
    #[error("cannot read {what}: {reason}")]
    Unanswered {
        /// The stream or subject.
        what: String,
        /// What happened.
        reason: String,
    },
    /// The server answered with an error.
    #[error("cannot read {what}: the server refused it: {text} (code {code})")]
    Refused {
        /// The stream or subject.
        what: String,
        /// The server's code.
        code: u64,
        /// The server's words.
        text: String,
    },
    /// The answer has a hole or is none; nothing of it was used.
    #[error("cannot read {what}: unexpected answer: {reason}")]
    Malformed {
        /// The stream or subject.
        what: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// Codes with which a server says "not now": nobody leads the stream yet, JetStream is starting,
/// resources are short, too many messages wait to be stored in the stream.
const NOT_NOW: [u64; 4] = [503, 10008, 10023, 10167];

impl ReadError {
    /// Whether the same read may succeed when it is simply done again.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Unanswered { .. } | Self::Malformed { .. } => true,
            Self::Refused { code, .. } => NOT_NOW.contains(code),
        }
    }
}

/// How a publish with acknowledgement ended other than well (spec 02, Client rules).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// Another message is the last of this subject (10071). Nothing was stored.
    #[error("cannot publish to {subject}: its last sequence is {last}, not the expected one")]
    WrongLast {
        /// The subject.
        subject: String,
        /// The sequence of its last message, 0 when it has none.
        last: u64,
    },
    /// A write on this subject (10164) or of this message id (10158) is still in progress. Nothing was stored by
    /// this one; try again.
    #[error("cannot publish to {subject}: another write is in progress; retry")]
    Busy {
        /// The subject.
        subject: String,
    },
    /// No answer: it may be stored or not. Send the same again, or read.
    #[error("publish to {subject} has an unknown outcome: {reason}; send the same bytes again")]
    Unknown {
        /// The subject.
        subject: String,
        /// What happened.
        reason: String,
    },
    /// The server refused it for good. Nothing was stored.
    #[error("cannot publish to {subject}: the server refused it: {text} (code {code})")]
    Refused {
        /// The subject.
        subject: String,
        /// The server's code; 403 when the credential does not allow the subject.
        code: u64,
        /// The server's words.
        text: String,
    },
}

/// The code of a message that a stream could not store, and what it says when it has no room.
const NOT_STORED: u64 = 10077;
const FULL: &str = "maximum bytes exceeded";

impl PublishError {
    /// Whether the same publish may succeed when it is simply sent again.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Busy { .. } | Self::Unknown { .. } => true,
            Self::Refused { code, text, .. } => {
                // The owner makes room, or a person does.
                NOT_NOW.contains(code) || *code == NOT_STORED && text.contains(FULL)
            }
            Self::WrongLast { .. } => false,
        }
    }
}
