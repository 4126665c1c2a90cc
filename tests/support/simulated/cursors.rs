//! Cursors: seals, claims and moves.

use tetrarch_core::cursor::{Claim, ClaimOutcome, Cursor, judge_claim, seal};
use tetrarch_core::id::AgentId;
use tetrarch_core::ledger::Seal;

use super::{NOW, Stream, WrongLast};

/// What came of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claimed {
    /// It is ours, at this sequence.
    Ours(u64),
    /// An earlier life of the host has it.
    EarlierLife,
    /// Another epoch or another host: do not start.
    DoNotStart,
    /// No seal of this epoch is to be seen. A replica may lag behind.
    NotYet,
}

/// The cursors of all agents.
#[derive(Debug, Clone, Default)]
pub struct Cursors(pub Stream<AgentId, Cursor>);

impl Cursors {
    /// A cursor as it is, with its sequence.
    #[must_use]
    pub fn stands(&self, agent: &AgentId) -> Option<(u64, &Cursor)> {
        self.0.last(agent, NOW)
    }

    /// Seals a cursor, whose first read is as of `through`; gives the sequence of the seal, none
    /// when it was sealed before.
    pub fn seal(&mut self, order: &Seal, through: u64) -> Option<u64> {
        let mut through = if order.epoch == 1 { 0 } else { through };
        loop {
            let found = self.0.last(&order.agent, through);
            let (seq, known) = found.map_or((0, None), |(seq, cursor)| (seq, Some(cursor)));
            let sealed = seal(known, order)?;
            match self.0.publish(order.agent.clone(), sealed, seq) {
                Ok(seq) => return Some(seq),
                Err(WrongLast(last)) => through = last,
            }
        }
    }

    /// Claims a cursor for a session of `epoch`; the first read is as of `through`.
    pub fn claim(
        &mut self,
        agent: &AgentId,
        epoch: u64,
        ours: &Claim,
        mut through: u64,
    ) -> Claimed {
        loop {
            let Some((seq, cursor)) = self.0.last(agent, through) else { return Claimed::NotYet };
            match judge_claim(cursor, epoch, ours) {
                ClaimOutcome::Claimed => return Claimed::Ours(seq),
                ClaimOutcome::EarlierLife => return Claimed::EarlierLife,
                ClaimOutcome::DoNotStart if cursor.epoch < epoch => return Claimed::NotYet,
                ClaimOutcome::DoNotStart => return Claimed::DoNotStart,
                ClaimOutcome::ClaimAgain => {
                    let claimed = Cursor { claim: Some(ours.clone()), ..cursor.clone() };
                    match self.0.publish(agent.clone(), claimed, seq) {
                        Ok(seq) => return Claimed::Ours(seq),
                        Err(WrongLast(last)) => through = last,
                    }
                }
            }
        }
    }

    /// Claims the cursor of a new agent, which has none.
    pub fn claim_first(&mut self, first: &Cursor, ours: &Claim, through: u64) -> Claimed {
        match self.write(first, 0) {
            Ok(seq) => Claimed::Ours(seq),
            Err(WrongLast(_)) => self.claim(&first.agent, first.epoch, ours, through),
        }
    }

    /// Writes a cursor over the one at sequence `expect`. The same again is known again.
    ///
    /// # Errors
    /// Another one stands there: the session is over.
    pub fn write(&mut self, cursor: &Cursor, expect: u64) -> Result<u64, WrongLast> {
        self.0.publish(cursor.agent.clone(), cursor.clone(), expect).or_else(|refused| {
            let found = self.0.last(&cursor.agent, NOW);
            let known = found.filter(|(seq, found)| *seq > expect && *found == cursor);
            known.map(|(seq, _)| seq).ok_or(refused)
        })
    }
}
