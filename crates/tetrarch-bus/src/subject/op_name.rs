//! Names of operations: two tokens, `host.join` (spec 02). Names that are not known to this
//! version parse too, so that their senders can be answered.

use std::fmt;
use std::str::FromStr;

use tetrarch_core::request::Op;

/// The operations of spec 02; a family whose members it leaves open is left out.
pub const OPS: [&str; 42] = [
    "agent.interrupt",
    "agent.pause",
    "agent.register",
    "agent.replace",
    "agent.resume",
    "agent.retire",
    "agent.rotate",
    "agent.status",
    "agent.steer",
    "apply.request",
    "approval.decide",
    "budget.raise",
    "circuit.close",
    "conversation.cancel",
    "conversation.move",
    "conversation.say",
    "file.list",
    "file.release",
    "file.reserve",
    "goal.create",
    "graph.apply",
    "host.drain",
    "host.join",
    "human.join",
    "note.delete",
    "note.put",
    "note.search",
    "profile.apply",
    "project.create",
    "project.mode",
    "project.retire",
    "question.answer",
    "todo.add",
    "todo.complete",
    "todo.draft",
    "todo.graph_insights",
    "todo.list",
    "todo.merge",
    "todo.plan",
    "todo.recommend",
    "todo.reprioritise",
    "todo.split",
];

/// Longest token of a name, in bytes.
const TOKEN_BYTES_MAX: usize = 32;

/// Why a text is no operation's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not an operation name; expected <family>.<verb>, each of a-z 0-9 _, at most {TOKEN_BYTES_MAX} characters"
)]
pub struct OpNameError {
    text: String,
    second: bool,
}

impl OpNameError {
    /// 1 when it is the second token that is wrong, else 0.
    pub(super) fn second_token(&self) -> usize {
        usize::from(self.second)
    }
}

/// An operation's name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OpName(String);

impl OpName {
    /// The name of a decoded operation.
    #[must_use]
    pub fn of(op: &Op) -> Self {
        Self(op.name().to_owned())
    }

    pub(super) fn of_tokens(family: &str, verb: &str) -> Result<Self, OpNameError> {
        let wrong = |token: &str| {
            let bytes = token.as_bytes();
            let fits = (1..=TOKEN_BYTES_MAX).contains(&bytes.len());
            let ok = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'_';
            !(fits && bytes.iter().all(ok))
        };
        let text = format!("{family}.{verb}");
        if wrong(family) || wrong(verb) {
            return Err(OpNameError { text, second: !wrong(family) });
        }
        Ok(Self(text))
    }

    /// The name as text, with its dot.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether spec 02 lists it.
    #[must_use]
    pub fn is_known(&self) -> bool {
        OPS.contains(&self.as_str())
    }
}

impl fmt::Display for OpName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for OpName {
    type Err = OpNameError;
    fn from_str(text: &str) -> Result<Self, OpNameError> {
        match text.split_once('.') {
            Some((family, verb)) => Self::of_tokens(family, verb),
            None => Err(OpNameError { text: text.to_owned(), second: false }),
        }
    }
}
