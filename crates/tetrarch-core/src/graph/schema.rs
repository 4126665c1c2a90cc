//! Graph files: reading one from a document tree and saying everything that is wrong with it (spec 07, State
//! graphs). The text format (YAML, TOML, JSON) is the caller's business.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::guard::{EdgeGuard, GUARD_NAMES};
use super::template::{PLACEHOLDERS, placeholders};
use super::{Delegation, GraphEdge, GraphNode, IntentRule, NodeAction, StateGraph};
use crate::id::{GraphName, GraphNodeName};
use crate::limits::{
    ATTEMPTS_DEFAULT, ATTEMPTS_MAX, GRAPH_BYTES_MAX, GRAPH_EDGES_MAX, GRAPH_NODES_MAX, LIST_MAX,
    TEXT_BYTES_MAX,
};
use crate::plan::schema::PlanProblem;
use crate::plan::schema::fields::{Entry, Fields, Problems};

/// The graph that a conversation follows when it names none: what is asked for is delegated, and its result is the
/// answer. It needs no model.
pub const DEFAULT_GRAPH: &str = include_str!("default.json");

const GRAPH_KEYS: &[&str] = &["name", "start", "onStuck", "nodes"];
const NODE_KEYS: &[&str] = &["name", "entry", "exit", "terminal", "edges"];
const EDGE_KEYS: &[&str] = &["to", "guard", "priority"];
const ACTION_KEYS: &[&str] = &["classify", "spawn", "ask", "compose", "answer"];
const SPAWN_KEYS: &[&str] = &["task", "profile", "domain", "attempts"];
const ROUTER_KEYS: &[&str] = &["intents", "task", "profile", "domain", "attempts"];
const RULE_KEYS: &[&str] = &["when", "intent", "confidence"];
const ACTIONS: &str =
    "spawn, compose, answer, or a mapping with one of classify, spawn, ask, compose, answer";
const MEDIATES: &str =
    "an interaction orchestrator executes nothing; spawn an agent whose profile has the tool";

/// A graph, and what its author should look at.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadGraph {
    /// The graph.
    pub graph: StateGraph,
    /// Where two edges may be meant at once.
    pub warnings: Vec<PlanProblem>,
}

/// Reads a graph from JSON text, as records have it.
///
/// # Errors
/// Every problem of the document.
pub fn parse_text(text: &str) -> Result<ReadGraph, Vec<PlanProblem>> {
    let value: Value = serde_json::from_str(text).map_err(|error| {
        let (path, problem) = ("graph".to_owned(), error.to_string());
        vec![PlanProblem { path, problem, allowed: "a JSON document".to_owned() }]
    })?;
    parse(&value)
}

/// Reads a graph from a document tree; keys may be camelCase or snake_case (spec 07, State graphs).
///
/// # Errors
/// Every problem of the document: structure, bounds, unknown names, guards that do not compile, cycles with
/// their nodes, nodes that no turn comes to, no terminal node.
pub fn parse(value: &Value) -> Result<ReadGraph, Vec<PlanProblem>> {
    let problems = Problems::default();
    let size = value.to_string().len();
    if size > GRAPH_BYTES_MAX {
        let text = format!("has {size} bytes; the limit is {GRAPH_BYTES_MAX} bytes");
        problems.add("graph", text, "shorter texts and fewer nodes");
        return Err(problems.into_found());
    }
    let fields = Entry::root(value, &problems).map(GRAPH_KEYS);
    let graph = fields.and_then(|fields| read_graph(&fields, &problems));
    match (graph, problems.into_found()) {
        (Some(graph), found) if found.is_empty() => {
            let warnings = ambiguous(&graph);
            Ok(ReadGraph { graph, warnings })
        }
        (_, mut found) => {
            for problem in found.iter_mut().filter(|problem| matches!(&*problem.path, "plan" | ""))
            {
                "graph".clone_into(&mut problem.path);
            }
            Err(found)
        }
    }
}

fn read_graph(fields: &Fields<'_>, problems: &Problems) -> Option<StateGraph> {
    let name: Option<GraphName> = fields.name("name");
    if name.is_none() && fields.get("name").is_none() {
        fields.missing("name", "the graph's name");
    }
    let Some(list) = fields.get("nodes") else {
        fields.missing("nodes", "a list of nodes");
        return None;
    };
    let entries = list.list(GRAPH_NODES_MAX, "a list of nodes");
    let nodes: Vec<GraphNode> = entries.iter().filter_map(read_node).collect();
    if nodes.len() < entries.len() {
        return None;
    }
    let Some(first) = nodes.first().map(|node| node.name.clone()) else {
        list.wrong("is empty", "at least one node");
        return None;
    };
    let known: BTreeSet<&GraphNodeName> = nodes.iter().map(|node| &node.name).collect();
    let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    let names = names.join(", ");
    let one_of = |key: &str| {
        let entry = fields.get(key)?;
        let name: GraphNodeName = entry.name()?;
        if !known.contains(&name) {
            entry.wrong(format!("names the unknown node {name}"), &names);
        }
        Some(name)
    };
    let (start, on_stuck) = (one_of("start").unwrap_or(first), one_of("onStuck"));
    let graph = StateGraph { name: name?, start, on_stuck, nodes };
    check_names(&graph, &names, problems);
    if problems.is_empty() {
        check_shape(&graph, problems);
    }
    Some(graph)
}

fn read_node(entry: &Entry<'_>) -> Option<GraphNode> {
    let fields = entry.map(NODE_KEYS)?;
    if fields.get("name").is_none() {
        fields.missing("name", "the node's name");
    }
    let terminal = fields.get("terminal").and_then(|entry| entry.truth()).unwrap_or_default();
    let action = fields.get("entry").map_or(Some(NodeAction::Nothing), |entry| read_action(&entry));
    let keeps = fields.word("exit", "append", |word| (word == "append").then_some(true));
    let edges = fields.get("edges").map(|entry| entry.list(GRAPH_EDGES_MAX, "a list of edges"));
    let edges = edges.unwrap_or_default();
    let read = edges.iter().zip(1..).filter_map(|(entry, place)| read_edge(entry, place));
    let mut read: Vec<GraphEdge> = read.collect();
    read.sort_by_key(|edge| edge.priority);
    if terminal && let Some(edge) = edges.first() {
        edge.wrong("leads on from a terminal node", "no edges, or a node that is not terminal");
    }
    let action = action?;
    if matches!(action, NodeAction::Answer(_)) && !terminal {
        let allowed = "terminal: true beside it, or compose";
        fields.get("entry")?.wrong("answers before the turn ends", allowed);
    }
    Some(GraphNode {
        name: fields.name("name")?,
        entry: action,
        keeps: keeps.unwrap_or_default(),
        terminal,
        edges: read,
    })
}

fn read_action(entry: &Entry<'_>) -> Option<NodeAction> {
    if entry.value().is_string() {
        return entry.word(ACTIONS, |word| match word {
            "spawn" => Some(NodeAction::Spawn(delegation("{text}".to_owned()))),
            "compose" => Some(NodeAction::Compose("{result}".to_owned())),
            "answer" => Some(NodeAction::Answer("{result}".to_owned())),
            _ => None,
        });
    }
    if entry.value().get("tool").is_some() {
        entry.wrong("calls a tool", MEDIATES);
        return None;
    }
    let fields = entry.map(ACTION_KEYS)?;
    let given: Vec<&str> =
        ACTION_KEYS.iter().copied().filter(|key| fields.get(key).is_some()).collect();
    let [key] = given[..] else {
        entry.wrong(format!("has {} actions", given.len()), ACTIONS);
        return None;
    };
    let action = fields.get(key)?;
    match key {
        "classify" if action.value().is_object() => read_router(&action).map(NodeAction::Spawn),
        "classify" => {
            let rules = action.list(LIST_MAX, "a list of rules");
            Some(NodeAction::Classify(rules.iter().filter_map(read_rule).collect()))
        }
        "compose" if action.value().is_object() => read_composer(&action).map(NodeAction::Spawn),
        "spawn" => read_spawn(&action).map(NodeAction::Spawn),
        "ask" => action.filled_text(TEXT_BYTES_MAX).map(NodeAction::Ask),
        "compose" => action.filled_text(TEXT_BYTES_MAX).map(NodeAction::Compose),
        _ => action.filled_text(TEXT_BYTES_MAX).map(NodeAction::Answer),
    }
}

fn delegation(task: String) -> Delegation {
    Delegation {
        task,
        profile: None,
        domain: None,
        attempts: ATTEMPTS_DEFAULT,
        intents: Vec::new(),
    }
}

/// An agent that says what is wanted: its brief asks for one of the intents.
fn read_router(entry: &Entry<'_>) -> Option<Delegation> {
    let fields = entry.map(ROUTER_KEYS)?;
    let intents = fields.texts("intents");
    if intents.is_empty() {
        fields.missing("intents", "a list of what may be wanted, each in a word");
    }
    let asks = "Say what this person wants:\n{text}".to_owned();
    read_work(&fields, asks).map(|work| Delegation { intents, ..work })
}

/// An agent that makes a result of what there is, with the model of its profile.
fn read_composer(entry: &Entry<'_>) -> Option<Delegation> {
    let asks = "Answer this person:\n{text}\nFrom this:\n{result}".to_owned();
    read_work(&entry.map(SPAWN_KEYS)?, asks)
}

fn read_spawn(entry: &Entry<'_>) -> Option<Delegation> {
    read_work(&entry.map(SPAWN_KEYS)?, "{text}".to_owned())
}

fn read_work(fields: &Fields<'_>, task: String) -> Option<Delegation> {
    let task = fields.get("task").map_or(Some(task), |task| task.filled_text(TEXT_BYTES_MAX));
    let attempts = fields.get("attempts").and_then(|it| it.whole(1, ATTEMPTS_MAX.into()));
    let attempts = attempts.and_then(|count| u32::try_from(count).ok());
    Some(Delegation {
        profile: fields.name("profile"),
        domain: fields.name("domain"),
        attempts: attempts.unwrap_or(ATTEMPTS_DEFAULT),
        ..delegation(task?)
    })
}

fn read_rule(entry: &Entry<'_>) -> Option<IntentRule> {
    let fields = entry.map(RULE_KEYS)?;
    let confidence = fields.get("confidence").map_or(Some(1.0), |entry| {
        let sure = entry.value().as_f64().filter(|sure| (0.0..=1.0).contains(sure));
        if sure.is_none() {
            entry.wrong(format!("is {}", entry.value()), "a number from 0 to 1");
        }
        sure
    });
    if fields.get("intent").is_none() {
        fields.missing("intent", "what is wanted, in a word");
    }
    let when = fields.get("when").map_or_else(always, |entry| read_guard(&entry));
    let intent = fields.get("intent")?.filled_text(TEXT_BYTES_MAX)?;
    Some(IntentRule { when: when?, intent, confidence: confidence? })
}

fn read_edge(entry: &Entry<'_>, place: u64) -> Option<GraphEdge> {
    let fields = entry.map(EDGE_KEYS)?;
    if fields.get("to").is_none() {
        fields.missing("to", "the name of a node");
    }
    let guard = fields.get("guard").map_or_else(always, |entry| read_guard(&entry));
    let priority = fields.get("priority").map_or(Some(place), |entry| entry.whole(0, u64::MAX));
    Some(GraphEdge { to: fields.name("to")?, guard: guard?, priority: priority? })
}

fn always() -> Option<EdgeGuard> {
    EdgeGuard::new("true").ok()
}

fn read_guard(entry: &Entry<'_>) -> Option<EdgeGuard> {
    let text = entry.text(LIST_MAX * TEXT_BYTES_MAX)?;
    let allowed = || format!("a CEL expression over {}", GUARD_NAMES.join(", "));
    EdgeGuard::new(&text).map_err(|error| entry.wrong(error.to_string(), allowed())).ok()
}

/// Names of edges and placeholders that there are not, and nodes of one name.
fn check_names(graph: &StateGraph, names: &str, problems: &Problems) {
    let mut seen = BTreeSet::new();
    for (index, node) in graph.nodes.iter().enumerate() {
        let at = format!("nodes[{index}]");
        if !seen.insert(&node.name) {
            let text = format!("is {:?}, as another node", node.name.as_str());
            problems.add(format!("{at}.name"), text, "a name that no other node has");
        }
        for edge in &node.edges {
            if graph.node(&edge.to).is_none() {
                let text = format!("leads to the unknown node {}", edge.to);
                problems.add(format!("{at}.edges"), text, names);
            }
        }
        let text = match &node.entry {
            NodeAction::Spawn(work) => &work.task,
            NodeAction::Ask(text) | NodeAction::Compose(text) | NodeAction::Answer(text) => text,
            NodeAction::Nothing | NodeAction::Classify(_) => continue,
        };
        let kept = |name: &str| graph.nodes.iter().any(|it| it.keeps && it.name.as_str() == name);
        for name in placeholders(text) {
            if !PLACEHOLDERS.contains(&name) && !kept(name) {
                let allowed = "{text}, {result}, {intent}, or a node with exit: append";
                problems.add(
                    format!("{at}.entry"),
                    format!("fills in the unknown {{{name}}}"),
                    allowed,
                );
            }
        }
    }
}

/// Cycles, nodes that no turn comes to, and no end.
fn check_shape(graph: &StateGraph, problems: &Problems) {
    let edges: BTreeMap<&GraphNodeName, Vec<&GraphNodeName>> = graph
        .nodes
        .iter()
        .map(|node| (&node.name, node.edges.iter().map(|edge| &edge.to).collect()))
        .collect();
    let mut done = BTreeSet::new();
    for node in &graph.nodes {
        if let Some(cycle) = cycle_from(&node.name, &edges, &mut Vec::new(), &mut done) {
            let cycle: Vec<&str> = cycle.iter().map(|name| name.as_str()).collect();
            let text = format!("has the cycle {}", cycle.join(" -> "));
            problems.add("nodes", text, "edges that never lead back; retry with spawn.attempts");
            return;
        }
    }
    let mut reached = BTreeSet::new();
    let mut open: Vec<&GraphNodeName> = graph.on_stuck.iter().chain([&graph.start]).collect();
    while let Some(name) = open.pop() {
        if reached.insert(name) {
            open.extend(edges.get(name).into_iter().flatten());
        }
    }
    for (index, node) in graph.nodes.iter().enumerate() {
        if !reached.contains(&node.name) {
            let text = format!("{} cannot be reached from {}", node.name, graph.start);
            problems.add(format!("nodes[{index}]"), text, "an edge that leads to it");
        }
    }
    if graph.nodes.iter().all(|node| !node.terminal) {
        problems.add(
            "nodes",
            "has no terminal node",
            "terminal: true at the node where a turn ends",
        );
    }
}

/// A cycle that can be reached from a node, its first node repeated at the end.
fn cycle_from<'g>(
    at: &'g GraphNodeName,
    edges: &BTreeMap<&'g GraphNodeName, Vec<&'g GraphNodeName>>,
    path: &mut Vec<&'g GraphNodeName>,
    done: &mut BTreeSet<&'g GraphNodeName>,
) -> Option<Vec<&'g GraphNodeName>> {
    if let Some(begun) = path.iter().position(|name| *name == at) {
        return Some(path[begun..].iter().copied().chain([at]).collect());
    }
    if done.contains(at) {
        return None;
    }
    path.push(at);
    let onward = edges.get(at).into_iter().flatten();
    let found = { onward }.find_map(|to| cycle_from(to, edges, path, done));
    path.pop();
    done.insert(at);
    found
}

/// Edges of one node with one priority, whose guards may be true at once: the first of the file is taken.
fn ambiguous(graph: &StateGraph) -> Vec<PlanProblem> {
    let mut warnings = Vec::new();
    for (index, node) in graph.nodes.iter().enumerate() {
        for pair in node.edges.windows(2) {
            let [one, other] = pair else { continue };
            if one.priority == other.priority {
                let priority = one.priority;
                let problem = format!(
                    "the edges to {} and {} both have priority {priority}, and both may be true",
                    one.to, other.to
                );
                let allowed = "different priorities; the first in the file is taken".to_owned();
                let path = format!("nodes[{index}].edges");
                warnings.push(PlanProblem { path, problem, allowed });
            }
        }
    }
    warnings
}
