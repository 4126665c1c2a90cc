//! Everything about one thing, for programs: the records as STATE has them, each under its name,
//! and the run's journal.

use serde_json::{Map, Value};
use tetrarch_bus::journal::Journaled;
use tetrarch_core::id::{AgentId, EpicId, HostName, NodeId, ProjectName, RunId};
use tetrarch_core::ledger::Record;

use crate::command::describe::journal;
use crate::command::describe::target::DescribeTarget;
use crate::{CliResult, StateSnapshot};

/// The records of a thing and of what it points to.
///
/// # Errors
/// A record that cannot be written as JSON.
pub(super) fn value(
    snapshot: &StateSnapshot,
    thing: &DescribeTarget,
    journal: &[Journaled],
) -> CliResult<Value> {
    let mut whole = DescribedRecord { snapshot, fields: Map::new() };
    match thing {
        DescribeTarget::Agent(id) => whole.agent(id)?,
        DescribeTarget::Run(run) => {
            whole.run(*run)?;
            let agent = snapshot.records.runs.get(run).map(|run| run.agent.clone());
            let agent = agent.and_then(|id| snapshot.records.agents.get(&id));
            whole.one("agent", agent, Record::Agent)?;
        }
        DescribeTarget::Goal(epic) => whole.goal(*epic)?,
        DescribeTarget::Node(epic, node) => whole.node(*epic, *node)?,
        DescribeTarget::Project(name) => whole.project(name)?,
        DescribeTarget::Host(host) => whole.host(host)?,
    }
    if !journal.is_empty() {
        whole.fields.insert("journal".to_owned(), journal::values(journal)?);
    }
    Ok(Value::Object(whole.fields))
}

struct DescribedRecord<'a> {
    snapshot: &'a StateSnapshot,
    fields: Map<String, Value>,
}

impl DescribedRecord<'_> {
    fn one<T: Clone>(
        &mut self,
        name: &str,
        found: Option<&T>,
        of: impl Fn(Box<T>) -> Record,
    ) -> CliResult {
        if let Some(found) = found {
            let json = self.snapshot.json(&of(Box::new(found.clone())))?;
            self.fields.insert(name.to_owned(), json);
        }
        Ok(())
    }

    fn many<'b, T: Clone + 'b>(
        &mut self,
        name: &str,
        found: impl IntoIterator<Item = &'b T>,
        of: impl Fn(Box<T>) -> Record,
    ) -> CliResult {
        let values =
            found.into_iter().map(|found| self.snapshot.json(&of(Box::new(found.clone()))));
        let values = values.collect::<CliResult<Vec<Value>>>()?;
        self.fields.insert(name.to_owned(), Value::Array(values));
        Ok(())
    }

    fn agent(&mut self, id: &AgentId) -> CliResult {
        let agent = self.snapshot.records.agents.get(id);
        self.one("agent", agent, Record::Agent)?;
        let queued = self.snapshot.records.spawns_queued_for(id);
        self.many("queued", queued, Record::QueuedSpawn)?;
        if let AgentId::Ho(host) = id {
            self.host(host)?;
        }
        match agent.and_then(|agent| agent.work.as_ref()) {
            Some(work) => self.run(work.run),
            None => Ok(()),
        }
    }

    fn run(&mut self, id: RunId) -> CliResult {
        let records = &self.snapshot.records;
        let run = records.runs.get(&id);
        let assignment = run.and_then(|run| records.assignments.get(&run.assignment));
        self.one("run", run, Record::Run)?;
        self.one("runState", records.run_status.get(&id), Record::RunStatus)?;
        self.one("assignment", assignment, Record::Assignment)
    }

    fn goal(&mut self, epic: EpicId) -> CliResult {
        let records = &self.snapshot.records;
        self.one("goal", records.goals.get(&epic), Record::Goal)?;
        self.one("goalState", records.goal_states.get(&epic), Record::GoalState)?;
        self.one("plan", records.plans.get(&epic), Record::Plan)?;
        let nodes = records.nodes.get(&epic).into_iter().flat_map(|nodes| nodes.values());
        self.many("nodes", nodes, |node| Record::Node(epic, node))?;
        let states = records.node_states.get(&epic).into_iter().flat_map(|states| states.values());
        self.many("nodeStates", states, |state| Record::NodeState(epic, state))?;
        let left = records.crystallizations.get(&epic).into_iter().flat_map(|left| left.values());
        self.many("crystallizations", left, Record::Crystallization)
    }

    fn node(&mut self, epic: EpicId, id: NodeId) -> CliResult {
        let records = &self.snapshot.records;
        let node = records.nodes.get(&epic).and_then(|nodes| nodes.get(&id));
        self.one("node", node, |node| Record::Node(epic, node))?;
        let state = records.node_states.get(&epic).and_then(|states| states.get(&id));
        self.one("nodeState", state, |state| Record::NodeState(epic, state))?;
        let left = records.crystallizations.get(&epic).and_then(|left| left.get(&Some(id)));
        self.one("crystallization", left, Record::Crystallization)
    }

    fn project(&mut self, name: &ProjectName) -> CliResult {
        let records = &self.snapshot.records;
        self.one("project", records.projects.get(name), |project| Record::Project(*project))?;
        self.one("agent", records.agents.get(&AgentId::Po(name.clone())), Record::Agent)?;
        let profiles = records.profiles.iter().filter(|((project, _), _)| project == name);
        let profiles = profiles.map(|(_, profile)| profile);
        self.many("profiles", profiles, |profile| Record::Profile(name.clone(), profile))?;
        let goals = records.goals.values().filter(|goal| goal.project == *name);
        self.many("goals", goals, Record::Goal)
    }

    fn host(&mut self, host: &HostName) -> CliResult {
        let records = &self.snapshot.records;
        self.one("host", records.hosts.get(host), |host| Record::Host(*host))?;
        let placed = records.placed_on(host).filter_map(|id| records.agents.get(id));
        self.many("agents", placed, Record::Agent)
    }
}
