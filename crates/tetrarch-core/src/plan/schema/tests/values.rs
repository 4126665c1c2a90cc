//! The fields of nodes and profiles, and documents at random.

use proptest::prelude::*;

use super::*;
use crate::limits::{PERMISSION_RULES_MAX, PERMISSION_WORDS_MAX};
use crate::overseer::Rung;
use crate::permission::PermissionAction;
use crate::secret::SecretSource;

#[test]
fn invalid_field_is_refused_with_allowed_values() {
    let at = |key: &str| format!("phases[0].tasks[0].{key}");
    for (fields, key, text) in [
        (json!({"foo": 1}), "foo", "unknown key"),
        (json!({"keyFacts": [], "key_facts": []}), "key_facts", "given twice"),
        (json!({"role": "project"}), "role", "is \"project\""),
        (json!({"role": 1}), "role", "is a number"),
        (json!({"role": "specialist"}), "domain", "is missing"),
        (json!({"role": "reviewer"}), "domain", "is missing"),
        (json!({"role": "reviewer", "domain": "a.b"}), "domain", "'.' at position 1"),
        (json!({"profile": ""}), "profile", "is empty"),
        (json!({"tools": "sh"}), "tools", "is a text"),
        (json!({"tools": [1]}), "tools[0]", "is a number"),
        (json!({"tools": [" "]}), "tools[0]", "is an empty text"),
        (json!({"outcome": "a", "objective": "b"}), "outcome", "same as objective"),
        (json!({"outputSchema": "{"}), "outputSchema", "is not a valid JSON Schema"),
        (json!({"outputSchema": [1]}), "outputSchema", "is not a valid JSON Schema"),
        (json!({"budget": 1}), "budget", "is a number"),
        (json!({"budget": {"tokens": 0}}), "budget.tokens", "is 0"),
        (json!({"budget": {"tokens": -1}}), "budget.tokens", "is -1"),
        (json!({"budget": {"turns": 1.5}}), "budget.turns", "is 1.5"),
        (json!({"budget": {"costUsd": 0}}), "budget.costUsd", "is 0"),
        (json!({"budget": {"wall": 1}}), "budget.wall", "unknown key"),
        (json!({"wall": 0}), "wall", "is 0"),
        (json!({"wall": "0s"}), "wall", "is nothing"),
        (json!({"wall": []}), "wall", "is a list"),
        (json!({"maxAttempts": 0}), "maxAttempts", "is 0"),
        (json!({"maxAttempts": 11}), "maxAttempts", "is 11"),
        (json!({"review": "yes"}), "review", "is \"yes\""),
        (json!({"review": {}}), "review.domain", "is missing"),
        (json!({"placement": {"host": "a.b"}}), "placement.host", "'.' at position 1"),
        (json!({"placement": {"labels": ["x"]}}), "placement.labels[0]", "is \"x\""),
        (json!({"placement": {"labels": {"x": 1}}}), "placement.labels.x", "is a number"),
        (json!({"subtasks": {}}), "subtasks", "is a mapping"),
    ] {
        assert_refused(&plan_with(fields), &at(key), text);
    }
}

#[test]
fn problems_are_told_up_to_their_number() {
    let many = |count: usize| {
        let keys = (0..count).map(|number| (format!("unknown{number}"), json!(1)));
        let task = keys.collect::<serde_json::Map<_, _>>();
        parse(&plan_with(task.into())).unwrap_err()
    };
    assert_eq!(many(100).len(), 100);
    let told = many(101);
    assert_eq!(told.len(), 101);
    assert_eq!(
        told[100].to_string(),
        "plan: has more than 100 problems; allowed: none; mend these first"
    );
    assert_eq!(many(500), told);
}

#[test]
fn fields_are_accepted_at_both_ends_and_in_every_form() {
    for fields in [
        json!({"maxAttempts": 1, "budget": {"tokens": 1, "costUsd": 0.000001, "turns": 1}}),
        json!({"maxAttempts": 10, "wall": 0.001, "outputSchema": "text"}),
        json!({"placement": {"labels": ["zone=a", "x="]}, "review": false, "profile": null}),
    ] {
        assert_read(&plan_with(fields));
    }
    let review = |fields: Value| assert_read(&plan_with(fields)).nodes[1].review.clone();
    let domain = |fields: Value| review(fields).unwrap().domain.as_str().to_owned();
    assert_eq!(review(json!({"review": false})), None);
    assert_eq!(domain(json!({"review": true})), "general");
    assert_eq!(domain(json!({"review": true, "domain": "rust"})), "rust");
    assert_eq!(domain(json!({"review": {"domain": "law"}, "domain": "rust"})), "law");
}

#[test]
fn recovery_policy_is_a_rung_or_a_mapping() {
    let own = |policy: Value| {
        assert_read(&plan_with(json!({"recoveryPolicy": policy}))).nodes[1].recovery
    };
    let default = RecoveryPolicy::default();
    assert_eq!(assert_read(&plan_with(json!({}))).nodes[1].recovery, default);
    let rungs = [
        ("nudge", Rung::Nudge),
        ("resend_last", Rung::Resend),
        ("resend", Rung::Resend),
        ("replan", Rung::Replan),
        ("reassign", Rung::Reassign),
        ("escalate", Rung::Escalate),
    ];
    for (word, rung) in rungs {
        let from = RecoveryPolicy { from: Some(rung), ..default };
        assert_eq!(own(json!(word)), from);
        assert_eq!(own(json!({"from": word})), from);
    }
    let all = json!({"from": "replan", "max_retries": 100, "idle_after": "30d",
                     "min_resend_interval": 1, "reassign": false});
    let read = RecoveryPolicy {
        from: Some(Rung::Replan),
        max_retries: Some(100),
        idle_after: Some(Millis::from_secs(30 * 24 * 3600)),
        min_resend_interval: Some(Millis(1_000)),
        reassign: Some(false),
    };
    assert_eq!(own(all), read);
    assert_eq!(own(json!({"maxRetries": 0})).max_retries, Some(0));
    assert_eq!(own(json!({"idleAfter": "1s"})).idle_after, Some(Millis(1_000)));
    assert_eq!(own(json!({"reassign": true})).reassign, Some(true));
    assert_eq!(own(json!({})), default);
}

#[test]
fn out_of_bounds_recovery_policy_is_refused_at_its_position() {
    let refused = |policy: Value, path: &str, text: &str| {
        let path = format!("phases[0].tasks[0].recoveryPolicy{path}");
        assert_refused(&plan_with(json!({"recoveryPolicy": policy})), &path, text);
    };
    refused(json!("pray"), "", "is \"pray\"");
    refused(json!(7), "", "is a number");
    refused(json!({"from": "pray"}), ".from", "is \"pray\"");
    refused(json!({"rung": "nudge"}), ".rung", "unknown key");
    refused(json!({"maxRetries": 101}), ".maxRetries", "is 101");
    refused(json!({"maxRetries": -1}), ".maxRetries", "is -1");
    refused(json!({"idleAfter": "999ms"}), ".idleAfter", "is 999ms");
    refused(json!({"idleAfter": "30d1ms"}), ".idleAfter", "is 30d1ms");
    refused(json!({"idleAfter": "soon"}), ".idleAfter", "soon");
    refused(json!({"minResendInterval": "0s"}), ".minResendInterval", "is nothing");
    refused(json!({"minResendInterval": "999ms"}), ".minResendInterval", "is 999ms");
    refused(json!({"minResendInterval": "31d"}), ".minResendInterval", "is 31d");
    refused(json!({"reassign": "no"}), ".reassign", "is \"no\"");
}

#[test]
fn output_is_a_leaf_of_the_plan() {
    let with = |output: Value| {
        let mut plan = plan_of(&[leaf("T1.1")]);
        plan["output"] = output;
        plan
    };
    assert_eq!(assert_read(&with(json!("T1.1"))).output, Some(NodeId::task(1, 1)));
    assert_refused(&with(json!("T1.2")), "output", "outside the epic");
    assert_refused(&with(json!("P1")), "output", "no deliverable");
    assert_refused(&with(json!(7)), "output", "is a number");
}

#[test]
fn permissions_are_parsed_strictly() {
    let ruled = |runner: &str, rules: Value| {
        let model =
            json!({"runner": runner, "provider": "openai", "model": "m", "permissions": rules});
        let mut plan = plan_of(&[leaf("T1.1")]);
        plan["profiles"] = json!({"p": model});
        plan
    };
    let rules = json!([{"tool": "run", "match": ["git", "**", "push"], "action": "ask"}, {"tool": "*", "action": "deny"}]);
    let read = assert_read(&ruled("llm", rules.clone())).profiles[0].permissions.rules.clone();
    assert_eq!((read[0].words.len(), read[1].action), (3, PermissionAction::Deny));
    assert_eq!(read[0].to_string(), "ask run git ** push");
    let many = |count| Value::Array(vec![rules[1].clone(); count]);
    assert_read(&ruled("llm", many(PERMISSION_RULES_MAX)));
    let words = |count| json!([{"tool": "run", "match": vec!["a"; count], "action": "allow"}]);
    assert_read(&ruled("llm", words(PERMISSION_WORDS_MAX)));
    for (runner, rules, path, why) in [
        ("llm", json!({}), "", "is a mapping"),
        ("llm", many(PERMISSION_RULES_MAX + 1), "", "33 entries"),
        ("llm", json!([{"action": "ask"}]), "[0].tool", "is missing"),
        ("llm", json!([{"tool": "run"}]), "[0].action", "is missing"),
        ("llm", json!([{"tool": "run", "action": "maybe"}]), "[0].action", "\"maybe\""),
        ("llm", words(PERMISSION_WORDS_MAX + 1), "[0].match", "17 words"),
        (
            "llm",
            json!([{"tool": "read", "match": ["a", "b"], "action": "ask"}]),
            "[0].match",
            "at most 1",
        ),
        (
            "llm",
            json!([{"tool": "mail_send", "match": ["a"], "action": "ask"}]),
            "[0].match",
            "at most 0",
        ),
        (
            "llm",
            json!([{"tool": "read", "match": ["["], "action": "ask"}]),
            "[0].match",
            "not a valid glob",
        ),
        ("llm", json!([{"tool": "read", "on": 1, "action": "ask"}]), "[0].on", "unknown key"),
        ("echo", rules.clone(), "", "calls none"),
    ] {
        assert_refused(&ruled(runner, rules), &format!("profiles.p.permissions{path}"), why);
    }
}

/// A plan whose profile of a model names these servers.
fn served(servers: &Value) -> Value {
    let mut plan = plan_of(&[leaf("T1.1")]);
    plan["profiles"] = json!({"p": {
        "runner": "llm", "provider": "openai", "model": "m", "mcpServers": servers,
    }});
    plan
}

#[test]
fn servers_of_tools_are_commands_or_addresses() {
    let read = assert_read(&served(&json!({
        "issues": {
            "argv": ["issues-mcp", "--stdio"], "env": {"A": "b"}, "passEnv": ["TOKEN"],
            "timeout": "5m", "required": true, "trusted": true,
        },
        "search": {"url": "https://x/mcp", "key_from": "env:KEY", "header": "X-Api-Key"},
    })));
    let [issues, search] = read.profiles[0].mcp_servers.as_slice() else { panic!("{read:?}") };
    assert_eq!((issues.name.as_str(), issues.call_within().0), ("issues", 300_000));
    assert_eq!((issues.argv.len(), issues.required, issues.trusted), (2, true, true));
    assert_eq!((issues.env.len(), issues.pass_env.as_slice()), (1, &["TOKEN".to_owned()][..]));
    assert_eq!(search.key_source(), Some(SecretSource::Env("KEY".to_owned())));
    assert_eq!((search.call_within().0, search.required, search.trusted), (60_000, false, false));
    for (name, server, path, why) in [
        ("s", json!({}), "", "has no command and no address"),
        ("s", json!({"argv": []}), ".argv", "is empty"),
        ("s", json!({"argv": ["x"], "url": "https://x/"}), ".url", "stands beside `argv`"),
        ("s", json!({"url": "https://x/", "env": {}}), ".env", "stands beside `url`"),
        ("s", json!({"url": "ftp://x/"}), ".url", "no http or https"),
        ("s", json!({"url": "http://far/"}), ".url", "without TLS"),
        ("s", json!({"url": "https://x/", "keyFrom": "sk-1"}), ".keyFrom", "not a reference"),
        ("s", json!({"url": "https://x/", "header": "X-Key"}), ".header", "holds no key"),
        (
            "s",
            json!({"url": "https://x/", "keyFrom": "env:K", "header": "Host"}),
            ".header",
            "holds no key",
        ),
        ("s", json!({"argv": ["x"], "timeout": "2h"}), ".timeout", "is too long"),
        ("s", json!({"argv": ["x"], "trusted": "yes"}), ".trusted", "a text"),
        ("s", json!({"argv": ["x"], "command": "x"}), ".command", "is an unknown key"),
        ("a_b", json!({"argv": ["x"]}), "", "is not a valid name of a server"),
    ] {
        let path = format!("profiles.p.mcpServers.{name}{path}");
        assert_refused(&served(&json!({name: server})), &path, why);
    }
    let mut plan = served(&json!({"s": {"argv": ["x"]}}));
    plan["profiles"]["p"]["runner"] = json!("claude");
    plan["profiles"]["p"].as_object_mut().unwrap().remove("provider");
    assert_refused(&plan, "profiles.p.mcpServers", "the claude runner offers none");
    let many = (0..17).map(|n| (format!("s{n}"), json!({"argv": ["x"]})));
    let many = Value::Object(many.collect());
    assert_refused(&served(&many), "profiles.p.mcpServers", "has 17 servers");
}

#[test]
fn profiles_are_parsed_strictly() {
    let with = |profile: Value| {
        let mut plan = plan_of(&[leaf("T1.1")]);
        plan["profiles"] = json!({"p": profile});
        plan
    };
    assert_eq!(assert_read(&with(json!({"runner": "echo"}))).profiles[0].kind, RunnerKind::Echo);
    assert_refused(&with(json!({})), "profiles.p.argv", "is missing");
    assert_refused(
        &with(json!({"runner": "external", "argv": ["x"]})),
        "profiles.p.runner",
        "external",
    );
    assert_refused(&with(json!({"argv": ["x"], "env": {"A": 1}})), "profiles.p.env.A", "a number");
    assert_refused(
        &with(json!({"argv": ["x"], "env": {"A=": "1"}})),
        "profiles.p.env.A=",
        "not a valid variable name",
    );
    assert_refused(
        &with(json!({"argv": ["x"], "passEnv": ["="]})),
        "profiles.p.passEnv",
        "not a valid variable name",
    );
    for place in ["cache", "../cache", "/a/../b", "~", "{plan_dir}/cache"] {
        let refused = with(json!({"argv": ["x"], "writable": ["/fine", place]}));
        assert_refused(&refused, "profiles.p.writable", "");
    }
    let model = json!({
        "runner": "llm", "provider": "openai", "model": "m", "baseUrl": "https://x/v1",
        "keyFrom": "env:KEY", "maxOutputTokens": 9, "contextTokens": 99,
    });
    let read = assert_read(&with(model.clone())).profiles[0].clone();
    assert_eq!(
        (read.kind, read.served.key_source()),
        (RunnerKind::Llm, Some(SecretSource::Env("KEY".to_owned())))
    );
    assert_eq!((read.served.max_output_tokens, read.served.context_tokens), (Some(9), Some(99)));
    for (key, value, why) in [
        ("provider", json!(null), "is missing"),
        ("model", json!(null), "is missing"),
        ("keyFrom", json!("sk-1"), "not a reference"),
        ("keyFrom", json!("file:/etc/shadow"), "not a reference"),
        ("maxOutputTokens", json!(0), "0"),
    ] {
        let mut wrong = model.clone();
        if value.is_null() {
            wrong.as_object_mut().unwrap().remove(key);
        } else {
            wrong[key] = value;
        }
        assert_refused(&with(wrong), &format!("profiles.p.{key}"), why);
    }
    let mut named = plan_of(&[leaf("T1.1")]);
    named["profiles"] = json!({"a b": {"runner": "echo"}});
    assert_refused(&named, "profiles.a b", "' ' at position 1");
    named["profiles"] = json!([]);
    assert_refused(&named, "profiles", "is a list");
}

/// Any document, with the keys and ids of plans more often than others.
fn any_document() -> impl Strategy<Value = Value> {
    let words = prop::sample::select(vec![
        "P1", "P2", "T1.1", "T1.2", "S1.1.1", "", "5s", "x", "worker", "reviewer", "text",
        "process",
    ]);
    let atom = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        words.prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    let keys = prop::sample::select(vec![
        "title",
        "goal",
        "phases",
        "tasks",
        "subtasks",
        "id",
        "name",
        "deps",
        "acceptance",
        "role",
        "domain",
        "budget",
        "tokens",
        "costUsd",
        "wall",
        "review",
        "placement",
        "labels",
        "output",
        "profiles",
        "argv",
        "env",
        "passEnv",
        "outputSchema",
        "maxAttempts",
        "planVersion",
        "recoveryPolicy",
        "idleAfter",
        "from",
    ]);
    atom.prop_recursive(8, 96, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(keys.clone().prop_map(str::to_owned), inner, 0..8)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_document_is_accepted_or_refused_with_reasons(value in any_document()) {
        if let Err(found) = parse(&value) {
            prop_assert!(!found.is_empty());
        }
    }

    #[test]
    fn any_value_in_a_plan_is_accepted_or_refused(
        value in any_document(),
        place in prop::sample::select(vec![
            "/phases", "/phases/0", "/phases/0/tasks", "/phases/0/tasks/0/id", "/title",
            "/phases/0/tasks/0/deps", "/phases/0/tasks/0/budget", "/phases/0/tasks/0/wall",
            "/phases/0/tasks/0/review", "/phases/0/tasks/0/placement",
            "/phases/0/tasks/0/recoveryPolicy",
        ]),
    ) {
        let mut plan = plan_with(json!({"deps": 0, "budget": 0, "wall": 0, "review": 0, "placement": 0, "recoveryPolicy": 0}));
        *plan.pointer_mut(place).unwrap() = value;
        if let Err(found) = parse(&plan) {
            prop_assert!(!found.is_empty());
        }
    }
}

#[test]
fn name_with_invisible_characters_is_refused() {
    for (hidden, said) in [
        ('\u{202e}', "the bidirectional control character U+202E"),
        ('\u{2066}', "the bidirectional control character U+2066"),
        ('\u{1b}', "the control character U+001B"),
        ('\u{9b}', "the control character U+009B"),
    ] {
        let name = format!("a{hidden}b");
        assert_refused(&plan_with(json!({"name": name})), "phases[0].tasks[0].name", said);
        let mut plan = plan_of(&[leaf("T1.1")]);
        plan["title"] = json!(name);
        assert_refused(&plan, "title", said);
        plan["title"] = json!("grüße, 世界, \u{5d0}\u{5d1}\n");
        assert_read(&plan);
        assert_read(&plan_with(json!({"task": name})));
    }
}
