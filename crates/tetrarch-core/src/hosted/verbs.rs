//! Verbs on their way to a session's program, and their receipts on the way back (spec 06, The
//! three verbs). What a program says while it is paused and the owner could not take in that state
//! waits until it goes on.

use std::collections::BTreeMap;

use crate::id::{AgentId, Principal, RequestId};
use crate::journal::JournalEvent;
use crate::limits::VERBS_KEPT;
use crate::mail::VerbOrder;
use crate::order::Order;
use crate::request::Report;
use crate::run::{RunEvent, RunState};
use crate::verb::{Command, Stage, Verb, Wanted};

use super::{HostedSession, SessionEffect, SessionPhase};

/// What is under way.
#[derive(Debug, Clone, Default)]
pub(super) struct PendingVerbs {
    /// Given to the runner, and not ended yet.
    open: BTreeMap<RequestId, Verb>,
    /// It stands still.
    pub(super) paused: bool,
    /// Its turn was aborted; it waits for a steer.
    pub(super) interrupted: bool,
    /// What waits until it goes on.
    held: Vec<SessionEffect>,
}

impl PendingVerbs {
    /// It ends: whatever it was asked before does not matter any more.
    pub(super) fn give_up(&mut self) {
        *self = Self { open: std::mem::take(&mut self.open), ..Self::default() };
    }
}

impl HostedSession {
    /// Whether its mail is to be left where it is: its program stands still.
    #[must_use]
    pub fn holds_mail(&self) -> bool {
        self.verbs.paused
    }

    /// Where the run of a program that is up stands.
    pub(super) fn state_at_work(&self) -> RunState {
        if self.verbs.paused {
            RunState::PausedByUser
        } else if self.verbs.interrupted || !self.asking.is_empty() {
            RunState::AwaitingInput
        } else if self.blocked {
            RunState::Blocked
        } else if self.compacting {
            RunState::Compacting
        } else {
            RunState::Running
        }
    }

    /// Tells the owner that the run moved.
    pub(super) fn moved(&self, event: RunEvent, reason: String) -> SessionEffect {
        let usage = self.usage();
        SessionEffect::Report(Box::new(Report::Run { run: self.run.id, event, reason, usage }))
    }

    /// It waits for something outside, or goes on. What this comes to while it is paused is told
    /// when it is not any more.
    pub(super) fn block(
        &mut self,
        blocked: bool,
        reason: String,
        effects: &mut Vec<SessionEffect>,
    ) {
        self.blocked = blocked;
        if !self.verbs.paused {
            let event = if blocked { RunEvent::ExternalBlocked } else { RunEvent::Unblocked };
            effects.push(self.moved(event, reason));
        }
    }

    /// Does it now, or when the program goes on.
    pub(super) fn when_running(&mut self, effect: SessionEffect, effects: &mut Vec<SessionEffect>) {
        let place = if self.verbs.paused { &mut self.verbs.held } else { effects };
        place.push(effect);
    }

    /// A verb came: passed on, or refused with why.
    pub(super) fn command(
        &mut self,
        from: &Principal,
        order: VerbOrder,
        effects: &mut Vec<SessionEffect>,
    ) {
        let mut command = order.command;
        if *from != Principal::Agent(AgentId::Go) {
            command.by = from.clone();
        }
        let (id, verb) = (command.id, command.wanted.verb());
        if self.verbs.open.contains_key(&id) {
            return;
        }
        self.journal_verb((id, verb, Stage::Queued), &command.by, command.wanted.text(), effects);
        if let Some(why) = self.unfit(verb) {
            self.receipt((id, verb, Stage::Refused), why, effects);
            return;
        }
        if self.verbs.open.len() >= VERBS_KEPT {
            // It stays delivered: its program does not say more.
            self.verbs.open.pop_first();
        }
        self.verbs.open.insert(id, verb);
        effects.push(SessionEffect::Order(Box::new(Order::Verb { run: self.run.id, command })));
    }

    /// Why a verb comes too early or too late.
    fn unfit(&self, verb: Verb) -> Option<String> {
        let ending = self.exit.is_some() || self.result.is_some() || self.killed || self.rotating;
        match self.phase {
            SessionPhase::Claiming | SessionPhase::Starting => {
                return Some("its program is not running".to_owned());
            }
            SessionPhase::Ending | SessionPhase::Over => return Some("it is ending".to_owned()),
            SessionPhase::Running if ending => return Some("it is ending".to_owned()),
            SessionPhase::Running => {}
        }
        let state = self.run_state();
        let pausing = self.verbs.open.values().any(|open| *open == Verb::Pause);
        let fits = verb.fits(state) || verb == Verb::Resume && pausing;
        (!fits).then(|| format!("its run is {state}"))
    }

    /// The runner says how far a verb has come. What it says of one that nobody asked for is nothing.
    pub(super) fn heard_receipt(
        &mut self,
        id: RequestId,
        stage: Stage,
        why: String,
        effects: &mut Vec<SessionEffect>,
    ) {
        let Some(verb) = self.verbs.open.get(&id).copied() else { return };
        match stage {
            Stage::Queued => return,
            Stage::Delivered => {}
            Stage::Effective | Stage::Refused => {
                self.verbs.open.remove(&id);
            }
        }
        match (verb, stage) {
            (Verb::Steer, Stage::Delivered | Stage::Effective) => {
                self.receipt((id, verb, stage), why, effects);
                self.input_received("it was steered", effects);
            }
            (Verb::Interrupt, Stage::Effective) => {
                if std::mem::take(&mut self.blocked) && !self.verbs.paused {
                    effects.push(self.moved(RunEvent::Unblocked, "interrupted".to_owned()));
                }
                self.verbs.interrupted = true;
                let reported = self.reported((id, verb, stage), why, effects);
                self.when_running(reported, effects);
            }
            (Verb::Pause, Stage::Effective) => {
                let state = self.run_state();
                if state == RunState::Running {
                    self.receipt((id, verb, stage), why, effects);
                    self.verbs.paused = true;
                } else {
                    // It began to wait before it stood still, and a run that waits is not paused.
                    let by = Principal::Agent(AgentId::Go);
                    let command = Command { id, by, wanted: Wanted::Resume };
                    let order = Order::Verb { run: self.run.id, command };
                    effects.push(SessionEffect::Order(Box::new(order)));
                    let why = format!("its run is {state} by now");
                    self.receipt((id, verb, Stage::Refused), why, effects);
                }
            }
            (Verb::Resume, Stage::Effective) => {
                self.verbs.paused = false;
                self.receipt((id, verb, stage), why, effects);
                effects.append(&mut self.verbs.held);
                if self.blocked {
                    effects.push(self.moved(RunEvent::ExternalBlocked, "it is blocked".to_owned()));
                }
            }
            (Verb::Steer | Verb::Interrupt | Verb::Pause | Verb::Resume, _) => {
                self.receipt((id, verb, stage), why, effects);
            }
        }
    }

    /// Something came that an interrupted run waits for.
    pub(super) fn input_received(&mut self, why: &str, effects: &mut Vec<SessionEffect>) {
        if std::mem::take(&mut self.verbs.interrupted) && self.asking.is_empty() {
            let moved = self.moved(RunEvent::InputReceived, why.to_owned());
            self.when_running(moved, effects);
        }
    }

    fn receipt(
        &self,
        what: (RequestId, Verb, Stage),
        why: String,
        effects: &mut Vec<SessionEffect>,
    ) {
        let reported = self.reported(what, why, effects);
        effects.push(reported);
    }

    /// Journals a receipt and gives the report of it.
    fn reported(
        &self,
        (id, verb, stage): (RequestId, Verb, Stage),
        why: String,
        effects: &mut Vec<SessionEffect>,
    ) -> SessionEffect {
        let by = Principal::Agent(self.launch.agent.clone());
        self.journal_verb((id, verb, stage), &by, &why, effects);
        SessionEffect::Report(Box::new(Report::Verb { run: self.run.id, id, verb, stage, why }))
    }

    fn journal_verb(
        &self,
        (id, verb, stage): (RequestId, Verb, Stage),
        by: &Principal,
        text: &str,
        effects: &mut Vec<SessionEffect>,
    ) {
        let (by, text) = (by.to_string(), text.to_owned());
        effects.push(SessionEffect::Journal(JournalEvent::Verb { id, verb, stage, by, text }));
    }
}
