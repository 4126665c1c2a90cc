//! Everything that one admitted child is: its record, its slot, its node, assignment and run,
//! and the order to launch it (spec 03, Spawn protocol). All of it in the decision's own step.

use crate::admission::Grant;
use crate::agent::{Agent, Hosting, Slot, Unsettled, Work};
use crate::assignment::{Assignment, AssignmentStatus, Purpose, Recovery};
use crate::budget::Account;
use crate::id::{
    AgentId, AssignmentId, EpicId, Principal, ProjectName, RunId, SessionId, Ulid, derive_ulid,
};
use crate::intensity::Circuit;
use crate::ledger::{EventKind, Record};
use crate::liveness::Liveness;
use crate::mail::Spawned;
use crate::plan::{Node, NodeStatus, PlanReason};
use crate::request::SpawnRequest;
use crate::role::Role;
use crate::run::Run;
use crate::step::Draft;
use crate::verb::Verbs;

use super::target::Target;
use crate::owner::{brief, plans, sessions};

/// The name of a child: what it is to be, and of which domain.
fn named(target: &Target<'_>, ulid: Ulid) -> AgentId {
    let domain = target.wish.domain.clone().or_else(|| target.node.domain.clone());
    match (target.wish.role, domain) {
        (Role::Specialist, Some(domain)) => AgentId::Specialist(domain, ulid),
        (Role::Reviewer, Some(domain)) => AgentId::Reviewer(domain, ulid),
        (_, _) => AgentId::Worker(ulid),
    }
}

/// Writes everything that one admitted child is.
pub(super) fn create(
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
    let id = named(target, ulid);
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
    let requested_by = requested_by(draft, wanted, parent);
    draft.put(Record::Agent(Box::new(Agent {
        id: id.clone(),
        session: Some(session),
        mail_read: 0,
        denials: Default::default(),
        retired: false,
        epoch: 1,
        liveness: Liveness::Register,
        reason: "admitted".to_owned(),
        since: now,
        ending: None,
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
        verbs: Verbs::default(),
        unsettled: Unsettled::default(),
        deadline: grant.deadline,
        tools: brief::tools(target.wish, Some(node), &target.profile),
        circuit: Circuit::default(),
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
    plans::define(draft, epic, node);
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
) -> Option<ProjectName> {
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
    let parent = draft.agent(id).and_then(|agent| draft.agent(agent.parent.as_ref()?));
    let above =
        parent.and_then(|parent| draft.run(parent.work.as_ref()?.run)).map(|run| &run.brief);
    let Target { wish, node, profile, .. } = target;
    let brief = brief::expand(draft, wish, (work.epic, node), profile, grant, above);
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
        follows: state.and_then(|state| state.latest),
        created: draft.now,
        updated: draft.now,
        recovery: Recovery::dispatched(None, draft.now),
        policy: target.node.recovery,
        refused: Vec::new(),
        launch: None,
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
        state.latest = Some(work.assignment);
        state.assignee = Some(id.clone());
        state.attempts = attempt;
    });
}

/// On whose behalf it is asked for: the sender's own, or that of the one below it which it sponsors. Whatever
/// else is claimed does not count.
fn requested_by(draft: &Draft<'_>, wanted: &SpawnRequest, parent: &AgentId) -> Principal {
    let sponsored = draft.agent(parent).is_some_and(|below| {
        below.parent.as_ref() == draft.actor.agent()
            && wanted.requested_by.as_ref().and_then(Principal::agent) == Some(parent)
    });
    if sponsored { Principal::Agent(parent.clone()) } else { draft.actor.clone() }
}
