//! What can be described: its name, the record that has to be there, and what is read with it.

use tetrarch_bus::state::Select;
use tetrarch_bus::subject::KeyKind;
use tetrarch_core::id::{AgentId, EpicId, HostName, NodeId, ProjectName, RunId};
use tetrarch_core::ledger::RecordKey;

use crate::{CliError, CliResult, Code};

/// What is described.
pub(super) enum DescribeTarget {
    Agent(AgentId),
    Run(RunId),
    Goal(EpicId),
    Node(EpicId, NodeId),
    Project(ProjectName),
    Host(HostName),
}

impl DescribeTarget {
    /// What a name says.
    ///
    /// # Errors
    /// It is the name of nothing that can be described.
    pub(super) fn named(text: &str) -> CliResult<Self> {
        let wrong =
            |error: tetrarch_core::id::IdError| CliError::new(Code::Usage, error.to_string());
        if let Some(name) = text.strip_prefix("project/") {
            return ProjectName::new(name).map(Self::Project).map_err(wrong);
        }
        if let Some(name) = text.strip_prefix("host/") {
            return HostName::new(name).map(Self::Host).map_err(wrong);
        }
        let run = text.strip_prefix("run/").unwrap_or(text);
        if run.starts_with("run_") {
            return run.parse().map(Self::Run).map_err(wrong);
        }
        if let Some((epic, node)) =
            text.split_once('/').filter(|(epic, _)| epic.starts_with("goal_"))
        {
            let epic = epic.parse().map_err(wrong)?;
            return node.parse().map(|node| Self::Node(epic, node)).map_err(wrong);
        }
        if text.starts_with("goal_") {
            return text.parse().map(Self::Goal).map_err(wrong);
        }
        let agent: Result<AgentId, _> = text.parse();
        agent.map(Self::Agent).map_err(|error| {
            wrong(error)
                .hint("name an agent, a run, a goal, <goal>/<node>, project/<name> or host/<name>")
        })
    }

    /// The record that has to be there.
    pub(super) fn key(&self) -> RecordKey {
        match self {
            Self::Agent(id) => RecordKey::Agent(id.clone()),
            Self::Run(run) => RecordKey::Run(*run),
            Self::Goal(epic) => RecordKey::Goal(*epic),
            Self::Node(epic, node) => RecordKey::Node(*epic, *node),
            Self::Project(name) => RecordKey::Project(name.clone()),
            Self::Host(host) => RecordKey::Host(host.clone()),
        }
    }

    /// Everything that is read with it at once.
    pub(super) fn records(&self) -> Vec<Select> {
        let mut wanted = vec![Select::One(self.key())];
        match self {
            Self::Agent(AgentId::Ho(host)) => {
                wanted.push(Select::One(RecordKey::Host(host.clone())));
                wanted.push(Select::Kind(KeyKind::Agent));
            }
            Self::Agent(_) => wanted.push(Select::Kind(KeyKind::QueuedSpawn)),
            Self::Run(run) => wanted.push(Select::One(RecordKey::RunStatus(*run))),
            Self::Goal(epic) => {
                wanted.push(Select::One(RecordKey::GoalState(*epic)));
                wanted.push(Select::One(RecordKey::Plan(*epic)));
                wanted.push(Select::OfEpic(KeyKind::Node, *epic));
                wanted.push(Select::OfEpic(KeyKind::NodeState, *epic));
                wanted.push(Select::OfEpic(KeyKind::Crystallization, *epic));
            }
            Self::Node(epic, node) => {
                wanted.push(Select::One(RecordKey::Plan(*epic)));
                wanted.push(Select::OfEpic(KeyKind::NodeState, *epic));
                wanted.push(Select::One(RecordKey::Crystallization(*epic, Some(*node))));
            }
            Self::Project(name) => {
                wanted.push(Select::One(RecordKey::Agent(AgentId::Po(name.clone()))));
                wanted.extend(
                    [KeyKind::Profile, KeyKind::Goal, KeyKind::GoalState].map(Select::Kind),
                );
            }
            Self::Host(host) => {
                wanted.push(Select::One(RecordKey::Agent(AgentId::Ho(host.clone()))));
                wanted.push(Select::Kind(KeyKind::Agent));
            }
        }
        wanted
    }
}
