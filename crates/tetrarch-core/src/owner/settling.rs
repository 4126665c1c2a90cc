//! What becomes of a grant when its agent ends, and of what lost runs used (spec 06, Budgets): the slot
//! is free at once, the grant stays carved out until the journals of lost runs are read. Reading them
//! is the shell's.

use crate::agent::{Agent, HeldGrant, LostRun};
use crate::budget::Spend;
use crate::id::{AgentId, RunId};
use crate::ledger::{EventKind, Record};
use crate::limits::{JOURNAL_ENDS_WITHIN, OWED_MAX, SETTLED_MAX};
use crate::records::Records;
use crate::step::Draft;

const RULE: &str = "06 Budgets";

/// What a lost run's journal says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    /// Whose record waits for it.
    pub holder: AgentId,
    /// The run.
    pub run: RunId,
    /// What it used by itself, open set-asides with it.
    pub charge: Spend,
    /// Whether its journal has ended.
    pub ended: bool,
}

/// The runs whose journals are to be read, each with whose record waits for it; at most
/// [`SETTLED_MAX`].
#[must_use]
pub fn unsettled(records: &Records) -> Vec<(AgentId, RunId)> {
    let agents = records.unsettled().filter_map(|id| records.agents.get(id));
    let runs =
        agents.flat_map(|agent| agent.unsettled.lost().map(|lost| (agent.id.clone(), lost.run)));
    runs.take(SETTLED_MAX).collect()
}

/// Notes a run that ended without saying what it used. When too many are noted, what is charged of it
/// stands.
pub(super) fn owe(draft: &mut Draft<'_>, id: &AgentId, lost: LostRun) {
    let Some(mut agent) = draft.agent(id).cloned() else { return };
    if agent.unsettled.runs.len() < OWED_MAX {
        agent.unsettled.runs.push(lost);
        draft.put(Record::Agent(Box::new(agent)));
    }
}

/// Closes the account of an agent that ends; gives the runs that its parent has to have settled, its
/// ended children's with them.
pub(super) fn close(agent: &mut Agent) -> Vec<LostRun> {
    let unsettled = std::mem::take(&mut agent.unsettled);
    let lost = unsettled.lost().copied().collect();
    agent.account.close();
    let below = unsettled.grants.iter().map(HeldGrant::booked).fold(Spend::default(), Spend::plus);
    agent.account.spent = agent.account.spent.plus(below);
    lost
}

/// Takes back the grant of a child that ended: at once when nothing of it is unsettled.
pub(super) fn hold(parent: &mut Agent, held: HeldGrant) {
    let room = OWED_MAX.saturating_sub(parent.unsettled.grants.len()).min(1);
    if held.runs.is_empty() || room == 0 {
        parent.account.settle(held.grant, held.booked());
    } else {
        let runs = held.runs.iter().take(OWED_MAX).copied().collect();
        parent.unsettled.grants.push(HeldGrant { runs, ..held });
    }
}

/// Books what journals say. One that has not ended is read again, for as long as its process may still
/// be on its way out; what somebody else's record waits for by now is asked for again.
pub(super) fn settle(draft: &mut Draft<'_>, settlements: &[Settlement]) {
    for settlement in settlements {
        let Settlement { holder, run, charge, ended } = settlement;
        let since = draft.run_status(*run).map(|status| status.since);
        if !ended && since.is_some_and(|since| draft.now < since + JOURNAL_ENDS_WITHIN) {
            continue;
        }
        let Some(mut agent) = draft.agent(holder).cloned() else { continue };
        let Some(more) = book(&mut agent, *run, *charge) else { continue };
        draft.put(Record::Agent(Box::new(agent)));
        if more != Spend::default() {
            let Spend { tokens, cost_micro, turns } = more;
            let text = format!(
                "by its journal it used {tokens} tokens, {cost_micro} millionths of a dollar and \
                 {turns} turns more than was known"
            );
            let event = draft.event(EventKind::Budget, RULE, text);
            event.agent = Some(holder.clone());
            event.run = Some(*run);
        }
    }
}

/// Books one run; gives what was not known of it, none when nobody waits for it.
fn book(agent: &mut Agent, run: RunId, charge: Spend) -> Option<Spend> {
    if let Some(at) = agent.unsettled.runs.iter().position(|lost| lost.run == run) {
        let lost = agent.unsettled.runs.remove(at);
        let more = charge.minus(lost.charged);
        agent.account.charge(more);
        return Some(more);
    }
    let grants = &mut agent.unsettled.grants;
    let at = grants.iter().position(|held| held.runs.iter().any(|lost| lost.run == run))?;
    let held = grants.get_mut(at)?;
    let lost = held.runs.iter().position(|lost| lost.run == run)?;
    let more = charge.minus(held.runs.remove(lost).charged);
    held.spent = held.spent.plus(more);
    if held.runs.is_empty() {
        let held = grants.remove(at);
        agent.account.settle(held.grant, held.booked());
    }
    Some(more)
}
