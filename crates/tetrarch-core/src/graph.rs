//! State graphs: how the turns of a conversation are routed (spec 07, State graphs). The same position and values
//! always give the same edge. Reading one from a file is `schema`'s; who performs what it says, the owner's and
//! the interaction orchestrator's.

pub mod guard;
pub mod schema;
mod template;
#[cfg(test)]
mod tests;

use std::fmt;

use serde_json::{Map, Value, json};

use crate::id::{Domain, GraphName, GraphNodeName, ProfileName, ProjectName};
use crate::limits::{
    DELIVERABLE_BYTES_MAX, GUARD_FAILURE_BYTES_MAX, GUARD_FAILURES_MAX, TURN_CONTEXT_BYTES_MAX,
};
use crate::time::BusTime;
use guard::{EdgeGuard, GuardError};
use template::{clipped, filled};

/// A state graph that was read and checked: it has no cycle.
#[derive(Debug, Clone, PartialEq)]
pub struct StateGraph {
    /// Its name.
    pub name: GraphName,
    /// Where a turn begins.
    pub start: GraphNodeName,
    /// Where a turn goes on that finds no edge.
    pub on_stuck: Option<GraphNodeName>,
    /// Its nodes, in the file's order.
    pub nodes: Vec<GraphNode>,
}

/// A node of a state graph.
#[derive(Debug, Clone, PartialEq)]
pub struct GraphNode {
    /// Its name.
    pub name: GraphNodeName,
    /// What is done when a turn comes to it.
    pub entry: NodeAction,
    /// Whether its result is kept in the context under its name when a turn leaves it.
    pub keeps: bool,
    /// Whether a turn ends here.
    pub terminal: bool,
    /// The ways on, the first to be tried first.
    pub edges: Vec<GraphEdge>,
}

/// A way from one node to another.
#[derive(Debug, Clone, PartialEq)]
pub struct GraphEdge {
    /// Where to.
    pub to: GraphNodeName,
    /// When.
    pub guard: EdgeGuard,
    /// Its place among the edges of its node; the lowest is tried first.
    pub priority: u64,
}

/// What is done when a turn comes to a node. Texts may have placeholders.
#[derive(Debug, Clone, PartialEq)]
pub enum NodeAction {
    /// Nothing.
    Nothing,
    /// Say what is wanted, by rules.
    Classify(Vec<IntentRule>),
    /// Have an agent work on it.
    Spawn(Delegation),
    /// Ask the person.
    Ask(String),
    /// Make a result of what there is.
    Compose(String),
    /// Answer the person; the turn ends.
    Answer(String),
}

impl NodeAction {
    /// Its word in files.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Nothing => "-",
            Self::Classify(_) => "classify",
            Self::Spawn(_) => "spawn",
            Self::Ask(_) => "ask",
            Self::Compose(_) => "compose",
            Self::Answer(_) => "answer",
        }
    }
}

/// A rule that says what is wanted.
#[derive(Debug, Clone, PartialEq)]
pub struct IntentRule {
    /// When it applies; the first that does is taken.
    pub when: EdgeGuard,
    /// What is wanted then.
    pub intent: String,
    /// How sure that is, from 0 to 1.
    pub confidence: f64,
}

/// Work for an agent of the conversation's project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delegation {
    /// What it is to do.
    pub task: String,
    /// The profile that executes it, with its model; none means the project's default.
    pub profile: Option<ProfileName>,
    /// The field of the specialist who is to do it; none means a worker.
    pub domain: Option<Domain>,
    /// Attempts at it before it counts as failed.
    pub attempts: u32,
    /// What may be wanted, when the agent is to say what is: its result is the intent with a confidence.
    pub intents: Vec<String>,
}

/// A graph of a project, as its record has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphRecord {
    /// The project.
    pub project: ProjectName,
    /// Its name.
    pub name: GraphName,
    /// Its versions that are kept, the latest last; never empty.
    pub versions: Vec<GraphVersion>,
}

/// One version of a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphVersion {
    /// Its number, from 1.
    pub version: u32,
    /// The file as compact JSON.
    pub text: String,
    /// When it was applied.
    pub applied: BusTime,
}

/// Where a turn stands in its graph, and what it knows.
#[derive(Debug, Clone, PartialEq)]
pub struct Position {
    /// The node.
    pub at: GraphNodeName,
    /// Whether it was stuck once.
    pub stuck: bool,
    /// What guards see, by name.
    pub values: Map<String, Value>,
}

/// Where an edge leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// To a node by its edge.
    Edge(GraphNodeName),
    /// No guard is true: to the node that is meant for that.
    OnStuck(GraphNodeName),
    /// The node is terminal.
    End,
    /// No guard is true, and no node is meant for that.
    Stuck,
}

/// What has to be done before a turn goes on, or how it ends.
#[derive(Debug, Clone, PartialEq)]
pub enum Doing {
    /// An agent works.
    Spawn(Delegation),
    /// The person is asked.
    Ask(String),
    /// The turn ends with this answer.
    Answer(String),
    /// The turn ends since there is no way on.
    Stuck(String),
}

/// A turn after everything that could be done at once.
#[derive(Debug, Clone, PartialEq)]
pub struct Advance {
    /// Where it stands.
    pub position: Position,
    /// The steps it took and the guards that failed, in words.
    pub path: Vec<String>,
    /// How many of these are guards that failed.
    pub failures: usize,
    /// What comes next.
    pub doing: Doing,
}

impl Advance {
    /// Nothing is done yet.
    fn at(position: Position) -> Self {
        let doing = Doing::Answer(String::new());
        Self { position, path: Vec::new(), failures: 0, doing }
    }

    /// Tells of guards that failed, at most of [`GUARD_FAILURES_MAX`].
    fn tell(&mut self, failed: Vec<String>) {
        let before = self.path.len();
        self.path.extend(failed.into_iter().take(GUARD_FAILURES_MAX - self.failures));
        self.failures += self.path.len() - before;
    }
}

impl StateGraph {
    /// A node by its name.
    #[must_use]
    pub fn node(&self, name: &GraphNodeName) -> Option<&GraphNode> {
        self.nodes.iter().find(|node| node.name == *name)
    }

    /// Where a turn goes on from a node: the first edge whose guard is true. Guards that fail count as false and are
    /// given too (spec 07, State graphs).
    #[must_use]
    pub fn next(&self, node: &GraphNode, values: &Map<String, Value>) -> (Way, Vec<String>) {
        let mut failed = Vec::new();
        if node.terminal {
            return (Way::End, failed);
        }
        for edge in &node.edges {
            match edge.guard.holds(values) {
                Ok(true) => return (Way::Edge(edge.to.clone()), failed),
                Ok(false) => {}
                Err(error) => failed.push(told(format_args!("guard to {}", edge.to), &error)),
            }
        }
        let stuck = self.on_stuck.as_ref().filter(|stuck| **stuck != node.name);
        (stuck.map_or(Way::Stuck, |stuck| Way::OnStuck(stuck.clone())), failed)
    }

    /// A turn with these words of its person begins.
    #[must_use]
    pub fn begin(&self, text: &str) -> Advance {
        let position =
            Position { at: self.start.clone(), stuck: false, values: begun_values(text) };
        self.run(Advance::at(position))
    }

    /// A turn goes on with what came of what its node had to do: an outcome and its words.
    #[must_use]
    pub fn go_on(&self, mut position: Position, outcome: &str, text: &str) -> Advance {
        set_result(&mut position.values, outcome, text);
        if let Some(GraphNode { entry: NodeAction::Spawn(work), .. }) = self.node(&position.at)
            && !work.intents.is_empty()
        {
            route(&work.intents, &mut position.values);
        }
        let advance = Advance::at(position);
        match self.node(&advance.position.at).cloned() {
            Some(node) => self.leave(advance, &node),
            None => unknown(advance),
        }
    }

    /// Enters nodes until one has to wait. A graph has no cycle, and is stuck once at most, so this ends.
    fn run(&self, mut advance: Advance) -> Advance {
        let Some(node) = self.node(&advance.position.at).cloned() else { return unknown(advance) };
        let values = &mut advance.position.values;
        match &node.entry {
            NodeAction::Spawn(work) => {
                let task = filled(&work.task, values);
                advance.doing = Doing::Spawn(Delegation { task, ..work.clone() });
                return advance;
            }
            NodeAction::Ask(text) => {
                advance.doing = Doing::Ask(filled(text, values));
                return advance;
            }
            NodeAction::Answer(text) => {
                advance.doing = Doing::Answer(filled(text, values));
                return advance;
            }
            NodeAction::Compose(text) => {
                let text = filled(text, values);
                set_result(values, "success", &text);
            }
            NodeAction::Classify(rules) => {
                let failed = classify(rules, values);
                advance.tell(failed);
            }
            NodeAction::Nothing => {}
        }
        self.leave(advance, &node)
    }

    fn leave(&self, mut advance: Advance, node: &GraphNode) -> Advance {
        if node.keeps {
            keep(&mut advance.position.values, node.name.as_str());
        }
        let (way, failed) = self.next(node, &advance.position.values);
        advance.tell(failed);
        let (from, position) = (&node.name, &mut advance.position);
        match way {
            Way::Edge(to) => {
                advance.path.push(format!("{from} -> {to}"));
                position.at = to;
                self.run(advance)
            }
            Way::OnStuck(to) if !position.stuck => {
                advance.path.push(format!("{from} -> {to}: no guard was true"));
                position.at = to;
                position.stuck = true;
                self.run(advance)
            }
            Way::End => {
                advance.doing = Doing::Answer(result_text(&position.values));
                advance
            }
            Way::OnStuck(_) | Way::Stuck => {
                let why = format!("no guard of node {from} was true");
                advance.doing = Doing::Stuck(why);
                advance
            }
        }
    }
}

/// Takes what an agent said is wanted, when that is one of these.
fn route(intents: &[String], values: &mut Map<String, Value>) {
    let said: Value = serde_json::from_str(&result_text(values)).unwrap_or_default();
    let intent = said["intent"].as_str().filter(|said| intents.iter().any(|known| known == said));
    let confidence = said["confidence"].as_f64().filter(|sure| (0.0..=1.0).contains(sure));
    if let Some(intent) = intent {
        values.insert("intent".to_owned(), json!(intent));
        values.insert("confidence".to_owned(), json!(confidence.unwrap_or_default()));
    }
}

/// What is told of a guard that failed; the error may quote whole values.
fn told(what: fmt::Arguments<'_>, error: &GuardError) -> String {
    clipped(&format!("{what}: {error}"), GUARD_FAILURE_BYTES_MAX).to_owned()
}

fn unknown(mut advance: Advance) -> Advance {
    advance.doing = Doing::Stuck(format!("the graph has no node {}", advance.position.at));
    advance
}

fn begun_values(text: &str) -> Map<String, Value> {
    let values = [
        ("intent", json!("")),
        ("confidence", json!(0.0)),
        ("result", json!({"outcome": "", "text": ""})),
        ("context", json!({"text": text})),
        ("budget", json!({})),
        ("attempt", json!(1)),
    ];
    values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn set_result(values: &mut Map<String, Value>, outcome: &str, text: &str) {
    let text = clipped(text, DELIVERABLE_BYTES_MAX);
    values.insert("result".to_owned(), json!({"outcome": outcome, "text": text}));
}

fn result_text(values: &Map<String, Value>) -> String {
    let text = values.get("result").and_then(|result| result["text"].as_str());
    text.unwrap_or_default().to_owned()
}

/// Keeps the latest result under a node's name, as much of it as there is room for.
fn keep(values: &mut Map<String, Value>, name: &str) {
    let text = result_text(values);
    let used = Value::Object(values.clone()).to_string().len();
    // Its name and quotes take room, and the result after it may be longer.
    let beside = used + name.len() + 8 + DELIVERABLE_BYTES_MAX;
    let Some(room) = TURN_CONTEXT_BYTES_MAX.checked_sub(beside) else { return };
    if let Some(context) = values.get_mut("context").and_then(Value::as_object_mut) {
        context.insert(name.to_owned(), json!(clipped(&text, room)));
    }
}

/// Says what is wanted by the first rule that applies; gives the rules that failed.
fn classify(rules: &[IntentRule], values: &mut Map<String, Value>) -> Vec<String> {
    let mut failed = Vec::new();
    for rule in rules {
        match rule.when.holds(values) {
            Ok(true) => {
                values.insert("intent".to_owned(), json!(rule.intent));
                values.insert("confidence".to_owned(), json!(rule.confidence));
                break;
            }
            Ok(false) => {}
            Err(error) => failed.push(told(format_args!("rule for {}", rule.intent), &error)),
        }
    }
    failed
}
