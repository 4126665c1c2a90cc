//! The shell of an agent that executes a brief: core's hosted machine and a program.

use std::collections::VecDeque;

use tetrarch_core::brief::Artifact;
use tetrarch_core::cursor::Claim;
use tetrarch_core::hosted::{self, HostedSession};
use tetrarch_core::id::{DispatchId, Principal};
use tetrarch_core::journal::JournalEvent;
use tetrarch_core::mail::{Launch, Mail, MailBody};
use tetrarch_core::order::{Inbound, Order, Start};
use tetrarch_core::request::RequestBody;
use tetrarch_core::run::Run;

use super::Own;
use crate::program::Program;
use crate::wire::{Reach, Wire};
use crate::work::one_worker;

/// An agent that executes a brief.
#[derive(Debug)]
pub(crate) struct Agent {
    pub(super) own: Own,
    run: Run,
    pub(super) machine: HostedSession,
    pub(super) program: Option<Program>,
    pub(super) over: bool,
    /// Where its journal ends.
    journal: Option<u64>,
    /// What is journaled with the next entry.
    noted: Vec<JournalEvent>,
    /// It never reads its inbox.
    deaf: bool,
    /// The status request that it reads just now.
    asked: Option<DispatchId>,
}

impl Agent {
    pub(crate) fn start(
        launch: Launch,
        run: Run,
        claim: Claim,
        life: u64,
        reach: &mut Reach<'_>,
    ) -> Option<Self> {
        let own = Own::of(&launch, claim, life);
        let host = own.claim.host.to_string();
        let machine = HostedSession::new(launch, run.clone(), host, None, None);
        let deaf = reach.faulty && reach.dice.percent(4) && reach.may_fail(run.epic, run.node);
        if deaf {
            reach.tally.note("never reads its mail");
        }
        let (program, journal, noted, asked) = (None, None, Vec::new(), None);
        let mut agent =
            Self { own, run, machine, program, over: false, journal, noted, deaf, asked };
        let begin = agent.machine.begin();
        agent.perform(begin, reach);
        (!agent.over).then_some(agent)
    }

    /// What can happen to it: reading, its program, a deadline.
    pub(crate) fn can(&self, reach: &Reach<'_>) -> (bool, bool) {
        let steps = self.program.as_ref().is_some_and(Program::can_step);
        (!self.over && !self.deaf && self.own.can_read(reach), !self.over && steps)
    }

    pub(crate) fn tick(&mut self, reach: &mut Reach<'_>) {
        self.step(hosted::SessionInput::Tick, reach);
    }

    pub(crate) fn read(&mut self, reach: &mut Reach<'_>) {
        let Some((from, mail)) = self.own.read(reach) else { return };
        self.hear(from, mail, reach);
        // The positions go with the journal entry that the message caused.
        let _fenced_writers_find_out_by_their_journal = self.own.save(reach);
    }

    pub(crate) fn hear(&mut self, from: Principal, mail: Mail, reach: &mut Reach<'_>) {
        if let MailBody::StatusRequest(asked) = &mail.body {
            self.asked = Some(asked.dispatch);
            if !reach.truth.dispatches.contains_key(&asked.dispatch) {
                let what = format!("invariant 14: {} is sent and not committed", asked.dispatch);
                reach.watch.broken.push(what);
            }
        }
        let json = "{}".to_owned();
        self.step(hosted::SessionInput::Mail { from, mail: Box::new(mail), json, place: 0 }, reach);
    }

    pub(crate) fn run_program(&mut self, reach: &mut Reach<'_>) {
        let Some(event) = self.program.as_mut().and_then(|program| program.step(reach.dice)) else {
            return;
        };
        reach.tell(format_args!("{} {event:?}", self.own.id));
        self.step(hosted::SessionInput::Runner(event), reach);
    }

    /// Whether its program may be running.
    pub(crate) fn runs(&self) -> bool {
        self.program.as_ref().is_some_and(|program| !program.gone)
    }

    pub(crate) fn kill_program(&mut self) {
        self.program = None;
        self.over = true;
    }

    fn step(&mut self, input: hosted::SessionInput, reach: &mut Reach<'_>) {
        let effects = self.machine.step(reach.now, input);
        self.perform(effects, reach);
    }

    fn perform(&mut self, effects: Vec<hosted::SessionEffect>, reach: &mut Reach<'_>) {
        let mut queue = VecDeque::from(effects);
        while let Some(effect) = queue.pop_front() {
            let input = match effect {
                hosted::SessionEffect::Claim => {
                    Some(hosted::SessionInput::Claimed(self.own.claim(reach)))
                }
                hosted::SessionEffect::Journal(event) => {
                    self.noted.push(event);
                    let events = std::mem::take(&mut self.noted);
                    if self.append(events, reach) {
                        None
                    } else {
                        reach.tally.note("session fenced");
                        reach.tell(format_args!("{} is fenced", self.own.id));
                        queue.clear();
                        Some(hosted::SessionInput::Fenced)
                    }
                }
                hosted::SessionEffect::Note(event) => {
                    self.noted.push(event);
                    None
                }
                hosted::SessionEffect::ReadSpawn { json } => {
                    let wanted = Box::new(one_worker(self.run.epic, None));
                    let bad = json == "bad";
                    let read = if bad { Err("not JSON".to_owned()) } else { Ok((None, wanted)) };
                    Some(hosted::SessionInput::SpawnRead(read))
                }
                hosted::SessionEffect::Fetch { id, offset, .. } => {
                    let fetched = Err("no program here reads one".to_owned());
                    Some(hosted::SessionInput::Fetched { id, offset, fetched })
                }
                hosted::SessionEffect::Store(keep) => {
                    let stored = keep.iter().map(|_| Artifact {
                        name: "kept".to_owned(),
                        sha256: String::new(),
                        size: 1,
                        media_type: String::new(),
                    });
                    Some(hosted::SessionInput::Stored(stored.collect()))
                }
                hosted::SessionEffect::End => {
                    self.over = true;
                    return;
                }
                told @ (hosted::SessionEffect::Order(_)
                | hosted::SessionEffect::Report(_)
                | hosted::SessionEffect::Operate { .. }
                | hosted::SessionEffect::Request(..)
                | hosted::SessionEffect::Mail(_)
                | hosted::SessionEffect::Consumed
                | hosted::SessionEffect::Stream(_)) => {
                    self.tell(told, reach);
                    None
                }
            };
            if let Some(input) = input {
                for effect in self.machine.step(reach.now, input).into_iter().rev() {
                    queue.push_front(effect);
                }
            }
        }
    }

    /// Appends to the journal, unless that is another's; in a storm it may seem so for nothing.
    fn append(&mut self, events: Vec<JournalEvent>, reach: &mut Reach<'_>) -> bool {
        let spurious = reach.faulty && reach.dice.percent(reach.spurious);
        if spurious && reach.may_fail(self.run.epic, self.run.node) {
            reach.tally.note("session fenced for nothing");
            return false;
        }
        let (writer, seen) = ((self.run.id, self.own.epoch), reach.view().journals);
        let end = reach.bus.append(writer, events, self.journal, seen);
        self.journal = end.or(self.journal);
        end.is_some()
    }

    fn tell(&mut self, effect: hosted::SessionEffect, reach: &mut Reach<'_>) {
        match effect {
            hosted::SessionEffect::Order(order) => self.order(*order, reach),
            hosted::SessionEffect::Report(report) => self.own.report(*report, reach),
            hosted::SessionEffect::Request(id, request) => {
                self.own.request(id, RequestBody::Spawn(*request), reach);
            }
            hosted::SessionEffect::Mail(mail) => {
                reach.send(Wire::mail(self.own.id.clone(), *mail), self.own.life);
            }
            hosted::SessionEffect::Consumed
            | hosted::SessionEffect::Stream(_)
            | hosted::SessionEffect::Operate { .. }
            | hosted::SessionEffect::Claim
            | hosted::SessionEffect::Journal(_)
            | hosted::SessionEffect::Note(_)
            | hosted::SessionEffect::ReadSpawn { .. }
            | hosted::SessionEffect::Store(_)
            | hosted::SessionEffect::Fetch { .. }
            | hosted::SessionEffect::End => {}
        }
    }

    fn order(&mut self, order: Order, reach: &mut Reach<'_>) {
        if !matches!(order, Order::Start(_)) {
            reach.tell(format_args!("{} is told {order:?}", self.own.id));
        }
        match (order, &mut self.program) {
            (Order::Start(start), None) => self.start_program(&start, reach),
            (Order::Deliver { line, .. }, Some(program)) => {
                let asked =
                    matches!(&line, Inbound::Mail { topic, .. } if topic == "status.request");
                let dispatch = self.asked.filter(|_| asked).map(|id| (self.own.session, id));
                if dispatch.is_some_and(|dispatch| !reach.watch.taken.insert(dispatch)) {
                    let what = format!("the tick: {dispatch:?} is effective twice");
                    reach.watch.broken.push(what);
                }
                program.hear(&line);
            }
            (Order::Stop { .. }, Some(program)) => program.stop(),
            (Order::Rotate { .. }, Some(program)) => program.rotate(reach.dice),
            (Order::Kill { .. }, Some(program)) => program.kill(),
            (_, _) => {}
        }
    }

    /// Invariants 4, 7 and 12: one start for an epoch, of a claimed cursor, with its journal begun.
    fn start_program(&mut self, start: &Start, reach: &mut Reach<'_>) {
        let Own { id, epoch, claim, .. } = &self.own;
        let broken = &mut reach.watch.broken;
        if !reach.watch.starts.insert((id.clone(), *epoch)) {
            broken.push(format!("invariant 4: epoch {epoch} of {id} was started twice"));
        }
        if !reach.bus.holds(id, *epoch, claim) {
            broken.push(format!("invariant 7: {id} was started without its cursor"));
        }
        if !reach.bus.is_begun(start.run) {
            broken.push(format!("invariant 14: {} was started before its journal", start.run));
        }
        let may_fail = reach.may_fail(start.epic, start.node);
        self.program = Some(Program::of(start, may_fail, reach.faulty, reach.dice));
    }
}
