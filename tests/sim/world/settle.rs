//! Quiet: time passes when nothing else can happen, and in the end everything is where it has to
//! be.

use std::collections::BTreeSet;

use tetrarch_core::agent::Agent;
use tetrarch_core::goal::GoalStatus;
use tetrarch_core::id::AgentId;
use tetrarch_core::limits::OFFLINE_WINDOWS;
use tetrarch_core::liveness::Liveness;
use tetrarch_core::plan::view::whole;
use tetrarch_core::plan::{Blocker, DEPENDS, NodeStatus, PlanEvent};
use tetrarch_core::role::Role;

use tetrarch_core::time::Millis;

use super::{WINDOW, World};
use crate::host::Host;
use crate::owner::Owner;
use crate::seat::Seat;

/// Windows without work that are looked at in the end.
const IDLE_WINDOWS: u64 = 8;

impl World {
    /// Nothing can happen: time passes until something does by itself.
    pub(super) fn wait(&mut self) {
        if let Some(at) = self.next_timer() {
            self.now = self.now.max(at);
        }
        if !self.faults.on && self.owners.len() > 1 && self.owners.iter().all(Owner::can_decide) {
            // One that has nothing to commit finds out by its lease.
            let newest = self.owners.iter().map(|owner| owner.epoch).max();
            self.owners.retain(|owner| Some(owner.epoch) == newest);
            self.tally.note("owner deposed");
        }
    }

    /// Whether nothing more is going to happen.
    pub(super) fn is_settled(&mut self) -> bool {
        let given = self.people.is_content() && self.wires.is_empty();
        let (Some(owner), 1) = (self.owners.first(), self.owners.len()) else { return false };
        let owner = !owner.can_take(&self.bus, self.now)
            && !owner.can_send()
            && !owner.can_publish(&self.bus)
            && !owner.reads()
            && owner.sweeping.is_idle();
        // Silence that began before is found out later.
        let known = self.now - self.calmed > Millis(OFFLINE_WINDOWS * WINDOW.0);
        given
            && known
            && owner
            && self.hosts.iter().all(|host| self.is_present(host))
            && self.truth.agents.values().all(|agent| self.is_seated(agent))
            && self.truth.goals.keys().all(|epic| self.is_closed(*epic))
            && self.truth.queued_spawns.is_empty()
            && self.possible().is_empty()
    }

    /// Joined, and known to be up.
    fn is_present(&self, host: &Host) -> bool {
        let record = self.truth.agents.get(&AgentId::Ho(host.name.clone()));
        host.has_joined() && record.is_some_and(|ho| ho.liveness == Liveness::Active)
    }

    /// Where it is placed, unless it is over: that nobody is there is found out later.
    fn is_seated(&self, agent: &Agent) -> bool {
        let over = matches!(agent.liveness, Liveness::Terminated | Liveness::Offline);
        let Some(placement) = agent.placement.as_ref().filter(|_| !over) else { return true };
        let host = self.hosts.iter().find(|host| host.name == placement.host);
        let seat = host.and_then(|host| host.seats.get(&agent.id));
        seat.is_some_and(|seat| seat.epoch() == agent.epoch)
    }

    /// Reached with its result, or blocked with nothing left to do, or waiting for what is cancelled.
    fn is_closed(&self, epic: tetrarch_core::id::EpicId) -> bool {
        let Some(goal) = self.truth.goal_states.get(&epic) else { return false };
        match goal.status {
            GoalStatus::Completed => goal.result.is_some(),
            GoalStatus::Cancelled | GoalStatus::Archived => true,
            GoalStatus::Paused => false,
            GoalStatus::Active => {
                let states: BTreeSet<NodeStatus> = self
                    .truth
                    .node_states
                    .get(&epic)
                    .into_iter()
                    .flat_map(|states| states.values().map(|state| state.status))
                    .collect();
                let open = [NodeStatus::Queued, NodeStatus::InProgress];
                let stands = states.contains(&NodeStatus::Blocked) || self.is_left_waiting(epic);
                stands && open.iter().all(|s| !states.contains(s))
            }
        }
    }

    /// The last look: who should be gone is gone, what is shown is what is true.
    pub(super) fn judge(&mut self) -> Result<(), String> {
        for goal in self.truth.goal_states.values() {
            self.tally.note(match goal.status {
                GoalStatus::Completed => "goal completed",
                GoalStatus::Cancelled
                | GoalStatus::Archived
                | GoalStatus::Paused
                | GoalStatus::Active => "goal stands blocked",
            });
        }
        for (epic, states) in &self.truth.node_states {
            for state in states.values() {
                // A human stopped it, nobody answered its last attempt in time, or it was admitted while
                // grants of ended siblings were not settled, and was granted the nothing that was left.
                let given = |blocker: &Blocker| {
                    blocker.kind == "stopped"
                        || blocker.kind == DEPENDS
                        || blocker.detail.contains("nobody answered")
                        || blocker.detail.contains("of 0 tokens are used")
                };
                let given = state.blocker.as_ref().is_some_and(given);
                let escalated = self.is_escalated(state);
                if escalated {
                    self.tally.note("people never answer an escalation");
                }
                let given = given || escalated;
                if state.status == NodeStatus::Blocked && !given {
                    return Err(format!("{epic} {} is blocked: {:?}", state.id, state.blocker));
                }
            }
        }
        self.all_ended()?;
        for agent in self.truth.agents.values() {
            let member = Role::of(&agent.id).takes_slot();
            if member && agent.liveness != Liveness::Terminated {
                return Err(format!("invariant 27: {} is {} at the end", agent.id, agent.liveness));
            }
        }
        for host in &self.hosts {
            let running = host.seats.values().filter(|seat| matches!(seat, Seat::Agent(_))).count();
            if running > 0 {
                return Err(format!("invariant 22: {running} programs run on {}", host.name));
            }
        }
        for (at, entry) in self.bus.ledger.iter().enumerate() {
            for (index, mail) in entry.mail.iter().enumerate() {
                let place = (at as u64 + 1, index);
                if !self.bus.has_mail(&mail.to, mail.body.lane(), place) {
                    let (topic, to) = (mail.body.topic(), &mail.to);
                    return Err(format!("invariant 15: {topic} for {to} did not arrive"));
                }
            }
        }
        if self.bus.state != self.truth {
            return Err("invariant 20: STATE is not what the ledger replays to".to_owned());
        }
        self.plans_add_up()
    }

    /// The events of each plan come to what it is, in the order of its versions.
    fn plans_add_up(&self) -> Result<(), String> {
        for (epic, events) in &self.bus.plans {
            let known = events.iter().try_fold(None, |known: Option<PlanEvent>, (_, event)| {
                event.clone().onto(known.as_ref()).map(Some)
            });
            let told = known.ok().flatten().map(|event| (event.nodes, event.counts));
            if told != whole(&self.truth, *epic).map(|event| (event.nodes, event.counts)) {
                return Err(format!(
                    "invariant 13: the events of {epic} do not add up to its plan"
                ));
            }
            for (at, (_, event)) in events.iter().enumerate() {
                if u64::from(event.version) != at as u64 + 1 {
                    return Err(format!(
                        "invariant 13: version {} of {epic} repeats",
                        event.version
                    ));
                }
            }
        }
        Ok(())
    }

    /// Nothing is to be done any more: time passes, and nobody says or does anything but renew.
    pub(super) fn idle(&mut self) -> Result<(), String> {
        let (entries, requests) = (self.bus.ledger.len(), self.bus.requests.len());
        let until = self.now + Millis(IDLE_WINDOWS * WINDOW.0);
        while self.now < until {
            self.step()?;
        }
        let same = (entries, requests) == (self.bus.ledger.len(), self.bus.requests.len());
        if same && self.is_settled() {
            return Ok(());
        }
        Err("invariant 29: with nothing to do something was written".to_owned())
    }

    /// What has not settled, in words.
    pub(super) fn what_is_open(&self) -> String {
        let goals = self.truth.goal_states.values().map(|goal| {
            let states = self.truth.node_states.get(&goal.id).into_iter().flatten();
            let states: Vec<String> = states
                .map(|(id, state)| format!("{id} {} {:?}", state.status, state.purpose))
                .collect();
            format!("{} {} {:?} {states:?}", goal.id, goal.status, goal.result.is_some())
        });
        let live = self.truth.agents.values().filter(|a| a.liveness != Liveness::Terminated);
        let live = live.map(|a| format!("{} {} {}", a.id, a.epoch, a.liveness));
        let seats = self.hosts.iter().flat_map(|host| host.seats.values().map(Seat::stands));
        format!(
            "goals {:#?}, agents {:#?}, seats {:#?}, queued {:#?}, wires {}, owners {}",
            goals.collect::<Vec<_>>(),
            live.collect::<Vec<_>>(),
            seats.collect::<Vec<_>>(),
            self.truth.queued_spawns.values().collect::<Vec<_>>(),
            self.wires.len(),
            self.owners.len(),
        )
    }
}
