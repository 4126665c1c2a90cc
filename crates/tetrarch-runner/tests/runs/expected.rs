//! Results of programs whose brief names a schema (spec 06, The brief; docs/stdio-protocol.md).

use std::time::Duration;

use tetrarch_core::brief::{ExpectedOutput, Outcome};
use tetrarch_core::order::{Exit, RunnerEvent, Start};

use crate::stage::{Seen, Stage, python, shell};

const SCHEMA: &str =
    r#"{"type":"object","required":["n"],"properties":{"n":{"type":"integer","minimum":1}}}"#;

fn wanting(mut start: Start, schema: &str) -> Start {
    start.brief.expected_output = ExpectedOutput::Schema(schema.to_owned());
    start
}

/// What was wrong with each result that was handed back.
fn returned(seen: &Seen) -> Vec<&str> {
    let events = seen.events.iter().filter_map(|event| {
        let RunnerEvent::Returned { errors } = event else { return None };
        Some(errors.as_str())
    });
    events.collect()
}

async fn run(script: &str) -> Seen {
    Stage::new().run(wanting(python(script), SCHEMA)).await
}

#[tokio::test]
async fn valid_deliverable_is_reported_at_once() {
    let seen = run("assert brief['outputSchema']['required'] == ['n']\n\
        say('result', outcome='success', deliverable={'n': 3})")
    .await;
    let results = seen.results();
    let [(result, [])] = results.as_slice() else { panic!("{results:?}") };
    assert_eq!((result.outcome, result.deliverable.as_str()), (Outcome::Success, r#"{"n":3}"#));
    assert_eq!((&seen.exit, &seen.made), (&Exit::Code(0), &None));
    assert_eq!(returned(&seen), [""; 0]);
}

#[tokio::test]
async fn invalid_deliverable_is_returned_for_correction() {
    let seen = run(r#"
say("result", outcome="success", deliverable={"n": "three"})
told = hear()
say("result", outcome="success", deliverable={"n": 3, "told": told})
"#)
    .await;
    let results = seen.results();
    let [(result, [])] = results.as_slice() else { panic!("{results:?}") };
    assert_eq!((result.outcome, result.error.as_str()), (Outcome::Success, ""));
    let deliverable: serde_json::Value = serde_json::from_str(&result.deliverable).unwrap();
    assert_eq!(
        deliverable["told"],
        serde_json::json!({
            "type": "invalid",
            "errors": [{"path": "/n", "message": "\"three\" is not of type \"integer\""}],
        })
    );
    assert_eq!((&seen.exit, &seen.made), (&Exit::Code(0), &None));
    assert_eq!(
        returned(&seen),
        ["the deliverable does not satisfy its schema: /n: \"three\" is not of type \"integer\""]
    );
}

#[tokio::test]
async fn result_returned_before_the_session_is_not_returned_again() {
    let mut start = wanting(
        python(
            r#"say("result", outcome="success", deliverable={"n": 0}, crystallization="so far")"#,
        ),
        SCHEMA,
    );
    start.returned = 1;
    let seen = Stage::new().run(start).await;
    let results = seen.results();
    let [(result, [])] = results.as_slice() else { panic!("{results:?}") };
    assert_eq!((result.outcome, result.partial.as_str()), (Outcome::Failure, r#"{"n":0}"#));
    assert_eq!(result.crystallization, "so far");
    assert_eq!(returned(&seen), [""; 0]);
}

#[tokio::test]
async fn second_invalid_deliverable_fails_the_run_and_is_kept() {
    let seen = run(r#"
open("a", "w").write("a")
say("usage", turns=2)
say("result", outcome="success", deliverable={"n": "three"}, artifacts=[{"name": "a", "path": "a"}])
hear()
say("result", outcome="success", deliverable={"n": 0, "m": 1}, crystallization="so far",
    evidence={"tests": ["1 ok"]})
say("result", outcome="success", deliverable={"n": 1})
"#)
    .await;
    let (result, files) = seen.results()[0];
    assert_eq!(result.outcome, Outcome::Failure);
    let error = "the deliverable does not satisfy its schema: /n: 0 is less than the minimum of 1";
    assert_eq!(result.error, error);
    assert_eq!((result.partial.as_str(), result.deliverable.as_str()), (r#"{"n":0,"m":1}"#, ""));
    assert_eq!((result.crystallization.as_str(), result.usage.turns), ("so far", 2));
    assert_eq!(result.evidence.tests, ["1 ok"]);
    assert_eq!(files.len(), 1, "{files:?}");
    assert_eq!(seen.made, None);
}

#[tokio::test]
async fn exit_instead_of_a_correction_fails_the_run() {
    let seen = run(r#"
say("result", outcome="success", deliverable={}, crystallization="so far", evidence={"files": ["f"]})
hear()
say("usage", turns=7)
"#)
    .await;
    assert_eq!(seen.exit, Exit::Code(0));
    assert!(seen.results().is_empty(), "{:?}", seen.results());
    let made = seen.made();
    assert_eq!((made.outcome, made.partial.as_str()), (Outcome::Failure, "{}"));
    let error =
        "the deliverable does not satisfy its schema: (whole): \"n\" is a required property";
    assert_eq!(made.error, error);
    assert_eq!((made.crystallization.as_str(), made.usage.turns), ("so far", 7));
    assert_eq!(made.evidence.files, ["f"]);
}

#[tokio::test]
async fn files_of_a_returned_result_are_kept() {
    let seen = run("open('a', 'w').write('a')\n\
        say('result', outcome='success', artifacts=[{'name': 'a', 'path': 'a'}])")
    .await;
    let results = seen.results();
    let [(result, [file])] = results.as_slice() else { panic!("{results:?}") };
    assert_eq!((result.outcome, file.name.as_str()), (Outcome::Failure, "a"));
    assert!(result.error.contains("null is not of type \"object\""), "{}", result.error);
}

#[tokio::test]
async fn only_a_success_is_checked() {
    let seen = run(r#"
say("result", outcome="success", deliverable=1)
hear()
say("result", outcome="failure", deliverable=1, partial="half", error="gave up")
"#)
    .await;
    let (result, _) = seen.results()[0];
    assert_eq!((result.outcome, result.error.as_str()), (Outcome::Failure, "gave up"));
    assert_eq!((result.deliverable.as_str(), result.partial.as_str()), ("1", "half"));
}

#[tokio::test]
async fn plain_output_is_checked_too() {
    for (script, outcome) in [
        (r#"echo '{"n":4}'"#, Outcome::Success),
        (r#"echo '{"n":-4}'"#, Outcome::Failure),
        ("echo four", Outcome::Failure),
    ] {
        let seen = Stage::new().run(wanting(shell(script), SCHEMA)).await;
        let made = seen.made();
        assert_eq!(made.outcome, outcome, "{script}: {}", made.error);
        let schema = made.error.starts_with("the deliverable does not satisfy its schema: ");
        assert_eq!(schema, outcome == Outcome::Failure, "{}", made.error);
    }
}

#[tokio::test]
async fn program_that_never_corrects_its_result_is_ended() {
    let mut stage = Stage::new();
    let script = "say('result', outcome='success', deliverable=1)\nhear()\n\
        say('progress', text='told')\nwhile True: time.sleep(1000)";
    stage.start(wanting(python(script), SCHEMA)).await;
    stage.until(|event| matches!(event, RunnerEvent::Progress { .. })).await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(10 * 60)).await;
    tokio::time::resume();
    let seen = stage.see_the_end().await;
    assert!(matches!(seen.exit, Exit::Signal(15 | 9)), "{:?}", seen.exit);
    assert_eq!(seen.made().outcome, Outcome::Failure);
    assert!(seen.made().error.contains("schema"), "{}", seen.made().error);
}

#[tokio::test]
async fn invalid_schema_starts_nothing() {
    let mut stage = Stage::new();
    for (schema, reason) in [
        (r#"{"type":"objekt"}"#, "objekt"),
        ("no json", "expected ident"),
        (r#"{"$ref":"http://127.0.0.1:9/s"}"#, "127.0.0.1:9"),
    ] {
        let start = wanting(shell("touch started"), schema);
        let run = start.run;
        let error = stage.refused(start).await;
        assert!(error.contains("JSON Schema") && error.contains(reason), "{error}");
        assert!(!stage.dir_of(run).exists(), "{schema} was started");
    }
}
