//! What a program leaves in a worktree besides the change that was shown: what is merged is what was approved, and nothing
//! of it runs or is written over.

use tetrarch_core::change::ApplyOutcome;
use tetrarch_runner::{Containment, WorktreeState, worktrees};

use crate::repository::Repository;
use crate::stage::Stage;
use crate::worktree::{apply, kept_in, order, work};

/// Has `main` merge two branches, of which one has the file `x` and the other `y`.
fn forked(repository: &Repository) {
    repository.git(&["checkout", "--quiet", "-b", "other"]);
    repository.write("y", "y\n");
    repository.commit("y");
    repository.git(&["checkout", "--quiet", "main"]);
    repository.write("x", "x\n");
    repository.commit("x");
    repository.git(&["merge", "--quiet", "--no-edit", "other"]);
    repository.git(&["branch", "--quiet", "-D", "other"]);
}

fn is_applied(outcome: &ApplyOutcome) -> bool {
    matches!(outcome, ApplyOutcome::Applied { .. })
}

#[tokio::test]
async fn merge_commit_with_the_tree_of_one_parent_reverts_nothing() {
    let mut stage = Stage::new();
    let repository = Repository::new(&stage);
    forked(&repository);
    let script = r#"set -e
        x=$(git rev-parse HEAD^1); y=$(git rev-parse HEAD^2)
        base=$(git merge-base HEAD $(git commit-tree -p $x -p $y -m t $x^{tree}))
        git read-tree --reset -u $base; echo harmless > note; git add note
        git reset -q --hard $(git commit-tree $(git write-tree) -p $x -p $y -m note)"#;
    let (start, made) = work(&mut stage, &repository, script).await;
    assert_eq!(made.action.files, ["note"]);
    let order = order(&made, &start, 1);
    let outcome = apply(&mut stage, order.clone()).await;
    assert!(is_applied(&outcome), "{outcome:?}");
    let files = repository.git(&["ls-tree", "--name-only", "main"]);
    assert_eq!(files, "a\nnote\nsrc\nx\ny");
    let message = repository.git(&["log", "-1", "--format=%B", "main"]);
    assert!(message.contains(&format!("Tetrarch-Head: {}", made.action.head)), "{message}");
    assert_eq!(apply(&mut stage, order).await, outcome, "it is found to be merged");
    while repository.branches() != "main" {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn commit_on_a_proposed_one_neither_merges_nor_drops_it() {
    let mut stage = Stage::new();
    let repository = Repository::new(&stage);
    let (first, one) = work(&mut stage, &repository, "echo 1 > one").await;
    let script = format!(
        "set -e; git reset -q --hard {}; git rm -q one; echo 2 > two; git add two; git commit -qm two",
        one.action.head
    );
    let (second, two) = work(&mut stage, &repository, &script).await;
    assert_eq!(two.action.files, ["two"]);
    let outcome = apply(&mut stage, order(&two, &second, 2)).await;
    assert!(is_applied(&outcome), "{outcome:?}");
    assert_eq!(repository.git(&["ls-tree", "--name-only", "main"]), "a\nsrc\ntwo");
    let outcome = apply(&mut stage, order(&one, &first, 1)).await;
    assert!(is_applied(&outcome), "{outcome:?}");
    assert_eq!(repository.git(&["ls-tree", "--name-only", "main"]), "a\none\nsrc\ntwo");
}

#[tokio::test]
async fn change_of_a_file_renamed_meanwhile_is_not_merged() {
    let mut stage = Stage::new();
    let repository = Repository::new(&stage);
    let (start, made) = work(&mut stage, &repository, "echo four >> a").await;
    repository.git(&["mv", "a", "moved"]);
    let tip = repository.commit("moved");
    let outcome = apply(&mut stage, order(&made, &start, 1)).await;
    let ApplyOutcome::Conflicted { files, reason } = &outcome else { panic!("{outcome:?}") };
    assert!(files == &["moved"] && reason.contains("not shown"), "{outcome:?}");
    assert_eq!(repository.git(&["rev-parse", "main"]), tip);
}

#[tokio::test]
async fn change_made_on_what_the_branch_lost_is_refused() {
    let mut stage = Stage::new();
    let repository = Repository::new(&stage);
    let (start, made) = work(&mut stage, &repository, "echo 1 > one").await;
    repository.git(&["commit", "--quiet", "--amend", "-m", "another first"]);
    let tip = repository.git(&["rev-parse", "main"]);
    let outcome = apply(&mut stage, order(&made, &start, 1)).await;
    let ApplyOutcome::Refused { reason } = &outcome else { panic!("{outcome:?}") };
    assert!(reason.contains("no longer has"), "{reason}");
    assert_eq!(repository.git(&["rev-parse", "main"]), tip);
}

#[tokio::test]
async fn submodule_that_is_to_be_ignored_is_shown() {
    let mut stage = Stage::new();
    let repository = Repository::new(&stage);
    let module = "[submodule \"lib\"]\n\tpath = lib\n\turl = ./lib\n\tignore = all\n";
    repository.write(".gitmodules", module);
    let head = repository.commit("ignored");
    repository.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{head},lib")]);
    repository.git(&["commit", "--quiet", "-m", "link"]);
    let other = repository.git(&["rev-parse", "HEAD"]);
    let script = format!(
        "set -e; echo four >> a; git add a; git update-index --add --cacheinfo 160000,{other},lib; git commit -qm x"
    );
    let (_, made) = work(&mut stage, &repository, &script).await;
    assert_eq!(made.action.files, ["a", "lib"]);
}

#[tokio::test]
async fn change_that_adds_what_the_checkout_ignores_is_conflicted() {
    let mut stage = Stage::new();
    let repository = Repository::new(&stage);
    repository.write(".gitignore", "kept\nlinked\n");
    repository.commit("ignore");
    let act = "echo new > kept; mkdir linked; echo new > linked/in; git add -f kept linked; git commit -qm x";
    let (start, made) = work(&mut stage, &repository, act).await;
    assert_eq!(made.action.files, ["kept", "linked/in"]);
    repository.write("kept", "the user's own");
    let away = stage.dir.path().join("away");
    std::fs::create_dir(&away).unwrap();
    std::os::unix::fs::symlink(&away, repository.0.join("linked")).unwrap();
    let outcome = apply(&mut stage, order(&made, &start, 1)).await;
    let ApplyOutcome::Conflicted { files, reason } = &outcome else { panic!("{outcome:?}") };
    assert_eq!(files, &["kept", "linked/in"], "{reason}");
    assert_eq!(repository.read("kept").unwrap(), "the user's own");
    assert!(std::fs::read_dir(&away).unwrap().next().is_none());
}

#[tokio::test]
async fn worktree_whose_change_was_merged_elsewhere_is_listed_as_applied() {
    let mut stage = Stage::new();
    let repository = Repository::new(&stage);
    let (_, made) = work(&mut stage, &repository, "echo n > n").await;
    let state =
        async |stage: &Stage| worktrees(&kept_in(stage), &Containment::default()).await[0].state;
    assert_eq!(state(&stage).await, WorktreeState::Unapplied);
    let tree = format!("{}^{{tree}}", made.action.head);
    let shown = repository.git(&["commit-tree", &tree, "-p", "main", "-m", "shown"]);
    let message = format!("Apply\n\nTetrarch-Head: {}", made.action.head);
    let merge = repository.git(&["commit-tree", &tree, "-p", "main", "-p", &shown, "-m", &message]);
    repository.git(&["update-ref", "refs/heads/main", &merge]);
    assert_eq!(state(&stage).await, WorktreeState::Applied);
}

#[tokio::test]
async fn approved_change_is_merged_by_a_host_that_has_no_worktrees() {
    let mut stage = Stage::new();
    let repository = Repository::new(&stage);
    let (start, made) = work(&mut stage, &repository, "echo c > src/c").await;
    // A restored installation has the repository and the bus, and a new directory.
    std::fs::remove_dir_all(kept_in(&stage)).unwrap();
    let outcome = apply(&mut stage, order(&made, &start, 1)).await;
    assert!(matches!(outcome, ApplyOutcome::Applied { .. }), "{outcome:?}");
    assert_eq!(repository.read("src/c").unwrap(), "c\n");
}
