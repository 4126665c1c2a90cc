//! State graphs as people read them: lines of text, or a Mermaid flowchart. Pure.

use std::fmt::Write;

use tetrarch_core::graph::{GraphEdge, GraphNode, StateGraph};

/// Each node with its ways on, in the order in which they are tried.
pub(super) fn text(graph: &StateGraph) -> String {
    let mut out = format!("graph {}\n", graph.name);
    for node in &graph.nodes {
        let mut marks = Vec::new();
        if node.name == graph.start {
            marks.push("start");
        }
        if node.terminal {
            marks.push("terminal");
        }
        if graph.on_stuck.as_ref() == Some(&node.name) {
            marks.push("on stuck");
        }
        let marks =
            if marks.is_empty() { String::new() } else { format!(" [{}]", marks.join(", ")) };
        // Writing to a text cannot fail.
        let _written = writeln!(out, "  {}: {}{marks}", node.name, node.entry.word());
        for edge in &node.edges {
            let _written = writeln!(out, "    -> {} when {}", edge.to, edge.guard);
        }
    }
    out
}

/// A flowchart; terminal nodes have round ends.
pub(super) fn mermaid(graph: &StateGraph) -> String {
    let mut out = "flowchart TD\n".to_owned();
    // A name may be a word of the language, so nodes are numbered.
    let id = |name| graph.nodes.iter().position(|node| node.name == name).unwrap_or_default();
    let node = |node: &GraphNode| {
        let label = format!("{}<br/>{}", node.name, node.entry.word());
        let (open, close) = if node.terminal { ("([", "])") } else { ("[", "]") };
        format!("  n{}{open}\"{label}\"{close}\n", id(node.name.clone()))
    };
    let edge = |from: &GraphNode, edge: &GraphEdge| {
        let arrow = if edge.guard.is_always() {
            "-->".to_owned()
        } else {
            format!("-->|\"{}\"|", escaped(&edge.guard.to_string()))
        };
        format!("  n{} {arrow} n{}\n", id(from.name.clone()), id(edge.to.clone()))
    };
    out.extend(graph.nodes.iter().map(node));
    for from in &graph.nodes {
        out.extend(from.edges.iter().map(|to| edge(from, to)));
    }
    out
}

/// A guard inside a quoted label.
fn escaped(text: &str) -> String {
    let escape = |c: char| match c {
        '"' => "#quot;".to_owned(),
        '#' => "#35;".to_owned(),
        '<' => "#lt;".to_owned(),
        '>' => "#gt;".to_owned(),
        c if c.is_whitespace() => " ".to_owned(),
        c => c.to_string(),
    };
    text.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use tetrarch_core::graph::schema::{DEFAULT_GRAPH, parse, parse_text};

    use super::*;

    #[test]
    fn default_graph_is_drawn_as_text_and_flowchart() {
        let graph = parse_text(DEFAULT_GRAPH).unwrap().graph;
        let drawn = text(&graph);
        for line in [
            "graph default",
            "  intake: classify [start]",
            "    -> delegation when intent == 'work'",
            "  respond: answer [terminal, on stuck]",
        ] {
            assert!(drawn.lines().any(|drawn| drawn == line), "{line}\n{drawn}");
        }
        let drawn = mermaid(&graph);
        for line in [
            "flowchart TD",
            "  n5([\"respond<br/>answer\"])",
            "  n0 -->|\"intent == 'work'\"| n2",
            "  n1 --> n5",
        ] {
            assert!(drawn.lines().any(|drawn| drawn == line), "{line}\n{drawn}");
        }
    }

    #[test]
    fn guard_cannot_leave_its_label() {
        let value = serde_json::json!({"name": "g", "nodes": [
            {"name": "end", "edges": [{"to": "b", "guard": "intent == \"]\" && attempt < 2"}]},
            {"name": "b", "terminal": true}]});
        let drawn = mermaid(&parse(&value).unwrap().graph);
        let edge = "  n0 -->|\"intent == #quot;]#quot; && attempt #lt; 2\"| n1\n";
        assert!(drawn.contains(edge), "{drawn}");
    }
}
