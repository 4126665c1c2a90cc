//! Cases of the status machines of nodes, assignments and goals (spec 05).

use serde_json::{Value, json};
use tetrarch_core::assignment::{AssignmentError, AssignmentStatus};
use tetrarch_core::goal::GoalStatus;
use tetrarch_core::plan::{NodeError, NodeStatus};

use crate::vectors::input::{CaseError, CaseValue};
use crate::vectors::outcome::CaseOutcome;

struct Move<S> {
    from: S,
    to: S,
    evidence: bool,
}

fn read<S: Copy>(
    (given, when): (&CaseValue<'_>, &CaseValue<'_>),
    default: S,
    words: &[&str],
    parse: fn(&str) -> Option<S>,
) -> Result<Move<S>, CaseError> {
    let given = given.map(&["state", "evidence"])?;
    let when = when.map(&["to"])?;
    let words = words.join(", ");
    Ok(Move {
        from: given.or("state", default, |field| field.word(&words, parse))?,
        to: when.need("to")?.word(&words, parse)?,
        evidence: given.or("evidence", false, CaseValue::flag)?,
    })
}

fn moved(to: &str) -> CaseOutcome {
    let mut outcome = CaseOutcome::default();
    outcome.set("state", to);
    outcome
}

fn illegal(from: &str, detail: String) -> CaseOutcome {
    let mut outcome = CaseOutcome::default();
    outcome.set_or("error", "illegal_transition", &[json!(true)]);
    outcome.set("state", from).set_detail(detail);
    outcome
}

/// Spec 11 has no word of its own for it, spec 05 has two that cover it.
fn without_evidence(from: &str, detail: String) -> CaseOutcome {
    let also: [Value; 3] = [json!(true), json!("illegal_transition"), json!("E_INVALID_PLAN")];
    let mut outcome = CaseOutcome::default();
    outcome.set_or("error", "evidence_required", &also);
    outcome.set("state", from).set_detail(detail);
    outcome
}

pub(super) fn node(given: &CaseValue<'_>, when: &CaseValue<'_>) -> Result<CaseOutcome, CaseError> {
    let words = NodeStatus::ALL.map(NodeStatus::as_str);
    let asked = read((given, when), NodeStatus::Todo, &words, NodeStatus::parse)?;
    let from = asked.from.as_str();
    Ok(match asked.from.to(asked.to, asked.evidence) {
        Ok(to) => moved(to.as_str()),
        Err(error @ NodeError::Illegal { .. }) => illegal(from, error.to_string()),
        Err(error @ NodeError::EvidenceRequired) => without_evidence(from, error.to_string()),
    })
}

pub(super) fn assignment(
    given: &CaseValue<'_>,
    when: &CaseValue<'_>,
) -> Result<CaseOutcome, CaseError> {
    let words = AssignmentStatus::ALL.map(AssignmentStatus::as_str);
    let asked = read((given, when), AssignmentStatus::Queued, &words, AssignmentStatus::parse)?;
    let from = asked.from.as_str();
    Ok(match asked.from.to(asked.to, asked.evidence) {
        Ok(to) => moved(to.as_str()),
        Err(error @ AssignmentError::Illegal { .. }) => illegal(from, error.to_string()),
        Err(error @ AssignmentError::EvidenceRequired) => without_evidence(from, error.to_string()),
    })
}

pub(super) fn goal(given: &CaseValue<'_>, when: &CaseValue<'_>) -> Result<CaseOutcome, CaseError> {
    let words = GoalStatus::ALL.map(GoalStatus::as_str);
    let asked = read((given, when), GoalStatus::Active, &words, GoalStatus::parse)?;
    Ok(match asked.from.to(asked.to) {
        Ok(to) => moved(to.as_str()),
        Err(error) => illegal(asked.from.as_str(), error.to_string()),
    })
}
