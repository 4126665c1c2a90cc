//! What happened in the seeds of a run. A suite in which an interesting thing never happens
//! proves nothing about it, so the suite fails on a zero.

use std::collections::BTreeMap;

/// Everything that has to happen at least once.
pub(crate) const EXPECTED: [&str; 56] = [
    "acknowledgement lost",
    "actor died",
    "attempt failed",
    "burst of requests",
    "bus gone",
    "circuit closed",
    "claim refused",
    "commit acknowledged",
    "commit lost, sent again",
    "commit refused, reloaded",
    "deadline passed",
    "denied: no slot",
    "ended before it began",
    "goal completed",
    "goal stands blocked",
    "group of several inputs",
    "host crashed",
    "host crashed, and stays away",
    "host cut off",
    "host left",
    "host lost its lease",
    "host paused, and goes on",
    "host paused, another life began",
    "host thawed",
    "lease moved, host spared",
    "lease taken from a host that does not answer",
    "lease taken from a silent host",
    "mail repeated, dropped",
    "many hosts cut off",
    "mass silence",
    "mode switched",
    "node cancelled",
    "owner crashed",
    "owner deposed",
    "owner paused",
    "plan event repeated, dropped",
    "project orchestrator replaced",
    "question answered",
    "renewal found its own before it",
    "renewal not answered",
    "replacement asked for",
    "request repeated",
    "review did not pass",
    "rotation asked for",
    "rotation completed",
    "session fenced",
    "session offline",
    "session ordered to end for its next one",
    "session replaced",
    "session rotated",
    "session superseded",
    "sponsored worker",
    "state read too early",
    "stopped by a human",
    "sweeper deaf",
    "sweeper does not hear renewals",
];

/// Counts by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Tally(BTreeMap<&'static str, u64>);

impl Tally {
    pub(crate) fn note(&mut self, what: &'static str) {
        assert!(EXPECTED.contains(&what), "{what:?} is not among what is expected");
        *self.0.entry(what).or_default() += 1;
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (what, count) in &other.0 {
            *self.0.entry(what).or_default() += count;
        }
    }

    /// What never happened.
    pub(crate) fn missing(&self) -> Vec<&'static str> {
        EXPECTED.into_iter().filter(|what| !self.0.contains_key(what)).collect()
    }

    /// One line each.
    pub(crate) fn lines(&self) -> String {
        let line = |(what, count): (&&str, &u64)| format!("{count:>9}  {what}\n");
        self.0.iter().map(line).collect()
    }
}
