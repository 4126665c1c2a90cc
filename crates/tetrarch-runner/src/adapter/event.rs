//! What a coding agent tells its host, whichever its program: the words that every dialect is read into.

use serde_json::Value;
use tetrarch_core::brief::Usage;

use super::permission::Use;

/// Something that a program said or did.
#[derive(Debug, PartialEq)]
pub(crate) enum AgentEvent {
    /// Its conversation of this name is open: the one it had, or a new one. It waits for its first message.
    Opened { goes_on: bool, conversation: String },
    /// It is up.
    Ready { version: String, model: String },
    /// A message or verb that waited is written to it.
    Written { number: u128 },
    /// It begins to read a message.
    Read { number: u128 },
    /// It will not read a message.
    Dropped { number: u128, why: String },
    /// The model answers again: it has what came of the uses of tools before.
    Answers,
    /// The model's words.
    Says { text: String },
    /// It wants to use a tool, or does.
    Uses { tool: String, input: Value },
    /// What this program has used since it was started.
    Used(Usage),
    /// It calls the model again, after this HTTP status and error.
    Retries { status: Option<u64>, why: String },
    /// It asks whether it may use a tool.
    Asks(AskedUse),
    /// It does not want to know any more.
    Withdraws { request: String },
    /// It has aborted its turn on this request; why not, if it refuses.
    Interrupted { request: String, refused: Option<String> },
    /// Its turn is over.
    Ended(TurnEnd),
    /// Something for people.
    Note { text: String },
    /// Something that is not known.
    Unknown { kind: String },
    /// No event, but text.
    Text,
}

/// A use of a tool that a program asks for.
#[derive(Debug, PartialEq)]
pub(crate) struct AskedUse {
    /// What its answer names.
    pub(crate) request: String,
    /// The program's own name of the tool.
    pub(crate) tool: String,
    /// All that it does, in the words of our lists.
    pub(crate) uses: Vec<Use>,
    /// The files and directories that it names, as it names them.
    pub(crate) paths: Vec<String>,
    /// What it is used with.
    pub(crate) input: Value,
}

/// How a turn ended.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct TurnEnd {
    /// Why it failed, if it did.
    pub(crate) failed: Option<String>,
    /// Whether a cap that the program was given ended it.
    pub(crate) is_capped: bool,
    /// Its last words.
    pub(crate) text: String,
    /// The typed result, where the program has one beside its words.
    pub(crate) structured: Option<Value>,
}

impl TurnEnd {
    /// One that failed.
    pub(crate) fn failed(why: impl Into<String>) -> Self {
        Self { failed: Some(why.into()), ..Self::default() }
    }
}
