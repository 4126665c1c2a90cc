//! What `run` proposes at its end is typed when its fleet is gone (spec 08): commands that read start the
//! bus for themselves. What others wrote moves no cursor.

use serde_json::{Value, json};
use tetrarch_tests::Fleet;

/// What must not reach a terminal.
const HIDDEN: [char; 4] = ['\x1b', '\u{202e}', '\r', '\u{9b}'];

fn plan(fleet: &Fleet, title: &str, script: &str) -> String {
    // A name with such a character is refused.
    let name = title.replace(HIDDEN, "");
    let plan = json!({
        "project": "read",
        "goal": {"title": name, "problemStatement": title},
        "phases": [{"id": "P1", "name": name, "objective": title, "tasks": [
            {"id": "T1.1", "name": name, "task": title, "profile": "p", "acceptance": [title]},
        ]}],
        "profiles": {"p": {"argv": ["sh", "-c", script], "wall": "60s"}},
    });
    fleet.file("plan.json", &plan.to_string()).to_str().unwrap().to_owned()
}

/// Every command line that is proposed, as its words without the program's name.
fn proposed(text: &str) -> Vec<Vec<String>> {
    let lines = text.lines().filter_map(|line| Some(line.split_once("tetrarch ")?.1));
    lines
        .map(|line| {
            line.split_whitespace().map(|word| word.trim_matches('\'').to_owned()).collect()
        })
        .collect()
}

#[test]
fn commands_suggested_by_run_work_after_its_fleet_is_gone() {
    let fleet = Fleet::prepared();
    let data = fleet.data_dir();
    let file = plan(&fleet, "Say it", "seq 1 20000");
    let ended = fleet.run(["run", &file, "--data-dir", data.to_str().unwrap()]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let all = proposed(&ended.err);
    assert!(!all.is_empty(), "{}", ended.err);
    for words in all {
        assert!(words.contains(&"--data-dir".to_owned()), "{words:?}");
        let read = fleet.run(&words);
        assert_eq!(read.code, Some(0), "{words:?}\n{}", read.err);
        assert!(read.err.contains("the fleet is not running"), "{}", read.err);
    }
    let status = fleet.json(&["status"]);
    assert_eq!(status["owner"], Value::Null, "{status}");
    // Questions at once are answered one after another.
    let both = [fleet.spawn(["tree"]), fleet.spawn(["events"])];
    for question in both {
        assert_eq!(question.ended().code, Some(0));
    }
    // Nobody is there to decide.
    let asked = fleet.run(["goal", "create", &file]);
    assert_eq!(asked.code, Some(6), "{}", asked.err);
    assert_eq!(asked.err.matches("tetrarch up").count(), 1, "once: {}", asked.err);
}

#[test]
fn question_does_not_create_a_data_directory() {
    let fleet = Fleet::prepared();
    let nowhere = fleet.cwd().join("nowhere");
    let ended = fleet.run(["status", "--data-dir", nowhere.to_str().unwrap()]);
    assert_eq!(ended.code, Some(6), "{}", ended.err);
    let completed = format!("tetrarch up --data-dir {}", nowhere.display());
    assert!(ended.err.contains(&completed), "{}", ended.err);
    assert!(!nowhere.exists());
}

#[test]
fn control_characters_of_a_plan_are_visible_in_every_view() {
    let fleet = Fleet::prepared();
    let title = "red\x1b[31m left\u{202e} back\r c1\u{9b}";
    let file = plan(&fleet, title, "printf 'red\\033[31m back\\r'");
    let ended = fleet.run(["run", &file]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(!ended.err.contains(HIDDEN), "{:?}", ended.err);
    assert!(ended.out.contains('\x1b'), "programs get what was made: {:?}", ended.out);
    let goals = fleet.json(&["goal", "list", "--all"]);
    let goal = goals[0]["id"].as_str().unwrap().to_owned();
    let run = fleet.json(&["get", "runs"])[0]["id"].as_str().unwrap().to_owned();
    let views: [&[&str]; 17] = [
        &["status"],
        &["tree"],
        &["goal", "list", "--all"],
        &["get", "nodes", "--all"],
        &["get", "runs"],
        &["plan", "show", &goal],
        &["plan", "history", &goal],
        &["describe", &goal],
        &["why", &run],
        &["logs", &run],
        &["events"],
        &["work", "list", &goal],
        &["mail", "list", "--replies"],
        &["host", "list"],
        &["profile", "list"],
        &["budget"],
        &["replay", "--at", "9"],
    ];
    for view in views {
        for output in ["table", "wide", "json"] {
            let read = fleet.run(view.iter().copied().chain(["-o", output]));
            assert_eq!(read.code, Some(0), "{view:?} {}", read.err);
            assert!(!read.out.contains(HIDDEN) && !read.err.contains(HIDDEN), "{view:?} {output}");
            assert!(!read.out.contains("UnixMs"), "{view:?} {output}: moments as people read them");
        }
    }
}

#[test]
fn records_are_printed_with_numbers_and_times() {
    let fleet = Fleet::prepared();
    let file = plan(&fleet, "Say it", "echo 42");
    assert_eq!(fleet.run(["run", &file]).code, Some(0));
    let run = fleet.json(&["get", "runs"])[0].clone();
    let shown = fleet.json(&["describe", run["id"].as_str().unwrap()]);
    assert!(run["ledgerSeq"].is_u64() && run["epoch"].is_u64(), "{run}");
    assert!(run["created"].as_str().is_some_and(|at| at.ends_with('Z')), "{run}");
    let said = shown["runState"]["result"]["deliverable"].as_str().map(str::trim);
    assert_eq!(said, Some("42"), "a text stays one: {shown}");
}

#[test]
fn run_for_programs_ends_with_the_outcome() {
    let fleet = Fleet::prepared();
    let file = plan(&fleet, "Say it", "echo said");
    let ended = fleet.run(["run", &file, "-o", "json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let lines: Vec<Value> =
        ended.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["event"], "goal", "{}", ended.out);
    let moved = lines.iter().filter(|line| line["event"] == "node" && line["status"] == "done");
    assert!(moved.count() > 0, "{}", ended.out);
    let last = lines.last().unwrap();
    assert_eq!((&last["event"], &last["outcome"]), (&json!("end"), &json!("completed")));
    assert_eq!((&last["goal"], &last["exit"]), (&lines[0]["goal"], &json!(0)));
    assert!(last["result"]["deliverable"].as_str().unwrap().contains("said"), "{last}");
}
