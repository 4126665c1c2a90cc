//! Runs that work apart from the repository: what they change is kept and told, and merged only as it
//! was approved.

use std::path::{Path, PathBuf};
use std::process::Command;

use tetrarch_core::brief::{Tools, Worktree};
use tetrarch_core::change::{ApplyOrder, ApplyOutcome, Made};
use tetrarch_core::id::{ChangeId, Ulid, sha256_hex};
use tetrarch_core::order::{Exit, LocalFile, Order, RunnerEvent, Start};
use tetrarch_core::time::BusTime;
use tetrarch_runner::{Containment, WorktreeState, remove_worktree, worktrees};

use crate::repository::Repository;
use crate::stage::{Seen, Stage};

fn change(seen: &Seen) -> Option<(&Made, &LocalFile)> {
    seen.events.iter().find_map(|event| {
        if let RunnerEvent::Changed { made, diff } = event { Some((&**made, diff)) } else { None }
    })
}

pub(crate) fn order(made: &Made, start: &Start, change: u128) -> ApplyOrder {
    ApplyOrder {
        change: ChangeId(Ulid(change)),
        run: start.run,
        digest: made.action.digest(),
        action: made.action.clone(),
        branch: made.branch.clone(),
        message: format!("Apply {}", made.branch),
        at: BusTime(1_700_000_000_000),
        host_epoch: 1,
    }
}

pub(crate) async fn apply(stage: &mut Stage, order: ApplyOrder) -> ApplyOutcome {
    stage.order(Order::Apply(Box::new(order))).await;
    let event = stage.next().await.event;
    let RunnerEvent::Settled { outcome, .. } = event else { panic!("{event:?}") };
    outcome
}

/// Runs a script apart and gives what it changed.
pub(crate) async fn work(
    stage: &mut Stage,
    repository: &Repository,
    script: &str,
) -> (Start, Made) {
    let start = repository.apart(script);
    let seen = stage.run(start.clone()).await;
    let (made, _) = change(&seen).unwrap_or_else(|| panic!("{:?}", seen.events));
    (start, made.clone())
}

pub(crate) fn kept_in(stage: &Stage) -> PathBuf {
    stage.dir.path().join("worktrees")
}

#[tokio::test]
async fn run_works_in_its_worktree_and_reports_its_change_before_the_end() {
    let mut stage = Stage::new();
    let repository = Repository::new(&stage);
    let base = repository.git(&["rev-parse", "HEAD"]);
    let start = repository.apart(
        "pwd; git config user.name x; git config user.email x@x; echo four >> a; git commit -qam \
         half; echo new > src/c; rm src/b; git update-index --assume-unchanged a; echo five >> a",
    );
    let seen = stage.run(start.clone()).await;
    assert_eq!(seen.exit, Exit::Code(0));
    let (made, diff) = change(&seen).unwrap();
    assert_eq!(made.action.files, ["a", "src/b", "src/c"]);
    assert_eq!((made.additions, made.deletions, made.salvaged), (3, 1, false));
    assert_eq!(
        (made.action.base.as_str(), made.action.target.as_str()),
        (&*base, "refs/heads/main")
    );
    assert_eq!(made.branch, format!("refs/heads/tetrarch/{}", start.run));
    assert_eq!(repository.git(&["rev-parse", &made.branch]), made.action.head);
    assert_eq!(made.action.flaw(), None);
    let bytes = std::fs::read(&diff.path).unwrap();
    assert_eq!((sha256_hex(&bytes), bytes.len() as u64), (made.action.diff.clone(), made.size));
    assert!(String::from_utf8(bytes).unwrap().contains("+four\n+five\n"));
    assert_eq!(diff.media_type, "text/x-diff");
    assert!(matches!(seen.events.last(), Some(RunnerEvent::Changed { .. })), "{:?}", seen.events);
    assert_eq!(repository.git(&["status", "--porcelain"]), "", "its own files are as they were");
    assert_eq!(repository.git(&["rev-parse", "main"]), base);
    assert!(
        seen.made()
            .deliverable
            .starts_with(kept_in(&stage).canonicalize().unwrap().to_str().unwrap())
    );
    let author = repository.git(&["log", "-1", "--format=%an <%ae>", &made.branch]);
    assert_eq!(author, "Tetrarch <tetrarch@localhost>");
}

#[tokio::test]
async fn reviewer_sees_the_work_as_it_was_left() {
    let mut stage = Stage::new();
    let repository = Repository::new(&stage);
    let (made, _) = work(&mut stage, &repository, "echo four >> a").await;
    let mut review = repository.apart("cat a");
    review.brief.judges = Some(made.agent);
    let seen = stage.run(review).await;
    assert_eq!(seen.made().deliverable, "one\ntwo\nthree\nfour");
    assert!(change(&seen).is_none(), "it changed nothing of its own: {:?}", seen.events);
    let mut stranger = repository.apart("cat a");
    stranger.brief.judges = Some("W:00000000000000000000000009".parse().unwrap());
    let seen = stage.run(stranger).await;
    assert_eq!(seen.made().deliverable, "one\ntwo\nthree");
}

#[tokio::test]
async fn change_containing_a_known_secret_is_kept_and_not_proposed() {
    tetrarch_core::redaction::know(b"known-to-the-host-01").unwrap();
    let mut stage = Stage::new();
    let repository = Repository::new(&stage);
    let start = repository.apart("echo known-to-the-host-01 | base64 > key");
    let seen = stage.run(start.clone()).await;
    assert!(change(&seen).is_none(), "{:?}", seen.events);
    let told = format!("{:?}", seen.events);
    assert!(told.contains("cannot be proposed: git diff failed: it has a secret in it"), "{told}");
    let branch = format!("refs/heads/tetrarch/{}", start.run);
    assert!(repository.git(&["ls-tree", "--name-only", &branch]).contains("key"));
}

#[tokio::test]
async fn run_without_changes_leaves_nothing() {
    let mut stage = Stage::new();
    let repository = Repository::new(&stage);
    let seen = stage.run(repository.apart("cat a")).await;
    assert!(change(&seen).is_none(), "{:?}", seen.events);
    assert_eq!(repository.branches(), "main");
    assert!(worktrees(&kept_in(&stage), &Containment::default()).await.is_empty());
    assert_eq!(repository.git(&["worktree", "list"]).lines().count(), 1);
}

#[tokio::test]
async fn worktree_use_follows_from_brief_and_workspace() {
    let mut stage = Stage::new();
    let repository = Repository::new(&stage);
    let outside = stage.dir.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    let place = |worktree, workspace: &Path| {
        let mut start = repository.apart("pwd");
        start.brief.worktree = worktree;
        start.brief.workspace = workspace.to_str().unwrap().to_owned();
        start
    };
    for (start, apart, ending) in [
        (place(Worktree::None, &repository.0), false, "repo"),
        (place(Worktree::Auto, &repository.0), true, "tree"),
        (place(Worktree::Auto, &repository.0.join("src")), true, "tree/src"),
        (place(Worktree::Auto, &outside), false, "outside"),
    ] {
        let seen = stage.run(start.clone()).await;
        let text = &seen.made().deliverable;
        assert!(text.trim_end().ends_with(ending), "{text}");
        assert_eq!(text.contains(&start.run.to_string()), apart, "{text}");
    }
    let error = stage.refused(place(Worktree::Isolated, &outside)).await;
    assert!(error.contains("in a git repository") && error.contains("outside"), "{error}");
    repository.git(&["checkout", "--quiet", "--detach"]);
    let error = stage.refused(place(Worktree::Isolated, &repository.0)).await;
    assert!(error.contains("check out the branch"), "{error}");
    for (tools, expected) in [
        (&["read", "list"][..], Worktree::None),
        (&[], Worktree::None),
        (&["read", "write"], Worktree::Auto),
        (&["edit"], Worktree::Auto),
        (&["run"], Worktree::Auto),
        (&["*"], Worktree::Auto),
    ] {
        let tools: Tools = tools.iter().copied().collect();
        assert_eq!(Worktree::of_tools(&tools), expected, "{tools:?}");
    }
}

#[tokio::test]
async fn next_session_continues_in_the_worktree_of_the_crashed_one() {
    let mut stage = Stage::new();
    let repository = Repository::new(&stage);
    let first = repository.apart("echo half > half; kill -KILL $$");
    let seen = stage.run(first.clone()).await;
    assert_eq!((seen.exit.clone(), change(&seen).is_some()), (Exit::Signal(9), false));
    let said = repository.git(&["log", "-1", "--format=%s", &format!("tetrarch/{}", first.run)]);
    assert!(said.starts_with("Salvage"), "{said}");
    let mut next = repository.apart("cat half; echo whole > whole");
    next.agent = first.agent.clone();
    next.epoch = 2;
    let seen = stage.run(next).await;
    assert_eq!(seen.made().deliverable, "half");
    assert!(seen.log().contains("goes on in the worktree of"), "{}", seen.log());
    let (made, _) = change(&seen).unwrap();
    assert_eq!(made.action.files, ["half", "whole"]);
    assert_eq!(made.branch, format!("refs/heads/tetrarch/{}", first.run));
}

#[tokio::test]
async fn changes_of_a_failed_run_are_salvaged() {
    let mut stage = Stage::new();
    let repository = Repository::new(&stage);
    let seen = stage.run(repository.apart("echo half > half; exit 3")).await;
    let (made, _) = change(&seen).unwrap();
    assert!(made.salvaged && made.action.files == ["half"], "{made:?}");
}

#[tokio::test]
async fn leftovers_of_a_killed_git_block_nobody() {
    let mut stage = Stage::new();
    let repository = Repository::new(&stage);
    let script = "echo x > x; dir=$(git rev-parse --absolute-git-dir); touch $dir/index.lock \
                  $dir/HEAD.lock; common=$(git rev-parse --path-format=absolute --git-common-dir); \
                  touch $common/$(git symbolic-ref HEAD).lock; kill -KILL $$";
    let first = repository.apart(script);
    stage.run(first.clone()).await;
    // As if the host had died while the worktree was made: no program has seen it.
    let place = kept_in(&stage).join(first.run.to_string());
    let about = std::fs::read_to_string(place.join("about.json")).unwrap();
    let mut about: serde_json::Value = serde_json::from_str(&about).unwrap();
    about["gitdir"] = serde_json::Value::Null;
    std::fs::write(place.join("about.json"), about.to_string()).unwrap();
    std::fs::remove_file(place.join("tree/a")).unwrap();
    let mut next = repository.apart("cat a x");
    (next.agent, next.epoch) = (first.agent, 2);
    let seen = stage.run(next).await;
    assert_eq!(seen.made().deliverable, "one\ntwo\nthree\nx");
    assert_eq!(change(&seen).unwrap().0.action.files, ["x"]);
    // Nor does anybody's tidying forget it, on a disk that is not there for a while.
    std::fs::rename(place.join("tree"), place.join("away")).unwrap();
    repository.git(&["worktree", "prune", "--expire=now"]);
    std::fs::rename(place.join("away"), place.join("tree")).unwrap();
    assert_eq!(repository.git(&["worktree", "list"]).lines().count(), 2);
}

#[tokio::test]
async fn approved_change_is_merged_once_however_often_ordered() {
    let mut stage = Stage::new();
    let repository = Repository::new(&stage);
    let (start, made) = work(&mut stage, &repository, "echo four >> a; echo c > src/c").await;
    repository.write("other", "meanwhile\n");
    let old = repository.commit("meanwhile");
    let order = order(&made, &start, 1);
    let outcome = apply(&mut stage, order.clone()).await;
    let ApplyOutcome::Applied { commit } = &outcome else { panic!("{outcome:?}") };
    assert_eq!(repository.git(&["rev-parse", "main"]), *commit);
    // What its own commits say besides the diff comes into nobody's branch.
    assert_eq!(repository.git(&["rev-parse", "main^1"]), old);
    assert_eq!(repository.git(&["rev-parse", "main^2^"]), made.action.base);
    let trees = ["main^2^{tree}".to_owned(), format!("{}^{{tree}}", made.action.head)];
    let [shown, head] = trees.map(|tree| repository.git(&["rev-parse", &tree]));
    assert_eq!(shown, head);
    let said = repository.git(&["log", "-1", "--format=%B", "main"]);
    assert!(said.contains(&format!("\nTetrarch-Head: {}", made.action.head)), "{said}");
    assert_eq!(repository.read("a").unwrap(), "one\ntwo\nthree\nfour\n", "its files follow");
    assert_eq!(repository.git(&["status", "--porcelain"]), "");
    assert_eq!(apply(&mut stage, order).await, outcome);
    while !worktrees(&kept_in(&stage), &Containment::default()).await.is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(repository.branches(), "main");
}

#[tokio::test]
async fn conflicting_change_is_not_merged_at_all() {
    let mut stage = Stage::new();
    let repository = Repository::new(&stage);
    let (one, first) = work(&mut stage, &repository, "sed -i s/two/2/ a; echo 1 > one").await;
    let (two, second) = work(&mut stage, &repository, "sed -i s/two/zwei/ a; echo 2 > two").await;
    let merged = apply(&mut stage, order(&first, &one, 1)).await;
    assert!(matches!(merged, ApplyOutcome::Applied { .. }), "{merged:?}");
    let tip = repository.git(&["rev-parse", "main"]);
    let outcome = apply(&mut stage, order(&second, &two, 2)).await;
    let ApplyOutcome::Conflicted { files, .. } = &outcome else { panic!("{outcome:?}") };
    assert_eq!(files, &["a"]);
    assert_eq!(repository.git(&["rev-parse", "main"]), tip);
    assert_eq!(repository.git(&["status", "--porcelain"]), "");
    assert_eq!(repository.read("two"), None);
}

#[tokio::test]
async fn uncommitted_work_in_the_way_of_a_merge_is_kept() {
    let mut stage = Stage::new();
    let repository = Repository::new(&stage);
    let (start, made) = work(&mut stage, &repository, "echo four >> a; echo new > new").await;
    let tip = repository.git(&["rev-parse", "main"]);
    repository.write("a", "mine\n");
    let outcome = apply(&mut stage, order(&made, &start, 1)).await;
    let ApplyOutcome::Conflicted { files, reason } = &outcome else { panic!("{outcome:?}") };
    assert!(files == &["a"] && reason.contains("commit or stash"), "{outcome:?}");
    assert_eq!(repository.read("a").unwrap(), "mine\n");
    repository.git(&["checkout", "--quiet", "a"]);
    repository.write("new", "mine too\n");
    let outcome = apply(&mut stage, order(&made, &start, 1)).await;
    assert!(matches!(outcome, ApplyOutcome::Conflicted { .. }), "{outcome:?}");
    assert_eq!(repository.read("new").unwrap(), "mine too\n");
    assert_eq!(repository.git(&["rev-parse", "main"]), tip);
    assert_eq!(repository.git(&["status", "--porcelain", "--untracked-files=no"]), "");
}

#[tokio::test]
async fn unapproved_content_is_refused() {
    let mut stage = Stage::new();
    let repository = Repository::new(&stage);
    let (start, made) = work(&mut stage, &repository, "echo four >> a").await;
    let tip = repository.git(&["rev-parse", "main"]);
    let good = order(&made, &start, 1);
    let mut other = good.clone();
    other.action.files = vec!["b".to_owned()];
    let mut foreign = other.clone();
    foreign.digest = foreign.action.digest();
    let mut gone = good.clone();
    gone.action.target = "refs/heads/none".to_owned();
    gone.digest = gone.action.digest();
    for (order, word) in [(other, "approved"), (foreign, "diff is"), (gone, "was not found")] {
        let outcome = apply(&mut stage, order).await;
        let ApplyOutcome::Refused { reason } = &outcome else { panic!("{outcome:?}") };
        assert!(reason.contains(word), "{word}: {reason}");
    }
    // Somebody puts more on the branch after it was looked at.
    let tree = repository.git(&["rev-parse", "main^{tree}"]);
    let more = repository.git(&["commit-tree", &tree, "-p", &made.action.head, "-m", "more"]);
    repository.git(&["update-ref", &made.branch, &more]);
    let outcome = apply(&mut stage, good).await;
    assert!(
        matches!(&outcome, ApplyOutcome::Refused { reason } if reason.contains(&more)),
        "{outcome:?}"
    );
    assert_eq!(repository.git(&["rev-parse", "main"]), tip);
}

#[tokio::test]
async fn interrupted_merge_is_finished() {
    let mut stage = Stage::new();
    let repository = Repository::new(&stage);
    let (start, made) = work(&mut stage, &repository, "echo four >> a; rm src/b; echo n > n").await;
    let order = order(&made, &start, 1);
    let old = repository.git(&["rev-parse", "main"]);
    let tree = repository.git(&["merge-tree", "--write-tree", &old, &made.action.head]);
    let commit = |args: &[&str]| {
        let dated = |name| (name, "1700000000 +0000");
        let mut commit = Command::new("git");
        commit.arg("commit-tree").args(args).current_dir(&repository.0);
        commit.envs(["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"].map(|it| (it, "Tetrarch")));
        let addresses = ["GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"];
        commit.envs(addresses.map(|it| (it, "tetrarch@localhost")));
        commit.envs(["GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"].map(dated));
        String::from_utf8(commit.output().unwrap().stdout).unwrap().trim().to_owned()
    };
    let head = format!("{}^{{tree}}", made.action.head);
    let shown = commit(&[&head, "-p", &made.action.base, "-m", &order.message]);
    let message = format!("{}\nTetrarch-Head: {}\n", order.message.trim_end(), made.action.head);
    let new = commit(&[&tree, "-p", &old, "-p", &shown, "-m", &message]);
    let landing = kept_in(&stage).join(format!("{}.landing", order.change));
    std::fs::write(landing, serde_json::json!({"old": old, "new": new}).to_string()).unwrap();
    // Some files are there already, one half; the index is locked by a git that is gone.
    repository.write("a", "one\ntw");
    std::fs::remove_file(repository.0.join("src/b")).unwrap();
    std::fs::write(repository.0.join(".git/index.lock"), "").unwrap();
    repository.write("mine", "not tracked\n");
    let outcome = apply(&mut stage, order).await;
    assert_eq!(outcome, ApplyOutcome::Applied { commit: new.clone() });
    assert_eq!(repository.git(&["rev-parse", "main"]), new);
    assert_eq!(repository.git(&["status", "--porcelain"]), "?? mine");
    assert_eq!(repository.read("a").unwrap(), "one\ntwo\nthree\nfour\n");
}

#[tokio::test]
async fn repository_hooks_do_not_run_and_names_are_literal() {
    let mut stage = Stage::new();
    let repository = Repository::new(&stage);
    let trap = stage.dir.path().join("trap");
    let trapped = format!("touch {}", trap.display());
    for hook in
        ["post-checkout", "pre-commit", "post-commit", "reference-transaction", "post-index-change"]
    {
        let path = repository.0.join(".git/hooks").join(hook);
        std::fs::write(&path, format!("#!/bin/sh\n{trapped}\n")).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, mode).unwrap();
    }
    repository.git(&["config", "core.fsmonitor", &trapped]);
    repository.git(&["config", "diff.external", &trapped]);
    repository.git(&["config", "diff.hidden.textconv", &trapped]);
    let script = r#"echo '* -diff diff=hidden' > .gitattributes; printf 'shown\n' > 'a b'
        printf x > "$(printf 'new\nline')"; printf x > "$(printf 'esc\033[31m')"; printf x > '*'
        mkdir '{a,b}'; printf x > '{a,b}/c'; printf x > -- ; printf x > --help"#;
    let (start, made) = work(&mut stage, &repository, script).await;
    assert!(!trap.exists());
    let expected =
        ["*", "--", "--help", ".gitattributes", "a b", "esc\u{1b}[31m", "new\nline", "{a,b}/c"];
    assert_eq!(made.action.files, expected);
    let place = worktrees(&kept_in(&stage), &Containment::default()).await.remove(0);
    let diff = std::fs::read_to_string(place.dir.join("change.diff")).unwrap();
    assert!(diff.contains("+shown"), "attributes hide nothing: {diff}");
    let outcome = apply(&mut stage, order(&made, &start, 1)).await;
    assert!(matches!(outcome, ApplyOutcome::Applied { .. }), "{outcome:?}");
    assert!(!trap.exists());
    assert_eq!(repository.read("new\nline").unwrap(), "x");
}

#[tokio::test]
async fn worktree_with_unapplied_work_is_removed_only_by_force() {
    let mut stage = Stage::with(|config| config.worktrees_max = 2);
    let repository = Repository::new(&stage);
    let (one, first) = work(&mut stage, &repository, "echo 1 > one").await;
    let (two, _) = work(&mut stage, &repository, "echo 2 > two").await;
    let error = stage.refused(repository.apart("true")).await;
    assert!(error.contains("has 2 worktrees and the limit is 2"), "{error}");
    let dir = kept_in(&stage);
    let kept = worktrees(&dir, &Containment::default()).await;
    assert!(kept.iter().all(|it| it.state == WorktreeState::Unapplied && it.bytes > 0), "{kept:?}");
    let run = two.run.to_string();
    let error = remove_worktree(&dir, &run, false, &Containment::default()).await.unwrap_err();
    assert!(error.to_string().contains("has commits that are not in refs/heads/main"), "{error}");
    assert!(remove_worktree(&dir, "run_none", true, &Containment::default()).await.is_err());
    remove_worktree(&dir, &run, true, &Containment::default()).await.unwrap();
    assert_eq!(worktrees(&dir, &Containment::default()).await.len(), 1);
    repository.git(&["merge", "--quiet", &first.branch]);
    assert_eq!(worktrees(&dir, &Containment::default()).await[0].state, WorktreeState::Applied);
    let kept = dir.join(one.run.to_string()).join("tree");
    std::fs::write(kept.join("late"), "more").unwrap();
    let state = &worktrees(&dir, &Containment::default()).await[0];
    assert_eq!((state.state, state.uncommitted), (WorktreeState::Unapplied, 1));
    std::fs::remove_file(kept.join("late")).unwrap();
    remove_worktree(&dir, &one.run.to_string(), false, &Containment::default()).await.unwrap();
    assert_eq!(repository.branches(), "main");
    assert_eq!(repository.git(&["worktree", "list"]).lines().count(), 1);
}
