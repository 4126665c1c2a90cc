//! Work in worktrees and the gate before the branch it is for, as people meet it (spec 06, 08, 09): what
//! is applied, what conflicts, what is denied, refused, out of its time; and a host that is killed in
//! the middle of a merge.

use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use tetrarch_tests::{Fleet, Process, wait};

use crate::chaos::pid;
use crate::storm::pillars;

/// A repository whose branch `main` is checked out.
pub(crate) struct Repository(pub(crate) PathBuf);

impl Repository {
    pub(crate) fn new(fleet: &Fleet) -> Self {
        Self::at(fleet.cwd().join("repository"))
    }

    fn at(path: PathBuf) -> Self {
        let it = Self(path);
        std::fs::create_dir(&it.0).unwrap();
        it.git(&["init", "--quiet", "--initial-branch=main"]);
        std::fs::write(it.0.join("a"), "one\ntwo\nthree\n").unwrap();
        it.git(&["add", "a"]);
        it.git(&["commit", "--quiet", "-m", "first"]);
        it
    }

    fn git(&self, args: &[&str]) -> String {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]).args(args);
        let done = command.current_dir(&self.0).env("GIT_CONFIG_GLOBAL", "/dev/null");
        let done = done.output().unwrap();
        assert!(done.status.success(), "git {args:?}: {done:?}");
        String::from_utf8(done.stdout).unwrap().trim_end().to_owned()
    }

    pub(crate) fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.0.join(file)).unwrap_or_default()
    }
}

/// Works on tasks that are each a shell script in a worktree, one after the other; what `run` said.
pub(crate) fn work(fleet: &Fleet, repository: &Path, scripts: &[(&str, Value)]) -> String {
    let mut tasks = Vec::new();
    let mut profiles = json!({});
    for (place, (script, more)) in scripts.iter().enumerate() {
        let (id, profile) = (format!("T1.{}", place + 1), format!("p{place}"));
        let mut task = json!({"id": id, "name": id, "profile": profile, "acceptance": ["done"]});
        if place > 0 {
            task["deps"] = json!([format!("T1.{place}")]);
        }
        task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        tasks.push(task);
        profiles[profile] = json!({
            "argv": ["sh", "-c", script],
            "workspace": repository.to_str().unwrap(),
            "worktree": "isolated",
            "wall": "60s",
        });
    }
    let plan = json!({
        "project": "gated",
        "goal": {"title": "Change files"},
        "phases": [{"id": "P1", "name": "Change", "tasks": tasks}],
        "profiles": profiles,
    });
    let plan = fleet.file("gated.json", &plan.to_string());
    let ended = fleet.run(["run", plan.to_str().unwrap()]);
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.out, ended.err);
    ended.err
}

/// The change that came of a task.
pub(crate) fn change(fleet: &Fleet, node: &str) -> Value {
    let all = fleet.json(&["change", "list", "--closed"]);
    let found = all.as_array().unwrap().iter().find(|change| change["node"] == node);
    found.unwrap_or_else(|| panic!("no change of {node}: {all}")).clone()
}

pub(crate) fn id(change: &Value) -> String {
    change["id"].as_str().unwrap().to_owned()
}

fn refused(fleet: &Fleet, args: &[&str], word: &str) {
    let ended = fleet.run(args);
    assert_eq!(ended.code, Some(5), "{args:?}: {}{}", ended.out, ended.err);
    assert!(ended.err.contains(word), "{args:?}: {word}: {}", ended.err);
}

#[test]
fn commit_of_an_agent_under_required_isolation_merges_by_approval() {
    let layers = tetrarch_runner::probe(&tetrarch_runner::Containment::default(), None).layers;
    let word = if layers.iter().all(|layer| layer.active) { "required" } else { "best" };
    // Neither the repository nor the data directory is where temporary files are, which every program may write.
    let elsewhere = tempfile::tempdir_in("/var/tmp").unwrap();
    let temporary = elsewhere.path().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let fleet = Fleet::prepared()
        .with_env("TETRARCH_HOST_ISOLATION", word)
        .with_env("TMPDIR", temporary.to_str().unwrap())
        .started();
    let repository = Repository::at(elsewhere.path().join("repository"));
    let script =
        "set -e; echo four >> a; git add a; git commit -qm 'Add four'; git status --porcelain";
    work(&fleet, &repository.0, &[(script, json!({}))]);
    let change = change(&fleet, "T1.1");
    assert_eq!(change["status"], "proposed", "{change}");
    fleet.ok(["approve", &id(&change), "--apply"]);
    assert_eq!(repository.read("a"), "one\ntwo\nthree\nfour\n");
    assert_eq!(
        repository.git(&["rev-parse", "main^2^{tree}"]),
        repository.git(&["rev-parse", "main^{tree}"])
    );
    let said = repository.git(&["log", "--format=%an %s", "main"]);
    assert!(!said.contains("Add four"), "what its own commits say was shown to nobody: {said}");
}

#[test]
fn change_is_merged_once_by_human_approval() {
    let fleet = Fleet::up();
    let repository = Repository::new(&fleet);
    let base = repository.git(&["rev-parse", "main"]);
    let hostile = r#"printf 'x\033[2J\n' > "$(printf 'new\nline\033[31m')"; echo four >> a"#;
    let src = json!({"scopePaths": ["src/**"]});
    let said = work(
        &fleet,
        &repository.0,
        &[
            ("sed -i s/two/2/ a", json!({})),
            ("sed -i s/two/zwei/ a; echo 2 > second", json!({})),
            (hostile, json!({})),
            ("echo x > lib", src),
            ("cat a", json!({})),
        ],
    );
    assert_eq!(repository.git(&["rev-parse", "main"]), base, "nothing is merged by itself");
    let approve = format!("approve {} --apply", id(&change(&fleet, "T1.1")));
    assert!(said.contains("Waits ") && said.contains(&approve), "run says what waits: {said}");
    let waiting = fleet.json(&["inbox"]);
    let kinds: Vec<&Value> = waiting.as_array().unwrap().iter().map(|it| &it["kind"]).collect();
    assert_eq!(kinds, ["change"; 3], "{waiting}");
    assert_eq!(waiting[0]["node"], "T1.1", "what holds up most stands first: {waiting}");
    assert_eq!(fleet.json(&["inbox", "--as", "somebody"]), json!([]));
    assert_eq!(change(&fleet, "T1.4")["status"], "refused", "it is out of its scope");

    // What is shown is what is stored, and moves no cursor.
    let third = change(&fleet, "T1.3");
    let shown = fleet.ok(["change", "show", &id(&third)]);
    assert!(shown.contains("x\\u{1b}[2J") && shown.contains("new\\nline"), "{shown}");
    assert!(!shown.contains('\u{1b}') && shown.contains("merge refs/heads/tetrarch/"), "{shown}");

    let first = id(&change(&fleet, "T1.1"));
    refused(&fleet, &["apply", &first], "it has no approval");
    refused(&fleet, &["approve", &first, "--digest", &"0".repeat(64)], "review it again");
    let digest = change(&fleet, "T1.1")["digest"].as_str().unwrap().to_owned();
    fleet.ok(["approve", &first, "--digest", &digest]);
    refused(&fleet, &["approve", &first], "already approved");
    fleet.ok(["apply", &first]);
    assert_eq!(repository.read("a"), "one\n2\nthree\n", "the files that are checked out follow");
    assert_eq!(repository.git(&["status", "--porcelain"]), "");
    let said = repository.git(&["log", "-1", "--format=%B", "main"]);
    assert!(said.contains("Approved-by: human:ada") && said.contains(&first), "{said}");
    refused(&fleet, &["apply", &first], "already used");
    refused(&fleet, &["deny", &first, "--reason", "late"], "applied");

    // The second changed the same line: it conflicts, and nothing of it is there.
    let second = id(&change(&fleet, "T1.2"));
    let tip = repository.git(&["rev-parse", "main"]);
    refused(&fleet, &["approve", &second, "--apply"], "a");
    assert_eq!(repository.git(&["rev-parse", "main"]), tip);
    assert_eq!(
        (repository.read("second").as_str(), repository.read("a").as_str()),
        ("", "one\n2\nthree\n")
    );
    let waits = fleet.json(&["inbox"]);
    let conflicted = waits.as_array().unwrap().iter().find(|it| it["id"] == second.as_str());
    let conflicted = conflicted.unwrap_or_else(|| panic!("{waits}"));
    assert_eq!(
        (&conflicted["status"], &conflicted["conflicts"]),
        (&json!("conflicted"), &json!(["a"]))
    );
    fleet.ok(["deny", &second, "--reason", "the first one stays"]);
    refused(&fleet, &["approve", &second], "the first one stays");

    fleet.ok(["approve", &id(&third), "--apply"]);
    assert_eq!(repository.read("a"), "one\n2\nthree\nfour\n");
    assert_eq!(fleet.json(&["inbox"]), json!([]));
    leftovers(&fleet, &repository, &second);
    let why = fleet.ok(["events", "--kind", "change.decided", "-o", "json"]);
    assert_eq!(why.lines().count(), 4, "{why}");
    fleet.ok(["doctor", "--check-ledger"]);
}

/// What was denied or refused is kept until somebody names it.
fn leftovers(fleet: &Fleet, repository: &Repository, denied: &str) {
    let kept = wait::until("what was applied is cleared", || {
        let kept = fleet.json(&["worktree", "ls"]);
        (kept.as_array().unwrap().len() == 2).then_some(kept)
    });
    let kept = kept.as_array().unwrap().iter().find(|it| it["change"] == denied).unwrap().clone();
    assert_eq!((&kept["state"], &kept["changeStatus"]), (&json!("unapplied"), &json!("denied")));
    let run = kept["run"].as_str().unwrap();
    let shown = fleet.ok(["worktree", "show", run, "--host", "h1"]);
    assert!(shown.contains("unapplied") && shown.contains(denied), "{shown}");
    refused(
        fleet,
        &["worktree", "remove", run, "--yes", "--host", "h1"],
        "has commits that are not in refs/heads/main",
    );
    fleet.ok(["worktree", "remove", run, "--force", "--yes", "--host", "h1"]);
    assert_eq!(repository.git(&["worktree", "list"]).lines().count(), 2);
    let none = fleet.run(["worktree", "show", run, "--host", "h1"]);
    assert_eq!(none.code, Some(3), "{}", none.err);
}

#[test]
fn approval_expires() {
    let fleet = Fleet::prepared().with_env("TETRARCH_PEOPLE_APPROVAL_TTL", "1s").started();
    let repository = Repository::new(&fleet);
    let base = repository.git(&["rev-parse", "main"]);
    work(&fleet, &repository.0, &[("echo four >> a", json!({}))]);
    let waits = wait::until("it expires", || {
        Some(change(&fleet, "T1.1")).filter(|change| change["status"] == "expired")
    });
    refused(&fleet, &["approve", &id(&waits)], "stay on refs/heads/tetrarch/");
    refused(&fleet, &["apply", &id(&waits)], "expired");
    assert_eq!(repository.git(&["rev-parse", "main"]), base);
    expired_is_merged_by_hand_and_put_away(&fleet, &repository);
    fleet.ok(["doctor", "--check-ledger"]);
}

/// What its obstacle and the refusal say helps.
fn expired_is_merged_by_hand_and_put_away(fleet: &Fleet, repository: &Repository) {
    fleet.ok(["wait", "@last", "--for", "completed", "--timeout", "30s"]);
    let commands = fleet.json(&["inbox"])[0]["commands"].clone();
    let words = |place: usize| shlex::split(commands[place].as_str().unwrap()).unwrap();
    let typed = |words: &[String]| fleet.run(words[1..].iter().filter(|word| *word != "--force"));
    let mut remove = words(1);
    remove.push("--yes".to_owned());
    let kept = typed(&remove);
    assert_eq!(kept.code, Some(5), "{}", kept.err);
    let (_, named) = kept.err.split_once("merge its branch ").unwrap();
    repository.git(&["merge", "--quiet", named.split(' ').next().unwrap()]);
    let removed = typed(&remove);
    assert_eq!(removed.code, Some(0), "{}", removed.err);
    let archived = typed(&words(2));
    assert_eq!(archived.code, Some(0), "{}", archived.err);
    assert_eq!(fleet.json(&["inbox"]), json!([]));
}

#[test]
fn change_needing_two_people_is_merged_by_both() {
    let fleet = Fleet::prepared().with_env("TETRARCH_PEOPLE_APPROVALS", "2").started();
    let repository = Repository::new(&fleet);
    let base = repository.git(&["rev-parse", "main"]);
    let script = "printf 'p\\320\\260ss\\342\\200\\256\\342\\200\\213' > a";
    work(&fleet, &repository.0, &[(script, json!({}))]);
    let waits = id(&change(&fleet, "T1.1"));
    // What is approved by its digest shows what would pass for something else.
    let shown = fleet.ok(["change", "show", &waits]);
    assert!(shown.contains("p\\u{430}ss\\u{202e}\\u{200b}"), "{shown}");
    assert!(shown.contains("0 of 2 people"), "{shown}");
    let asked = |who: &str| fleet.json(&["inbox", "--as", who]).as_array().unwrap().len();
    assert_eq!((asked("ada"), asked("ben")), (1, 1));

    fleet.ok(["approve", &waits]);
    refused(&fleet, &["approve", &waits], "has already approved");
    refused(&fleet, &["apply", &waits], "1 of 2 required approvals");
    assert_eq!((asked("ada"), asked("ben")), (0, 1), "it waits for the other one");
    let inbox = fleet.ok(["inbox", "--as", "ben"]);
    assert!(inbox.contains("1 of 2 approvals"), "{inbox}");
    assert_eq!(repository.git(&["rev-parse", "main"]), base);

    fleet.ok(["approve", &waits, "--as", "ben", "--apply"]);
    let said = repository.git(&["log", "-1", "--format=%B", "main"]);
    assert!(said.contains("Approved-by: human:ada\nApproved-by: human:ben"), "{said}");
    let shown = fleet.ok(["change", "show", &waits]);
    assert!(shown.contains("human:ada at") && shown.contains("human:ben at"), "{shown}");
    fleet.ok(["doctor", "--check-ledger"]);
}

#[test]
fn change_is_approved_by_an_approver_and_merged_by_an_operator() {
    let fleet = Fleet::up();
    for (name, role) in [("olga", "operator"), ("axel", "approver")] {
        fleet.ok(["creds", "issue", &format!("human:{name}"), "--role", role]);
    }
    let repository = Repository::new(&fleet);
    work(&fleet, &repository.0, &[("echo four >> a", json!({}))]);
    let waits = id(&change(&fleet, "T1.1"));
    for words in [&["approve", &waits][..], &["deny", &waits, "--reason", "no"]] {
        let refused = fleet.run(words.iter().chain(&["--as", "olga"]));
        assert_eq!(refused.code, Some(4), "{words:?}: {}", refused.err);
        let why = "approval.decide requires the role approver; human:olga has the role operator";
        assert!(refused.err.contains(why), "{}", refused.err);
    }
    assert_eq!(change(&fleet, "T1.1")["status"], "proposed");
    fleet.ok(["approve", &waits, "--as", "axel"]);
    fleet.ok(["apply", &waits, "--as", "olga"]);
    let said = repository.git(&["log", "-1", "--format=%B", "main"]);
    assert!(said.contains("Approved-by: human:axel"), "{said}");
    fleet.ok(["doctor", "--check-ledger"]);
}

/// A `git` that stands still at the moment when the branch is moved: the first time before, the second time
/// after. It is kept within bounds in which it cannot end its host itself.
fn treacherous(fleet: &Fleet) -> String {
    let path = std::env::var("PATH").unwrap();
    let git = std::env::split_paths(&path).map(|dir| dir.join("git")).find(|git| git.is_file());
    let (git, dir) = (git.unwrap(), fleet.cwd().join("bin"));
    std::fs::create_dir(&dir).unwrap();
    let (git, here) = (git.display(), dir.display());
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *update-ref*refs/heads/main*)\n\
         if mkdir {here}/before 2>/dev/null; then exec sleep 600; fi\n\
         if mkdir {here}/after 2>/dev/null; then {git} \"$@\"; touch {here}/after/moved; exec sleep 600; fi;;\n\
         esac\nexec {git} \"$@\"\n"
    );
    let shim = fleet.file("bin/git", &script);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(shim, mode).unwrap();
    format!("{here}:{path}")
}

#[test]
fn merge_of_a_killed_host_is_made_once_by_its_next_life() {
    let fleet = Fleet::prepared();
    let path = treacherous(&fleet);
    let fleet = fleet.with_env("PATH", path).started();
    let repository = Repository::new(&fleet);
    let more = ("echo more > more", json!({}));
    work(&fleet, &repository.0, &[("echo four >> a", json!({})), more]);
    let ends: [(&str, &str, &[&str]); 2] =
        [("T1.1", "a", &["before", "after/moved"]), ("T1.2", "more", &[])];
    for (node, file, stands_still) in ends {
        let waits = id(&change(&fleet, node));
        let applying = fleet.spawn(["approve", &waits, "--apply"]);
        for reached in stands_still {
            let reached = fleet.cwd().join("bin").join(reached);
            wait::until("git stands still", || reached.exists().then_some(()));
            let is_host = |one: &Process| one.command.contains(" host ");
            let host = pillars(&fleet).into_iter().find(is_host).unwrap();
            kill_process(pid(&host), Signal::KILL).unwrap();
        }
        let ended = applying.ended();
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        let applied = change(&fleet, node);
        let tip = repository.git(&["rev-parse", "main"]);
        assert_eq!((&applied["status"], &applied["commit"]), (&json!("applied"), &json!(tip)));
        assert_eq!(repository.git(&["status", "--porcelain"]), "", "{file}");
    }
    assert_eq!(
        (repository.read("a").lines().count(), repository.read("more").as_str()),
        (4, "more\n")
    );
    assert_eq!(repository.git(&["rev-list", "--merges", "--count", "main"]), "2");
    for marker in ["before", "after"] {
        assert!(fleet.cwd().join("bin").join(marker).is_dir(), "{marker}");
    }
    let joined = fleet.ok(["events", "--kind", "host.joined", "-o", "json"]);
    assert_eq!(joined.lines().count(), 3, "two lives of the host ended: {joined}");
    fleet.ok(["doctor", "--check-ledger"]);
}
