//! The placeholders in a plan's texts: each is one there is, and a result is of a node that is done by
//! then (decision 0067).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::id::NodeId;
use crate::plan::placeholder::{PLACEHOLDERS, Placeholder, found};
use crate::plan::schema::fields::Problems;
use crate::plan::schema::nodes::Placed;
use crate::plan::{Node, graph};

/// Looks at every text of the document. Results are those of nodes before the one that names them.
pub(super) fn check(document: &Value, placed: &[Placed], problems: &Problems) {
    let nodes: BTreeMap<NodeId, Node> =
        placed.iter().map(|placed| (placed.node.id, placed.node.clone())).collect();
    let at: BTreeMap<&str, NodeId> =
        placed.iter().map(|placed| (placed.path.as_str(), placed.node.id)).collect();
    let check = Check { nodes: &nodes, at: &at, problems };
    check.value("", document, None);
}

struct Check<'a> {
    nodes: &'a BTreeMap<NodeId, Node>,
    at: &'a BTreeMap<&'a str, NodeId>,
    problems: &'a Problems,
}

impl Check<'_> {
    fn value(&self, path: &str, value: &Value, node: Option<NodeId>) {
        let node = self.at.get(path).copied().or(node);
        match value {
            Value::String(text) => self.text(path, text, node),
            Value::Array(values) => {
                for (index, value) in values.iter().enumerate() {
                    self.value(&format!("{path}[{index}]"), value, node);
                }
            }
            Value::Object(fields) => {
                for (key, value) in fields {
                    // A schema's text belongs to whoever reads the schema.
                    if key != "outputSchema" && key != "output_schema" {
                        let dot = if path.is_empty() { "" } else { "." };
                        self.value(&format!("{path}{dot}{key}"), value, node);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn text(&self, path: &str, text: &str, node: Option<NodeId>) {
        for placeholder in found(text) {
            match (placeholder, node) {
                (Err(unknown), _) => {
                    self.problems.add(path, format!("unknown placeholder {unknown}"), PLACEHOLDERS);
                }
                (Ok(Placeholder::Result(id)), None) => {
                    let problem = format!("{{result:{id}}} stands outside of a task");
                    self.problems.add(path, problem, "results in the texts of tasks and subtasks");
                }
                (Ok(Placeholder::Result(id)), Some(node)) => self.result(path, id, node),
                (Ok(Placeholder::Goal | Placeholder::Node), _) => {}
            }
        }
        // A shell line names results by their variables.
        let of_shell = text.split("TETRARCH_RESULT_").skip(1);
        for rest in of_shell.filter(|_| path.ends_with(".run")) {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let name = &rest[..end.unwrap_or(rest.len())];
            match (name.replace('_', ".").parse(), node) {
                (Ok(id), Some(node)) => self.result(path, id, node),
                (Ok(_), None) => {}
                (Err(_), _) => {
                    let problem = format!("TETRARCH_RESULT_{name} is the result of no node");
                    self.problems.add(path, problem, "such as TETRARCH_RESULT_T1_1");
                }
            }
        }
    }

    fn result(&self, path: &str, id: NodeId, node: NodeId) {
        if !graph::is_leaf(self.nodes, id) {
            let problem = format!(
                "{id} has no result: it is no task or subtask of this plan, or has subtasks"
            );
            self.problems.add(path, problem, "a task without subtasks, or a subtask");
        } else if !self.before(node).contains(&id) {
            let problem =
                format!("{node} does not depend on {id}, so its result may not be there yet");
            self.problems.add(
                path,
                problem,
                format!("deps: [{id}] in {node}, or a result of what it depends on"),
            );
        }
    }

    /// The leaves that are done before a node begins, directly or not.
    fn before(&self, node: NodeId) -> BTreeSet<NodeId> {
        let mut before = BTreeSet::new();
        let mut open = vec![node];
        while let Some(id) = open.pop() {
            for needed in graph::effective_dependencies(self.nodes, id) {
                if before.insert(needed) {
                    open.push(needed);
                }
            }
        }
        before
    }
}
