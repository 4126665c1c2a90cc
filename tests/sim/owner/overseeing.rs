//! The overseer's shell of the simulation: what it hears of agents' progress, when it looks, and that
//! looking again at the same moment changes nothing.

use std::collections::BTreeMap;

use tetrarch_core::id::AgentId;
use tetrarch_core::ledger::{Entry, Record};
use tetrarch_core::mail::MailBody;
use tetrarch_core::overseer::Telemetry;
use tetrarch_core::owner::{Group, Input, decide};
use tetrarch_core::records::Records;
use tetrarch_core::time::{BusTime, Millis};

use super::{Owner, Rules};
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

/// One look at everything that is due, into the group.
pub(crate) fn look(
    records: &mut Records,
    group: &mut Group,
    rules: &Rules,
    telemetry: &Telemetry,
    now: BusTime,
) {
    if rules.bug == Some(Bug::BackoffForgotten) {
        let overseen: Vec<_> =
            records.quiet().chain(records.quiet_by_own_time()).map(|(_, id)| id).collect();
        for id in overseen {
            let mut assignment = records.assignments[&id].clone();
            assignment.recovery.backoff_until = BusTime::default();
            records.put(Record::Assignment(Box::new(assignment)));
        }
    }
    let input = Input::Oversee(telemetry.clone());
    loop {
        let step = decide(records, &rules.policy, now, &input);
        let over = step.is_empty() || rules.bug != Some(Bug::TickUnbounded);
        group.add(records, step, None);
        if over {
            return;
        }
    }
}

impl Owner {
    /// Whether its overseer has to look.
    pub(super) fn oversees(&self, now: BusTime) -> bool {
        let at = self.overseeing.next(&self.records);
        self.rules.bug != Some(Bug::NeverDue) && at.is_some_and(|at| at <= now)
    }

    /// Looks when it is time to; says what is wrong when a second look finds something to do.
    pub(super) fn oversee(&mut self, now: BusTime, tally: &mut Tally) -> Option<String> {
        if !self.oversees(now) || self.group.is_full() {
            return None;
        }
        self.overseeing.looked = now;
        let telemetry = self.overseeing.telemetry();
        let before = self.records.dispatches.len();
        look(&mut self.records, &mut self.group, &self.rules, &telemetry, now);
        if self.records.dispatches.len() > before {
            tally.note("status asked for");
        }
        let again = decide(&self.records, &self.rules.policy, now, &Input::Oversee(telemetry));
        let idempotent = again.is_empty() || self.records.assignments.len() > ONE_LOOK;
        (!idempotent).then(|| format!("the tick: a second look changes {:?}", again.records))
    }

    /// As an owner sends what it has not committed.
    pub(super) fn send_early(entry: &Entry, bus: &mut Bus) {
        let early = entry.mail.iter().filter(|m| matches!(m.body, MailBody::StatusRequest(_)));
        for mail in early {
            let from = AgentId::Go.into();
            bus.store_mail(Stored { place: None, from, mail: mail.clone(), seq: 0 });
        }
    }
}
