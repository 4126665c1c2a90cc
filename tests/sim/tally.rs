//! What happened in the seeds of a run. A suite in which an interesting thing never happens
//! proves nothing about it, so the suite fails on a zero.

use std::collections::BTreeMap;

/// Everything that has to happen at least once.
pub(crate) const EXPECTED: [&str; 107] = [
    "acknowledgement lost",
    "actor died",
    "answered with an update",
    "asked again under its id",
    "attempt failed",
    "burst of requests",
    "bus gone",
    "called done by a human",
    "change refused: conflict",
    "change refused: not valid",
    "circuit closed",
    "claim gave up its seal",
    "claim refused",
    "claim waited for its seal",
    "commit acknowledged",
    "commit found its own before it",
    "commit lost, sent again",
    "commit refused for nothing",
    "commit refused for nothing, after it was stored",
    "commit refused, another in progress",
    "commit refused, reloaded",
    "deadline passed",
    "denied: no slot",
    "queued: no slot",
    "draft approved",
    "draft kept",
    "draft rejected",
    "draft sent back",
    "ended before it began",
    "evidence asked for",
    "goal cancelled by a human",
    "goal completed",
    "goal paused",
    "goal put away",
    "goal resumed",
    "goal stands blocked",
    "group of several inputs",
    "grant raised",
    "host crashed",
    "host crashed, and stays away",
    "host cut off",
    "host left",
    "host lost its lease",
    "host paused, and goes on",
    "host paused, another life began",
    "host thawed",
    "leader changed",
    "leader changed: write lost",
    "leader changed: write stored, not acknowledged",
    "lease moved, host spared",
    "lease taken from a host that does not answer",
    "lease taken from a silent host",
    "lost run settled",
    "mail repeated, dropped",
    "many hosts cut off",
    "mass silence",
    "memory lost: ledger made anew",
    "memory lost: ledger shorter",
    "memory lost: only the data directory remembers",
    "mode switched",
    "never reads its mail",
    "node cancelled",
    "owner asked a lagging ledger again",
    "owner crashed",
    "owner deposed",
    "owner paused",
    "owner started on what lags behind",
    "owner stopped: the ledger lost its memory",
    "people never answer an escalation",
    "plan changed: leaves merged",
    "plan changed: node added",
    "plan changed: node dropped",
    "plan changed: task split",
    "plan event repeated, dropped",
    "priorities said",
    "project orchestrator replaced",
    "proposed by an orchestrator",
    "proposed by the overseer",
    "put to people",
    "question answered",
    "question not answered",
    "renewal found its own before it",
    "renewal lost with a leader",
    "renewal not answered",
    "renewal refused, nobody knows by whom",
    "replacement asked for",
    "request repeated",
    "review did not pass",
    "rotation asked for",
    "rotation completed",
    "session fenced",
    "session fenced for nothing",
    "session offline",
    "session ordered to end for its next one",
    "session replaced",
    "session rotated",
    "session superseded",
    "sponsored worker",
    "stale look at a lease",
    "stale read",
    "state read too early",
    "status asked for",
    "stopped by a human",
    "sweeper deaf",
    "sweeper does not hear one host",
    "sweeper does not hear renewals",
    "taken from one that stands still",
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
