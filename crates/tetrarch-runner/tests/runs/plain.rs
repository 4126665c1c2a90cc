//! Programs that speak no protocol, what they see, and what cannot be started.

use std::collections::BTreeMap;
use std::path::Path;

use tetrarch_core::brief::{Outcome, RunnerKind};
use tetrarch_core::limits::OUTPUT_TAIL_BYTES;
use tetrarch_core::order::{Exit, RunnerEvent};

use crate::stage::{Seen, Stage, command, python, shell};

#[tokio::test]
async fn exit_code_0_is_success_with_its_output() {
    let mut stage = Stage::new();
    let run = shell("echo one; echo two; echo aside >&2");
    let id = run.run;
    let seen = stage.run(run).await;
    assert_eq!(seen.exit, Exit::Code(0));
    let made = seen.made();
    assert_eq!((made.outcome, made.deliverable.as_str()), (Outcome::Success, "one\ntwo"));
    assert!(seen.log().contains("aside"));
    assert!(!stage.dir_of(id).exists(), "an empty directory of its own is removed");
}

#[tokio::test]
async fn any_other_exit_is_a_failure_with_partial_output() {
    let mut stage = Stage::new();
    let seen = stage.run(shell("echo half; echo broken >&2; exit 3")).await;
    assert_eq!(seen.exit, Exit::Code(3));
    let made = seen.made();
    assert_eq!((made.outcome, made.partial.as_str()), (Outcome::Failure, "half"));
    assert!(made.error.contains("exit code 3") && made.error.contains("broken"), "{}", made.error);

    let seen = stage.run(shell("echo broken >&2; exit 139")).await;
    assert_eq!(seen.made().partial, "broken");
}

#[tokio::test]
async fn crash_has_no_result() {
    let mut stage = Stage::new();
    let seen = stage.run(shell("echo half; kill -SEGV $$")).await;
    assert_eq!((seen.exit, seen.made), (Exit::Signal(11), None));
}

/// The most memory this process has had, in bytes.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

fn assert_bounded(seen: &Seen, before: u64, end: &str) {
    assert_eq!(seen.exit, Exit::Code(0));
    assert!(seen.made().deliverable.ends_with(end));
    let kept = seen.made().deliverable.len();
    assert!(
        [OUTPUT_TAIL_BYTES - 1, OUTPUT_TAIL_BYTES].contains(&kept),
        "{kept} bytes, less a newline"
    );
    let log = seen.log();
    assert!(log.len() < 300 * 1024, "{} bytes were told", log.len());
    let grown = peak_memory() - before;
    assert!(grown < 40 * 1024 * 1024, "memory grew by {grown} bytes");
}

#[tokio::test]
async fn hundred_megabytes_of_lines_stay_bounded() {
    let mut stage = Stage::new();
    let before = peak_memory();
    let script = "yes 0123456789abcdef0123456789abcde | head -c 104857600; echo the end";
    let seen = stage.run(shell(script)).await;
    assert_bounded(&seen, before, "\nthe end");
    assert_eq!(seen.log().matches("output limit").count(), 1);
}

#[tokio::test]
async fn hundred_megabytes_in_one_line_stay_bounded() {
    let mut stage = Stage::new();
    let before = peak_memory();
    let script = "head -c 104857600 /dev/zero | tr '\\0' x; printf 'the end'";
    let seen = stage.run(shell(script)).await;
    assert_bounded(&seen, before, "xthe end");
    assert!(seen.log().contains("104857607 bytes was cut"), "{}", seen.log().len());
}

#[tokio::test]
async fn result_counts_after_the_output_limit() {
    let mut stage = Stage::new();
    let script = "print('x' * 79 + '\\n', end='' ) or [say('progress', text='y' * 1000) for _ in range(1000)]\n\
                  say('result', outcome='success', deliverable='heard')";
    let seen = stage.run(python(script)).await;
    assert_eq!(seen.results()[0].0.deliverable, "heard");
    let told = seen.events.iter().filter(|event| matches!(event, RunnerEvent::Progress { .. }));
    let told = told.count();
    assert!((200..300).contains(&told), "{told} of 1000 were told");
}

#[tokio::test]
async fn environment_is_scrubbed() {
    assert!(std::env::var_os("CARGO_PKG_NAME").is_some(), "the host has something to hide");
    let mut stage = Stage::new();
    let mut start = command(&["env"]);
    start.trace = Some("00-aa-bb-01".to_owned());
    start.brief.runner.pass_env = vec!["CARGO_PKG_VERSION".to_owned(), "ABSENT".to_owned()];
    start.brief.runner.env =
        [("MODE", "x"), ("TETRARCH_AGENT", "GO"), ("HOME", "/h")].map(own_pair).to_vec();
    let expected = [
        ("TETRARCH_AGENT", start.agent.to_string()),
        ("TETRARCH_SESSION", start.session.to_string()),
        ("TETRARCH_EPOCH", "3".to_owned()),
        ("TETRARCH_RUN", start.run.to_string()),
        ("TETRARCH_EPIC", start.epic.to_string()),
        ("TETRARCH_NODE", "T1.2".to_owned()),
        ("TETRARCH_TASK", "count the words".to_owned()),
        ("TRACEPARENT", "00-aa-bb-01".to_owned()),
        ("MODE", "x".to_owned()),
        ("HOME", "/h".to_owned()),
        ("CARGO_PKG_VERSION", std::env::var("CARGO_PKG_VERSION").unwrap()),
        ("PATH", std::env::var("PATH").unwrap()),
    ];
    let seen = stage.run(start).await;
    let mut shown: BTreeMap<&str, &str> =
        seen.made().deliverable.lines().filter_map(|line| line.split_once('=')).collect();
    for (name, value) in &expected {
        assert_eq!(shown.remove(name), Some(value.as_str()), "{name}");
    }
    let life = shown.remove("TETRARCH_HOST_LIFE").unwrap();
    assert!(life.starts_with("stage.tests."), "{life}");
    shown.retain(|name, _| !name.starts_with("LC_") && !["LANG", "TZ", "TMPDIR"].contains(name));
    assert!(shown.is_empty(), "the program also sees {shown:?}");
}

fn own_pair((name, value): (&str, &str)) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

#[tokio::test]
async fn unstartable_program_is_reported_with_a_remedy() {
    let mut stage = Stage::new();
    let error = stage.refused(command(&["no-such-agent", "-p"])).await;
    assert!(
        error.contains("`no-such-agent` or its interpreter was not found")
            && error.contains("install it"),
        "{error}"
    );
    let error = stage.refused(command(&[])).await;
    assert!(error.contains("profile `default`") && error.contains("argv"), "{error}");
    let error = stage.refused(command(&["/etc/passwd"])).await;
    assert!(error.contains("chmod +x"), "{error}");
    let mut elsewhere = shell("true");
    elsewhere.brief.workspace = "/no/such/place".to_owned();
    let error = stage.refused(elsewhere).await;
    assert!(error.contains("/no/such/place") && error.contains("create it"), "{error}");
    let mut escaping = shell("true");
    let work = stage.dir.path().join("work");
    std::os::unix::fs::symlink("/etc", work.join("link")).unwrap();
    for place in
        ["a/../../b", ".", "./", "link", "link/new", ".homes", ".homes/run_x", ".conversations/x"]
    {
        escaping.brief.workspace = place.to_owned();
        let error = stage.refused(escaping.clone()).await;
        assert!(error.contains("not a directory of its own"), "{place}: {error}");
    }
    assert!(!Path::new("/etc/new").exists());
    let mut external = shell("true");
    external.brief.runner.kind = RunnerKind::External;
    let error = stage.refused(external).await;
    assert!(error.contains("connects to the bus by itself"), "{error}");
}

#[tokio::test]
async fn relative_workspace_is_shared_below_the_work_directory() {
    let mut stage = Stage::new();
    for script in ["pwd; echo kept > note", "cat note"] {
        let mut start = shell(script);
        start.brief.workspace = "shared/place".to_owned();
        let seen = stage.run(start).await;
        assert_eq!(seen.exit, Exit::Code(0), "{}", seen.log());
    }
    assert!(stage.dir.path().join("work/shared/place/note").exists());
}

#[tokio::test]
async fn echo_answers_with_the_goal() {
    let mut stage = Stage::new();
    let mut start = command(&[]);
    start.brief.runner.kind = RunnerKind::Echo;
    let seen = stage.run(start).await;
    assert_eq!(seen.results()[0].0.deliverable, "count the words");
    assert_eq!((seen.exit, seen.made), (Exit::Code(0), None));
}
