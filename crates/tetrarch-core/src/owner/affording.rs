//! Who pays for what the planner is asked (spec 06, Budgets; docs/decisions/0059): the account of the project
//! whose goal it is about. What asking may cost at worst is set aside before anybody is asked, what it took is
//! booked with the answer; what cannot be paid is not asked.

use crate::agent::Agent;
use crate::budget::{BudgetExceeded, Limits, Spend};
use crate::id::{AgentId, DispatchId};
use crate::ledger::Record;
use crate::liveness::Liveness;
use crate::planner::{Planner, Planning, PlanningStatus, metering};
use crate::step::Draft;

/// A question that cannot be paid: as it would have been, and why.
pub(super) struct Unpaid {
    pub(super) planning: Planning,
    pub(super) why: String,
}

/// Sets aside what a question may cost, for as many answers as there is room for.
///
/// # Errors
/// Not even one answer can be paid.
pub(super) fn afford(
    draft: &mut Draft<'_>,
    planner: &Planner,
    planning: Planning,
) -> Result<Planning, Box<Unpaid>> {
    let most = planner.bounds.repairs.saturating_add(1);
    let Some(mut payer) = payer(draft, &planning) else {
        return Ok(Planning { calls: most, ..planning });
    };
    let mut fewest: Option<BudgetExceeded> = None;
    for calls in (1..=most).rev() {
        match payer.account.set_aside(metering::worst(planner, &planning, calls)) {
            Ok(aside) => {
                let set_aside = aside.carved();
                if set_aside != Spend::default() {
                    draft.put(Record::Agent(Box::new(payer)));
                }
                return Ok(Planning { calls, set_aside, ..planning });
            }
            Err(exceeded) => fewest = Some(exceeded),
        }
    }
    let why = fewest.map_or_else(String::new, |exceeded| exceeded.to_string());
    let why = format!("not asked: the account of {} has no room for one answer: {why}", payer.id);
    Err(Box::new(Unpaid { planning, why }))
}

/// Books what a question took and gives back what was set aside for it.
pub(super) fn pay(draft: &mut Draft<'_>, planning: Planning, took: Spend) -> Planning {
    if let Some(mut payer) = payer(draft, &planning) {
        let before = payer.account;
        payer.account.settle(Limits::from(planning.set_aside), took);
        if payer.account != before {
            draft.put(Record::Agent(Box::new(payer)));
        }
    }
    let used = planning.used.plus(took);
    Planning { set_aside: Spend::default(), used, ..planning }
}

/// What an agent that ends has set aside for questions counts as spent: nobody is left to book what they took.
pub(super) fn forfeit(draft: &mut Draft<'_>, agent: &AgentId) {
    let all: Vec<DispatchId> = draft.base().set_aside().collect();
    for id in all {
        let Some(planning) = draft.planning(id).filter(|it| it.set_aside != Spend::default())
        else {
            continue;
        };
        let planning = planning.clone();
        if planning.status == PlanningStatus::Asked
            && payer(draft, &planning).is_some_and(|payer| payer.id == *agent)
        {
            let aside = planning.set_aside;
            let planning = pay(draft, planning, aside);
            draft.put(Record::Planning(Box::new(planning)));
        }
    }
}

/// Who pays: the orchestrator of the goal's project, as long as there is one.
fn payer(draft: &Draft<'_>, planning: &Planning) -> Option<Agent> {
    let po = AgentId::Po(planning.project(draft.base())?.clone());
    draft.agent(&po).filter(|po| po.liveness != Liveness::Terminated).cloned()
}
