//! Which uses of tools are allowed, refused and put to people, and what is kept of them.

use super::*;

#[test]
fn use_is_shown_to_people_whole_and_allowed_once() {
    let input = json!({"file": "a", "text": "evil"});
    let mut it = working(&["ask_human"]);
    let output = hear(&mut it, &asks("edit", input.clone()));
    let question = output.events.iter().find_map(|event| {
        let ProgramEvent::Plain(RunnerEvent::Ask { question, .. }) = event else { return None };
        Some(question.clone())
    });
    assert!(question.as_ref().is_some_and(|question| question.contains("evil")), "{output:?}");
    // An answer for all later uses is not given where one for this use is missing.
    let mut always = asks("edit", input);
    always["params"]["options"].as_array_mut().unwrap().remove(1);
    let output = hear(&mut working(&["edit"]), &always);
    assert_eq!(said(&output)[0]["result"]["outcome"]["outcome"], "cancelled", "{output:?}");
}

#[test]
fn edit_is_judged_by_its_locations_and_without_them_by_every_rule() {
    for (locations, allowed) in [
        (json!([{"path": "/w/a"}]), true),
        (json!([{"path": "/w/a"}, {"path": "/w/keys/a"}]), false),
        (json!([]), false),
    ] {
        let mut it = working(&["edit"]);
        let words = vec!["keys".to_owned()];
        let rule =
            PermissionRule { tool: "edit".to_owned(), words, action: PermissionAction::Deny };
        it.brief.permissions = Permissions::of(&[PermissionList { rules: vec![rule] }]);
        let mut asked = asks("edit", json!({}));
        asked["params"]["toolCall"]["locations"] = locations.clone();
        let answer = &said(&hear(&mut it, &asked))[0]["result"]["outcome"]["optionId"];
        assert_eq!(answer, if allowed { "once" } else { "no" }, "{locations}");
    }
}

#[test]
fn tools_questions_and_words_without_end_are_kept_to_a_bound() {
    let mut it = working(&["ask_human"]);
    let bytes = |it: &AgentSession| format!("{it:?}").len();
    let mut kept = [0; 2];
    for number in 0..2_000 {
        let mut asked = asks("edit", json!({"text": "x".repeat(500)}));
        asked["id"] = json!(number);
        hear(&mut it, &asked);
        hear(
            &mut it,
            &update(
                json!({"sessionUpdate": "tool_call", "toolCallId": format!("t{number}"), "status": "pending"}),
            ),
        );
        kept[usize::from(number >= 1_000)] = bytes(&it);
    }
    assert!(kept[1] < kept[0] + 1_000, "{kept:?}");
    for _ in 0..100 {
        let content = json!({"type": "text", "text": "w".repeat(100_000)});
        hear(&mut it, &update(json!({"sessionUpdate": "agent_message_chunk", "content": content})));
    }
    assert!(bytes(&it) < 2_000_000, "{}", bytes(&it));
}
