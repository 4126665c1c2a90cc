//! Spawn requests: from the request to everything that an admission creates, in one step
//! (spec 03, Spawn protocol). Which children may be had is `admission`'s decision.

use crate::admission::{self, Admission, Grant, HostView, ParentView, Standing, Wish};
use crate::agent::{Agent, DEFAULT_PROFILE, Hosting, Placement, Profile, Slot, Work};
use crate::assignment::{Assignment, AssignmentStatus, Purpose};
use crate::budget::Account;
use crate::error::{DenialReason, ErrorCode, Refusal};
use crate::id::{
    AgentId, AssignmentId, EpicId, NodeId, Principal, ProfileName, RunId, SessionId, derive_ulid,
};
use crate::ledger::{EventKind, Record};
use crate::limits::{SPAWN_REASON_BYTES_MAX, SUBAGENTS_PER_REQUEST_MAX, TASKS_MAX};
use crate::liveness::Liveness;
use crate::mail::{Denied, MailBody, SpawnAnswer, Spawned};
use crate::plan::{Node, NodeStatus, PlanReason, graph};
use crate::request::{Request, SpawnRequest, SubagentWish, TaskWish};
use crate::role::Role;
use crate::run::Run;
use crate::step::Draft;

use super::{Policy, brief, plans, sessions};

const SUGGESTION: &str =
    "complete the task yourself, or send `plan.review_needed` for a plan revision";

/// Decides on a spawn request and answers it.
pub(super) fn spawn(
    draft: &mut Draft<'_>,
    policy: &Policy,
    request: &Request,
    wanted: &SpawnRequest,
) {
    let parent = match check(draft, request, wanted) {
        Ok(parent) => parent,
        Err((reason, detail)) => {
            deny_all(draft, request, wanted, reason, &detail);
            return;
        }
    };
    let mut targets = Vec::new();
    let mut denied = Vec::new();
    let mut planned = Planned::new(draft, wanted.epic);
    for (index, wish) in wanted.subagents.iter().enumerate() {
        match planned.target(draft, wanted, wish, &parent) {
            Ok((node, profile)) => targets.push(Target { index, wish, node, profile }),
            Err((reason, detail)) => {
                denied.push(Denied {
                    index,
                    role: wish.role,
                    reason,
                    limit: None,
                    current: None,
                    detail,
                });
            }
        }
    }
    let view = parent_view(draft, policy, &parent);
    let standing = standing_of(draft, request, &parent);
    let wishes: Vec<Wish> = targets.iter().map(Target::wish).collect();
    let hosts = host_views(draft);
    let Admission { granted, denied: refused } =
        admission::admit(Some(&view), standing, &hosts, &wishes, draft.now);
    for mut refusal in refused {
        refusal.index = targets.get(refusal.index).map_or(refusal.index, |target| target.index);
        denied.push(refusal);
    }
    denied.sort_by_key(|denied| denied.index);
    let mut spawned = Vec::new();
    for grant in granted {
        if let Some(target) = targets.get(grant.index) {
            spawned.push(create(draft, wanted, &parent.id, target, &grant));
        }
    }
    if !spawned.is_empty() {
        plans::settle(draft, wanted.epic);
    }
    let corrections = corrections(draft, request, wanted);
    answer(draft, request, wanted, &parent.id, spawned, denied, corrections);
}

/// Refuses a request that could not even be read.
pub(super) fn refuse(draft: &mut Draft<'_>, request: &Request, refusal: &Refusal) {
    let reason = match refusal.code {
        ErrorCode::Conflict => DenialReason::Conflict.as_str(),
        ErrorCode::Unauthorized | ErrorCode::Superseded => DenialReason::Unauthorized.as_str(),
        ErrorCode::InvalidRequest
        | ErrorCode::InvalidPlan
        | ErrorCode::NotFound
        | ErrorCode::Unavailable => refusal.code.as_str(),
    };
    let answer = SpawnAnswer {
        epic: None,
        request: request.id,
        parent: None,
        spawned: Vec::new(),
        denied: Vec::new(),
        reason: reason.to_owned(),
        suggestion: refusal.detail.clone(),
        retry: false,
        corrections: Vec::new(),
    };
    draft.mail(request.sender.from.clone(), None, MailBody::SpawnAnswer(answer));
}

type Refused = (DenialReason, String);

/// What holds for the request as a whole; gives the parent.
fn check(draft: &Draft<'_>, request: &Request, wanted: &SpawnRequest) -> Result<Agent, Refused> {
    let invalid = |detail: String| (DenialReason::InvalidRequest, detail);
    let count = wanted.subagents.len();
    if count == 0 || count > SUBAGENTS_PER_REQUEST_MAX {
        return Err(invalid(format!(
            "requested_subagents: {count} given, 1 to {SUBAGENTS_PER_REQUEST_MAX} are allowed"
        )));
    }
    if wanted.reason.len() > SPAWN_REASON_BYTES_MAX {
        return Err(invalid(format!(
            "spawn_reason: {} bytes, at most {SPAWN_REASON_BYTES_MAX} are allowed",
            wanted.reason.len()
        )));
    }
    for (index, wish) in wanted.subagents.iter().enumerate() {
        brief::validate(wish, index).map_err(invalid)?;
    }
    if request.sender.from.agent().is_some() {
        super::current(draft, &request.sender)
            .map_err(|refusal| (DenialReason::Unauthorized, refusal.to_string()))?;
    }
    let Some(id) = wanted.parent.as_ref().or_else(|| request.sender.from.agent()) else {
        return Err(invalid("parent: a human must name one".to_owned()));
    };
    let parent = draft
        .agent(id)
        .ok_or_else(|| (DenialReason::UnknownParent, format!("no agent {id} was ever admitted")))?;
    let goal = draft.base().goals.get(&wanted.epic);
    if goal.is_none_or(|goal| Some(&goal.project) != parent.project.as_ref()) {
        let detail = format!("{} is no epic of {id}'s project", wanted.epic);
        return Err((DenialReason::UnknownEpic, detail));
    }
    if !plans::is_open(draft, wanted.epic) {
        let detail = format!("the goal {} is not active", wanted.epic);
        return Err((DenialReason::NodeNotAssignable, detail));
    }
    Ok(parent.clone())
}

fn standing_of(draft: &Draft<'_>, request: &Request, parent: &Agent) -> Standing {
    match &request.sender.from {
        Principal::Human(_) => Standing::Sponsor,
        Principal::Agent(sender) => {
            let mut above = Vec::new();
            let mut next = parent.parent.as_ref();
            while let Some(id) = next {
                above.push(id.clone());
                next = draft.agent(id).and_then(|agent| agent.parent.as_ref());
            }
            admission::standing(sender, &parent.id, &above)
        }
    }
}

fn parent_view(draft: &Draft<'_>, policy: &Policy, parent: &Agent) -> ParentView {
    let project = parent.project.as_ref().and_then(|name| draft.base().projects.get(name));
    let mode = project.map_or_else(crate::agent::Mode::default, |project| project.mode);
    let mut circuit_open = parent.circuit_open;
    let mut next = parent.parent.as_ref();
    while let Some(above) = next.and_then(|id| draft.agent(id)) {
        circuit_open |= above.circuit_open;
        next = above.parent.as_ref();
    }
    ParentView {
        role: Role::of(&parent.id),
        depth: parent.depth,
        max_depth: parent.max_depth,
        local_max_depth: parent.local_max_depth,
        liveness: parent.liveness,
        held: parent.slots_held(),
        cap: mode.cap().min(policy.max_children),
        account: parent.account,
        deadline: parent.deadline,
        tools: parent.tools.clone(),
        circuit_open,
    }
}

/// Hosts that take agents now.
pub(super) fn host_views(draft: &Draft<'_>) -> Vec<HostView> {
    let hosts = draft.base().hosts.values();
    hosts
        .filter_map(|host| {
            let ho = draft.agent(&AgentId::Ho(host.name.clone()))?;
            if ho.liveness != Liveness::Active {
                return None;
            }
            let placed = draft.base().placed_on(&host.name).count();
            Some(HostView {
                placement: Placement { host: host.name.clone(), host_epoch: ho.epoch },
                labels: host.labels.clone(),
                capacity: host.capacity,
                load: u32::try_from(placed).unwrap_or(u32::MAX),
            })
        })
        .collect()
}

struct Target<'a> {
    index: usize,
    wish: &'a SubagentWish,
    node: Node,
    profile: Profile,
}

impl Target<'_> {
    fn wish(&self) -> Wish {
        let wall = self.wish.wall.or(self.node.wall);
        Wish {
            role: self.wish.role,
            taken: false,
            local_max_depth: self.wish.local_max_depth,
            budget: brief::budget(self.wish, Some(&self.node), &self.profile),
            wall,
            tools: brief::tools(self.wish, Some(&self.node), &self.profile),
            placement: if self.wish.placement == crate::plan::PlacementWish::default() {
                self.node.placement.clone()
            } else {
                self.wish.placement.clone()
            },
        }
    }
}

/// The nodes that the wishes of one request stand for.
struct Planned {
    taken: Vec<NodeId>,
    next: Option<NodeId>,
    room: usize,
}

impl Planned {
    fn new(draft: &Draft<'_>, epic: EpicId) -> Self {
        let nodes = draft.nodes(epic);
        let last = nodes.keys().map(|id| id.phase_number()).max();
        let Some(phase) = last else { return Self { taken: Vec::new(), next: None, room: 0 } };
        let tasks: Vec<NodeId> =
            nodes.keys().copied().filter(|id| id.parent() == Some(NodeId::phase(phase))).collect();
        let unsettled = tasks.iter().filter(|id| {
            draft.node_state(epic, **id).is_none_or(|state| !state.status.is_settled())
        });
        let highest = tasks.iter().map(|id| id.ordinal()).max().unwrap_or(0);
        Self {
            taken: Vec::new(),
            room: TASKS_MAX.saturating_sub(unsettled.count()),
            next: highest.checked_add(1).map(|task| NodeId::task(phase, task)),
        }
    }

    fn target(
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
        let profile = profile(draft, wish, known.as_ref(), parent)?;
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
            return Err(no(format!("{id} is no leaf; its subtasks are assigned")));
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
            let detail = format!("the last phase has {TASKS_MAX} unsettled tasks");
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
        definition_of_done: String::new(),
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
    }
}

/// Characters of a task's text that become its node's title.
const TITLE_CHARS: usize = 80;

/// The profile that executes a wish: its own, the node's, else the project's default.
fn profile(
    draft: &Draft<'_>,
    wish: &SubagentWish,
    node: Option<&Node>,
    parent: &Agent,
) -> Result<Profile, Refused> {
    let named = wish.profile.clone().or_else(|| node.and_then(|node| node.profile.clone()));
    let name = match named {
        Some(name) => name,
        None => ProfileName::new(DEFAULT_PROFILE)
            .map_err(|error| (DenialReason::InvalidRequest, error.to_string()))?,
    };
    let project = parent.project.clone();
    let found = project.and_then(|project| draft.base().profiles.get(&(project, name.clone())));
    found.cloned().ok_or_else(|| {
        let detail = format!(
            "runner: the project has no profile {name:?}; add it with `tetrarch profile apply`",
            name = name.as_str()
        );
        (DenialReason::InvalidRequest, detail)
    })
}

/// Writes everything that one admitted child is.
fn create(
    draft: &mut Draft<'_>,
    wanted: &SpawnRequest,
    parent: &AgentId,
    target: &Target<'_>,
    grant: &Grant,
) -> Spawned {
    let (now, index) = (draft.now, target.index);
    let seed = draft.seed("spawn");
    let (epic, node) = (wanted.epic, &target.node);
    let ulid = derive_ulid(now, &seed, "agent", index);
    let domain = target.wish.domain.clone().or_else(|| node.domain.clone());
    let id = match (target.wish.role, domain) {
        (Role::Specialist, Some(domain)) => AgentId::Specialist(domain, ulid),
        (Role::Reviewer, Some(domain)) => AgentId::Reviewer(domain, ulid),
        (_, _) => AgentId::Worker(ulid),
    };
    let work = Work {
        epic,
        node: node.id,
        assignment: AssignmentId::derive(now, &seed, "assignment", index),
        run: RunId::derive(now, &seed, "run", index),
    };
    let session = SessionId::derive(now, &seed, "session", index);
    if draft.node(epic, node.id).is_none() {
        add_node(draft, epic, node);
    }
    let project = hold_slot(draft, parent, &id, grant);
    let requested_by = wanted.requested_by.clone().unwrap_or_else(|| draft.actor.clone());
    draft.put(Record::Agent(Box::new(Agent {
        id: id.clone(),
        session: Some(session),
        epoch: 1,
        liveness: Liveness::Register,
        reason: "admitted".to_owned(),
        since: now,
        parent: Some(parent.clone()),
        depth: grant.depth,
        max_depth: grant.max_depth,
        local_max_depth: grant.local_max_depth,
        requested_by,
        project,
        hosting: Hosting::Hosted,
        placement: Some(grant.placement.clone()),
        label: target.wish.suggested_actor_id.clone(),
        slots: Vec::new(),
        account: Account::of(grant.budget),
        deadline: grant.deadline,
        tools: brief::tools(target.wish, Some(node), &target.profile),
        circuit_open: false,
        work: Some(work.clone()),
        created: now,
    })));
    let event = draft.event(
        EventKind::AgentAdmitted,
        "03 Spawn protocol",
        format!(
            "for {parent} at depth {} on {}: {}",
            grant.depth, grant.placement.host, wanted.reason
        ),
    );
    event.agent = Some(id.clone());
    event.epic = Some(epic);
    event.node = Some(node.id);
    event.run = Some(work.run);
    assign(draft, &id, session, &work, target, grant);
    sessions::launch(draft, &id, None);
    Spawned {
        agent: id,
        session,
        epoch: 1,
        depth: grant.depth,
        node: node.id,
        host: grant.placement.host.clone(),
    }
}

fn add_node(draft: &mut Draft<'_>, epic: EpicId, node: &Node) {
    draft.put(Record::Node(epic, Box::new(node.clone())));
    plans::put_leaf(draft, epic, node.id);
    let event = draft.event(EventKind::NodeAdded, "03 Spawn protocol", node.name.clone());
    event.epic = Some(epic);
    event.node = Some(node.id);
    draft.touch(epic, PlanReason::Spawn).defined.push(node.id);
    plans::move_node(draft, epic, node.id, NodeStatus::Queued, "added for a child", |_| {});
}

/// Takes one of the parent's slots; gives the project.
fn hold_slot(
    draft: &mut Draft<'_>,
    parent: &AgentId,
    child: &AgentId,
    grant: &Grant,
) -> Option<crate::id::ProjectName> {
    let mut parent = draft.agent(parent)?.clone();
    parent.slots.push(Slot { child: child.clone(), grant: grant.budget });
    parent.account.reserve(grant.budget);
    let project = parent.project.clone();
    draft.put(Record::Agent(Box::new(parent)));
    project
}

/// Binds the node to the child and gives it its run.
fn assign(
    draft: &mut Draft<'_>,
    id: &AgentId,
    session: SessionId,
    work: &Work,
    target: &Target<'_>,
    grant: &Grant,
) {
    let state = draft.node_state(work.epic, work.node);
    let purpose = state.map_or(Purpose::Execute, |state| state.purpose);
    let attempt = state.map_or(0, |state| state.attempts) + u32::from(purpose == Purpose::Execute);
    let brief = brief::expand(draft, target.wish, work.epic, &target.node, &target.profile, grant);
    draft.put(Record::Assignment(Box::new(Assignment {
        id: work.assignment,
        epic: work.epic,
        node: work.node,
        purpose,
        agent: id.clone(),
        run: work.run,
        status: AssignmentStatus::Dispatched,
        reason: "launch ordered".to_owned(),
        attempt,
        follows: None,
        created: draft.now,
        updated: draft.now,
    })));
    sessions::put_run(
        draft,
        Run {
            id: work.run,
            agent: id.clone(),
            session,
            epoch: 1,
            epic: work.epic,
            node: work.node,
            assignment: work.assignment,
            brief,
            continues: None,
            placement: Some(grant.placement.clone()),
            created: draft.now,
        },
    );
    let why = format!("assigned to {id}");
    plans::move_node(draft, work.epic, work.node, NodeStatus::InProgress, &why, |state| {
        state.assignment = Some(work.assignment);
        state.assignee = Some(id.clone());
        state.attempts = attempt;
    });
}

/// The sender's claims about itself that the record contradicts.
fn corrections(draft: &Draft<'_>, request: &Request, wanted: &SpawnRequest) -> Vec<String> {
    let Some(sender) = request.sender.from.agent().and_then(|id| draft.base().agents.get(id))
    else {
        return Vec::new();
    };
    let claims = [
        ("depth", wanted.caller_depth, sender.depth),
        ("max_depth", wanted.caller_max_depth, sender.max_depth),
        ("local_max_depth", wanted.caller_local_max_depth, sender.local_max_depth),
    ];
    let wrong = claims.into_iter().filter(|(_, claim, truth)| claim.is_some_and(|c| c != *truth));
    wrong
        .map(|(name, claim, truth)| {
            format!("caller_{name}: {} claimed, {truth} is true", claim.unwrap_or_default())
        })
        .collect()
}

fn deny_all(
    draft: &mut Draft<'_>,
    request: &Request,
    wanted: &SpawnRequest,
    reason: DenialReason,
    detail: &str,
) {
    let denied = wanted.subagents.iter().enumerate().map(|(index, wish)| Denied {
        index,
        role: wish.role,
        reason,
        limit: None,
        current: None,
        detail: detail.to_owned(),
    });
    let denied = denied.collect();
    let parent = wanted.parent.clone().or_else(|| request.sender.from.agent().cloned());
    let parent = parent.unwrap_or(AgentId::Go);
    let corrections = corrections(draft, request, wanted);
    answer(draft, request, wanted, &parent, Vec::new(), denied, corrections);
}

fn answer(
    draft: &mut Draft<'_>,
    request: &Request,
    wanted: &SpawnRequest,
    parent: &AgentId,
    spawned: Vec<Spawned>,
    denied: Vec<Denied>,
    corrections: Vec<String>,
) {
    for refusal in &denied {
        let reason = format!("{}: {}", refusal.reason, refusal.detail);
        let event = draft.event(EventKind::SpawnDenied, "03 Spawn protocol", reason);
        event.agent = Some(parent.clone());
        event.epic = Some(wanted.epic);
    }
    let violations: Vec<Denied> =
        denied.iter().filter(|denied| denied.reason.is_violation()).cloned().collect();
    if !violations.is_empty() {
        let sender = request.sender.from.clone();
        let above = draft.agent(parent).and_then(|agent| agent.parent.clone());
        let to = Principal::Agent(above.unwrap_or(AgentId::Go));
        let body = MailBody::Violation { sender, parent: parent.clone(), denied: violations };
        draft.mail(to, Some(wanted.epic), body);
    }
    if !wanted.ack_required {
        return;
    }
    let stale = draft.agent(parent).is_some_and(|agent| agent.liveness == Liveness::Stale);
    let refused = spawned.is_empty();
    let whole = match denied.first().map(|denied| denied.reason) {
        Some(DenialReason::InvalidRequest) if denied.len() == wanted.subagents.len() => {
            DenialReason::InvalidRequest.as_str()
        }
        _ => Admission::overall(&denied),
    };
    let answer = SpawnAnswer {
        epic: Some(wanted.epic),
        request: request.id,
        parent: Some(parent.clone()),
        reason: if refused { whole.to_owned() } else { String::new() },
        suggestion: if refused { SUGGESTION.to_owned() } else { String::new() },
        retry: refused && stale,
        spawned,
        denied,
        corrections,
    };
    draft.mail(request.sender.from.clone(), Some(wanted.epic), MailBody::SpawnAnswer(answer));
}
