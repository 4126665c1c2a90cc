//! What happened, as the ledger tells it: how screens and lines list its events. What others wrote is in there as it
//! is: whoever shows it makes it visible.

use tetrarch_core::id::AgentId;
use tetrarch_core::ledger::{Event, EventKind};
use tetrarch_core::time::BusTime;

use crate::tone::Tone;

/// Events that a screen shows at first.
pub const EVENTS_SHOWN: usize = 200;
/// Columns of a kind: nearly all fit.
pub const KIND_WIDTH: usize = 17;

const BAD: [EventKind; 3] = [EventKind::Alert, EventKind::Refused, EventKind::SpawnDenied];
const WARN: [EventKind; 7] = [
    EventKind::Question,
    EventKind::DraftProposed,
    EventKind::Recovery,
    EventKind::NodeOverride,
    EventKind::PlannerAsked,
    EventKind::AgentEnding,
    EventKind::AgentReplaced,
];

/// An event, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRow {
    /// The sequence of its entry.
    pub seq: u64,
    /// When that was stored.
    pub at: BusTime,
    /// What happened.
    pub event: Event,
}

/// What a kind tells at a glance.
#[must_use]
pub fn tone(kind: EventKind) -> Tone {
    if BAD.contains(&kind) {
        return Tone::Bad;
    }
    if WARN.contains(&kind) { Tone::Warn } else { Tone::Plain }
}

/// What an event is about: the narrowest things it names. `name`: how an agent is called.
#[must_use]
pub fn about(event: &Event, name: impl Fn(&AgentId) -> String) -> String {
    let node = event.node.map(|node| node.to_string());
    let agent = event.agent.as_ref().map(name);
    let run = event.run.filter(|_| agent.is_none()).map(|run| run.to_string());
    let epic = event.epic.filter(|_| agent.is_none() && run.is_none()).map(|epic| epic.to_string());
    let parts: Vec<String> = [agent, run, epic, node].into_iter().flatten().collect();
    if parts.is_empty() { event.actor.to_string() } else { parts.join(" ") }
}

/// Whether an event is about an agent, or its doing.
#[must_use]
pub fn concerns(event: &Event, agent: &AgentId) -> bool {
    event.agent.as_ref() == Some(agent) || event.actor.agent() == Some(agent)
}

#[cfg(test)]
mod tests {
    use tetrarch_core::id::{EpicId, NodeId, Ulid};

    use super::*;
    use crate::row::short;

    fn event(actor: &str, agent: Option<&str>) -> Event {
        Event {
            kind: EventKind::RunState,
            actor: actor.parse().unwrap(),
            agent: agent.map(|id| id.parse().unwrap()),
            run: None,
            epic: Some(EpicId(Ulid::from_parts(1, 7))),
            node: Some(NodeId::task(1, 2)),
            request: None,
            reason: String::new(),
            rule: String::new(),
        }
    }

    #[test]
    fn event_is_about_the_narrowest_things_it_names() {
        assert_eq!(about(&event("GO", Some("PO-demo")), short), "PO-demo T1.2");
        let epic = EpicId(Ulid::from_parts(1, 7));
        assert_eq!(about(&event("GO", None), short), format!("{epic} T1.2"));
        let nothing = Event { epic: None, node: None, ..event("human:ada", None) };
        assert_eq!(about(&nothing, short), "human:ada");
    }

    #[test]
    fn event_concerns_whom_it_is_about_and_whose_doing_it_is() {
        for (actor, agent, concerned) in [
            ("GO", Some("PO-demo"), true),
            ("PO-demo", Some("HO@box"), true),
            ("PO-demo", None, true),
            ("GO", Some("HO@box"), false),
            ("human:ada", None, false),
        ] {
            let event = event(actor, agent);
            assert_eq!(concerns(&event, &"PO-demo".parse().unwrap()), concerned, "{event:?}");
        }
    }
}
