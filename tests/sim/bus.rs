//! The simulated bus: streams that keep what was stored, with the rules that writers and readers
//! rely on, and nothing else. What is lost or late on the way is the world's doing.

use std::collections::{BTreeMap, BTreeSet};

use tetrarch_core::cursor::{Claim, Positions};
use tetrarch_core::cursor::{ClaimOutcome, Cursor, judge_claim, seal};
use tetrarch_core::id::{AgentId, EpicId, Principal, RunId};
use tetrarch_core::journal::JournalEvent;
use tetrarch_core::ledger::{Entry, Seal};
use tetrarch_core::mail::{Lane, Mail};
use tetrarch_core::plan::PlanEvent;
use tetrarch_core::records::Records;
use tetrarch_core::request::Request;

use crate::bug::Bug;

/// A stored message.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    /// Ledger sequence and index, when the owner wrote it.
    pub(crate) place: Option<(u64, usize)>,
    /// Who wrote it.
    pub(crate) from: Principal,
    /// What it says.
    pub(crate) mail: Mail,
}

/// How far somebody has read, and the highest of the owner's messages that it handled.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Reader {
    pub(crate) positions: Positions,
    high: [(u64, usize); 2],
}

impl Reader {
    /// A reader that begins here.
    pub(crate) fn at(positions: Positions) -> Self {
        Self { positions, ..Self::default() }
    }

    /// Whether a message is new to this reader; notes it.
    pub(crate) fn is_new(&mut self, lane: Lane, stored: &Stored) -> bool {
        let Some(place) = stored.place else { return true };
        let high = &mut self.high[usize::from(lane == Lane::Mail)];
        let new = place > *high;
        *high = place.max(*high);
        new
    }
}

/// What an outbox write came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Published {
    New,
    Known,
}

/// The streams.
#[derive(Debug, Default)]
pub(crate) struct Bus {
    pub(crate) ledger: Vec<Entry>,
    pub(crate) requests: Vec<Request>,
    mail: BTreeMap<(Principal, bool), Vec<Stored>>,
    pub(crate) plans: BTreeMap<EpicId, Vec<(u64, PlanEvent)>>,
    /// What STATE shows, and up to which entry.
    pub(crate) state: Records,
    pub(crate) state_through: usize,
    /// Entries whose outbox is done.
    pub(crate) outbox_through: usize,
    cursors: BTreeMap<AgentId, (Cursor, Reader)>,
    sealed: BTreeSet<RunId>,
    pub(crate) journals: BTreeMap<RunId, Vec<JournalEvent>>,
    /// What is wrong with it.
    bug: Option<Bug>,
}

impl Bus {
    /// An empty one.
    pub(crate) fn new(bug: Option<Bug>) -> Self {
        Self { bug, ..Self::default() }
    }

    /// Appends a request; its sequence is its place.
    pub(crate) fn store_request(&mut self, mut request: Request) {
        request.seq = self.requests.len() as u64 + 1;
        self.requests.push(request);
    }

    pub(crate) fn store_mail(&mut self, stored: Stored) {
        let lane = stored.mail.body.lane();
        self.mail.entry((stored.mail.to.clone(), lane == Lane::Mail)).or_default().push(stored);
    }

    /// Whether the owner's message has been stored; a stream forgets that after its window.
    pub(crate) fn has_mail(&self, to: &Principal, lane: Lane, place: (u64, usize)) -> bool {
        let stored = self.mail.get(&(to.clone(), lane == Lane::Mail));
        stored.is_some_and(|all| all.iter().any(|stored| stored.place == Some(place)))
    }

    /// How much is stored for somebody.
    pub(crate) fn end_of(&self, who: &Principal) -> Positions {
        let count = |mail| self.mail.get(&(who.clone(), mail)).map_or(0, |all| all.len() as u64);
        Positions { mail: count(true), ctl: count(false) }
    }

    /// The next message behind these positions, control first.
    pub(crate) fn next(&self, who: &Principal, at: Positions) -> Option<(Lane, &Stored)> {
        let ctl = self.at(who, false, at.ctl).map(|stored| (Lane::Ctl, stored));
        ctl.or_else(|| self.next_mail(who, at))
    }

    /// The next message behind these positions that is no control.
    pub(crate) fn next_mail(&self, who: &Principal, at: Positions) -> Option<(Lane, &Stored)> {
        self.at(who, true, at.mail).map(|stored| (Lane::Mail, stored))
    }

    fn at(&self, who: &Principal, mail: bool, at: u64) -> Option<&Stored> {
        self.mail.get(&(who.clone(), mail))?.get(usize::try_from(at).ok()?)
    }

    /// Publishes a plan event unless the stream has it or a later one.
    pub(crate) fn publish_plan(&mut self, seq: u64, event: &PlanEvent) -> Published {
        let stream = self.plans.entry(event.epic).or_default();
        let fenced = self.bug != Some(Bug::PlanUnsequenced);
        if fenced && stream.last().is_some_and(|(last, _)| *last >= seq) {
            return Published::Known;
        }
        stream.push((seq, event.clone()));
        Published::New
    }

    /// Seals a cursor and the old run's journal.
    pub(crate) fn publish_seal(&mut self, order: &Seal) {
        let found = self.cursors.get(&order.agent);
        let reader = found.map_or_else(Reader::default, |(_, reader)| *reader);
        let known = found.map(|(cursor, _)| cursor);
        if let Some(mut cursor) = seal(known, &order.agent, order.session, order.epoch, order.run) {
            if self.bug == Some(Bug::PositionsForgotten) {
                cursor.positions = Positions::default();
            }
            let reader =
                if self.bug == Some(Bug::PositionsForgotten) { Reader::default() } else { reader };
            self.cursors.insert(order.agent.clone(), (cursor, reader));
        }
        self.sealed.extend(order.ends);
    }

    /// Shows an entry's after-images, in order.
    pub(crate) fn publish_state(&mut self, index: usize) {
        if index == self.state_through {
            if self.bug != Some(Bug::StateSkipped) || index % 5 != 4 {
                self.state.apply(&self.ledger[index]);
            }
            self.state_through += 1;
        }
    }

    /// Claims a cursor by expected sequence.
    pub(crate) fn claim(
        &mut self,
        who: &AgentId,
        epoch: u64,
        ours: &Claim,
    ) -> (ClaimOutcome, Reader) {
        let Some((cursor, reader)) = self.cursors.get_mut(who) else {
            return (ClaimOutcome::DoNotStart, Reader::default());
        };
        if self.bug == Some(Bug::ClaimUnchecked) {
            return (ClaimOutcome::Claimed, *reader);
        }
        if cursor.epoch == epoch && cursor.claim.is_none() {
            cursor.claim = Some(ours.clone());
        }
        (judge_claim(cursor, epoch, ours), *reader)
    }

    /// The epoch that a cursor is sealed for; 0 before the first.
    pub(crate) fn sealed_for(&self, who: &AgentId) -> u64 {
        self.cursors.get(who).map_or(0, |(cursor, _)| cursor.epoch)
    }

    /// Whether whoever claimed a cursor for this epoch still holds it.
    pub(crate) fn holds(&self, who: &AgentId, epoch: u64, ours: &Claim) -> bool {
        let found = self.cursors.get(who);
        found
            .is_some_and(|(cursor, _)| cursor.epoch == epoch && cursor.claim.as_ref() == Some(ours))
    }

    /// Writes how far an agent has read, unless another epoch has taken over.
    pub(crate) fn save(&mut self, who: &AgentId, epoch: u64, ours: &Claim, read: Reader) -> bool {
        let holds = self.holds(who, epoch, ours);
        if let Some((cursor, reader)) = self.cursors.get_mut(who).filter(|_| holds) {
            cursor.positions = read.positions;
            *reader = read;
        }
        holds
    }

    /// Appends to a journal, unless it is sealed.
    pub(crate) fn append(&mut self, run: RunId, event: JournalEvent) -> bool {
        if self.sealed.contains(&run) {
            return false;
        }
        if self.bug != Some(Bug::JournalSkipped) || !matches!(event, JournalEvent::Starting { .. })
        {
            self.journals.entry(run).or_default().push(event);
        }
        true
    }
}
