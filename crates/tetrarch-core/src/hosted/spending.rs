//! What a session's program spends, against the grant of its brief (spec 06, Budgets): a call's worst
//! case is in the journal before the program hears that it may make it; when all is used the program is
//! asked to end.

use std::collections::VecDeque;

use crate::brief::{Outcome, RunResult, Usage};
use crate::budget::Spend;
use crate::id::{AgentId, Principal};
use crate::journal::{BudgetNote, JournalEvent};
use crate::limits::CALLS_OPEN_MAX;
use crate::mail::BudgetRaised;
use crate::metering::{Mark, Metering, Withheld};
use crate::order::{Inbound, Order};
use crate::request::Report;
use crate::role::Role;

use super::{HostedSession, SessionEffect, SessionPhase};

/// What a session knows of its grant.
#[derive(Debug, Clone, Default)]
pub(super) struct Spending {
    pub(super) metering: Metering,
    /// Calls that wait for a draw.
    waiting: VecDeque<(String, Spend)>,
    /// What a draw on its way asks for.
    drawing: Option<Spend>,
    /// Why the program was asked to end: its grant is used up.
    used_up: Option<String>,
}

impl Spending {
    pub(super) fn of(metering: Metering) -> Self {
        Self { metering, ..Self::default() }
    }
}

impl HostedSession {
    /// What the program has used, as far as it said.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.spending.metering.tally().usage()
    }

    /// Turns that the brief's runs have made, which is what its grant counts.
    #[must_use]
    pub fn turns(&self) -> u64 {
        self.spending.metering.tally().charge().turns
    }

    /// Goes on from this state of what it continues, which takes a while to read; `spent` is what
    /// earlier runs of the brief used of its grant.
    pub fn go_on_from(&mut self, checkpoint: Option<String>, spent: Spend) {
        self.checkpoint = checkpoint;
        self.meter_after(spent);
    }

    /// Meters on after earlier runs of the brief.
    pub(super) fn meter_after(&mut self, before: Spend) {
        let metering = Metering::of(self.run.brief.budget, before);
        let draws = Role::of(&self.launch.agent).draws();
        self.spending = Spending::of(if draws { metering.drawing() } else { metering });
    }

    /// Writes down what earlier runs of the brief used, and how often a result of theirs was handed back,
    /// so that whoever goes on from this one need not read theirs.
    pub(super) fn note_earlier_runs(&mut self, effects: &mut Vec<SessionEffect>) {
        if self.run.continues.is_some() {
            let spent = self.spending.metering.tally().charge();
            self.count(JournalEvent::Budget(BudgetNote::Before { spent }), effects);
        }
        let (times, errors) = (self.returned, String::new());
        if times > 0 {
            effects.push(SessionEffect::Journal(JournalEvent::Returned { times, errors }));
        }
    }

    /// The program said what it has used so far.
    pub(super) fn used(&mut self, totals: Usage, effects: &mut Vec<SessionEffect>) {
        self.spending.metering.take(&JournalEvent::Usage(totals));
        effects.push(SessionEffect::Journal(JournalEvent::Usage(self.usage())));
        self.look_at_grant(effects);
    }

    /// The program is about to make a call.
    pub(super) fn set_aside(
        &mut self,
        call: String,
        worst: Spend,
        effects: &mut Vec<SessionEffect>,
    ) {
        let Spending { waiting, .. } = &mut self.spending;
        if waiting.len() >= CALLS_OPEN_MAX {
            let why = Withheld::TooMany.to_string();
            self.tell_line(Inbound::Withheld { call, why }, effects);
            return;
        }
        waiting.push_back((call, worst));
        self.answer_calls(None, effects);
    }

    /// A call of the program's is over.
    pub(super) fn spent(&mut self, call: String, used: Spend, effects: &mut Vec<SessionEffect>) {
        self.count(JournalEvent::Budget(BudgetNote::Spent { call, used }), effects);
        self.look_at_grant(effects);
        self.answer_calls(None, effects);
    }

    /// The ledger says what is drawn.
    pub(super) fn drew(&mut self, drawn: Spend, effects: &mut Vec<SessionEffect>) {
        self.spending.metering.drew(drawn);
        let asked = self.spending.drawing.take();
        self.answer_calls(asked, effects);
        if asked.is_some_and(|asked| self.spending.metering.is_overdrawn(asked)) {
            let why = "what could be drawn is used, the rest of the grant is with its children";
            self.end_for_grant(why.to_owned(), effects);
        }
        self.look_at_grant(effects);
    }

    /// The grant was raised. Only the owner's word counts: it has taken what was added out of the
    /// parent's. An end that has begun is not held up.
    pub(super) fn raised(
        &mut self,
        from: &Principal,
        raised: &BudgetRaised,
        effects: &mut Vec<SessionEffect>,
    ) {
        let before = self.run.brief.budget;
        let limit = before.or_higher(raised.limit);
        if *from != Principal::Agent(AgentId::Go) || limit == before || self.is_ending() {
            return;
        }
        self.run.brief.budget = limit;
        let (by, reason) = (raised.by.clone(), raised.reason.clone());
        let note = JournalEvent::Budget(BudgetNote::Raised { limit, by, reason });
        match self.phase {
            // What it starts with says it already, and nothing is written before the claim.
            SessionPhase::Claiming => self.spending.metering.take(&note),
            SessionPhase::Starting
            | SessionPhase::Running
            | SessionPhase::Ending
            | SessionPhase::Over => {
                self.count(note, effects);
                self.tell_line(Inbound::BudgetRaised { limit }, effects);
                self.draw(Spend::default(), effects);
            }
        }
    }

    /// Draws the first part before the program spends anything.
    pub(super) fn draw_ahead(&mut self, effects: &mut Vec<SessionEffect>) {
        self.draw(Spend::default(), effects);
    }

    /// Answers calls in their order, until one waits for a draw. `drawn_for` is the total that a draw
    /// asked for which has just been answered: what does not fit now, though it was asked for, is
    /// withheld.
    fn answer_calls(&mut self, drawn_for: Option<Spend>, effects: &mut Vec<SessionEffect>) {
        while let Some((call, worst)) = self.spending.waiting.pop_front() {
            let metering = &self.spending.metering;
            let line = match metering.set_aside(&call, worst) {
                Ok(event) => {
                    self.count(event, effects);
                    Inbound::Granted { call }
                }
                Err(Withheld::NotDrawn(_)) if !self.was_refused(worst, drawn_for) => {
                    self.spending.waiting.push_front((call, worst));
                    let waiting = self.spending.waiting.iter().map(|(_, worst)| *worst);
                    let more = waiting.fold(Spend::default(), Spend::plus);
                    self.draw(more, effects);
                    return;
                }
                Err(why) => Inbound::Withheld { call, why: why.to_string() },
            };
            self.tell_line(line, effects);
        }
    }

    /// Whether the draw that was just answered asked for room for this call too.
    fn was_refused(&self, worst: Spend, drawn_for: Option<Spend>) -> bool {
        let needed = self.spending.metering.tally().charge().plus(worst);
        drawn_for.is_some_and(|asked| {
            asked.tokens >= needed.tokens
                && asked.cost_micro >= needed.cost_micro
                && asked.turns >= needed.turns
        })
    }

    /// Draws, unless a draw is on its way.
    fn draw(&mut self, more: Spend, effects: &mut Vec<SessionEffect>) {
        if self.spending.drawing.is_some() {
            return;
        }
        if let Some(total) = self.spending.metering.to_draw(more) {
            self.spending.drawing = Some(total);
            let run = self.run.id;
            effects.push(SessionEffect::Report(Box::new(Report::Draw { run, total })));
        }
    }

    /// The run's counters at its end: what is still set aside counts as spent.
    pub(super) fn with_grant(&self, mut result: RunResult) -> RunResult {
        let mut tally = self.spending.metering.tally().clone();
        tally.close();
        result.usage = tally.usage();
        if result.outcome == Outcome::Success {
            return result;
        }
        if let Some(why) = &self.spending.used_up {
            result.outcome = Outcome::BudgetExceeded;
            result.error.clone_from(why);
        }
        result
    }

    /// Warns of a counter of which most is used; ends the run when all of it is.
    fn look_at_grant(&mut self, effects: &mut Vec<SessionEffect>) {
        if self.is_ending() {
            return;
        }
        if let Some(mark) = self.spending.metering.used_up() {
            self.end_for_grant(mark.to_string(), effects);
            return;
        }
        for mark in self.spending.metering.nearly_used_up() {
            self.warn(mark, effects);
        }
        self.draw(Spend::default(), effects);
    }

    /// Asks the program to end at its next boundary, unless it is ending for another reason.
    fn end_for_grant(&mut self, why: String, effects: &mut Vec<SessionEffect>) {
        if !self.is_ending() {
            let why = format!("{}: {why}", Outcome::BudgetExceeded);
            self.stop(&why, effects);
            self.spending.used_up = Some(why);
        }
    }

    fn is_ending(&self) -> bool {
        matches!(self.phase, SessionPhase::Ending | SessionPhase::Over)
            || self.result.is_some()
            || self.exit.is_some()
    }

    fn warn(&mut self, mark: Mark, effects: &mut Vec<SessionEffect>) {
        let Mark { counter, used, limit } = mark;
        self.count(JournalEvent::Budget(BudgetNote::Warning { counter, used, limit }), effects);
        self.tell_line(Inbound::BudgetWarning { counter, used, limit }, effects);
        if !self.spending.metering.was_near(mark) {
            let run = self.run.id;
            let report = Report::BudgetWarning { run, counter, used, limit };
            effects.push(SessionEffect::Report(Box::new(report)));
        }
    }

    fn tell_line(&self, line: Inbound, effects: &mut Vec<SessionEffect>) {
        effects.push(SessionEffect::Order(Box::new(Order::Deliver { run: self.run.id, line })));
    }

    fn count(&mut self, event: JournalEvent, effects: &mut Vec<SessionEffect>) {
        self.spending.metering.take(&event);
        effects.push(SessionEffect::Journal(event));
    }
}
