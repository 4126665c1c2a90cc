//! The meter of one brief's grant: what its runs used, what is set aside for calls that are not
//! over, and what still fits (spec 06, Budgets). It is folded from journals alone, so the session
//! that meters and whoever reads its journal later come to the same sum.

use std::collections::BTreeMap;
use std::fmt;

use crate::brief::Usage;
use crate::budget::{BudgetExceeded, Counter, Limits, Spend};
use crate::journal::{BudgetNote, JournalEvent};
use crate::limits::{BUDGET_WARNING_PERCENT, CALL_NAME_BYTES_MAX, CALLS_OPEN_MAX, DRAWN_PARTS};

#[cfg(test)]
mod tests;

/// What journals say was used of a grant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tally {
    /// By earlier runs of the brief, their open set-asides with it.
    before: Spend,
    /// What the run's program said in totals.
    totals: Usage,
    /// By calls that are over.
    closed: Spend,
    /// The worst case of each call that is not over.
    open: BTreeMap<String, Spend>,
    /// Whether an entry said what earlier runs used.
    told_before: bool,
}

impl Tally {
    /// Counts one entry of a run's journal.
    pub fn take(&mut self, event: &JournalEvent) {
        match event {
            JournalEvent::Usage(totals) => self.totals = self.totals.max(*totals),
            JournalEvent::Result(result) => {
                self.close();
                self.totals = self.totals.max(result.usage);
            }
            JournalEvent::Budget(BudgetNote::Before { spent }) => {
                self.before = *spent;
                self.told_before = true;
            }
            JournalEvent::Budget(BudgetNote::SetAside { call, worst }) => {
                self.open.insert(call.clone(), *worst);
            }
            JournalEvent::Budget(BudgetNote::Spent { call, used }) => {
                self.open.remove(call);
                self.closed = self.closed.plus(*used);
            }
            JournalEvent::Starting { .. }
            | JournalEvent::Started { .. }
            | JournalEvent::Progress { .. }
            | JournalEvent::Log { .. }
            | JournalEvent::Checkpoint { .. }
            | JournalEvent::Ask { .. }
            | JournalEvent::Spawn { .. }
            | JournalEvent::Mail { .. }
            | JournalEvent::Update { .. }
            | JournalEvent::Blocked { .. }
            | JournalEvent::Unblocked
            | JournalEvent::Verb { .. }
            | JournalEvent::Conversed(_)
            | JournalEvent::Returned { .. }
            | JournalEvent::Budget(BudgetNote::Warning { .. } | BudgetNote::Raised { .. })
            | JournalEvent::Stopping { .. }
            | JournalEvent::Ended { .. } => {}
        }
    }

    /// Nothing follows: what is open counts as spent.
    pub fn close(&mut self) {
        // Totals may already hold a part of an open call; at worst, they do not.
        self.closed = self.own_charge();
        self.open.clear();
    }

    /// Whether the journal itself says what earlier runs of the brief used, so that theirs need not
    /// be read.
    #[must_use]
    pub fn tells_of_earlier_runs(&self) -> bool {
        self.told_before
    }

    /// What this run used. Totals and calls speak of the same things: the higher counts.
    #[must_use]
    fn own(&self) -> Spend {
        self.totals.spend().max(self.closed)
    }

    /// What all runs of the brief used, open set-asides not counted.
    #[must_use]
    pub fn used(&self) -> Spend {
        self.before.plus(self.own())
    }

    /// What this run alone has to answer for: open set-asides count as spent.
    #[must_use]
    pub fn own_charge(&self) -> Spend {
        self.own().plus(self.set_aside())
    }

    /// The same for all runs of the brief.
    #[must_use]
    pub fn charge(&self) -> Spend {
        self.before.plus(self.own_charge())
    }

    /// What is set aside for calls that are not over.
    #[must_use]
    pub fn set_aside(&self) -> Spend {
        self.open.values().copied().fold(Spend::default(), Spend::plus)
    }

    /// This run's counters, its calls with it. What nobody said to be prompt or completion counts as
    /// completion: it is what a worst case is made of.
    #[must_use]
    pub fn usage(&self) -> Usage {
        covering(self.totals, self.closed)
    }
}

/// Counters that are at least this much in sum.
fn covering(usage: Usage, spend: Spend) -> Usage {
    let missing = spend.tokens.saturating_sub(usage.spend().tokens);
    Usage {
        tokens_in: usage.tokens_in,
        tokens_out: usage.tokens_out.saturating_add(missing),
        cost_micro: usage.cost_micro.max(spend.cost_micro),
        turns: usage.turns.max(spend.turns),
    }
}

/// Why a call is not to be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Withheld {
    /// Its worst case is more than what is left.
    #[error("{0} after used and reserved amounts")]
    DoesNotFit(#[from] BudgetExceeded),
    /// It is more than is drawn, and no more could be drawn.
    #[error("{0} of the free amount; the rest of the grant is reserved for its children")]
    NotDrawn(BudgetExceeded),
    /// A call of that name is not over.
    #[error("a call {0:?} is already open; send `spent` first, or name each call differently")]
    Open(String),
    /// Too many are not over.
    #[error("{CALLS_OPEN_MAX} calls are already open; send `spent` after each call")]
    TooMany,
    /// Its name is of no use.
    #[error("the name of a call must have 1 to {CALL_NAME_BYTES_MAX} bytes")]
    Name,
}

/// A counter of which most, or all, is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Which.
    pub counter: Counter,
    /// What all runs of the brief used of it.
    pub used: u64,
    /// The grant.
    pub limit: u64,
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { counter, used, limit } = self;
        match counter {
            Counter::Tokens | Counter::Turns => write!(f, "{used} of {limit} {counter} are used"),
            Counter::CostMicro => {
                let dollars = |micro: u64| micro as f64 / 1e6;
                write!(f, "${:.4} of ${:.4} are used", dollars(*used), dollars(*limit))
            }
        }
    }
}

/// The meter of a run that is being made.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Metering {
    limit: Limits,
    tally: Tally,
    /// What is drawn, for an agent that draws ahead; none when all is drawn from the start.
    drawn: Option<Spend>,
    warned: Vec<Counter>,
}

impl Metering {
    /// A meter of this grant, of which earlier runs of the brief used `before`.
    #[must_use]
    pub fn of(limit: Limits, before: Spend) -> Self {
        let tally = Tally { before, ..Tally::default() };
        Self { limit, tally, drawn: None, warned: Vec::new() }
    }

    /// The same of an agent that draws its spending ahead, and has drawn nothing that it knows of.
    #[must_use]
    pub fn drawing(self) -> Self {
        let limited = self.limit != Limits::default();
        Self { drawn: limited.then(Spend::default), ..self }
    }

    /// What is counted.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Counts what is written to the run's journal.
    pub fn take(&mut self, event: &JournalEvent) {
        if let JournalEvent::Budget(BudgetNote::Warning { counter, .. }) = event {
            self.warned.push(*counter);
        }
        if let JournalEvent::Budget(BudgetNote::Raised { limit, .. }) = event {
            self.raise(*limit);
        }
        self.tally.take(event);
    }

    /// The grant is at least this from now on. A counter that is not near its end any more is
    /// warned of again.
    fn raise(&mut self, limit: Limits) {
        self.limit = self.limit.or_higher(limit);
        let near: Vec<Counter> = self
            .marks()
            .filter(|mark| is_near(mark.used, mark.limit))
            .map(|mark| mark.counter)
            .collect();
        self.warned.retain(|counter| near.contains(counter));
    }

    /// So much is drawn now, as the ledger says.
    pub fn drew(&mut self, drawn: Spend) {
        self.drawn = self.drawn.map(|before| before.max(drawn));
    }

    /// What is to be drawn, in all, so that this much more can be spent, and a part of the grant
    /// beside it (spec 06: a tenth of the grant or one worst case, the larger); none when so much is
    /// drawn.
    #[must_use]
    pub fn to_draw(&self, more: Spend) -> Option<Spend> {
        let drawn = self.drawn?;
        let needed = self.tally.charge().plus(more);
        let mut total = drawn;
        for counter in Counter::ALL {
            let Some(limit) = self.limit.of(counter) else { continue };
            let (needed, drawn) = (needed.of(counter).min(limit), drawn.of(counter));
            if needed > drawn || drawn == 0 {
                let part = (limit / DRAWN_PARTS).max(1);
                total = total.with(counter, drawn.saturating_add(part).max(needed).min(limit));
            }
        }
        (total != drawn).then_some(total)
    }

    /// Whether more is used than is drawn, although a draw asked for so much.
    #[must_use]
    pub fn is_overdrawn(&self, asked: Spend) -> bool {
        let Some(drawn) = self.drawn else { return false };
        let used = self.tally.used();
        let limited = |counter: &Counter| self.limit.of(*counter).is_some();
        Counter::ALL.into_iter().filter(limited).any(|counter| {
            let drawn = drawn.of(counter);
            drawn < asked.of(counter) && drawn < used.of(counter)
        })
    }

    /// Whether a call of this worst case may be made. Nothing is set aside until the entry is
    /// [taken](Self::take): it has to be in the journal before the call.
    ///
    /// # Errors
    /// Why it is withheld.
    pub fn set_aside(&self, call: &str, worst: Spend) -> Result<JournalEvent, Withheld> {
        if call.is_empty() || call.len() > CALL_NAME_BYTES_MAX {
            return Err(Withheld::Name);
        }
        if self.tally.open.contains_key(call) {
            return Err(Withheld::Open(call.to_owned()));
        }
        if self.tally.open.len() >= CALLS_OPEN_MAX {
            return Err(Withheld::TooMany);
        }
        let gone = self.tally.charge();
        for counter in Counter::ALL {
            let Some(limit) = self.limit.of(counter) else { continue };
            let requested = worst.of(counter);
            let left = |limit: u64| limit.saturating_sub(gone.of(counter));
            if requested > left(limit) {
                let free = left(limit);
                return Err(BudgetExceeded { counter, requested, free }.into());
            }
            let drawn = self.drawn.map_or(limit, |drawn| drawn.of(counter));
            if requested > left(drawn) {
                let free = left(drawn);
                return Err(Withheld::NotDrawn(BudgetExceeded { counter, requested, free }));
            }
        }
        let call = call.to_owned();
        Ok(JournalEvent::Budget(BudgetNote::SetAside { call, worst }))
    }

    /// The first counter of which all is used: the run ends at its next boundary.
    #[must_use]
    pub fn used_up(&self) -> Option<Mark> {
        self.marks().find(|mark| mark.used > 0 && mark.used >= mark.limit)
    }

    /// Counters of which most is used, and which were not warned of.
    #[must_use]
    pub fn nearly_used_up(&self) -> Vec<Mark> {
        let near = self.marks().filter(|mark| is_near(mark.used, mark.limit));
        near.filter(|mark| !self.warned.contains(&mark.counter)).collect()
    }

    /// Whether an earlier run of the brief came as far, so that it was said before.
    #[must_use]
    pub fn was_near(&self, mark: Mark) -> bool {
        is_near(self.tally.before.of(mark.counter), mark.limit)
    }

    fn marks(&self) -> impl Iterator<Item = Mark> {
        let used = self.tally.used();
        Counter::ALL.into_iter().filter_map(move |counter| {
            let limit = self.limit.of(counter)?;
            Some(Mark { counter, used: used.of(counter), limit })
        })
    }
}

fn is_near(used: u64, limit: u64) -> bool {
    used > 0 && u128::from(used) * 100 >= u128::from(limit) * u128::from(BUDGET_WARNING_PERCENT)
}
