//! Which uses of tools are allowed, refused and put to people, and what a next session is told of them.

use super::*;

#[test]
fn command_is_answered_by_the_list_of_the_brief() {
    for (list, command, allowed) in [
        (&["run"][..], "/bin/bash -c 'a | b'", true),
        (&["run:git"], "/bin/bash -c 'git log'", true),
        (&["run:git"], "/bin/bash -lc 'git log'", true),
        (&["run:git"], "/bin/bash -c 'git log | sh'", false),
        (&["run:git"], "git log", true),
        (&["run:bash"], "/bin/python3 -c 'x'", false),
        (&["read"], "/bin/bash -c 'cat notes.txt'", true),
        (&["read"], "/bin/bash -c 'cat a > b'", false),
        (&["list"], "/bin/bash -c 'cat notes.txt'", false),
        (&["list"], "/usr/bin/zsh -c 'ls -l'", true),
        (&["read"], "/w/bash -lc 'cat a'", false),
        (&["read"], "./bash -c 'cat a'", false),
        (&["run:cat"], "/bin/bash -c 'cat notes.txt'", true),
        (&["read"], "/bin/bash -c 'sed -i s/a/b/ x'", false),
        (&[], "/bin/bash -c 'ls'", false),
        (&["run"], "/bin/bash -c 'open", true),
        (&["run:git"], "", false),
    ] {
        let output = hear(&mut working(list), &asks(command));
        let answers = said(&output);
        let [.., answer] = &answers[..] else { panic!("{output:?}") };
        assert_eq!((&answer["id"], answers.len()), (&json!(0), if allowed { 1 } else { 2 }));
        let decision = &answer["result"]["decision"];
        assert_eq!(decision, if allowed { "accept" } else { "decline" }, "{list:?} {command}");
        if !allowed {
            // Its own answer to the model has no reason, so that one is there before it.
            let words = answers[0]["params"]["input"][0]["text"].as_str().unwrap();
            assert!(words.contains("was refused"), "{words}");
            assert!(output.note.unwrap().contains("refused exec_command"), "{list:?} {command}");
        }
    }
}

#[test]
fn patch_is_answered_by_what_it_does_to_files() {
    let add = json!({"path": "/w/a", "kind": {"type": "add"}, "diff": "x"});
    let update =
        json!({"path": "/w/b", "kind": {"type": "update", "move_path": null}, "diff": "x"});
    let starts = json!({"path": "/h/.bash_profile", "kind": {"type": "add"}, "diff": "id"});
    let moved = json!({"path": "/w/b", "kind": {"type": "update", "move_path": "/h/.zshenv"}});
    let asks = |root: Value| {
        let params = json!({"itemId": "c1", "grantRoot": root});
        json!({"id": 7, "method": "item/fileChange/requestApproval", "params": params})
    };
    for (list, changes, root, allowed) in [
        (&["write"][..], json!([add]), Value::Null, true),
        (&["edit"], json!([update]), Value::Null, true),
        (&["write"], json!([add, update]), Value::Null, false),
        (&["write", "edit"], json!([add, update]), Value::Null, true),
        (&["write"], json!([]), Value::Null, false),
        (&["*"], json!([add]), json!("/"), false),
        (&["run"], json!([add]), Value::Null, false),
        (&["write"], json!([starts]), Value::Null, false),
        (&["edit"], json!([moved]), Value::Null, false),
        (&["write", "edit", "run"], json!([starts, moved]), Value::Null, true),
    ] {
        let mut it = working(list);
        let begun = hear(
            &mut it,
            &item("started", json!({"type": "fileChange", "id": "c1", "changes": changes})),
        );
        assert_eq!(begun.events.len(), 2, "{begun:?}");
        let answers = said(&hear(&mut it, &asks(root)));
        let decision = &answers.last().unwrap()["result"]["decision"];
        assert_eq!(decision, if allowed { "accept" } else { "decline" }, "{list:?} {changes}");
    }
}

#[test]
fn patch_is_shown_to_people_with_its_changes() {
    let asks = |item: &str| json!({"id": 7, "method": "item/fileChange/requestApproval", "params": {"itemId": item}});
    let changes = json!([{"path": "/w/a", "kind": {"type": "add"}, "diff": "+evil"}]);
    let begun = json!({"type": "fileChange", "id": "c1", "changes": changes});
    let mut it = working(&["ask_human"]);
    hear(&mut it, &item("started", begun));
    let output = hear(&mut it, &asks("c1"));
    let [ProgramEvent::Plain(RunnerEvent::Ask { question, .. })] = output.events.as_slice() else {
        panic!("{output:?}")
    };
    assert!(question.contains("/w/a") && question.contains("+evil"), "{question}");
    // Of one that was not told of nobody knows what it does.
    let output = hear(&mut working(&["ask_human", "write", "edit"]), &asks("c2"));
    assert_eq!(said(&output).last().unwrap()["result"]["decision"], "decline", "{output:?}");
}

#[test]
fn other_requests_are_refused_in_words() {
    for method in [
        "item/permissions/requestApproval",
        "item/tool/requestUserInput",
        "mcpServer/elicitation/request",
        "execCommandApproval",
        "brand/new",
    ] {
        let request = json!({"id": "x9", "method": method, "params": {}});
        let answers = said(&hear(&mut working(&["*"]), &request));
        assert_eq!(answers[0]["id"], "x9");
        assert!(answers[0]["error"]["message"].as_str().unwrap().contains(method), "{answers:?}");
    }
    let typed = json!({"kind": "writeStdin", "command": "/bin/bash -c 'git log'"});
    let request =
        json!({"id": 3, "method": "item/commandExecution/requestApproval", "params": typed});
    let answers = said(&hear(&mut working(&["run:git"]), &request));
    assert_eq!(answers[1]["result"]["decision"], "decline");
}

#[test]
fn uncovered_command_is_put_to_people_unless_it_is_withdrawn() {
    let asked = |output: &AgentOutput| {
        let of = |event: &ProgramEvent| {
            let ProgramEvent::Plain(RunnerEvent::Ask { id, .. }) = event else { return None };
            *id
        };
        output.events.iter().find_map(of).unwrap_or_else(|| panic!("{output:?}"))
    };
    let mut it = working(&["ask_human"]);
    let output = hear(&mut it, &asks("/bin/bash -c 'rm a'"));
    assert!(output.inputs.is_empty(), "{output:?}");
    let answered = it.answered(asked(&output), Ok("allow".to_owned())).unwrap();
    assert_eq!(said(&answered)[0]["result"]["decision"], "accept");
    let second = asked(&hear(&mut it, &asks("/bin/bash -c 'rm b'")));
    hear(&mut it, &json!({"method": "serverRequest/resolved", "params": {"requestId": 0}}));
    assert_eq!(it.answered(second, Ok("allow".to_owned())), None, "nobody waits for it");
}

#[test]
fn allowed_uses_are_in_the_checkpoint_until_the_model_has_their_results() {
    let using = |output: &AgentOutput| {
        output.events.iter().find_map(|event| {
            let ProgramEvent::Plain(RunnerEvent::Checkpoint { state, .. }) = event else {
                return None;
            };
            let state: Value = serde_json::from_str(state).unwrap();
            assert_eq!(
                (&state["conversation"], &state["adapter"]),
                (&json!("th"), &json!("codex"))
            );
            Some(state["using"].as_array().unwrap().len())
        })
    };
    let mut it = working(&["run"]);
    let command = |what: &str, id: &str| {
        item(what, json!({"type": "commandExecution", "id": id, "command": "a"}))
    };
    hear(&mut it, &command("started", "c1"));
    assert_eq!(using(&hear(&mut it, &asks("/bin/sh -c a"))), Some(1));
    hear(&mut it, &item("started", json!({"type": "reasoning", "id": "r"})));
    hear(&mut it, &command("started", "c2"));
    assert_eq!(using(&hear(&mut it, &asks("/bin/sh -c b"))), Some(2), "the first is at work");
    hear(&mut it, &command("completed", "c1"));
    hear(&mut it, &command("completed", "c2"));
    hear(&mut it, &item("started", json!({"type": "reasoning", "id": "r"})));
    assert_eq!(using(&hear(&mut it, &asks("/bin/sh -c c"))), Some(1));
}

#[test]
fn reading_command_is_judged_by_the_paths_that_it_reads() {
    for (command, decision) in [
        ("cat notes.txt", "accept"),
        ("cat keys/a", "decline"),
        ("cat ./keys/a", "decline"),
        ("cat /w/keys/a", "decline"),
        ("cat x/../keys/a", "decline"),
        ("head -n 1 notes.txt keys/a", "decline"),
    ] {
        let mut it = working(&["read"]);
        let words = vec!["keys".to_owned()];
        let rule =
            PermissionRule { tool: "read".to_owned(), words, action: PermissionAction::Deny };
        it.brief.permissions = Permissions::of(&[PermissionList { rules: vec![rule] }]);
        let answers = said(&hear(&mut it, &asks(command)));
        assert_eq!(answers.last().unwrap()["result"]["decision"], decision, "{command}");
    }
}

#[test]
fn patch_is_judged_by_every_path_that_it_names() {
    let moved = json!({"path": "/w/a", "kind": {"type": "update", "move_path": "/w/keys/a"}});
    for (changes, decision) in [
        (json!([{"path": "/w/a", "kind": {"type": "update"}}]), Some("accept")),
        (json!([{"path": "/w/a", "kind": {"type": "update"}}, moved]), Some("decline")),
    ] {
        let mut it = working(&["edit"]);
        let words = vec!["keys".to_owned()];
        let rule =
            PermissionRule { tool: "edit".to_owned(), words, action: PermissionAction::Deny };
        it.brief.permissions = Permissions::of(&[PermissionList { rules: vec![rule] }]);
        let item = json!({"type": "fileChange", "id": "c1", "changes": changes});
        hear(&mut it, &json!({"method": "item/started", "params": {"item": item}}));
        let asked = json!({"itemId": "c1", "grantRoot": null});
        let asked = json!({"id": 7, "method": "item/fileChange/requestApproval", "params": asked});
        let answers = said(&hear(&mut it, &asked));
        assert_eq!(answers.last().unwrap()["result"]["decision"].as_str(), decision, "{changes}");
    }
}

#[test]
fn items_and_turns_without_end_are_kept_to_a_bound() {
    let mut it = working(&["run"]);
    let bytes = |it: &AgentSession| format!("{it:?}").len();
    let mut kept = [0; 2];
    for number in 0..2_000 {
        let item = json!({"type": "fileChange", "id": format!("c{number}"), "changes": [{"path": "x".repeat(900)}]});
        hear(&mut it, &json!({"method": "item/started", "params": {"item": item}}));
        kept[usize::from(number >= 1_000)] = bytes(&it);
    }
    assert!(kept[1] < kept[0] + 1_000, "{kept:?}");
    for number in 0..2_000 {
        let turn = json!({"turn": {"id": format!("{number}{}", "t".repeat(900))}});
        hear(&mut it, &json!({"method": "turn/started", "params": turn}));
        kept[usize::from(number >= 1_000)] = bytes(&it);
    }
    assert!(kept[1] < kept[0] + 1_000, "{kept:?}");
}
