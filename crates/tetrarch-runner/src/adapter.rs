//! Coding agents that people already have, as workers (spec 06, Runners, coding CLIs): one adapter a program, each a
//! pure machine that says how the program is started and told things, and what it says (docs/agents.md). Starts no
//! program and writes to none; that is `backend::process`.

pub(crate) mod claude;
mod permission;
mod preparation;
mod truncated;

use std::fmt;

use tetrarch_core::brief::RunnerKind;
use tetrarch_core::order::RunnerEvent;
use tetrarch_core::verb::Command;

use crate::protocol::{ProgramEvent, SchemaViolation};

pub(crate) use claude::ClaudeSession;
pub(crate) use preparation::{
    CONVERSATIONS, NotPrepared, PreparedAgent, clear_old, directory_of, forget, prepare,
};

/// The programs that there is an adapter for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Adapter {
    /// `claude`: lines of JSON both ways.
    Claude,
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
    /// The program, as `runner` of a profile names it.
    pub program: &'static str,
    /// The versions that it was tested with.
    pub tested: &'static [&'static str],
    /// How to install one of them.
    pub install: &'static str,
    /// What it does how well.
    pub capabilities: &'static [(&'static str, Capability)],
}

/// Every adapter there is.
pub const ADAPTERS: [AdapterSheet; 1] = [claude::SHEET];

impl Adapter {
    /// The adapter of a runner; none for those that are no coding agent.
    pub(crate) fn of(kind: RunnerKind) -> Option<Self> {
        match kind {
            RunnerKind::Claude => Some(Self::Claude),
            RunnerKind::Process | RunnerKind::Echo | RunnerKind::External | RunnerKind::Llm => None,
        }
    }
}

/// Something to be done to a program's standard input.
#[derive(Debug, PartialEq)]
pub(crate) enum AgentInput {
    /// A line is written to it.
    Line(Vec<u8>),
    /// It is closed: the program has nothing more to do.
    Close,
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
}

/// A conversation with one program, by its adapter.
#[derive(Debug)]
pub(crate) enum AdapterSession {
    /// With `claude`.
    Claude(ClaudeSession),
}

impl AdapterSession {
    /// The first line: what it is to do, or that it is to go on.
    pub(crate) fn first_line(&mut self) -> Vec<u8> {
        match self {
            Self::Claude(session) => session.first_line(),
        }
    }

    /// The line of a verb; none for one that it does not take.
    pub(crate) fn verb(&mut self, command: &Command) -> Option<Vec<u8>> {
        match self {
            Self::Claude(session) => session.verb(command),
        }
    }

    /// The answer of people to what it asked them last, or why they were not asked; none when it asked nothing.
    pub(crate) fn answered(&mut self, answer: Result<String, String>) -> Option<AgentOutput> {
        match self {
            Self::Claude(session) => session.answered(answer),
        }
    }

    /// A text between two steps of its own.
    pub(crate) fn message(&mut self, text: &str) -> Vec<u8> {
        match self {
            Self::Claude(session) => session.message(text),
        }
    }

    /// What its result did not satisfy.
    pub(crate) fn invalid(&mut self, faults: &[SchemaViolation]) -> Vec<u8> {
        let list: Vec<String> =
            faults.iter().map(|fault| format!("- {}: {}", fault.path, fault.message)).collect();
        let text = format!(
            "[Your result does not satisfy the schema of the brief. Correct it and give it again, once.]\n{}",
            list.join("\n")
        );
        self.message(&text)
    }

    /// It is asked to end, for `reason`.
    pub(crate) fn stop(&mut self, reason: &str) -> AgentInput {
        match self {
            Self::Claude(session) => session.stop(reason),
        }
    }

    /// It is asked to end, so that its next session goes on.
    pub(crate) fn rotate(&mut self) -> AgentInput {
        match self {
            Self::Claude(session) => session.rotate(),
        }
    }

    /// Reads a whole line of its output.
    pub(crate) fn read(&mut self, line: &[u8]) -> AgentOutput {
        match self {
            Self::Claude(session) => session.read(line),
        }
    }

    /// Reads the start of a line that is too long to be kept.
    pub(crate) fn read_cut(&mut self, start: &[u8]) -> AgentOutput {
        match self {
            Self::Claude(session) => session.read_cut(start),
        }
    }

    /// How its work stands, in its last words.
    pub(crate) fn status(&self) -> RunnerEvent {
        match self {
            Self::Claude(session) => session.status(),
        }
    }

    /// What it said that nobody here knows, in words; none when there was nothing.
    pub(crate) fn unknown(&self) -> Option<String> {
        match self {
            Self::Claude(session) => session.unknown(),
        }
    }
}
