//! Where the key of a profile may be sent.

use super::*;

/// A plan whose profile reaches its model at this address, with a key or without.
fn reaching(url: &str, key: Option<&str>) -> Value {
    let mut plan = plan_of(&[leaf("T1.1")]);
    let mut profile = json!({
        "runner": "llm", "provider": "openai", "model": "m", "baseUrl": url,
    });
    if let Some(key) = key {
        profile["keyFrom"] = json!(key);
    }
    plan["profiles"] = json!({"p": profile});
    plan
}

#[test]
fn key_of_a_profile_goes_over_tls_or_stays_on_this_machine() {
    let key = Some("env:KEY");
    for url in ["http://models.example/v1", "http://10.0.0.7:8000/v1", "http://127.0.0.1.example/"]
    {
        let refused = reaching(url, key);
        assert_refused(&refused, "profiles.p.baseUrl", "without TLS, and keyFrom names a key");
    }
    assert_refused(&reaching("models.example", key), "profiles.p.baseUrl", "no http or https");
    for (url, key) in [
        ("https://models.example/v1", key),
        ("http://127.0.0.1:8000/v1", key),
        ("http://localhost:8000/v1", key),
        ("http://[::1]:8000/v1", key),
        ("http://models.example/v1", None),
    ] {
        let read = assert_read(&reaching(url, key));
        assert_eq!(read.profiles[0].served.base_url, url);
        assert_eq!(read.profiles[0].served.key_fault(), None);
    }
}

#[test]
fn key_that_a_runner_ignores_is_refused() {
    let with = |runner: &str, key: &str| {
        let mut plan = plan_of(&[leaf("T1.1")]);
        plan["profiles"] = json!({"p": {"runner": runner, "argv": ["x"], key: "openai"}});
        plan
    };
    for (runner, key) in
        [("acp", "model"), ("cli", "model"), ("claude", "provider"), ("codex", "provider")]
    {
        let why = format!("is not used by the {runner} runner");
        assert_refused(&with(runner, key), &format!("profiles.p.{key}"), &why);
    }
    for (runner, key) in [("claude", "model"), ("acp", "provider"), ("process", "model")] {
        assert_read(&with(runner, key));
    }
}
