//! What the planner is told and what of its answers counts: every way in which one can be wrong, and whatever
//! else a server may say.

mod paying;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::answer::{self, Answer};
use super::dialogue::{Dialogue, Next, Speaker};
use super::template::Template;
use super::{Bounds, Planning, PlanningStatus, Proposal, Purpose};
use crate::converse::cost::Tokens;
use crate::goal::{Goal, GoalSpec};
use crate::id::{
    AssignmentId, DispatchId, EpicId, HumanName, NodeId, Principal, ProjectName, Ulid,
};
use crate::limits::{
    PLANNER_ANSWER_BYTES_MAX, PLANNER_PROBLEMS_BYTES_MAX, PLANNER_REPEAT_BYTES_MAX,
};
use crate::plan::graph;
use crate::time::BusTime;

/// What a server says that does not count tokens.
const UNCOUNTED: Tokens = Tokens { input: 0, cached: 0, output: 0 };

pub(crate) fn planning(purpose: Purpose) -> Planning {
    let epic = EpicId(Ulid(1));
    let goal = Goal {
        id: epic,
        project: ProjectName::new("demo").unwrap(),
        spec: GoalSpec {
            title: "tidy the shop".to_owned(),
            problem_statement: "it is untidy".to_owned(),
            success_criteria: vec!["it is tidy".to_owned()],
            ..GoalSpec::default()
        },
        owner: Principal::Human(HumanName::new("ada").unwrap()),
        created: BusTime(1),
        updated: BusTime(1),
    };
    let split = purpose == Purpose::Split;
    Planning {
        id: DispatchId(Ulid(2)),
        at: BusTime(1),
        purpose,
        epic,
        goal: (!split).then(|| Box::new(goal)),
        assignment: split.then_some(AssignmentId(Ulid(3))),
        node: split.then(|| "T1.2".parse().unwrap()),
        base_version: 1,
        model: "m".to_owned(),
        template: Template::of(purpose).id.to_owned(),
        template_hash: Template::of(purpose).hash(Bounds::default()),
        inputs: "{\"goal\":{}}".to_owned(),
        status: PlanningStatus::Asked,
        calls: 0,
        set_aside: Default::default(),
        used: Default::default(),
        attempts: 0,
        answer: String::new(),
        problems: Vec::new(),
        reason: String::new(),
        since: BusTime(1),
        trace: None,
    }
}

/// A plan of one phase, of two tasks, the first with two subtasks.
fn plan() -> Value {
    json!({"phases": [{"id": "P1", "name": "do it", "tasks": [
        {"id": "T1.1", "name": "look", "acceptance": ["seen"], "subtasks": [
            {"id": "S1.1.1", "name": "left", "acceptance": ["seen"]},
            {"id": "S1.1.2", "name": "right", "acceptance": ["seen"], "deps": ["S1.1.1"]},
        ]},
        {"id": "T1.2", "name": "tidy", "acceptance": ["tidy"], "deps": ["T1.1"],
            "keyFacts": ["the broom is behind the door"], "definitionOfDone": "all is tidy"},
    ]}], "output": "T1.2"})
}

fn cut() -> Value {
    json!({"diagnosis": "it is three things", "subtasks": [
        {"name": "a", "objective": "do a", "acceptance": ["a holds"]},
        {"name": "b", "objective": "do b", "acceptance": ["b holds"], "after": [1]},
        {"name": "c", "objective": "do c", "acceptance": ["c holds"], "after": [1, 2]},
    ]})
}

/// A value in which what stands at a place is another, or is gone.
fn with(mut value: Value, place: &str, other: Option<Value>) -> Value {
    let (parent, key) = place.rsplit_once('/').unwrap();
    match (value.pointer_mut(parent).unwrap(), other) {
        (Value::Object(fields), Some(other)) => drop(fields.insert(key.to_owned(), other)),
        (Value::Object(fields), None) => drop(fields.remove(key)),
        (Value::Array(list), Some(other)) => list.push(other),
        (_, _) => panic!("{place}"),
    }
    value
}

fn found(purpose: Purpose, value: &Value) -> Vec<String> {
    answer::read(&planning(purpose), Bounds::default(), value).unwrap_err()
}

#[test]
fn changed_template_has_another_id() {
    let known = [
        (
            Purpose::Plan,
            "plan.2",
            "15f12da402e5cf6532af55ecb107f4ca97e4678016a62c6586ce70132dd11a9b",
        ),
        (
            Purpose::Split,
            "split.2",
            "0b92f3f13352c5844d625ee00d4a34d673dc94f6fac9a17667b786b0654051d4",
        ),
    ];
    for (purpose, id, hash) in known {
        let template = Template::of(purpose);
        let why = "the template or its schema changed: give it the next id, then its hash here";
        assert_eq!((template.id, &*template.hash(Bounds::default())), (id, hash), "{why}");
        let fewer = Bounds { subtasks: 2, ..Bounds::default() };
        assert_ne!(template.hash(fewer), hash, "the schema has the bounds");
    }
}

#[test]
fn valid_plan_belongs_to_its_goal() {
    let read = answer::read(&planning(Purpose::Plan), Bounds::default(), &plan());
    let Ok(Answer::Plan(read)) = read else { panic!("{read:?}") };
    assert_eq!(
        (&*read.goal.title, &*read.goal.problem_statement),
        ("tidy the shop", "it is untidy")
    );
    assert_eq!(read.goal.success_criteria, ["it is tidy"]);
    let ids: Vec<String> = read.nodes.iter().map(|node| node.id.to_string()).collect();
    assert_eq!(ids, ["P1", "T1.1", "S1.1.1", "S1.1.2", "T1.2"]);
    assert_eq!(read.output, Some("T1.2".parse().unwrap()));
}

#[test]
fn split_task_ids_derive_from_the_task() {
    let read = answer::read(&planning(Purpose::Split), Bounds::default(), &cut());
    let Ok(Answer::Split(diagnosis, parts)) = read else { panic!("{read:?}") };
    assert_eq!(diagnosis, "it is three things");
    let ids: Vec<String> = parts.iter().map(|node| node.id.to_string()).collect();
    assert_eq!(ids, ["S1.2.1", "S1.2.2", "S1.2.3"]);
    let last: Vec<String> = parts[2].depends_on.iter().map(ToString::to_string).collect();
    assert_eq!(last, ["S1.2.1", "S1.2.2"]);
    assert_eq!(parts[1].objective, "do b");
    let none = json!({"diagnosis": "it waits for a key", "subtasks": []});
    let read = answer::read(&planning(Purpose::Split), Bounds::default(), &none);
    assert_eq!(read, Ok(Answer::Split("it waits for a key".to_owned(), Vec::new())));
}

#[test]
fn every_error_of_a_plan_is_named_with_its_position() {
    let long = "x".repeat(5_000);
    let tasks = |count: usize| {
        let one = |n| json!({"id": format!("T1.{n}"), "name": "n", "acceptance": ["a"]});
        json!((1..=count).map(one).collect::<Vec<Value>>())
    };
    let rows = [
        ("/phases", None, "phases: is missing"),
        ("/phases", Some(json!([])), "phases: is empty"),
        ("/phases", Some(json!("P1")), "phases: is a text"),
        ("/title", Some(json!("mine")), "the answer: has the key \"title\""),
        ("/goal", Some(json!({})), "the answer: has the key \"goal\""),
        ("/profiles", Some(json!({"x": {"argv": ["rm"]}})), "has the key \"profiles\""),
        ("/output", Some(json!("T9.9")), "output: T9.9 is outside the epic"),
        ("/output", Some(json!("P1")), "output: P1 has no deliverable of its own"),
        ("/phases/0/id", Some(json!("T1.1")), "phases[0].id: T1.1 is not a valid id for a phase"),
        ("/phases/0/budget", Some(json!({})), "phases[0]: has the key \"budget\""),
        ("/phases/0/tasks", Some(json!([])), "phases[0].tasks: is empty"),
        ("/phases/0/tasks", Some(tasks(8)), "phases[0].tasks: has 8 entries"),
        ("/phases/0/tasks/1/id", Some(json!("T1.1")), "tasks[1].id: duplicate id T1.1"),
        (
            "/phases/0/tasks/1/id",
            Some(json!("T2.1")),
            "tasks[1].id: T2.1 is not a valid id for a node of P1",
        ),
        ("/phases/0/tasks/1/name", None, "tasks[1].name: is missing"),
        ("/phases/0/tasks/1/name", Some(json!(7)), "tasks[1].name: is a number"),
        ("/phases/0/tasks/1/name", Some(json!(" ")), "tasks[1].name: is an empty text"),
        ("/phases/0/tasks/1/name", Some(json!(long)), "tasks[1].name: has 5000 bytes"),
        ("/phases/0/tasks/1/acceptance", None, "tasks[1].acceptance: is missing"),
        ("/phases/0/tasks/1/acceptance", Some(json!([])), "tasks[1].acceptance: is missing"),
        (
            "/phases/0/tasks/1/keyFacts",
            Some(json!(vec!["f"; 21])),
            "tasks[1].keyFacts: is too long",
        ),
        ("/phases/0/tasks/1/argv", Some(json!(["rm"])), "phases[0].tasks[1]: has the key \"argv\""),
        ("/phases/0/tasks/1/tools", Some(json!(["rm"])), "tasks[1]: has the key \"tools\""),
        ("/phases/0/tasks/1/profile", Some(json!("root")), "tasks[1]: has the key \"profile\""),
        ("/phases/0/tasks/1/key_facts", Some(json!([])), "tasks[1]: has the key \"key_facts\""),
        (
            "/phases/0/tasks/1/deps",
            Some(json!(["T3.1"])),
            "tasks[1].deps[0]: T3.1 is outside the epic",
        ),
        ("/phases/0/tasks/0/deps", Some(json!(["T1.2"])), "cycle"),
        ("/phases/0/tasks/0/subtasks/0/subtasks", Some(json!([])), "has the key \"subtasks\""),
    ];
    for (place, other, expected) in rows {
        let problems = found(Purpose::Plan, &with(plan(), place, other));
        let named = problems.iter().any(|problem| problem.contains(expected));
        assert!(named, "{place}: {expected:?} is not in {problems:#?}");
    }
    let few = Bounds { phases: 1, tasks: 1, subtasks: 1, repairs: 0 };
    let problems = answer::read(&planning(Purpose::Plan), few, &plan()).unwrap_err();
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[0].contains("phases[0].tasks: has 2 entries"), "{problems:?}");
    assert!(problems[1].contains("phases[0].tasks[0].subtasks: has 2 entries"), "{problems:?}");
}

#[test]
fn every_error_of_a_split_is_named_with_its_position() {
    let part = || json!({"name": "a", "objective": "do a", "acceptance": ["a holds"]});
    let rows = [
        ("/diagnosis", None, "diagnosis: is missing"),
        ("/diagnosis", Some(json!("  ")), "diagnosis: is missing"),
        ("/diagnosis", Some(json!("x".repeat(9_000))), "diagnosis: has 9000 bytes"),
        ("/subtasks", None, "subtasks: is missing"),
        ("/subtasks", Some(json!({})), "subtasks: is missing"),
        ("/subtasks", Some(json!([part()])), "subtasks: has one entry"),
        ("/subtasks", Some(json!(vec![part(); 8])), "subtasks: has 8 entries"),
        ("/subtasks/1/after", Some(json!([2])), "subtasks[1].after: 2 is no place"),
        ("/subtasks/1/after", Some(json!([0])), "subtasks[1].after: 0 is no place"),
        ("/subtasks/1/after", Some(json!([-1])), "subtasks[1].after: -1 is no place"),
        ("/subtasks/1/after", Some(json!(1)), "subtasks[1].after: is no list"),
        ("/subtasks/0/after", Some(json!([1])), "subtasks[0].after: 1 is no place"),
        ("/subtasks/0/id", Some(json!("S1.2.9")), "subtasks[0]: has the key \"id\""),
        ("/subtasks/0/argv", Some(json!(["rm"])), "subtasks[0]: has the key \"argv\""),
        ("/subtasks/0/objective", None, "subtasks[0].objective: is missing"),
        ("/subtasks/0/acceptance", None, "subtasks[0].acceptance: is missing"),
        ("/subtasks/0/name", Some(json!(null)), "subtasks[0].name: is missing"),
        ("/plan", Some(json!({})), "the answer: has the key \"plan\""),
    ];
    for (place, other, expected) in rows {
        let problems = found(Purpose::Split, &with(cut(), place, other));
        let named = problems.iter().any(|problem| problem.contains(expected));
        assert!(named, "{place}: {expected:?} is not in {problems:#?}");
    }
    let subtask = Planning { node: Some("S1.2.3".parse().unwrap()), ..planning(Purpose::Split) };
    let problems = answer::read(&subtask, Bounds::default(), &cut()).unwrap_err();
    assert!(problems[0].contains("S1.2.3 has no room for subtasks"), "{problems:?}");
}

#[test]
fn answer_is_one_json_object_alone_or_in_the_last_fence() {
    let object = json!({"a": 1});
    for text in
        ["{\"a\":1}", " \n{\"a\": 1}\n", "Here:\n```json\n{}\n```\nno,\n```json\n{\"a\":1}\n```."]
    {
        assert_eq!(answer::json_of(text), Ok(object.clone()), "{text}");
    }
    let deep = "[".repeat(100_000);
    for text in
        ["", "no", "[1]", "7", "{\"a\":1} and more", "```json\n{\"a\":1}", "{\"a\":1", &*deep]
    {
        assert!(answer::json_of(text).is_err(), "{:.20}", text);
    }
    let fits = format!("{{\"a\":\"{}\"}}", "x".repeat(PLANNER_ANSWER_BYTES_MAX - 8));
    assert_eq!(fits.len(), PLANNER_ANSWER_BYTES_MAX);
    assert!(answer::json_of(&fits).is_ok());
    assert!(answer::json_of(&format!("{fits} ")).unwrap_err()[0].contains("the limit is"));
}

/// Answers with these until the dialogue ends.
fn talk(purpose: Purpose, answers: &[&str]) -> (Proposal, usize) {
    let mut dialogue = Dialogue::begin(&planning(purpose), Bounds::default());
    for (at, text) in answers.iter().enumerate() {
        match dialogue.answered((text, UNCOUNTED), |_| Vec::new()) {
            Next::Ask(again) => dialogue = *again,
            Next::End(proposal) => return (proposal, at + 1),
        }
    }
    panic!("it asks more than {} times", answers.len());
}

#[test]
fn invalid_answer_is_returned_at_most_twice() {
    let valid = plan().to_string();
    let (first, asked) = talk(Purpose::Plan, &[&valid]);
    assert_eq!((first.attempts, asked, first.problems), (1, 1, Vec::new()));
    assert_eq!(first.answer, Some(valid.clone()));
    let (third, _) = talk(Purpose::Plan, &["no", "{}", &valid]);
    assert_eq!((third.attempts, third.answer.clone()), (3, Some(valid.clone())));
    assert!(third.problems[0].starts_with("answer 1: the answer is not JSON"), "{third:?}");
    assert!(third.problems[1].starts_with("answer 2: "), "{third:?}");
    let (none, asked) = talk(Purpose::Plan, &["no", "no", "no", &valid]);
    assert_eq!((none.attempts, asked, none.answer), (3, 3, None));
    let (split, _) = talk(Purpose::Split, &[&cut().to_string()]);
    assert_eq!(split.answer, Some(cut().to_string()));
}

#[test]
fn returned_answer_lists_errors_within_a_bound() {
    let dialogue = Dialogue::begin(&planning(Purpose::Plan), Bounds::default());
    let by = |dialogue: &Dialogue| dialogue.turns().iter().map(|turn| turn.by).collect::<Vec<_>>();
    assert_eq!(by(&dialogue), [Speaker::System, Speaker::User]);
    assert!(dialogue.turns()[0].text.contains("\"additionalProperties\":false"));
    let long = format!("é{}", "x".repeat(PLANNER_REPEAT_BYTES_MAX));
    let Next::Ask(second) = dialogue.answered((&long, UNCOUNTED), |_| Vec::new()) else { panic!() };
    assert_eq!(by(&second), [Speaker::System, Speaker::User, Speaker::Model, Speaker::User]);
    assert!(second.turns()[2].text.len() <= PLANNER_REPEAT_BYTES_MAX);
    assert!(second.turns()[3].text.contains("the answer is not JSON"));
    let Next::Ask(third) = second.answered(("{}", UNCOUNTED), |_| Vec::new()) else { panic!() };
    assert_eq!(third.turns().len(), 4, "the last answer only");
    assert!(third.turns()[3].text.contains("phases: is missing"));
    let many = |_: &Value| vec!["x".repeat(3_000); 500];
    let Next::End(last) = third.answered((&plan().to_string(), UNCOUNTED), many) else { panic!() };
    assert_eq!(last.answer, None, "what its schema refuses is no answer");
    let kept: usize = last.problems.iter().map(String::len).sum();
    assert!(kept <= PLANNER_PROBLEMS_BYTES_MAX && last.problems.len() > 3, "{kept}");
}

#[test]
fn kept_model_output_is_redacted() {
    let secret = format!("sk-{}", "x9Y".repeat(12));
    let mut told = plan();
    told["phases"][0]["tasks"][0]["keyFacts"] = json!([format!("use {secret}")]);
    let foreign = json!({ secret.clone(): 1 }).to_string();
    let (kept, _) = talk(Purpose::Plan, &[&foreign, &told.to_string()]);
    assert!(kept.answer.as_ref().unwrap().contains("use [redacted:api_key]"), "{kept:?}");
    assert!(kept.problems[0].contains("[redacted:api_key]"), "{kept:?}");
    assert!(!format!("{kept:?}").contains(&secret), "{kept:?}");
}

/// Any JSON, of words that answers are made of.
pub(crate) fn any_json() -> impl Strategy<Value = Value> {
    let words = "P1|T1\\.1|T1\\.2|S1\\.1\\.1|S1\\.2\\.1|a|phases|[a-z]{0,3}";
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-1i64..9).prop_map(Value::from),
        words.prop_map(Value::from),
    ];
    let keys = "phases|tasks|subtasks|id|name|objective|acceptance|deps|after|diagnosis|output|x";
    leaf.prop_recursive(6, 60, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::btree_map(keys, inner, 0..8)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// An answer of which some places are anything.
pub(crate) fn any_answer(purpose: Purpose) -> impl Strategy<Value = Value> {
    let valid = match purpose {
        Purpose::Plan => plan(),
        Purpose::Split => cut(),
    };
    let mut places = Vec::new();
    pointers(&valid, String::new(), &mut places);
    let changes = proptest::collection::vec((0..places.len(), any_json()), 0..4);
    changes.prop_map(move |changes| {
        let mut value = valid.clone();
        for (at, other) in changes {
            if let Some(place) = value.pointer_mut(&places[at]) {
                *place = other;
            }
        }
        value
    })
}

fn pointers(value: &Value, at: String, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(key, value)| pointers(value, format!("{at}/{key}"), found));
        }
        Value::Array(list) => {
            let each = list.iter().enumerate();
            each.for_each(|(n, value)| pointers(value, format!("{at}/{n}"), found));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    found.push(at);
}

fn holds(purpose: Purpose, value: &Value) {
    let nodes = match answer::read(&planning(purpose), Bounds::default(), value) {
        Ok(Answer::Plan(plan)) => {
            assert!(plan.profiles.is_empty() && plan.project.is_none());
            plan.nodes
        }
        Ok(Answer::Split(_, parts)) => {
            assert!(parts.len() != 1 && parts.len() <= 7);
            parts
        }
        Err(problems) => return assert!(!problems.is_empty()),
    };
    let waits = nodes.iter().map(|node| (node.id, &*node.depends_on));
    assert_eq!(graph::cycles(waits), Vec::<Vec<NodeId>>::new());
}

proptest! {
    #[test]
    fn any_text_is_a_valid_answer_or_an_error(text in "\\PC*") {
        for purpose in Purpose::ALL {
            let dialogue = Dialogue::begin(&planning(purpose), Bounds::default());
            let valid = answer::json_of(&text)
                .and_then(|value| answer::read(&planning(purpose), Bounds::default(), &value));
            match dialogue.answered((&text, UNCOUNTED), |_| Vec::new()) {
                Next::Ask(again) => prop_assert!(valid.is_err() && again.turns().len() == 4),
                Next::End(proposal) => prop_assert!(valid.is_ok() && proposal.answer.is_some()),
            }
        }
    }

    #[test]
    fn any_json_is_a_valid_answer_or_an_error(value in any_json()) {
        holds(Purpose::Plan, &value);
        holds(Purpose::Split, &value);
    }

    #[test]
    fn mutated_answer_is_valid_or_an_error(
        plan in any_answer(Purpose::Plan),
        cut in any_answer(Purpose::Split),
    ) {
        holds(Purpose::Plan, &plan);
        holds(Purpose::Split, &cut);
    }
}
