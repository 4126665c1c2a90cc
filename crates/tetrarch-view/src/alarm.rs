//! What a person is to see first (spec 08, Roster): who waits for them, who spends too fast, whose work was not
//! accepted, who does not move or is lost. The order of the values is the order of the screen.

use tetrarch_core::budget::Spend;
use tetrarch_core::limits::{RUNAWAY_COST_MICRO_FLOOR, RUNAWAY_PERCENTILE, RUNAWAY_TOKENS_FLOOR};
use tetrarch_core::liveness::Liveness;
use tetrarch_core::run::RunState;
use tetrarch_core::words;

use crate::tone::Tone;

words! {
    /// Why a row stands first.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum Alarm {
        /// It waits for a person.
        AwaitingInput = "input",
        /// It spends far more than the others.
        RunawayCost = "cost",
        /// A reviewer did not accept the work.
        VerificationFailed = "verdict",
        /// It lives and does not move.
        Stuck = "stuck",
        /// Its session is lost and nobody goes on.
        Orphaned = "orphaned",
        /// Nothing.
        #[default]
        Quiet = "",
    }
}

impl Alarm {
    /// Its place on the screen; stuck and orphaned share one.
    #[must_use]
    pub fn rank(self) -> u8 {
        match self {
            Self::AwaitingInput => 0,
            Self::RunawayCost => 1,
            Self::VerificationFailed => 2,
            Self::Stuck | Self::Orphaned => 3,
            Self::Quiet => 4,
        }
    }

    /// The tone beside the word.
    #[must_use]
    pub fn tone(self) -> Tone {
        match self {
            Self::AwaitingInput | Self::Stuck => Tone::Warn,
            Self::RunawayCost | Self::VerificationFailed | Self::Orphaned => Tone::Bad,
            Self::Quiet => Tone::Plain,
        }
    }
}

/// What an alarm follows from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AlarmFacts {
    /// Where the session stands.
    pub liveness: Liveness,
    /// Where the run stands; none without work.
    pub run_state: Option<RunState>,
    /// Whether the overseer found that nothing moves.
    pub stalled: bool,
    /// Whether the latest verdict on the work is not a pass.
    pub rejected: bool,
    /// Whether the work is settled, whatever became of this run.
    pub settled: bool,
    /// Whether its burn is a runaway.
    pub runaway: bool,
}

/// The first of the alarms that hold.
#[must_use]
pub fn alarm(facts: AlarmFacts) -> Alarm {
    let lives = facts.liveness != Liveness::Terminated;
    if lives && facts.run_state == Some(RunState::AwaitingInput) {
        Alarm::AwaitingInput
    } else if lives && facts.runaway {
        Alarm::RunawayCost
    } else if facts.rejected && !facts.settled {
        Alarm::VerificationFailed
    } else if facts.run_state == Some(RunState::Orphaned) && !facts.settled {
        Alarm::Orphaned
    } else if is_stuck(facts) {
        Alarm::Stuck
    } else {
        Alarm::Quiet
    }
}

/// Alive by its records, and not heard of or not moving. What waits for its own reason is not stuck.
fn is_stuck(facts: AlarmFacts) -> bool {
    match facts.liveness {
        Liveness::Stale | Liveness::Offline => true,
        Liveness::Active => match facts.run_state {
            Some(RunState::Running | RunState::Spawning | RunState::Cancelling) => facts.stalled,
            Some(
                RunState::Queued
                | RunState::AwaitingInput
                | RunState::Blocked
                | RunState::PausedByUser
                | RunState::Compacting
                | RunState::Done
                | RunState::Failed
                | RunState::Orphaned,
            )
            | None => false,
        },
        Liveness::Register | Liveness::Terminated => false,
    }
}

/// From which burn on an agent spends too fast: at or above the 90th percentile of all that burn, and above a
/// floor. What costs nothing is judged by its tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunawayLevel {
    tokens: u64,
    cost_micro: u64,
}

impl RunawayLevel {
    /// The level among these rates; those that do not burn are left out.
    #[must_use]
    pub fn of(rates: &[Spend]) -> Self {
        let level = |amount: fn(&Spend) -> u64| percentile(rates.iter().map(amount).collect());
        Self { tokens: level(|rate| rate.tokens), cost_micro: level(|rate| rate.cost_micro) }
    }

    /// Whether a rate is a runaway.
    #[must_use]
    pub fn is_reached_by(self, rate: Spend) -> bool {
        let cost = rate.cost_micro > RUNAWAY_COST_MICRO_FLOOR && rate.cost_micro >= self.cost_micro;
        let tokens = rate.tokens > RUNAWAY_TOKENS_FLOOR && rate.tokens >= self.tokens;
        if rate.cost_micro > 0 { cost } else { tokens }
    }
}

/// The nearest-rank percentile of what is more than nothing; 0 when nothing is.
fn percentile(mut values: Vec<u64>) -> u64 {
    values.retain(|value| *value > 0);
    values.sort_unstable();
    let rank = (values.len() * RUNAWAY_PERCENTILE).div_ceil(100);
    rank.checked_sub(1).and_then(|at| values.get(at)).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Liveness::{Active, Offline, Register, Stale, Terminated};

    const WELL: AlarmFacts = AlarmFacts {
        liveness: Active,
        run_state: Some(RunState::Running),
        stalled: false,
        rejected: false,
        settled: false,
        runaway: false,
    };

    fn at(run_state: RunState) -> AlarmFacts {
        AlarmFacts { run_state: Some(run_state), ..WELL }
    }

    #[test]
    fn first_alarm_that_holds_is_shown() {
        let all = AlarmFacts { stalled: true, rejected: true, runaway: true, ..WELL };
        let rows = [
            (WELL, Alarm::Quiet),
            (AlarmFacts { run_state: None, ..WELL }, Alarm::Quiet),
            (AlarmFacts { run_state: Some(RunState::AwaitingInput), ..all }, Alarm::AwaitingInput),
            (all, Alarm::RunawayCost),
            (AlarmFacts { runaway: false, ..all }, Alarm::VerificationFailed),
            (AlarmFacts { runaway: false, settled: true, ..all }, Alarm::Stuck),
            (AlarmFacts { stalled: true, ..WELL }, Alarm::Stuck),
            (AlarmFacts { stalled: true, ..at(RunState::Spawning) }, Alarm::Stuck),
            (AlarmFacts { stalled: true, ..at(RunState::Compacting) }, Alarm::Quiet),
            (AlarmFacts { stalled: true, ..at(RunState::Blocked) }, Alarm::Quiet),
            (AlarmFacts { stalled: true, ..at(RunState::PausedByUser) }, Alarm::Quiet),
            (AlarmFacts { liveness: Stale, ..WELL }, Alarm::Stuck),
            (AlarmFacts { liveness: Offline, run_state: None, ..WELL }, Alarm::Stuck),
            (AlarmFacts { liveness: Register, ..WELL }, Alarm::Quiet),
            (at(RunState::Orphaned), Alarm::Orphaned),
            (AlarmFacts { liveness: Terminated, ..at(RunState::Orphaned) }, Alarm::Orphaned),
            (AlarmFacts { settled: true, ..at(RunState::Orphaned) }, Alarm::Quiet),
            (AlarmFacts { liveness: Terminated, ..at(RunState::AwaitingInput) }, Alarm::Quiet),
            (AlarmFacts { liveness: Terminated, runaway: true, ..WELL }, Alarm::Quiet),
            (
                AlarmFacts { liveness: Terminated, rejected: true, ..at(RunState::Done) },
                Alarm::VerificationFailed,
            ),
        ];
        for (facts, expected) in rows {
            assert_eq!(alarm(facts), expected, "{facts:?}");
        }
    }

    #[test]
    fn alarms_rank_in_the_order_of_the_screen() {
        use Alarm::{AwaitingInput, Orphaned, Quiet, RunawayCost, Stuck, VerificationFailed};
        let all = [AwaitingInput, RunawayCost, VerificationFailed, Stuck, Orphaned, Quiet];
        assert_eq!(all.map(Alarm::rank), [0, 1, 2, 3, 3, 4]);
        for (place, alarm) in all.into_iter().enumerate() {
            let others = all.iter().enumerate().filter(|(at, _)| *at != place);
            assert!(others.into_iter().all(|(_, other)| other.as_str() != alarm.as_str()));
        }
    }

    fn cost(cost_micro: u64) -> Spend {
        Spend { cost_micro, tokens: 1, turns: 0 }
    }

    fn tokens(tokens: u64) -> Spend {
        Spend { tokens, ..Spend::default() }
    }

    #[test]
    fn runaway_is_at_or_above_the_percentile_and_above_the_floor() {
        let floor = RUNAWAY_COST_MICRO_FLOOR;
        let ten: Vec<Spend> = (1..=10).map(|part| cost(floor + part)).collect();
        let level = RunawayLevel::of(&ten);
        let reached = ten.iter().map(|rate| level.is_reached_by(*rate));
        assert_eq!(reached.filter(|reached| *reached).count(), 2, "the 9th and the 10th of ten");
        assert!(level.is_reached_by(cost(floor + 9)) && !level.is_reached_by(cost(floor + 8)));
        let lone = RunawayLevel::of(&[cost(floor), cost(floor + 1)]);
        assert!(lone.is_reached_by(cost(floor + 1)) && !lone.is_reached_by(cost(floor)));
        let low = RunawayLevel::of(&[cost(floor)]);
        assert!(!low.is_reached_by(cost(floor)), "at the floor is not above it");
    }

    #[test]
    fn idle_agents_do_not_lower_the_runaway_level() {
        let floor = RUNAWAY_TOKENS_FLOOR;
        let mut rates = vec![tokens(0); 90];
        rates.extend((1..=10).map(|part| tokens(floor + part)));
        let level = RunawayLevel::of(&rates);
        assert!(level.is_reached_by(tokens(floor + 9)) && !level.is_reached_by(tokens(floor + 8)));
        assert!(!RunawayLevel::of(&[]).is_reached_by(tokens(floor)));
        assert!(RunawayLevel::of(&[]).is_reached_by(tokens(floor + 1)));
    }
}
