//! A host is lost, killed with all that would speak for it: from the kill to the first step of its
//! agent's replacement on another host. The floor is the law itself: three windows of silence.

use std::time::Instant;

use rustix::process::Signal;
use serde_json::json;
use tetrarch_tests::Fleet;

use super::witness::Witness;
use crate::Effort;
use crate::table::{Aim, Line, Unit};

/// The windows, in milliseconds, and how many rounds of a full measurement each takes part in.
const WINDOWS: [(u32, usize); 3] = [(100, 7), (1_000, 7), (5_000, 3)];
/// What is allowed beyond three windows, in microseconds (spec 10).
const BEYOND: f64 = 1e6;

/// Measures it at several windows.
pub(crate) fn measure(effort: Effort) -> Vec<Line> {
    // The short form does without the long window.
    let windows = WINDOWS.into_iter().take(if effort.rounds == 1 { 2 } else { WINDOWS.len() });
    windows.map(|(window, rounds)| at(window, rounds.min(effort.rounds))).collect()
}

fn at(window_ms: u32, rounds: usize) -> Line {
    let floor = 3.0 * f64::from(window_ms) * 1e3;
    let what = format!("host loss to replacement's first step, window {window_ms} ms");
    let mut line = Line::new(&what, Unit::Micros, Aim::Within(floor + BEYOND));
    for _ in 0..rounds {
        line.push(lost(window_ms), floor);
    }
    line
}

/// Loses a host of a fresh fleet; gives the time in microseconds.
fn lost(window_ms: u32) -> f64 {
    let window = format!("{window_ms}ms");
    let fleet = Fleet::prepared().with_env("TETRARCH_LIVENESS_WINDOW", window).started();
    // Its orchestrator stays on the first host, its worker goes where there is more room.
    fleet.ok(["project", "create", "mortal"]);
    let second = fleet.second_host("h2");
    let witness = Witness::at(&fleet.cwd().join("steps"));
    let plan = json!({
        "project": "mortal", "goal": {"title": "Outlive a host"},
        "phases": [{"id": "P1", "name": "Go on", "tasks": [
            {"id": "T1.1", "name": "go on", "profile": "mortal", "acceptance": ["it ends"]}]}],
        "profiles": {"mortal": {"argv": witness.argv()}},
    });
    let file = fleet.file("plan.json", &plan.to_string());
    let run = fleet.spawn(["run", file.to_str().unwrap()]);
    let first = witness.next();
    let at = Instant::now();
    second.signal(Signal::KILL);
    let next = witness.next();
    assert_eq!((next.epoch, next.agent), (2, first.agent));
    assert_eq!(run.ended().code, Some(0));
    (next.at - at).as_secs_f64() * 1e6
}
