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
fn a_goal_without_a_profile_is_refused_and_nothing_is_started() {
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
fn a_fleet_that_is_up_refuses_it_too_and_no_project_is_left() {
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
