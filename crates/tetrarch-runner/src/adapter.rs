//! Coding agents that people already have, as workers (spec 06, Runners, coding CLIs): one adapter a program, each a
//! pure machine that says how the program is started and told things, and what it says (docs/agents.md). Starts no
//! program and writes to none; that is `backend::process`.

mod acp;
mod asking;
mod claude;
mod codex;
mod dialect;
mod ending;
mod event;
pub(crate) mod permission;
mod preparation;
mod rpc;
mod session;
mod starting;
mod truncated;

use std::fmt;

use tetrarch_core::brief::RunnerKind;
use tetrarch_core::order::RunnerEvent;
use tetrarch_core::verb::Verb;

use crate::gateway::{ANTHROPIC, ModelProvider, OPENAI};
use crate::protocol::ProgramEvent;

pub(crate) use preparation::{
    CONVERSATIONS, NotPrepared, PreparedAgent, PreparedProgram, clear_old, directory_of, forget,
    prepare,
};
pub(crate) use session::AgentSession;
pub(crate) use starting::{reviews, whole_brief};

/// Verbs that each of them takes. A pause freezes its processes, as of any program.
pub(crate) const VERBS: [Verb; 2] = [Verb::Steer, Verb::Interrupt];

/// The programs that there is an adapter for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Adapter {
    /// `claude`: lines of JSON both ways.
    Claude,
    /// `codex app-server`: calls both ways.
    Codex,
    /// Whatever speaks the Agent Client Protocol.
    Acp,
}

/// How well an adapter does one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capability {
    /// The program does it itself, at its next boundary at the latest.
    Native,
    /// It is done when the program has ended its turn.
    Queued,
    /// It is refused, with what to do instead.
    None,
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Native => "native",
            Self::Queued => "queued",
            Self::None => "none",
        })
    }
}

/// What people are told of an adapter (`tetrarch doctor agents`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdapterSheet {
    /// The program.
    pub program: &'static str,
    /// What `runner` of its profile is.
    pub runner: &'static str,
    /// The versions that it was tested with.
    pub tested: &'static [&'static str],
    /// How to install one of them.
    pub install: &'static str,
    /// What it does how well.
    pub capabilities: &'static [(&'static str, Capability)],
}

/// What a program does that does all of it itself.
const NATIVE: [(&str, Capability); 9] = [
    ("start", Capability::Native),
    ("resume", Capability::Native),
    ("steer", Capability::Native),
    ("interrupt", Capability::Native),
    ("stop", Capability::Native),
    ("usage", Capability::Native),
    ("permissions", Capability::Native),
    ("typed result", Capability::Native),
    ("fleet tools", Capability::Native),
];

/// Every program that an adapter was tested with.
pub const ADAPTERS: [AdapterSheet; 4] = [claude::SHEET, codex::SHEET, acp::GEMINI, acp::OPENCODE];

impl Adapter {
    /// The adapter of a runner; none for those that are no coding agent.
    pub(crate) fn of(kind: RunnerKind) -> Option<Self> {
        match kind {
            RunnerKind::Claude => Some(Self::Claude),
            RunnerKind::Codex => Some(Self::Codex),
            RunnerKind::Acp => Some(Self::Acp),
            RunnerKind::Process
            | RunnerKind::Cli
            | RunnerKind::Echo
            | RunnerKind::External
            | RunnerKind::Llm => None,
        }
    }

    /// Its model's provider; `named` is what the profile says. None when only the program knows.
    fn provider(self, named: &str) -> Option<&'static ModelProvider> {
        match self {
            Self::Claude => Some(&ANTHROPIC),
            Self::Codex => Some(&OPENAI),
            Self::Acp => ModelProvider::named(named),
        }
    }
}

/// A conversation that has not begun, for tests of those who hold one.
#[cfg(test)]
pub(crate) fn unopened() -> AgentSession {
    let brief = session::SessionBrief {
        tools: Default::default(),
        permissions: Default::default(),
        first: String::new(),
        using: Vec::new(),
        reviews: false,
        base: 0,
    };
    AgentSession::new(acp::SHEET, dialect::Dialect::Acp(Box::default()), brief)
}

/// Something to be done to a program's standard input.
#[derive(Debug, PartialEq)]
pub(crate) enum AgentInput {
    /// A line is written to it.
    Line(Vec<u8>),
    /// It is closed: the program has nothing more to do.
    Close,
}

/// What becomes of something that a program is told.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AgentDelivery {
    /// This is written to it.
    Line(Vec<u8>),
    /// It waits for the program's next boundary.
    Held,
    /// There was nothing to do for it.
    Done,
    /// Why it is not told.
    Refused(String),
}

/// What one line of a program comes to.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct AgentOutput {
    /// What happened, in order.
    pub(crate) events: Vec<ProgramEvent>,
    /// What it is answered.
    pub(crate) inputs: Vec<AgentInput>,
    /// Whether the line is kept as it is, as log text.
    pub(crate) is_text: bool,
    /// Something for people.
    pub(crate) note: Option<String>,
}

impl AgentOutput {
    /// A line that is no event of the program.
    pub(crate) fn text() -> Self {
        Self { is_text: true, ..Self::default() }
    }

    /// One event and nothing else.
    pub(crate) fn event(event: ProgramEvent) -> Self {
        Self { events: vec![event], ..Self::default() }
    }

    /// One event of the runner's own vocabulary.
    pub(crate) fn plain(event: RunnerEvent) -> Self {
        Self::event(ProgramEvent::Plain(event))
    }

    /// This, and then that.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.events.extend(other.events);
        self.inputs.extend(other.inputs);
        self.is_text |= other.is_text;
        self.note = match (self.note, other.note) {
            (Some(one), Some(other)) => Some(format!("{one}\n{other}")),
            (one, other) => one.or(other),
        };
        self
    }
}
