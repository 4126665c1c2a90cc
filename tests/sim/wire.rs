//! What is on its way to the bus, and what a part of the world can reach of the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use tetrarch_core::cursor::Positions;
use tetrarch_core::id::{
    AgentId, AssignmentId, DispatchId, EpicId, NodeId, Principal, RequestId, SessionId, sha256_hex,
};
use tetrarch_core::ledger::Decision;
use tetrarch_core::mail::Mail;
use tetrarch_core::records::Records;
use tetrarch_core::request::{Request, RequestBody, Sender};
use tetrarch_core::time::BusTime;
use tetrarch_tests::simulated::Leases;

use crate::bus::{Bus, Stored, View};
use crate::dice::Dice;
use crate::tally::Tally;

/// Times an agent of one node may end badly, so that its attempts are not used up.
const FAILURES_MAX: usize = 3;

/// A message that has not arrived.
#[derive(Debug, Clone)]
pub(crate) enum Wire {
    Request(Box<Request>),
    Mail(Box<Stored>),
}

impl Wire {
    pub(crate) fn request(sender: Sender, id: RequestId, body: RequestBody) -> Self {
        let digest = sha256_hex(format!("{body:?}").as_bytes());
        Self::Request(Box::new(Request {
            seq: 0,
            sender,
            id,
            digest,
            trace: None,
            credential: None,
            body,
        }))
    }

    pub(crate) fn mail(from: AgentId, mail: Mail) -> Self {
        Self::Mail(Box::new(Stored { place: None, from: from.into(), mail, seq: 0 }))
    }
}

/// A message on its way, and the process that would send it again if it were lost.
#[derive(Debug)]
pub(crate) struct Sending {
    pub(crate) wire: Wire,
    /// The life of the host that sends it; 0 for people.
    pub(crate) life: u64,
    /// The sender has noted that it is stored, so it is not lost with its process.
    pub(crate) kept: bool,
}

impl Sending {
    /// Who sends it, in which life.
    pub(crate) fn sender(&self) -> (&Principal, u64) {
        let from = match &self.wire {
            Wire::Request(request) => &request.sender.from,
            Wire::Mail(stored) => &stored.from,
        };
        (from, self.life)
    }
}

/// What happened that must not happen twice.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    pub(crate) starts: BTreeSet<(AgentId, u64)>,
    pub(crate) failures: BTreeMap<(EpicId, NodeId), usize>,
    /// How far each agent has handled its inbox for good.
    pub(crate) read: BTreeMap<AgentId, Positions>,
    /// When an assignment was told some words last.
    pub(crate) asked: BTreeMap<(AssignmentId, String), BusTime>,
    /// Status requests that reached a session's program.
    pub(crate) taken: BTreeSet<(SessionId, DispatchId)>,
    /// What was decided on each request.
    pub(crate) decided: BTreeMap<RequestId, Decision>,
    pub(crate) broken: Vec<String>,
}

/// What a process can reach.
pub(crate) struct Reach<'w> {
    pub(crate) bus: &'w mut Bus,
    pub(crate) leases: &'w mut Leases,
    pub(crate) wires: &'w mut Vec<Sending>,
    pub(crate) dice: &'w mut Dice,
    pub(crate) tally: &'w mut Tally,
    pub(crate) watch: &'w mut Watch,
    pub(crate) truth: &'w Records,
    pub(crate) history: &'w mut String,
    pub(crate) now: BusTime,
    pub(crate) faulty: bool,
    /// Answers to renewals that are lost, of a hundred.
    pub(crate) unheard: usize,
    /// What a replica that lags behind shows.
    pub(crate) replica: View,
    /// Reads that such a replica answers, of a hundred.
    pub(crate) stale: usize,
    /// Writes that are refused for nothing, of a hundred.
    pub(crate) spurious: usize,
    /// Questions that nobody answers, of a hundred.
    pub(crate) unanswered: usize,
    /// Nobody leads the streams: nothing is acknowledged.
    pub(crate) electing: bool,
}

impl Reach<'_> {
    /// Writes down what happens.
    pub(crate) fn tell(&mut self, what: std::fmt::Arguments<'_>) {
        let _never_fails = writeln!(self.history, "  {what}");
    }

    /// Whether whoever works on a node may do so badly; counts that it does.
    pub(crate) fn may_fail(&mut self, epic: EpicId, node: NodeId) -> bool {
        let failed = self.watch.failures.entry((epic, node)).or_default();
        let added = self.truth.nodes.get(&epic).and_then(|nodes| nodes.get(&node));
        let attempts = added.map_or(1, |node| node.max_attempts);
        // The last attempt is spared.
        let may_fail = self.faulty && *failed < FAILURES_MAX && *failed + 1 < attempts as usize;
        if may_fail {
            *failed += 1;
        }
        may_fail
    }

    /// What the next read shows.
    pub(crate) fn view(&mut self) -> View {
        let now = self.bus.view(self.leases);
        if !self.faulty || now == self.replica || !self.dice.percent(self.stale) {
            return now;
        }
        self.tally.note("stale read");
        self.replica
    }

    pub(crate) fn send(&mut self, wire: Wire, life: u64) {
        self.wires.push(Sending { wire, life, kept: false });
    }

    /// An agent notes that all it sent is stored, before it notes what it has read.
    pub(crate) fn keep(&mut self, who: &AgentId, life: u64) {
        for sending in self.wires.iter_mut() {
            let (from, of) = sending.sender();
            sending.kept |= of == life && from.agent() == Some(who);
        }
    }
}
