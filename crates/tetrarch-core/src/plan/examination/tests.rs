//! Row by row: what is looked at, where it stands, and what is left alone.

use serde_json::{Value, json};

use super::*;
use crate::plan::schema::{parse_either, parse_profile};

/// A plan of two tasks with some fields, and a profile of each kind with some.
fn plan(tasks: [Value; 2], more: Value) -> Value {
    let task = |(index, fields): (usize, Value)| {
        let mut task = json!({"id": format!("T1.{}", index + 1), "name": "n", "acceptance": ["a"]});
        task.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        task
    };
    let tasks: Vec<Value> = tasks.into_iter().enumerate().map(task).collect();
    let mut program = json!({"argv": ["work"]});
    program.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({
        "title": "t", "phases": [{"id": "P1", "name": "p", "tasks": tasks}],
        "profiles": {
            "program": program,
            "model": {"runner": "llm", "model": "m", "provider": "openai", "keyFrom": "env:KEY"},
        },
    })
}

/// A profile of this name.
fn profile(name: &str) -> Profile {
    parse_profile(&json!({"name": name, "argv": ["work"]})).unwrap()
}

/// Everything that is found, as `path: problem`.
#[track_caller]
fn found(document: &Value, look: impl Fn(&Examination<'_>) -> Vec<PlanProblem>) -> Vec<String> {
    let plan = parse_either(document).unwrap();
    let problems = look(&Examination::new(document, &plan));
    assert!(problems.iter().all(|it| !it.allowed.is_empty()), "{problems:?}");
    problems.iter().map(|it| format!("{}: {}", it.path, it.problem)).collect()
}

#[test]
fn missing_profile_is_reported_where_it_is_named() {
    let both = [
        json!({"profile": "hand"}),
        json!({"review": {"domain": "d", "profile": "judge"}, "profile": "model"}),
    ];
    let document = plan(both, json!({}));
    assert_eq!(
        found(&document, |it| it.unknown_profiles(&[])),
        [
            "phases[0].tasks[0].profile: there is no profile \"hand\"",
            "phases[0].tasks[1].review.profile: there is no profile \"judge\"",
        ]
    );
    let known = ["hand", "judge"].map(profile);
    assert!(found(&document, |it| it.unknown_profiles(&known)).is_empty());
    let below = json!({"subtasks": [{"id": "S1.1.1", "name": "n", "acceptance": ["a"]}]});
    assert_eq!(
        found(&plan([below, json!({"run": ["work"]})], json!({})), |it| it.unknown_profiles(&[])),
        [
            "phases[0].tasks[0].subtasks[0].profile: names none and no command (`run`), and there is no profile \"default\""
        ]
    );
    assert_eq!(
        found(&json!({"goal": {"title": "t"}}), |it| it.unknown_profiles(&[])),
        ["plan.profile: names none and no command (`run`), and there is no profile \"default\""]
    );
}

#[test]
fn review_of_a_command_that_nobody_can_judge_is_reported() {
    let run = |review: Value| {
        plan([json!({"run": ["work"], "review": review}), json!({"profile": "model"})], json!({}))
    };
    for review in [json!(true), json!({"domain": "d"})] {
        let document = run(review);
        assert_eq!(
            found(&document, |it| it.unknown_profiles(&[])),
            ["phases[0].tasks[0].review: the task's command cannot review its own result"]
        );
        let known = [profile("orchestrator")];
        assert!(found(&document, |it| it.unknown_profiles(&known)).is_empty());
    }
    for review in
        [json!(false), json!({"run": "test -s it"}), json!({"domain": "d", "profile": "model"})]
    {
        assert!(found(&run(review), |it| it.unknown_profiles(&[])).is_empty());
    }
}

#[test]
fn suggested_profiles_are_those_the_file_can_name() {
    let document = plan([json!({"profile": "hand"}), json!({"run": ["work"]})], json!({}));
    let read = parse_either(&document).unwrap();
    let unknown = Examination::new(&document, &read).unknown_profiles(&[profile("site")]);
    assert_eq!(unknown[0].allowed, "model, program, site, a profile that `profiles:` describes");
}

#[test]
fn tool_nobody_has_is_reported() {
    let tools = ["read", "edit", "network"];
    for (profile, tool, problem) in [
        ("model", "read", None),
        ("model", "run:git", None),
        ("model", "mcp:issues", None),
        ("model", "mcp__issues", None),
        ("model", "shell", Some("\"shell\" is not a tool of models")),
        ("model", "run:", Some("has no program")),
        ("model", "raed", Some("unknown tool \"raed\"; did you mean read?")),
        // A program has tools of its own, but no other network.
        ("program", "shell", None),
        ("program", "netwrok", Some("unknown tool \"netwrok\"; did you mean network?")),
        // What another profile of the project executes is not known.
        ("elsewhere", "shell", None),
    ] {
        let task = json!({"profile": profile, "tools": ["edit", tool]});
        let document = plan([json!({"run": ["work"]}), task], json!({}));
        let expected = problem.map(|it| format!("phases[0].tasks[1].tools[1]: {it}"));
        let said = found(&document, |it| it.unknown_tools(&tools));
        assert_eq!(said, Vec::from_iter(expected), "{profile} {tool}");
    }
    let document = plan([json!({}), json!({})], json!({"tools": ["edti"]}));
    assert_eq!(
        found(&document, |it| it.unknown_tools(&tools)),
        ["profiles.program.tools[0]: unknown tool \"edti\"; did you mean edit?"]
    );
    let rules = json!({"permissions": [{"tool": "raed", "action": "ask"}]});
    let mut document = plan([json!({}), json!({})], json!({}));
    document["profiles"]["model"]["permissions"] = rules["permissions"].clone();
    assert_eq!(
        found(&document, |it| it.unknown_tools(&tools)),
        ["profiles.model.permissions[0].tool: unknown tool \"raed\"; did you mean read?"]
    );
}

#[test]
fn invalid_schema_is_reported_with_its_position() {
    for key in ["outputSchema", "output_schema"] {
        let document = plan([json!({}), json!({(key): {"type": "objekt"}})], json!({}));
        let fault = |text: &str| text.contains("objekt").then(|| "/type: what".to_owned());
        assert_eq!(
            found(&document, |it| it.bad_schemas(fault)),
            [format!("phases[0].tasks[1].{key}: is not a valid JSON Schema: /type: what")]
        );
        assert!(found(&document, |it| it.bad_schemas(|_| None)).is_empty());
    }
}

#[test]
fn program_is_looked_up_where_it_can_be() {
    for (task, argv, path) in [
        (json!({"profile": "program"}), "swep", Some("profiles.program.argv")),
        (json!({"profile": "model"}), "/opt/swep", Some("profiles.program.argv")),
        (json!({"profile": "program"}), "./swep", None),
        (json!({"profile": "program"}), "{goal}", None),
        (json!({"profile": "program", "placement": {"host": "far"}}), "swep", None),
        (json!({"run": ["swep"]}), "there", Some("phases[0].tasks[1].run")),
        (
            json!({"run": ["there"], "review": {"run": ["swep"]}}),
            "there",
            Some("phases[0].tasks[1].review.run"),
        ),
        (json!({"run": "swep the floor"}), "there", None),
    ] {
        let said = format!("{task} {argv}");
        let document = plan([json!({"profile": "model"}), task], json!({"argv": [argv]}));
        let there = |program: &str| ["there", "/bin/sh"].contains(&program);
        let found = found(&document, |it| it.missing_programs(there));
        let path = path.map(|path| format!("{path}: "));
        assert_eq!(found.len(), usize::from(path.is_some()), "{said}: {found:?}");
        assert!(found.iter().all(|it| it.starts_with(path.as_ref().unwrap())), "{said}: {found:?}");
        assert!(found.iter().all(|it| it.ends_with("was not found on this machine")), "{found:?}");
    }
}

#[test]
fn unset_variable_is_reported_where_it_is_named() {
    let document = plan([json!({}), json!({})], json!({"pass_env": ["SET", "UNSET"]}));
    assert_eq!(
        found(&document, |it| it.unset_variables(|name| name == "SET")),
        [
            "profiles.program.pass_env[1]: the variable UNSET is not set here",
            "profiles.model.keyFrom: the variable KEY is not set here",
        ]
    );
}

#[test]
fn what_a_server_of_tools_lacks_is_reported_where_it_is_named() {
    let servers = json!({
        "near": {"argv": ["/no/server"], "passEnv": ["SET", "UNSET"]},
        "far": {"url": "https://x/", "keyFrom": "env:KEY"},
    });
    let mut document = plan([json!({}), json!({})], json!({}));
    document["profiles"]["model"]["mcpServers"] = servers;
    let programs = found(&document, |it| it.missing_programs(|name| name != "/no/server"));
    let missing =
        "profiles.model.mcpServers.near.argv: \"/no/server\" was not found on this machine";
    assert_eq!(programs, [missing]);
    let unset = found(&document, |it| it.unset_variables(|name| name == "SET"));
    for place in ["near.passEnv[1]: the variable UNSET", "far.keyFrom: the variable KEY"] {
        let wanted = format!("profiles.model.mcpServers.{place} is not set here");
        assert!(unset.contains(&wanted), "{wanted}: {unset:?}");
    }
}

#[test]
fn bad_directory_is_reported_where_it_stands() {
    let works = |dir: &str| (dir != "/there").then(|| "is not there".to_owned());
    let writes = |dir: &str| (dir != "/out").then(|| "is closed".to_owned());
    let worked = "profiles.program.workspace: \"/away\" is not there";
    for (task, program, wanted) in [
        (json!({}), json!({"workspace": "/there", "writable": ["/out"]}), &[][..]),
        (json!({}), json!({"workspace": "made", "writable": ["/out"]}), &[]),
        (
            json!({}),
            json!({"workspace": "made", "worktree": "isolated", "writable": ["/out"]}),
            &[
                "profiles.program.workspace: \"made\" is a directory that the host makes, in no repository",
            ],
        ),
        (json!({}), json!({"workspace": "/there", "worktree": "isolated"}), &[]),
        (json!({}), json!({"workspace": "/work/{node}"}), &[]),
        (json!({}), json!({"workspace": "/away"}), &[worked]),
        (json!({"placement": {"host": "far"}}), json!({"workspace": "/away"}), &[]),
        (
            json!({}),
            json!({"writable": ["/out", "~/keys"]}),
            &["profiles.program.writable[1]: \"~/keys\" is closed"],
        ),
        (
            json!({"profile": null, "run": "make", "dir": "/away"}),
            json!({}),
            &["phases[0].tasks[1].dir: \"/away\" is not there"],
        ),
    ] {
        let said = format!("{task} {program}");
        let profile = json!({"profile": "program"});
        let mut second = profile.clone();
        second.as_object_mut().unwrap().extend(task.as_object().unwrap().clone());
        second.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        let first = if task.get("placement").is_some() { second.clone() } else { profile };
        let document = plan([first, second], program);
        assert_eq!(found(&document, |it| it.bad_directories(works, writes)), wanted, "{said}");
    }
}
