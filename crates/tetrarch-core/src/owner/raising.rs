//! Raising grants (spec 06, Budgets; spec 09, Human gate): a human adds to what an agent may spend while
//! its run goes on. What is added to a child's grant is taken out of what its parent has free
//! (docs/decisions/0057).

use crate::agent::Agent;
use crate::budget::{Counter, Limits, Spend};
use crate::error::{ErrorCode, Refusal};
use crate::id::{AgentId, Principal};
use crate::ledger::{EventKind, Record};
use crate::limits::TEXT_BYTES_MAX;
use crate::liveness::Liveness;
use crate::mail::{BudgetRaised, MailBody, OpReply};
use crate::request::BudgetOp;
use crate::role::Role;
use crate::run::RunState;
use crate::step::Draft;

use super::{fit, replacing};

const RULE: &str = "09 Human gate";

/// Raises a grant. That a human asks was looked at before.
///
/// # Errors
/// No such agent, it has ended or its run is ending, a counter is not limited, or the agents above it
/// have not so much free.
pub(super) fn operate(
    draft: &mut Draft<'_>,
    op: &BudgetOp,
    reply: OpReply,
) -> Result<OpReply, Refusal> {
    let BudgetOp::Raise { agent: id, more, reason } = op;
    let agent = replacing::known(draft, id)?;
    goes_on(draft, &agent)?;
    let limit = agent.account.limit.raised(*more).map_err(|error| {
        Refusal::new(ErrorCode::InvalidRequest, format!("the grant of {id}: {error}"))
    })?;
    fits(draft, id, *more)?;
    carve(draft, id, *more, limit);
    commit(draft, agent, *more, limit, reason);
    let agent = replacing::known(draft, id)?;
    Ok(OpReply {
        detail: format!("{id} may spend {more} more, {} in all", limit.carved()),
        data: Some(granted(limit)),
        agent: Some(id.clone()),
        session: agent.session,
        agent_epoch: Some(agent.epoch),
        liveness: Some(agent.liveness),
        ..reply
    })
}

/// The grant as JSON text; null in a counter means that it is not limited.
fn granted(limit: Limits) -> String {
    let Limits { tokens, cost_micro, turns } = limit;
    let grant = serde_json::json!({"tokens": tokens, "costMicro": cost_micro, "turns": turns});
    serde_json::json!({ "grant": grant }).to_string()
}

/// Whether there is a run that could spend it, now or later.
fn goes_on(draft: &Draft<'_>, agent: &Agent) -> Result<(), Refusal> {
    if agent.liveness == Liveness::Terminated {
        return Err(replacing::ended(agent));
    }
    let run = agent.work.as_ref().and_then(|work| draft.run_status(work.run));
    let Some(run) = run else { return Ok(()) };
    if run.cancel_kept || run.state == RunState::Cancelling {
        let detail = format!("the run of {} is ending; a raise comes too late", agent.id);
        return Err(Refusal::new(ErrorCode::Conflict, detail));
    }
    Ok(())
}

/// Out of whose grant an agent's is carved; none for orchestrators, whose grants are their own.
fn payer<'d>(draft: &'d Draft<'_>, id: &AgentId) -> Option<&'d Agent> {
    let parent = draft.agent(id).filter(|_| Role::of(id).takes_slot())?.parent.as_ref()?;
    draft.agent(parent)
}

/// Whether the parent has so much free.
///
/// # Errors
/// It has not: with its limit, what stands against it, and whom to raise first.
fn fits(draft: &Draft<'_>, id: &AgentId, more: Spend) -> Result<(), Refusal> {
    let Some(parent) = payer(draft, id) else { return Ok(()) };
    let short = parent.account.short_of(more);
    let Some(counter) = Counter::ALL.into_iter().find(|counter| short.of(*counter) > 0) else {
        return Ok(());
    };
    let meter = parent.account.meter(counter);
    let (limit, current) = (meter.limit.unwrap_or(0), meter.reserved.saturating_add(meter.spent));
    let unit = match counter {
        Counter::Tokens | Counter::Turns => counter.as_str(),
        Counter::CostMicro => "millionths of a dollar",
    };
    let detail = format!(
        "{} more {unit} were requested for {id}, but {} are free: {} has limit {limit}, current {current} \
         ({} reserved for its children, {} spent); raise {}",
        more.of(counter),
        meter.free().unwrap_or(0),
        parent.id,
        meter.reserved,
        meter.spent,
        first(draft, id, more),
    );
    Err(Refusal::new(ErrorCode::BudgetExceeded, detail))
}

/// Who above an agent has to be raised before, and by how much, from the top down.
fn first(draft: &Draft<'_>, id: &AgentId, more: Spend) -> String {
    let (mut below, mut more) = (id, more);
    let mut steps = Vec::new();
    while let Some(parent) = payer(draft, below) {
        more = parent.account.short_of(more);
        if more == Spend::default() {
            break;
        }
        steps.push(format!("{} by {more}", parent.id));
        below = &parent.id;
    }
    steps.reverse();
    format!("{} first", steps.join(", then "))
}

/// Takes what is added out of what the parent has free.
fn carve(draft: &mut Draft<'_>, id: &AgentId, more: Spend, limit: Limits) {
    let Some(mut parent) = payer(draft, id).cloned() else { return };
    let slot = parent.slots.iter_mut().find(|slot| slot.child == *id);
    let Some(slot) = slot else { return };
    slot.grant = limit;
    parent.account.reserved = parent.account.reserved.plus(more);
    draft.put(Record::Agent(Box::new(parent)));
}

fn commit(draft: &mut Draft<'_>, mut agent: Agent, more: Spend, limit: Limits, reason: &str) {
    let by = draft.actor.clone();
    let reason = fit::Room::of(TEXT_BYTES_MAX).text(reason, usize::MAX);
    let because = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    let text = format!("{by} granted {more} more, {} in all{because}", limit.carved());
    let work = agent.work.as_ref();
    let (epic, run) = (work.map(|work| work.epic), work.map(|work| work.run));
    let event = draft.event(EventKind::Budget, RULE, text);
    event.agent = Some(agent.id.clone());
    (event.epic, event.run) = (epic, run);
    let raised = BudgetRaised { agent: agent.id.clone(), limit, by, reason };
    let to = Principal::Agent(agent.id.clone());
    draft.mail(to, epic, MailBody::BudgetRaised(Box::new(raised)));
    agent.account.limit = limit;
    draft.put(Record::Agent(Box::new(agent)));
}
