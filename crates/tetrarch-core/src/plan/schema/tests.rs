//! Plan files row by row: what is read, every refusal with its path, both ends of each bound.

mod commands;
mod keys;
mod phases;
mod published;
mod values;

use serde_json::{Value, json};

use super::*;
use crate::brief::RunnerKind;
use crate::limits::{EFFORT_BYTES_MAX, INSTRUCTION_BYTES_MAX, LIST_MAX};
use crate::plan::RiskLevel;
use crate::time::Millis;

fn leaf(id: &str) -> Value {
    json!({"id": id, "name": id, "acceptance": ["it holds"]})
}

/// A plan of one phase with these tasks.
fn plan_of(tasks: &[Value]) -> Value {
    json!({"title": "t", "phases": [{"id": "P1", "name": "p", "tasks": tasks}]})
}

/// A plan of one task with some fields changed.
fn plan_with(fields: Value) -> Value {
    let mut task = leaf("T1.1");
    let Value::Object(fields) = fields else { panic!("fields are a mapping") };
    task.as_object_mut().unwrap().extend(fields);
    plan_of(&[task])
}

fn problems(value: &Value) -> Vec<String> {
    parse(value).err().unwrap_or_default().iter().map(ToString::to_string).collect()
}

/// The one problem of a document, which must begin with this path and hold this text.
#[track_caller]
fn assert_refused(value: &Value, path: &str, text: &str) {
    let found = parse(value).expect_err("it must be refused");
    assert_eq!(found.len(), 1, "{:?}", problems(value));
    assert_eq!(found[0].path, path, "{}", found[0]);
    assert!(found[0].problem.contains(text), "{}", found[0]);
    assert!(!found[0].allowed.is_empty(), "{}", found[0]);
}

#[track_caller]
fn assert_read(value: &Value) -> PlanFile {
    parse(value).unwrap_or_else(|_| panic!("{:?}", problems(value)))
}

#[test]
fn whole_plan_is_read_in_either_case() {
    let camel = json!({
        "planVersion": 1,
        "goal": {"title": "T", "problemStatement": "why", "successCriteria": ["s"],
                 "nonGoals": ["n"], "constraints": ["c"], "tags": ["x"], "assumptions": ["a"],
                 "risks": [{"risk": "r", "impact": "i", "mitigation": "m"}, "alone"],
                 "stakeholders": ["eve"], "repoContextSnapshot": "on main",
                 "origin": {"to": "eve", "channel": "irc"}},
        "project": "demo", "mode": "tight", "output": "S1.2.1",
        "profiles": {"fast": {"argv": ["run", "it"], "env": {"A": "1"}, "passEnv": ["PATH"],
            "model": "m", "prompt": "p", "tools": ["sh"], "wall": "1m", "workspace": "/w",
            "budget": {"tokens": 5, "costUsd": 0.25, "turns": 3}}},
        "phases": [{"id": "P1", "name": "one", "objective": "o", "deps": [], "tasks": [
            {"id": "T1.1", "name": "first", "outcome": "done", "task": "do it",
             "expectedOutcome": "e", "estimatedEffort": "an hour", "riskLevel": "high",
             "acceptance": ["a"], "definitionOfDone": "d", "role": "specialist",
             "domain": "rust", "profile": "fast", "tools": ["sh"], "keyFacts": ["k"],
             "outputSchema": {"type": "object"}, "scopePaths": ["src/**"],
             "budget": {"tokens": 9}, "wall": 1.5, "maxAttempts": 3,
             "review": {"domain": "rust", "profile": "slow"},
             "placement": {"host": "h1", "labels": {"gpu": "yes"}}},
            {"id": "T1.2", "name": "second", "deps": ["T1.1"], "subtasks": [leaf("S1.2.1")]}]}]
    });
    let plan = assert_read(&camel);
    let ids: Vec<String> = plan.nodes.iter().map(|node| node.id.to_string()).collect();
    assert_eq!(ids, ["P1", "T1.1", "T1.2", "S1.2.1"]);
    let task = &plan.nodes[1];
    assert_eq!(task.objective, "done\n\ndo it");
    assert_eq!(
        (task.role, task.wall, task.max_attempts),
        (Role::Specialist, Some(Millis(1_500)), 3)
    );
    assert_eq!(task.output_schema.as_deref(), Some(r#"{"type":"object"}"#));
    assert_eq!(task.review.as_ref().unwrap().profile.as_ref().unwrap().as_str(), "slow");
    assert_eq!(task.placement.labels, [("gpu".to_owned(), "yes".to_owned())]);
    assert_eq!(plan.nodes[2].depends_on, [NodeId::task(1, 1)]);
    assert_eq!(plan.nodes[3].objective, "S1.2.1");
    assert_eq!(plan.output, Some(NodeId::subtask(1, 2, 1)));
    assert_eq!((task.expected_outcome.as_str(), task.estimated_effort.as_str()), ("e", "an hour"));
    assert_eq!((task.risk_level, plan.nodes[2].risk_level), (Some(RiskLevel::High), None));
    let told = |risk: &Risk| [risk.risk.clone(), risk.impact.clone(), risk.mitigation.clone()];
    let risks: Vec<[String; 3]> = plan.goal.risks.iter().map(told).collect();
    assert_eq!(risks, [["r", "i", "m"], ["alone", "", ""]]);
    let GoalSpec { assumptions, stakeholders, repo_context, .. } = &plan.goal;
    assert_eq!(
        (&assumptions[..], &stakeholders[..]),
        (&["a".to_owned()][..], &["eve".to_owned()][..])
    );
    assert_eq!(repo_context, "on main");
    let origin =
        [("channel", "irc"), ("to", "eve")].map(|(key, text)| (key.to_owned(), text.to_owned()));
    assert_eq!(plan.goal.origin, origin);
    let profile = &plan.profiles[0];
    assert_eq!((profile.kind, profile.wall), (RunnerKind::Process, Some(Millis(60_000))));
    assert_eq!(profile.budget.cost_micro, Some(250_000));

    let mut snake = camel.to_string();
    for (from, to) in [
        ("planVersion", "plan_version"),
        ("problemStatement", "problem_statement"),
        ("successCriteria", "success_criteria"),
        ("nonGoals", "non_goals"),
        ("repoContextSnapshot", "repo_context_snapshot"),
        ("expectedOutcome", "expected_outcome"),
        ("estimatedEffort", "estimated_effort"),
        ("riskLevel", "risk_level"),
        ("passEnv", "pass_env"),
        ("costUsd", "cost_usd"),
        ("definitionOfDone", "definition_of_done"),
        ("keyFacts", "key_facts"),
        ("outputSchema", "output_schema"),
        ("scopePaths", "scope_paths"),
        ("maxAttempts", "max_attempts"),
    ] {
        assert!(snake.contains(from), "{from}");
        snake = snake.replace(from, to);
    }
    assert_eq!(assert_read(&serde_json::from_str(&snake).unwrap()), plan);
}

#[test]
fn defaults_are_a_worker_two_attempts_and_the_name_as_objective() {
    let plan = assert_read(&plan_of(&[leaf("T1.1")]));
    let task = &plan.nodes[1];
    assert_eq!((task.role, task.max_attempts), (Role::Worker, ATTEMPTS_DEFAULT));
    assert_eq!((task.objective.as_str(), &task.review, &task.domain), ("T1.1", &None, &None));
    assert_eq!(plan.nodes[0].objective, "");
}

#[test]
fn goal_without_a_plan_is_one_task() {
    let plan = one_task("say hello");
    let written = json!({"title": "say hello", "output": "T1.1", "phases": [
        {"id": "P1", "name": "say hello", "objective": "say hello", "tasks": [
            {"id": "T1.1", "name": "say hello", "acceptance": [RESULT_VALIDATES]}]}]});
    assert_eq!(assert_read(&written), plan);
}

#[test]
fn every_problem_is_listed() {
    let value = json!({"planVersion": 2, "phasess": [], "project": "a b", "phases": [
        {"id": "P1", "tasks": [{"id": "T2.1", "name": "", "deps": ["T9.9", "x"], "wall": "1y"}]},
        {"id": "P1", "name": "again", "tasks": []}]});
    let found = problems(&value);
    for expected in [
        "phasess: is an unknown key; did you mean phases?; allowed: planVersion, title, goal, ",
        "planVersion: is 2; allowed: 1",
        "title: is missing",
        "project: project name has ' ' at position 1",
        "phases[0].name: is missing",
        "phases[0].tasks[0].id: T2.1 is not a valid id for a node of P1; allowed: T1.<n>, such as T1.1",
        "phases[0].tasks[0].name: is an empty text",
        "phases[0].tasks[0].acceptance: is missing",
        "phases[0].tasks[0].deps[0]: T9.9 is outside the epic",
        "phases[0].tasks[0].deps[1]: \"x\" is not a valid id",
        "phases[0].tasks[0].wall: \"1y\" is not a duration",
        "phases[1].id: duplicate id P1, first at phases[0]",
        "phases[1].tasks: is empty; allowed: 1 to 7 tasks",
    ] {
        assert!(found.iter().any(|line| line.starts_with(expected)), "{expected}: {found:#?}");
    }
    assert_eq!(found.len(), 13, "{found:#?}");
}

#[test]
fn document_is_a_mapping_with_phases() {
    for value in [json!(null), json!(1), json!("x"), json!([]), json!(true)] {
        assert_refused(&value, "plan", "is ");
    }
    assert_refused(&json!({"title": "t"}), "phases", "is missing");
    assert_refused(&json!({"title": "t", "phases": []}), "phases", "is empty");
    assert_refused(&json!({"title": "t", "phases": {}}), "phases", "is a mapping");
    let no_tasks = json!({"title": "t", "phases": [{"id": "P1", "name": "p"}]});
    assert_refused(&no_tasks, "phases[0].tasks", "is missing");
    assert_read(&json!({"goal": {"title": "t"}, "phases": plan_of(&[leaf("T1.1")])["phases"]}));
    let twice = json!({"title": "t", "goal": {"title": "t"},
                       "phases": plan_of(&[leaf("T1.1")])["phases"]});
    assert_refused(&twice, "title", "given twice");
}

/// A plan with this many phases, tasks in the first and subtasks in the first of these.
fn plan_sized(phases: u32, tasks: u32, subtasks: u32) -> Value {
    let subs: Vec<Value> = (1..=subtasks).map(|s| leaf(&format!("S1.1.{s}"))).collect();
    let all: Vec<Value> = (1..=phases)
        .map(|p| {
            let count = if p == 1 { tasks } else { 1 };
            let tasks: Vec<Value> = (1..=count).map(|t| leaf(&format!("T{p}.{t}"))).collect();
            json!({"id": format!("P{p}"), "name": "p", "tasks": tasks})
        })
        .collect();
    let mut plan = json!({"title": "t", "phases": all});
    plan["phases"][0]["tasks"][0]["subtasks"] = json!(subs);
    plan
}

#[test]
fn five_phases_seven_tasks_and_seven_subtasks_are_the_maximum() {
    assert_eq!(assert_read(&plan_sized(5, 7, 7)).nodes.len(), 5 + 7 + 4 + 7);
    assert_read(&plan_sized(1, 1, 0));
    assert_refused(&plan_sized(6, 1, 0), "phases", "6 entries; the limit is 5");
    assert_refused(&plan_sized(1, 8, 0), "phases[0].tasks", "8 entries; the limit is 7");
    assert_refused(
        &plan_sized(1, 1, 8),
        "phases[0].tasks[0].subtasks",
        "8 entries; the limit is 7",
    );
    assert!(!problems(&plan_sized(u16::MAX.into(), 1, 0)).is_empty());
}

#[test]
fn goal_context_respects_its_bounds_and_words() {
    let goal = |key: &str, value: Value| {
        let mut plan = plan_with(json!({}));
        plan["title"] = Value::Null;
        plan["goal"] = json!({"title": "T", key: value});
        plan
    };
    let text = |len: usize| json!("x".repeat(len));
    assert_read(&goal("repoContextSnapshot", text(REPO_CONTEXT_BYTES_MAX)));
    let over = goal("repoContextSnapshot", text(REPO_CONTEXT_BYTES_MAX + 1));
    assert_refused(&over, "goal.repoContextSnapshot", "limit is 4096 bytes");
    assert_read(&goal("risks", json!(vec!["x"; LIST_MAX])));
    assert_refused(&goal("risks", json!(vec!["x"; LIST_MAX + 1])), "goal.risks", "201 entries");
    let bare = goal("risks", json!([{"impact": "i"}]));
    assert_refused(&bare, "goal.risks[0].risk", "is missing");
    let misspelled = goal("risks", json!([{"risk": "r", "impct": "i"}]));
    assert_refused(&misspelled, "goal.risks[0].impct", "did you mean impact?");
    assert_refused(&goal("risks", json!([7])), "goal.risks[0]", "is a number");
    let level = plan_with(json!({"riskLevel": "grave"}));
    assert_refused(&level, "phases[0].tasks[0].riskLevel", "is \"grave\"");
}

#[test]
fn texts_and_lists_respect_their_bounds() {
    let text = |len: usize| "x".repeat(len);
    for (key, max) in [
        ("name", TEXT_BYTES_MAX),
        ("definitionOfDone", TEXT_BYTES_MAX),
        ("expectedOutcome", TEXT_BYTES_MAX),
        ("estimatedEffort", EFFORT_BYTES_MAX),
        ("task", INSTRUCTION_BYTES_MAX),
        ("outcome", INSTRUCTION_BYTES_MAX),
    ] {
        assert_read(&plan_with(json!({key: text(max)})));
        let path = format!("phases[0].tasks[0].{key}");
        assert_refused(
            &plan_with(json!({key: text(max + 1)})),
            &path,
            &format!("limit is {max} bytes"),
        );
    }
    for key in ["acceptance", "keyFacts", "tools", "scopePaths"] {
        let path = format!("phases[0].tasks[0].{key}");
        assert_read(&plan_with(json!({key: vec!["x"; LIST_MAX]})));
        let over = plan_with(json!({key: vec!["x"; LIST_MAX + 1]}));
        assert_refused(&over, &path, "201 entries; the limit is 200");
        assert_read(&plan_with(json!({key: [text(TEXT_BYTES_MAX)]})));
        let over = plan_with(json!({key: [text(TEXT_BYTES_MAX + 1)]}));
        assert!(problems(&over).iter().any(|line| line.starts_with(&format!("{path}[0]"))));
    }
    let facts = |bytes: usize| plan_with(json!({"keyFacts": vec![text(bytes); 14]}));
    assert_read(&facts(4_000));
    assert_refused(&facts(4_096), "phases[0].tasks[0]", "bytes in all");
}

#[test]
fn largest_plan_fits_into_a_commit() {
    let mut plan = plan_sized(5, 7, 7);
    let fill = |plan: &mut Value, facts: usize| {
        for phase in plan["phases"].as_array_mut().unwrap() {
            for task in phase["tasks"].as_array_mut().unwrap() {
                task["keyFacts"] = json!(vec!["x".repeat(TEXT_BYTES_MAX); facts]);
            }
        }
    };
    fill(&mut plan, 9);
    assert!(plan.to_string().len() < COMMIT_BYTES_MAX);
    assert_read(&plan);
    fill(&mut plan, 11);
    assert!(plan.to_string().len() > COMMIT_BYTES_MAX);
    assert_refused(&plan, "plan", "the limit is 458752 bytes");
}

#[test]
fn ids_belong_to_their_tier_and_parent() {
    for (id, text) in [
        ("P1", "not a valid id for a node of P1"),
        ("T2.1", "not a valid id for a node of P1"),
        ("S1.1.1", "not a valid id for a node of P1"),
        ("T1", "is not a valid id"),
        ("T1.0", "is not a valid id"),
        ("t1.1", "is not a valid id"),
    ] {
        assert_refused(&plan_of(&[leaf(id)]), "phases[0].tasks[0].id", text);
    }
    assert_refused(
        &plan_of(&[leaf("T1.1"), leaf("T1.1")]),
        "phases[0].tasks[1].id",
        "duplicate id T1.1",
    );
    assert_refused(&plan_with(json!({"id": ""})), "phases[0].tasks[0].id", "is empty");
    assert_refused(&plan_with(json!({"id": null})), "phases[0].tasks[0].id", "is missing");
    assert_read(&plan_of(&[leaf("T1.9"), leaf("T1.3")]));
}

#[test]
fn every_node_needs_a_name_and_every_leaf_criteria() {
    assert_refused(&plan_with(json!({"name": null})), "phases[0].tasks[0].name", "is missing");
    for none in [json!(null), json!([])] {
        let path = "phases[0].tasks[0].acceptance";
        assert_refused(&plan_with(json!({"acceptance": none})), path, "is missing");
        assert_read(&plan_with(json!({"acceptance": none, "subtasks": [leaf("S1.1.1")]})));
    }
    assert_refused(
        &plan_with(json!({"acceptance": "x"})),
        "phases[0].tasks[0].acceptance",
        "is a text",
    );
}

#[test]
fn dependencies_stay_within_the_epic_without_cycles() {
    let deps = |lists: [&[&str]; 3]| {
        let mut plan = plan_of(&[leaf("T1.1"), leaf("T1.2"), leaf("T1.3")]);
        for (task, list) in plan["phases"][0]["tasks"].as_array_mut().unwrap().iter_mut().zip(lists)
        {
            task["deps"] = json!(list);
        }
        plan
    };
    let at = "phases[0].tasks[0].deps";
    assert_read(&deps([&[], &["T1.1"], &["T1.2", "T1.1"]]));
    assert_refused(&deps([&["P2"], &[], &[]]), &format!("{at}[0]"), "P2 is outside the epic");
    assert_refused(&deps([&["T1.1"], &[], &[]]), &format!("{at}[0]"), "T1.1 -> T1.1");
    assert_refused(&deps([&["P1"], &[], &[]]), &format!("{at}[0]"), "T1.1 -> P1 -> T1.1");
    assert_refused(&deps([&["T1.2"], &["T1.1"], &[]]), at, "cycle T1.1 -> T1.2 -> T1.1");
    let cycle = "dependency cycle T1.1 -> T1.3 -> T1.2 -> T1.1";
    assert_refused(&deps([&["T1.3"], &["T1.1"], &["T1.2"]]), at, cycle);
    let mut phase = deps([&[], &[], &[]]);
    phase["phases"][0]["deps"] = json!(["T1.2"]);
    assert_refused(&phase, "phases[0].deps[0]", "P1 -> T1.2 -> P1");
    let mut many = deps([&[], &[], &[]]);
    many["phases"][0]["tasks"][0]["deps"] = json!(vec!["T1.2"; LIST_MAX]);
    assert_read(&many);
    many["phases"][0]["tasks"][0]["deps"] = json!(vec!["T1.2"; LIST_MAX + 1]);
    assert_refused(&many, at, "201 entries; the limit is 200");
}
