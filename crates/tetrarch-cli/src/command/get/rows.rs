//! What a row of `get` shows, by kind: which records it is made of, what it can be filtered by,
//! its cells and its whole record for programs.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tetrarch_core::id::{AgentId, EpicId, HostName, NodeId, ProjectName, RunId};
use tetrarch_core::ledger::{Record, RecordKey};
use tetrarch_core::priority::Priorities;
use tetrarch_core::time::BusTime;
use tetrarch_view::row::place_of;

use crate::command::get::ResourceKind;
use crate::name::fits;
use crate::output::{Cell, TableRow, age};
use crate::{CliResult, StateSnapshot};

/// What names a row.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RowKey {
    /// An agent.
    Agent(AgentId),
    /// A host.
    Host(HostName),
    /// A run.
    Run(RunId),
    /// A goal.
    Goal(EpicId),
    /// A work node.
    Node(EpicId, NodeId),
}

impl RowKey {
    /// Whether this is the name a person gave.
    pub(crate) fn is_named(&self, name: &str) -> bool {
        match self {
            Self::Agent(id) => {
                let whole = name.parse::<AgentId>();
                whole.map_or_else(|_| fits(name, &id.to_string()), |named| named == *id)
            }
            Self::Host(host) => host.as_str() == name.strip_prefix("HO@").unwrap_or(name),
            Self::Run(run) => fits(name, &run.to_string()),
            Self::Goal(epic) => fits(name, &epic.to_string()),
            Self::Node(_, node) => node.to_string().eq_ignore_ascii_case(name),
        }
    }
}

/// What rows are filtered by.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Facts<'a> {
    /// The project it belongs to.
    pub(crate) project: Option<&'a ProjectName>,
    /// The epic it belongs to.
    pub(crate) epic: Option<EpicId>,
    /// The word of its state.
    pub(crate) state: &'static str,
}

const AGENT: &str = "NAME|STATE|NODE|SLOTS|HOST|LABEL|AGE|+RUN|+PARENT|+EPOCH|+TOKENS|+REASON";
const HOST: &str = "NAME|STATE|IN USE|CAPACITY|AGE|+LABELS|+ADDRESS";
const RUN: &str = "NAME|STATE|AGENT|NODE|OUTCOME|AGE|+EPIC|+TOKENS|+COST|+ERROR";
const GOAL: &str = "NAME|STATE|DONE|PROJECT|TITLE|AGE|+OWNER|+SUMMARY|+PRIORITY";
const NODE: &str = "NAME|STATE|ATTEMPTS|AGENT|TITLE|+EPIC|+DEPENDS ON|+BLOCKED BY|+PRIORITY";

/// The columns of a kind.
pub(crate) fn columns(kind: ResourceKind) -> &'static str {
    match kind {
        ResourceKind::Agents => AGENT,
        ResourceKind::Hosts => HOST,
        ResourceKind::Runs => RUN,
        ResourceKind::Goals => GOAL,
        ResourceKind::Nodes => NODE,
    }
}

/// Every row there is.
pub(crate) fn keys(snapshot: &StateSnapshot, kind: ResourceKind) -> Vec<RowKey> {
    let records = &snapshot.records;
    match kind {
        ResourceKind::Agents => records.agents.keys().cloned().map(RowKey::Agent).collect(),
        ResourceKind::Hosts => records.hosts.keys().cloned().map(RowKey::Host).collect(),
        ResourceKind::Runs => records.runs.keys().copied().map(RowKey::Run).collect(),
        ResourceKind::Goals => records.goals.keys().copied().map(RowKey::Goal).collect(),
        ResourceKind::Nodes => {
            let of_epic = records.nodes.iter();
            of_epic
                .flat_map(|(epic, nodes)| nodes.keys().map(|node| RowKey::Node(*epic, *node)))
                .collect()
        }
    }
}

/// The rows that records which changed are part of.
pub(crate) fn affected(
    snapshot: &StateSnapshot,
    changed: &[RecordKey],
    kind: ResourceKind,
) -> BTreeSet<RowKey> {
    let mut keys = BTreeSet::new();
    for key in changed {
        match (kind, key) {
            (ResourceKind::Agents, RecordKey::Agent(id)) => {
                keys.insert(RowKey::Agent(id.clone()));
            }
            (ResourceKind::Agents, RecordKey::RunStatus(run)) => {
                let status = snapshot.records.run_status.get(run);
                keys.extend(status.map(|status| RowKey::Agent(status.agent.clone())));
            }
            (ResourceKind::Hosts, RecordKey::Host(host) | RecordKey::Agent(AgentId::Ho(host))) => {
                keys.insert(RowKey::Host(host.clone()));
            }
            (ResourceKind::Runs, RecordKey::Run(run) | RecordKey::RunStatus(run)) => {
                keys.insert(RowKey::Run(*run));
            }
            (ResourceKind::Goals, RecordKey::Goal(epic) | RecordKey::GoalState(epic)) => {
                keys.insert(RowKey::Goal(*epic));
            }
            (
                ResourceKind::Nodes,
                RecordKey::Node(epic, node) | RecordKey::NodeState(epic, node),
            ) => {
                let above = std::iter::successors(Some(*node), |node| node.parent());
                keys.extend(above.map(|node| RowKey::Node(*epic, node)));
            }
            (
                ResourceKind::Agents
                | ResourceKind::Hosts
                | ResourceKind::Runs
                | ResourceKind::Goals
                | ResourceKind::Nodes,
                _,
            ) => {}
        }
    }
    keys
}

/// What a row can be filtered by.
pub(crate) fn facts<'a>(snapshot: &'a StateSnapshot, key: &RowKey) -> Facts<'a> {
    let records = &snapshot.records;
    let project_of = |epic: EpicId| records.goals.get(&epic).map(|goal| &goal.project);
    match key {
        RowKey::Agent(id) => records.agents.get(id).map_or_else(Facts::default, |agent| Facts {
            project: agent.project.as_ref(),
            epic: agent.work.as_ref().map(|work| work.epic),
            state: agent.liveness.as_str(),
        }),
        RowKey::Host(host) => Facts { state: host_state(snapshot, host), ..Facts::default() },
        RowKey::Run(run) => {
            let epic = records.runs.get(run).map(|run| run.epic);
            Facts { project: epic.and_then(project_of), epic, state: run_state(snapshot, *run) }
        }
        RowKey::Goal(epic) => Facts {
            project: project_of(*epic),
            epic: Some(*epic),
            state: records.goal_states.get(epic).map_or("", |state| state.status.as_str()),
        },
        RowKey::Node(epic, node) => Facts {
            project: project_of(*epic),
            epic: Some(*epic),
            state: snapshot.node_status(*epic, *node).as_str(),
        },
    }
}

fn host_state(snapshot: &StateSnapshot, host: &HostName) -> &'static str {
    let orchestrator = snapshot.records.agents.get(&AgentId::Ho(host.clone()));
    orchestrator.map_or("", |agent| agent.liveness.as_str())
}

fn run_state(snapshot: &StateSnapshot, run: RunId) -> &'static str {
    snapshot.records.run_status.get(&run).map_or("", |status| status.state.as_str())
}

/// How rows are made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowOptions {
    /// When it is, for ages.
    pub(crate) now: BusTime,
    /// Whether programs want the whole record; to write it takes longer than the row.
    pub(crate) whole: bool,
}

impl RowOptions {
    fn record(self, snapshot: &StateSnapshot, record: impl FnOnce() -> Record) -> CliResult<Value> {
        if self.whole { snapshot.json(&record()) } else { Ok(Value::Null) }
    }
}

/// The row; none when its records are not there.
///
/// # Errors
/// A record that cannot be written as JSON.
pub(crate) fn row(
    snapshot: &StateSnapshot,
    key: &RowKey,
    look: RowOptions,
) -> CliResult<Option<TableRow>> {
    match key {
        RowKey::Agent(id) => agent_row(snapshot, id, look),
        RowKey::Host(host) => host_row(snapshot, host, look),
        RowKey::Run(run) => run_row(snapshot, *run, look),
        RowKey::Goal(epic) => goal_row(snapshot, *epic, look),
        RowKey::Node(epic, node) => node_row(snapshot, (*epic, *node), look),
    }
}

fn agent_row(
    snapshot: &StateSnapshot,
    id: &AgentId,
    look: RowOptions,
) -> CliResult<Option<TableRow>> {
    let Some(agent) = snapshot.records.agents.get(id) else { return Ok(None) };
    let work = agent.work.as_ref();
    let spent = agent.account.spent.tokens;
    let slots = if agent.slots.is_empty() { String::new() } else { agent.slots.len().to_string() };
    let cells = vec![
        id.to_string().into(),
        Cell::state(agent.liveness.as_str()),
        Cell::some(work.map(|work| work.node)),
        slots.into(),
        place_of(agent).into(),
        agent.label.as_str().into(),
        age(look.now, agent.since).into(),
        Cell::state(work.map_or("", |work| run_state(snapshot, work.run))),
        Cell::some(agent.parent.as_ref()),
        agent.epoch.to_string().into(),
        Cell::some(Some(spent).filter(|spent| *spent > 0)),
        agent.reason.as_str().into(),
    ];
    let record = look.record(snapshot, || Record::Agent(Box::new(agent.clone())))?;
    Ok(Some(TableRow { cells, record }))
}

fn host_row(
    snapshot: &StateSnapshot,
    name: &HostName,
    look: RowOptions,
) -> CliResult<Option<TableRow>> {
    let Some(host) = snapshot.records.hosts.get(name) else { return Ok(None) };
    let labels: Vec<String> =
        host.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let cells = vec![
        name.as_str().into(),
        Cell::state(if host.drained { "drained" } else { host_state(snapshot, name) }),
        snapshot.records.places_taken_on(name).to_string().into(),
        host.capacity.to_string().into(),
        age(look.now, host.joined).into(),
        labels.join(",").into(),
        host.address.as_str().into(),
    ];
    let record = look.record(snapshot, || Record::Host(host.clone()))?;
    Ok(Some(TableRow { cells, record }))
}

/// A definition's JSON with its state's beside it.
fn with_state(mut definition: Value, state: Option<Value>) -> Value {
    if let (Value::Object(fields), Some(state)) = (&mut definition, state) {
        fields.insert("state".to_owned(), state);
    }
    definition
}

fn run_row(snapshot: &StateSnapshot, id: RunId, look: RowOptions) -> CliResult<Option<TableRow>> {
    let Some(run) = snapshot.records.runs.get(&id) else { return Ok(None) };
    let status = snapshot.records.run_status.get(&id);
    let result = status.and_then(|status| status.result.as_ref());
    let spend = status.map(|status| status.usage.spend()).unwrap_or_default();
    let cells = vec![
        id.to_string().into(),
        Cell::state(run_state(snapshot, id)),
        run.agent.to_string().into(),
        run.node.to_string().into(),
        Cell::state(result.map_or("", |result| result.outcome.as_str())),
        age(look.now, run.created).into(),
        run.epic.to_string().into(),
        spend.tokens.to_string().into(),
        cost(spend.cost_micro).into(),
        Cell::some(result.map(|result| &result.error)),
    ];
    let state =
        status.map(|status| look.record(snapshot, || Record::RunStatus(Box::new(status.clone()))));
    let definition = look.record(snapshot, || Record::Run(Box::new(run.clone())))?;
    Ok(Some(TableRow { cells, record: with_state(definition, state.transpose()?) }))
}

/// Millionths of a dollar as dollars.
pub(crate) fn cost(micro: u64) -> String {
    format!("${}.{:04}", micro / 1_000_000, micro % 1_000_000 / 100)
}

/// What was said of how urgent something is, for people.
pub(crate) fn said(priorities: Priorities) -> String {
    let Priorities { user, overseer } = priorities;
    let user = user.map(|said| said.to_string());
    let overseer = overseer.map(|said| format!("overseer {said}"));
    user.into_iter().chain(overseer).collect::<Vec<_>>().join(", ")
}

fn goal_row(snapshot: &StateSnapshot, id: EpicId, look: RowOptions) -> CliResult<Option<TableRow>> {
    let Some(goal) = snapshot.records.goals.get(&id) else { return Ok(None) };
    let state = snapshot.records.goal_states.get(&id);
    let summary = state.and_then(|state| state.result.as_ref()).map(|result| &result.summary);
    let cells = vec![
        id.to_string().into(),
        Cell::state(state.map_or("", |state| state.status.as_str())),
        Cell::some(state.map(|state| format!("{}%", state.percent))),
        goal.project.to_string().into(),
        goal.spec.title.as_str().into(),
        age(look.now, goal.created).into(),
        goal.owner.to_string().into(),
        Cell::some(summary),
        state.map(|state| said(state.priorities)).unwrap_or_default().into(),
    ];
    let state =
        state.map(|state| look.record(snapshot, || Record::GoalState(Box::new(state.clone()))));
    let definition = look.record(snapshot, || Record::Goal(Box::new(goal.clone())))?;
    Ok(Some(TableRow { cells, record: with_state(definition, state.transpose()?) }))
}

fn node_row(
    snapshot: &StateSnapshot,
    (epic, id): (EpicId, NodeId),
    look: RowOptions,
) -> CliResult<Option<TableRow>> {
    let nodes = snapshot.records.nodes.get(&epic);
    let Some(node) = nodes.and_then(|nodes| nodes.get(&id)) else { return Ok(None) };
    let states = snapshot.records.node_states.get(&epic);
    let state = states.and_then(|states| states.get(&id));
    let status = snapshot.node_status(epic, id);
    let blocker = state.and_then(|state| state.blocker.as_ref());
    let deps: Vec<String> = node.depends_on.iter().map(ToString::to_string).collect();
    let cells = vec![
        id.to_string().into(),
        Cell::state(status.as_str()),
        Cell::some(state.map(|state| format!("{}/{}", state.attempts, node.max_attempts))),
        Cell::some(state.and_then(|state| state.assignee.as_ref())),
        node.name.as_str().into(),
        epic.to_string().into(),
        deps.join(" ").into(),
        Cell::some(blocker.map(|blocker| format!("{}: {}", blocker.kind, blocker.detail))),
        state.map(|state| said(state.priorities)).unwrap_or_default().into(),
    ];
    let state = state
        .map(|state| look.record(snapshot, || Record::NodeState(epic, Box::new(state.clone()))));
    let definition = look.record(snapshot, || Record::Node(epic, Box::new(node.clone())))?;
    let mut record = with_state(definition, state.transpose()?);
    if let Value::Object(fields) = &mut record {
        fields.insert("status".to_owned(), json!(status.as_str()));
    }
    Ok(Some(TableRow { cells, record }))
}
