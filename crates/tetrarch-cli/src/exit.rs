//! Exit codes and the one form of error people see: what, why, what to do next (spec 08).

use std::process::ExitCode;

use tetrarch_bus::error::{ConnectError, ReadError};
use tetrarch_bus::send::SendError;
use tetrarch_bus::server::ServerError;
use tetrarch_bus::snapshot::SnapshotError;
use tetrarch_bus::watch::ReplyError;
use tetrarch_core::error::ErrorCode;
use tetrarch_engine::EngineError;

use crate::options::{GlobalArgs, with_installation};

/// The documented exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    /// It was tried and did not succeed.
    Failed = 1,
    /// The command line or a file it names is wrong.
    Usage = 2,
    /// No such thing.
    NotFound = 3,
    /// Not allowed.
    Denied = 4,
    /// Somebody else has it, or it changed meanwhile.
    Conflict = 5,
    /// The bus does not answer.
    BusUnreachable = 6,
    /// Interrupted.
    Interrupted = 130,
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code as u8)
    }
}

/// An error as people see it.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub(crate) struct CliError {
    /// How the process exits.
    pub(crate) code: Code,
    /// What is wrong and why.
    pub(crate) what: String,
    /// What to do next.
    pub(crate) hint: Option<String>,
}

/// What a command comes to.
pub(crate) type CliResult<T = ()> = Result<T, CliError>;

impl CliError {
    /// An error with its words.
    pub(crate) fn new(code: Code, what: impl Into<String>) -> Self {
        Self { code, what: what.into(), hint: None }
    }

    /// A failure that its cause says.
    pub(crate) fn failed(cause: impl ToString) -> Self {
        Self::new(Code::Failed, cause.to_string())
    }

    /// A wrong command line or document, as its cause says.
    pub(crate) fn usage(cause: impl ToString) -> Self {
        Self::new(Code::Usage, cause.to_string())
    }

    /// With what to do next.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// With the options that say which installation is meant behind every command it proposes.
    pub(crate) fn completed(mut self, global: &GlobalArgs) -> Self {
        self.hint = self.hint.map(|hint| completed(global, &hint));
        self
    }

    /// A refusal by the owner.
    pub(crate) fn refused(code: ErrorCode, detail: &str) -> Self {
        let exit = match code {
            ErrorCode::Unauthorized => Code::Denied,
            ErrorCode::Conflict | ErrorCode::Superseded | ErrorCode::BudgetExceeded => {
                Code::Conflict
            }
            ErrorCode::NotFound => Code::NotFound,
            ErrorCode::InvalidPlan | ErrorCode::InvalidRequest => Code::Usage,
            ErrorCode::Unavailable | ErrorCode::LaneFull => Code::Failed,
        };
        Self::new(exit, format!("{code}: {detail}"))
    }
}

/// A text whose quoted command lines have the options that say which installation is meant.
fn completed(global: &GlobalArgs, text: &str) -> String {
    let pieces = text.split('`').enumerate().map(|(at, piece)| {
        let words = piece.strip_prefix("tetrarch ").filter(|_| at % 2 == 1);
        words.map_or_else(|| piece.to_owned(), |words| with_installation(global, words))
    });
    pieces.collect::<Vec<String>>().join("`")
}

impl From<ConnectError> for CliError {
    fn from(error: ConnectError) -> Self {
        let what = Self::new(Code::BusUnreachable, error.to_string());
        match error {
            ConnectError::Leaderless { .. } => what.hint(NOT_NOW),
            ConnectError::Tls { next, .. } => what.hint(next),
            ConnectError::Unreachable { .. }
            | ConnectError::Refused { .. }
            | ConnectError::NoJetStream { .. }
            | ConnectError::TooOld { .. } => {
                what.hint("start a bus with `tetrarch up`, or name one with --url or bus.url")
            }
            ConnectError::Credentials { .. } => {
                what.hint("name your credential file with --credentials")
            }
        }
    }
}

impl From<ReadError> for CliError {
    fn from(error: ReadError) -> Self {
        let passing = error.is_passing();
        let error = Self::new(Code::BusUnreachable, error.to_string());
        if passing { error.hint(NOT_NOW) } else { error }
    }
}

/// What to do where a bus is there and does not answer.
const NOT_NOW: &str = "try again in a moment: a cluster needs seconds to elect a leader and more than half of its servers; `tetrarch doctor` checks each stream";

impl From<SendError> for CliError {
    fn from(error: SendError) -> Self {
        let code = match &error {
            SendError::BusDown { .. } => {
                return Self::new(Code::BusUnreachable, error.to_string()).hint(NOT_NOW);
            }
            SendError::Refused(_) | SendError::Ended => Code::Denied,
            SendError::Encoding(_) => Code::Usage,
        };
        Self::new(code, error.to_string())
    }
}

impl From<ReplyError> for CliError {
    fn from(error: ReplyError) -> Self {
        Self::new(Code::BusUnreachable, error.to_string())
    }
}

impl From<ServerError> for CliError {
    fn from(error: ServerError) -> Self {
        let conflict = matches!(error, ServerError::InUse { .. } | ServerError::PortTaken { .. });
        let code = if conflict { Code::Conflict } else { Code::Failed };
        Self::new(code, error.to_string())
    }
}

impl From<SnapshotError> for CliError {
    fn from(error: SnapshotError) -> Self {
        let code = if matches!(error, SnapshotError::Read(_)) {
            Code::BusUnreachable
        } else if matches!(error, SnapshotError::Before { .. }) {
            Code::NotFound
        } else {
            Code::Failed
        };
        Self::new(code, error.to_string())
    }
}

impl From<EngineError> for CliError {
    fn from(error: EngineError) -> Self {
        use EngineError as E;
        let code = if matches!(
            error,
            E::Held { .. } | E::Deposed { .. } | E::NotThat { .. } | E::Unread(_)
        ) {
            Code::Conflict
        } else if matches!(error, E::Refused { .. }) {
            Code::Denied
        } else if matches!(error, E::Unanswered(..)) {
            Code::BusUnreachable
        } else if matches!(error, E::Window(_) | E::Planner(_)) {
            Code::Usage
        } else {
            Code::Failed
        };
        Self::new(code, error.to_string())
    }
}

impl From<std::io::Error> for CliError {
    fn from(error: std::io::Error) -> Self {
        Self::new(Code::Failed, error.to_string())
    }
}
