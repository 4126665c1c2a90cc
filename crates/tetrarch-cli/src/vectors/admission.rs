//! Cases of the governor's admission (spec 03). Times are counted from an arbitrary zero, and
//! that is when the request is decided.

use serde_json::{Value, json};
use tetrarch_core::admission::{
    Admission, Grant, HostView, ParentView, Standing, Wish, admit, standing,
};
use tetrarch_core::agent::{Mode, Placement};
use tetrarch_core::budget::{Account, Limits, Spend};
use tetrarch_core::id::{AgentId, Domain, HostName, HumanName, Principal, ProjectName, Ulid};
use tetrarch_core::limits::{CAPACITY_PER_CORE, CHILDREN_MAX, DEPTH_CEILING};
use tetrarch_core::liveness::Liveness;
use tetrarch_core::mail::Denied;
use tetrarch_core::plan::PlacementWish;
use tetrarch_core::role::Role;
use tetrarch_core::time::{BusTime, Millis};

use crate::vectors::input::{CaseError, CaseMap, CaseValue};
use crate::vectors::outcome::{CaseOutcome, CaseResult};

const NOW: BusTime = BusTime(0);
/// Stands for every name that a case does not give.
const NAME: &str = "demo";
const ROLES: &str = "global, host, project, interaction, specialist, reviewer, worker";

pub(super) fn outcome(given: &CaseValue<'_>, when: &CaseValue<'_>) -> CaseResult {
    let given = given.keys("parent mode hosts existing sender sponsor_of_parent")?;
    let parent = read_parent(&given)?;
    let standing = read_standing(&given, &parent.id)?;
    let mut hosts = given.each("hosts", read_host)?;
    if given.get("hosts").is_none() {
        // One host with room for everything.
        let placement = Placement { host: name(HostName::new)?, host_epoch: 1 };
        hosts.push(HostView { placement, labels: Vec::new(), capacity: u32::MAX, load: 0 });
    }
    let existing: Vec<AgentId> = given.each("existing", CaseValue::parsed)?;
    let requests = when.keys("requests")?.need("requests")?;
    let wishes = requests.each(|one| read_wish(one, &existing))?;
    let admission = admit(parent.view.as_ref(), standing, &hosts, &wishes, NOW);
    Ok(show(&admission))
}

fn show(admission: &Admission) -> CaseOutcome {
    let accepted: Vec<usize> = admission.granted.iter().map(|grant| grant.index).collect();
    let denied: Vec<Value> = admission.denied.iter().map(show_denied).collect();
    let queued: Vec<Value> = admission.queued.iter().map(show_denied).collect();
    let children: Vec<Value> = admission.granted.iter().map(show_grant).collect();
    let mut outcome = CaseOutcome::default();
    if accepted.is_empty() && queued.is_empty() {
        outcome = outcome.set("reason", Admission::overall(&admission.denied));
    }
    let outcome = outcome.set("accepted", accepted).set("denied", denied);
    outcome.set("queued", queued).set("children", children)
}

fn show_denied(denied: &Denied) -> Value {
    json!({
        "index": denied.index,
        "role": denied.role.as_str(),
        "reason": denied.reason.as_str(),
        "limit": denied.limit,
        "current": denied.current,
        "detail": denied.detail,
    })
}

fn show_grant(grant: &Grant) -> Value {
    json!({
        "depth": grant.depth,
        "max_depth": grant.max_depth,
        "local_max_depth": grant.local_max_depth,
        "host": grant.placement.host.as_str(),
        "budget": {
            "tokens": grant.budget.tokens,
            "cost_usd": grant.budget.cost_micro.map(|micro| micro as f64 / 1e6),
            "turns": grant.budget.turns,
            "wall_s": grant.deadline.map(|deadline| (deadline - NOW).0 as f64 / 1e3),
        },
    })
}

/// The parent of a case; no view when there is no such agent.
struct Parent {
    id: AgentId,
    view: Option<ParentView>,
}

fn read_parent(given: &CaseMap<'_>) -> Result<Parent, CaseError> {
    // Unknown text counts as `solo` at run time (spec 03, Limits per parent).
    let mode = given.or("mode", Mode::default(), |mode| Ok(Mode::parse_or_solo(mode.text()?)))?;
    if given.has("parent") && given.get("parent").is_none() {
        return Ok(Parent { id: usual(Role::Project)?, view: None });
    }
    let empty = json!({});
    let field = given.get("parent").unwrap_or_else(|| CaseValue::new("given.parent", &empty));
    let input = field.keys(
        "id role depth max_depth local_max_depth state children budget reserved spent tools \
         circuit_open queued",
    )?;
    let named: Option<AgentId> = input.maybe("id", CaseValue::parsed)?;
    let usual_role = named.as_ref().map_or(Role::Project, Role::of);
    let role = input.or("role", usual_role, |role| role.word(ROLES, Role::parse))?;
    if let Some(id) = &named
        && Role::of(id) != role
    {
        return Err(input.need("role")?.wrong(usual_role.as_str()));
    }
    let children = input.each("children", |role| role.word(ROLES, Role::parse))?;
    let budget = read_budget(&input, "budget")?;
    let (reserved, spent) = (read_budget(&input, "reserved")?, read_budget(&input, "spent")?);
    let max_depth = input.or("max_depth", DEPTH_CEILING, CaseValue::whole)?;
    let used = spent.wall.unwrap_or_default();
    let view = ParentView {
        role,
        depth: input.or("depth", usual_depth(role), CaseValue::whole)?,
        max_depth,
        local_max_depth: input.or("local_max_depth", max_depth, CaseValue::whole)?,
        liveness: input
            .or("state", Liveness::Active, |state| state.one(&Liveness::ALL, Liveness::as_str))?,
        held: children.into_iter().filter(|role| role.takes_slot()).count(),
        cap: mode.cap().min(CHILDREN_MAX),
        account: Account {
            limit: budget.limits,
            reserved: reserved.limits.carved(),
            spent: Spend { ..spent.limits.carved() },
            ..Account::default()
        },
        deadline: budget.wall.map(|wall| NOW + Millis(wall.0.saturating_sub(used.0))),
        tools: input.or("tools", Vec::new(), CaseValue::texts)?.into_iter().collect(),
        circuit_open: input.or("circuit_open", false, CaseValue::flag)?,
        queued: input.or("queued", 0, CaseValue::whole)?,
    };
    Ok(Parent { id: named.map_or_else(|| usual(role), Ok)?, view: Some(view) })
}

/// The depth at which agents of a role usually stand.
fn usual_depth(role: Role) -> u8 {
    match role {
        Role::Global => 0,
        Role::Host | Role::Project | Role::Interaction => 1,
        Role::Specialist | Role::Reviewer | Role::Worker => 2,
    }
}

fn name<T>(read: impl Fn(&str) -> Result<T, tetrarch_core::id::IdError>) -> Result<T, CaseError> {
    read(NAME).map_err(|error| CaseError(error.to_string()))
}

fn usual(role: Role) -> Result<AgentId, CaseError> {
    Ok(match role {
        Role::Global => AgentId::Go,
        Role::Host => AgentId::Ho(name(HostName::new)?),
        Role::Project => AgentId::Po(name(ProjectName::new)?),
        Role::Interaction => AgentId::Io(name(HumanName::new)?),
        Role::Specialist => AgentId::Specialist(name(Domain::new)?, Ulid::nil()),
        Role::Reviewer => AgentId::Reviewer(name(Domain::new)?, Ulid::nil()),
        Role::Worker => AgentId::Worker(Ulid::nil()),
    })
}

/// By what right the sender asks. `sponsor_of_parent` is true when the sender is the parent's
/// sponsor, or names the agent that is; GO is above everyone.
fn read_standing(given: &CaseMap<'_>, parent: &AgentId) -> Result<Standing, CaseError> {
    let sponsor = match given.get("sponsor_of_parent") {
        Some(field) if *field.value() == Value::Bool(true) => Sponsor::Sender,
        Some(field) if !field.value().is_boolean() => Sponsor::Agent(field.parsed()?),
        Some(_) | None => Sponsor::Nobody,
    };
    let sender = match (given.get("sender"), &sponsor) {
        (Some(sender), _) => sender.parsed()?,
        (None, Sponsor::Sender) => Principal::Agent(usual(Role::Project)?),
        (None, Sponsor::Agent(_) | Sponsor::Nobody) => Principal::Agent(parent.clone()),
    };
    Ok(match sender {
        Principal::Human(_) => Standing::Sponsor,
        Principal::Agent(sender) => {
            let above = match sponsor {
                Sponsor::Sender => sender.clone(),
                Sponsor::Agent(id) => id,
                Sponsor::Nobody => AgentId::Go,
            };
            standing(&sender, parent, &[above, AgentId::Go])
        }
    })
}

enum Sponsor {
    Sender,
    Agent(AgentId),
    Nobody,
}

fn read_host(field: &CaseValue<'_>) -> Result<HostView, CaseError> {
    let input = field.keys("name labels capacity load")?;
    Ok(HostView {
        placement: Placement { host: input.need("name")?.parsed()?, host_epoch: 1 },
        labels: input.or("labels", Vec::new(), read_labels)?,
        capacity: input.or("capacity", CAPACITY_PER_CORE, CaseValue::whole)?,
        load: input.or("load", 0, CaseValue::whole)?,
    })
}

/// Labels as a mapping, or as a list of `key=value`.
fn read_labels(field: &CaseValue<'_>) -> Result<Vec<(String, String)>, CaseError> {
    let allowed = "a mapping from labels to texts, or a list of key=value";
    if let Value::Object(map) = field.value() {
        let pair =
            |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
        return map.iter().map(|one| pair(one).ok_or_else(|| field.wrong(allowed))).collect();
    }
    let pair =
        |text: &str| text.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
    field.each(|label| label.word(allowed, pair))
}

#[derive(Default)]
struct Budget {
    limits: Limits,
    wall: Option<Millis>,
}

fn read_budget(input: &CaseMap<'_>, key: &str) -> Result<Budget, CaseError> {
    let Some(field) = input.get(key) else {
        return Ok(Budget::default());
    };
    let input = field.keys("tokens cost_usd turns wall_s")?;
    let whole = |key| input.maybe(key, CaseValue::whole);
    let scaled = |key, scale: f64| -> Result<Option<u64>, CaseError> {
        let number = input.maybe(key, CaseValue::number)?;
        Ok(number.map(|number| (number.min(1e9) * scale).round() as u64))
    };
    let limits = Limits {
        tokens: whole("tokens")?,
        cost_micro: scaled("cost_usd", 1e6)?,
        turns: whole("turns")?,
    };
    Ok(Budget { limits, wall: scaled("wall_s", 1e3)?.map(Millis) })
}

fn read_wish(field: &CaseValue<'_>, existing: &[AgentId]) -> Result<Wish, CaseError> {
    let input = field.keys("role domain name local_max_depth budget tools placement wait")?;
    let role = input.or("role", Role::Worker, |role| role.word(ROLES, Role::parse))?;
    let budget = read_budget(&input, "budget")?;
    let placement = input.or("placement", PlacementWish::default(), read_placement)?;
    if let Some(domain) = input.get("domain") {
        domain.parsed::<Domain>()?;
    }
    let wanted = input.get("name").or_else(|| input.get("domain"));
    Ok(Wish {
        role,
        taken: identity(role, wanted.as_ref(), &placement)?
            .is_some_and(|id| existing.contains(&id)),
        local_max_depth: input.maybe("local_max_depth", CaseValue::whole)?,
        budget: budget.limits,
        wall: budget.wall,
        tools: input.or("tools", Vec::new(), CaseValue::texts)?.into_iter().collect(),
        placement,
        wait: input.or("wait", false, CaseValue::flag)?,
    })
}

/// The name that a wish for an orchestrator asks for; all others are given new ones.
fn identity(
    role: Role,
    wanted: Option<&CaseValue<'_>>,
    placement: &PlacementWish,
) -> Result<Option<AgentId>, CaseError> {
    let id = match (role, wanted) {
        (Role::Global, _) => AgentId::Go,
        (Role::Host, Some(name)) => AgentId::Ho(name.parsed()?),
        (Role::Host, None) => match &placement.host {
            Some(host) => AgentId::Ho(host.clone()),
            None => usual(role)?,
        },
        (Role::Project, Some(name)) => AgentId::Po(name.parsed()?),
        (Role::Interaction, Some(name)) => AgentId::Io(name.parsed()?),
        (Role::Project | Role::Interaction, None) => usual(role)?,
        (Role::Specialist | Role::Reviewer | Role::Worker, _) => return Ok(None),
    };
    Ok(Some(id))
}

fn read_placement(field: &CaseValue<'_>) -> Result<PlacementWish, CaseError> {
    if field.value().is_string() {
        return Ok(PlacementWish { host: Some(field.parsed()?), labels: Vec::new() });
    }
    let input = field.keys("host labels")?;
    Ok(PlacementWish {
        host: input.maybe("host", CaseValue::parsed)?,
        labels: input.or("labels", Vec::new(), read_labels)?,
    })
}
