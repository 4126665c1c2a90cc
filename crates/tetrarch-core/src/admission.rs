//! The governor's rule: which of the requested sub-agents a parent may have (spec 03).
//! Pure arithmetic on a view of the parent and the hosts; what an admission creates is
//! written by `owner::spawn`.

pub mod queued;

use crate::agent::{Agent, Host, Placement};
use crate::brief::Tools;
use crate::budget::{Account, Limits};
use crate::error::DenialReason;
use crate::id::{AgentId, HostName};
use crate::limits::{DEPTH_CEILING, QUEUED_SPAWNS_MAX};
use crate::liveness::Liveness;
use crate::mail::Denied;
use crate::plan::PlacementWish;
use crate::role::{Parenthood, Role, parenthood};
use crate::time::{BusTime, Millis};

/// By what right the sender asks for that parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It is the parent.
    Own,
    /// It is an orchestrator above the parent in the same project, or a human.
    Sponsor,
    /// By none.
    None,
}

/// The parent, as far as admission looks at it.
#[derive(Debug, Clone, PartialEq)]
pub struct ParentView {
    /// Its role.
    pub role: Role,
    /// Its depth.
    pub depth: u8,
    /// The root's limit.
    pub max_depth: u8,
    /// Its subtree's limit.
    pub local_max_depth: u8,
    /// Its liveness.
    pub liveness: Liveness,
    /// Slots held.
    pub held: usize,
    /// Slots there are: the lower of mode and `max_children`.
    pub cap: usize,
    /// Its requests that wait and come first.
    pub queued: usize,
    /// Its account.
    pub account: Account,
    /// When its wall clock ends.
    pub deadline: Option<BusTime>,
    /// Its tools.
    pub tools: Tools,
    /// Restart intensity tripped at it or above it.
    pub circuit_open: bool,
}

/// A host, as far as placement looks at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostView {
    /// Where an agent would be placed.
    pub placement: Placement,
    /// Its labels.
    pub labels: Vec<(String, String)>,
    /// Its places.
    pub capacity: u32,
    /// Places that are taken, each by an agent with work.
    pub load: u32,
}

impl HostView {
    /// A host with so many places taken in its present life; none while its orchestrator is not up or the host is
    /// drained.
    #[must_use]
    pub(crate) fn of(
        host: &Host,
        orchestrator: &Agent,
        load: impl FnOnce(&Placement) -> usize,
    ) -> Option<Self> {
        if host.drained || orchestrator.liveness != Liveness::Active {
            return None;
        }
        let placement = Placement { host: host.name.clone(), host_epoch: orchestrator.epoch };
        let load = u32::try_from(load(&placement)).unwrap_or(u32::MAX);
        Some(Self { labels: host.labels.clone(), capacity: host.capacity, load, placement })
    }

    /// Whether it takes one more agent with work.
    pub(crate) fn has_room(&self) -> bool {
        self.load < self.capacity
    }
}

/// One sub-agent that is wanted.
#[derive(Debug, Clone, PartialEq)]
pub struct Wish {
    /// Its role.
    pub role: Role,
    /// Its name, when it is not a new one.
    pub taken: bool,
    /// The subtree's limit that is asked for.
    pub local_max_depth: Option<u8>,
    /// What it asks to spend.
    pub budget: Limits,
    /// Longest run it asks for.
    pub wall: Option<Millis>,
    /// What it asks to use.
    pub tools: Tools,
    /// Where.
    pub placement: PlacementWish,
    /// Whether it waits where nothing is missing but a free slot or a place on a host.
    pub wait: bool,
}

/// What an admitted child gets.
#[derive(Debug, Clone, PartialEq)]
pub struct Grant {
    /// Its place in the request, from 0.
    pub index: usize,
    /// Its depth.
    pub depth: u8,
    /// The root's limit, inherited.
    pub max_depth: u8,
    /// Its subtree's limit, clamped to the parent's.
    pub local_max_depth: u8,
    /// What it may spend.
    pub budget: Limits,
    /// When its wall clock ends.
    pub deadline: Option<BusTime>,
    /// Where it runs.
    pub placement: Placement,
}

/// What becomes of a request.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Admission {
    /// Who is admitted.
    pub granted: Vec<Grant>,
    /// Who is not.
    pub denied: Vec<Denied>,
    /// Who waits, each with what is missing.
    pub queued: Vec<Denied>,
}

impl Admission {
    /// The overall reason when nobody is admitted (spec 03).
    #[must_use]
    pub fn overall(denied: &[Denied]) -> &'static str {
        if !denied.is_empty() && denied.iter().all(|denied| denied.reason.is_depth()) {
            "all_requests_exceed_depth_limit"
        } else {
            "all_requests_denied"
        }
    }
}

struct Denial {
    reason: DenialReason,
    limit: Option<u64>,
    current: Option<u64>,
    detail: String,
    /// Whether nothing else is missing and the sub-agent waits for it.
    waits: bool,
}

fn denial(reason: DenialReason, detail: impl Into<String>) -> Denial {
    Denial { reason, limit: None, current: None, detail: detail.into(), waits: false }
}

fn limited(reason: DenialReason, limit: u64, current: u64, detail: String) -> Denial {
    Denial { reason, limit: Some(limit), current: Some(current), detail, waits: false }
}

/// Decides on every wish in order; what one gets is no longer free for the next.
/// `parent` is none when there is no such agent.
#[must_use]
pub fn admit(
    parent: Option<&ParentView>,
    standing: Standing,
    hosts: &[HostView],
    wishes: &[Wish],
    now: BusTime,
) -> Admission {
    let mut admission = Admission::default();
    let mut hosts = hosts.to_vec();
    let mut view = parent.cloned();
    for (index, wish) in wishes.iter().enumerate() {
        match admit_one(view.as_mut(), standing, &mut hosts, wish, index, now) {
            Ok(grant) => admission.granted.push(grant),
            Err(Denial { reason, limit, current, detail, waits }) => {
                let denied = Denied { index, role: wish.role, reason, limit, current, detail };
                if waits { admission.queued.push(denied) } else { admission.denied.push(denied) }
            }
        }
    }
    admission
}

fn admit_one(
    parent: Option<&mut ParentView>,
    standing: Standing,
    hosts: &mut [HostView],
    wish: &Wish,
    index: usize,
    now: BusTime,
) -> Result<Grant, Denial> {
    let parent =
        parent.ok_or_else(|| denial(DenialReason::UnknownParent, "the parent was not found"))?;
    check_parent(parent, standing)?;
    check_depth(parent)?;
    check_role(parent, standing, wish.role)?;
    // What waits lacks nothing else.
    let slot = match check_slot(parent, wish) {
        Err(denial) if !wish.wait => return Err(denial),
        slot => slot,
    };
    if wish.taken {
        let detail = "an agent of this name exists and has not terminated";
        return Err(denial(DenialReason::DuplicateIdentity, detail));
    }
    let foreign = wish.tools.not_in(&parent.tools);
    if !foreign.is_empty() {
        let detail = format!("the parent has no {}", foreign.join(", "));
        return Err(denial(DenialReason::ToolNotAllowed, detail));
    }
    // Who waits for a slot gets its share of the budget when there is one.
    let free_slots =
        if wish.role.takes_slot() { parent.cap.saturating_sub(parent.held).max(1) } else { 1 };
    let budget = parent.account.carve(wish.budget, free_slots).map_err(|error| {
        let detail = error.to_string();
        limited(DenialReason::BudgetExceeded, error.free, error.requested, detail)
    })?;
    let deadline = check_wall(parent, wish.wall, now)?;
    slot?;
    let takes_place = wish.role.takes_slot();
    let is_placeable = hosts.iter().any(|host| satisfies(host, &wish.placement));
    let host = freest(hosts, &wish.placement, takes_place).ok_or_else(|| Denial {
        waits: wish.wait && is_placeable,
        ..denial(
            DenialReason::NoHostAvailable,
            "no active host with free capacity satisfies the placement",
        )
    })?;
    host.load += u32::from(takes_place);
    parent.account.reserve(budget);
    if wish.role.takes_slot() {
        parent.held += 1;
    }
    let wanted = wish.local_max_depth.unwrap_or(parent.local_max_depth);
    let depth = parent.depth.saturating_add(1);
    Ok(Grant {
        index,
        depth,
        max_depth: parent.max_depth,
        local_max_depth: wanted.min(parent.local_max_depth).max(depth),
        budget,
        deadline,
        placement: host.placement.clone(),
    })
}

fn check_parent(parent: &ParentView, standing: Standing) -> Result<(), Denial> {
    if standing == Standing::None {
        return Err(denial(
            DenialReason::Unauthorized,
            "only the parent itself, or an orchestrator above it in the same project, may ask",
        ));
    }
    if parent.liveness != Liveness::Active {
        let detail = format!("the parent is {}", parent.liveness);
        return Err(denial(DenialReason::ParentNotActive, detail));
    }
    if parent.circuit_open {
        let detail = "restart intensity was exceeded; close the circuit with `tetrarch circuit close <agent>`";
        return Err(denial(DenialReason::CircuitOpen, detail));
    }
    Ok(())
}

/// A slot is free when none of the parent's requests waits for it already (spec 03, Limits per parent).
fn check_slot(parent: &ParentView, wish: &Wish) -> Result<(), Denial> {
    if !wish.role.takes_slot() || (parent.held < parent.cap && parent.queued == 0) {
        return Ok(());
    }
    let mut detail = format!("{} of {} slots are held", parent.held, parent.cap);
    if parent.queued > 0 {
        detail += &format!(", {} queued before it", parent.queued);
    }
    let reason = DenialReason::ChildrenLimitExceeded;
    if wish.wait && parent.queued >= QUEUED_SPAWNS_MAX {
        detail += &format!("; the limit of a queue is {QUEUED_SPAWNS_MAX}");
    }
    Err(Denial {
        // A mode without slots has none that becomes free.
        waits: wish.wait && parent.cap > 0 && parent.queued < QUEUED_SPAWNS_MAX,
        ..limited(reason, parent.cap as u64, parent.held as u64, detail)
    })
}

fn check_depth(parent: &ParentView) -> Result<(), Denial> {
    let depth = parent.depth.saturating_add(1);
    if depth > DEPTH_CEILING {
        return Err(limited(
            DenialReason::SpawnDepthExceeded,
            u64::from(DEPTH_CEILING),
            u64::from(depth),
            format!("the child would have depth {depth}; the maximum is {DEPTH_CEILING}"),
        ));
    }
    for (name, limit) in
        [("max_depth", parent.max_depth), ("local_max_depth", parent.local_max_depth)]
    {
        if parent.depth >= limit {
            return Err(limited(
                DenialReason::DepthLimitExceeded,
                u64::from(limit),
                u64::from(parent.depth),
                format!("the parent has depth {}; its {name} is {limit}", parent.depth),
            ));
        }
    }
    Ok(())
}

fn check_role(parent: &ParentView, standing: Standing, child: Role) -> Result<(), Denial> {
    match parenthood(parent.role, child) {
        Parenthood::Allowed => Ok(()),
        Parenthood::Sponsored if standing == Standing::Sponsor => Ok(()),
        Parenthood::Sponsored => Err(denial(
            DenialReason::RoleNotAllowed,
            "a specialist must send its request to its PO, as mail `spawn.sponsor`",
        )),
        Parenthood::Never => Err(denial(
            DenialReason::RoleNotAllowed,
            format!("a {} cannot be the parent of a {child}", parent.role),
        )),
    }
}

/// An explicit wall clock must fit into the parent's; none given means the parent's.
fn check_wall(
    parent: &ParentView,
    wall: Option<Millis>,
    now: BusTime,
) -> Result<Option<BusTime>, Denial> {
    match (parent.deadline, wall.map(|wall| now + wall)) {
        (Some(limit), Some(wanted)) if wanted > limit => Err(limited(
            DenialReason::BudgetExceeded,
            (limit - now).0,
            (wanted - now).0,
            format!("wall clock: {} requested, {} left to the parent", wanted - now, limit - now),
        )),
        (limit, None) => Ok(limit),
        (_, wanted) => Ok(wanted),
    }
}

/// The host that satisfies the wish with most free capacity, ties by name; one without room for who takes no
/// place of it (spec 03, Placement).
pub(crate) fn freest<'h>(
    hosts: &'h mut [HostView],
    wish: &PlacementWish,
    takes_place: bool,
) -> Option<&'h mut HostView> {
    let fits = |host: &HostView| satisfies(host, wish) && (!takes_place || host.has_room());
    hosts.iter_mut().filter(|host| fits(host)).max_by(|a, b| {
        let free = |host: &HostView| host.capacity.saturating_sub(host.load);
        free(a).cmp(&free(b)).then_with(|| b.placement.host.cmp(&a.placement.host))
    })
}

/// Whether a host is one that a wish allows.
pub(crate) fn satisfies(host: &HostView, wish: &PlacementWish) -> bool {
    let named = wish.host.as_ref().is_none_or(|name: &HostName| *name == host.placement.host);
    named && wish.labels.iter().all(|label| host.labels.contains(label))
}

/// Whether `sender` may ask for `parent`, whose ancestors are given nearest first.
#[must_use]
pub fn standing(sender: &AgentId, parent: &AgentId, ancestors: &[AgentId]) -> Standing {
    if sender == parent {
        return Standing::Own;
    }
    let orchestrates = matches!(Role::of(sender), Role::Project | Role::Global);
    if orchestrates && ancestors.contains(sender) { Standing::Sponsor } else { Standing::None }
}

#[cfg(test)]
mod tests;
