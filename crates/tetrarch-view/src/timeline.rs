//! The attempts of a goal on a line of time: when each was admitted, how long it has waited, when it ended (spec 08, Page).

use tetrarch_core::id::{AgentId, EpicId, NodeId, RunId};
use tetrarch_core::records::Records;
use tetrarch_core::run::RunState;
use tetrarch_core::time::BusTime;

/// One attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunSpan {
    /// The run.
    pub run: RunId,
    /// Whose it is.
    pub agent: AgentId,
    /// What it is for.
    pub node: NodeId,
    /// When it was admitted.
    pub from: BusTime,
    /// Since when it waits: for somebody, for something, or for its place.
    pub waits: Option<BusTime>,
    /// When it ended; of one that has not, the moment it is looked at.
    pub until: BusTime,
    /// Where it stands.
    pub state: RunState,
}

/// The attempts that a goal's records name, the earliest first.
#[must_use]
pub fn timeline(records: &Records, epic: EpicId, now: BusTime) -> Vec<RunSpan> {
    let runs = records.runs.values().filter(|run| run.epic == epic);
    let mut spans: Vec<RunSpan> = runs
        .filter_map(|run| {
            let status = records.run_status.get(&run.id)?;
            let (agent, node, from, state) =
                (run.agent.clone(), run.node, run.created, status.state);
            let until = if state.is_terminal() { status.since } else { now };
            let waits = is_waiting(state).then_some(status.since);
            Some(RunSpan { run: run.id, agent, node, from, waits, until: until.max(from), state })
        })
        .collect();
    spans.sort_by_key(|span| (span.from, span.run));
    spans
}

fn is_waiting(state: RunState) -> bool {
    match state {
        RunState::Queued | RunState::AwaitingInput | RunState::Blocked | RunState::PausedByUser => {
            true
        }
        RunState::Spawning
        | RunState::Running
        | RunState::Compacting
        | RunState::Cancelling
        | RunState::Done
        | RunState::Failed
        | RunState::Orphaned => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;
    use tetrarch_core::ledger::Record;
    use tetrarch_core::run::RunStatus;

    #[test]
    fn span_ends_where_its_run_did_or_now_and_says_since_when_it_waits() {
        let run = samples::run(1, "");
        let mut records = Records::default();
        records.put(Record::Run(Box::new(run.clone())));
        let (since, now) = (BusTime(run.created.0 + 2_000), BusTime(run.created.0 + 9_000));
        for (state, until, waits) in [
            (RunState::Running, now, None),
            (RunState::AwaitingInput, now, Some(since)),
            (RunState::Blocked, now, Some(since)),
            (RunState::Done, since, None),
            (RunState::Failed, since, None),
        ] {
            let status = RunStatus { since, ..samples::run_status(1, state) };
            records.put(Record::RunStatus(Box::new(status)));
            let spans = timeline(&records, run.epic, now);
            let [span] = &spans[..] else { panic!("{spans:?}") };
            assert_eq!((span.from, span.until, span.waits), (run.created, until, waits), "{state}");
        }
        assert_eq!(timeline(&records, EpicId(tetrarch_core::id::Ulid(0)), now), []);
    }
}
