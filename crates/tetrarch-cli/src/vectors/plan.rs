//! Cases of plan files and of derived statuses (spec 05).

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tetrarch_core::error::ErrorCode;
use tetrarch_core::goal::GoalStatus;
use tetrarch_core::id::NodeId;
use tetrarch_core::plan::folding::FoldedChildren;
use tetrarch_core::plan::rollup::rollup;
use tetrarch_core::plan::{NodeStatus, schema};

use crate::vectors::change;
use crate::vectors::input::{CaseError, CaseValue, nothing_in};
use crate::vectors::outcome::{CaseOutcome, CaseResult};

pub(super) fn checked(given: &CaseValue<'_>, when: &CaseValue<'_>) -> CaseResult {
    if when.value().as_object().is_none_or(|when| !when.is_empty()) {
        return change::changed(given, when);
    }
    let plan = given.keys("plan")?.need("plan")?;
    let outcome = CaseOutcome::default();
    Ok(match schema::parse(plan.value()) {
        Ok(_) => outcome.set("ok", true),
        Err(problems) => {
            let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
            outcome
                .set("ok", false)
                .set("error", ErrorCode::InvalidPlan.as_str())
                .set_detail(lines.join("\n"))
        }
    })
}

pub(super) fn rolled_up(given: &CaseValue<'_>, when: &CaseValue<'_>) -> CaseResult {
    nothing_in(when)?;
    let mut nodes = Nodes::default();
    for phase in given.keys("phases")?.or("phases", Vec::new(), CaseValue::list)? {
        nodes.read(&phase, None)?;
    }
    let derived = rollup(&nodes.leaves, &nodes.all, &FoldedChildren::new());
    let statuses: Map<String, Value> = derived
        .statuses
        .iter()
        .map(|(id, status)| (id.to_string(), json!(status.as_str())))
        .collect();
    let outcome = CaseOutcome::default().set("nodes", statuses).set("percent", derived.percent);
    // The goal's own status word, where it differs from what its phases come to.
    let also: &[Value] = match derived.goal.status() {
        status @ GoalStatus::Active => &[json!(status.as_str())],
        GoalStatus::Paused
        | GoalStatus::Completed
        | GoalStatus::Cancelled
        | GoalStatus::Archived => &[],
    };
    Ok(outcome.set_or("goal", derived.goal.as_str(), also))
}

#[derive(Default)]
struct Nodes {
    all: Vec<NodeId>,
    leaves: BTreeMap<NodeId, NodeStatus>,
}

impl Nodes {
    fn read(
        &mut self,
        field: &CaseValue<'_>,
        parent: Option<(NodeId, bool)>,
    ) -> Result<(), CaseError> {
        let (keys, below): (&[&str], &str) = match parent {
            None => (&["id", "tasks"], "tasks"),
            Some((_, true)) => (&["id", "status", "subtasks"], "subtasks"),
            Some((_, false)) => (&["id", "status"], ""),
        };
        let input = field.map(keys)?;
        let id_field = input.need("id")?;
        let id: NodeId = id_field.parsed()?;
        let place = parent.map(|(id, _)| id);
        if id.parent() != place || self.all.contains(&id) {
            let allowed = place.map_or_else(
                || "the id of a phase, each once".to_owned(),
                |parent| format!("the id of a node of {parent}, each once"),
            );
            return Err(id_field.wrong(&allowed));
        }
        self.all.push(id);
        let word = |field: &CaseValue<'_>| field.one(&NodeStatus::ALL, NodeStatus::as_str);
        let status = input.or("status", NodeStatus::Todo, word)?;
        let children = input.or(below, Vec::new(), CaseValue::list)?;
        if parent.is_some() && children.is_empty() {
            self.leaves.insert(id, status);
        }
        for child in children {
            self.read(&child, Some((id, parent.is_none())))?;
        }
        Ok(())
    }
}
