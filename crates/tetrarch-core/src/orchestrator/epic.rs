//! What a project orchestrator knows of one epic, and what it makes of the results (spec 05,
//! spec 06). Every part can be learnt again from the plan events and STATE.

use std::collections::BTreeMap;

use super::{Collected, Input};
use crate::brief::{Outcome, RunResult};
use crate::goal::GoalStatus;
use crate::id::{AgentId, EpicId, NodeId};
use crate::limits::DELIVERABLE_BYTES_MAX;
use crate::mail::SponsorRequest;
use crate::plan::advice::{Leaf, of_leaves};
use crate::plan::{Node, NodeStatus, PlanEvent, view};
use crate::records::Records;
use crate::time::{BusTime, Millis};

/// First wait after a refusal that time may cure; doubled with each further one.
const RETRY_FIRST: Millis = Millis(250);
/// First wait for STATE, which lags behind plan events; doubled with each further one.
const STATE_LAGS_FIRST: Millis = Millis(20);
/// Plan events that wait for the versions before them.
const LATER_EVENTS_MAX: usize = 256;
/// Longest wait after a refusal that time may cure.
const RETRY_MAX: Millis = Millis::from_secs(30);

/// One epic.
#[derive(Debug, Clone, Default)]
pub(super) struct Epic {
    /// Its plan as the events tell it, whole.
    pub(super) plan: Option<PlanEvent>,
    /// Events that go on from a version that is not known: STATE is read.
    later: BTreeMap<u32, PlanEvent>,
    /// Definitions seen so far.
    pub(super) nodes: BTreeMap<NodeId, Node>,
    /// Results seen so far.
    pub(super) results: BTreeMap<NodeId, Collected>,
    /// Nodes whose request was refused for a reason that time may cure.
    pub(super) waits: BTreeMap<NodeId, Wait>,
    /// Specialists' requests that came before the plan was known.
    pub(super) held: Vec<(AgentId, SponsorRequest, Option<String>)>,
    /// Reading of STATE.
    pub(super) collect: Collect,
    /// Its result has been reported.
    pub(super) reported: bool,
}

impl Input {
    /// What records have of an epic.
    #[must_use]
    pub fn collected(records: &Records, epic: EpicId) -> Self {
        let nodes = records.nodes.get(&epic).into_iter().flat_map(|nodes| nodes.values());
        let states = records.node_states.get(&epic).into_iter().flatten();
        let results = states.filter_map(|(id, state)| {
            let result = state.result.as_ref()?;
            let (deliverable, artifacts) = (result.deliverable.clone(), result.artifacts.clone());
            Some((*id, Collected { deliverable, artifacts }))
        });
        Self::Collected {
            epic,
            plan: view::whole(records, epic).map(Box::new),
            nodes: nodes.cloned().collect(),
            results: results.collect(),
        }
    }
}

/// A node's wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wait {
    /// Until then; none when it is over.
    until: Option<BusTime>,
    times: u32,
}

/// Where the reading of an epic's definitions and results stands.
#[derive(Debug, Clone, Copy, Default)]
pub(super) enum Collect {
    /// Nothing is missing, as far as it is known.
    #[default]
    Idle,
    /// It was asked for.
    Asked {
        /// How often in a row.
        times: u32,
    },
    /// STATE lacked something: it is written after mail and plan events, so it is read again.
    Again {
        /// When.
        at: BusTime,
        /// How often it was asked for in a row.
        times: u32,
    },
}

impl Epic {
    /// Takes what an event, or STATE, tells of the plan, and whatever came before it and goes on from there.
    pub(super) fn learn_plan(&mut self, event: PlanEvent) {
        let known = |plan: &Option<PlanEvent>| plan.as_ref().map_or(0, |known| known.version);
        let mut next = Some(event);
        while let Some(event) = next {
            if event.version > known(&self.plan) {
                match event.onto(self.plan.as_ref()) {
                    Ok(event) => self.set(event),
                    Err(event) => drop(self.later.insert(event.version, *event)),
                }
                if self.later.len() > LATER_EVENTS_MAX {
                    self.later.pop_first();
                }
            }
            let version = known(&self.plan);
            self.later.retain(|later, _| *later > version);
            next = version.checked_add(1).and_then(|version| self.later.remove(&version));
        }
    }

    /// What left the plan is forgotten with it.
    fn set(&mut self, mut plan: PlanEvent) {
        for node in std::mem::take(&mut plan.definitions) {
            // Whatever it was refused for may be cured by its new definition.
            self.waits.remove(&node.id);
            self.nodes.insert(node.id, node);
        }
        let stands = |id: &NodeId| plan.nodes.binary_search_by_key(id, |view| view.id).is_ok();
        self.nodes.retain(|id, _| stands(id));
        self.results.retain(|id, _| stands(id));
        self.waits.retain(|id, _| stands(id));
        self.plan = Some(plan);
    }

    /// Makes a node wait, longer each time.
    pub(super) fn wait(&mut self, now: BusTime, node: NodeId) {
        let times = self.waits.get(&node).map_or(1, |wait| wait.times + 1);
        self.waits.insert(node, Wait { until: Some(now + backoff(RETRY_FIRST, times)), times });
    }

    /// Ends the waits that are over.
    pub(super) fn wake(&mut self, now: BusTime) {
        for wait in self.waits.values_mut() {
            wait.until = wait.until.filter(|until| *until > now);
        }
    }

    /// Ends every wait.
    pub(super) fn hurry(&mut self) {
        self.waits.values_mut().for_each(|wait| wait.until = None);
    }

    /// Whether a node waits.
    pub(super) fn waits(&self, node: NodeId) -> bool {
        self.waits.get(&node).is_some_and(|wait| wait.until.is_some())
    }

    /// The places of nodes among those that nobody has begun, the best recommended first (spec 05,
    /// Insights); none where nobody has said what is urgent.
    pub(super) fn ranks(&self, now: BusTime) -> BTreeMap<NodeId, usize> {
        let Some(plan) = &self.plan else { return BTreeMap::new() };
        if !plan.nodes.iter().any(|view| view.priorities.is_set()) {
            return BTreeMap::new();
        }
        let leaves = plan.nodes.iter().filter(|view| plan.is_leaf(view.id)).map(|view| {
            let (status, priorities, created) = (view.status, view.priorities, view.created);
            (view.id, Leaf { status, priorities, created })
        });
        let best = of_leaves(&self.nodes, &leaves.collect(), now);
        best.into_iter().enumerate().map(|(place, best)| (best.name, place)).collect()
    }

    /// When something is due without any input.
    pub(super) fn next_deadline(&self) -> Option<BusTime> {
        let again = match self.collect {
            Collect::Again { at, .. } => Some(at),
            Collect::Idle | Collect::Asked { .. } => None,
        };
        self.waits.values().filter_map(|wait| wait.until).chain(again).min()
    }

    /// Whether STATE is to be read now.
    pub(super) fn must_collect(&mut self, now: BusTime) -> bool {
        let times = match self.collect {
            Collect::Idle if self.lacks_anything() => 0,
            Collect::Again { at, times } if at <= now => times,
            Collect::Idle | Collect::Asked { .. } | Collect::Again { .. } => return false,
        };
        self.collect = Collect::Asked { times: times + 1 };
        true
    }

    /// Takes what STATE has.
    pub(super) fn learn(
        &mut self,
        now: BusTime,
        nodes: Vec<Node>,
        results: Vec<(NodeId, Collected)>,
    ) {
        let stands = |id: NodeId| {
            let plan = self.plan.as_ref();
            plan.is_none_or(|plan| plan.nodes.iter().any(|view| view.id == id))
        };
        let nodes: Vec<Node> = nodes.into_iter().filter(|node| stands(node.id)).collect();
        let results: Vec<_> = results.into_iter().filter(|(id, _)| stands(*id)).collect();
        for node in nodes {
            self.nodes.entry(node.id).or_insert(node);
        }
        for (node, result) in results {
            self.results.entry(node).or_insert(result);
        }
        let times = match self.collect {
            Collect::Asked { times } | Collect::Again { times, .. } => times,
            Collect::Idle => 1,
        };
        self.collect = if self.lacks_anything() {
            Collect::Again { at: now + backoff(STATE_LAGS_FIRST, times), times }
        } else {
            Collect::Idle
        };
    }

    /// Whether the goal is worked on.
    pub(super) fn is_active(&self) -> bool {
        self.plan.as_ref().is_some_and(|plan| plan.goal == GoalStatus::Active)
    }

    /// Whether nothing more is to be done for it, by this orchestrator or a later one.
    pub(super) fn is_over(&self) -> bool {
        self.plan.as_ref().is_some_and(|plan| match plan.goal {
            GoalStatus::Active | GoalStatus::Paused => false,
            GoalStatus::Completed => plan.result.is_some(),
            GoalStatus::Cancelled | GoalStatus::Archived => true,
        })
    }

    /// Whether a version of the plan, a definition, or a result of a reached goal has not been seen yet.
    pub(super) fn lacks_anything(&self) -> bool {
        if !self.later.is_empty() {
            return true;
        }
        let Some(plan) = &self.plan else { return false };
        let definitions = plan.nodes.iter().any(|view| !self.nodes.contains_key(&view.id));
        let results = plan.goal == GoalStatus::Completed
            && self.wanted_results(plan).any(|node| !self.results.contains_key(&node));
        definitions || results
    }

    /// The nodes whose results the whole is made of: the output node, else every done leaf.
    fn wanted_results<'a>(&'a self, plan: &'a PlanEvent) -> impl Iterator<Item = NodeId> + 'a {
        let done = plan
            .nodes
            .iter()
            .filter(move |view| view.status == NodeStatus::Done && plan.is_leaf(view.id));
        done.map(|view| view.id).filter(|id| plan.output.is_none_or(|output| output == *id))
    }

    /// The result of a reached goal.
    pub(super) fn put_together(&self, plan: &PlanEvent) -> RunResult {
        let parts: Vec<(NodeId, &Collected)> =
            self.wanted_results(plan).filter_map(|id| Some((id, self.results.get(&id)?))).collect();
        let whole = match (plan.output, parts.first()) {
            (Some(_), Some((_, output))) => output.deliverable.clone(),
            (_, _) => {
                let sections = parts.iter().map(|(id, part)| {
                    let name = self.nodes.get(id).map_or("", |node| node.name.as_str());
                    format!("## {id} {name}\n\n{}\n", part.deliverable)
                });
                sections.collect::<Vec<_>>().join("\n")
            }
        };
        let fits = whole.len() <= DELIVERABLE_BYTES_MAX;
        let listed = || {
            let ids: Vec<String> = parts.iter().map(|(id, _)| id.to_string()).collect();
            format!("too large to repeat; the results stand with {}", ids.join(", "))
        };
        let mut result = RunResult::ended(Outcome::Success, "");
        result.crystallization = format!("{} results, plan version {}", parts.len(), plan.version);
        let gone = plan.counts.done.saturating_sub(leaves_done(plan));
        if gone > 0 {
            result.crystallization += &format!("; {gone} more of children that ended earlier");
        }
        result.artifacts = parts.iter().flat_map(|(_, part)| part.artifacts.clone()).collect();
        result.deliverable = if fits { whole } else { listed() };
        result
    }
}

fn leaves_done(plan: &PlanEvent) -> u32 {
    let done = plan.nodes.iter().filter(|view| view.status == NodeStatus::Done);
    u32::try_from(done.filter(|view| plan.is_leaf(view.id)).count()).unwrap_or(u32::MAX)
}

fn backoff(first: Millis, times: u32) -> Millis {
    let factor = 1u64.checked_shl(times.saturating_sub(1)).unwrap_or(u64::MAX);
    Millis(first.0.saturating_mul(factor).min(RETRY_MAX.0))
}
