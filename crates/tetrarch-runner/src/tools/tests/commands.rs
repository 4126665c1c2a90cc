//! Programs that tools run: what they are given, what is kept of what they say, and that nothing
//! of them stays.

use std::path::Path;

use super::*;

fn sh(script: &str) -> Value {
    json!({"argv": ["sh", "-c", script]})
}

fn is_there(pid: &str) -> bool {
    Path::new("/proc").join(pid.trim()).exists()
}

#[tokio::test]
async fn program_gets_its_arguments_verbatim() {
    let bench = Bench::with(&["run"], &[]);
    let argv = ["printf", "%s|", "a b", "$HOME", "*", ";", "`id`", ""];
    let text = bench.ok("run_command", json!({"argv": argv})).await;
    assert_eq!(text, "exit code 0\na b|$HOME|*|;|`id`||");
    bench.put("sub/x", "");
    let text = bench.ok("run_command", json!({"argv": ["ls"], "directory": "sub"})).await;
    assert_eq!(text, "exit code 0\nx\n");
    let text = bench.ok("run_command", json!({"argv": ["cat"]})).await;
    assert_eq!(text, "exit code 0\n[no output]", "standard input is empty");
}

#[tokio::test]
async fn program_end_reports_both_outputs_in_order() {
    let bench = Bench::new();
    let text = bench.error("run_command", sh("echo a; echo b >&2; echo c; exit 3")).await;
    assert_eq!(text, "exit code 3\na\nb\nc\n");
    let text = bench.error("run_command", sh("kill -9 $$")).await;
    assert_eq!(text, "ended by signal 9\n[no output]");
    let text = bench.ok("run_command", sh("seq 100000")).await;
    assert!(text.starts_with("exit code 0\n1\n2\n") && text.ends_with("99999\n100000\n"));
    assert!(text.contains(" bytes left out]") && text.len() < 40_000, "{}", text.len());
    let error = bench.error("run_command", json!({"argv": ["no-such-program-here"]})).await;
    assert_eq!(error, "`no-such-program-here` was not found on this host");
    let error = bench.error("run_command", json!({"argv": ["./none"]})).await;
    assert!(error.contains("cannot start `./none` in .: No such file"), "{error}");
    let error = bench.error("run_command", json!({"argv": ["printf", "a\0b"]})).await;
    assert!(error.contains("NUL"), "{error}");
}

#[tokio::test]
async fn only_allowed_programs_run_and_workspace_files_cannot_pose() {
    let bench = Bench::with(&["run:true", "run:tools/*"], &[]);
    bench.ok("run_command", json!({"argv": ["true"]})).await;
    for argv in [&["ls"][..], &["sh", "-c", "true"], &["./true"], &["/bin/true"], &["true; ls"]] {
        let error = bench.error("run_command", json!({"argv": argv})).await;
        assert!(error.contains("is not allowed; allowed: tools/*, true"), "{error}");
    }
    bench.put("tools/hello", "#!/bin/sh\necho hello $1\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(bench.path("tools/hello"), mode).unwrap();
    let text = bench.ok("run_command", json!({"argv": ["tools/hello", "you"]})).await;
    assert_eq!(text, "exit code 0\nhello you\n");
}

#[tokio::test]
async fn environment_holds_only_named_variables() {
    let bench = Bench::new();
    let text = bench.ok("run_command", json!({"argv": ["env"]})).await;
    let known = [
        "PATH",
        "HOME",
        "LANG",
        "TZ",
        "TMPDIR",
        "TETRARCH_RUN",
        "TETRARCH_HOST_LIFE",
        "TETRARCH_CALL",
    ];
    let mut names = 0;
    for line in text.lines().skip(1) {
        let name = line.split('=').next().unwrap();
        assert!(known.contains(&name) || name.starts_with("LC_"), "{line}");
        names += 1;
    }
    assert!(names >= 4, "{text}");
}

#[tokio::test]
#[expect(clippy::print_stdout, reason = "what a machine cannot show is said, not passed over")]
async fn command_is_contained_and_the_toolbox_reports_how() {
    let bench = Bench::with(&["run", "run:sh"], &[]);
    let isolation = bench.toolbox.isolation();
    assert!(isolation.starts_with("no cgroup; "), "{isolation}");
    let elsewhere = tempfile::tempdir_in("/var/tmp").unwrap();
    let script = format!("echo in > in && echo out > {}/out", elsewhere.path().display());
    let outcome = bench.toolbox.call("run_command", &sh(&script)).await;
    assert_eq!(bench.content("in"), "in\n");
    if isolation.contains("; landlock (") {
        assert!(outcome.is_error && !elsewhere.path().join("out").exists(), "{}", outcome.text);
    } else {
        println!("skipped: {isolation}");
    }
    assert_eq!(Bench::with(&["read"], &[]).toolbox.isolation(), "no programs");
}

#[test]
fn missing_required_isolation_disables_tools() {
    let place = tempfile::tempdir().unwrap();
    let life = HostLife::new(&HostName::new("bench").unwrap(), "i", Ulid::from_parts(1, 1));
    let made = |tools: &[&str]| {
        Toolbox::new(ToolboxConfig {
            workspace: place.path(),
            tools: &tools.iter().copied().collect(),
            permissions: &[],
            servers: &[],
            scope_paths: &[],
            run: RunId(fresh()),
            life: &life,
            containment: &Containment { required: true, ..Containment::default() },
            variables: Vec::new(),
            writable: Vec::new(),
            readable: Vec::new(),
            profile: "coder",
            cgroup: None,
            trace: None,
        })
    };
    let refused = made(&["run"]).unwrap_err().to_string();
    assert_eq!(refused, "isolation is required, but the run has no cgroup");
    made(&["read"]).unwrap();
}

/// One in a session of its own, and one that holds the output.
#[tokio::test]
async fn leftover_processes_of_a_command_are_killed() {
    let bench = Bench::new();
    let script = "setsid sleep 1000 > /dev/null 2>&1 & echo $! > left; sleep 1000 & exit 0";
    let text = bench.ok("run_command", sh(script)).await;
    assert!(text.starts_with("exit code 0; 2 processes it left behind were killed"), "{text}");
    assert!(!is_there(&bench.content("left")));
}

#[tokio::test]
async fn overlong_program_is_ended() {
    let bench = Bench::new();
    let mut call = sh("trap '' TERM; echo up; sleep 1000 & wait; wait; sleep 1000");
    call["timeout_seconds"] = json!(1);
    let text = bench.error("run_command", call).await;
    assert!(text.starts_with("ended by signal 9; it was ended after 1 s"), "{text}");
    assert!(text.ends_with("\nup\n"), "{text}");
}

#[tokio::test]
async fn dropped_call_is_cleaned_up_before_the_next() {
    let bench = Bench::new();
    bench.pipe("up");
    let pids = {
        let call = sh("setsid sleep 1000 & echo $$ $! > up; wait");
        tokio::select! {
            outcome = bench.toolbox.call("run_command", &call) => panic!("{outcome:?}"),
            // Read when the program has written it.
            pids = tokio::fs::read_to_string(bench.path("up")) => pids.unwrap(),
        }
    };
    let pids: Vec<&str> = pids.split_whitespace().collect();
    assert_eq!(pids.len(), 2, "{pids:?}");
    let script = format!("ls -d /proc/{} /proc/{} 2>/dev/null; true", pids[0], pids[1]);
    assert_eq!(bench.ok("run_command", sh(&script)).await, "exit code 0\n[no output]");
}
