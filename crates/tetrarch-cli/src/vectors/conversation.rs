//! Cases of lanes and of state graphs (spec 07).

use serde_json::{Map, Value, json};
use tetrarch_core::conversation::lane::{TurnLane, admit};
use tetrarch_core::graph::{Way, schema};
use tetrarch_core::id::GraphNodeName;

use crate::vectors::input::CaseValue;
use crate::vectors::outcome::{CaseOutcome, CaseResult};

/// Whether a lane takes one more: `queued` says how many are in each lane, `depth` how many are in the one where it
/// arrives.
pub(super) fn lane(given: &CaseValue<'_>, when: &CaseValue<'_>) -> CaseResult {
    let given = given.keys("depth limit queued")?;
    let lane = when.keys("arrives")?.need("arrives")?.one(&TurnLane::ALL, TurnLane::as_str)?;
    let queued = given.or("queued", 0, |field| {
        if field.value().is_object() {
            field.map(&TurnLane::ALL.map(TurnLane::as_str))?.or(lane.as_str(), 0, CaseValue::whole)
        } else {
            field.whole()
        }
    })?;
    let depth: usize = given.or("depth", queued, CaseValue::whole)?;
    let limit = given.maybe("limit", CaseValue::whole)?;
    let outcome = CaseOutcome::default();
    Ok(match admit(lane, depth, limit) {
        Ok(()) => outcome.set("accepted", true),
        Err(full) => outcome
            .set_error("lane_full")
            .set("accepted", false)
            .set("depth", full.depth)
            .set("limit", full.limit)
            .set_detail(full.to_string()),
    })
}

/// Which node comes next; the start is where a turn is that is nowhere yet.
pub(super) fn graph(given: &CaseValue<'_>, when: &CaseValue<'_>) -> CaseResult {
    let mut file = given.keys("graph")?.need("graph")?.value().clone();
    if let Some(fields) = file.as_object_mut() {
        fields.entry("name").or_insert_with(|| json!("case"));
    }
    let when = when.keys("from context")?;
    let outcome = CaseOutcome::default();
    let read = match schema::parse(&file) {
        Ok(read) => read,
        Err(problems) => {
            let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
            return Ok(outcome.set_error("E_INVALID_GRAPH").set_detail(lines.join("\n")));
        }
    };
    let from: GraphNodeName = when.or("from", read.graph.start.clone(), CaseValue::parsed)?;
    let empty = Value::Object(Map::new());
    let values = when.get("context").map_or(Ok(&empty), |field| {
        field.map(&tetrarch_core::graph::guard::GUARD_NAMES).map(|_| field.value())
    })?;
    let Some(node) = read.graph.node(&from) else {
        return Ok(outcome.set_error("unknown_node").set_detail(from.to_string()));
    };
    let (way, failed) = read.graph.next(node, values.as_object().unwrap_or(&Map::new()));
    let outcome = outcome.set("failed", failed.len()).set("warnings", read.warnings.len());
    let outcome = match way {
        Way::Edge(to) => outcome.set("next", to.as_str()).set("stuck", false),
        Way::OnStuck(to) => outcome.set("next", to.as_str()).set("stuck", true),
        Way::End => outcome.set_error("terminal"),
        Way::Stuck => outcome.set_error("stuck"),
    };
    Ok(outcome.set_detail(failed.join("\n")))
}
