//! Work that no profile can do: refused before anything is started, with what helps (docs/decisions/0060).

use std::fs;

use tetrarch_tests::{Ended, Fleet};

const GOAL: &str = "Find out why the build is slow";

fn refused(ended: &Ended, said: &[&str]) {
    assert_eq!((ended.code, &*ended.out), (Some(2), ""), "{}", ended.err);
    for said in said {
        assert!(ended.err.contains(said), "{said:?}: {}", ended.err);
    }
}

#[test]
fn goal_without_a_profile_is_refused_before_anything_starts() {
    let fleet = Fleet::prepared();
    let ended = fleet.run(["run", "--goal", GOAL]);
    refused(&ended, &["T1.1 needs the profile \"default\"", "next: ", "--profiles profiles.yaml"]);
    let left: Vec<_> = fs::read_dir(fleet.data_dir()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");

    let plan = "goal: {title: x}\nphases: [{id: P1, name: x, tasks: [\n\
                {id: T1.1, name: x, acceptance: [x]}, {id: T1.2, name: y, profile: coder, acceptance: [x]}]}]\n";
    let plan = fleet.file("plan.yaml", plan);
    let ended = fleet.run(["run", plan.to_str().unwrap()]);
    refused(&ended, &["T1.1 needs the profile \"default\"", "T1.2 needs the profile \"coder\""]);
    assert_eq!(fs::read_dir(fleet.data_dir()).unwrap().count(), 0);

    // What the hint says, done.
    fleet.file("profiles.yaml", "default: {argv: [sh, -c, echo it was the linker]}\n");
    let ended = fleet.run(["run", "--goal", GOAL, "--profiles", "profiles.yaml"]);
    assert_eq!((ended.code, ended.out.trim()), (Some(0), "it was the linker"), "{}", ended.err);
}

#[test]
fn running_fleet_refuses_goal_without_profile_and_keeps_no_project() {
    let fleet = Fleet::up();
    let file = fleet.file("profiles.yaml", "profiles: {default: {argv: ['true']}}\n");
    let file = file.to_str().unwrap();
    let commands: [&[&str]; 3] = [
        &["run", "--goal", GOAL],
        &["goal", "create", "--title", GOAL],
        &["schedule", "create", "--every", "1h", "--title", GOAL],
    ];
    for command in commands {
        refused(&fleet.run(command), &["T1.1 needs the profile \"default\"", "next: "]);
    }
    let left = fleet.json(&["get", "agents"]).to_string();
    assert!(!left.contains("PO-main"), "{left}");
    for command in commands {
        let ended = fleet.run([command, &["--profiles", file]].concat());
        assert_eq!(ended.code, Some(0), "{command:?}: {}", ended.err);
    }
    // The project has it now.
    fleet.ok(["goal", "create", "--title", GOAL]);
}

#[test]
fn second_plan_of_a_project_may_use_more_tools() {
    let fleet = Fleet::up();
    for (name, tools) in [("one", "[]"), ("two", "[broom]"), ("two", "[broom, mop]")] {
        let profiles = format!("{{{name}: {{argv: [echo, done], tools: {tools}}}}}");
        let plan = plan(&format!("profile: {name}"), &profiles);
        let file = fleet.file("plan.yaml", &plan);
        let ended = fleet.run(["run", file.to_str().unwrap(), "--project", "house"]);
        assert!(ended.code == Some(0) && ended.out.contains("done"), "{tools}: {}", ended.err);
    }
}

/// A plan of one task.
fn plan(task: &str, profiles: &str) -> String {
    format!(
        "title: Sweep\nphases:\n  - id: P1\n    name: Sweep\n    tasks:\n      - \
         {{id: T1.1, name: Sweep, acceptance: [x], {task}}}\nprofiles: {profiles}\n"
    )
}

#[test]
fn check_counts_the_profiles_of_the_named_project() {
    let fleet = Fleet::up();
    fleet.file("plan.yaml", &plan("profile: hands", "{}"));
    let refuses = |options: &[&str]| {
        let ended = fleet.run([&["plan", "check", "plan.yaml"][..], options].concat());
        refused(
            &ended,
            &["plan.yaml:6:50: phases[0].tasks[0].profile: there is no profile \"hands\""],
        );
        ended.err
    };
    assert!(refuses(&[]).contains("`tetrarch plan check plan.yaml --project main"));
    fleet.ok(["project", "create", "site"]);
    fleet.ok(["project", "create", "another"]);
    assert!(!refuses(&["--project", "site"]).contains("--project"));
    fleet.file("hands.yaml", "{name: hands, argv: ['true']}\n");
    fleet.ok(["profile", "apply", "site", "hands.yaml"]);
    let check = ["plan", "check", "plan.yaml", "--project", "site"];
    assert!(fleet.ok(check).contains("plan.yaml: valid"));
    assert_eq!(fleet.json(&check)["valid"], true);
    refuses(&["--project", "another"]);
    let wrong = fleet.run(["plan", "check", "plan.yaml", "-o", "json"]);
    assert_eq!(
        (wrong.code, wrong.out.contains("\"valid\":false")),
        (Some(2), true),
        "{}",
        wrong.out
    );
    // The data directory is enough.
    fleet.ok(["down"]);
    assert!(fleet.ok(check).contains("plan.yaml: valid"));
}

#[test]
fn missing_programs_of_this_machine_are_reported_before_a_start() {
    let lacking = plan("run: [swep-the-floor]", "{p: {argv: [cat], passEnv: [NO_SUCH_BROOM]}}");
    let faults =
        ["plan.yaml:6:50: phases[0].tasks[0].run: \"swep-the-floor\" was not found", "next: "];
    let unset =
        "warning: plan.yaml:7:39: profiles.p.passEnv[0]: the variable NO_SUCH_BROOM is not set";
    let fleet = Fleet::prepared();
    fleet.file("plan.yaml", &lacking);
    refused(&fleet.run(["run", "plan.yaml"]), &faults);
    assert_eq!(fs::read_dir(fleet.data_dir()).unwrap().count(), 0);
    // Profiles of another file stand there, whatever its form.
    for (text, place) in [
        ("default: {argv: [swep]}", "1:11: profiles.default.argv"),
        ("profiles:\n  default: {argv: [swep]}", "2:13: profiles.default.argv"),
        ("name: default\nargv: [swep]", "2:1: profiles.default.argv"),
        ("default: {argv: [cat], wall: soon}", "1:24: profiles.default.wall"),
    ] {
        fleet.file("more.yaml", text);
        let ended = fleet.run(["run", "--goal", GOAL, "--profiles", "more.yaml"]);
        refused(&ended, &[&format!("\nmore.yaml:{place}: ")]);
    }
    // Here is no swep-the-floor, which is for another machine to have.
    fleet.file(
        "elsewhere.yaml",
        &lacking.replace("acceptance", "placement: {host: far}, acceptance"),
    );
    let ended = fleet.run(["plan", "check", "elsewhere.yaml"]);
    assert_eq!((ended.code, ended.out.contains("valid")), (Some(0), true), "{}", ended.err);
    assert!(ended.err.contains(&unset.replace("plan", "elsewhere")), "{}", ended.err);

    // A fleet that is up may find it on another host.
    let fleet = Fleet::up();
    fleet.file("plan.yaml", &lacking);
    let ended = fleet.run(["goal", "create", "plan.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    for said in [&format!("warning: {}", faults[0]), unset] {
        assert!(ended.err.contains(said), "{said:?}: {}", ended.err);
    }
}
