//! Finding obstacles: for each leaf that waits the first thing that stands in its way, in the order in
//! which the governor looks; and what people are asked. It writes sentences, nothing else.

use std::collections::BTreeSet;

use super::{Obstacle, ObstacleKind as Kind, Remedy, Subject, Telemetry, is_stranded, is_waiting};
use crate::admission::HostView;
use crate::agent::{Agent, DEFAULT_PROFILE, Hosting, is_command};
use crate::assignment::Purpose;
use crate::budget::{BudgetExceeded, Limits};
use crate::change::{Change, ChangeStatus};
use crate::error::DenialReason;
use crate::goal::GoalStatus;
use crate::id::{AgentId, EpicId, NodeId, ProfileName, ProjectName};
use crate::liveness::Liveness;
use crate::plan::folding::FoldedChildren;
use crate::plan::rollup::rollup;
use crate::plan::{
    ATTEMPTS_EXHAUSTED, Blocker, DEPENDS, ESCALATED, Node, NodeState, NodeStatus, PlacementWish,
    graph,
};
use crate::question::{Question, QuestionStatus};
use crate::records::Records;
use crate::time::BusTime;

/// What has been found so far.
pub(super) struct Finder<'r> {
    pub(super) records: &'r Records,
    telemetry: &'r Telemetry,
    pub(super) hosts: Vec<HostView>,
    pub(super) found: Vec<Obstacle>,
}

/// A leaf with what it belongs to.
#[derive(Clone, Copy)]
struct Leaf<'r> {
    epic: EpicId,
    project: &'r ProjectName,
    state: &'r NodeState,
    node: &'r Node,
}

impl<'r> Finder<'r> {
    pub(super) fn new(records: &'r Records, telemetry: &'r Telemetry) -> Self {
        let up = records.hosts.values().filter_map(|host| {
            let orchestrator = records.agents.get(&AgentId::Ho(host.name.clone()))?;
            HostView::of(host, orchestrator, |placement| records.places_taken(placement))
        });
        Self { records, telemetry, hosts: up.collect(), found: Vec::new() }
    }

    /// Notes an obstacle, or that one which is known holds up another leaf.
    pub(super) fn note(
        &mut self,
        kind: Kind,
        subject: Subject,
        since: Option<BusTime>,
        what: String,
        remedies: Vec<Remedy>,
        on: Option<(EpicId, NodeId)>,
    ) {
        let same = |it: &&mut Obstacle| it.kind == kind && it.subject == subject && it.what == what;
        if let Some(known) = self.found.iter_mut().find(same) {
            known.nodes.extend(on);
            return;
        }
        let nodes: BTreeSet<_> = on.into_iter().collect();
        self.found.push(Obstacle { kind, subject, since, what, nodes, holds_up: 0, remedies });
    }

    /// Looks at a goal: at its work while it is open, at its questions and changes until it is put away.
    pub(super) fn look_at(&mut self, epic: EpicId) {
        let records = self.records;
        let Some(goal) = records.goals.get(&epic) else { return };
        let Some(state) = records.goal_states.get(&epic) else { return };
        if state.status == GoalStatus::Archived {
            return;
        }
        let changes = records.changes.values().filter(|change| change.epic == epic);
        changes.for_each(|change| self.change(change));
        if state.status.is_closed() {
            return;
        }
        let open = records
            .questions
            .values()
            .filter(|it| it.epic == epic && it.status == QuestionStatus::Open);
        open.for_each(|question| self.question(question));
        let nodes = records.nodes.get(&epic);
        for state in records.node_states.get(&epic).into_iter().flatten().map(|(_, state)| state) {
            if let Some(node) = nodes.and_then(|nodes| nodes.get(&state.id)) {
                self.leaf(Leaf { epic, project: &goal.project, state, node });
            }
        }
        self.cancelled_dependencies(epic);
        if state.status == GoalStatus::Paused {
            self.paused(epic, None);
        }
    }

    fn leaf(&mut self, leaf: Leaf<'r>) {
        if is_waiting(self.records, leaf.state) {
            self.waiting(leaf);
            return;
        }
        match leaf.state.status {
            NodeStatus::Blocked => self.blocked(leaf),
            NodeStatus::InProgress => self.worked_on(leaf),
            NodeStatus::Todo | NodeStatus::Queued | NodeStatus::Done | NodeStatus::Cancelled => {}
        }
    }

    /// The first thing that stands in the way of a leaf that waits for an agent.
    fn waiting(&mut self, leaf: Leaf<'r>) {
        let on = Some((leaf.epic, leaf.state.id));
        let go = || Subject::Agent(AgentId::Go);
        if !self.telemetry.owner {
            let what = "no owner of the ledger is running: nothing is decided".to_owned();
            return self.note(Kind::OwnerAbsent, go(), None, what, vec![Remedy::StartOwner], on);
        }
        if let Some(why) = &self.telemetry.halted {
            return self.note(Kind::Halted, go(), None, why.clone(), vec![Remedy::Doctor], on);
        }
        let paused = self.records.goal_states.get(&leaf.epic);
        if paused.is_some_and(|state| state.status == GoalStatus::Paused) {
            return self.paused(leaf.epic, on);
        }
        if is_stranded(self.records, leaf.state) {
            return match self.above(leaf).filter(|parent| parent.circuit.is_open()) {
                Some(parent) => self.circuit(parent, on),
                None => self.placement(&leaf.node.placement, on),
            };
        }
        let id = AgentId::Po(leaf.project.clone());
        let Some(orchestrator) =
            self.records.agents.get(&id).filter(|it| it.liveness != Liveness::Terminated)
        else {
            let what =
                format!("{id} has ended: no agent is started for the work of {}", leaf.project);
            let back = Remedy::CreateProject(leaf.project.clone());
            let remedies = vec![back, Remedy::CancelGoal(leaf.epic)];
            return self.note(
                Kind::OrchestratorEnded,
                Subject::Agent(id),
                None,
                what,
                remedies,
                on,
            );
        };
        self.staffing(leaf, orchestrator, on);
    }

    /// The parent of the agent that works on a leaf.
    fn above(&self, leaf: Leaf<'_>) -> Option<&'r Agent> {
        let agents = &self.records.agents;
        let agent = leaf.state.assignee.as_ref().and_then(|id| agents.get(id))?;
        agents.get(agent.parent.as_ref()?)
    }

    /// What keeps an orchestrator that there is from staffing a leaf.
    fn staffing(&mut self, leaf: Leaf<'r>, by: &'r Agent, on: Option<(EpicId, NodeId)>) {
        let away = matches!(by.liveness, Liveness::Register | Liveness::Offline);
        if away && by.hosting == Hosting::External {
            let how = if by.session.is_none() { "has never registered" } else { "is silent" };
            let what = format!(
                "{} is an external program that {how}: start it; it staffs the work of {}",
                by.id, leaf.project
            );
            let (subject, remedies) =
                (Subject::Agent(by.id.clone()), vec![Remedy::Describe(by.id.clone())]);
            return self.note(
                Kind::OrchestratorAbsent,
                subject,
                Some(by.since),
                what,
                remedies,
                on,
            );
        }
        if by.circuit.is_open() {
            return self.circuit(by, on);
        }
        if by.liveness == Liveness::Offline {
            return self.placement(&PlacementWish::default(), on);
        }
        let mode = self.records.projects.get(leaf.project).map(|project| project.mode);
        let cap = mode.unwrap_or_default().slots(by);
        if cap == 0 {
            let what = format!("project {} has mode solo, which starts no agents", leaf.project);
            let subject = Subject::Project(leaf.project.clone());
            let remedies = vec![Remedy::Delegate(leaf.project.clone())];
            return self.note(Kind::NoSlots, subject, None, what, remedies, on);
        }
        let Some(free) = cap.checked_sub(by.slots_held()).filter(|free| *free > 0) else {
            return self.slots_taken(leaf.epic, by, on);
        };
        if let Err(short) = by.account.carve(self.asked(leaf), free) {
            return self.short(by, &short, on);
        }
        self.placement(&leaf.node.placement, on);
    }

    /// What work asks to spend.
    fn asked(&self, leaf: Leaf<'_>) -> Limits {
        let of_profile = self.profile(leaf).and_then(|name| {
            self.records.profiles.get(&(leaf.project.clone(), name)).map(|it| it.budget)
        });
        let (node, profile) = (leaf.node.budget, of_profile.unwrap_or_default());
        Limits {
            tokens: node.tokens.or(profile.tokens),
            cost_micro: node.cost_micro.or(profile.cost_micro),
            turns: node.turns.or(profile.turns),
        }
    }

    /// The profile by which a leaf is worked on; none under review, where it is the orchestrator's to say.
    fn profile(&self, leaf: Leaf<'_>) -> Option<ProfileName> {
        match leaf.state.purpose {
            Purpose::Execute => {
                leaf.node.profile.clone().or_else(|| ProfileName::new(DEFAULT_PROFILE).ok())
            }
            Purpose::Review => leaf.node.review.as_ref().and_then(|review| review.profile.clone()),
        }
    }

    fn short(&mut self, by: &Agent, short: &BudgetExceeded, on: Option<(EpicId, NodeId)>) {
        let BudgetExceeded { counter, requested, free } = short;
        let what = format!(
            "the budget of {} has {free} {counter} left, but {requested} are requested",
            by.id
        );
        let more = requested.saturating_sub(*free);
        let remedies = vec![Remedy::RaiseBudget(by.id.clone(), *counter, more)];
        self.note(Kind::BudgetUsed, Subject::Agent(by.id.clone()), None, what, remedies, on);
    }

    fn circuit(&mut self, agent: &Agent, on: Option<(EpicId, NodeId)>) {
        let last = match agent.circuit.cause.as_str() {
            "" => String::new(),
            cause => format!("; the last failure: {cause}"),
        };
        let what = format!(
            "the circuit of {} is open: its agents failed too often, and no agent is started below it{last}",
            agent.id
        );
        let remedies = vec![Remedy::CloseCircuit(agent.id.clone())];
        let subject = Subject::Agent(agent.id.clone());
        self.note(Kind::CircuitOpen, subject, agent.circuit.opened, what, remedies, on);
    }

    /// Open circuits that nothing waits for at present.
    pub(super) fn circuits(&mut self, wanted: impl Fn(&Agent) -> bool) {
        let open = self.records.agents.values().filter(|agent| {
            agent.circuit.is_open() && agent.liveness != Liveness::Terminated && wanted(agent)
        });
        for agent in open {
            self.circuit(agent, None);
        }
    }

    fn paused(&mut self, epic: EpicId, on: Option<(EpicId, NodeId)>) {
        let since = self.records.goal_states.get(&epic).map(|state| state.since);
        let what = "the goal is paused: no new work is started".to_owned();
        let remedies = vec![Remedy::ResumeGoal(epic)];
        self.note(Kind::GoalPaused, Subject::Goal(epic), since, what, remedies, on);
    }

    fn worked_on(&mut self, leaf: Leaf<'r>) {
        let agent = leaf.state.assignee.as_ref().and_then(|id| self.records.agents.get(id));
        let Some(agent) = agent else { return };
        let on = Some((leaf.epic, leaf.state.id));
        if let Some(by) = &agent.verbs.paused_by {
            let what =
                format!("{} is paused by {by}: {} does not continue", agent.id, leaf.state.id);
            let remedies = vec![Remedy::ResumeAgent(agent.id.clone())];
            self.note(
                Kind::AgentPaused,
                Subject::Agent(agent.id.clone()),
                None,
                what,
                remedies,
                on,
            );
        }
    }

    fn blocked(&mut self, leaf: Leaf<'r>) {
        let Leaf { epic, state, node, .. } = leaf;
        let Some(blocker) = &state.blocker else { return };
        let asked =
            |it: &Question| (it.epic, it.node, it.status) == (epic, state.id, QuestionStatus::Open);
        let waits = blocker.kind == DEPENDS
            || blocker.kind == ESCALATED && self.records.questions.values().any(asked);
        if waits {
            return;
        }
        let subject = Subject::Node(epic, state.id);
        let on = Some((epic, state.id));
        let profile = self.profile(leaf);
        // A command is written in its plan; nobody knows it as a profile.
        let is_command = profile.as_ref().is_some_and(|name| is_command(name.as_str()));
        let missing = profile.filter(|name| {
            !self.records.profiles.contains_key(&(leaf.project.clone(), name.clone()))
        });
        let unblock = Remedy::Unblock(epic, state.id);
        let apply = if is_command {
            Remedy::ChangePlan(epic)
        } else {
            Remedy::ApplyProfile(leaf.project.clone())
        };
        if let Some(name) =
            missing.filter(|_| blocker.kind == DenialReason::InvalidRequest.as_str())
        {
            let what =
                format!("project {} has no profile {name}, which {} needs", leaf.project, state.id);
            let remedies = vec![apply, unblock];
            return self.note(Kind::ProfileMissing, subject, Some(state.since), what, remedies, on);
        }
        let Blocker { kind, detail, .. } = blocker;
        let what = format!("{} {} is blocked ({kind}): {detail}", state.id, node.name);
        let mut remedies = Vec::new();
        if kind == DenialReason::BudgetExceeded.as_str() {
            let by = self.records.agents.get(&AgentId::Po(leaf.project.clone()));
            let short = by.and_then(|by| Some((by, by.account.carve(self.asked(leaf), 1).err()?)));
            remedies.extend(short.map(|(by, short)| {
                let more = short.requested.saturating_sub(short.free);
                Remedy::RaiseBudget(by.id.clone(), short.counter, more)
            }));
        } else if DenialReason::ALL.iter().any(|reason| reason.as_str() == kind) {
            let tool = kind == DenialReason::ToolNotAllowed.as_str();
            remedies.extend((tool && !is_command).then_some(apply));
            remedies.push(Remedy::ChangePlan(epic));
        } else {
            let latest = state.latest.and_then(|id| self.records.assignments.get(&id));
            remedies.extend(latest.map(|it| Remedy::Logs(it.run)));
            remedies.extend((kind == ATTEMPTS_EXHAUSTED).then_some(apply));
        }
        remedies.push(unblock);
        self.note(Kind::WorkBlocked, subject, Some(state.since), what, remedies, on);
    }

    /// Leaves that have not begun and depend on what is cancelled.
    fn cancelled_dependencies(&mut self, epic: EpicId) {
        let (Some(nodes), Some(states)) =
            (self.records.nodes.get(&epic), self.records.node_states.get(&epic))
        else {
            return;
        };
        if !states.values().any(|state| state.status == NodeStatus::Cancelled) {
            return;
        }
        let ids: Vec<NodeId> = nodes.keys().copied().collect();
        let leaves = states.iter().map(|(id, state)| (*id, state.status)).collect();
        let none = FoldedChildren::new();
        let folded = self.records.plans.get(&epic).map_or(&none, |plan| &plan.folded);
        let derived = rollup(&leaves, &ids, folded).statuses;
        for state in states.values().filter(|state| state.status == NodeStatus::Todo) {
            let gone = graph::dependencies(nodes, state.id)
                .into_iter()
                .find(|on| derived.get(on) == Some(&NodeStatus::Cancelled));
            let Some(gone) = gone else { continue };
            let what = format!("{} depends on {gone}, which is cancelled", state.id);
            let remedies = vec![Remedy::ChangePlan(epic), Remedy::CancelGoal(epic)];
            let (subject, on) = (Subject::Node(epic, state.id), Some((epic, state.id)));
            self.note(Kind::DependencyCancelled, subject, None, what, remedies, on);
        }
    }

    fn question(&mut self, question: &Question) {
        let what = format!("{} asks about {}: {}", question.agent, question.node, question.text);
        let (subject, on) = (Subject::Question(question.id), Some((question.epic, question.node)));
        let remedies = vec![Remedy::Answer(question.id)];
        self.note(Kind::QuestionOpen, subject, Some(question.asked), what, remedies, on);
    }

    fn change(&mut self, change: &Change) {
        let Change { id, node, .. } = change;
        let target = change.made.action.target.trim_start_matches("refs/heads/");
        let (kind, what, remedies) = match change.status {
            ChangeStatus::Proposed | ChangeStatus::Conflicted => (
                Kind::ChangeWaiting,
                format!("the change of {node} needs an approval before it is merged into {target}"),
                vec![Remedy::ShowChange(*id), Remedy::Approve(*id)],
            ),
            ChangeStatus::Approved => (
                Kind::ChangeWaiting,
                format!("the change of {node} is approved but not yet merged into {target}"),
                vec![Remedy::Apply(*id)],
            ),
            ChangeStatus::Applying if self.records.is_stranded(change) => (
                Kind::ChangeWaiting,
                format!(
                    "{} was ordered to merge the change of {node} into {target} and is offline; start it again, or deny the change and check the branch yourself",
                    change.host
                ),
                vec![Remedy::ShowChange(*id)],
            ),
            ChangeStatus::Expired if !self.is_replaced(change) => (
                Kind::ChangeExpired,
                format!("the change of {node} was not merged into {target}: {}", change.reason),
                self.given_up(change),
            ),
            ChangeStatus::Applying
            | ChangeStatus::Applied
            | ChangeStatus::Denied
            | ChangeStatus::Refused
            | ChangeStatus::Expired
            | ChangeStatus::Superseded => return,
        };
        let (subject, on) = (Subject::Change(*id), Some((change.epic, *node)));
        self.note(kind, subject, Some(change.since), what, remedies, on);
    }

    /// What can be done about a change that can neither be approved nor applied.
    fn given_up(&self, change: &Change) -> Vec<Remedy> {
        let Change { id, run, host, epic, .. } = change;
        let state = self.records.goal_states.get(epic);
        let closed = state.is_some_and(|state| state.status.is_closed());
        let discard = Remedy::RemoveWorktree(*run, host.clone());
        let away = closed.then_some(Remedy::ArchiveGoal(*epic));
        [Remedy::ShowChange(*id), discard].into_iter().chain(away).collect()
    }

    /// Whether a later change of the same work took the place of one that expired.
    fn is_replaced(&self, change: &Change) -> bool {
        self.records.changes.values().any(|it| {
            (it.epic, it.node) == (change.epic, change.node) && it.proposed > change.proposed
        })
    }
}
