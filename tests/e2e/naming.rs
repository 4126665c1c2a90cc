//! Names as people type them: beginnings and ends of ids, `@last`, a project, `T1.1`; what is lost only
//! with `--yes`; waiting, detaching, attaching; stopping what is up.

use rustix::process::{Pid, Signal, kill_process};
use tetrarch_tests::{Fleet, Program, wait};

use crate::acting;

/// A plan of one task whose program waits until a file is there.
fn gated(fleet: &Fleet, project: &str, gate: &str) -> String {
    let argv = serde_json::json!(acting(&["gate", fleet.cwd().join(gate).to_str().unwrap()]));
    let plan = format!(
        "goal: {{title: Open {gate}}}\nproject: {project}\nphases:\n  - id: P1\n    name: One\n    tasks:\n      \
         - {{id: T1.1, name: wait, profile: gate, acceptance: [x]}}\nprofiles:\n  gate: {{argv: {argv}, wall: 120s}}\n"
    );
    fleet.file(&format!("{gate}.yaml"), &plan).to_str().unwrap().to_owned()
}

/// What a command says on standard error, which ends with this code.
#[track_caller]
fn refused(fleet: &Fleet, args: &[&str], code: i32) -> String {
    let ended = fleet.run(args);
    assert_eq!(ended.code, Some(code), "{args:?}\n{}{}", ended.out, ended.err);
    ended.err
}

#[test]
fn goal_and_node_are_found_by_typed_short_names() {
    let fleet = Fleet::up();
    let plan = gated(&fleet, "site", "first");
    let detached = fleet.run(["run", &plan, "--detach"]);
    assert_eq!(detached.code, Some(0), "{}", detached.err);
    let goal = detached.out.trim().to_owned();
    assert!(detached.err.contains(&format!("tetrarch attach {goal}")), "{}", detached.err);
    let end = goal[goal.len() - 5..].to_ascii_lowercase();
    for name in ["@last", "site", "PO-site", &goal[..20], &goal.to_ascii_lowercase()[5..], &end] {
        let shown = fleet.json(&["goal", "show", name]);
        assert_eq!(shown["goal"]["id"], goal.as_str(), "{name}");
    }
    fleet.ok(["wait", "T1.1", "--for", "in_progress", "--timeout", "30s"]);
    for place in
        [vec!["T1.1"], vec!["t1.1"], vec!["@last/T1.1"], vec!["site", "T1.1"], vec![&goal, "T1.1"]]
    {
        let args: Vec<&str> = ["work", "show"].into_iter().chain(place.iter().copied()).collect();
        let shown = fleet.json(&args);
        assert_eq!(shown["node"]["node"]["id"], "T1.1", "{place:?}");
    }
    let logs = fleet.ok(["logs", "T1.1"]);
    assert!(logs.contains("starting"), "{logs}");
    let agent = fleet.json(&["agent", "list", "--project", "site"]);
    assert!(agent.as_array().unwrap().len() > 1, "{agent}");
    fleet.ok(["describe", "W:"]);
    fleet.ok(["steer", "site/T1.1", "go on", "--wait", "none"]);
    for name in ["@last", &goal] {
        let other = refused(&fleet, &["stop", name], 3);
        assert!(other.contains("is a goal: `tetrarch goal pause"), "{other}");
    }
    let idle = refused(&fleet, &["pause", "@last/P1"], 3);
    assert!(idle.contains("no agent works on"), "{idle}");

    let second = gated(&fleet, "docs", "second");
    fleet.ok(["run", &second, "--detach"]);
    let several = refused(&fleet, &["work", "show", "T1.1"], 2);
    assert!(several.contains("Open first") && several.contains("Open second"), "{several}");
    let ambiguous = refused(&fleet, &["goal", "show", "goal_"], 2);
    assert!(ambiguous.contains("Open first") && ambiguous.contains("Open second"), "{ambiguous}");
    let missing = refused(&fleet, &["goal", "show", "nowhere"], 3);
    assert!(missing.contains("Open first") && missing.contains("tetrarch goal list"), "{missing}");

    for lost in [
        ["agent", "retire", "PO-nowhere"],
        ["host", "drain", "nowhere"],
        ["host", "forget", "nowhere"],
    ] {
        let missing = refused(&fleet, &lost, 3);
        assert!(missing.contains("nowhere was not found"), "{lost:?}: {missing}");
    }
    let sure = refused(&fleet, &["goal", "cancel", "site"], 2);
    assert!(sure.contains("--yes"), "{sure}");
    fleet.ok(["goal", "cancel", "site", "--yes"]);
    fleet.ok(["wait", &goal, "--for", "cancelled", "--timeout", "30s"]);
    let never = refused(&fleet, &["wait", &goal, "--for", "completed"], 1);
    assert!(never.contains("cannot become completed"), "{never}");
}

#[test]
fn detached_goal_is_followed_to_its_end() {
    let fleet = Fleet::up();
    let plan = gated(&fleet, "site", "gate");
    fleet.ok(["run", &plan, "--detach"]);
    let first = fleet.json(&["goal", "list"])[0]["id"].as_str().unwrap().to_owned();
    fleet.ok(["run", &plan, "--detach"]);
    let late = refused(&fleet, &["wait", "@last", "--for", "completed", "--timeout", "100ms"], 1);
    assert!(late.contains("within 100ms"), "{late}");
    let mut attached = fleet.spawn(["attach", "@last"]);
    attached.line(|line| line.contains("T1.1"));
    std::fs::File::create(fleet.cwd().join("gate")).unwrap();
    let ended = attached.ended();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(ended.err.starts_with("goal_"), "{}", ended.err);
    let other = format!("also open in this project: {first}");
    assert!(ended.err.contains(&other), "{other}: {}", ended.err);
    fleet.ok(["wait", "@last", "--for", "completed", "--timeout", "10s"]);
}

#[test]
fn down_stops_the_fleet_and_reports_when_none_runs() {
    let fleet = Fleet::up();
    let said = fleet.ok(["down"]);
    assert!(said.starts_with("stopped"), "{said}");
    assert!(fleet.processes().is_empty());
    let said = fleet.ok(["down"]);
    assert!(said.starts_with("nothing is running"), "{said}");
    let plan = gated(&fleet, "site", "gate");
    let ended = refused(&fleet, &["run", &plan, "--detach"], 6);
    assert!(ended.contains("tetrarch up"), "{ended}");
}

#[test]
fn down_stops_the_server_that_a_killed_up_left() {
    let fleet = Fleet::up();
    let all = fleet.processes();
    let up = all.iter().find(|it| it.command.contains(" up ")).unwrap();
    kill_process(Pid::from_raw(i32::try_from(up.pid).unwrap()).unwrap(), Signal::KILL).unwrap();
    let left =
        || fleet.processes().iter().all(|it| it.command.contains("nats-server")).then_some(());
    wait::until("only the server is left", left);
    let said = fleet.ok(["down"]);
    assert!(said.starts_with("stopped the nats-server"), "{said}");
    assert!(fleet.processes().is_empty());
}

#[test]
fn lists_show_archived_goals_only_when_asked() {
    let fleet = Fleet::up();
    let plan = gated(&fleet, "site", "gate");
    std::fs::File::create(fleet.cwd().join("gate")).unwrap();
    let ended = fleet.run(["run", &plan]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(ended.err.contains("Note     T1.1: nobody checked the acceptance"), "{}", ended.err);
    assert_eq!(fleet.json(&["project", "list"])[0]["name"], "site");
    assert_eq!(fleet.json(&["host", "list"])[0]["name"], "h1");
    let profiles = fleet.ok(["profile", "list", "site"]);
    assert!(profiles.contains("gate"), "{profiles}");
    let shown = fleet.ok(["profile", "show", "site", "gate"]);
    assert!(shown.contains("process"), "{shown}");
    fleet.ok(["artifact", "list", "--goal", "@last"]);
    fleet.ok(["wait", "@last", "--for", "completed", "--timeout", "10s"]);
    fleet.ok(["goal", "archive", "@last"]);
    fleet.ok(["wait", "@last", "--for", "archived", "--timeout", "10s"]);
    assert_eq!(fleet.json(&["goal", "list"]), serde_json::json!([]));
    assert_eq!(fleet.json(&["goal", "list", "--all"]).as_array().unwrap().len(), 1);
}

#[test]
fn command_word_of_another_tool_gets_a_suggestion() {
    let fleet = Fleet::prepared();
    let said = refused(&fleet, &["cancel"], 2);
    assert!(said.contains("tetrarch goal cancel GOAL"), "{said}");
    assert!(said.contains("tetrarch stop AGENT") && !said.contains("change"), "{said}");
    let said = refused(&fleet, &["ps"], 2);
    assert!(said.contains("tetrarch tree"), "{said}");
    let help = fleet.ok(["--help"]);
    for group in ["Run:", "Goals and plans:", "Agents:", "People:", "Look:", "Operate:"] {
        assert!(help.contains(group), "{group} in\n{help}");
    }
}

#[test]
fn shell_completion_offers_existing_names() {
    let fleet = Fleet::up();
    let lines = fleet.ok(["completion", "bash"]);
    assert!(lines.contains("complete"), "{lines}");
    fleet.ok(["project", "create", "site"]);
    // A machine that is busy may have nothing to offer in the time that a shell waits.
    wait::until("the project's name is offered", || {
        let mut asking = fleet.command(["--", "tetrarch", "project", "mode", "si"]);
        asking.env("TETRARCH_COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", "3");
        asking.env("_CLAP_COMPLETE_COMP_TYPE", "9").env("_CLAP_IFS", "\n");
        (Program::start(&mut asking).ended().out.trim() == "site").then_some(())
    });
    let pages = fleet.cwd().join("man");
    fleet.ok(["man", pages.to_str().unwrap()]);
    assert!(pages.join("tetrarch-goal-create.1").is_file());
}
