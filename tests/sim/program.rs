//! A model of an agent's program: what it says, in an order that chance wrote down at its start,
//! waiting where a real one would wait.

use tetrarch_core::brief::{Finding, Judgement, Outcome, RunResult, Usage, Verdict};
use tetrarch_core::id::AgentId;
use tetrarch_core::order::{Exit, Inbound, RunnerEvent, Start};
use tetrarch_core::role::Role;

use crate::dice::Dice;

/// What a program may do in its life.
#[derive(Debug, Clone)]
enum Act {
    Say(RunnerEvent),
    /// Wait for a message of one of these topics.
    Await(&'static [&'static str]),
    End(Exit, Option<Box<RunResult>>),
}

/// One program.
#[derive(Debug)]
pub(crate) struct Program {
    acts: Vec<Act>,
    inbox: Vec<String>,
    /// It was told to end.
    stopping: bool,
    /// It is gone; nothing more is heard of it.
    pub(crate) gone: bool,
}

fn usage(tokens: u64) -> Usage {
    Usage { tokens_in: tokens, tokens_out: tokens / 2, cost_micro: tokens, turns: 1 }
}

fn result(outcome: Outcome, text: String) -> RunResult {
    let mut result = RunResult::ended(outcome, "");
    result.usage = usage(40);
    match outcome {
        Outcome::Success => result.deliverable = text,
        Outcome::Failure | Outcome::BudgetExceeded | Outcome::Cancelled => result.error = text,
    }
    result
}

fn judged(judgement: Judgement) -> RunResult {
    let finding = Finding {
        place: "here".to_owned(),
        what: "not yet".to_owned(),
        severity: "low".to_owned(),
    };
    let findings = if judgement == Judgement::Pass { Vec::new() } else { vec![finding] };
    let mut judged = result(Outcome::Success, "judged".to_owned());
    judged.verdict = Some(Verdict { judgement, findings });
    judged
}

impl Program {
    /// A program for a run. `may_fail`: it may end badly, at most so often per node.
    pub(crate) fn of(start: &Start, may_fail: bool, faulty: bool, dice: &mut Dice) -> Self {
        let mut acts = Vec::new();
        if may_fail && faulty && dice.percent(4) {
            let error = "no such program".to_owned();
            acts.push(Act::Say(RunnerEvent::SpawnFailed { error }));
            return Self { acts, inbox: Vec::new(), stopping: false, gone: false };
        }
        let isolation = "none".to_owned();
        acts.push(Act::Say(RunnerEvent::Started { pid: Some(1), isolation }));
        Self::work(&mut acts, start, dice);
        if may_fail && dice.percent(35) {
            Self::dawdle(&mut acts, dice);
        }
        Self::conclude(&mut acts, start, may_fail, dice);
        acts.reverse();
        Self { acts, inbox: Vec::new(), stopping: false, gone: false }
    }

    fn work(acts: &mut Vec<Act>, start: &Start, dice: &mut Dice) {
        for _ in 0..dice.below(3) {
            let said = match dice.below(4) {
                0 => RunnerEvent::Log { text: "line".to_owned() },
                1 => RunnerEvent::Usage(usage(dice.below(40) as u64)),
                2 => RunnerEvent::Checkpoint { state: "{}".to_owned(), confirm: false },
                _ => RunnerEvent::Progress { text: "on".to_owned(), done: None, total: None },
            };
            acts.push(Act::Say(said));
        }
        if dice.percent(15) {
            acts.push(Act::Say(RunnerEvent::Blocked { reason: "a lock".to_owned() }));
            acts.push(Act::Say(RunnerEvent::Unblocked));
        }
        if dice.percent(15) {
            let question = "which one?".to_owned();
            acts.push(Act::Say(RunnerEvent::Ask { id: None, question, options: Vec::new() }));
            acts.push(Act::Await(&["answer"]));
        }
        let specialist = Role::of(&start.agent) == Role::Specialist;
        if specialist && dice.percent(70) {
            let request = if dice.percent(10) { "bad" } else { "{}" };
            acts.push(Act::Say(RunnerEvent::Spawn { request: request.to_owned() }));
            acts.push(Act::Await(&["spawn.sponsor.answer", "spawn.denied"]));
        } else if !specialist && dice.percent(5) {
            acts.push(Act::Say(RunnerEvent::Spawn { request: "{}".to_owned() }));
            acts.push(Act::Await(&["spawn.denied"]));
        }
    }

    /// Stands still, each in its own way, until it is asked, or for ever.
    fn dawdle(acts: &mut Vec<Act>, dice: &mut Dice) {
        let asked = || Act::Await(&["status.request"]);
        let says = |update: &str| Act::Say(RunnerEvent::Update { update: update.to_owned() });
        let going = r#"{"status": "in_progress", "summary": "half of it"}"#;
        let done = r#"{"status": "done"}"#;
        let shown = r#"{"status": "done", "evidence": {"testsRun": ["all"]}}"#;
        let blocked = r#"{"status": "blocked", "blockers": ["a key"]}"#;
        let prose = RunnerEvent::Log { text: "all is well".to_owned() };
        match dice.below(7) {
            0 => acts.push(Act::Await(&[])),
            1 => acts.extend([asked(), says(going)]),
            2 => acts.extend([asked(), asked(), says(going)]),
            3 => acts.extend([says(done), asked(), says(shown)]),
            4 => acts.extend([says(blocked), Act::Await(&[])]),
            5 => acts.extend([asked(), Act::Say(prose), asked(), says(r#"{"mood": "fine"}"#)]),
            _ => acts.extend([says(done), says(done), says(going), asked(), says(done)]),
        }
    }

    fn conclude(acts: &mut Vec<Act>, start: &Start, may_fail: bool, dice: &mut Dice) {
        let reviewer = matches!(start.agent, AgentId::Reviewer(..));
        let fails = may_fail && dice.percent(if reviewer { 40 } else { 20 });
        if fails && dice.percent(30) {
            acts.push(Act::End(Exit::Signal(9), None));
            return;
        }
        let end = match (reviewer, fails) {
            (true, true) => judged(Judgement::NeedsChanges),
            (true, false) => judged(Judgement::Pass),
            (false, true) => result(Outcome::Failure, "it went wrong".to_owned()),
            (false, false) => result(Outcome::Success, format!("{} by {}", start.node, start.run)),
        };
        if dice.percent(30) {
            acts.push(Act::End(Exit::Code(0), Some(Box::new(end))));
        } else {
            let files = Vec::new();
            acts.push(Act::Say(RunnerEvent::Result { result: Box::new(end), files }));
            acts.push(Act::End(Exit::Code(0), None));
        }
    }

    /// Whether it can go on.
    pub(crate) fn can_step(&self) -> bool {
        let waits = |topics: &[&str]| !self.inbox.iter().any(|got| topics.contains(&got.as_str()));
        match self.acts.last() {
            _ if self.gone => false,
            _ if self.stopping => true,
            Some(Act::Await(topics)) => !waits(topics),
            Some(Act::Say(_) | Act::End(..)) => true,
            None => false,
        }
    }

    /// Goes on; gives what the runner sees of it.
    pub(crate) fn step(&mut self, dice: &mut Dice) -> Option<RunnerEvent> {
        if self.stopping {
            self.gone = true;
            let outcome = if dice.percent(50) { Outcome::Cancelled } else { Outcome::Failure };
            let result = Some(Box::new(result(outcome, "stopped".to_owned())));
            return Some(RunnerEvent::Exited { exit: Exit::Signal(15), result });
        }
        match self.acts.pop()? {
            Act::Await(topics) => {
                let got = self.inbox.iter().position(|got| topics.contains(&got.as_str()));
                got.map(|at| self.inbox.remove(at));
                None
            }
            Act::Say(event) => {
                self.gone = matches!(event, RunnerEvent::SpawnFailed { .. });
                Some(event)
            }
            Act::End(exit, result) => {
                self.gone = true;
                Some(RunnerEvent::Exited { exit, result })
            }
        }
    }

    /// A line for it.
    pub(crate) fn hear(&mut self, line: &Inbound) {
        match line {
            Inbound::Mail { topic, .. } => self.inbox.push(topic.clone()),
            Inbound::Saved
            | Inbound::Noted(_)
            | Inbound::Granted { .. }
            | Inbound::Withheld { .. }
            | Inbound::BudgetWarning { .. }
            | Inbound::BudgetRaised { .. } => {}
        }
    }

    /// It is told to end.
    pub(crate) fn stop(&mut self) {
        self.stopping = true;
    }

    /// It is asked to rotate: it finishes all the same, or ends after a last checkpoint.
    pub(crate) fn rotate(&mut self, dice: &mut Dice) {
        if self.stopping || self.gone || dice.percent(30) {
            return;
        }
        let state = "{}".to_owned();
        let exit = if dice.percent(50) { Exit::Code(0) } else { Exit::Signal(15) };
        let started = self.acts.iter().rposition(|act| {
            matches!(act, Act::Say(RunnerEvent::Started { .. } | RunnerEvent::SpawnFailed { .. }))
        });
        let first = started.map(|at| self.acts.remove(at));
        let checkpoint = Act::Say(RunnerEvent::Checkpoint { state, confirm: false });
        self.acts = vec![Act::End(exit, None), checkpoint];
        self.acts.extend(first);
    }

    /// It is killed: all that is left is its exit.
    pub(crate) fn kill(&mut self) {
        self.stopping = false;
        self.acts = vec![Act::End(Exit::Signal(9), None)];
    }
}
