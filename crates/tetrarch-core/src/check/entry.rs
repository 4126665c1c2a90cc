//! One entry by itself: epochs, what it covers, plan versions and their events, decisions, one
//! launch and one seal for every new session, on a host that is up (spec 10, invariants 3, 4, 7, 8,
//! 13, 20, 22).

use std::collections::{BTreeMap, BTreeSet};

use crate::agent::{Agent, Hosting};
use crate::id::{AgentId, EpicId};
use crate::ledger::{Entry, EventKind, Record};
use crate::limits::DECISION_KEPT;
use crate::liveness::Liveness;
use crate::mail::{Mail, MailBody};
use crate::plan::NodeState;
use crate::records::Records;
use crate::role::Role;

use super::Findings;
use super::tree::is_live;

/// Looks at an entry as a whole.
pub(super) fn check(before: &Records, entry: &Entry, found: &mut Findings) {
    epochs(before, entry, found);
    let mut keys = BTreeSet::new();
    for record in &entry.records {
        let key = record.key();
        let once = keys.insert(key.clone());
        found.must(once, 20, &entry.commit, format_args!("two images of one record, {key:?}"));
    }
    for key in &entry.dropped {
        let clear = !keys.contains(key);
        found.must(clear, 20, &entry.commit, format_args!("{key:?} is both written and forgotten"));
    }
    if entry.tells(EventKind::LedgerAccepted) {
        // What the lost entries did cannot be looked at any more.
        return;
    }
    plans(before, entry, found);
    for record in &entry.records {
        if let Record::Decision(decision) = record {
            for decision in (**decision).clone().each() {
                let known = before.decisions.get(&decision.request);
                let first = known.is_none_or(|known| {
                    *known == decision || decision.at - known.at > DECISION_KEPT
                });
                found.must(first, 3, &decision.request, "it was decided before, and otherwise");
            }
        }
        if let Record::Agent(agent) = record {
            begin(before, entry, agent, found);
            on_a_life(before, entry, agent, found);
        }
    }
}

fn epochs(before: &Records, entry: &Entry, found: &mut Findings) {
    let (old, new) = (before.epoch, entry.epoch);
    found.must(new >= old, 8, &entry.commit, format_args!("its owner's epoch {new} follows {old}"));
    let (old, new) = (before.intake_seq, entry.intake_seq);
    found.must(
        new >= old || entry.tells(EventKind::IntakeMoved),
        20,
        &entry.commit,
        format_args!("requests are decided up to {new}, they were up to {old}"),
    );
    if entry.epoch > before.epoch {
        let told = entry.records.iter().any(|record| {
            matches!(record, Record::Agent(go) if go.id == AgentId::Go && go.epoch == entry.epoch)
        });
        found.must(told, 8, &entry.commit, "a new owner's first entry does not say so");
    }
}

fn plans(before: &Records, entry: &Entry, found: &mut Findings) {
    let mut events: BTreeMap<EpicId, u32> = BTreeMap::new();
    for event in &entry.plans {
        let once = events.insert(event.epic, event.version).is_none();
        found.must(once, 13, &event.epic, "two events of one plan in one entry");
    }
    let mut touched = BTreeSet::new();
    let mut raised = BTreeSet::new();
    for record in &entry.records {
        match record {
            Record::Plan(plan) => {
                let old = before.plans.get(&plan.epic).map_or(0, |plan| plan.version);
                found.must(
                    old.checked_add(1) == Some(plan.version),
                    13,
                    &plan.epic,
                    format_args!("version {} follows {old}", plan.version),
                );
                let told = events.get(&plan.epic) == Some(&plan.version);
                found.must(
                    told,
                    13,
                    &plan.epic,
                    format_args!("version {} has no event", plan.version),
                );
                raised.insert(plan.epic);
            }
            // Failures are counted on the node; the plan that people see is the same.
            Record::NodeState(epic, state) if only_counts(before, *epic, state) => {}
            Record::Node(epic, _) | Record::NodeState(epic, _) => drop(touched.insert(*epic)),
            Record::GoalState(state) => drop(touched.insert(state.id)),
            Record::Agent(_)
            | Record::Host(_)
            | Record::Project(_)
            | Record::Profile(..)
            | Record::Run(_)
            | Record::RunStatus(_)
            | Record::Goal(_)
            | Record::Assignment(_)
            | Record::Dispatch(_)
            | Record::Planning(_)
            | Record::Question(_)
            | Record::Draft(_)
            | Record::Crystallization(_)
            | Record::Schedule(_)
            | Record::Graph(_)
            | Record::Note(_)
            | Record::Turn(_)
            | Record::Reservation(_)
            | Record::Change(_)
            | Record::QueuedSpawn(_)
            | Record::Decision(_)
            | Record::Snapshot(_) => {}
        }
    }
    for epic in touched.difference(&raised) {
        found.must(false, 13, epic, "its plan changed and its version did not");
    }
    for epic in events.keys().filter(|epic| !raised.contains(epic)) {
        found.must(false, 13, epic, "there is an event of a plan that did not change");
    }
}

/// A session that begins is sealed, and launched once where a host runs it.
fn begin(before: &Records, entry: &Entry, agent: &Agent, found: &mut Findings) {
    let id = &agent.id;
    let old = before.agents.get(id).map_or(0, |agent| agent.epoch);
    let launches = |epoch: Option<u64>| {
        let of_it = |mail: &&Mail| {
            matches!(&mail.body, MailBody::Launch(launch)
                if launch.agent == *id && epoch.is_none_or(|epoch| launch.epoch == epoch))
        };
        entry.mail.iter().filter(of_it).count()
    };
    if agent.epoch == old || agent.session.is_none() {
        found.must(launches(None) == 0, 4, id, format_args!("epoch {old} is launched again"));
        return;
    }
    match Role::of(id) {
        Role::Global | Role::Host => return,
        Role::Project | Role::Interaction | Role::Specialist | Role::Reviewer | Role::Worker => {}
    }
    let epoch = agent.epoch;
    let sealed = entry.seals.iter().any(|seal| {
        seal.agent == *id && seal.epoch == epoch && Some(seal.session) == agent.session
    });
    found.must(sealed, 7, id, format_args!("epoch {epoch} begins and its cursor is not sealed"));
    if agent.hosting == Hosting::Hosted && is_live(agent) {
        let count = launches(Some(epoch));
        found.must(count == 1, 4, id, format_args!("epoch {epoch} is launched {count} times"));
    }
}

/// What is begun, or heard of, is placed under a life of its host that is not over.
fn on_a_life(before: &Records, entry: &Entry, agent: &Agent, found: &mut Findings) {
    let stands = |agent: &Agent| (agent.epoch, agent.liveness, agent.placement.clone());
    let known = before.agents.get(&agent.id).is_some_and(|old| stands(old) == stands(agent));
    let Some(placement) = agent.placement.as_ref().filter(|_| agent.has_process() && !known) else {
        return;
    };
    let ho = AgentId::Ho(placement.host.clone());
    let mut images = entry.records.iter().filter_map(|record| {
        let Record::Agent(agent) = record else { return None };
        (agent.id == ho).then_some(&**agent)
    });
    let host = images.next().or_else(|| before.agents.get(&ho));
    let alive = host.is_some_and(|host| {
        matches!(host.liveness, Liveness::Active | Liveness::Stale)
            && host.epoch == placement.host_epoch
    });
    let Agent { id, liveness, .. } = agent;
    let (life, host) = (placement.host_epoch, &placement.host);
    let what = format_args!("it is {liveness} on life {life} of {host}, which is over");
    found.must(alive, 22, id, what);
}

fn only_counts(before: &Records, epic: EpicId, state: &NodeState) -> bool {
    let known = before.node_states.get(&epic).and_then(|states| states.get(&state.id));
    known.is_some_and(|known| {
        let counted = NodeState { failures: state.failures.clone(), ..known.clone() };
        known.failures != state.failures && counted == *state
    })
}
