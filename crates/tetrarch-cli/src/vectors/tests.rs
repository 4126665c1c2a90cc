//! The project's own vectors hold, each of their expectations can fail, and a case that cannot
//! be run says why.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::case::MACHINES;
use super::*;

fn golden(machine: &str) -> PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/vectors");
    PathBuf::from(folder).join(format!("{machine}.jsonl"))
}

fn checked(files: &[PathBuf]) -> (bool, String) {
    let mut out = Vec::new();
    let passed = check(files, &mut out).unwrap();
    (passed, String::from_utf8(out).unwrap())
}

#[test]
fn own_vectors_pass() {
    let files = MACHINES.map(|(machine, _)| golden(machine));
    let cases: usize = files.iter().map(|file| lines(&read(file).unwrap()).count()).sum();
    let (passed, report) = checked(&files);
    assert!(passed, "{report}");
    assert_eq!(report, format!("{cases} passed, 0 failed\n"));
}

#[test]
fn every_expectation_of_every_vector_can_fail() {
    for (machine, _) in MACHINES {
        let text = fs::read_to_string(golden(machine)).unwrap();
        for line in text.lines() {
            let case: Value = serde_json::from_str(line).unwrap();
            let then = case["then"].as_object().unwrap();
            assert!(!then.is_empty(), "{line}");
            for key in then.keys() {
                let mut wrong = case.clone();
                wrong["then"][key] = json!(424_242.5);
                assert!(failure_of(&wrong.to_string()).is_some(), "{key} of {line}");
            }
        }
    }
}

const GOOD: &str = r#"{"id":"good","machine":"node","given":{"state":"todo"},"when":{"to":"queued"},"then":{"state":"queued"}}"#;
const BAD: &str = r#"{"id":"bad","machine":"node","given":{"state":"todo"},"when":{"to":"done"},"then":{"state":"done"}}"#;

#[test]
fn failing_case_shows_position_expected_and_actual() {
    let mut out = Vec::new();
    let text = [GOOD, "", BAD, GOOD].join("\n");
    let counts = check_cases(Path::new("some.jsonl"), &text, &mut out).unwrap();
    assert_eq!((counts.passed, counts.failed), (2, 1));
    let report = String::from_utf8(out).unwrap();
    let shown: Vec<&str> = report.lines().collect();
    assert_eq!(shown[0], "FAIL bad (some.jsonl:3)");
    assert_eq!(shown[1], r#"  expected: {"state":"done"}"#);
    assert!(shown[2].starts_with("  actual:   {"), "{report}");
    assert!(shown[2].contains("illegal_transition"), "{report}");
    assert_eq!(shown.len(), 3, "{report}");
}

#[test]
fn unreadable_file_is_named() {
    let error = check(&[PathBuf::from("no/such.jsonl")], &mut Vec::new()).unwrap_err();
    assert!(error.to_string().contains("no/such.jsonl"), "{error}");
}

#[test]
fn unrunnable_case_fails_with_its_reason() {
    let case = |machine: &str, given: Value, when: Value| {
        json!({"id": "x", "machine": machine, "given": given, "when": when, "then": {}}).to_string()
    };
    let queued = json!({"to": "queued"});
    for (line, expected) in [
        ("{".to_owned(), "not a JSON object"),
        ("[]".to_owned(), "case: unknown value []"),
        (r#"{"id":"x","machine":"node","then":{},"than":{}}"#.to_owned(), "case.than: unknown key"),
        (
            r#"{"machine":"goal","when":{"to":"paused"},"then":{}}"#.to_owned(),
            "case.id: is missing",
        ),
        (r#"{"id":"x","machine":"goal","when":{"to":"paused"}}"#.to_owned(), "then: "),
        (r#"{"id":"x","when":{"to":"paused"},"then":{}}"#.to_owned(), "case.machine: is missing"),
        (case("tack", json!({}), json!({})), r#"case.machine: unknown value "tack""#),
        (case("node", json!([]), queued.clone()), "given: unknown value []"),
        (case("node", json!({"stat": "todo"}), queued.clone()), "given.stat: unknown key"),
        (
            case("node", json!({"state": "tod"}), queued.clone()),
            r#"given.state: unknown value "tod""#,
        ),
        (case("node", json!({"evidence": 1}), queued), "given.evidence: unknown value 1"),
        (case("node", json!({}), json!({})), "when.to: is missing"),
        (
            case("run", json!({}), json!({"event": "explode"})),
            r#"when.event: unknown value "explode""#,
        ),
        (case("identity", json!({"text": "GO"}), json!({"x": 1})), "when.x: unknown key"),
        (case("rollup", json!({"phases": [{"id": "T1.1"}]}), json!({})), "given.phases[0].id"),
        (case("budget", json!({"limit": -1}), json!({})), "given.limit: unknown value -1"),
        (case("budget", json!({"limit": "9"}), json!({})), "given.limit: unknown value"),
        (
            case("admission", json!({"parent": {"roles": 1}}), json!({"requests": []})),
            "given.parent.roles: unknown key",
        ),
        (
            case("admission", json!({}), json!({"requests": [{"role": "coder"}]})),
            r#"when.requests[0].role: unknown value "coder""#,
        ),
    ] {
        let (_, report) = failure_of(&line).expect(&line);
        assert!(report.contains(expected), "{line}: {report}");
    }
}

#[test]
fn one_failing_case_fails_the_run() {
    let (passed, report) = checked(&[]);
    assert!(passed);
    assert_eq!(report, "0 passed, 0 failed\n");
    let manifest = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
    let (passed, report) = checked(&[golden("goal"), manifest]);
    assert!(!passed);
    assert!(report.lines().last().unwrap().starts_with("25 passed, "), "{report}");
}

#[test]
fn verbose_run_shows_outcomes() {
    let unreadable = r#"{"id":"odd","machine":"node","when":{"to":"gone"}}"#;
    let mut out = Vec::new();
    run_cases(&[GOOD, unreadable, "{"].join("\n"), &mut out).unwrap();
    let shown: Vec<Value> = String::from_utf8(out)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(shown[0], json!({"id": "good", "then": {"state": "queued"}}));
    assert_eq!(shown[1]["id"], "odd");
    assert!(shown[1]["error"].as_str().unwrap().contains("when.to"), "{}", shown[1]);
    assert_eq!(shown[2]["id"], "line 3");
    assert_eq!(shown.len(), 3);
}
