//! What keeps work from starting, as people meet it (spec 08): it is said at once, and the command lines
//! that are said beside it help when they are typed.

use serde_json::{Value, json};
use tetrarch_tests::{Ended, Fleet, Program, wait};

/// One task by a profile that is given, with more fields.
fn plan(fleet: &Fleet, project: &str, argv: Value, more: Value) -> String {
    let mut task = json!({"id": "T1.1", "name": "say it", "profile": "p", "acceptance": ["said"]});
    task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let plan = json!({
        "project": project,
        "goal": {"title": "Say something"},
        "phases": [{"id": "P1", "name": "Say", "tasks": [task]}],
        "profiles": {"p": {"argv": argv, "wall": "60s"}},
    });
    fleet.file(&format!("{project}.json"), &plan.to_string()).to_str().unwrap().to_owned()
}

/// The words of a line that proposes this command, without the program's name.
fn proposed(text: &str, command: &str) -> Vec<String> {
    let line = text.lines().find_map(|line| {
        let at = line.find(&format!("tetrarch {command}"))?;
        Some(line[at..].trim_end().to_owned())
    });
    let line = line.unwrap_or_else(|| panic!("no `tetrarch {command}` in:\n{text}"));
    line.split(' ').skip(1).map(|word| word.trim_matches('\'').to_owned()).collect()
}

/// Types a proposed command; `file` stands for the word that is to be filled in.
fn typed(fleet: &Fleet, text: &str, command: &str, file: &str) -> String {
    let words = proposed(text, command);
    fleet.ok(words.iter().map(|word| if word == "FILE" { file } else { word }))
}

fn failed(ended: &Ended) {
    assert_eq!(ended.code, Some(1), "{}{}", ended.out, ended.err);
}

fn obstacles(value: &Value) -> Vec<(String, String)> {
    let text = |it: &Value, name: &str| it[name].as_str().unwrap_or_default().to_owned();
    let all = value.as_array().unwrap().iter();
    all.map(|it| (text(it, "kind"), text(it, "command"))).collect()
}

fn completed(fleet: &Fleet, goals: usize) {
    wait::until("the goals are reached", || {
        let all = fleet.json(&["goal", "list"]);
        let reached = |goal: &&Value| goal["state"]["status"] == json!("completed");
        let count = all.as_array().unwrap().iter().filter(reached).count();
        (count == goals).then_some(())
    });
}

#[test]
fn profile_typo_opens_a_circuit_and_the_printed_remedy_fixes_it() {
    let fleet = Fleet::up();
    let file = plan(&fleet, "typo", json!(["pythn3"]), json!({}));
    let first = fleet.run(["run", &file]);
    failed(&first);
    assert!(typed(&fleet, &first.err, "logs", "").contains("pythn3"), "the log says what it was");
    let second = fleet.run(["run", &file]);
    failed(&second);
    assert!(second.err.contains("the circuit of PO-typo is open"), "{}", second.err);

    // Nothing was tried for the third goal; it is said what it waits for, and whose failure it was.
    let third = fleet.run(["run", &file]);
    failed(&third);
    let said = ["circuit open", "holds up 1", "pythn3", "next: tetrarch circuit close PO-typo"];
    assert!(said.iter().all(|word| third.err.contains(word)), "{}", third.err);
    let mut waiting = fleet.spawn(["run", "--wait", &file]);
    let line = waiting.line(|line| line.contains("next: tetrarch circuit close"));
    let close = "tetrarch circuit close PO-typo".to_owned();
    let inbox = obstacles(&fleet.json(&["inbox"]));
    assert_eq!(inbox[0], ("circuit_open".to_owned(), close.clone()), "it holds up most: {inbox:?}");
    let status = fleet.json(&["status"]);
    assert!(obstacles(&status["obstacles"]).contains(&inbox[0]), "{status}");
    let doctor = fleet.run(["doctor"]).out;
    assert!(doctor.contains(&close), "{doctor}");

    let mended = fleet.file("p.toml", "name = 'p'\nargv = ['echo', 'said']\n");
    typed(&fleet, &first.err, "profile apply", mended.to_str().unwrap());
    typed(&fleet, &line, "circuit close", "");
    // What waited goes on by itself, what had failed when it is put back.
    assert_eq!(waiting.ended().code, Some(0));
    completed(&fleet, 2);
    for ended in [&first, &second] {
        typed(&fleet, &ended.err, "work unblock", "");
    }
    completed(&fleet, 4);
    assert_eq!(fleet.json(&["inbox"]), json!([]));
    assert_eq!(fleet.json(&["status"])["obstacles"], json!([]));
}

#[test]
fn work_for_a_missing_host_ends_the_wait_and_starts_with_the_host() {
    let fleet = Fleet::up();
    let placed = json!({"placement": {"labels": {"gpu": "yes"}}});
    let file = plan(&fleet, "placed", json!(["echo", "said"]), placed);
    let ended = fleet.run(["run", &file]);
    failed(&ended);
    assert!(ended.err.contains("no running host is labelled gpu=yes"), "{}", ended.err);
    let goals = fleet.json(&["goal", "list"]);
    let epic = goals[0]["id"].as_str().unwrap().to_owned();
    let shown = fleet.json(&["plan", "show", &epic]);
    assert_eq!(obstacles(&shown["obstacles"])[0].0, "no_host_fits", "{shown}");
    let node = shown["nodes"].as_array().unwrap().iter().find(|it| it["status"] == "queued");
    assert!(node.is_some(), "{shown}");

    let words = proposed(&ended.err, "host");
    let mut host: Program = fleet.spawn(words);
    host.line(|line| line.trim() == "ready");
    completed(&fleet, 1);
}

#[test]
fn paused_goal_is_reported_and_resumed_by_the_printed_command() {
    let fleet = Fleet::up();
    let gate = fleet.cwd().join("gate");
    let until = format!("until [ -e '{}' ]; do sleep 0.1; done", gate.display());
    let file = plan(&fleet, "paused", json!(["sh", "-c", until]), json!({}));
    let mut running = fleet.spawn(["run", &file]);
    running.line(|line| line.contains("T1.1") && line.contains("in_progress"));
    let goals = fleet.json(&["goal", "list"]);
    let epic = goals[0]["id"].as_str().unwrap().to_owned();
    fleet.ok(["goal", "pause", &epic]);
    let line = running.line(|line| line.contains("next: tetrarch goal resume"));
    let paused = obstacles(&fleet.json(&["inbox"]));
    assert!(paused.contains(&("goal_paused".to_owned(), format!("tetrarch goal resume {epic}"))));
    typed(&fleet, &line, "goal resume", "");
    running.line(|line| line.contains("gone") && line.contains("goal paused"));
    std::fs::write(gate, "").unwrap();
    assert_eq!(running.ended().code, Some(0));
}

#[test]
fn reloaded_configuration_lets_work_begin_and_a_wrong_one_changes_nothing() {
    let mut fleet = Fleet::prepared();
    let dir = fleet.cwd().join("../home/.config/tetrarch");
    std::fs::create_dir_all(&dir).unwrap();
    let configure = |children: &str| {
        let text = format!("[limits]\nmax_children = {children}\n");
        std::fs::write(dir.join("config.toml"), text).unwrap();
    };
    configure("1");
    fleet.start();
    let begin = |project: &str| {
        let task = |id: &str| json!({"id": id, "name": "wait", "run": "sleep 600"});
        let plan = json!({
            "project": project,
            "goal": {"title": "Wait"},
            "phases": [{"id": "P1", "name": "Wait", "tasks": [task("T1.1"), task("T1.2")]}],
        });
        let file = fleet.file("pair.json", &plan.to_string());
        fleet.ok(["goal", "create", file.to_str().unwrap()]).trim().to_owned()
    };
    let reached = |epic: &str, wanted: [&str; 2]| {
        wait::until("the work of the children there may be", || {
            let nodes = fleet.json(&["get", "nodes", "--epic", epic]);
            let nodes = nodes.as_array().unwrap().iter();
            let of = nodes.filter(|it| it["node"]["id"] != "P1").map(|it| it["status"].clone());
            (of.collect::<Vec<_>>() == wanted).then_some(())
        });
    };
    reached(&begin("narrow"), ["in_progress", "queued"]);
    configure("'many'");
    assert_eq!(fleet.run(["config", "reload"]).code, Some(2));
    configure("3");
    let said = fleet.ok(["config", "reload"]);
    assert!(said.contains("reads its configuration again"), "{said}");
    let explained = fleet.json(&["config", "explain", "limits"]);
    let change = |key: &str| {
        let all = explained.as_array().unwrap().iter();
        all.clone().find(|it| it["key"] == json!(key)).unwrap()["change"].clone()
    };
    assert_eq!(change("limits.max_children"), json!("live"));
    assert_eq!(change("limits.max_depth"), json!("restart"));
    reached(&begin("wide"), ["in_progress", "in_progress"]);
}
