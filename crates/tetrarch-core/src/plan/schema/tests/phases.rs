//! The order of phases, row by row.

use super::*;

fn id(text: &str) -> NodeId {
    text.parse().unwrap()
}

/// A plan of three phases with one task each; `deps` of some nodes by their id.
fn three_phases(order: Option<&str>, deps: &[(&str, &[&str])]) -> Value {
    let of =
        |id: &str| deps.iter().find(|(node, _)| *node == id).map_or(&[][..], |(_, deps)| *deps);
    let phases = (1..=3).map(|n| {
        let (phase, task) = (format!("P{n}"), format!("T{n}.1"));
        let mut leaf = leaf(&task);
        leaf["deps"] = json!(of(&task));
        json!({"id": phase, "name": phase, "deps": of(&phase), "tasks": [leaf]})
    });
    let mut plan = json!({"title": "t", "phases": phases.collect::<Vec<_>>()});
    if let Some(order) = order {
        plan["phaseOrder"] = json!(order);
    }
    plan
}

fn depends_on(plan: &Value, node: &str) -> Vec<String> {
    let plan = parse(plan).unwrap();
    let node = plan.nodes.iter().find(|other| other.id == id(node)).unwrap();
    node.depends_on.iter().map(ToString::to_string).collect()
}

#[test]
fn each_phase_waits_for_the_previous_by_default() {
    for order in [None, Some("sequential")] {
        let plan = three_phases(order, &[]);
        assert_eq!(depends_on(&plan, "P1"), [""; 0], "{order:?}");
        assert_eq!(depends_on(&plan, "P2"), ["P1"], "{order:?}");
        assert_eq!(depends_on(&plan, "P3"), ["P2"], "{order:?}");
        assert_eq!(depends_on(&plan, "T3.1"), [""; 0], "{order:?}");
    }
}

#[test]
fn parallel_phases_wait_only_for_their_dependencies() {
    let plan = three_phases(Some("parallel"), &[("P3", &["P1"]), ("T1.1", &["T2.1"])]);
    assert_eq!(depends_on(&plan, "P2"), [""; 0]);
    assert_eq!(depends_on(&plan, "P3"), ["P1"]);
    assert_eq!(depends_on(&plan, "T1.1"), ["T2.1"]);
}

#[test]
fn phases_keep_their_own_dependencies_and_repeat_none() {
    let plan = three_phases(None, &[("P3", &["P1"]), ("P2", &["P1"]), ("T3.1", &["T1.1"])]);
    assert_eq!(depends_on(&plan, "P3"), ["P1", "P2"]);
    assert_eq!(depends_on(&plan, "P2"), ["P1"]);
    assert_eq!(depends_on(&plan, "T3.1"), ["T1.1"]);
}

#[test]
fn phases_run_in_the_order_of_the_file() {
    let mut plan = three_phases(None, &[]);
    plan["phases"].as_array_mut().unwrap().reverse();
    assert_eq!(depends_on(&plan, "P3"), [""; 0]);
    assert_eq!(depends_on(&plan, "P1"), ["P2"]);
}

#[test]
fn dependency_on_a_later_phase_is_refused_where_it_stands() {
    for (node, needed, path) in [
        ("T1.1", "T2.1", "phases[0].tasks[0].deps[0]"),
        ("T1.1", "P3", "phases[0].tasks[0].deps[0]"),
        ("P2", "T3.1", "phases[1].deps[0]"),
    ] {
        let plan = three_phases(None, &[(node, &[needed])]);
        assert_refused(&plan, path, &format!("{node} depends on {needed}, which runs later"));
    }
}

#[test]
fn unknown_phase_order_is_refused() {
    let plan = three_phases(Some("reverse"), &[]);
    assert_refused(&plan, "phaseOrder", "\"reverse\"");
}
