//! What each wish of a spawn request stands for: the node it is for, known or new, and the
//! profile that executes it (spec 03, Spawn protocol).

use crate::admission::Wish;
use crate::agent::{Agent, DEFAULT_PROFILE, Profile};
use crate::assignment::Purpose;
use crate::brief::{RunnerKind, Served};
use crate::budget::Limits;
use crate::error::DenialReason;
use crate::id::{EpicId, NodeId, ProfileName, ProjectName};
use crate::limits::TASKS_MAX;
use crate::overseer::policy::RecoveryPolicy;
use crate::plan::profiles::executing;
use crate::plan::rollup::rollup;
use crate::plan::{Node, NodeStatus, PlacementWish, folding, graph};
use crate::request::{SpawnRequest, SubagentWish, TaskWish};
use crate::role::Role;
use crate::step::Draft;
use crate::time::Millis;

use super::Refused;
use crate::owner::{RunDefaults, brief, judging, profiles};

/// A wish with what it stands for.
pub(super) struct Target<'a> {
    pub(super) index: usize,
    pub(super) wish: &'a SubagentWish,
    pub(super) node: Node,
    pub(super) profile: Profile,
}

impl Target<'_> {
    /// What admission decides on. `left` is what remains of the parent's wall clock: a request
    /// for more is refused, a default of more is cut to it.
    pub(super) fn wish(
        &self,
        wait: bool,
        left: Option<Millis>,
        defaults: RunDefaults,
        parent: Limits,
    ) -> Wish {
        let RunDefaults { budget, wall } = defaults;
        let default = self.node.wall.or(self.profile.wall).or(wall);
        let default = default.map(|wall| left.map_or(wall, |left| left.min(wall)));
        let wall = self.wish.wall.or(default);
        Wish {
            role: self.wish.role,
            taken: false,
            local_max_depth: self.wish.local_max_depth,
            budget: brief::budget(self.wish, Some(&self.node), &self.profile, budget, parent),
            wall,
            tools: brief::tools(self.wish, Some(&self.node), &self.profile),
            placement: if self.wish.placement == PlacementWish::default() {
                self.node.placement.clone()
            } else {
                self.wish.placement.clone()
            },
            wait,
        }
    }
}

/// The nodes that the wishes of one request stand for.
pub(super) struct Planned {
    taken: Vec<NodeId>,
    next: Option<NodeId>,
    room: usize,
}

impl Planned {
    pub(super) fn new(draft: &Draft<'_>, epic: EpicId) -> Self {
        let nodes = draft.nodes(epic);
        let ids: Vec<NodeId> = nodes.keys().copied().collect();
        let folded = draft.folded(epic);
        let derived = rollup(&draft.leaf_statuses(epic), &ids, folded).statuses;
        let wanted = |id: &&NodeId| derived.get(id) != Some(&NodeStatus::Cancelled);
        let last = nodes.keys().filter(wanted).map(|id| id.phase_number()).max();
        let Some(phase) = last else { return Self { taken: Vec::new(), next: None, room: 0 } };
        let tasks: Vec<NodeId> =
            nodes.keys().copied().filter(|id| id.parent() == Some(NodeId::phase(phase))).collect();
        // What came of a child is for those to look at who asked for it, and keeps nobody from asking again.
        let over = |id: &NodeId| {
            let state = draft.node_state(epic, *id);
            let ended = nodes.get(id).is_some_and(|node| node.spawned);
            state.is_some_and(|it| it.status.is_settled() || ended && folding::has_ended(it))
        };
        let unsettled = tasks.iter().filter(|id| !over(id));
        let gone = folded.get(&NodeId::phase(phase)).map_or(0, |ended| ended.highest);
        let highest = tasks.iter().map(|id| id.ordinal()).max().unwrap_or(0).max(gone);
        Self {
            taken: Vec::new(),
            room: TASKS_MAX.saturating_sub(unsettled.count()),
            next: highest.checked_add(1).map(|task| NodeId::task(phase, task)),
        }
    }

    pub(super) fn target(
        &mut self,
        draft: &Draft<'_>,
        wanted: &SpawnRequest,
        wish: &SubagentWish,
        parent: &Agent,
    ) -> Result<(Node, Profile), Refused> {
        let known = match wanted.node {
            Some(id) => Some(self.existing(draft, wanted.epic, id, wish.role)?),
            None => None,
        };
        let profile = profile(draft, wanted.epic, wish, known.as_ref(), parent)?;
        let node = match known {
            Some(node) => node,
            None => self.fresh(wish, &profile)?,
        };
        Ok((node, profile))
    }

    fn existing(
        &mut self,
        draft: &Draft<'_>,
        epic: EpicId,
        id: NodeId,
        role: Role,
    ) -> Result<Node, Refused> {
        let no = |detail: String| (DenialReason::NodeNotAssignable, detail);
        let node = draft.node(epic, id).ok_or_else(|| no(format!("{epic} has no node {id}")))?;
        if !graph::is_leaf(&draft.nodes(epic), id) {
            return Err(no(format!("{id} is not a leaf; its subtasks are assigned")));
        }
        let state =
            draft.node_state(epic, id).ok_or_else(|| no(format!("{id} has no state yet")))?;
        if state.assignment.is_some() || self.taken.contains(&id) {
            return Err(no(format!("{id} has an open assignment")));
        }
        let ready = match state.purpose {
            Purpose::Execute => state.status == NodeStatus::Queued,
            Purpose::Review => state.status == NodeStatus::InProgress && role == Role::Reviewer,
        };
        if !ready {
            return Err(no(format!("{id} is {}, not ready for a {role}", state.status)));
        }
        self.taken.push(id);
        Ok(node.clone())
    }

    fn fresh(&mut self, wish: &SubagentWish, profile: &Profile) -> Result<Node, Refused> {
        let (true, Some(id)) = (self.room > 0, self.next) else {
            let detail = format!("the last phase has the limit of {TASKS_MAX} unsettled tasks");
            return Err((DenialReason::NodeNotAssignable, detail));
        };
        self.room -= 1;
        self.next = id.ordinal().checked_add(1).map(|task| NodeId::task(id.phase_number(), task));
        Ok(node_of(id, wish, profile))
    }
}

/// The task that a wish without a node adds to the plan.
fn node_of(id: NodeId, wish: &SubagentWish, profile: &Profile) -> Node {
    let (objective, acceptance) = match &wish.task {
        TaskWish::Task(task) => (task.clone(), Vec::new()),
        TaskWish::Brief(brief) => (brief.goal.clone(), brief.success_criteria.clone()),
    };
    let title = objective.lines().next().unwrap_or_default();
    Node {
        id,
        name: title.chars().take(TITLE_CHARS).collect(),
        acceptance,
        objective,
        expected_outcome: String::new(),
        definition_of_done: String::new(),
        estimated_effort: String::new(),
        risk_level: None,
        depends_on: Vec::new(),
        role: wish.role,
        domain: wish.domain.clone(),
        profile: Some(profile.name.clone()),
        tools: wish.tools.clone().unwrap_or_default(),
        key_facts: Vec::new(),
        output_schema: None,
        scope_paths: Vec::new(),
        budget: wish.budget,
        wall: wish.wall,
        max_attempts: 1,
        review: None,
        placement: wish.placement.clone(),
        recovery: RecoveryPolicy::default(),
        spawned: true,
        added: 0,
        defined: 0,
    }
}

/// Characters of a task's text that become its node's title.
const TITLE_CHARS: usize = 80;

/// The profile that executes a wish: its own, for a review its orchestrator's, else what `plan::profiles` says.
fn profile(
    draft: &Draft<'_>,
    epic: EpicId,
    wish: &SubagentWish,
    node: Option<&Node>,
    parent: &Agent,
) -> Result<Profile, Refused> {
    let judging = || node.and_then(|node| judging::reviewer(draft, epic, node));
    let named = wish.profile.clone().or_else(judging);
    let name = named.as_ref().map_or_else(|| executing(node), ProfileName::as_str);
    let Some(project) = &parent.project else {
        let detail = format!("runner: {} has no project, so it has no profiles", parent.id);
        return Err((DenialReason::InvalidRequest, detail));
    };
    let denied = |detail| (DenialReason::InvalidRequest, format!("runner: {detail}"));
    let found = profiles::named(draft, project, name).map_err(denied)?;
    let mut profile = found.clone();
    if profile.inherits_model() {
        (profile.model, profile.served) = inherited(draft, parent, project).ok_or_else(|| {
            let detail = format!(
                "the profile {name:?} leaves its model to its parent, and neither {} nor the profile \
                 {DEFAULT_PROFILE:?} has one; name one with `model` and `provider`",
                parent.id
            );
            denied(detail)
        })?;
    }
    Ok(profile)
}

/// The model that a child uses whose profile names none: its parent's, else that of the project's default profile
/// (docs/decisions/0127).
fn inherited(draft: &Draft<'_>, parent: &Agent, project: &ProjectName) -> Option<(String, Served)> {
    let run = parent.work.as_ref().and_then(|work| draft.run(work.run));
    let own = run.map(|run| &run.brief.runner).filter(|it| it.kind == RunnerKind::Llm);
    if let Some(own) = own {
        return Some((own.model.clone(), own.served.clone()));
    }
    let root = profiles::named(draft, project, DEFAULT_PROFILE).ok()?;
    let speaks = root.kind == RunnerKind::Llm && !root.model.is_empty();
    speaks.then(|| (root.model.clone(), root.served.clone()))
}
