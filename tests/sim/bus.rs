//! The simulated bus: streams that keep what was stored, with the rules that writers and readers
//! rely on, and nothing else. What is lost or late on the way is the world's doing.

use std::borrow::Cow;
use std::collections::BTreeMap;

use tetrarch_core::cursor::{Claim, Cursor, Positions};
use tetrarch_core::id::{AgentId, EpicId, Principal, RunId};
use tetrarch_core::journal::JournalEvent;
use tetrarch_core::ledger::{Entry, Record, RecordKey, Seal};
use tetrarch_core::mail::{Lane, Mail};
use tetrarch_core::metering::Tally;
use tetrarch_core::plan::PlanEvent;
use tetrarch_core::plan::view::changed;
use tetrarch_core::records::Records;
use tetrarch_core::request::Request;
use tetrarch_core::restart::{Memory, Restart};
use tetrarch_tests::simulated::{Claimed, Cursors, Journals, Leases};

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
    /// Its sequence in the stream; 0 before it is stored.
    pub(crate) seq: u64,
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

/// How much of each stream a read shows: all of it, or what a replica had some time ago.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) ledger: usize,
    pub(crate) state: usize,
    pub(crate) cursors: u64,
    pub(crate) journals: u64,
    pub(crate) leases: u64,
    pub(crate) mail: u64,
}

/// The streams.
#[derive(Debug, Default)]
pub(crate) struct Bus {
    pub(crate) ledger: Vec<Entry>,
    /// Times that the ledger was made.
    pub(crate) made: u64,
    pub(crate) requests: Vec<Request>,
    mail: BTreeMap<(Principal, bool), Vec<Stored>>,
    mails: u64,
    pub(crate) plans: BTreeMap<EpicId, Vec<(u64, PlanEvent)>>,
    /// What STATE shows, and up to which entry.
    pub(crate) state: Records,
    pub(crate) state_through: usize,
    /// The ledger that its last entry is of.
    state_made: u64,
    cursors: Cursors,
    /// What each agent's reader had handled when its cursor was written last.
    readers: BTreeMap<AgentId, Reader>,
    journals: Journals,
    /// What is wrong with it.
    bug: Option<Bug>,
}

impl Bus {
    /// An empty one.
    pub(crate) fn new(bug: Option<Bug>) -> Self {
        Self { bug, ..Self::default() }
    }

    /// How much there is of each stream.
    pub(crate) fn view(&self, leases: &Leases) -> View {
        View {
            ledger: self.ledger.len(),
            state: self.state_through,
            cursors: self.cursors.0.last_seq(),
            journals: self.journals.0.last_seq(),
            leases: leases.last_seq(),
            mail: self.mails,
        }
    }

    /// When the ledger was made, as the server says it.
    pub(crate) fn created(&self) -> String {
        format!("made {}", self.made)
    }

    /// Appends a request; its sequence is its place.
    pub(crate) fn store_request(&mut self, mut request: Request) {
        request.seq = self.requests.len() as u64 + 1;
        self.requests.push(request);
    }

    pub(crate) fn store_mail(&mut self, mut stored: Stored) {
        self.mails += 1;
        stored.seq = self.mails;
        let lane = stored.mail.body.lane();
        self.mail.entry((stored.mail.to.clone(), lane == Lane::Mail)).or_default().push(stored);
    }

    /// Whether the owner's message has been stored; a stream forgets that after its window.
    pub(crate) fn has_mail(&self, to: &Principal, lane: Lane, place: (u64, usize)) -> bool {
        let stored = self.mail.get(&(to.clone(), lane == Lane::Mail));
        stored.is_some_and(|all| all.iter().any(|stored| stored.place == Some(place)))
    }

    /// How much is stored for somebody, as of a sequence of all mail.
    pub(crate) fn end_of(&self, who: &Principal, through: u64) -> Positions {
        let seen = |all: &Vec<Stored>| all.iter().filter(|stored| stored.seq <= through).count();
        let count = |mail| self.mail.get(&(who.clone(), mail)).map_or(0, |all| seen(all) as u64);
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
    pub(crate) fn publish_plan(&mut self, seq: u64, entry: &Entry, event: &PlanEvent) -> Published {
        let stream = self.plans.entry(event.epic).or_default();
        let fenced = self.bug != Some(Bug::PlanUnsequenced);
        if fenced && stream.last().is_some_and(|(last, _)| *last >= seq) {
            return Published::Known;
        }
        stream.push((seq, as_of_a_larger_plan(entry, event)));
        Published::New
    }

    /// Seals a cursor and the old run's journal; what is read first shows this much.
    pub(crate) fn publish_seal(&mut self, order: &Seal, view: View) {
        if let Some(run) = order.ends {
            self.journals.end(run, order.epoch, view.journals);
        }
        let sealed = self.cursors.seal(order, view.cursors);
        if let (Some(seq), Some(Bug::PositionsForgotten)) = (sealed, self.bug) {
            if let Some((_, cursor)) = self.cursors.stands(&order.agent) {
                let forgotten = Cursor { positions: Positions::default(), ..cursor.clone() };
                let _same_as_the_seal = self.cursors.write(&forgotten, seq);
            }
            self.readers.remove(&order.agent);
        }
    }

    /// Shows an entry's after-images, in order.
    pub(crate) fn publish_state(&mut self, index: usize) {
        if index == self.state_through {
            if self.bug != Some(Bug::StateSkipped) || index % 5 != 4 {
                self.state.apply(&self.ledger[index]);
            }
            self.state_through += 1;
            self.state_made = self.made;
        }
    }

    /// STATE as it was when it showed so many entries.
    pub(crate) fn state_at(&self, through: usize) -> Cow<'_, Records> {
        if through >= self.state_through {
            return Cow::Borrowed(&self.state);
        }
        Cow::Owned(self.shown(through).records())
    }

    /// What an owner finds in STATE when it shows so many entries.
    pub(crate) fn shown(&self, through: usize) -> Restart {
        let through = through.min(self.state_through).min(self.ledger.len());
        let mut restart = Restart::default();
        for (index, entry) in self.ledger[..through].iter().enumerate() {
            if self.bug != Some(Bug::StateSkipped) || index % 5 != 4 {
                restart.add(index as u64 + 1, entry);
            }
        }
        restart.skip(through as u64);
        restart
    }

    /// What STATE remembers of the ledger when it shows so many entries.
    pub(crate) fn memory(&self, through: usize) -> Memory {
        if self.state_made == 0 || through == 0 {
            return Memory::default();
        }
        let high = through.min(self.state_through) as u64;
        Memory { created: format!("made {}", self.state_made), high }
    }

    /// The server comes back with so many entries of its ledger, or with a ledger that is made
    /// anew; STATE is as old, or what it was.
    pub(crate) fn forget(&mut self, kept: usize, anew: bool, state_too: bool) {
        self.ledger.truncate(kept);
        self.made += u64::from(anew);
        if state_too {
            self.state_through = self.state_through.min(kept);
            self.state = Records::default();
            self.ledger[..self.state_through].iter().for_each(|entry| self.state.apply(entry));
            self.state_made = if anew { 0 } else { self.state_made };
        }
    }

    /// Claims a cursor; what is read first shows this much.
    pub(crate) fn claim(
        &mut self,
        who: &AgentId,
        epoch: u64,
        ours: &Claim,
        through: u64,
    ) -> (Claimed, Reader) {
        let reader = self.readers.get(who).copied().unwrap_or_default();
        let stands = self.cursors.stands(who).map(|(seq, _)| seq);
        match stands.filter(|_| self.bug == Some(Bug::ClaimUnchecked)) {
            Some(seq) => (Claimed::Ours(seq), reader),
            None => (self.cursors.claim(who, epoch, ours, through), reader),
        }
    }

    /// Claims the cursor of a new agent; what is read first shows this much.
    pub(crate) fn claim_first(
        &mut self,
        first: &Cursor,
        ours: &Claim,
        through: u64,
    ) -> (Claimed, Reader) {
        let reader = self.readers.get(&first.agent).copied().unwrap_or_default();
        (self.cursors.claim_first(first, ours, through), reader)
    }

    /// A cursor as it stands.
    pub(crate) fn cursor(&self, who: &AgentId) -> Option<&Cursor> {
        self.cursors.stands(who).map(|(_, cursor)| cursor)
    }

    /// The epoch that a cursor is sealed for; 0 before the first.
    pub(crate) fn sealed_for(&self, who: &AgentId) -> u64 {
        self.cursor(who).map_or(0, |cursor| cursor.epoch)
    }

    /// Whether whoever claimed a cursor for this epoch still holds it.
    pub(crate) fn holds(&self, who: &AgentId, epoch: u64, ours: &Claim) -> bool {
        let found = self.cursor(who);
        found.is_some_and(|cursor| cursor.epoch == epoch && cursor.claim.as_ref() == Some(ours))
    }

    /// Writes how far an agent has read over its cursor at `expect`; gives its sequence unless
    /// another stands there.
    pub(crate) fn save(&mut self, cursor: &Cursor, expect: u64, read: Reader) -> Option<u64> {
        let seq = self.cursors.write(cursor, expect).ok()?;
        self.readers.insert(cursor.agent.clone(), read);
        Some(seq)
    }

    /// Appends to a journal behind `expect`, or where it ends as far as is read; gives where it
    /// ends now unless it is another's.
    pub(crate) fn append(
        &mut self,
        (run, epoch): (RunId, u64),
        events: Vec<JournalEvent>,
        expect: Option<u64>,
        through: u64,
    ) -> Option<u64> {
        let expect = match expect {
            Some(expect) => expect,
            None => self.journals.open(run, epoch, through).ok()?,
        };
        let starts = events.iter().any(|it| matches!(it, JournalEvent::Starting { .. }));
        if starts && self.bug == Some(Bug::JournalSkipped) {
            return Some(expect);
        }
        self.journals.append(run, epoch, events, expect).ok()
    }

    /// What a run's journal says was used, and whether it has ended.
    pub(crate) fn left(&self, run: RunId) -> (Tally, bool) {
        let (mut tally, mut ended) = (Tally::default(), false);
        for event in self.journals.events(run) {
            tally.take(event);
            ended = matches!(event, JournalEvent::Ended { .. });
        }
        (tally, ended)
    }

    /// Whether a run's journal begins as it has to.
    pub(crate) fn is_begun(&self, run: RunId) -> bool {
        matches!(self.journals.events(run).next(), Some(JournalEvent::Starting { .. }))
    }
}

/// Plans of a simulation are small, and their events tell every node. Of every other goal they tell what changed,
/// as those of a larger plan do.
fn as_of_a_larger_plan(entry: &Entry, event: &PlanEvent) -> PlanEvent {
    let mut event = event.clone();
    if event.version > 1 && event.epic.0.0 % 2 == 1 {
        let keys: Vec<RecordKey> = entry.records.iter().map(Record::key).collect();
        let changed = changed(event.epic, keys.iter().chain(&entry.dropped));
        event.full = false;
        event.nodes.retain(|view| changed.contains(&view.id));
    }
    event
}
