//! Everything about one thing, for programs: the records as STATE has them, each under its name,
//! and the run's journal.

use serde_json::{Map, Value};
use tetrarch_bus::journal::Journaled;
use tetrarch_core::agent::Agent;
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
            whole.one("agent", agent.and_then(|id| snapshot.records.agents.get(&id)).map(boxed))?;
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

fn boxed(agent: &Agent) -> Record {
    Record::Agent(Box::new(agent.clone()))
}

struct DescribedRecord<'a> {
    snapshot: &'a StateSnapshot,
    fields: Map<String, Value>,
}

impl DescribedRecord<'_> {
    fn one(&mut self, name: &str, record: Option<Record>) -> CliResult {
        if let Some(record) = record {
            self.fields.insert(name.to_owned(), self.snapshot.json(&record)?);
        }
        Ok(())
    }

    fn many(&mut self, name: &str, records: impl Iterator<Item = Record>) -> CliResult {
        let values: CliResult<Vec<Value>> =
            records.map(|record| self.snapshot.json(&record)).collect();
        self.fields.insert(name.to_owned(), Value::Array(values?));
        Ok(())
    }

    fn agent(&mut self, id: &AgentId) -> CliResult {
        let agent = self.snapshot.records.agents.get(id);
        self.one("agent", agent.map(boxed))?;
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
        self.one("run", run.map(|run| Record::Run(Box::new(run.clone()))))?;
        let status = records.run_status.get(&id);
        self.one("runState", status.map(|status| Record::RunStatus(Box::new(status.clone()))))?;
        self.one("assignment", assignment.map(|found| Record::Assignment(Box::new(found.clone()))))
    }

    fn goal(&mut self, epic: EpicId) -> CliResult {
        let records = &self.snapshot.records;
        let goal = records.goals.get(&epic);
        self.one("goal", goal.map(|goal| Record::Goal(Box::new(goal.clone()))))?;
        let state = records.goal_states.get(&epic);
        self.one("goalState", state.map(|state| Record::GoalState(Box::new(state.clone()))))?;
        let plan = records.plans.get(&epic);
        self.one("plan", plan.map(|plan| Record::Plan(Box::new(plan.clone()))))?;
        let nodes = records.nodes.get(&epic).into_iter().flat_map(|nodes| nodes.values());
        self.many("nodes", nodes.map(|node| Record::Node(epic, Box::new(node.clone()))))?;
        let states = records.node_states.get(&epic).into_iter().flat_map(|states| states.values());
        self.many(
            "nodeStates",
            states.map(|state| Record::NodeState(epic, Box::new(state.clone()))),
        )?;
        let left = records.crystallizations.get(&epic).into_iter().flat_map(|left| left.values());
        self.many(
            "crystallizations",
            left.map(|left| Record::Crystallization(Box::new(left.clone()))),
        )
    }

    fn node(&mut self, epic: EpicId, id: NodeId) -> CliResult {
        let records = &self.snapshot.records;
        let node = records.nodes.get(&epic).and_then(|nodes| nodes.get(&id));
        self.one("node", node.map(|node| Record::Node(epic, Box::new(node.clone()))))?;
        let state = records.node_states.get(&epic).and_then(|states| states.get(&id));
        self.one("nodeState", state.map(|it| Record::NodeState(epic, Box::new(it.clone()))))?;
        let left = records.crystallizations.get(&epic).and_then(|left| left.get(&Some(id)));
        let left = left.map(|left| Record::Crystallization(Box::new(left.clone())));
        self.one("crystallization", left)
    }

    fn project(&mut self, name: &ProjectName) -> CliResult {
        let records = &self.snapshot.records;
        self.one("project", records.projects.get(name).cloned().map(Record::Project))?;
        self.one("agent", records.agents.get(&AgentId::Po(name.clone())).map(boxed))?;
        let profiles = records.profiles.iter().filter(|((project, _), _)| project == name);
        self.many(
            "profiles",
            profiles.map(|(_, profile)| Record::Profile(name.clone(), Box::new(profile.clone()))),
        )?;
        let goals = records.goals.values().filter(|goal| goal.project == *name);
        self.many("goals", goals.map(|goal| Record::Goal(Box::new(goal.clone()))))
    }

    fn host(&mut self, host: &HostName) -> CliResult {
        let records = &self.snapshot.records;
        self.one("host", records.hosts.get(host).cloned().map(Record::Host))?;
        let placed = records.placed_on(host).filter_map(|id| records.agents.get(id));
        self.many("agents", placed.map(boxed))
    }
}
