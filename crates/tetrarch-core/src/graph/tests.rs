//! State graphs: what is refused, which edge is taken, how a turn moves.

use serde_json::{Value, json};

use super::schema::{DEFAULT_GRAPH, parse, parse_text};
use super::*;
use crate::limits::{FILLED_BYTES_MAX, TURN_TEXT_BYTES_MAX};

fn graph(value: Value) -> StateGraph {
    parse(&value).unwrap().graph
}

fn default() -> StateGraph {
    parse_text(DEFAULT_GRAPH).unwrap().graph
}

fn refused(value: &Value) -> String {
    let problems = parse(value).unwrap_err();
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

fn end(name: &str) -> Value {
    json!({"name": name, "entry": "answer", "terminal": true})
}

#[test]
fn default_graph_has_no_problem_and_no_warning() {
    assert_eq!(parse_text(DEFAULT_GRAPH).unwrap().warnings, []);
}

#[test]
fn wrong_graph_is_refused_with_place_and_reason() {
    let go = |to: &str| json!([{"to": to}]);
    let of = |nodes: Value| json!({"name": "g", "nodes": nodes});
    for (value, expected) in [
        (
            of(json!([
                {"name": "a", "edges": go("b")},
                {"name": "b", "edges": [{"to": "c", "guard": "false"}, {"to": "a"}]},
                end("c"),
            ])),
            "nodes: has the cycle a -> b -> a",
        ),
        (of(json!([{"name": "a", "edges": go("a")}, end("b")])), "has the cycle a -> a"),
        (of(json!([end("a"), end("b")])), "nodes[1]: b cannot be reached from a"),
        (of(json!([{"name": "a"}])), "nodes: has no terminal node"),
        (of(json!([{"name": "a", "edges": go("x")}, end("b")])), "leads to the unknown node x"),
        (of(json!([end("a"), end("a")])), "nodes[1].name: is \"a\", as another node"),
        (
            of(json!([{"name": "a", "edges": [{"to": "b", "guard": "intent =="}]}, end("b")])),
            "nodes[0].edges[0].guard: does not compile: column ",
        ),
        (
            of(json!([{"name": "a", "entry": {"compose": "{b}"}, "edges": go("b")}, end("b")])),
            "nodes[0].entry: fills in the unknown {b}",
        ),
        (
            of(json!([{"name": "a", "entry": {"tool": "shell"}, "edges": go("b")}, end("b")])),
            "nodes[0].entry: calls a tool; allowed: an interaction orchestrator executes nothing",
        ),
        (of(json!([{"name": "a", "entry": "answer"}])), "answers before the turn ends"),
        (
            of(json!([{"name": "a", "terminal": true, "edges": go("a")}])),
            "nodes[0].edges[0]: leads on from a terminal node",
        ),
        (
            json!({"name": "g", "start": "x", "nodes": [end("a")]}),
            "start: names the unknown node x",
        ),
        (
            json!({"name": "g", "onStuck": "x", "nodes": [end("a")]}),
            "onStuck: names the unknown node x",
        ),
        (json!({"name": "g", "nodes": []}), "nodes: is empty"),
        (json!({"name": "g"}), "nodes: is missing"),
        (json!({"nodes": [end("a")]}), "name: is missing"),
        (json!({"name": "g", "nodes": [end("a")], "edges": []}), "edges: is an unknown key"),
        (json!([]), "graph: is a list"),
        (json!({"name": "g", "x": "a".repeat(20_000)}), "graph: has 20"),
    ] {
        let problems = refused(&value);
        assert!(problems.contains(expected), "{expected}\n{problems}");
    }
}

#[test]
fn node_and_size_bounds_hold_at_both_ends() {
    let of = |count: usize| {
        let mut nodes: Vec<Value> = (1..count)
            .map(|at| json!({"name": format!("n{at}"), "edges": [{"to": format!("n{}", at + 1)}]}))
            .collect();
        nodes.push(end(&format!("n{count}")));
        json!({"name": "g", "nodes": nodes})
    };
    assert!(parse(&of(crate::limits::GRAPH_NODES_MAX)).is_ok());
    let more = refused(&of(crate::limits::GRAPH_NODES_MAX + 1));
    assert!(more.contains("has 65 entries; the limit is 64 entries"), "{more}");
    let fill = |bytes: usize| {
        let texts = |size: usize| json!({"compose": "x".repeat(size)});
        let node = |at: u32, size: usize| json!({"name": format!("n{at}"), "entry": texts(size), "edges": [{"to": format!("n{}", at + 1)}]});
        let make = |last: usize| {
            json!({"name": "g", "nodes": [
                node(1, 4000), node(2, 4000), node(3, 4000), node(4, last), end("n5"),
            ]})
        };
        let empty = make(0).to_string().len();
        make(bytes - empty)
    };
    assert!(parse(&fill(crate::limits::GRAPH_BYTES_MAX)).is_ok());
    let large = refused(&fill(crate::limits::GRAPH_BYTES_MAX + 1));
    assert!(large.contains("graph: has 16385 bytes; the limit is 16384 bytes"), "{large}");
}

#[test]
fn equal_priorities_warn_and_the_first_in_the_file_is_taken() {
    let read = parse(&json!({"name": "g", "nodes": [
        {"name": "a", "edges": [
            {"to": "c", "priority": 2}, {"to": "d", "priority": 1, "guard": "attempt > 1"},
            {"to": "e", "priority": 2},
        ]},
        end("c"), end("d"), end("e"),
    ]}))
    .unwrap();
    let warnings: Vec<String> = read.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("edges to c and e both have priority 2"), "{warnings:?}");
    assert_eq!(read.graph.begin("x").path, ["a -> c"]);
}

#[test]
fn failing_guard_counts_as_false_and_is_told() {
    let graph = graph(json!({"name": "g", "nodes": [
        {"name": "a", "edges": [{"to": "b", "guard": "1 / 0 == 1"}, {"to": "c"}]},
        end("b"), end("c"),
    ]}));
    let begun = graph.begin("x");
    assert_eq!(begun.path.len(), 2);
    assert!(begun.path[0].starts_with("guard to b: failed: "), "{:?}", begun.path);
    assert_eq!(begun.path[1], "a -> c");
}

#[test]
fn stuck_turn_goes_to_the_stuck_node_once() {
    let nodes = |stuck: Value| {
        json!({"name": "g", "onStuck": "s", "nodes": [
            {"name": "a", "edges": [{"to": "b", "guard": "false"}]}, end("b"), stuck,
        ]})
    };
    let saved = graph(nodes(json!({"name": "s", "entry": {"answer": "sorry"}, "terminal": true})));
    let begun = saved.begin("x");
    assert_eq!(begun.path, ["a -> s: no guard was true"]);
    assert_eq!(begun.doing, Doing::Answer("sorry".to_owned()));
    let lost = graph(nodes(json!({"name": "s", "edges": [{"to": "b", "guard": "false"}]})));
    assert_eq!(lost.begin("x").doing, Doing::Stuck("no guard of node s was true".to_owned()));
}

#[test]
fn default_graph_delegates_and_answers_with_the_result() {
    let graph = default();
    let begun = graph.begin("count {result} the files");
    let Doing::Spawn(work) = &begun.doing else { panic!("{:?}", begun.doing) };
    assert_eq!(work.task, "count {result} the files", "what is filled in is not read again");
    assert_eq!(begun.path, ["intake -> delegation"]);
    let done = graph.go_on(begun.position.clone(), "success", "there are 7");
    assert_eq!(done.path, ["delegation -> synthesize", "synthesize -> respond"]);
    assert_eq!(done.doing, Doing::Answer("there are 7".to_owned()));
    let failed = graph.go_on(begun.position, "failure", "no disk");
    assert_eq!(failed.doing, Doing::Answer("That was not done: no disk".to_owned()));
    let greeted = graph.begin("hello");
    assert!(matches!(&greeted.doing, Doing::Answer(text) if text.starts_with("Say what")));
}

#[test]
fn results_and_context_stay_within_their_bounds() {
    let nodes: Vec<Value> = (1..=40)
        .map(|at| {
            json!({"name": format!("n{at}"), "entry": {"compose": "{text}{text}"}, "exit": "append",
                   "edges": [{"to": format!("n{}", at + 1)}]})
        })
        .chain([end("n41")])
        .collect();
    let graph = graph(json!({"name": "g", "nodes": nodes}));
    let begun = graph.begin(&"\u{1F600}".repeat(TURN_TEXT_BYTES_MAX / 4));
    let Doing::Answer(text) = &begun.doing else { panic!("{:?}", begun.doing) };
    assert_eq!(text.len(), DELIVERABLE_BYTES_MAX);
    let size = Value::Object(begun.position.values).to_string().len();
    assert!(size <= TURN_CONTEXT_BYTES_MAX, "{size}");
}

#[test]
fn hostile_graph_makes_a_small_move() {
    let edge = |guard: &str| json!({"to": "end", "guard": guard});
    let edges: Vec<Value> =
        (0..15).map(|_| edge("context.text > 1")).chain([edge("true")]).collect();
    let answer = json!({"answer": "{text}".repeat(600)});
    let mut graph = graph(json!({"name": "g", "nodes": [
        {"name": "n1", "edges": edges}, {"name": "end", "entry": answer, "terminal": true},
    ]}));
    // More of such nodes than a file has room for.
    let (one, end) = (graph.nodes[0].clone(), graph.nodes[1].clone());
    let node = |at: u32| {
        let mut node = one.clone();
        node.name = format!("n{at}").parse().unwrap();
        if at < 40 {
            node.edges[15].to = format!("n{}", at + 1).parse().unwrap();
        }
        node
    };
    graph.nodes = (1..=40).map(node).chain([end]).collect();
    graph.start = "n1".parse().unwrap();
    let begun = graph.begin(&"x".repeat(TURN_TEXT_BYTES_MAX));
    let Doing::Answer(text) = &begun.doing else { panic!("{:?}", begun.doing) };
    assert_eq!(text.len(), FILLED_BYTES_MAX);
    assert_eq!((begun.failures, begun.path.len()), (GUARD_FAILURES_MAX, GUARD_FAILURES_MAX + 40));
    assert!(begun.path.iter().all(|line| line.len() <= GUARD_FAILURE_BYTES_MAX));
}

#[test]
fn agent_says_what_is_wanted_and_nothing_else_counts() {
    let graph = graph(json!({"name": "g", "nodes": [
        {"name": "route", "entry": {"classify": {"intents": ["paint", "work"], "profile": "router"}},
         "edges": [{"to": "paint", "guard": "intent == 'paint' && confidence > 0.5"}, {"to": "work"}]},
        end("paint"), end("work"),
    ]}));
    let begun = graph.begin("a red fence");
    let Doing::Spawn(work) = &begun.doing else { panic!("{:?}", begun.doing) };
    assert_eq!(work.task, "Say what this person wants:\na red fence");
    assert_eq!((work.intents.len(), work.profile.as_ref().unwrap().as_str()), (2, "router"));
    for (said, expected) in [
        (r#"{"intent": "paint", "confidence": 0.9}"#, "route -> paint"),
        (r#"{"intent": "paint", "confidence": 0.5}"#, "route -> work"),
        (r#"{"intent": "paint", "confidence": 9}"#, "route -> work"),
        (r#"{"intent": "steal", "confidence": 0.9}"#, "route -> work"),
        ("paint", "route -> work"),
    ] {
        let routed = graph.go_on(begun.position.clone(), "success", said);
        assert_eq!(routed.path, [expected], "{said}");
    }
    let none = refused(&json!({"name": "g", "nodes": [
        {"name": "a", "entry": {"classify": {"profile": "p"}}, "edges": [{"to": "b"}]}, end("b")]}));
    assert!(none.contains("nodes[0].entry.classify.intents: is missing"), "{none}");
}

#[test]
fn node_composes_with_the_model_of_its_profile() {
    let graph = graph(json!({"name": "g", "nodes": [
        {"name": "look", "entry": {"spawn": {"profile": "cheap"}}, "edges": [{"to": "say"}]},
        {"name": "say", "entry": {"compose": {"profile": "fluent"}}, "edges": [{"to": "end"}]},
        end("end"),
    ]}));
    let begun = graph.begin("how many?");
    let Doing::Spawn(work) = &begun.doing else { panic!("{:?}", begun.doing) };
    assert_eq!(work.profile.as_ref().unwrap().as_str(), "cheap");
    let found = graph.go_on(begun.position, "success", "seven");
    let Doing::Spawn(work) = &found.doing else { panic!("{:?}", found.doing) };
    assert_eq!(work.profile.as_ref().unwrap().as_str(), "fluent");
    assert_eq!(work.task, "Answer this person:\nhow many?\nFrom this:\nseven");
    let said = graph.go_on(found.position, "success", "There are seven.");
    assert_eq!(said.doing, Doing::Answer("There are seven.".to_owned()));
}

#[test]
fn terminal_node_without_answer_ends_with_the_result() {
    let graph = graph(json!({"name": "g", "nodes": [
        {"name": "a", "entry": {"ask": "which?"}, "edges": [{"to": "b"}]},
        {"name": "b", "entry": {"compose": "{result}, then"}, "terminal": true},
    ]}));
    let asked = graph.begin("x");
    assert_eq!(asked.doing, Doing::Ask("which?".to_owned()));
    let done = graph.go_on(asked.position, "answered", "this");
    assert_eq!(done.doing, Doing::Answer("this, then".to_owned()));
}
