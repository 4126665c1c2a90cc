//! Nothing of a run outlives it, with and without control groups.

use std::collections::BTreeMap;
use std::process::Stdio;

use tetrarch_core::brief::{Outcome, Tools};
use tetrarch_core::id::RunId;
use tetrarch_core::order::{Exit, Order, RunnerEvent};
use tetrarch_runner::Containment;

use crate::stage::{Seen, Stage, fresh, is_alive, python, shell, soon};

/// A daemon by the book: two forks, a session of its own, its output elsewhere. The program ends
/// with the daemon's number as its deliverable. `{daemon}` is what the daemon does first.
const DAEMON: &str = r#"
read, write = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        null = os.open("/dev/null", os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        {daemon}
        os.write(write, str(os.getpid()).encode())
        while True:
            time.sleep(1000)
    os._exit(0)
print(os.read(read, 100).decode())
"#;

/// Replaces the daemon by a program with an empty environment, ready when it writes its number.
const FORGETFUL: &str = r#"os.set_inheritable(write, True); os.execve("/bin/sh", ["sh", "-c", "echo $$ >&%d; exec sleep 1000" % write], {})"#;

async fn daemon_is_gone(mut stage: Stage, daemon: &str) -> String {
    let seen = stage.run(python(&DAEMON.replace("{daemon}", daemon))).await;
    assert_eq!(seen.exit, Exit::Code(0), "{}", seen.log());
    let pid = seen.made().deliverable.clone();
    assert!(pid.parse::<u32>().is_ok(), "{pid}");
    assert!(!is_alive(&pid), "the daemon {pid} is left; {}", seen.isolation());
    assert!(seen.log().contains("processes it left behind were killed"), "{}", seen.log());
    seen.isolation().to_owned()
}

#[tokio::test]
async fn daemon_does_not_outlive_its_run() {
    daemon_is_gone(Stage::new(), "pass").await;
}

#[tokio::test]
async fn daemon_does_not_outlive_its_run_without_cgroups() {
    let isolation = daemon_is_gone(Stage::without_cgroup(), "pass").await;
    assert!(isolation.contains("no cgroup"), "{isolation}");
}

#[tokio::test]
async fn daemon_with_cleared_environment_is_held_by_the_cgroup() {
    let stage = Stage::new();
    let layers = tetrarch_runner::probe(&Containment::default(), None).layers;
    if layers.iter().any(|layer| layer.name == "cgroup v2" && layer.active) {
        let isolation = daemon_is_gone(stage, FORGETFUL).await;
        assert!(isolation.starts_with("cgroup "), "{isolation}");
    }
}

#[tokio::test]
async fn launcher_gets_no_variable_of_a_profile_by_its_name() {
    let mut stage = Stage::with(|config| {
        // What any launcher gets; it becomes no program.
        let script = "tr '\\0' '\\n' < /proc/$$/environ";
        config.containment.launcher.argv = ["/bin/sh", "-c", script].map(Into::into).to_vec();
    });
    let mut start = shell("true");
    start.brief.runner.env =
        ["LD_PRELOAD", "GLIBC_TUNABLES"].map(|name| (name.to_owned(), "given".to_owned())).to_vec();
    let seen = stage.run(start).await;
    let said = &seen.made().deliverable;
    let mut names: Vec<&str> = said.lines().filter_map(|it| Some(it.split_once('=')?.0)).collect();
    names.retain(|name| !name.starts_with('+'));
    names.sort_unstable();
    assert_eq!(names, ["TETRARCH_HOST_LIFE", "TETRARCH_RUN"], "{said}");
    assert!(said.contains("+LD_PRELOAD=given"), "{said}");
}

#[tokio::test]
async fn missing_required_isolation_fails_the_run() {
    let mut stage = Stage::with(|config| {
        config.cgroup_parent = Some(config.workspace_dir.clone());
        config.containment.required = true;
    });
    let error = stage.refused(shell("true")).await;
    assert!(error.contains("isolation is required"), "{error}");
}

/// What it tries, each with what the system says to it.
const TRIES: &str = r#"
import socket
def tried(what):
    try:
        what()
        return "done"
    except OSError as error:
        return error.strerror
outside, beside = sys.argv[1:]
print(*map(tried, [
    lambda: open("here", "w"),
    lambda: open("/dev/null", "w"),
    lambda: open(beside, "w"),
    lambda: open(outside, "w"),
    lambda: os.remove(outside),
    lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM).bind(("127.0.0.1", 0)),
    lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM),
    lambda: socket.socketpair(),
]), sep="|")
"#;

#[expect(clippy::print_stdout, reason = "what a machine cannot show is said, not passed over")]
fn layer_holds(seen: &Seen, layer: &str) -> bool {
    let holds = seen.isolation().contains(&format!("; {layer} ("));
    if !holds {
        println!("skipped: {}", seen.isolation());
    }
    holds
}

#[tokio::test]
async fn program_writes_only_in_its_directories_without_network() {
    // Not where temporary files are, which every program may write.
    let elsewhere = tempfile::tempdir_in("/var/tmp").unwrap();
    let outside = elsewhere.path().join("outside");
    std::fs::write(&outside, "kept").unwrap();
    let cache = tempfile::tempdir_in("/var/tmp").unwrap();
    for granted in [false, true] {
        let mut stage = Stage::with(|config| {
            config.containment.writable = vec![cache.path().to_owned(), "/not/there".into()];
        });
        let mut start = python(TRIES);
        if granted {
            start.brief.tools = Tools::from_iter(["network"]);
        }
        let beside = cache.path().join("beside");
        for place in [&outside, &beside] {
            start.brief.runner.argv.push(place.to_str().unwrap().to_owned());
        }
        let seen = stage.run(start).await;
        let said: Vec<&str> = seen.made().deliverable.split('|').collect();
        assert_eq!(said[..3], ["done", "done", "done"], "{seen:?}");
        assert_eq!(said[7], "done", "{seen:?}");
        if layer_holds(&seen, "landlock") {
            assert_eq!(said[3..5], ["Permission denied", "Permission denied"]);
            assert_eq!(std::fs::read_to_string(&outside).unwrap(), "kept");
        } else {
            std::fs::write(&outside, "kept").unwrap();
        }
        if layer_holds(&seen, "network") {
            let network = if granted { "done" } else { "Permission denied" };
            assert_eq!(said[5..7], [network, network]);
        }
    }
}

#[tokio::test]
async fn refused_write_or_connection_is_the_cause_of_the_failure() {
    let elsewhere = tempfile::tempdir_in("/var/tmp").unwrap();
    let outside = elsewhere.path().join("outside");
    let dir = elsewhere.path().display();
    let writes = format!("echo x > {}", outside.display());
    let connects = "import socket\nsocket.create_connection(('127.0.0.1', 9))";
    let allow = format!("; allow it with `writable: [{dir}]` in profile `default`; stderr ends: ");
    for (start, layer, cause) in [
        (
            shell(&writes),
            "landlock",
            format!("blocked by isolation: {}{allow}", outside.display()),
        ),
        (
            python(connects),
            "network",
            "blocked by isolation: the network; allow it with `tools: [network]` in profile `default`".to_owned(),
        ),
    ] {
        let mut stage = Stage::new();
        let seen = stage.run(start).await;
        if layer_holds(&seen, layer) {
            assert!(seen.made().error.contains(&cause), "{}", seen.made().error);
        }
    }

    let mut stage = Stage::new();
    let mut start = shell(&writes);
    start.brief.runner.writable =
        vec![elsewhere.path().join("new").display().to_string(), dir.to_string()];
    let seen = stage.run(start).await;
    assert_eq!(seen.exit, Exit::Code(0), "{seen:?}");
    assert!(outside.exists() && elsewhere.path().join("new").is_dir());
}

#[tokio::test]
async fn host_private_files_are_given_to_no_profile() {
    let kept = tempfile::tempdir_in("/var/tmp").unwrap();
    let hidden = kept.path().join("hidden");
    std::fs::create_dir(&hidden).unwrap();
    std::os::unix::fs::symlink(&hidden, kept.path().join("link")).unwrap();
    for place in ["", "hidden", "hidden/below", "link"] {
        let mut stage = Stage::with(|config| config.containment.hidden = vec![hidden.clone()]);
        let mut start = shell("true");
        start.brief.runner.writable = vec![kept.path().join(place).display().to_string()];
        let error = stage.refused(start).await;
        assert!(error.contains("`writable`") && error.contains("credentials"), "{place}: {error}");
    }
    assert!(!hidden.join("below").exists());
}

#[tokio::test]
async fn no_program_works_in_what_the_host_keeps_to_itself_or_around_it() {
    let kept = tempfile::tempdir_in("/var/tmp").unwrap();
    let hidden = kept.path().join("hidden");
    std::fs::create_dir_all(hidden.join("keys")).unwrap();
    std::fs::create_dir(kept.path().join("beside")).unwrap();
    std::os::unix::fs::symlink(hidden.join("keys"), kept.path().join("link")).unwrap();
    let mut stage = Stage::with(|config| {
        config.workspace_dir = hidden.join("work");
        std::fs::create_dir(&config.workspace_dir).unwrap();
        config.containment.hidden = vec![hidden.clone()];
    });
    let mut start = shell("pwd");
    let seen = stage.run(start.clone()).await;
    assert_eq!(seen.exit, Exit::Code(0), "its own directory: {seen:?}");
    for place in ["", "hidden", "hidden/keys", "hidden/work", "link", "beside/../hidden"] {
        start.run = RunId(fresh());
        start.brief.workspace = kept.path().join(place).display().to_string();
        let error = stage.refused(start.clone()).await;
        assert!(error.contains("keeps its credentials"), "{place}: {error}");
    }
    (start.run, start.brief.workspace) =
        (RunId(fresh()), kept.path().join("beside").display().to_string());
    let seen = stage.run(start).await;
    assert_eq!(seen.exit, Exit::Code(0), "{seen:?}");
}

#[tokio::test]
async fn home_and_temporary_files_are_the_runs_own_and_end_with_it() {
    let mut stage = Stage::new();
    let script = "set -e; cd; pwd; mkdir .cache/a .config/b .local/share/c; echo x > file; \
                  echo '[user]' > .gitconfig.new; mktemp; stat -c %a $TMPDIR; echo $TMPDIR";
    let seen = stage.run(shell(script)).await;
    assert_eq!(seen.exit, Exit::Code(0), "{seen:?}");
    let user = std::env::var("HOME").unwrap();
    let lines: Vec<_> = seen.made().deliverable.lines().map(str::to_owned).collect();
    let [home, file, mode, temporary] = &lines[..] else { panic!("{lines:?}") };
    assert!(home.contains("/work/.homes/run_") && *home != user, "{home}");
    assert!(file.starts_with(temporary) && temporary.contains("/tetrarch-run_"), "{lines:?}");
    assert_eq!(mode, "700");
    let removed = async {
        while [home, temporary].into_iter().any(|path| std::path::Path::new(path).exists()) {
            tokio::task::yield_now().await;
        }
    };
    soon("the removal of both", removed).await;

    let named = std::fs::read_dir(&user).unwrap().next().unwrap().unwrap().file_name();
    let script = format!("ls -d \"$HOME/{}\"", named.to_str().unwrap());
    let seen = stage.run(shell(&script)).await;
    assert_eq!(seen.exit, Exit::Code(0), "{seen:?}");

    let mut start = shell("echo $HOME $TMPDIR");
    start.brief.runner.pass_env = vec!["HOME".to_owned()];
    start.brief.runner.env = vec![("TMPDIR".to_owned(), "/var/tmp".to_owned())];
    assert_eq!(stage.run(start).await.made().deliverable, format!("{user} /var/tmp"));
}

#[tokio::test]
async fn background_child_holding_the_output_does_not_delay_the_end() {
    for mut stage in [Stage::new(), Stage::without_cgroup()] {
        let seen = stage.run(shell("sleep 1000 & echo $!")).await;
        assert_eq!(seen.made().outcome, Outcome::Success);
        assert!(!is_alive(&seen.made().deliverable));
    }
}

#[tokio::test]
async fn fork_chain_is_ended() {
    for mut stage in [Stage::new(), Stage::without_cgroup()] {
        let script = "f() { while :; do sleep 0.01 & wait; done; }; f & f & f & setsid sh -c \
            'while :; do (sleep 0.02; :) & wait; done' & echo $!";
        let seen = stage.run(shell(script)).await;
        assert!(!is_alive(&seen.made().deliverable));
    }
}

#[tokio::test]
async fn leftovers_of_an_earlier_life_are_killed_on_order() {
    let mut stage = Stage::without_cgroup();
    let left = shell("true");
    let mut program = tokio::process::Command::new("setsid")
        .args(["-w", "sh", "-c", "echo up; sleep 1000; :"])
        .env("TETRARCH_RUN", left.run.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut word = [0u8; 3];
    let mut stdout = program.stdout.take().unwrap();
    soon("the program's word", tokio::io::AsyncReadExt::read_exact(&mut stdout, &mut word))
        .await
        .unwrap();
    let waiting = tokio::spawn(async move { program.wait().await });
    stage.order(Order::Kill { run: left.run }).await;
    let seen = stage.see_the_end().await;
    assert_eq!((seen.exit, seen.made), (Exit::Signal(9), None));
    // It is a child of this process, so its sweep may have waited for it first.
    let ended = soon("the program's end", waiting).await.unwrap();
    assert!(ended.is_err() || ended.is_ok_and(|status| !status.success()));
}

#[tokio::test]
async fn concurrent_runs_do_not_disturb_each_other() {
    const RUNS: usize = 30;
    let mut stage = Stage::new();
    let mut expected = BTreeMap::new();
    for number in 0..RUNS {
        let script = format!("seq 200; sleep 1000 & echo {number}; exit {}", number % 3);
        expected.insert(stage.start(shell(&script)).await, number);
    }
    while !expected.is_empty() {
        let observed = stage.next().await;
        assert!(expected.contains_key(&observed.run), "an event after the end: {observed:?}");
        assert!(!matches!(observed.event, RunnerEvent::SpawnFailed { .. }), "{observed:?}");
        if let RunnerEvent::Exited { exit, result } = observed.event {
            let number = expected.remove(&observed.run).unwrap();
            let result = result.unwrap();
            assert_eq!(exit, Exit::Code(i32::try_from(number % 3).unwrap()));
            let output = if number % 3 == 0 { result.deliverable } else { result.partial };
            assert!(output.ends_with(&format!("\n200\n{number}")), "{number}: {output}");
        }
    }
}
