//! Why no host takes an agent: none is up, none is one that its placement allows, or all are full.

use super::finding::Finder;
use super::{ObstacleKind as Kind, Remedy, Subject};
use crate::admission::{HostView, satisfies};
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
