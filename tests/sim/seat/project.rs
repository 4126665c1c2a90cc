//! The shell of a project orchestrator: core's orchestrator machine, its plans and its inbox.

use std::collections::{BTreeMap, VecDeque};

use tetrarch_core::cursor::{Claim, ClaimOutcome};
use tetrarch_core::id::{EpicId, RequestId};
use tetrarch_core::mail::Launch;
use tetrarch_core::orchestrator::{self, Orchestrator};
use tetrarch_core::request::{Op, Report, RequestBody};
use tetrarch_core::time::BusTime;

use super::Own;
use crate::wire::{Reach, Wire};

/// A project orchestrator.
#[derive(Debug)]
pub(crate) struct Project {
    pub(super) own: Own,
    pub(super) machine: Orchestrator,
    /// How far each epic's plan events are read.
    watched: BTreeMap<EpicId, usize>,
    collects: VecDeque<EpicId>,
    unsaved: bool,
    pub(super) over: bool,
}

/// What a project orchestrator can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    Read,
    Plan(EpicId),
    Collect,
    Save,
}

impl Project {
    pub(crate) fn start(
        launch: Launch,
        epics: Vec<EpicId>,
        claim: Claim,
        life: u64,
        reach: &mut Reach<'_>,
    ) -> Option<Self> {
        let own = Own::of(&launch, claim, life);
        let machine = Orchestrator::new(launch.agent, launch.session);
        let (watched, collects) = (BTreeMap::new(), VecDeque::new());
        let mut project = Self { own, machine, watched, collects, unsaved: false, over: false };
        if project.own.claim(reach) != ClaimOutcome::Claimed {
            return None;
        }
        if launch.epoch > 1 {
            reach.tally.note("project orchestrator replaced");
        }
        project.own.report(Report::Ready, reach);
        for epic in epics {
            project.step(orchestrator::Input::TakeOn(epic), reach);
        }
        Some(project)
    }

    pub(crate) fn turns(&self, reach: &Reach<'_>) -> Vec<Turn> {
        let mut turns = Vec::new();
        if self.over {
            return turns;
        }
        if self.own.can_read(reach) {
            turns.push(Turn::Read);
        }
        for (epic, read) in &self.watched {
            if reach.bus.plans.get(epic).is_some_and(|events| events.len() > *read) {
                turns.push(Turn::Plan(*epic));
            }
        }
        if !self.collects.is_empty() {
            turns.push(Turn::Collect);
        }
        if self.unsaved {
            turns.push(Turn::Save);
        }
        turns
    }

    pub(crate) fn tick(&mut self, reach: &mut Reach<'_>) {
        self.step(orchestrator::Input::Tick, reach);
    }

    pub(crate) fn turn(&mut self, turn: Turn, reach: &mut Reach<'_>) {
        match turn {
            Turn::Read => {
                self.unsaved = true;
                if let Some((from, mail)) = self.own.read(reach) {
                    let mail = Box::new(mail);
                    self.step(orchestrator::Input::Mail { from, mail }, reach);
                }
            }
            Turn::Plan(epic) => {
                let read = self.watched.entry(epic).or_default();
                let event = reach.bus.plans.get(&epic).and_then(|events| events.get(*read));
                let Some((_, event)) = event.cloned() else { return };
                *read += 1;
                self.step(orchestrator::Input::Plan(Box::new(event)), reach);
            }
            Turn::Collect => {
                let Some(epic) = self.collects.pop_front() else { return };
                let seen = reach.view().state;
                let state = reach.bus.state_at(seen);
                let input = orchestrator::Input::collected(&state, epic);
                if seen.min(reach.bus.state_through) < reach.bus.ledger.len() {
                    reach.tally.note("state read too early");
                }
                self.step(input, reach);
            }
            Turn::Save => {
                self.unsaved = false;
                reach.keep(&self.own.id, self.own.life);
                if !self.own.save(reach) {
                    reach.tally.note("session fenced");
                    self.over = true;
                }
            }
        }
    }

    /// Asks for something by itself.
    pub(crate) fn asks(&mut self, now: BusTime, op: Op, reach: &mut Reach<'_>) {
        let id = RequestId::derive(now, &format!("{op:?}"), "asks", 0);
        self.own.request(id, RequestBody::Op(op), reach);
    }

    fn step(&mut self, input: orchestrator::Input, reach: &mut Reach<'_>) {
        for effect in self.machine.step(reach.now, input) {
            match effect {
                orchestrator::Effect::Watch(epic) => {
                    let last =
                        reach.bus.plans.get(&epic).map_or(0, |all| all.len().saturating_sub(1));
                    self.watched.insert(epic, last);
                }
                orchestrator::Effect::Leave(epic) => drop(self.watched.remove(&epic)),
                orchestrator::Effect::Collect(epic) => self.collects.push_back(epic),
                orchestrator::Effect::Request { id, request, .. } => {
                    self.own.request(id, RequestBody::Spawn(*request), reach);
                }
                orchestrator::Effect::Op { id, op } => {
                    self.own.request(id, RequestBody::Op(*op), reach);
                }
                orchestrator::Effect::Report(report) => self.own.report(*report, reach),
                orchestrator::Effect::Mail(mail) => {
                    reach.send(Wire::mail(self.own.id.clone(), *mail), self.own.life);
                }
            }
        }
    }
}
