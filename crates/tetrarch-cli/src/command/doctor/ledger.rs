//! `doctor --check-ledger`: folds the whole ledger, or the latest snapshot and the ledger after it
//! when it is trimmed, names every invariant that an entry or the result breaks (spec 10), and
//! compares the result with STATE, and on its way with the snapshot.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tetrarch_bus::snapshot::Base;
use tetrarch_bus::state::{Loaded, load};
use tetrarch_bus::subject::Subject;
use tetrarch_bus::subject::pattern::LEDGER;
use tetrarch_bus::tail::{InvalidEntry, LedgerItem, read_ledger};
use tetrarch_bus::{Bus, snapshot};
use tetrarch_core::check::{Violation, check, check_entry};
use tetrarch_core::id::CommitId;
use tetrarch_core::ledger::{Entry, Record, RecordKey};
use tetrarch_core::records::Records;

use crate::output;
use crate::{CliError, CliResult, Code, Context};

/// Entries that are read at one stroke.
const STRETCH: u64 = 2048;
/// That every state follows from the ledger (spec 10).
const REPLAY: u8 = 20;
/// That a deposed owner commits nothing (spec 10).
const DEPOSED: u8 = 8;
/// That any bytes are borne (spec 10).
const BYTES: u8 = 24;

/// Checks the ledger and prints what is broken.
///
/// # Errors
/// Something is broken, or the ledger cannot be read.
pub(super) async fn run(context: &Context, bus: &Bus) -> CliResult {
    let begin = snapshot::base(bus).await?;
    let kept = match snapshot::latest(bus).await? {
        // What is begun with cannot be compared with itself.
        Some(latest) if latest.through > begin.through => Some(snapshot::read(bus, &latest).await?),
        Some(_) | None => None,
    };
    let from = begin.through;
    let loaded = load(bus).await;
    let last = bus.stream_last_seq(LEDGER).await?;
    let mut audit = LedgerFold::new(loaded).beginning(begin).expecting(kept);
    while audit.next <= last {
        let through = last.min(audit.next.saturating_add(STRETCH - 1));
        let items = read_ledger(bus, audit.next, through, audit.highest).await;
        if items.is_empty() {
            break;
        }
        audit.stretch(&items);
    }
    if bus.stream_extent(LEDGER).await?.first > from + 1 {
        return Err(CliError::new(Code::Failed, "the ledger was trimmed while it was read")
            .hint("run the check again"));
    }
    let report = audit.finish();
    // A reader that went away has seen enough.
    output::record(context.output, &report.json(), || report.text())?;
    match report.violations.len() {
        0 => Ok(()),
        broken => Err(CliError::new(Code::Failed, format!("{broken} rules are broken"))
            .hint("stop the owner, keep the ledger as it is, and report this with its output")),
    }
}

/// The fold so far, and what of STATE is still to be found on the ledger.
#[derive(Debug, Default)]
pub(super) struct LedgerFold {
    pub(super) next: u64,
    pub(super) highest: u64,
    from: u64,
    kept: Option<Base>,
    entries: u64,
    records: Records,
    written: BTreeMap<RecordKey, u64>,
    dropped: BTreeMap<RecordKey, u64>,
    state: BTreeMap<RecordKey, (Record, u64)>,
    found: BTreeSet<RecordKey>,
    standing: BTreeSet<(u8, String)>,
    published: u64,
    violations: Vec<Violation>,
}

/// What came out.
#[derive(Debug)]
pub(super) struct LedgerReport {
    pub(super) from: u64,
    pub(super) entries: u64,
    pub(super) records: usize,
    pub(super) violations: Vec<Violation>,
}

impl LedgerFold {
    pub(super) fn new(loaded: Loaded) -> Self {
        let unreadable = loaded.unreadable.into_iter().map(|broken| Violation {
            invariant: REPLAY,
            subject: broken.subject,
            what: format!("STATE has an unreadable value: {}", broken.error),
            seq: (broken.ledger_seq > 0).then_some(broken.ledger_seq),
            commit: None,
        });
        let state = loaded.records.into_iter().map(|(record, seq)| (record.key(), (record, seq)));
        Self {
            next: 1,
            state: state.collect(),
            published: loaded.meta.map_or(0, |meta| meta.outbox_through),
            violations: unreadable.collect(),
            ..Self::default()
        }
    }

    /// Folds some entries that follow each other, and looks at what they come to.
    pub(super) fn stretch(&mut self, items: &[LedgerItem]) {
        let before = self.records.clone();
        items.iter().for_each(|item| self.take(item));
        let mut sought: BTreeSet<_> = check(&self.records).iter().map(about).collect();
        sought.retain(|broken| !self.standing.contains(broken));
        if !sought.is_empty() {
            self.locate(before, items, sought);
        }
    }

    /// Finds the entry after which something does not hold any more.
    fn locate(
        &mut self,
        mut records: Records,
        items: &[LedgerItem],
        mut sought: BTreeSet<(u8, String)>,
    ) {
        for item in items {
            let Ok(entry) = &item.entry else { continue };
            records.apply(entry);
            for violation in check(&records) {
                let broken = about(&violation);
                if sought.remove(&broken) {
                    self.standing.insert(broken);
                    let (seq, commit) = (Some(item.seq), Some(entry.commit));
                    self.violations.push(Violation { seq, commit, ..violation });
                }
            }
            if sought.is_empty() {
                return;
            }
        }
    }

    /// Begins with a snapshot instead of nothing.
    pub(super) fn beginning(mut self, base: Base) -> Self {
        self.from = base.through;
        self.next = base.through + 1;
        self.highest = base.epoch;
        self.records = base.folded();
        for (record, seq) in &base.records {
            self.written.insert(record.key(), *seq);
            self.compare(record, *seq, None);
        }
        for violation in check(&self.records) {
            self.standing.insert(about(&violation));
            self.violations.push(Violation { seq: Some(base.through), ..violation });
        }
        self
    }

    /// Compares a snapshot with the fold where it was taken.
    pub(super) fn expecting(mut self, kept: Option<Base>) -> Self {
        self.kept = kept;
        self
    }

    fn compare_snapshot(&mut self, seq: u64) {
        let Some(kept) = self.kept.take_if(|kept| kept.through <= seq) else { return };
        let places: BTreeMap<RecordKey, u64> =
            kept.records.iter().map(|(record, seq)| (record.key(), *seq)).collect();
        if kept.folded() != self.records || places != self.written {
            let what = "the snapshot of this entry differs from the ledger".to_owned();
            self.broken(REPLAY, "snapshot", what, kept.through, None);
        }
    }

    /// Looks whether STATE has a record as the entry it names has it.
    fn compare(&mut self, record: &Record, seq: u64, by: Option<CommitId>) {
        let key = record.key();
        if let Some((known, at)) = self.state.get(&key)
            && *at == seq
        {
            let same = known == record;
            self.found.insert(key.clone());
            if !same {
                let what = "STATE differs from the entry it names".to_owned();
                self.broken(REPLAY, &name(&key), what, seq, by);
            }
        }
    }

    fn take(&mut self, item: &LedgerItem) {
        let seq = item.seq;
        if seq != self.next {
            let what = format!("sequences {} to {} are missing", self.next, seq - 1);
            self.broken(REPLAY, LEDGER, what, seq, None);
        }
        self.next = seq + 1;
        match &item.entry {
            Ok(entry) => self.fold(seq, entry),
            Err(InvalidEntry::Undecodable(error)) => {
                self.broken(BYTES, LEDGER, format!("not a commit: {error}"), seq, None);
            }
            Err(
                error @ (InvalidEntry::Deposed { commit, .. }
                | InvalidEntry::Impossible { commit, .. }),
            ) => {
                self.broken(DEPOSED, LEDGER, error.to_string(), seq, Some(*commit));
            }
        }
        self.compare_snapshot(seq);
    }

    fn fold(&mut self, seq: u64, entry: &Entry) {
        self.entries += 1;
        self.highest = self.highest.max(entry.epoch);
        self.violations.extend(check_entry(&self.records, seq, entry));
        self.records.apply(entry);
        for record in &entry.records {
            self.compare(record, seq, Some(entry.commit));
            let key = record.key();
            self.dropped.remove(&key);
            self.written.insert(key, seq);
        }
        for key in &entry.dropped {
            self.written.remove(key);
            self.dropped.insert(key.clone(), seq);
        }
    }

    pub(super) fn finish(mut self) -> LedgerReport {
        for (key, (_, seq)) in &self.state {
            let what = match (self.found.contains(key), self.dropped.get(key)) {
                (false, _) => format!("STATE names entry {seq}, which does not write it"),
                (true, Some(dropped)) if dropped > seq && *dropped <= self.published => {
                    format!("STATE has it, but entry {dropped} removed it")
                }
                (true, _) => continue,
            };
            self.violations.push(violation(REPLAY, &name(key), what, None, None));
        }
        for (key, seq) in self.written.iter().filter(|(_, seq)| **seq <= self.published) {
            let at = self.state.get(key).map(|(_, at)| *at);
            if at.is_none_or(|at| at < *seq) {
                let has = at.map_or("nothing".to_owned(), |at| format!("entry {at}"));
                let what = format!("STATE has {has} of it, entry {seq} is its last and published");
                self.violations.push(violation(REPLAY, &name(key), what, None, None));
            }
        }
        let (from, entries, records) = (self.from, self.entries, self.written.len());
        LedgerReport { from, entries, records, violations: self.violations }
    }

    fn broken(&mut self, rule: u8, subject: &str, what: String, seq: u64, by: Option<CommitId>) {
        self.violations.push(violation(rule, subject, what, Some(seq), by));
    }
}

fn violation(
    invariant: u8,
    subject: &str,
    what: String,
    seq: Option<u64>,
    commit: Option<CommitId>,
) -> Violation {
    Violation { invariant, subject: subject.to_owned(), what, seq, commit }
}

/// What a violation of a state is known by while it lasts: its numbers may change.
fn about(violation: &Violation) -> (u8, String) {
    (violation.invariant, violation.subject.clone())
}

/// The record's key as STATE has it.
fn name(key: &RecordKey) -> String {
    Subject::State(key.clone()).to_string()
}

impl LedgerReport {
    fn summary(&self) -> String {
        let Self { from, entries, records, violations } = self;
        let found = match violations.len() {
            0 => "nothing broken".to_owned(),
            broken => format!("{broken} broken"),
        };
        let after = match from {
            0 => String::new(),
            from => format!(" after the snapshot of {from}"),
        };
        format!("{entries} entries{after}, {records} records, {found}")
    }

    fn text(&self) -> String {
        let lines = self.violations.iter().map(|violation| output::visible(&violation.to_string()));
        lines.chain([self.summary()]).collect::<Vec<_>>().join("\n")
    }

    fn json(&self) -> Value {
        let violations = self.violations.iter().map(|violation| {
            json!({
                "invariant": violation.invariant,
                "subject": violation.subject,
                "what": violation.what,
                "seq": violation.seq,
                "commit": violation.commit.map(|commit| commit.to_string()),
            })
        });
        json!({
            "snapshot": self.from,
            "entries": self.entries,
            "records": self.records,
            "violations": violations.collect::<Vec<_>>(),
        })
    }
}
