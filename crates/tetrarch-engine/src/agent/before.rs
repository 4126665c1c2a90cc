//! What a session goes on from: the state, the conversation and the spending that the runs before it left.

use tetrarch_bus::journal::{JournalName, finally_left};
use tetrarch_bus::state::record_after;
use tetrarch_core::budget::Spend;
use tetrarch_core::converse::recorded::Gathered;
use tetrarch_core::id::RunId;
use tetrarch_core::ledger::{Record, RecordKey};

use super::AgentState;
use crate::error::EngineResult;

/// What the runs that a run goes on from left behind.
pub(super) struct PriorRuns {
    pub(super) checkpoint: Option<String>,
    pub(super) conversation: Gathered,
    pub(super) spent: Spend,
    pub(super) first: RunId,
    /// How often a result was handed back.
    pub(super) returned: u32,
}

impl AgentState {
    /// The newest state that the run it goes on from, or one before that, left behind: a session may
    /// end before its program says anything, and the next one be ordered before STATE knows its run.
    /// With it what all of them used of the grant, which is that of the brief.
    pub(super) async fn left_before(&self) -> EngineResult<PriorRuns> {
        let bus = &self.session.shared.bus;
        let (mut checkpoint, mut spent, mut counted) = (None, Spend::default(), false);
        let (mut conversation, mut returned) = (Gathered::default(), 0);
        let (mut before, mut first, mut wanted) = (self.run.continues, self.run.id, true);
        while let Some(id) = before {
            first = id;
            let found = record_after(bus, RecordKey::Run(id), self.ledger_seq).await?;
            // One that is not known any more was made by the same agent, as every one is.
            let mut journal = JournalName { agent: self.run.agent.clone(), run: id };
            before = None;
            if let Some(Record::Run(run)) = found {
                (before, journal) = (run.continues, JournalName::of(&run));
            }
            if !wanted {
                continue;
            }
            let left = finally_left(bus, &journal).await?;
            if !counted {
                spent = spent.plus(left.tally.charge());
                counted = left.tally.tells_of_earlier_runs();
            }
            returned = left.returned.max(returned);
            checkpoint = checkpoint.or(left.checkpoint);
            let all_said = conversation.add(left.conversation);
            wanted = !(counted && (checkpoint.is_some() || all_said));
        }
        Ok(PriorRuns { checkpoint, conversation, spent, first, returned })
    }
}
