//! What is wrong with bytes that were to be read, or with a value that was to be written.

use crate::envelope::EnvelopeError;
use crate::subject::SubjectError;

/// Why something cannot be decoded or encoded. `field` is a path such as
/// `requestedSubagents[0].role`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// Not the protobuf message it should be.
    #[error("cannot decode {what} as protobuf: {reason}")]
    Protobuf {
        /// What it should be.
        what: &'static str,
        /// What the decoder said.
        reason: String,
    },
    /// Not the JSON it should be.
    #[error("cannot decode {what} as JSON: {reason}")]
    Json {
        /// What it should be.
        what: &'static str,
        /// What the decoder said.
        reason: String,
    },
    /// A field that does not exist.
    #[error("unknown field {field}; allowed: {allowed}")]
    UnknownField {
        /// Its path.
        field: String,
        /// The names that exist there.
        allowed: String,
    },
    /// A field that has to be given.
    #[error("{field} is missing")]
    Missing {
        /// Its path.
        field: String,
    },
    /// A field whose value is wrong.
    #[error("{field}: {reason}")]
    Field {
        /// Its path.
        field: String,
        /// What is wrong, with what is allowed.
        reason: String,
    },
    /// More bytes than allowed.
    #[error("{what} has {size} bytes; the limit is {max}; store larger content as an artifact")]
    TooLarge {
        /// What.
        what: String,
        /// Its size in bytes.
        size: usize,
        /// The bound in bytes.
        max: usize,
    },
    /// Written by a version that this one cannot read without loss.
    #[error("{what} needs schema version {needs}, this node reads {reads}; update this node")]
    TooNew {
        /// What.
        what: String,
        /// The version it needs.
        needs: u32,
        /// The version this node reads.
        reads: u32,
    },
    /// A subject that carries something else.
    #[error("subject {subject:?} carries no {expected}")]
    WrongSubject {
        /// The subject.
        subject: String,
        /// What was to be read.
        expected: &'static str,
    },
    /// Not a subject.
    #[error(transparent)]
    Subject(#[from] SubjectError),
    /// A header is wrong.
    #[error(transparent)]
    Header(#[from] EnvelopeError),
}

impl CodecError {
    pub(super) fn field(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Field { field: field.into(), reason: reason.into() }
    }

    /// A field that has to be given; its reader names it.
    pub(super) fn missing() -> Self {
        Self::Missing { field: String::new() }
    }

    /// The same error, seen from one level further out.
    pub(super) fn under(self, outer: &str) -> Self {
        let join = |field: String| match field.is_empty() || field.starts_with('[') {
            true => format!("{outer}{field}"),
            false => format!("{outer}.{field}"),
        };
        match self {
            Self::UnknownField { field, allowed } => {
                Self::UnknownField { field: join(field), allowed }
            }
            Self::Missing { field } => Self::Missing { field: join(field) },
            Self::Field { field, reason } => Self::Field { field: join(field), reason },
            other @ (Self::Protobuf { .. }
            | Self::Json { .. }
            | Self::TooLarge { .. }
            | Self::TooNew { .. }
            | Self::WrongSubject { .. }
            | Self::Subject(_)
            | Self::Header(_)) => other,
        }
    }
}

/// Refuses more bytes than allowed.
pub(super) fn within(what: &str, size: usize, max: usize) -> Result<(), CodecError> {
    if size <= max {
        Ok(())
    } else {
        Err(CodecError::TooLarge { what: what.to_owned(), size, max })
    }
}
