//! Paths that a session holds.

use tetrarch_core::reservation::{Mode, Reservation};
use tetrarch_core::time::BusTime;

use super::{id, words};

pub(super) fn sample(full: bool) -> Reservation {
    Reservation {
        id: id("rsv_~"),
        project: id("demo"),
        fencing: 7,
        agent: id("W:~"),
        session: id("~"),
        epoch: 2,
        paths: words("src/** docs/a"),
        mode: if full { Mode::Shared } else { Mode::Exclusive },
        until: BusTime(9),
        reason: if full { "to mend it".to_owned() } else { String::new() },
    }
}
