//! Names every broken invariant (spec 10) of a set of records, and of one entry on top of them:
//! what `doctor --check-ledger` folds a ledger through, and the simulator after every commit.
//! It looks and tells; it repairs and refuses nothing, and shares no code with what decides.

mod entry;
mod folding;
mod gate;
mod history;
mod plan;
#[cfg(test)]
mod tests;
mod tree;
mod work;

use std::fmt::{self, Display};

use crate::id::CommitId;
use crate::ledger::{Entry, EventKind};
use crate::records::Records;

/// One broken invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Its number in the list of spec 10.
    pub invariant: u8,
    /// The record it is about, in the words of its key.
    pub subject: String,
    /// What is wrong, with the numbers.
    pub what: String,
    /// The ledger sequence of the entry that broke it, when one entry was looked at.
    pub seq: Option<u64>,
    /// That entry's commit.
    pub commit: Option<CommitId>,
}

impl Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invariant {}: {}: {}", self.invariant, self.subject, self.what)?;
        match (self.seq, self.commit) {
            (Some(seq), Some(commit)) => write!(f, " (ledger sequence {seq}, commit {commit})"),
            (Some(seq), None) => write!(f, " (ledger sequence {seq})"),
            (None, _) => Ok(()),
        }
    }
}

/// Every broken invariant of a set of records (spec 10: 1, 2, 5, 6, 8, 10, 12 to 14, 17, 18, 22
/// and 27, as far as records show them). Nothing can be said while there are records that this
/// version cannot read: the others hang together with them.
#[must_use]
pub fn check(records: &Records) -> Vec<Violation> {
    let mut found = Findings::default();
    if !records.held.is_empty() {
        return found.list;
    }
    tree::check(records, &mut found);
    work::check(records, &mut found);
    plan::check(records, &mut found);
    found.list
}

/// Every invariant that an entry breaks, given the records before it (spec 10: 2, 3, 4, 5, 6, 7,
/// 8, 10, 13, 18, 19 and 20, as far as one step shows them); none as for [`check`]. `seq`: its sequence on the ledger.
#[must_use]
pub fn check_entry(before: &Records, seq: u64, entry: &Entry) -> Vec<Violation> {
    let mut found = Findings { seq: Some(seq), commit: Some(entry.commit), ..Findings::default() };
    if !(before.held.is_empty() && entry.held.is_empty()) {
        return found.list;
    }
    entry::check(before, entry, &mut found);
    if !entry.tells(EventKind::LedgerAccepted) {
        history::check(before, entry, &mut found);
    }
    found.list
}

/// What was found so far.
#[derive(Debug, Default)]
struct Findings {
    list: Vec<Violation>,
    seq: Option<u64>,
    commit: Option<CommitId>,
}

impl Findings {
    /// Notes a broken invariant unless `holds`.
    /// The words are made only then: most of what is looked at is sound.
    fn must(&mut self, holds: bool, invariant: u8, subject: &dyn Display, what: impl Display) {
        if !holds {
            let (subject, what) = (subject.to_string(), what.to_string());
            let (seq, commit) = (self.seq, self.commit);
            self.list.push(Violation { invariant, subject, what, seq, commit });
        }
    }
}
