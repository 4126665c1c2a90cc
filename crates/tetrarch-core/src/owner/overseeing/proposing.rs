//! The overseer proposes by itself how a plan could be cut or joined (spec 05, Insights), where the operator
//! wants it: one open draft of its own for each goal, never what was turned down before, and never applied
//! but by somebody's word.

use crate::goal::GoalStatus;
use crate::id::{AgentId, EpicId, Principal};
use crate::limits::{OVERSEEN_BYTES_MAX, TIDIED_PER_TICK};
use crate::overseer::Telemetry;
use crate::plan::Plan;
use crate::plan::change::Present;
use crate::plan::proposal::{DraftStatus, Proposal};
use crate::plan::tidying::{Tidying, tidyings};
use crate::step::Draft;

use crate::owner::{Policy, planning, weight, work};

/// Looks at the plans that changed since the last look, and proposes what would do them good.
pub(in crate::owner) fn propose(draft: &mut Draft<'_>, policy: &Policy, telemetry: &Telemetry) {
    if !policy.proposes {
        return;
    }
    // What this look changed is for the next, also when it is repeated.
    let since = |plan: &&Plan| (telemetry.looked..draft.now).contains(&plan.updated);
    let changed = draft.base().plans.values().filter(since);
    let changed = changed.map(|plan| plan.epic).filter(|epic| is_active(draft, *epic));
    let epics: Vec<EpicId> = changed.take(TIDIED_PER_TICK).collect();
    for epic in epics {
        if weight::step(draft.base(), draft.written()) >= OVERSEEN_BYTES_MAX {
            return;
        }
        // Its records are looked at as they were before this decision.
        if draft.is_touched(epic) {
            continue;
        }
        match wanted(draft, epic) {
            Some((version, tidying)) => planning::keep_own(draft, epic, version, &tidying),
            None => work::put_best_first(draft, epic),
        }
    }
}

fn is_active(draft: &Draft<'_>, epic: EpicId) -> bool {
    draft.goal_state(epic).is_some_and(|goal| goal.status == GoalStatus::Active)
}

/// What is proposed next, with the version that it is made for.
fn wanted(draft: &Draft<'_>, epic: EpicId) -> Option<(u32, Tidying)> {
    let own = |proposal: &Proposal| proposal.author == Principal::Agent(AgentId::Go);
    let kept: Vec<Proposal> = draft.proposals(epic).into_values().filter(own).collect();
    if kept.iter().any(|proposal| proposal.status == DraftStatus::Open) {
        return None;
    }
    let records = draft.base();
    let plan = records.plans.get(&epic)?;
    let (nodes, states) = (records.nodes.get(&epic)?, records.node_states.get(&epic)?);
    let Plan { version, output, folded, .. } = plan;
    let present = Present { version: *version, nodes, states, output: *output, folded };
    let new = |tidying: &Tidying| !kept.iter().any(|kept| tidying.is_like(&kept.edit));
    tidyings(&present).into_iter().find(new).map(|tidying| (plan.version, tidying))
}
