//! Why there is no place for an agent: no host is up, none is one that its placement allows, all are full, or its
//! orchestrator has all the agents that it may have.

use std::collections::BTreeSet;

use super::finding::Finder;
use super::{ObstacleKind as Kind, Remedy, Subject};
use crate::admission::{HostView, satisfies};
use crate::agent::Agent;
use crate::id::{AgentId, EpicId, HostName, NodeId};
use crate::plan::PlacementWish;

impl Finder<'_> {
    /// Why no host takes an agent with this wish; nothing where one does.
    pub(super) fn placement(&mut self, wish: &PlacementWish, on: Option<(EpicId, NodeId)>) {
        let names = |hosts: Vec<String>| hosts.join(", ");
        if self.hosts.is_empty() {
            let known = self.records.agents.values().filter(|it| matches!(it.id, AgentId::Ho(_)));
            let known = names(known.map(|it| format!("{} is {}", it.id, it.liveness)).collect());
            let what = if known.is_empty() {
                "no host is running".to_owned()
            } else {
                format!("no host is running: {known}")
            };
            let remedies = vec![Remedy::StartHost(None, Vec::new())];
            return self.note(Kind::NoHost, Subject::Hosts, None, what, remedies, on);
        }
        let fitting: Vec<&HostView> =
            self.hosts.iter().filter(|host| satisfies(host, wish)).collect();
        if fitting.is_empty() {
            let up = names(self.hosts.iter().map(labelled).collect());
            let what = format!("no running host is {}; running: {up}", wished(wish));
            let name = wish.host.clone().or_else(|| self.new_name());
            let remedies = vec![Remedy::StartHost(name, wish.labels.clone())];
            return self.note(Kind::NoHostFits, Subject::Hosts, None, what, remedies, on);
        }
        if fitting.iter().any(|host| host.has_room()) {
            return;
        }
        let full = fitting
            .iter()
            .map(|host| format!("{} {} of {}", host.placement.host, host.load, host.capacity));
        let what = format!("all matching hosts are full: {}", names(full.collect()));
        let remedies = vec![Remedy::StartHost(self.new_name(), wish.labels.clone())];
        self.note(Kind::HostsFull, Subject::Hosts, None, what, remedies, on);
    }

    /// Slots that are held come free when their holders end: that is progress, but not a goal's own when all of them
    /// work for others.
    pub(super) fn slots_taken(&mut self, epic: EpicId, by: &Agent, on: Option<(EpicId, NodeId)>) {
        let holders = by.slots.iter().filter_map(|slot| self.records.agents.get(&slot.child));
        let epics: BTreeSet<Option<EpicId>> =
            holders.map(|agent| agent.work.as_ref().map(|work| work.epic)).collect();
        if epics.iter().any(|it| it.is_none_or(|it| it == epic)) {
            return;
        }
        let others: Vec<String> = epics.iter().flatten().map(ToString::to_string).collect();
        let what = format!(
            "all {} agents of {} work for other goals: {}",
            by.slots_held(),
            by.id,
            others.join(", ")
        );
        let remedies = vec![Remedy::Describe(by.id.clone())];
        self.note(Kind::SlotsTaken, Subject::Agent(by.id.clone()), None, what, remedies, on);
    }

    /// A name that no host has.
    fn new_name(&self) -> Option<HostName> {
        let names = (2..=self.records.hosts.len() + 2)
            .filter_map(|n| HostName::new(&format!("host-{n}")).ok());
        names.into_iter().find(|name| !self.records.hosts.contains_key(name))
    }
}

fn labelled(host: &HostView) -> String {
    let labels: Vec<String> =
        host.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    match labels.as_slice() {
        [] => format!("{} (no labels)", host.placement.host),
        some => format!("{} ({})", host.placement.host, some.join(", ")),
    }
}

fn wished(wish: &PlacementWish) -> String {
    let name = wish.host.as_ref().map(|name| format!("named {name}"));
    let labels: Vec<String> =
        wish.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let labels = (!labels.is_empty()).then(|| format!("labelled {}", labels.join(", ")));
    name.into_iter().chain(labels).collect::<Vec<_>>().join(" and ")
}
