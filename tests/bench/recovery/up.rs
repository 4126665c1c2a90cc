//! `tetrarch up` until it says that it is ready: bus, owner and host in a fresh data directory,
//! and again in the same one. The floor: a bare server until its streams are there, and started
//! again until it takes a client.

use std::time::Instant;

use tetrarch_tests::Fleet;

use crate::Effort;
use crate::table::{Aim, Line, Unit};

/// What spec 10 allows on a warm disk, in microseconds.
const ALLOWED: f64 = 1e6;

/// Measures it.
pub(crate) async fn measure(effort: Effort) -> Vec<Line> {
    let mut fresh = Line::new("`up` to ready, fresh directory", Unit::Micros, Aim::Within(ALLOWED));
    let mut again =
        Line::new("`up` to ready, the same directory again", Unit::Micros, Aim::Within(ALLOWED));
    for _ in 0..effort.rounds {
        let mut fleet = Fleet::prepared();
        let mut started = || {
            let at = Instant::now();
            fleet.start();
            let took = at.elapsed();
            fleet.stop();
            took.as_secs_f64() * 1e6
        };
        let ours = [started(), started()];
        let at = Instant::now();
        let mut server = tetrarch_tests::server().await;
        let bare = at.elapsed().as_secs_f64() * 1e6;
        server.kill().await;
        let at = Instant::now();
        server.restart().await;
        drop(server.control().await);
        fresh.push(ours[0], bare);
        again.push(ours[1], at.elapsed().as_secs_f64() * 1e6);
    }
    vec![fresh, again]
}
