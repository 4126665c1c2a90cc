//! The language of a program: what it is told in its lines, and what its lines tell (docs/agents.md). One file for each
//! program; what follows from it is `session`'s. Pure.

use std::collections::BTreeMap;

use serde_json::Value;

use super::AgentInput;
use super::acp::Acp;
use super::claude::Claude;
use super::codex::Codex;
use super::event::AgentEvent;

/// Something for a program.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Saying<'a> {
    /// It is to open its conversation, for work in this directory.
    Open { directory: &'a str },
    /// A message. It is read at the program's next boundary, or as its next turn.
    Message { number: u128, text: &'a str },
    /// It is to abort its turn; its answer names the request.
    Interrupt { request: &'a str },
    /// Whether it may use a tool with this input, and why not.
    Decision { request: &'a str, input: &'a Value, refused: Option<&'a str> },
}

/// What something that was said, or a line that was read, comes to.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct AgentExchange {
    /// What happened, in order.
    pub(crate) events: Vec<AgentEvent>,
    /// What is done to its input.
    pub(crate) inputs: Vec<AgentInput>,
}

impl AgentExchange {
    /// One event.
    pub(crate) fn event(event: AgentEvent) -> Self {
        Self { events: vec![event], inputs: Vec::new() }
    }

    /// One line for its input.
    pub(crate) fn line(value: &Value) -> Self {
        Self { events: Vec::new(), inputs: vec![AgentInput::Line(line(value))] }
    }

    /// This, and then that.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.events.extend(other.events);
        self.inputs.extend(other.inputs);
        self
    }
}

/// The languages there are, each with what was said in it.
#[derive(Debug)]
pub(crate) enum Dialect {
    /// Lines of `claude`.
    Claude(Box<Claude>),
    /// Calls of `codex app-server`.
    Codex(Box<Codex>),
    /// Calls of the Agent Client Protocol.
    Acp(Box<Acp>),
}

impl Dialect {
    /// Says something. No line means that it waits: `Written` comes when it is said.
    pub(crate) fn say(&mut self, saying: Saying<'_>) -> AgentExchange {
        match self {
            Self::Claude(claude) => claude.say(saying),
            Self::Codex(codex) => codex.say(saying),
            Self::Acp(acp) => acp.say(saying),
        }
    }

    /// Takes a message back that waits to be written; false when the program has it, or it was never there.
    pub(crate) fn take_back(&mut self, number: u128) -> bool {
        match self {
            // It takes each at once.
            Self::Claude(_) => false,
            Self::Codex(codex) => codex.take_back(number),
            Self::Acp(acp) => acp.take_back(number),
        }
    }

    /// Reads a whole line. Total: any bytes are events, known, unknown or of no concern.
    pub(crate) fn hear(&mut self, line: &[u8]) -> AgentExchange {
        match self {
            Self::Claude(claude) => claude.hear(line),
            Self::Codex(codex) => codex.hear(line),
            Self::Acp(acp) => acp.hear(line),
        }
    }

    /// Reads the start of a line that is too long. What waits for an answer gets one.
    pub(crate) fn hear_cut(&mut self, start: &[u8]) -> AgentExchange {
        match self {
            Self::Claude(claude) => claude.hear_cut(start),
            Self::Codex(codex) => codex.hear_cut(start),
            Self::Acp(acp) => acp.hear_cut(start),
        }
    }
}

/// Things that a program has named and that are not over, by the names it gave them. It may name any number: beyond the
/// bound others are forgotten, and of a longer name nothing is kept.
#[derive(Debug)]
pub(crate) struct NamedByProgram<T>(BTreeMap<String, T>);

impl<T> Default for NamedByProgram<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T> NamedByProgram<T> {
    /// Most that are kept.
    pub(super) const MAX: usize = 32;
    /// Longest name of one, in bytes.
    const NAME_BYTES_MAX: usize = 1_024;

    /// Keeps one.
    pub(super) fn insert(&mut self, name: String, it: T) {
        if name.len() > Self::NAME_BYTES_MAX {
            return;
        }
        if self.0.len() >= Self::MAX && !self.0.contains_key(&name) {
            self.0.pop_first();
        }
        self.0.insert(name, it);
    }

    /// One.
    pub(super) fn get(&self, name: &str) -> Option<&T> {
        self.0.get(name)
    }

    /// One that is over.
    pub(super) fn remove(&mut self, name: &str) -> Option<T> {
        self.0.remove(name)
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names of all.
    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }
}

/// A value as a line.
pub(crate) fn line(value: &Value) -> Vec<u8> {
    let mut line = value.to_string().into_bytes();
    line.push(b'\n');
    line
}

/// A number as the UUID that has the same bits.
pub(crate) fn uuid(number: u128) -> String {
    let hex = format!("{number:032x}");
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-")
}

/// The number of a UUID.
pub(crate) fn number(uuid: &str) -> Option<u128> {
    u128::from_str_radix(&uuid.replace('-', ""), 16).ok()
}

/// A field that is a text; empty when it is none.
pub(crate) fn text(fields: &Value, key: &str) -> String {
    fields.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}
