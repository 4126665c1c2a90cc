//! Which uses of tools are allowed, refused and put to people, and what a next session is told of them.

use super::*;

#[test]
fn tool_is_answered_by_the_list_of_the_brief() {
    for (list, tool, input, allowed) in [
        (&["read"][..], "Read", json!({"file_path": "a"}), true),
        (&["run"], "Bash", json!({"command": "a | b"}), true),
        (&["run:git"], "Bash", json!({"command": "git log"}), true),
        (&["run:git"], "Bash", json!({"command": "git log | sh"}), false),
        (&["run"], "Bash", json!({}), false),
        (&["write"], "Write", json!({"file_path": "a"}), true),
        (&["read"], "Write", json!({"file_path": "a"}), false),
        (&["*"], "Task", json!({"prompt": "a"}), false),
        (&[], "StructuredOutput", json!({"n": 1}), true),
        (&[], "Read", Value::Null, false),
    ] {
        let output = hear(&mut session(list), &asks(tool, input.clone()));
        let [answer] = &lines(&output)[..] else { panic!("{output:?}") };
        let answer = &answer["response"];
        assert_eq!((&answer["subtype"], &answer["request_id"]), (&json!("success"), &json!("r1")));
        let answer = &answer["response"];
        if allowed {
            assert_eq!(
                answer,
                &json!({"behavior": "allow", "updatedInput": input}),
                "{list:?} {tool}"
            );
        } else {
            assert_eq!(answer["behavior"], "deny", "{list:?} {tool}");
            assert!(output.note.unwrap().contains(tool), "{list:?} {tool}");
        }
    }
    let other = json!({"type": "control_request", "request_id": "r1", "request": {"subtype": "hook_callback"}});
    let answered = &lines(&hear(&mut session(&["*"]), &other))[0]["response"];
    assert_eq!(answered["subtype"], "error");
}

#[test]
fn rule_on_arguments_denies_or_puts_to_people() {
    let rule = |tool: &str, words: &[&str], action| PermissionRule {
        tool: tool.to_owned(),
        words: words.iter().map(|word| (*word).to_owned()).collect(),
        action,
    };
    let rules = vec![
        rule("run", &["git", "push"], PermissionAction::Deny),
        rule("run", &["rm"], PermissionAction::Ask),
        rule("read", &["keys"], PermissionAction::Deny),
        rule("list", &["keys"], PermissionAction::Deny),
        rule("write", &["**/*.lock"], PermissionAction::Ask),
    ];
    let command = |text: &str| json!({"command": text});
    for (tool, input, expected) in [
        ("Bash", command("ls && git log"), "allow"),
        ("Bash", command("ls && git push origin"), "deny"),
        ("Bash", command("git log > a"), "deny"),
        ("Bash", command("cd a; rm -r b"), "ask"),
        ("Read", json!({"file_path": "/w/src/a"}), "allow"),
        ("Read", json!({"file_path": "/w/src/../keys/a"}), "deny"),
        ("Glob", json!({"pattern": "keys/*"}), "deny"),
        ("Glob", json!({"pattern": "src/*", "path": "/w"}), "allow"),
        ("Write", json!({"file_path": "Cargo.lock"}), "ask"),
        ("Write", json!({"file_path": "Cargo.toml"}), "allow"),
    ] {
        let mut it = session(&["run", "read", "list", "write"]);
        it.brief.permissions = Permissions::of(&[PermissionList { rules: rules.clone() }]);
        let output = hear(&mut it, &asks(tool, input.clone()));
        if expected == "ask" {
            let [ProgramEvent::Plain(RunnerEvent::Ask { id: Some(id), question, .. })] =
                &output.events[..]
            else {
                panic!("{tool} {input}: {output:?}")
            };
            assert!(question.contains("[rule: ask "), "{question}");
            let refused = it.answered(*id, Ok("no".to_owned())).unwrap();
            let behavior = &lines(&refused)[0]["response"]["response"]["behavior"];
            assert_eq!(behavior, "deny");
        } else {
            let behavior = &lines(&output)[0]["response"]["response"]["behavior"];
            assert_eq!(behavior, expected, "{tool} {input}");
        }
    }
    // What the list does not cover is denied too, and not put to people, where a rule denies it.
    let mut it = session(&["ask_human"]);
    it.brief.permissions = Permissions::of(&[PermissionList { rules }]);
    let denied = hear(&mut it, &asks("Bash", command("git push")));
    assert_eq!(lines(&denied)[0]["response"]["response"]["behavior"], "deny");
}

#[test]
fn allowed_uses_are_in_the_checkpoint_until_the_model_has_their_results() {
    let using = |output: &AgentOutput| {
        output.events.iter().find_map(|event| {
            let ProgramEvent::Plain(RunnerEvent::Checkpoint { state, .. }) = event else {
                return None;
            };
            Some(serde_json::from_str::<Value>(state).unwrap()["using"].clone())
        })
    };
    let says = |id: &str| json!({"type": "assistant", "message": {"id": id, "content": []}});
    let mut it = session(&["run"]);
    assert_eq!(using(&hear(&mut it, &replay(1))), Some(json!([])));
    hear(&mut it, &says("m1"));
    let one = json!("Bash: {\"command\":\"a\"}");
    assert_eq!(using(&hear(&mut it, &asks("Bash", json!({"command": "a"})))), Some(json!([one])));
    hear(&mut it, &says("m1"));
    let two = json!("Bash: {\"command\":\"b\"}");
    let both = using(&hear(&mut it, &asks("Bash", json!({"command": "b"}))));
    assert_eq!(both, Some(json!([one, two])));
    assert_eq!(using(&hear(&mut it, &asks("Write", json!({})))), None, "it is refused");
    hear(&mut it, &says("m2"));
    assert_eq!(using(&hear(&mut it, &asks("Bash", json!({"command": "b"})))), Some(json!([two])));
}

#[test]
fn uncovered_tool_is_put_to_people_one_at_a_time() {
    let asks = |request: &str, command: &str| {
        let wanted =
            json!({"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": command}});
        json!({"type": "control_request", "request_id": request, "request": wanted})
    };
    let asked = |output: &AgentOutput| {
        let of = |event: &ProgramEvent| {
            let ProgramEvent::Plain(RunnerEvent::Ask { id, question, .. }) = event else {
                return None;
            };
            Some((id.unwrap(), question.clone()))
        };
        output.events.iter().find_map(of).unwrap_or_else(|| panic!("{output:?}"))
    };
    let allow = || Ok("allow".to_owned());
    let nothing = AgentOutput::default();
    let mut it = session(&["run:git", "ask_human"]);
    assert_eq!(lines(&hear(&mut it, &asks("r1", "git log"))).len(), 1, "it is covered");
    let output = hear(&mut it, &asks("r2", "rm a"));
    let (first, question) = asked(&output);
    assert!(output.inputs.is_empty() && question.contains("rm a"), "{output:?}");
    assert_eq!(hear(&mut it, &asks("r3", "rm b")), nothing);
    assert_eq!(hear(&mut it, &asks("r4", "rm c")), nothing);
    let answered = it.answered(first, allow()).unwrap();
    let response = &lines(&answered)[0]["response"];
    assert_eq!(
        (&response["request_id"], &response["response"]["behavior"]),
        (&json!("r2"), &json!("allow"))
    );
    let (second, question) = asked(&answered);
    assert!(question.contains("rm b"), "{answered:?}");
    assert_eq!(it.answered(first, allow()), None, "it is answered");
    // What it does not wait for any more is not asked, and an answer to that allows nothing else.
    let withdrawn = hear(&mut it, &json!({"type": "control_cancel_request", "request_id": "r3"}));
    let (third, question) = asked(&withdrawn);
    assert!(question.contains("rm c"), "{withdrawn:?}");
    assert_eq!(it.answered(second, allow()), None);
    let denied = it.answered(third, Ok("no".to_owned())).unwrap();
    assert_eq!(lines(&denied)[0]["response"]["response"]["behavior"], "deny", "{denied:?}");
    // Nobody allows what was not shown whole.
    let long = hear(&mut it, &asks("r6", &format!("ls {}; rm a", " ".repeat(5_000))));
    assert_eq!(lines(&long)[0]["response"]["response"]["behavior"], "deny", "{long:?}");
    // No more does an answer to what an interrupt has ended.
    let (ended, _) = asked(&hear(&mut it, &asks("r7", "rm d")));
    interrupts(&mut it);
    let (open, _) = asked(&hear(&mut it, &asks("r8", "rm e")));
    assert_eq!(it.answered(ended, allow()), None);
    let allowed = it.answered(open, allow()).unwrap();
    assert_eq!(lines(&allowed)[0]["response"]["response"]["behavior"], "allow", "{allowed:?}");
    // A tool that nobody knows is not put to people.
    let other = json!({"subtype": "can_use_tool", "tool_name": "Task", "input": {}});
    let output =
        hear(&mut it, &json!({"type": "control_request", "request_id": "r5", "request": other}));
    assert_eq!(lines(&output)[0]["response"]["response"]["behavior"], "deny");
}

#[test]
fn program_that_asks_without_end_is_kept_to_a_bound() {
    let bytes = |it: &AgentSession| format!("{it:?}").len();
    let asks = |number: u32, command: &str| {
        let wanted =
            json!({"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": command}});
        json!({"type": "control_request", "request_id": format!("r{number}"), "request": wanted})
    };
    for list in [&["run"][..], &["ask_human"]] {
        let mut it = session(list);
        let mut kept = [0; 2];
        for number in 0..2_000 {
            hear(&mut it, &asks(number, &"x".repeat(3_000)));
            kept[usize::from(number >= 1_000)] = bytes(&it);
        }
        assert!(kept[1] < kept[0] + 1_000, "{list:?}: {kept:?}");
        assert!(kept[1] < 1_000_000, "{list:?}: {kept:?}");
    }
    let mut it = session(&[]);
    for number in 0..200 {
        let id = format!("{number}{}", "x".repeat(100_000));
        let message =
            json!({"id": id, "content": [], "usage": {"input_tokens": 1, "output_tokens": 1}});
        hear(&mut it, &json!({"type": "assistant", "message": message}));
    }
    assert!(bytes(&it) < 500_000, "{}", bytes(&it));
}
