//! The tree of agents: depth, width, slots, budgets, tools, sessions and places (spec 10,
//! invariants 1, 2, 5, 6, 8, 17, 18, 22).

use std::collections::{BTreeMap, BTreeSet};

use crate::agent::{Agent, Hosting};
use crate::budget::{Meter, Spend};
use crate::id::AgentId;
use crate::limits::{CHILDREN_MAX, DEPTH_CEILING};
use crate::liveness::Liveness;
use crate::records::Records;
use crate::role::{Parenthood, Role, parenthood};

use super::Findings;

/// Looks at every agent.
pub(super) fn check(records: &Records, found: &mut Findings) {
    let mut children: BTreeMap<&AgentId, BTreeSet<&AgentId>> = BTreeMap::new();
    for agent in records.agents.values().filter(|agent| is_live(agent)) {
        if let Some(parent) = agent.parent.as_ref().filter(|_| Role::of(&agent.id).takes_slot()) {
            children.entry(parent).or_default().insert(&agent.id);
        }
    }
    for agent in records.agents.values() {
        slots(records, agent, children.get(&agent.id), found);
        session(records, agent, found);
        if is_live(agent) {
            place_in_tree(records, agent, found);
            place_on_host(records, agent, found);
        }
    }
    for host in records.hosts.keys() {
        let id = AgentId::Ho(host.clone());
        let known = records.agents.contains_key(&id);
        found.must(known, 22, &id, "a host has joined, but has no orchestrator");
    }
    if let Some(go) = records.agents.get(&AgentId::Go) {
        let (own, last) = (go.epoch, records.epoch);
        found.must(
            own == last,
            8,
            &go.id,
            format_args!("GO has epoch {own}, the last entry's owner {last}"),
        );
    }
}

pub(super) fn is_live(agent: &Agent) -> bool {
    agent.liveness != Liveness::Terminated
}

fn place_in_tree(records: &Records, agent: &Agent, found: &mut Findings) {
    let Agent { id, depth, max_depth, local_max_depth, .. } = agent;
    let ordered = depth <= local_max_depth && local_max_depth <= max_depth;
    found.must(
        ordered && *max_depth <= DEPTH_CEILING,
        1,
        id,
        format_args!("depth {depth}, local_max_depth {local_max_depth}, max_depth {max_depth}"),
    );
    if *id == AgentId::Go {
        let root = *depth == 0 && agent.parent.is_none();
        found.must(root, 1, id, format_args!("the root stands at depth {depth}"));
        return;
    }
    let Some(parent) = agent.parent.as_ref().and_then(|parent| records.agents.get(parent)) else {
        found.must(false, 1, id, "its parent is not known");
        return;
    };
    found.must(
        *depth == parent.depth.saturating_add(1),
        1,
        id,
        format_args!("depth {depth} below {} at depth {}", parent.id, parent.depth),
    );
    let (own, above) = (Role::of(id), Role::of(&parent.id));
    let allowed = parenthood(above, own) != Parenthood::Never;
    found.must(allowed, 1, id, format_args!("a {own} below a {above}"));
    // An operator may give the next GO another limit; below it, limits are inherited.
    if parent.id != AgentId::Go {
        let inherited =
            *local_max_depth <= parent.local_max_depth && *max_depth == parent.max_depth;
        found.must(
            inherited,
            1,
            id,
            format_args!(
                "limits {local_max_depth} of {max_depth} below {} of {}",
                parent.local_max_depth, parent.max_depth
            ),
        );
        let what = "it works in another project than its parent";
        found.must(agent.project == parent.project, 1, id, what);
    }
    if own.takes_slot() {
        let foreign = agent.tools.not_in(&parent.tools);
        found.must(
            foreign.is_empty(),
            17,
            id,
            format_args!("its parent has no {}", foreign.join(", ")),
        );
        let late = parent.deadline.is_some_and(|limit| agent.deadline.is_none_or(|at| at > limit));
        found.must(!late, 18, id, "its wall clock ends after its parent's");
    }
}

fn slots(
    records: &Records,
    agent: &Agent,
    children: Option<&BTreeSet<&AgentId>>,
    found: &mut Findings,
) {
    let id = &agent.id;
    let held: BTreeSet<&AgentId> = agent.slots.iter().map(|slot| &slot.child).collect();
    let count = agent.slots.len();
    found.must(
        count <= CHILDREN_MAX,
        2,
        id,
        format_args!("{count} slots are held, at most {CHILDREN_MAX} are allowed"),
    );
    found.must(held.len() == count, 2, id, "one child holds two slots");
    let none = BTreeSet::new();
    let live = children.unwrap_or(&none);
    for child in held.difference(live) {
        found.must(false, 5, id, format_args!("{child} holds a slot and is no live child"));
    }
    for child in live.difference(&held) {
        found.must(false, 5, id, format_args!("its live child {child} holds no slot"));
    }
    found.must(is_live(agent) || held.is_empty(), 5, id, "it is terminated and holds slots");
    let mut granted = Spend::default();
    for slot in &agent.slots {
        granted = granted.plus(slot.grant.carved());
        if let Some(child) = records.agents.get(&slot.child) {
            found.must(
                child.account.limit == slot.grant,
                18,
                id,
                format_args!("{} was granted another amount than its slot says", child.id),
            );
        }
        let (own, given) = (agent.account.limit, slot.grant);
        let loosened = (own.tokens.is_some() && given.tokens.is_none())
            || (own.cost_micro.is_some() && given.cost_micro.is_none())
            || (own.turns.is_some() && given.turns.is_none());
        found.must(!loosened, 18, id, format_args!("{} is unlimited below a limit", slot.child));
    }
    for held in &agent.unsettled.grants {
        granted = granted.plus(held.grant.carved());
        let what =
            format_args!("the grant of {} is held, and nothing of it is unsettled", held.child);
        found.must(!held.runs.is_empty(), 18, id, what);
    }
    for planning in records.plannings.values().filter(|_| is_live(agent)) {
        let project = planning.project(records).cloned();
        if project.is_some_and(|project| *id == AgentId::Po(project)) {
            granted = granted.plus(planning.set_aside);
        }
    }
    let what = "it is terminated, and its parent has not taken over what is unsettled";
    let below = agent.parent.is_some() && Role::of(id).takes_slot();
    found.must(is_live(agent) || !below || agent.unsettled.is_empty(), 18, id, what);
    let (spent, own) = (agent.account.spent, agent.account.drawn.max(agent.account.used));
    let what = format_args!("{spent:?} is spent, {own:?} was drawn or used by itself");
    found.must(spent.max(own) == spent, 18, id, what);
    let reserved = agent.account.reserved;
    found.must(
        reserved == granted,
        18,
        id,
        format_args!("{reserved:?} is reserved, {granted:?} was granted to its children"),
    );
    let fits = |meter: Meter| meter.limit.is_none_or(|limit| meter.reserved <= limit);
    let account = &agent.account;
    let within = fits(account.tokens()) && fits(account.cost()) && fits(account.turns());
    found.must(within, 18, id, "more is reserved than it was granted");
}

fn session(records: &Records, agent: &Agent, found: &mut Findings) {
    let id = &agent.id;
    match agent.session {
        Some(_) => found.must(agent.epoch > 0, 6, id, "it has a session and no epoch"),
        None => {
            let waits = agent.hosting == Hosting::External
                && matches!(agent.liveness, Liveness::Register | Liveness::Terminated);
            found.must(waits, 6, id, format_args!("it is {} without a session", agent.liveness));
        }
    }
    if agent.ending.is_some() {
        let hosted = agent.hosting == Hosting::Hosted && Role::of(id) != Role::Host;
        let may_run = match agent.liveness {
            Liveness::Register | Liveness::Active | Liveness::Stale => true,
            Liveness::Offline | Liveness::Terminated => false,
        };
        let what = format_args!("it is {} and its process is to end first", agent.liveness);
        found.must(hosted && may_run, 7, id, what);
    }
    if let AgentId::Ho(host) = id {
        let joined = !is_live(agent) || records.hosts.contains_key(host);
        found.must(joined, 22, id, "it is live, and its host never joined");
    }
}

fn place_on_host(records: &Records, agent: &Agent, found: &mut Findings) {
    let id = &agent.id;
    let hosted = agent.hosting == Hosting::Hosted && Role::of(id) != Role::Host;
    let Some(placement) = &agent.placement else {
        found.must(!hosted, 22, id, "it is hosted and placed nowhere");
        return;
    };
    found.must(
        hosted,
        22,
        id,
        format!("it is placed on {}, which does not run it", placement.host),
    );
    let host = records.agents.get(&AgentId::Ho(placement.host.clone()));
    let life = placement.host_epoch;
    // What an ended life left behind is dealt with in portions; `entry` sees to it that nothing
    // begins there.
    found.must(
        host.is_some_and(|host| host.epoch >= life),
        22,
        id,
        format_args!("it is placed on life {life} of {}, which never was", placement.host),
    );
}
