//! What is new on the ledger is looked at entry by entry: by core's checker, and by rules that need
//! a longer memory than records have.

use std::fmt::Write as _;

use tetrarch_bus::codec::encode_entry;
use tetrarch_core::check::{check, check_entry};
use tetrarch_core::intensity::Intensity;
use tetrarch_core::ledger::{Entry, Record};
use tetrarch_core::limits::COMMIT_BYTES_MAX;

use super::World;
use crate::observe::observe;

impl World {
    /// Invariant 3, for longer than the owner remembers.
    fn decided_once(&mut self, entry: &Entry) -> Option<String> {
        let decisions = entry.records.iter().filter_map(|record| {
            let Record::Decision(decision) = record else { return None };
            Some(decision)
        });
        for new in decisions.flat_map(|decision| (**decision).clone().each()) {
            let old = self.watch.decided.insert(new.request, new.clone());
            if old.is_some_and(|old| old != new) {
                return Some(format!("invariant 3: {} was decided otherwise before", new.request));
            }
        }
        None
    }

    /// Invariant 23: a circuit is open when more failed below it than is borne.
    fn restrained(&self, entry: &Entry) -> Option<String> {
        let Intensity { max, window } = self.intensity;
        entry.records.iter().find_map(|record| {
            let Record::Agent(agent) = record else { return None };
            let times = agent.circuit.failures.times();
            let last = times.last()?;
            let recent = times.iter().filter(|at| *last - **at <= window).count();
            let borne = usize::try_from(max).unwrap_or(usize::MAX);
            let what = format!("invariant 23: {recent} failed below {}, {max} are borne", agent.id);
            (recent > borne && !agent.circuit.is_open()).then_some(what)
        })
    }

    /// Invariant 21: an entry, and each record in it, is within its bound.
    fn bounded(entry: &Entry) -> Option<String> {
        match encode_entry(entry) {
            Ok(bytes) if bytes.len() <= COMMIT_BYTES_MAX => None,
            Ok(bytes) => Some(format!("invariant 21: an entry of {} bytes", bytes.len())),
            Err(error) => Some(format!("invariant 21: {error}")),
        }
    }

    /// Looks at what is new on the ledger.
    pub(super) fn look(&mut self) -> Result<(), String> {
        while let Some(entry) = self.bus.ledger.get(self.looked_at).cloned() {
            let entry = &entry;
            let seq = self.looked_at as u64 + 1;
            let asked = self.overseen(entry);
            let mut found = check_entry(&self.truth, seq, entry);
            observe(entry, &mut self.tally);
            self.truth.apply(entry);
            found.extend(check(&self.truth));
            let mut found: Vec<String> = found.iter().map(ToString::to_string).collect();
            found.extend(asked);
            found.extend(self.decided_once(entry));
            found.extend(self.restrained(entry));
            found.extend(Self::bounded(entry));
            let kinds: Vec<&str> = entry.events.iter().map(|event| event.kind.as_str()).collect();
            let _ = writeln!(self.history, "  entry {seq} of {}: {kinds:?}", entry.epoch);
            self.looked_at += 1;
            if !found.is_empty() {
                return Err(found.join("; "));
            }
        }
        Ok(())
    }
}
