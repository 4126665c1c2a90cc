//! What somebody wants, in terms of the plan's nodes: a whole plan compared with the one there is,
//! ids for what is new, leaves merged into one.

use std::collections::{BTreeMap, BTreeSet};

use crate::id::{NodeId, Tier};
use crate::limits::{EFFORT_BYTES_MAX, INSTRUCTION_BYTES_MAX, LIST_MAX, TEXT_BYTES_MAX};
use crate::plan::{Node, NodeStatus, graph};

use super::{Change, ChangeError, Edit, NewNode, Output, Present, Standing, fitted};

/// Reads a change as an edit of the plan as it is now. `base`: the version of the plan that its author
/// saw.
///
/// # Errors
/// It names a node that is not there, or asks for what no edit says.
pub fn read(present: &Present<'_>, base: u32, change: &Change) -> Result<Edit, ChangeError> {
    match change {
        Change::Whole { nodes, output } => whole(&Standing::of(present), base, nodes, *output),
        Change::Add { parent, node } => {
            known(present, *parent)?;
            let puts = named(present, *parent, std::slice::from_ref(&**node))?;
            Ok(Edit { output: moved_output(present, *parent, &puts), puts, ..Edit::default() })
        }
        Change::Split { node, subtasks } => split(present, *node, subtasks),
        Change::Merge { nodes, name, objective } => {
            merge(&Standing::of(present), nodes, name, objective)
        }
    }
}

fn known<'a>(present: &Present<'a>, id: NodeId) -> Result<&'a Node, ChangeError> {
    let none = || ChangeError::NotFound(format!("the plan has no node {id}"));
    present.nodes.get(&id).ok_or_else(none)
}

fn whole(
    standing: &Standing<'_>,
    base: u32,
    nodes: &[Node],
    output: Option<NodeId>,
) -> Result<Edit, ChangeError> {
    let present = standing.present;
    let wanted: BTreeMap<NodeId, Node> = nodes.iter().map(|node| (node.id, node.clone())).collect();
    let differs = |node: &&Node| {
        let old = present.nodes.get(&node.id);
        old.is_none_or(|old| fitted(node, old, standing.state(node.id)) != *old)
    };
    let puts = nodes.iter().filter(differs).cloned().collect();
    // What its author has not seen is nothing they want to be rid of.
    let removed = |id: &NodeId| {
        let seen = present.nodes.get(id).is_some_and(|node| node.added <= base);
        !wanted.contains_key(id) && seen && !standing.status(*id).is_settled()
    };
    let removes: Vec<NodeId> = present.states.keys().copied().filter(removed).collect();
    let kept = |parent: NodeId| {
        present.states.keys().any(|id| {
            let child = graph::is_within(*id, parent) && *id != parent;
            child && !removes.contains(id) && standing.status(*id) != NodeStatus::Cancelled
        })
    };
    let alone = |id: &&NodeId| {
        let was_split = present.nodes.contains_key(id) && !standing.is_leaf(**id);
        graph::is_leaf(&wanted, **id)
            && was_split
            && standing.status(**id) != NodeStatus::Cancelled
            && !kept(**id)
    };
    let problems: Vec<String> = wanted
        .keys()
        .filter(alone)
        .map(|id| {
            format!("{id} was split and would have no subtask left; give it one, or remove it")
        })
        .collect();
    if !problems.is_empty() {
        return Err(ChangeError::Invalid(problems));
    }
    let output = if output == present.output { Output::Kept } else { Output::Be(output) };
    Ok(Edit { puts, removes, output })
}

fn split(present: &Present<'_>, node: NodeId, subtasks: &[NewNode]) -> Result<Edit, ChangeError> {
    let task = known(present, node)?.recovery;
    if node.tier() != Tier::Task {
        return Err(ChangeError::invalid(format!(
            "{node} is not a task; only tasks have subtasks"
        )));
    }
    if !graph::is_leaf(present.nodes, node) {
        // Whoever saw it without subtasks has to look again; nobody else asks for this.
        return Err(ChangeError::Conflict(vec![format!("{node} already has subtasks")]));
    }
    if subtasks.is_empty() {
        return Err(ChangeError::invalid(format!(
            "{node} cannot be split into no subtasks; give subtasks"
        )));
    }
    // What is to become of the task when it stands still is to become of its parts.
    let own = |part: &Node| if part.recovery.is_default() { task } else { part.recovery };
    let parts = named(present, node, subtasks)?.into_iter();
    let puts: Vec<Node> = parts.map(|part| Node { recovery: own(&part), ..part }).collect();
    Ok(Edit { output: moved_output(present, node, &puts), puts, ..Edit::default() })
}

/// The deliverable of what is split is that of its last subtask.
fn moved_output(present: &Present<'_>, split: NodeId, puts: &[Node]) -> Output {
    let output = present.output == Some(split);
    let last = puts.iter().map(|node| node.id).max().filter(|_| output);
    last.map_or(Output::Kept, |last| Output::Be(Some(last)))
}

/// New nodes below a parent under ids that were never used.
fn named(
    present: &Present<'_>,
    parent: NodeId,
    nodes: &[NewNode],
) -> Result<Vec<Node>, ChangeError> {
    let below = |id: &&NodeId| id.parent() == Some(parent);
    let given = nodes.iter().filter_map(|new| new.id.as_ref());
    let mut last = present.nodes.keys().filter(below).chain(given.filter(below));
    let gone = present.folded.get(&parent).map_or(0, |ended| ended.highest);
    let mut next = last.by_ref().map(|id| id.ordinal()).max().unwrap_or(0).max(gone);
    let mut puts = Vec::with_capacity(nodes.len());
    for new in nodes {
        let id = match new.id {
            Some(id) if id.parent() != Some(parent) => {
                return Err(ChangeError::invalid(format!(
                    "{id} is not a valid id for a node of {parent}"
                )));
            }
            Some(id) if present.nodes.contains_key(&id) => {
                let taken = format!("{id} was already used; ids are never reused, choose another");
                return Err(ChangeError::invalid(taken));
            }
            Some(id) => id,
            None => {
                next = next.checked_add(1).ok_or_else(|| {
                    ChangeError::invalid(format!("all ids below {parent} are used"))
                })?;
                match parent.tier() {
                    Tier::Phase => NodeId::task(parent.phase_number(), next),
                    Tier::Task | Tier::Subtask => {
                        NodeId::subtask(parent.phase_number(), parent.ordinal(), next)
                    }
                }
            }
        };
        puts.push(Node { id, ..new.node.clone() });
    }
    if parent.tier() == Tier::Subtask {
        return Err(ChangeError::invalid(format!(
            "{parent} is a subtask and cannot have children"
        )));
    }
    Ok(puts)
}

fn merge(
    standing: &Standing<'_>,
    ids: &[NodeId],
    name: &str,
    objective: &str,
) -> Result<Edit, ChangeError> {
    let present = standing.present;
    let mut all = Vec::with_capacity(ids.len());
    for id in ids {
        all.push(known(present, *id)?);
    }
    let distinct: BTreeSet<NodeId> = ids.iter().copied().collect();
    let (Some(first), true) = (all.first(), distinct.len() == ids.len() && ids.len() > 1) else {
        return Err(ChangeError::invalid("nodes: give two or more different nodes"));
    };
    let problems: Vec<String> =
        all.iter().filter_map(|node| unfit(standing, first, node)).collect();
    if !problems.is_empty() {
        return Err(ChangeError::Invalid(problems));
    }
    let into = first.id;
    let merged = joined(&all, name, objective, &distinct)?;
    let gone: Vec<NodeId> = ids.iter().copied().filter(|id| *id != into).collect();
    let waits = |node: &&Node| {
        !distinct.contains(&node.id)
            && !standing.status(node.id).is_settled()
            && node.depends_on.iter().any(|needed| gone.contains(needed))
    };
    let rewired = present.nodes.values().filter(waits).map(|node| {
        let mut needed: Vec<NodeId> = Vec::with_capacity(node.depends_on.len());
        for id in &node.depends_on {
            let id = if gone.contains(id) { into } else { *id };
            if !needed.contains(&id) {
                needed.push(id);
            }
        }
        Node { depends_on: needed, ..node.clone() }
    });
    let mut puts = vec![merged];
    puts.extend(rewired);
    let output = match present.output {
        Some(output) if gone.contains(&output) => Output::Be(Some(into)),
        Some(_) | None => Output::Kept,
    };
    Ok(Edit { puts, removes: gone, output })
}

/// Why a node cannot become part of another.
fn unfit(standing: &Standing<'_>, first: &Node, node: &Node) -> Option<String> {
    let id = node.id;
    if !standing.is_leaf(id) {
        return Some(format!("{id} is not a leaf; merge its subtasks instead"));
    }
    if id.parent() != first.id.parent() {
        return Some(format!("{id} and {} have different parents", first.id));
    }
    let differs = [
        ("role", node.role != first.role || node.domain != first.domain),
        ("profile", node.profile != first.profile),
        ("outputSchema", node.output_schema != first.output_schema),
        ("review", node.review != first.review),
        ("placement", node.placement != first.placement),
        ("recoveryPolicy", node.recovery != first.recovery),
    ];
    let field = differs.into_iter().find(|(_, differs)| *differs).map(|(field, _)| field)?;
    Some(format!("{id} and {} differ in {field} and cannot be merged", first.id))
}

/// Several definitions as one.
fn joined(
    all: &[&Node],
    name: &str,
    objective: &str,
    own: &BTreeSet<NodeId>,
) -> Result<Node, ChangeError> {
    let first = all[0];
    let texts = |of: fn(&Node) -> &str| {
        let given = all.iter().map(|node| of(node)).filter(|text| !text.is_empty());
        given.collect::<Vec<_>>().join("\n\n")
    };
    let lists = |of: fn(&Node) -> &[String]| {
        let mut list: Vec<String> = Vec::new();
        for text in all.iter().flat_map(|node| of(node)) {
            if !list.contains(text) {
                list.push(text.clone());
            }
        }
        list
    };
    // What one of them may take without limit, the whole may.
    let sum = |of: fn(&Node) -> Option<u64>| {
        all.iter().map(|node| of(node)).try_fold(0u64, |sum, more| Some(sum.saturating_add(more?)))
    };
    let mut depends_on: Vec<NodeId> = Vec::new();
    for id in all.iter().flat_map(|node| &node.depends_on) {
        if !own.contains(id) && !depends_on.contains(id) {
            depends_on.push(*id);
        }
    }
    let node = Node {
        name: if name.is_empty() { first.name.clone() } else { name.to_owned() },
        objective: if objective.is_empty() {
            texts(|node| &node.objective)
        } else {
            objective.to_owned()
        },
        acceptance: lists(|node| &node.acceptance),
        expected_outcome: texts(|node| &node.expected_outcome),
        definition_of_done: texts(|node| &node.definition_of_done),
        estimated_effort: texts(|node| &node.estimated_effort),
        risk_level: all.iter().filter_map(|node| node.risk_level).max(),
        key_facts: lists(|node| &node.key_facts),
        scope_paths: lists(|node| &node.scope_paths),
        tools: all.iter().flat_map(|node| node.tools.names()).map(ToOwned::to_owned).collect(),
        depends_on,
        budget: crate::budget::Limits {
            tokens: sum(|node| node.budget.tokens),
            cost_micro: sum(|node| node.budget.cost_micro),
            turns: sum(|node| node.budget.turns),
        },
        wall: sum(|node| node.wall.map(|wall| wall.0)).map(crate::time::Millis),
        max_attempts: all.iter().map(|node| node.max_attempts).max().unwrap_or(1),
        ..first.clone()
    };
    let problems = oversized(&node);
    if problems.is_empty() { Ok(node) } else { Err(ChangeError::Invalid(problems)) }
}

/// Bounds that several definitions may break together.
fn oversized(node: &Node) -> Vec<String> {
    let id = node.id;
    let texts = [
        ("name", node.name.len(), TEXT_BYTES_MAX),
        ("objective", node.objective.len(), INSTRUCTION_BYTES_MAX),
        ("expectedOutcome", node.expected_outcome.len(), TEXT_BYTES_MAX),
        ("definitionOfDone", node.definition_of_done.len(), TEXT_BYTES_MAX),
        ("estimatedEffort", node.estimated_effort.len(), EFFORT_BYTES_MAX),
    ];
    let lists = [
        ("acceptance", node.acceptance.len(), LIST_MAX),
        ("keyFacts", node.key_facts.len(), LIST_MAX),
        ("scopePaths", node.scope_paths.len(), LIST_MAX),
        ("deps", node.depends_on.len(), LIST_MAX),
    ];
    let text = texts.into_iter().map(|it| (it, "bytes"));
    let over = text.chain(lists.into_iter().map(|it| (it, "entries")));
    over.filter(|((_, size, max), _)| size > max)
        .map(|((field, size, max), unit)| {
            format!("{id}.{field} would have {size} {unit}; the limit is {max} {unit}")
        })
        .collect()
}
