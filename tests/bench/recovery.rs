//! How fast a fleet is itself again after something died, and what it costs while nothing happens
//! (spec 10, Figures): the product's own binary, real processes, kill -9. One file for each thing
//! that dies; only the order of the measurements is here.

mod bus;
mod deaths;
mod hosts;
mod idle;
mod owner;
mod start;
mod up;
mod witness;

use crate::Effort;
use crate::table::Line;

/// What can be asked for by name.
pub(crate) const WORDS: [&str; 7] =
    ["death", "host-loss", "fail-over", "bus-restart", "up", "start", "idle"];

/// Measures what is wanted.
pub(crate) async fn measure(wants: impl Fn(&str) -> bool, effort: Effort) -> Vec<Line> {
    let mut lines = Vec::new();
    for word in WORDS.into_iter().filter(|word| wants(word)) {
        lines.extend(match word {
            "death" => deaths::measure(effort).await,
            "host-loss" => hosts::measure(effort),
            "fail-over" => owner::measure(effort).await,
            "bus-restart" => bus::measure(effort).await,
            "up" => up::measure(effort).await,
            "start" => start::measure(effort).await,
            _ => idle::measure(effort).await,
        });
    }
    lines
}
