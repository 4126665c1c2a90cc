//! The deeds at the simulated bus.

use tetrarch_core::cursor::{Cursor, Positions};
use tetrarch_core::id::{AgentId, CommitId, HostName, RunId};
use tetrarch_core::ledger::Entry;
use tetrarch_core::time::BusTime;
use tetrarch_tests::dice::Dice;
use tetrarch_tests::simulated::{
    Acquired, Claimed, Commit, Cursors, Journals, Leases, NOW, Renewed, WrongLast, commit,
};

use super::deed::{Deed, Outcome, entry, instance};

/// The simulated bus, and what its clients know.
#[derive(Debug, Clone)]
pub(super) struct Model {
    ledger: Vec<Entry>,
    cursors: Cursors,
    journals: Journals,
    leases: Leases,
    /// How much of cursors, journals and leases a read shows.
    seen: [u64; 3],
    owners: [Option<(u64, u64)>; 3],
    claims: [Option<(Cursor, u64)>; 3],
    writers: [Option<(RunId, u64, u64)>; 3],
    held: [Option<(usize, String, u64, u64)>; 3],
    looked: [Option<u64>; 3],
}

impl Default for Model {
    fn default() -> Self {
        Self {
            ledger: Vec::new(),
            cursors: Cursors::default(),
            journals: Journals::default(),
            leases: Leases::default(),
            seen: [NOW; 3],
            owners: Default::default(),
            claims: Default::default(),
            writers: Default::default(),
            held: Default::default(),
            looked: Default::default(),
        }
    }
}

fn key(number: usize) -> AgentId {
    match number {
        0 => AgentId::Go,
        host => AgentId::Ho(HostName::new(&format!("h{host}")).unwrap()),
    }
}

impl Model {
    /// The next reads may be those of a replica that lags behind.
    pub(super) fn lag_by_chance(&mut self, dice: &mut Dice) {
        let lasts = [self.cursors.0.last_seq(), self.journals.0.last_seq(), self.leases.last_seq()];
        for (seen, last) in self.seen.iter_mut().zip(lasts) {
            let last = usize::try_from(last).unwrap();
            *seen = if dice.percent(50) { dice.below(last + 1) as u64 } else { NOW };
        }
    }

    /// Reads show everything again.
    pub(super) fn catch_up(&mut self) {
        self.seen = [NOW; 3];
    }

    /// Whether an outcome tells what was so before; nothing was written for it.
    pub(super) fn was_so(&self, deed: &Deed, found: &Outcome) -> bool {
        match (deed, found) {
            (Deed::Claim { agent, epoch, claim, .. }, Outcome::Stored(at)) => {
                self.cursors.0.all(agent).any(|(seq, cursor)| {
                    seq == *at && cursor.epoch == *epoch && cursor.claim.as_ref() == Some(claim)
                })
            }
            (Deed::Open { .. }, Outcome::Stored(_)) | (Deed::Look { .. }, Outcome::Shown(_)) => {
                true
            }
            (_, _) => false,
        }
    }

    /// A lease expires.
    pub(super) fn expire(&mut self, number: usize) {
        self.leases.expire(&key(number));
    }

    pub(super) fn perform(&mut self, deed: &Deed) -> Outcome {
        match deed {
            Deed::Own { owner, epoch, lag } => {
                let last = self.ledger.len() as u64;
                self.owners[*owner] = Some((*epoch, last.saturating_sub(*lag)));
                Outcome::Nothing
            }
            Deed::Commit { owner, commit, unheard } => self.commit(*owner, *commit, *unheard),
            Deed::Seal(order) => {
                if let Some(run) = order.ends {
                    self.journals.end(run, order.epoch, self.seen[1]);
                }
                self.cursors.seal(order, self.seen[0]);
                self.cursor(&order.agent)
            }
            Deed::Claim { slot, agent, epoch, claim, first } => {
                let claimed = match first {
                    Some(first) => self.cursors.claim_first(first, claim, self.seen[0]),
                    None => self.cursors.claim(agent, *epoch, claim, self.seen[0]),
                };
                match claimed {
                    Claimed::Ours(at) => {
                        let cursor = self.cursors.0.all(agent).find(|(seq, _)| *seq == at);
                        self.claims[*slot] = cursor.map(|(seq, cursor)| (cursor.clone(), seq));
                        Outcome::Stored(at)
                    }
                    Claimed::EarlierLife => Outcome::EarlierLife,
                    Claimed::DoNotStart => Outcome::Refused,
                    Claimed::NotYet => Outcome::NotYet,
                }
            }
            Deed::Move { slot, mail, again } => self.write(*slot, *mail, *again),
            Deed::Open { slot, run, epoch, .. } => {
                match self.journals.open(*run, *epoch, self.seen[1]) {
                    Ok(seq) => {
                        self.writers[*slot] = Some((*run, *epoch, seq));
                        Outcome::Stored(seq)
                    }
                    Err(WrongLast(last)) => Outcome::Fenced(last),
                }
            }
            Deed::Append { slot, events } => {
                let Some((run, epoch, last)) = &mut self.writers[*slot] else {
                    return Outcome::Nothing;
                };
                match self.journals.append(*run, *epoch, events.clone(), *last) {
                    Ok(seq) => {
                        *last = seq;
                        Outcome::Stored(seq)
                    }
                    Err(WrongLast(last)) => Outcome::Fenced(last),
                }
            }
            Deed::Read { agent } => self.cursor(agent),
            Deed::Acquire { .. }
            | Deed::Renew { .. }
            | Deed::Release { .. }
            | Deed::Look { .. }
            | Deed::Revoke { .. } => self.at_lease(deed),
        }
    }

    fn commit(&mut self, owner: usize, id: CommitId, unheard: bool) -> Outcome {
        let Some((epoch, last)) = self.owners[owner].take() else { return Outcome::Nothing };
        let entry = entry(id, epoch);
        if unheard {
            let _unheard = commit(&mut self.ledger, &entry, last);
        }
        match commit(&mut self.ledger, &entry, last) {
            Commit::Stored(seq) | Commit::Known(seq) => {
                self.owners[owner] = Some((epoch, seq));
                Outcome::Stored(seq)
            }
            Commit::Deposed(epoch) => Outcome::Deposed(epoch),
            Commit::Reload(last) => Outcome::Reload(last),
        }
    }

    fn cursor(&self, agent: &AgentId) -> Outcome {
        let found = self.cursors.stands(agent);
        Outcome::Shown(found.map(|(seq, cursor)| (seq, format!("{cursor:?}"))))
    }

    fn write(&mut self, slot: usize, mail: u64, again: bool) -> Outcome {
        let Some((cursor, known)) = &mut self.claims[slot] else { return Outcome::Nothing };
        let moved = Cursor { positions: Positions { mail, ctl: 0 }, ..cursor.clone() };
        let mut written = self.cursors.write(&moved, *known);
        if again {
            written = self.cursors.write(&moved, *known);
        }
        match written {
            Ok(seq) => {
                *known = seq;
                Outcome::Stored(seq)
            }
            Err(WrongLast(last)) => Outcome::Fenced(last),
        }
    }

    fn at_lease(&mut self, deed: &Deed) -> Outcome {
        let (now, seen) = (BusTime(1), self.seen[2]);
        let cleared = |cleared: Result<u64, WrongLast>| match cleared {
            Ok(seq) => Outcome::Stored(seq),
            Err(WrongLast(last)) => Outcome::Fenced(last),
        };
        match deed {
            Deed::Acquire { key: number, instance: who, floor, .. } => {
                let who_text = instance(*who);
                match self.leases.acquire(&key(*number), &who_text, *floor, now, seen) {
                    Acquired::Ours { epoch, seq } => {
                        self.held[(number + who) % 3] = Some((*number, who_text, epoch, seq));
                        Outcome::Acquired { epoch, seq }
                    }
                    Acquired::Held(holder) => Outcome::Held(holder),
                }
            }
            Deed::Renew { holder } => {
                let Some((number, who, epoch, seq)) = &mut self.held[*holder] else {
                    return Outcome::Nothing;
                };
                match self.leases.renew(&key(*number), (who, *epoch), *seq, now, seen) {
                    Renewed::Stored(at) | Renewed::Own(at) => {
                        *seq = at;
                        Outcome::Stored(at)
                    }
                    Renewed::Unknown => Outcome::Unknown,
                    Renewed::Lost => Outcome::Lost,
                }
            }
            Deed::Release { holder } => match self.held[*holder].take() {
                Some((number, _, _, seq)) => cleared(self.leases.clear(&key(number), seq)),
                None => Outcome::Nothing,
            },
            Deed::Look { key: number } => {
                let look = self.leases.look(&key(*number), seen);
                let found = Some(look).filter(|look| look.seq > 0);
                self.looked[*number] = found.map(|look| look.seq);
                Outcome::Shown(found.map(|look| (look.seq, look.held.to_string())))
            }
            Deed::Revoke { key: number } => match self.looked[*number] {
                Some(seq) => cleared(self.leases.clear(&key(*number), seq)),
                None => Outcome::Nothing,
            },
            Deed::Own { .. }
            | Deed::Commit { .. }
            | Deed::Seal(_)
            | Deed::Claim { .. }
            | Deed::Move { .. }
            | Deed::Open { .. }
            | Deed::Append { .. }
            | Deed::Read { .. } => Outcome::Nothing,
        }
    }
}
