//! Worktrees that are kept until somebody decides: how many a goal has, and what people find in them.

use std::path::Path;
use std::process::Command;

use tetrarch_core::order::{RunnerEvent, Start};
use tetrarch_runner::{Containment, worktrees};

use crate::repository::Repository;
use crate::stage::Stage;
use crate::worktree::{kept_in, work};

#[tokio::test]
async fn goal_with_many_undecided_changes_leaves_worktrees_to_others() {
    let mut stage = Stage::with(|config| config.worktrees_max = 3);
    let repository = Repository::new(&stage);
    let goal = repository.apart("true").epic;
    let of_it = |script: &str| Start { epic: goal, ..repository.apart(script) };
    for script in ["echo 1 > one", "echo 2 > two"] {
        stage.run(of_it(script)).await;
    }
    let error = stage.refused(of_it("echo 3 > three")).await;
    assert!(error.contains(&format!("goal {goal} has 2 of this host's 3 worktrees")), "{error}");
    assert!(error.contains("tetrarch change list"), "{error}");
    work(&mut stage, &repository, "echo 4 > four").await;
    let kept = worktrees(&kept_in(&stage), &Containment::default()).await;
    let of: Vec<bool> = kept.iter().map(|it| it.goal == goal.to_string()).collect();
    assert_eq!(of, [true, true, false]);
}

/// What git says to whoever uses it in a worktree that is kept.
fn said_in(tree: &Path, args: &[&str]) -> String {
    let mut git = Command::new("git");
    let said = git.args(args).current_dir(tree).env("HOME", "/nonexistent").output().unwrap();
    String::from_utf8(said.stdout).unwrap().trim().to_owned()
}

#[tokio::test]
async fn settings_that_a_program_left_are_gone_from_a_kept_worktree() {
    for repository_of_its_own in ["true", "rm .git; git init -q; git add n; git commit -qm n"] {
        let mut stage = Stage::new();
        let repository = Repository::new(&stage);
        let act = format!("echo n > n; {repository_of_its_own}; git config core.fsmonitor ./evil");
        let (_, made) = work(&mut stage, &repository, &act).await;
        assert_eq!(made.action.files, ["n"]);
        let kept = worktrees(&kept_in(&stage), &Containment::default()).await;
        let tree = kept[0].dir.join("tree");
        assert_eq!(said_in(&tree, &["config", "core.fsmonitor"]), "");
        assert_eq!(said_in(&tree, &["status", "--porcelain"]), "", "it is at its last commit");
        assert_eq!(said_in(&tree, &["rev-parse", "HEAD"]), made.action.head);
    }
}

#[tokio::test]
async fn next_life_of_a_host_clears_settings_that_programs_left() {
    let mut first = Stage::new();
    let repository = Repository::new(&first);
    let act = "read brief; echo n > n; git add n; git commit -qm n; git config core.fsmonitor ./evil; \
               mkdir hooks; echo evil > hooks/pre-commit; git config core.hooksPath hooks; echo ready; read go";
    let start = repository.apart(act);
    first.start(start.clone()).await;
    first.until(|event| matches!(event, RunnerEvent::Log { text } if text == "ready")).await;
    let tree = {
        let kept = worktrees(&kept_in(&first), &Containment::default()).await;
        kept[0].dir.join("tree")
    };
    assert_eq!(said_in(&tree, &["config", "core.fsmonitor"]), "./evil", "it is there");
    let committed = said_in(&tree, &["rev-parse", "HEAD"]);
    first.serving.abort();
    let home = first.dir.path().to_owned();
    let mut next = Stage::with(|config| {
        config.workspace_dir = home.join("work");
        config.worktrees_dir = home.join("worktrees");
    });
    // What is ordered comes after it.
    next.run(crate::stage::shell("true")).await;
    assert_eq!(said_in(&tree, &["config", "core.fsmonitor"]), "");
    assert_ne!(said_in(&tree, &["config", "core.hooksPath"]), "hooks");
    assert_eq!(said_in(&tree, &["rev-parse", "HEAD"]), committed, "what it committed stays");
    assert_eq!(said_in(&tree, &["status", "--porcelain"]), "?? hooks/", "and its files");
}

#[tokio::test]
async fn settings_are_gone_where_what_a_program_left_cannot_be_committed() {
    let mut stage = Stage::new();
    let repository = Repository::new(&stage);
    let act = "read brief; echo n > n; git config core.fsmonitor ./evil; echo ready; read go";
    let run = stage.start(repository.apart(act)).await;
    stage.until(|event| matches!(event, RunnerEvent::Log { text } if text == "ready")).await;
    // Nobody can move its branch.
    let lock = repository.0.join(format!(".git/refs/heads/tetrarch/{run}.lock"));
    std::fs::create_dir(&lock).unwrap();
    stage.mail(run, "go", "{}").await;
    let log = stage.see_the_end().await.log();
    assert!(log.contains("cannot be proposed") && log.contains("in no repository"), "{log}");
    let kept = worktrees(&kept_in(&stage), &Containment::default()).await;
    let tree = kept[0].dir.join("tree");
    assert!(log.contains(tree.canonicalize().unwrap().to_str().unwrap()), "{log}");
    assert_eq!(said_in(&tree, &["config", "core.fsmonitor"]), "");
    assert_eq!(std::fs::read_to_string(tree.join("n")).unwrap(), "n\n");
    assert!(kept[0].dir.join("aside/git/config").exists(), "what it committed is not lost");
}
