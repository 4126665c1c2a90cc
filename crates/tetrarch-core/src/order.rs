//! What a host orchestrator tells its runner and what the runner observes (spec 06, Runners):
//! the vocabulary in which the two meet. Neither the bus nor a plan appears here.

use std::any::Any;

use crate::agent::DelegationOptions;
use crate::brief::{Brief, RunResult, Usage};
use crate::budget::{Counter, Limits, Spend};
use crate::change::{ApplyOrder, ApplyOutcome, Made};
use crate::converse::Recorded;
use crate::id::{AgentId, ChangeId, EpicId, NodeId, ProjectName, RequestId, RunId, SessionId};
use crate::limits::{DRAIN, KILL_GRACE};
use crate::time::Millis;
use crate::verb::{Command, Stage};

/// An order to the runner.
#[derive(Debug, Clone, PartialEq)]
pub enum Order {
    /// Start a run.
    Start(Box<Start>),
    /// Give a running program a line; dropped when it has ended or speaks no protocol.
    Deliver {
        /// The run.
        run: RunId,
        /// What it is told.
        line: Inbound,
    },
    /// Ask it to end: a `stop` line, `drain` later TERM, `kill_grace` later KILL.
    Stop {
        /// The run.
        run: RunId,
        /// Time to reach a boundary.
        drain: Millis,
        /// Time between TERM and KILL.
        kill_grace: Millis,
        /// Why.
        reason: String,
    },
    /// Ask it to checkpoint and end, so that its next session goes on: a `rotate` line, `drain`
    /// later TERM, `kill_grace` later KILL. Unless it finished, [`RunnerEvent::Exited`] then has
    /// no result.
    Rotate {
        /// The run.
        run: RunId,
        /// Time to reach a boundary.
        drain: Millis,
        /// Time between TERM and KILL.
        kill_grace: Millis,
        /// Why.
        reason: String,
    },
    /// KILL at once.
    Kill {
        /// The run.
        run: RunId,
    },
    /// Have it do a verb: ahead of every line, and answered by [`RunnerEvent::Receipt`].
    Verb {
        /// The run.
        run: RunId,
        /// What it is to do.
        command: Command,
    },
    /// Merge a change that a run made: answered by [`RunnerEvent::Settled`] of that run, however
    /// often it is ordered.
    Apply(Box<ApplyOrder>),
}

/// How long a program that is asked to stop has (spec 12, `[runs]`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopWithin {
    /// Time to reach a boundary.
    pub drain: Millis,
    /// Time between TERM and KILL.
    pub kill_grace: Millis,
}

impl Default for StopWithin {
    fn default() -> Self {
        Self { drain: DRAIN, kill_grace: KILL_GRACE }
    }
}

/// All a run needs to start.
#[derive(Debug, Clone, PartialEq)]
pub struct Start {
    /// The run.
    pub run: RunId,
    /// Who makes it.
    pub agent: AgentId,
    /// The incarnation.
    pub session: SessionId,
    /// Its epoch.
    pub epoch: u64,
    /// Its parent.
    pub parent: AgentId,
    /// Its depth.
    pub depth: u8,
    /// The project.
    pub project: Option<ProjectName>,
    /// The epic.
    pub epic: EpicId,
    /// The node.
    pub node: NodeId,
    /// The contract.
    pub brief: Brief,
    /// What it is told of delegating, when it may ask for agents.
    pub delegation: Option<DelegationOptions>,
    /// The first of the runs that it goes on from; itself when there is none.
    pub first: RunId,
    /// The state of the last checkpoint of the run it goes on from, as JSON text.
    pub checkpoint: Option<String>,
    /// What the runs it goes on from recorded of their conversation with a model, oldest first.
    pub recorded: Vec<Recorded>,
    /// How often a result of the runs it goes on from was handed back.
    pub returned: u32,
    /// A W3C `traceparent` for the program.
    pub trace: Option<String>,
}

/// A line to the program (docs/stdio-protocol.md).
#[derive(Debug, Clone, PartialEq)]
pub enum Inbound {
    /// A message from its inbox.
    Mail {
        /// Its topic.
        topic: String,
        /// Who wrote it.
        from: String,
        /// Its body, as JSON text.
        body: String,
        /// Its place in the inbox, which grows; 0 for what was never there.
        place: u64,
        /// The request that it answers.
        answers: Option<RequestId>,
    },
    /// The checkpoint that asked for it is recorded: a successor goes on from there.
    Saved,
    /// [`RunnerEvent::Conversed`] of this number is recorded.
    Noted(u64),
    /// What [`RunnerEvent::SetAside`] asked for is set aside: the call may be made.
    Granted {
        /// Which call.
        call: String,
    },
    /// It is not, and the call is not to be made.
    Withheld {
        /// Which call.
        call: String,
        /// Why.
        why: String,
    },
    /// Most of the grant is used; told once for each counter.
    BudgetWarning {
        /// Which counter.
        counter: Counter,
        /// What all runs of the brief used of it.
        used: u64,
        /// The grant.
        limit: u64,
    },
    /// The grant is larger from now on.
    BudgetRaised {
        /// All of it, with what was added.
        limit: Limits,
    },
}

/// A file the program wants kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalFile {
    /// What the program calls it.
    pub name: String,
    /// Where it lies.
    pub path: String,
    /// Its media type.
    pub media_type: String,
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exit {
    /// With this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// What the runner saw of a run.
#[derive(Debug)]
pub struct Observed {
    /// The run.
    pub run: RunId,
    /// What happened.
    pub event: RunnerEvent,
    /// Its place among the run's own, of which there are few, so that whoever hears of many runs never
    /// waits for one: it is given back when this is dropped, which is when the event is handled.
    pub place: Box<dyn Any + Send>,
}

/// One thing that happened in a run (spec 06, the internal event vocabulary).
#[derive(Debug, Clone, PartialEq)]
pub enum RunnerEvent {
    /// The program is up.
    Started {
        /// Its process id, when it has one.
        pid: Option<u32>,
        /// How it is contained, in words, for `doctor` and the run's journal.
        isolation: String,
    },
    /// It could not be started.
    SpawnFailed {
        /// Why.
        error: String,
    },
    /// Progress, in the program's words.
    Progress {
        /// In words.
        text: String,
        /// Steps done.
        done: Option<u64>,
        /// Steps in all.
        total: Option<u64>,
    },
    /// A line that is no event.
    Log {
        /// The line.
        text: String,
    },
    /// What it has used so far; counters only grow.
    Usage(Usage),
    /// It is about to make a call and waits for [`Inbound::Granted`] or [`Inbound::Withheld`]. Each
    /// call that may be made at the same time has a name of its own.
    SetAside {
        /// What it calls the call.
        call: String,
        /// What the call may cost at worst.
        worst: Spend,
    },
    /// A call is over, made or not. The totals of [`RunnerEvent::Usage`] are of the same calls, not of
    /// others: the higher of the two counts.
    Spent {
        /// What it calls the call.
        call: String,
        /// What it cost.
        used: Spend,
    },
    /// A state from which a successor can go on.
    Checkpoint {
        /// As JSON text.
        state: String,
        /// Whether the program waits for [`Inbound::Saved`].
        confirm: bool,
    },
    /// A question to the goal's owner.
    Ask {
        /// What the answer names; none of a program that is not told which question it is to.
        id: Option<RequestId>,
        /// In words.
        question: String,
        /// Answers to choose from.
        options: Vec<String>,
    },
    /// It waits for something outside.
    Blocked {
        /// In words.
        reason: String,
    },
    /// It goes on.
    Unblocked,
    /// A model's words as they come, for whoever is looking.
    Text {
        /// The words.
        text: String,
    },
    /// A tool works for it, which is no conversation of its host's.
    Using {
        /// Which; empty when none does any more.
        tool: String,
    },
    /// A conversation with a model changed.
    Conversed {
        /// How.
        recorded: Box<Recorded>,
        /// The run waits for [`Inbound::Noted`] of this number.
        confirm: Option<u64>,
    },
    /// A result is handed back for what is wrong with it.
    Returned {
        /// What is wrong.
        errors: String,
    },
    /// It summarises what was said, or has done so.
    Compacting {
        /// Whether it begins.
        begins: bool,
    },
    /// A message of its inbox, [`Inbound::Mail`], is handed to the program: until then it is not consumed.
    Taken {
        /// Its place in the inbox.
        place: u64,
    },
    /// How far a verb has come: delivered and effective, or refused.
    Receipt {
        /// The verb's id.
        id: RequestId,
        /// How far.
        stage: Stage,
        /// Why it was refused; empty otherwise.
        why: String,
    },
    /// It asks for agents of its own.
    Spawn {
        /// The request's body, as JSON text (spec 03).
        request: String,
    },
    /// An operation in the agent's name (spec 03), one of [`crate::hosted::OPERATIONS`]. It is answered by
    /// [`Inbound::Mail`] of the topic `reply` that names its id.
    Operate {
        /// Its id: the same one asks for the same.
        id: Option<RequestId>,
        /// Its name.
        op: String,
        /// Its body, as JSON text of an object.
        body: String,
    },
    /// A file to be stored now, and told with the result. It is answered like an operation.
    HandOver {
        /// Its id.
        id: RequestId,
        /// The file.
        file: LocalFile,
    },
    /// A message to another agent. [`Inbound::Mail`] of the topic `mail.sent` or `mail.refused` that names
    /// its id says what became of it.
    Write {
        /// Its id: the same one is the same message.
        id: Option<RequestId>,
        /// `parent`, `po`, or an agent's id.
        to: String,
        /// What it says.
        text: String,
    },
    /// A status update (`overseerUpdate`, spec 05), as JSON text.
    Update {
        /// The object.
        update: String,
    },
    /// What it came to; the program may still be ending.
    Result {
        /// The result, its artifacts not yet stored.
        result: Box<RunResult>,
        /// Files to be stored.
        files: Vec<LocalFile>,
    },
    /// What it changed in a worktree of its own, told before its end; nothing is told where nothing
    /// differs.
    Changed {
        /// What it is.
        made: Box<Made>,
        /// The diff, to be stored.
        diff: LocalFile,
    },
    /// What came of [`Order::Apply`].
    Settled {
        /// Which change.
        change: ChangeId,
        /// What came of it.
        outcome: ApplyOutcome,
    },
    /// Every process of the run is gone. `result` is what the runner makes of a program that
    /// ended without one.
    Exited {
        /// How the program ended.
        exit: Exit,
        /// The result, for a program that gave none; none as well for one that died by a signal
        /// which its runner did not send, and for one that was asked to rotate.
        result: Option<Box<RunResult>>,
    },
}
