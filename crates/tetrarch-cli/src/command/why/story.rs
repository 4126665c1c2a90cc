//! Which events of the ledger explain how something came to be as it is: its own, those of the
//! runs and agents that served it while they did, of the hosts they were on, of the parents whose
//! circuit held them back. Pure: entries come in, events go out.

use std::collections::BTreeSet;

use tetrarch_core::agent::Agent;
use tetrarch_core::id::{AgentId, AssignmentId, EpicId, NodeId, RunId};
use tetrarch_core::ledger::{Entry, Event, EventKind, Record};
use tetrarch_core::liveness::Liveness;
use tetrarch_core::records::Records;

/// What is asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Focus {
    /// An agent, in all its sessions.
    Agent(AgentId),
    /// An attempt at some work, in all its runs.
    Attempt(AgentId, AssignmentId),
    /// A node of a plan.
    Node(EpicId, NodeId),
    /// A goal, with all that its plan has.
    Goal(EpicId),
}

/// The ledger so far, seen from one thing.
#[derive(Debug)]
pub(super) struct Story {
    focus: Focus,
    records: Records,
    serving: BTreeSet<AgentId>,
    runs: BTreeSet<RunId>,
}

impl Story {
    /// The story of a thing, before the first entry.
    pub(super) fn new(focus: Focus) -> Self {
        let (records, runs) = (Records::default(), BTreeSet::new());
        Self { focus, records, serving: BTreeSet::new(), runs }
    }

    /// Folds in what was before the first entry that is kept.
    pub(super) fn begin<'r>(&mut self, records: impl Iterator<Item = &'r Record>) {
        records.for_each(|record| self.fold(record));
    }

    /// Folds an entry in; gives those of its events that belong to the story, in their order.
    pub(super) fn read<'e>(&mut self, entry: &'e Entry) -> Vec<&'e Event> {
        let before: Vec<bool> = entry.events.iter().map(|event| self.is_of(event)).collect();
        entry.records.iter().for_each(|record| self.fold(record));
        let events = entry.events.iter().zip(before);
        events.filter(|(event, told)| *told || self.is_of(event)).map(|(event, _)| event).collect()
    }

    /// What is known of the agents, runs and nodes it came across.
    pub(super) fn records(&self) -> &Records {
        &self.records
    }

    fn fold(&mut self, record: &Record) {
        if let Record::Agent(agent) = record {
            let work = agent.work.as_ref();
            let serves = match &self.focus {
                Focus::Agent(id) => agent.id == *id,
                Focus::Attempt(id, assignment) => {
                    agent.id == *id && work.is_some_and(|work| work.assignment == *assignment)
                }
                Focus::Node(epic, node) => {
                    work.is_some_and(|work| (work.epic, work.node) == (*epic, *node))
                }
                Focus::Goal(epic) => work.is_some_and(|work| work.epic == *epic),
            };
            if serves {
                self.serving.insert(agent.id.clone());
            } else {
                self.serving.remove(&agent.id);
            }
            self.records.put(record.clone());
        } else if let Record::Run(run) = record {
            let serves = match &self.focus {
                Focus::Agent(id) => run.agent == *id,
                Focus::Attempt(_, assignment) => run.assignment == *assignment,
                Focus::Node(epic, node) => (run.epic, run.node) == (*epic, *node),
                Focus::Goal(epic) => run.epic == *epic,
            };
            if serves {
                self.runs.insert(run.id);
            }
        } else if let Record::RunStatus(status) = record
            && self.runs.contains(&status.id)
        {
            self.records.put(record.clone());
        } else if let Record::NodeState(epic, state) = record
            && self.focus == Focus::Node(*epic, state.id)
        {
            self.records.put(record.clone());
        }
    }

    fn is_of(&self, event: &Event) -> bool {
        let of_run = event.run.is_some_and(|run| self.runs.contains(&run));
        let of_plan = match &self.focus {
            Focus::Node(epic, node) => (event.epic, event.node) == (Some(*epic), Some(*node)),
            Focus::Goal(epic) => event.epic == Some(*epic),
            Focus::Agent(_) | Focus::Attempt(..) => false,
        };
        of_run || of_plan || event.agent.as_ref().is_some_and(|agent| self.is_about(agent, event))
    }

    fn is_about(&self, agent: &AgentId, event: &Event) -> bool {
        let itself = match &self.focus {
            Focus::Agent(id) => id == agent,
            Focus::Attempt(..) | Focus::Node(..) | Focus::Goal(_) => self.serving.contains(agent),
        };
        let of_host = [
            EventKind::HostJoined,
            EventKind::HostLeft,
            EventKind::HostDrained,
            EventKind::AgentLiveness,
        ];
        let of_parent = [EventKind::Alert, EventKind::CircuitClosed];
        itself
            || (of_host.contains(&event.kind) && self.served_on(agent))
            || (of_parent.contains(&event.kind) && self.served_below(agent))
    }

    /// Whether this is the orchestrator of a host on which somebody of the story is.
    fn served_on(&self, agent: &AgentId) -> bool {
        let AgentId::Ho(host) = agent else { return false };
        self.living().any(|agent| agent.placement.as_ref().is_some_and(|at| at.host == *host))
    }

    /// Whether somebody of the story is a child of this one.
    fn served_below(&self, parent: &AgentId) -> bool {
        self.living().any(|agent| agent.parent.as_ref() == Some(parent))
    }

    /// Those that serve it and have not ended: what comes later explains nothing of them.
    fn living(&self) -> impl Iterator<Item = &Agent> {
        let serving = self.serving.iter().filter_map(|id| self.records.agents.get(id));
        serving.filter(|agent| agent.liveness != Liveness::Terminated)
    }
}
