//! Programs that speak the protocol (docs/stdio-protocol.md).

use tetrarch_core::brief::{Artifact, NodeInput, Outcome, Usage};
use tetrarch_core::id::NodeId;
use tetrarch_core::order::{Exit, RunnerEvent};

use crate::stage::{Stage, python, shell};

/// Tells one event of every kind and returns its brief.
const TELLS_ALL: &str = r#"
say("progress", text="looking", done=1, total=2)
say("usage", tokensIn=10, tokensOut=5, costUsd=0.25, turns=1)
say("usage", tokens_in=7, tokens_out=9)
say("checkpoint", state={"at": brief["checkpoint"]["at"] + 1})
say("ask", question="which?", options=["a", "b"])
answer = hear()
say("blocked", reason=answer["body"]["text"] + " from " + answer["from"])
say("unblocked")
say("spawn", requestId="r1", spawnReason="help", requestedSubagents=[{"role": "worker"}])
say("update", overseerUpdate={"status": "in_progress"})
say("op", op="todo.list", body={"status": "pending"}, requestId="01JD8Z5W6T4QK3M9X2V7B1N0AC")
say("op", op="file.list")
say("mail", to="parent", text="half is done", request_id="01JD8Z5W6T4QK3M9X2V7B1N0AC")
os.makedirs("out")
open("out/a.csv", "w").write("1,2")
say("result", outcome="success", deliverable=brief, evidence={"tests": ["1 ok"]},
    artifacts=[{"name": "table", "path": "out/a.csv", "media_type": "text/csv"}])
sys.exit(7)
"#;

#[tokio::test]
async fn program_reads_its_brief_and_sends_every_event() {
    let mut stage = Stage::new();
    let mut start = python(TELLS_ALL);
    start.checkpoint = Some(r#"{"at":4}"#.to_owned());
    let artifact = Artifact {
        name: "b".to_owned(),
        sha256: "00".to_owned(),
        size: 3,
        media_type: "text/plain".to_owned(),
    };
    start.brief.inputs = vec![NodeInput {
        node: NodeId::task(1, 1),
        name: "Fetch".to_owned(),
        deliverable: r#"{"chapters":2}"#.to_owned(),
        artifacts: vec![artifact],
    }];
    let (agent, epic) = (start.agent.to_string(), start.epic.to_string());
    let run = stage.start(start).await;
    let mut events = stage.until(|event| matches!(event, RunnerEvent::Ask { .. })).await;
    stage.mail(run, "answer", r#"{"text":"a"}"#).await;
    let seen = stage.see_the_end().await;
    events.extend(seen.events.iter().cloned());

    assert_eq!(seen.exit, Exit::Code(7));
    assert_eq!(seen.made, None, "the exit code must not overrule the result");
    let usage = Usage { tokens_in: 10, tokens_out: 9, cost_micro: 250_000, turns: 1 };
    let text = |text: &str| text.to_owned();
    let id = Some("01JD8Z5W6T4QK3M9X2V7B1N0AC".parse().unwrap());
    let (a, b) = (text("a"), text("b"));
    let expected = [
        RunnerEvent::Progress { text: text("looking"), done: Some(1), total: Some(2) },
        RunnerEvent::Usage(Usage { tokens_out: 5, ..usage }),
        RunnerEvent::Usage(usage),
        RunnerEvent::Checkpoint { state: text(r#"{"at":5}"#), confirm: false },
        RunnerEvent::Ask { id: None, question: text("which?"), options: vec![a, b] },
        RunnerEvent::Blocked { reason: text("a from PO-demo") },
        RunnerEvent::Unblocked,
        RunnerEvent::Spawn {
            request: text(
                r#"{"requestId":"r1","spawnReason":"help","requestedSubagents":[{"role":"worker"}]}"#,
            ),
        },
        RunnerEvent::Update { update: text(r#"{"status":"in_progress"}"#) },
        RunnerEvent::Operate { id, op: text("todo.list"), body: text(r#"{"status":"pending"}"#) },
        RunnerEvent::Operate { id: None, op: text("file.list"), body: text("{}") },
        RunnerEvent::Write { id, to: text("parent"), text: text("half is done") },
    ];
    assert!(matches!(events[0], RunnerEvent::Started { pid: Some(_), .. }), "{:?}", events[0]);
    assert_eq!(events[1..=expected.len()], expected);

    let results = seen.results();
    let [(result, [file])] = results.as_slice() else { panic!("{results:?}") };
    assert_eq!((result.outcome, result.usage), (Outcome::Success, usage));
    assert_eq!(result.evidence.tests, ["1 ok"]);
    let dir = stage.dir_of(run);
    assert_eq!(file.path, dir.join("out/a.csv").to_str().unwrap());
    assert_eq!((file.name.as_str(), file.media_type.as_str()), ("table", "text/csv"));

    let brief: serde_json::Value = serde_json::from_str(&result.deliverable).unwrap();
    let expected = serde_json::json!({
        "type": "brief", "protocol": 1, "agent": agent, "epic": epic, "node": "T1.2",
        "run": run.to_string(), "epoch": 3, "parent": "PO-demo", "depth": 2,
        "goal": "count the words", "keyFacts": ["there are few"], "tools": ["read"],
        "successCriteria": ["a number"], "definitionOfDone": "counted",
        "workspace": dir.to_str().unwrap(), "wallMs": null, "checkpoint": {"at": 4},
        "budget": {"tokens": 1000, "costUsd": 0.5, "turns": null},
        "inputs": [{"node": "T1.1", "name": "Fetch", "deliverable": {"chapters": 2},
            "artifacts": [{"name": "b", "sha256": "00", "size": 3, "mediaType": "text/plain"}]}],
    });
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(&brief[field], value, "{field}");
    }
}

#[tokio::test]
async fn garbage_is_log_text_and_later_events_are_parsed() {
    let mut stage = Stage::new();
    let seen = stage
        .run(python(
            r#"
out = sys.stdout.buffer
out.write(b'plain words\n\xff\xfe\x00\n{"type":\n[1,2]\n{"type":"weather"}\n\n' + b'{' * 5000 + b'\n')
out.write(b'{"type":"result","outcome":"success","deliverable":"' + b'x' * 300000 + b'"}\n')
out.flush()
say("progress", txt="misspelt")
print("a warning", file=sys.stderr, flush=True)
say("result", outcome="success", deliverable="fine")
"#,
        ))
        .await;
    let results = seen.results();
    let [(result, [])] = results.as_slice() else { panic!("{results:?}") };
    assert_eq!(result.deliverable, "fine");
    let log = seen.log();
    for part in ["plain words", "[1,2]", "weather", "a warning", "missing field `text`", "was cut"]
    {
        assert!(log.contains(part), "{part} is missing in {log}");
    }
    assert!(!seen.events.iter().any(|event| matches!(event, RunnerEvent::Progress { .. })));
}

#[tokio::test]
async fn files_outside_the_working_directory_are_refused_and_the_run_goes_on() {
    let mut stage = Stage::new();
    std::fs::write(stage.dir.path().join("secret"), "s").unwrap();
    let seen = stage
        .run(python(
            r#"
os.symlink("../../secret", "link")
open("mine", "w").write("m")
for path in ["link", "/etc/passwd", "../../secret", "missing"]:
    say("artifact", name=path, path=path)
say("artifact", name="first", path="mine")
say("result", outcome="success", artifacts=[{"name": "second", "path": "mine"},
    {"name": "third", "path": "link"}])
"#,
        ))
        .await;
    let results = seen.results();
    let [(_, files)] = results.as_slice() else { panic!("{results:?}") };
    let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, ["first", "second"]);
    let refused = seen.log().matches("artifact refused").count();
    assert_eq!(refused, 5, "{}", seen.log());
}

#[tokio::test]
async fn program_that_spoke_without_a_result_has_failed() {
    let mut stage = Stage::new();
    let script = r#"echo '{"type":"progress","text":"on it"}'; echo half; echo why >&2"#;
    let seen = stage.run(shell(script)).await;
    assert_eq!(seen.exit, Exit::Code(0));
    let made = seen.made();
    assert_eq!((made.outcome, made.partial.as_str()), (Outcome::Failure, "half"));
    assert!(made.error.starts_with("ended without a result (exit code 0)"), "{}", made.error);
    assert!(made.error.contains("why"), "{}", made.error);
}

#[tokio::test]
async fn unparsable_result_is_no_plain_success() {
    let mut stage = Stage::new();
    let seen = stage.run(shell(r#"echo '{"type":"result","outcome":"ok"}'"#)).await;
    let made = seen.made();
    assert_eq!(made.outcome, Outcome::Failure);
    assert!(made.error.contains("unknown outcome `ok`; allowed: success"), "{}", made.error);
}

#[tokio::test]
async fn every_result_is_reported_and_stdin_stays_open_after_one() {
    let mut stage = Stage::new();
    let run = stage
        .start(python(
            r#"
say("result", outcome="success", deliverable="first")
complaint = hear()
say("result", outcome="success", deliverable="second " + complaint["topic"])
"#,
        ))
        .await;
    stage.until(|event| matches!(event, RunnerEvent::Result { .. })).await;
    stage.mail(run, "info", "{}").await;
    let seen = stage.see_the_end().await;
    assert_eq!(seen.results()[0].0.deliverable, "second info");
    assert_eq!(seen.made, None);
}

#[tokio::test]
async fn files_survive_a_failure_and_a_crash_leaves_them_to_the_next_session() {
    let mut stage = Stage::new();
    let script =
        |end| format!("open('a', 'w').write('a')\nsay('artifact', name='a', path='a')\n{end}");
    let seen = stage.run(python(&script("os.abort()"))).await;
    assert_eq!((seen.results().len(), seen.exit), (0, Exit::Signal(6)));
    assert_eq!(seen.made, None);

    let seen = stage.run(python(&script("os._exit(6)"))).await;
    assert_eq!(seen.exit, Exit::Code(6));
    let results = seen.results();
    let [(result, [file])] = results.as_slice() else { panic!("{results:?}") };
    assert_eq!((result.outcome, file.name.as_str()), (Outcome::Failure, "a"));
    assert_eq!(seen.made, None);
}

/// A body that few of fill a pipe.
fn long(number: usize) -> String {
    format!(r#"{{"number":{number},"text":"{}"}}"#, "long ".repeat(400))
}

#[tokio::test]
async fn lines_read_late_by_a_busy_program_are_complete() {
    let mut stage = Stage::new();
    let script = "
while not os.path.exists('go'): time.sleep(0.01)
heard = [hear()['body']['number'] for _ in range(200)]
say('result', outcome='success', deliverable=heard == list(range(200)))
";
    let run = stage.start(python(script)).await;
    stage.until(|event| matches!(event, RunnerEvent::Started { .. })).await;
    for number in 0..200 {
        stage.post(run, "info", &long(number), number as u64 + 1).await;
    }
    stage.until(|event| matches!(event, RunnerEvent::Taken { place: 10 })).await;
    std::fs::write(stage.dir_of(run).join("go"), "").unwrap();
    let seen = stage.see_the_end().await;
    let taken = seen.events.iter().filter_map(|event| {
        if let RunnerEvent::Taken { place } = event { Some(*place) } else { None }
    });
    assert_eq!(taken.collect::<Vec<_>>(), (11..=200).collect::<Vec<u64>>());
    let results = seen.results();
    let [(result, _)] = results.as_slice() else { panic!("{results:?} {}", seen.log()) };
    assert_eq!(result.deliverable, "true", "{}", seen.log());
}

#[tokio::test]
async fn program_that_reads_nothing_is_ended_before_a_line_is_lost() {
    let mut stage = Stage::new();
    let run = stage.start(python("time.sleep(600)")).await;
    stage.until(|event| matches!(event, RunnerEvent::Started { .. })).await;
    for number in 0..600 {
        stage.mail(run, "info", &long(number)).await;
    }
    let seen = stage.see_the_end().await;
    assert_eq!(seen.exit, Exit::Signal(9));
    assert!(seen.log().contains("lines wait that its program does not read"), "{}", seen.log());
}

#[tokio::test]
async fn misspelled_event_is_explained_once_a_run_and_kind() {
    let tells = r#"
for _ in range(3):
    say("usage", inputTokens=5000)
    say("question", text="which?")
say("result", outcome="success", deliverable="done")
"#;
    let mut stage = Stage::new();
    stage.start(python(tells)).await;
    let seen = stage.see_the_end().await;
    let logged: String = seen
        .events
        .iter()
        .filter_map(|event| {
            let RunnerEvent::Log { text } = event else { return None };
            Some(format!("{text}\n"))
        })
        .collect();
    for note in ["`usage` has `inputTokens` and nothing", "probably `ask` was meant"] {
        assert_eq!(logged.matches(note).count(), 1, "{note}: {logged}");
    }
}
