//! Each form, and what is none of them. No credential here is anybody's: they are put together at
//! run time, so that scanners of sources find none.

use super::*;

fn filled(head: &str, alphabet: &str, count: usize) -> String {
    let letters: Vec<char> = alphabet.chars().collect();
    let tail = (0..count).map(|place| letters[(place * 5 + 3) % letters.len()]);
    head.chars().chain(tail).collect()
}

const MIX: &str = "aB3dE5gH7jK9mN";
const UPPER: &str = "ABCDEFGH234567";

/// A sample of each form: its kind, the text before it, the secret, the text after it.
fn samples() -> Vec<(&'static str, &'static str, String, &'static str)> {
    let jwt = [filled("eyJ", MIX, 20), filled("eyJ", MIX, 40), filled("", MIX, 43)].join(".");
    let pem = |label: &str| {
        let body = filled("", MIX, 64);
        format!("-----BEGIN {label}-----\n{body}\n{body}\n-----END {label}-----")
    };
    vec![
        ("private_key", "see ", pem("PRIVATE KEY"), " there"),
        ("private_key", "", pem("RSA PRIVATE KEY"), "\n"),
        ("private_key", "", pem("OPENSSH PRIVATE KEY"), ""),
        ("private_key", "", pem("PGP PRIVATE KEY BLOCK"), ""),
        ("private_key", "", pem("NATS USER JWT"), "-"),
        ("private_key", "", pem("USER NKEY SEED"), "-"),
        (
            "private_key",
            "cut: ",
            format!("-----BEGIN EC PRIVATE KEY-----\n{}", filled("", MIX, 64)),
            "",
        ),
        ("api_key", "key=", filled("sk-", MIX, 48), " "),
        ("api_key", "key: ", filled("sk-ant-api03-", MIX, 80), "."),
        ("api_key", "", filled("sk-proj-", MIX, 40), ""),
        ("api_key", "", filled("AIza", MIX, 35), ""),
        ("api_key", "", filled("hf_", MIX, 34), ""),
        ("api_key", "", filled("npm_", MIX, 36), ""),
        ("api_key", "", filled("sk_live_", MIX, 24), ""),
        ("api_key", "", filled("pypi-AgEI", MIX, 60), ""),
        ("aws_key", "id ", filled("AKIA", UPPER, 16), ","),
        ("aws_key", "", filled("ASIA", UPPER, 16), ""),
        ("aws_secret", "AWS_SECRET_ACCESS_KEY=", filled("", MIX, 40), "\n"),
        ("aws_secret", "\"SecretAccessKey\": \"", filled("", MIX, 40), "\""),
        ("github_token", "", filled("ghp_", MIX, 36), ""),
        ("github_token", "", filled("github_pat_", MIX, 60), ""),
        ("gitlab_token", "", filled("glpat-", MIX, 20), ""),
        ("slack_token", "", filled("xoxb-", MIX, 40), ""),
        ("slack_token", "https://hooks.slack.com/services/", filled("T", MIX, 40), ""),
        ("jwt", "token ", jwt, ""),
        ("authorization", "Authorization: Bearer ", filled("", MIX, 30), "\r\n"),
        ("authorization", "authorization: basic ", filled("", MIX, 24), ""),
        ("authorization", "-H 'bearer ", filled("", MIX, 24), "'"),
        ("url_password", "postgres://user:", filled("", MIX, 9), "@db:5432/x"),
        ("url_password", "nats://:", "hunter2".to_owned(), "@127.0.0.1:4222"),
        ("nats_seed", "seed ", filled("SU", UPPER, 56), ""),
    ]
}

#[test]
fn every_credential_form_is_replaced_exactly() {
    for (kind, before, secret, after) in samples() {
        let planted = format!("{before}{secret}{after}");
        let clean = text(&planted).into_owned();
        assert_eq!(clean, format!("{before}[redacted:{kind}]{after}"), "{kind}");
        assert_eq!(text(&clean), clean, "doing it again changes nothing");
    }
    let kinds: std::collections::BTreeSet<&str> = samples().iter().map(|it| it.0).collect();
    assert!(FORMS.iter().all(|(kind, _)| kinds.contains(kind)), "{kinds:?}");
    let all: Vec<String> = samples().into_iter().map(|it| it.1.to_owned() + &it.2 + "\n").collect();
    let clean = text(&all.join(" ")).into_owned();
    assert!(samples().iter().all(|(.., secret, _)| !clean.contains(secret)), "{clean}");
}

#[test]
fn random_looking_text_is_unchanged() {
    for sound in [
        "01JD8Z5W6T4QK3M9X2V7B1N0AC",
        "goal_01JD8Z5W6T4QK3M9X2V7B1N0AC W:01JD8Z5W6T4QK3M9X2V7B1N0AC HO@host-1 PO-demo",
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 (12 KiB)",
        "E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855",
        "da39a3ee5e6b4b0d3255bfef95601890afd80709",
        "commit DA39A3EE5E6B4B0D3255BFEF95601890AFD80709",
        "sk-learn-estimators-and-pipelines",
        "a risk-assessment-of-something-quite-long-2",
        "bearer authentication-is-required-here",
        "https://example.org:8443/a@b?x=y:z@w",
        "git@github.com:owner/repository.git ssh://git@github.com/owner/repository",
        "nats://127.0.0.1:4222",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "AKIA is a prefix, AKIAABCDEFGHIJKLMNOPQRSTU is too long",
        "S1.2.3 depends on T1.1; [redacted:aws_key] stays",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJKLMNOPQRSTUVWXYZABCDEF",
        "\u{e4}\u{f6}\u{fc} eyJ.eyJ.",
    ] {
        assert_eq!(text(sound), sound);
    }
}

#[test]
fn json_stays_json_and_escapes_hide_nothing() {
    for (kind, before, secret, after) in samples() {
        let said = serde_json::json!({"a": [1, {"b": format!("line\n{before}{secret}{after}")}]});
        let mut json = said.to_string();
        assert!(redact_json(&mut json), "{kind}");
        let clean: Value = serde_json::from_str(&json).unwrap();
        let words = clean["a"][1]["b"].as_str().unwrap();
        assert_eq!(words, format!("line\n{before}[redacted:{kind}]{after}"));
    }
    let mut sound = "{ \"a\" :1 }".to_owned();
    assert!(!redact_json(&mut sound));
    assert_eq!(sound, "{ \"a\" :1 }", "left byte for byte");
    let mut text = format!("no json: {}", filled("ghp_", MIX, 36));
    assert!(redact_json(&mut text));
    assert_eq!(text, "no json: [redacted:github_token]");
}

#[test]
fn multi_line_key_is_hidden_whole_within_its_length() {
    let mut lines = Lines::default();
    let mut clean = |line: &str| lines.clean(line).map(Cow::into_owned);
    assert_eq!(clean("a").unwrap(), "a");
    assert_eq!(clean("x -----BEGIN PRIVATE KEY-----").unwrap(), "x [redacted:private_key]");
    assert_eq!(clean("MIIEvQ"), None);
    assert_eq!(clean("-----END PRIVATE KEY-----"), None);
    assert_eq!(clean("b").unwrap(), "b");
    assert_eq!(clean("-----BEGIN CERTIFICATE-----").unwrap(), "-----BEGIN CERTIFICATE-----");
    assert_eq!(clean("MIIB").unwrap(), "MIIB");
    assert!(clean("-----BEGIN PRIVATE KEY-----").is_some());
    for _ in 0..KEY_LINES_MAX {
        assert_eq!(clean("not the end"), None);
    }
    assert_eq!(clean("not the end").unwrap(), "not the end");
    assert!(clean("-----BEGIN USER NKEY SEED-----").is_some());
    assert!(clean("-----BEGIN USER NKEY SEED-----").is_some(), "another one begins");
    assert_eq!(clean("SU"), None);
}
