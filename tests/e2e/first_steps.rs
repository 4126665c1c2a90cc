//! The small things a newcomer and an operator meet first, typed as they type them.

use tetrarch_tests::Fleet;

#[test]
fn every_configuration_error_is_reported_at_once() {
    let fleet = Fleet::prepared();
    fleet.file(
        "tetrarch.toml",
        "[liveness]\nwindow = \"soon\"\n[limits]\nmode = \"huge\"\ndepth = 1\n",
    );
    let ended = fleet.run(["--config", "tetrarch.toml", "--log", "louder", "config", "explain"]);
    assert_eq!(ended.code, Some(2), "{}", ended.err);
    for words in [
        "the configuration has 4 errors",
        "tetrarch.toml:2: liveness.window = \"soon\"",
        "tetrarch.toml:4: limits.mode = \"huge\"",
        "tetrarch.toml:5: unknown key limits.depth",
        "--log: telemetry.log = \"louder\" is not allowed; allowed: off, error",
    ] {
        assert!(ended.err.contains(words), "{words}\n{}", ended.err);
    }
}

#[test]
fn configuration_search_path_is_shown() {
    let fleet = Fleet::prepared();
    fleet.file("tetrarch.toml", "[limits]\nmode = \"tight\"\n");
    let told = fleet.ok(["--config", "tetrarch.toml", "config", "explain", "limits"]);
    assert!(told.contains("/etc/tetrarch/config.toml"), "{told}");
    assert!(told.contains("/.config/tetrarch/config.toml (not there)"), "{told}");
    assert!(told.contains("\n  tetrarch.toml\n"), "{told}");
}

/// Whoever wrote it could name a command for a key, or another server program.
#[test]
fn configuration_of_the_current_directory_is_not_read() {
    let fleet = Fleet::prepared();
    fleet.file("tetrarch.toml", "[bus]\ndata_dir = \"theirs\"\n[limits]\nmode = \"huge\"\n");
    let ended = fleet.run(["config", "explain", "bus.data_dir"]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(!ended.out.contains("theirs"), "{}", ended.out);
    assert_eq!(
        ended.err.matches("warning: ./tetrarch.toml is not read").count(),
        1,
        "{}",
        ended.err
    );
}

#[test]
fn foreign_bus_without_credential_is_refused_and_nothing_is_written() {
    let fleet = Fleet::prepared();
    let ended = fleet.run(["--url", "nats://127.0.0.1:1", "status"]);
    assert_eq!(ended.code, Some(2), "{}", ended.err);
    assert!(ended.err.contains("no credential for nats://127.0.0.1:1"), "{}", ended.err);
    assert!(ended.err.contains("--credentials"), "{}", ended.err);
    assert_eq!(std::fs::read_dir(fleet.data_dir()).unwrap().count(), 0, "nothing was written");
}

#[test]
fn operator_part_of_a_server_configuration_matches_the_whole() {
    let fleet = Fleet::prepared();
    let part = fleet.ok(["config", "operator"]);
    let whole = fleet.ok(["config", "server", "--name", "n1", "--store", "/var/lib/nats"]);
    for key in ["operator: ey", "system_account: A", "resolver: MEMORY", "resolver_preload {"] {
        assert!(part.contains(key), "{key}\n{part}");
    }
    // Tokens are made anew with their time; the keys that they are for stay.
    let accounts = |text: &str| -> Vec<String> {
        let lines = text.lines().filter_map(|line| line.trim().split_once(": ey"));
        lines.map(|(key, _)| key.to_owned()).collect()
    };
    assert_eq!(accounts(&part), accounts(&whole));
}

#[test]
fn host_credential_is_made_without_a_host() {
    let fleet = Fleet::prepared();
    let path = fleet.ok(["host", "credential", "build-2"]);
    assert_eq!(path.trim(), fleet.data_dir().join("creds/host-build-2.creds").to_str().unwrap());
    let text = std::fs::read_to_string(path.trim()).unwrap();
    assert!(text.contains("BEGIN NATS USER JWT"), "{text}");
}

#[test]
fn empty_lists_say_what_would_be_in_them() {
    let mut fleet = Fleet::up();
    for (args, words) in [
        (&["get", "goals"][..], "No goals. Create one with `tetrarch run PLAN`"),
        (&["get", "runs"], "No runs."),
        (&["get", "goals", "--state", "paused"], "No goals match."),
        (&["inbox"], "Nothing waits for you."),
        (&["change", "list"], "No changes wait for a decision."),
        (&["schedule", "list"], "No schedules."),
        (&["file", "list"], "No paths are reserved."),
        (&["worktree", "list"], "No worktrees"),
        (&["mail", "list"], "No mail."),
        (&["mail", "dead"], "No dead letters."),
        (&["artifact", "list"], "No artifacts."),
        (&["project", "list"], "No projects."),
        (&["profile", "list"], "No profiles."),
    ] {
        let ended = fleet.run(args);
        assert_eq!(ended.code, Some(0), "{args:?} {}", ended.err);
        assert!(ended.err.contains(words), "{args:?} {}", ended.err);
        assert_eq!(ended.out, "", "{args:?}");
    }
    assert_eq!(fleet.ok(["get", "goals", "-o", "json"]).trim(), "[]");
    fleet.stop();
}

#[test]
fn mail_list_leaves_out_the_answers_to_commands() {
    let mut fleet = Fleet::up();
    fleet.ok(["project", "create", "demo"]);
    assert_eq!(fleet.json(&["mail", "list"]), serde_json::json!([]));
    let replies = fleet.json(&["mail", "list", "--replies"]);
    assert_eq!(replies[0]["mail"]["topic"], "reply", "{replies}");
    fleet.stop();
}
