//! What arrives at the bus: messages of hosts and people, and owners' commits.

use std::fmt::Write as _;

use tetrarch_core::ledger::Entry;
use tetrarch_core::request::RequestBody;

use super::{COMPARED_EVERY, STOPPED, WIRES_MAX, World};
use crate::owner::{Owner, Sent, Way};
use crate::wire::{Sending, Wire};

impl World {
    /// A message arrives; in a storm not always once, and in order only from each sender, who
    /// waits for one acknowledgement after the other.
    pub(super) fn deliver(&mut self) {
        let late = self.faults.on && self.dice.percent(50);
        let some = if late { self.dice.below(self.wires.len()) } else { 0 };
        let cut = self.cut_off();
        let sent =
            |from: usize| self.wires.iter().skip(from).find(|sending| !cut.contains(&sending.life));
        let Some(sender) = sent(some).or_else(|| sent(0)).map(Sending::sender) else { return };
        let first = self.wires.iter().position(|sending| sending.sender() == sender);
        let Some(at) = first else { return };
        let way = self.way_of_write();
        if way == Way::Lost {
            return;
        }
        let repeated = self.faults.on && self.dice.percent(self.faults.repeat);
        let again = repeated || way == Way::Unheard;
        let wire = if again && self.wires.len() < WIRES_MAX {
            self.wires[at].wire.clone()
        } else {
            self.wires.remove(at).wire
        };
        let _ = match &wire {
            Wire::Request(r) => {
                writeln!(self.history, "  {} asks {}", r.sender.from, kind(&r.body))
            }
            Wire::Mail(m) => writeln!(self.history, "  {} writes {}", m.from, m.mail.body.topic()),
        };
        match wire {
            Wire::Request(request) => self.bus.store_request(*request),
            Wire::Mail(stored) => self.bus.store_mail(*stored),
        }
    }

    pub(super) fn commit(&mut self, at: usize) -> Result<(), String> {
        let (way, sight, bug) = (self.way_of_commit(at), self.sight(), self.bug);
        let truth = &self.truth;
        let spoil = |entry: &mut Entry| {
            if let Some(bug) = bug {
                bug.spoil(truth, entry);
            }
        };
        let sent = self.owners[at].send(&mut self.bus, self.now, way, &sight, spoil);
        let _ = writeln!(self.history, "  {way:?}: {sent:?}");
        match sent {
            Sent::Applied(_) if way == Way::Unheard => self.tally.note("acknowledgement lost"),
            Sent::Applied(_) => self.acknowledged(),
            Sent::Known => {
                self.tally.note("commit found its own before it");
                self.acknowledged();
            }
            Sent::Unknown if way == Way::Busy => {
                self.tally.note("commit refused, another in progress");
            }
            Sent::Unknown => self.tally.note("commit lost, sent again"),
            Sent::Reloaded => {
                self.tally.note("commit refused, reloaded");
                self.note_lag(at);
            }
            Sent::Deposed => {
                self.tally.note("owner deposed");
                self.owners.remove(at);
            }
            Sent::Amnesia => {
                self.tally.note(STOPPED);
                self.owners.remove(at);
            }
        }
        self.nothing_follows()?;
        self.look()?;
        if !self.looked_at.is_multiple_of(COMPARED_EVERY) {
            return Ok(());
        }
        let settled = self.owners.get(at).and_then(Owner::settled_records);
        let same = settled.is_none_or(|records| *records == self.truth);
        let gone = matches!(sent, Sent::Deposed | Sent::Amnesia);
        if same || gone || way == Way::Unheard || bug.is_some() {
            Ok(())
        } else {
            Err("invariant 20: an owner's records are not what the ledger replays to".to_owned())
        }
    }
}

fn kind(body: &RequestBody) -> &'static str {
    match body {
        RequestBody::Spawn(_) => "spawn",
        RequestBody::Op(op) => op.name(),
        RequestBody::Report(report) => report.kind(),
        RequestBody::Malformed { .. } => "malformed",
    }
}
