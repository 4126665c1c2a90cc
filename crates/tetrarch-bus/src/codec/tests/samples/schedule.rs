//! What begins at set times: a goal by the clock that began before, mail by an interval that did not, a turn.

use tetrarch_core::schedule::{Deed, Rhythm, Schedule, ScheduledTurn};
use tetrarch_core::time::{BusTime, Millis};

use super::id;

pub(in crate::codec::tests) fn rhythm(by_clock: bool) -> Rhythm {
    if by_clock {
        let (expression, zone) = ("30 6 * * 1-5".to_owned(), "Europe/Berlin".to_owned());
        Rhythm::Cron { expression, zone }
    } else {
        Rhythm::Every(Millis(5_400_000))
    }
}

pub(in crate::codec::tests) fn deed(goal: bool) -> Deed {
    if goal {
        Deed::Goal { project: id("demo"), plan: "{\"title\":\"t\"}".to_owned() }
    } else {
        Deed::Mail { to: id("human:ada"), text: "stand up".to_owned() }
    }
}

pub(in crate::codec::tests) fn turn(full: bool) -> Deed {
    Deed::Turn(ScheduledTurn {
        conversation: id("night"),
        project: id("demo"),
        graph: full.then(|| id("g")),
        text: "look".to_owned(),
        tell: full.then(|| id("bob")),
    })
}

pub(super) fn sample(full: bool) -> Schedule {
    Schedule {
        id: id("sch_~"),
        owner: id("human:ada"),
        rhythm: rhythm(full),
        deed: deed(full),
        created: BusTime(1),
        last: full.then_some(BusTime(2)),
        next: full.then_some(BusTime(3)),
        fired: u64::from(full),
        outcome: if full { "goal_~ for demo".to_owned() } else { String::new() },
    }
}
