//! A run's own append-only log, `run.<run>` (spec 06, Journal): what an entry says.
//! Entries are written with expected sequence, so a zombie's are refused.

use crate::brief::{RunResult, Usage};
use crate::budget::{Counter, Limits, Spend};
use crate::converse::Recorded;
use crate::cursor::Positions;
use crate::id::{AgentId, Principal, RequestId, RunId, SessionId};
use crate::verb::{Stage, Verb};

/// One entry.
#[derive(Debug, Clone, PartialEq)]
pub struct JournalEntry {
    /// The run.
    pub run: RunId,
    /// Who makes it.
    pub agent: AgentId,
    /// The incarnation.
    pub session: SessionId,
    /// Its epoch.
    pub epoch: u64,
    /// Its place in the journal, from 1.
    pub index: u64,
    /// Inbox positions that are handled with it.
    pub positions: Positions,
    /// What happened.
    pub event: JournalEvent,
    /// What happened after that and was written with it.
    pub then: Vec<JournalEvent>,
}

impl JournalEntry {
    /// An entry for each thing that happened, at the place of this one.
    pub fn each(mut self) -> impl Iterator<Item = Self> {
        let then = std::mem::take(&mut self.then);
        let next = self.clone();
        let after = then.into_iter().map(move |event| Self { event, ..next.clone() });
        std::iter::once(self).chain(after)
    }

    /// What happened last.
    #[must_use]
    pub fn last(&self) -> &JournalEvent {
        self.then.last().unwrap_or(&self.event)
    }
}

/// What an entry tells.
#[derive(Debug, Clone, PartialEq)]
pub enum JournalEvent {
    /// Written before the process is started.
    Starting {
        /// The host, for people.
        host: String,
    },
    /// The process is up.
    Started {
        /// Its process id.
        pid: Option<u32>,
        /// How it is contained.
        isolation: String,
    },
    /// Progress in words.
    Progress {
        /// In words.
        text: String,
        /// Steps done.
        done: Option<u64>,
        /// Steps in all.
        total: Option<u64>,
    },
    /// Lines of output that are no events.
    Log {
        /// The lines.
        text: String,
    },
    /// Counters.
    Usage(Usage),
    /// A state from which a successor can go on, as JSON text.
    Checkpoint {
        /// The state.
        state: String,
    },
    /// A question.
    Ask {
        /// In words.
        question: String,
        /// Answers to choose from.
        options: Vec<String>,
    },
    /// Agents of its own were asked for.
    Spawn {
        /// The request's id.
        request: RequestId,
    },
    /// A message was handed to the program.
    Mail {
        /// Its topic.
        topic: String,
        /// Who wrote it.
        from: String,
    },
    /// A status update, as JSON text.
    Update {
        /// The object.
        update: String,
    },
    /// It waits.
    Blocked {
        /// For what.
        reason: String,
    },
    /// It goes on.
    Unblocked,
    /// A conversation with a model changed.
    Conversed(Box<Recorded>),
    /// The grant.
    Budget(BudgetNote),
    /// A verb came, or has come further.
    Verb {
        /// The request that asked for it.
        id: RequestId,
        /// Which verb.
        verb: Verb,
        /// How far it has come; queued when it was just read.
        stage: Stage,
        /// Who asked; who says how far it has come.
        by: String,
        /// Its words; why it was refused.
        text: String,
    },
    /// A result was handed back for what is wrong with it.
    Returned {
        /// How often so far, in this run and those that it goes on from.
        times: u32,
        /// What is wrong; empty when it only says what was so before this run.
        errors: String,
    },
    /// A stop was asked for.
    Stopping {
        /// Why.
        reason: String,
    },
    /// What it came to.
    Result(Box<RunResult>),
    /// Every process of it is gone.
    Ended {
        /// How.
        cause: String,
    },
}

impl JournalEvent {
    /// What it says of a conversation with a model, if it does.
    #[must_use]
    pub fn into_recorded(self) -> Option<Recorded> {
        if let Self::Conversed(recorded) = self { Some(*recorded) } else { None }
    }
}

/// What an entry tells of the run's grant (spec 06, Budgets).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BudgetNote {
    /// Earlier runs of the brief used this much, their open set-asides with it.
    Before {
        /// How much.
        spent: Spend,
    },
    /// A call may be made.
    SetAside {
        /// What the program calls it.
        call: String,
        /// What it may cost at worst.
        worst: Spend,
    },
    /// A call is over.
    Spent {
        /// What the program calls it.
        call: String,
        /// What it cost.
        used: Spend,
    },
    /// Most of a counter's grant is used.
    Warning {
        /// Which counter.
        counter: Counter,
        /// What all runs of the brief used of it.
        used: u64,
        /// The grant.
        limit: u64,
    },
    /// The grant is larger from here on.
    Raised {
        /// All of it, with what was added.
        limit: Limits,
        /// Who raised it.
        by: Principal,
        /// Why, in words.
        reason: String,
    },
}
