//! What asking the planner came to, as a step of the owner, and asking again after an owner is gone.

use crate::id::DispatchId;
use crate::planner::Proposal;
use crate::records::Records;
use crate::step::{Draft, Step};
use crate::time::BusTime;

use super::{Policy, consulting, go, weight};

/// A proposal that no commit has room for is as good as none.
pub(super) fn proposed(
    records: &Records,
    policy: &Policy,
    now: BusTime,
    proposal: &Proposal,
) -> Step {
    let decide = |proposal: &Proposal| {
        let mut draft = Draft::new(records, now, go());
        consulting::proposed(&mut draft, policy, proposal);
        draft.finish()
    };
    let step = decide(proposal);
    let Some(part) = weight::overweight(records, &step).filter(|_| proposal.answer.is_some())
    else {
        return step;
    };
    let mut problems = proposal.problems.clone();
    problems.push(part.to_string());
    decide(&Proposal { answer: None, problems, ..proposal.clone() })
}

/// The planner is asked once more what it was asked by an owner that is gone.
pub(super) fn again(records: &Records, policy: &Policy, now: BusTime, id: DispatchId) -> Step {
    let mut draft = Draft::new(records, now, go());
    consulting::ask_again(&mut draft, policy, id);
    draft.finish()
}
