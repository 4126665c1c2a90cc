//! Cases of the status machines of nodes, assignments and goals (spec 05).

use serde_json::{Value, json};
use tetrarch_core::assignment::{AssignmentError, AssignmentStatus};
use tetrarch_core::goal::GoalStatus;
use tetrarch_core::plan::{NodeError, NodeStatus};

use crate::vectors::input::{CaseError, CaseValue};
use crate::vectors::outcome::{CaseOutcome, CaseResult};

struct Move<S> {
    from: S,
    to: S,
    evidence: bool,
}

/// Reads a move among these words; the first is where one begins.
fn read<S: Copy>(
    (given, when): (&CaseValue<'_>, &CaseValue<'_>),
    all: &[S],
    first: S,
    word: fn(S) -> &'static str,
) -> Result<Move<S>, CaseError> {
    let (given, when) = (given.keys("state evidence")?, when.keys("to")?);
    Ok(Move {
        from: given.or("state", first, |field| field.one(all, word))?,
        to: when.need("to")?.one(all, word)?,
        evidence: given.or("evidence", false, CaseValue::flag)?,
    })
}

fn moved(to: &str) -> CaseOutcome {
    CaseOutcome::default().set("state", to)
}

fn illegal(from: &str, detail: String) -> CaseOutcome {
    let outcome = CaseOutcome::default().set_or("error", "illegal_transition", &[json!(true)]);
    outcome.set("state", from).set_detail(detail)
}

/// Spec 11 has no word of its own for it, spec 05 has two that cover it.
fn without_evidence(from: &str, detail: String) -> CaseOutcome {
    let also: [Value; 3] = [json!(true), json!("illegal_transition"), json!("E_INVALID_PLAN")];
    let outcome = CaseOutcome::default().set_or("error", "evidence_required", &also);
    outcome.set("state", from).set_detail(detail)
}

pub(super) fn node(given: &CaseValue<'_>, when: &CaseValue<'_>) -> CaseResult {
    let asked = read((given, when), &NodeStatus::ALL, NodeStatus::Todo, NodeStatus::as_str)?;
    let from = asked.from.as_str();
    Ok(match asked.from.to(asked.to, asked.evidence) {
        Ok(to) => moved(to.as_str()),
        Err(error @ NodeError::Illegal { .. }) => illegal(from, error.to_string()),
        Err(error @ NodeError::EvidenceRequired) => without_evidence(from, error.to_string()),
    })
}

pub(super) fn assignment(given: &CaseValue<'_>, when: &CaseValue<'_>) -> CaseResult {
    type Status = AssignmentStatus;
    let asked = read((given, when), &Status::ALL, Status::Queued, Status::as_str)?;
    let from = asked.from.as_str();
    Ok(match asked.from.to(asked.to, asked.evidence) {
        Ok(to) => moved(to.as_str()),
        Err(error @ AssignmentError::Illegal { .. }) => illegal(from, error.to_string()),
        Err(error @ AssignmentError::EvidenceRequired) => without_evidence(from, error.to_string()),
    })
}

pub(super) fn goal(given: &CaseValue<'_>, when: &CaseValue<'_>) -> CaseResult {
    let asked = read((given, when), &GoalStatus::ALL, GoalStatus::Active, GoalStatus::as_str)?;
    Ok(match asked.from.to(asked.to) {
        Ok(to) => moved(to.as_str()),
        Err(error) => illegal(asked.from.as_str(), error.to_string()),
    })
}
