//! Tasks and reviewers that are commands, and the placeholders in a plan's texts.

use super::*;
use crate::brief::Worktree;

/// A plan of two tasks, the second after the first, with these fields besides.
fn two(first: &Value, second: &Value) -> Value {
    let mut plan = plan_of(&[leaf("T1.1"), leaf("T1.2")]);
    for (at, more) in [first, second].into_iter().enumerate() {
        for (key, value) in more.as_object().unwrap() {
            plan["phases"][0]["tasks"][at][key] = value.clone();
        }
    }
    plan
}

fn command_of(plan: &PlanFile) -> &Profile {
    let named = plan.nodes[1].profile.as_ref().unwrap();
    plan.profiles.iter().find(|profile| profile.name == *named).unwrap()
}

#[test]
fn command_is_one_shell_line_or_a_program_with_arguments() {
    for (run, argv) in [
        (json!("make test && echo $X"), vec!["/bin/sh", "-c", "make test && echo $X"]),
        (json!(["make", "{result:T1.1}"]), vec!["make", "{result:T1.1}"]),
    ] {
        let run = json!({"run": run, "dir": "/w", "worktree": "isolated", "acceptance": null});
        let plan = assert_read(&two(&json!({}), &json!({"deps": ["T1.1"]})));
        assert!(plan.profiles.is_empty());
        let mut value = two(&json!({}), &run);
        value["phases"][0]["tasks"][1]["deps"] = json!(["T1.1"]);
        let plan = assert_read(&value);
        let node = &plan.nodes[2];
        let profile = plan.profiles.iter().find(|one| Some(&one.name) == node.profile.as_ref());
        let profile = profile.unwrap();
        assert_eq!(profile.argv, argv);
        assert_eq!(
            (profile.workspace.as_str(), profile.worktree),
            ("/w", Some(Worktree::Isolated))
        );
        assert_eq!(node.acceptance, ["the command exits with 0"]);
    }
}

#[test]
fn equal_commands_share_one_profile() {
    let run = json!({"run": "make"});
    let plan = assert_read(&two(&run, &run));
    assert_eq!((plan.profiles.len(), &plan.nodes[1].profile), (1, &plan.nodes[2].profile));
    let plan = assert_read(&two(&run, &json!({"run": "make", "dir": "/other"})));
    assert_eq!(plan.profiles.len(), 2);
}

#[test]
fn invalid_command_is_reported() {
    let at = |key: &str| format!("phases[0].tasks[0].{key}");
    for (fields, key, text) in [
        (json!({"run": 1}), "run", "is 1"),
        (json!({"run": ""}), "run", "is an empty text"),
        (json!({"run": []}), "run", "is empty"),
        (json!({"run": "make", "profile": "p"}), "profile", "stands beside `run`"),
        (json!({"dir": "x"}), "dir", "stands beside no `run`"),
        (json!({"worktree": "none"}), "worktree", "stands beside no `run`"),
        (json!({"run": "make", "worktree": "yes"}), "worktree", "is \"yes\""),
        (json!({"run": "echo {goal}"}), "run", "has {goal} in a shell line"),
        (json!({"run": "echo $TETRARCH_RESULT_T1_2"}), "run", "T1.1 does not depend on T1.2"),
        (json!({"run": "echo $TETRARCH_RESULT_X"}), "run", "is the result of no node"),
        (json!({"review": {}}), "review.domain", "is missing"),
        (json!({"review": {"run": "x", "profile": "p"}}), "review.profile", "stands beside `run`"),
    ] {
        assert_refused(&two(&fields, &json!({})), &at(key), text);
    }
    let result = json!({"deps": ["T1.1"], "run": "echo {result:T1.1}"});
    let path = "phases[0].tasks[1].run";
    assert_refused(&two(&json!({}), &result), path, "has {result:T1.1} in a shell line");
}

#[test]
fn review_command_judges_by_its_exit_code() {
    let plan = assert_read(&plan_with(json!({"run": "a", "review": {"run": "b"}})));
    let review = plan.nodes[1].review.clone().unwrap();
    let judge =
        plan.profiles.iter().find(|one| Some(&one.name) == review.profile.as_ref()).unwrap();
    let verdict = ("TETRARCH_VERDICT".to_owned(), "exit".to_owned());
    assert!(judge.env.contains(&verdict) && !command_of(&plan).env.contains(&verdict));
    let mut value = plan_with(json!({}));
    value["profiles"] = json!({"judge": {"argv": ["x"], "verdict": "exit"}});
    assert_eq!(assert_read(&value).profiles[0].env, [verdict]);
    value["profiles"]["judge"]["verdict"] = json!("yes");
    assert_refused(&value, "profiles.judge.verdict", "is \"yes\"");
}

#[test]
fn result_variables_hold_what_the_line_names() {
    let run = json!({"deps": ["T1.1"], "run": "echo \"$TETRARCH_RESULT_T1_1\""});
    let plan = assert_read(&two(&json!({}), &run));
    let value = ("TETRARCH_RESULT_T1_1".to_owned(), "{result:T1.1}".to_owned());
    assert!(plan.profiles[0].env.contains(&value), "{:?}", plan.profiles[0].env);
}

#[test]
fn results_come_from_nodes_done_by_then() {
    let text = |text: &str| json!({"task": text, "deps": ["T1.1"]});
    assert_read(&two(&json!({}), &text("{result:T1.1} {goal} {node} {a} ${goal}")));
    for (value, path, what) in [
        (two(&json!({}), &text("{result:T9.9}")), "phases[0].tasks[1].task", "has no result"),
        (two(&json!({}), &text("{result:P1}")), "phases[0].tasks[1].task", "has no result"),
        (two(&json!({}), &text("{result:T1}")), "phases[0].tasks[1].task", "unknown placeholder"),
        (two(&json!({}), &text("{plandir}")), "phases[0].tasks[1].task", "unknown placeholder"),
        (
            two(&json!({"keyFacts": ["{result:T1.2}"]}), &json!({})),
            "phases[0].tasks[0].keyFacts[0]",
            "T1.1 does not depend on T1.2",
        ),
    ] {
        assert_refused(&value, path, what);
    }
    let mut outside = plan_with(json!({}));
    outside["profiles"] = json!({"p": {"argv": ["x", "{result:T1.1}"]}});
    assert_refused(&outside, "profiles.p.argv[1]", "stands outside of a task");
}
