//! The overseer's shell of the simulation: what it hears of agents' progress, when it looks, and that
//! looking again at the same moment changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use tetrarch_core::id::AgentId;
use tetrarch_core::ledger::Entry;
use tetrarch_core::mail::{Mail, MailBody};
use tetrarch_core::overseer::Telemetry;
use tetrarch_core::owner::{Input, decide};
use tetrarch_core::records::Records;
use tetrarch_core::time::{BusTime, Millis};

use super::Owner;
use crate::bug::Bug;
use crate::bus::{Bus, Stored};
use crate::host::Renewal;
use crate::tally::Tally;

/// How often an overseer looks while there is somebody to look after.
const OVERSEEN_EVERY: Millis = Millis(200);
/// Assignments up to which one look takes all that is due, whatever they are.
const ONE_LOOK: usize = 40;

/// What an overseer hears, gone with its owner.
#[derive(Debug)]
pub(crate) struct Overseeing {
    since: BusTime,
    looked: BusTime,
    heard: BTreeMap<AgentId, Heard>,
}

#[derive(Debug)]
struct Heard {
    epoch: u64,
    progress: u64,
    grew: Option<BusTime>,
}

impl Overseeing {
    pub(super) fn start(now: BusTime) -> Self {
        Self { since: now, looked: BusTime::default(), heard: BTreeMap::new() }
    }

    /// A host's renewal says how far its programs are.
    pub(crate) fn hear(&mut self, renewal: &Renewal, now: BusTime) {
        for (agent, epoch, progress) in &renewal.progress {
            let first = Heard { epoch: *epoch, progress: *progress, grew: None };
            let heard = self.heard.entry(agent.clone()).or_insert(first);
            if heard.epoch != *epoch {
                *heard = Heard { epoch: *epoch, progress: *progress, grew: None };
            } else if heard.progress < *progress {
                *heard = Heard { epoch: *epoch, progress: *progress, grew: Some(now) };
            }
        }
    }

    fn telemetry(&self) -> Telemetry {
        let grew = self.heard.iter().filter_map(|(who, heard)| Some((who.clone(), heard.grew?)));
        Telemetry { since: self.since, progressed: grew.collect(), ..Telemetry::default() }
    }

    /// When it looks next; never while there is nobody to look after.
    pub(super) fn next(&self, records: &Records) -> Option<BusTime> {
        let mut overseen = records.quiet().chain(records.quiet_by_own_time());
        overseen.next().map(|_| self.looked + OVERSEEN_EVERY)
    }
}

impl Owner {
    /// Has its overseer look when it is time to; gives what it is told of agents.
    pub(super) fn oversee(&mut self, now: BusTime) -> Option<Telemetry> {
        let at = self.overseeing.next(self.governor.records());
        if self.rules.bug == Some(Bug::NeverDue) || at.is_none_or(|at| at > now) {
            return None;
        }
        self.overseeing.looked = now;
        let telemetry = Telemetry { looked: self.governor.looked(), ..self.overseeing.telemetry() };
        self.governor.oversee(telemetry.clone(), now);
        Some(telemetry)
    }

    /// Says what is wrong when a second look finds something to do, unless the first is not over.
    pub(super) fn look_again(
        &self,
        telemetry: Telemetry,
        now: BusTime,
        tally: &mut Tally,
    ) -> Result<(), String> {
        let records = self.governor.records();
        let asked = |entry: &Arc<Entry>| entry.mail.iter().any(asks);
        if self.governor.in_flight().is_some_and(asked) {
            tally.note("status asked for");
        }
        if self.governor.waiting() > 0 || records.assignments.len() > ONE_LOOK {
            return Ok(());
        }
        let again = decide(records, &self.rules.policy, now, &Input::Oversee(telemetry));
        if again.is_empty() {
            return Ok(());
        }
        Err(format!("the tick: a second look changes {:?}", again.records))
    }

    /// As an owner sends what it has not committed.
    pub(super) fn send_early(entry: &Entry, bus: &mut Bus) {
        for mail in entry.mail.iter().filter(|mail| asks(mail)) {
            let from = AgentId::Go.into();
            bus.store_mail(Stored { place: None, from, mail: mail.clone(), seq: 0 });
        }
    }
}

fn asks(mail: &Mail) -> bool {
    matches!(mail.body, MailBody::StatusRequest(_))
}
