//! What begins at set times (spec 05, Schedules): when it is due next, told from a moment that is
//! given. The time zones come with the program, so every owner computes the same
//! (docs/decisions/0027).

use croner::errors::CronError;
use croner::parser::{CronParser, Seconds, Year};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{Timestamp, Zoned};

use crate::duration;
use crate::id::{
    ConversationName, EpicId, GraphName, HumanName, Principal, ProjectName, ScheduleId,
};
use crate::limits::{GOAL_INTERVAL_MIN, INTERVAL_MAX, INTERVAL_MIN};
use crate::time::{BusTime, Millis};

/// The time zone of a cron expression that comes without one.
pub const UTC: &str = "UTC";

/// Ids of one firing that may be taken before it cannot begin.
pub(crate) const FIRINGS_TAKEN_MAX: usize = 16;

/// Fields of a cron expression.
const CRON_FIELDS: usize = 5;

/// Why a rhythm is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RhythmError {
    /// The expression cannot be read.
    #[error(
        "cron: {expression:?}: {why}; expected minute, hour, day of month, month, day of week, as in \"30 6 * * 1-5\""
    )]
    Expression {
        /// What was given.
        expression: String,
        /// What is wrong with it.
        why: String,
    },
    /// There is no such time zone.
    #[error("zone: {0:?} is not a time zone; expected a name such as Europe/Berlin, or UTC")]
    Zone(String),
    /// The expression is of no day that there is.
    #[error("cron: {0:?} is never due")]
    Never(String),
    /// The interval is too short or too long.
    #[error(
        "every: {given} is out of range; allowed: {least} to {most}",
        given = duration::print(*.0),
        least = duration::print(INTERVAL_MIN),
        most = duration::print(INTERVAL_MAX)
    )]
    Interval(Millis),
    /// The interval is too short for what starts agents.
    #[error(
        "every: {given} is too often for a goal or a turn; at least {least}",
        given = duration::print(*.0),
        least = duration::print(GOAL_INTERVAL_MIN)
    )]
    GoalInterval(Millis),
}

/// When something begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rhythm {
    /// At the times of a cron expression, on the clocks of a time zone. A time that the clocks skip in
    /// spring is due when they have; one that comes twice in autumn is due the first time. What has a
    /// `*` or a step in hour or minute follows the clocks as they go.
    Cron {
        /// The expression.
        expression: String,
        /// The time zone's name.
        zone: String,
    },
    /// Again and again after this time, counted from when it was given.
    Every(Millis),
}

impl Rhythm {
    /// When it is due next after a moment; none when never again. `since` is when it was given.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn next(&self, since: BusTime, after: BusTime) -> Result<Option<BusTime>, RhythmError> {
        match self {
            Self::Cron { expression, zone } => next_on_clock(expression, zone, after),
            Self::Every(every) => {
                if !(INTERVAL_MIN..=INTERVAL_MAX).contains(every) {
                    return Err(RhythmError::Interval(*every));
                }
                let passed = (after - since).0 / every.0;
                Ok(passed
                    .checked_add(1)
                    .and_then(|count| count.checked_mul(every.0))
                    .and_then(|ahead| since.0.checked_add(ahead))
                    .map(BusTime))
            }
        }
    }

    /// The first time after it was given that this begins.
    ///
    /// # Errors
    /// What is wrong with it; it is never due, or too often for what begins.
    pub fn first(&self, deed: &Deed, since: BusTime) -> Result<BusTime, RhythmError> {
        let first = self.next(since, since)?;
        let starts_agents = match deed {
            Deed::Goal { .. } | Deed::Turn(_) => true,
            Deed::Mail { .. } => false,
        };
        if let Self::Every(every) = self
            && starts_agents
            && *every < GOAL_INTERVAL_MIN
        {
            return Err(RhythmError::GoalInterval(*every));
        }
        first.ok_or_else(|| RhythmError::Never(self.in_words()))
    }

    /// For people.
    #[must_use]
    pub fn in_words(&self) -> String {
        match self {
            Self::Cron { expression, zone } => format!("{expression} ({zone})"),
            Self::Every(every) => format!("every {}", duration::print(*every)),
        }
    }
}

fn next_on_clock(
    expression: &str,
    zone: &str,
    after: BusTime,
) -> Result<Option<BusTime>, RhythmError> {
    let wrong = |error: &CronError| RhythmError::Expression {
        expression: expression.to_owned(),
        why: fault(expression, error).to_owned(),
    };
    let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
    let cron = parser.parse(expression).map_err(|error| wrong(&error))?;
    let zone = time_zone(zone)?;
    let at = i64::try_from(after.0).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    let Some(at) = at else { return Ok(None) };
    match cron.find_next_occurrence(&Zoned::new(at, zone), false) {
        Ok(next) => Ok(u64::try_from(next.timestamp().as_millisecond()).ok().map(BusTime)),
        Err(CronError::TimeSearchLimitExceeded) => Ok(None),
        Err(
            error @ (CronError::EmptyPattern
            | CronError::InvalidDate
            | CronError::InvalidTime
            | CronError::InvalidPattern(_)
            | CronError::IllegalCharacters(_)
            | CronError::ComponentError(_)),
        ) => Err(wrong(&error)),
    }
}

/// What is wrong with an expression, in this program's words.
fn fault(expression: &str, error: &CronError) -> &'static str {
    let fields = expression.split_whitespace().count();
    match error {
        CronError::EmptyPattern => "it is empty",
        _ if fields != CRON_FIELDS && !expression.starts_with('@') => "it has not five fields",
        CronError::IllegalCharacters(_) => "it has characters that no field takes",
        CronError::ComponentError(_) => "a field is out of its range",
        CronError::InvalidPattern(_)
        | CronError::InvalidDate
        | CronError::InvalidTime
        | CronError::TimeSearchLimitExceeded => "it cannot be read",
    }
}

fn time_zone(name: &str) -> Result<TimeZone, RhythmError> {
    let found = TimeZoneDatabase::bundled().get(name);
    found.map_err(|_| RhythmError::Zone(name.to_owned()))
}

/// What begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deed {
    /// A goal with a plan.
    Goal {
        /// The project that works on it.
        project: ProjectName,
        /// The plan file as JSON text.
        plan: String,
    },
    /// A message.
    Mail {
        /// To whom.
        to: Principal,
        /// What it says.
        text: String,
    },
    /// A turn of its owner's conversation, in the background lane (spec 07, Lanes).
    Turn(ScheduledTurn),
}

/// A turn that begins at set times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduledTurn {
    /// In which conversation of its owner; one that there is not begins.
    pub conversation: ConversationName,
    /// Whose agents work for it.
    pub project: ProjectName,
    /// The graph that routes it; none means as before in the conversation, or the default.
    pub graph: Option<GraphName>,
    /// What is said.
    pub text: String,
    /// Who gets its answer as mail; without, only the transcript has it.
    pub tell: Option<HumanName>,
}

/// Something that begins at set times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// Its id.
    pub id: ScheduleId,
    /// Whose it is; goals that it starts are too.
    pub owner: Principal,
    /// When.
    pub rhythm: Rhythm,
    /// What.
    pub deed: Deed,
    /// When it was given.
    pub created: BusTime,
    /// When it was due last and was begun.
    pub last: Option<BusTime>,
    /// When it is due next; none when never again.
    pub next: Option<BusTime>,
    /// How often it was begun.
    pub fired: u64,
    /// What came of the last time, in words.
    pub outcome: String,
}

impl Schedule {
    /// An id of what begins at one of its times: the same whichever owner begins it. `index` tells the next
    /// from one that is taken.
    #[must_use]
    pub fn firing(&self, due: BusTime, index: usize) -> EpicId {
        EpicId::derive(due, &self.id.to_string(), "firing", index)
    }

    /// Whether a goal of this id is one that it began.
    #[must_use]
    pub fn has_begun(&self, epic: EpicId) -> bool {
        let due = BusTime(epic.0.timestamp_ms());
        let may =
            matches!(self.deed, Deed::Goal { .. }) && self.last.is_some_and(|last| due <= last);
        may && (0..=FIRINGS_TAKEN_MAX).any(|index| self.firing(due, index) == epic)
    }

    /// Bytes of its texts.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let rhythm = match &self.rhythm {
            Rhythm::Cron { expression, zone } => expression.len() + zone.len(),
            Rhythm::Every(_) => 0,
        };
        let deed = match &self.deed {
            Deed::Goal { plan, .. } => plan.len(),
            Deed::Mail { text, .. } | Deed::Turn(ScheduledTurn { text, .. }) => text.len(),
        };
        rhythm + deed + self.outcome.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ms(text: &str) -> BusTime {
        let at: Timestamp = text.parse().unwrap();
        BusTime(u64::try_from(at.as_millisecond()).unwrap())
    }

    fn cron(expression: &str, zone: &str) -> Rhythm {
        Rhythm::Cron { expression: expression.to_owned(), zone: zone.to_owned() }
    }

    fn mail() -> Deed {
        Deed::Mail { to: "human:ada".parse().unwrap(), text: "look".to_owned() }
    }

    /// The first times after a moment.
    fn times(rhythm: &Rhythm, after: &str, count: usize) -> Vec<String> {
        let mut at = ms(after);
        let next = || {
            at = rhythm.next(BusTime(0), at).unwrap()?;
            let at = Timestamp::from_millisecond(i64::try_from(at.0).unwrap());
            Some(at.unwrap().to_string())
        };
        std::iter::from_fn(next).take(count).collect()
    }

    #[test]
    fn cron_expression_follows_its_time_zone() {
        let workdays = cron("30 6 * * 1-5", "Europe/Berlin");
        assert_eq!(
            times(&workdays, "2026-01-02T05:30:00Z", 2),
            ["2026-01-05T05:30:00Z", "2026-01-06T05:30:00Z"],
            "half past six in Berlin, not on the weekend, and after the moment"
        );
        assert_eq!(
            times(&cron("0 0 1 * *", UTC), "2026-01-31T23:59:59.999Z", 1),
            ["2026-02-01T00:00:00Z"]
        );
    }

    #[test]
    fn skipped_local_time_is_due_after_the_change() {
        // On 29 March 2026 it is 3 o'clock in Berlin right after 2.
        let early = cron("30 2 * * *", "Europe/Berlin");
        assert_eq!(
            times(&early, "2026-03-28T12:00:00Z", 2),
            ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]
        );
        let often = cron("*/30 2 * * *", "Europe/Berlin");
        assert_eq!(times(&often, "2026-03-28T12:00:00Z", 1), ["2026-03-30T00:00:00Z"]);
    }

    #[test]
    fn repeated_local_time_is_due_the_first_time() {
        // On 25 October 2026 it is 2 o'clock in Berlin again right after 3.
        let early = cron("30 2 * * *", "Europe/Berlin");
        assert_eq!(
            times(&early, "2026-10-24T12:00:00Z", 2),
            ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]
        );
        let hourly = cron("0 * * * *", "Europe/Berlin");
        assert_eq!(
            times(&hourly, "2026-10-24T23:30:00Z", 3),
            ["2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z"],
            "what is due every hour is due in both"
        );
    }

    #[test]
    fn interval_counts_from_its_creation() {
        let rhythm = Rhythm::Every(Millis(10_000));
        let next = |after| rhythm.next(BusTime(3_000), BusTime(after)).unwrap().unwrap().0;
        assert_eq!([next(3_000), next(12_999), next(13_000)], [13_000, 13_000, 23_000]);
        assert_eq!(next(98_000), 103_000, "what was missed is not made up for");
        assert_eq!(next(0), 13_000);
    }

    #[test]
    fn invalid_cron_is_reported() {
        let first = |rhythm: Rhythm| rhythm.first(&mail(), ms("2026-01-01T00:00:00Z")).unwrap_err();
        let seconds = "* * * * * *";
        for expression in ["", "x", "61 * * * *", "* * *", "99999999999999999999 * * * *", seconds]
        {
            let error = first(cron(expression, UTC));
            assert!(matches!(error, RhythmError::Expression { .. }), "{expression}: {error}");
            assert!(!error.to_string().contains("attern"), "the library's words: {error}");
        }
        assert_eq!(first(cron("* * * * *", "Berlin")), RhythmError::Zone("Berlin".to_owned()));
        assert!(matches!(first(cron("0 0 30 2 *", UTC)), RhythmError::Never(_)));
        for every in [INTERVAL_MIN.0 - 1, INTERVAL_MAX.0 + 1, 0] {
            assert_eq!(first(Rhythm::Every(Millis(every))), RhythmError::Interval(Millis(every)));
        }
        for every in [INTERVAL_MIN, INTERVAL_MAX] {
            assert!(Rhythm::Every(every).first(&mail(), BusTime(1)).is_ok());
        }
        let never = Rhythm::Every(INTERVAL_MIN).next(BusTime(0), BusTime(u64::MAX));
        assert_eq!(never, Ok(None));
        assert_eq!(cron("* * * * *", UTC).next(BusTime(0), BusTime(u64::MAX)), Ok(None));
    }

    #[test]
    fn what_starts_agents_begins_once_a_minute_at_most() {
        let goal = Deed::Goal { project: "demo".parse().unwrap(), plan: "{}".to_owned() };
        let turn = Deed::Turn(ScheduledTurn {
            conversation: "night".parse().unwrap(),
            project: "demo".parse().unwrap(),
            graph: None,
            text: "look".to_owned(),
            tell: None,
        });
        for deed in [goal, turn] {
            let first = |every: Millis| Rhythm::Every(every).first(&deed, BusTime(0));
            assert_eq!(first(GOAL_INTERVAL_MIN), Ok(BusTime(60_000)));
            let often = Millis(GOAL_INTERVAL_MIN.0 - 1);
            assert_eq!(first(often), Err(RhythmError::GoalInterval(often)));
            assert_eq!(cron("* * * * *", UTC).first(&deed, BusTime(0)), Ok(BusTime(60_000)));
        }
    }

    proptest! {
        #[test]
        fn next_time_is_always_later(
            expression in "(\\*|[0-9]{1,2})( (\\*|[0-9]{1,2}|\\*/[0-9]{1,2})){4}",
            at in 0u64..4_000_000_000_000,
        ) {
            let rhythm = cron(&expression, "America/New_York");
            if let Ok(Some(next)) = rhythm.next(BusTime(0), BusTime(at)) {
                prop_assert!(next > BusTime(at));
            }
        }

        #[test]
        fn any_text_is_a_schedule_or_refused(expression in ".{0,40}", zone in ".{0,20}") {
            let _either_way = cron(&expression, &zone).next(BusTime(0), BusTime(1));
        }
    }
}
