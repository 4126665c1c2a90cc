//! Directories that a program made a link of: whoever works there next has no rights to what the link leads to.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use tempfile::TempDir;
use tetrarch_core::brief::Worktree;
use tetrarch_core::order::Exit;

use crate::repository::Repository;
use crate::stage::{Stage, fresh, shell};

/// A directory of the user's that no run is given; not where temporary files are.
fn victim() -> TempDir {
    tempfile::tempdir_in("/var/tmp").unwrap()
}

fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).unwrap().next().is_none()
}

/// The script that makes a link to the victim of `src`, and writes there what it can.
fn swap(victim: &TempDir) -> String {
    format!("mv src moved; ln -s {} src", victim.path().display())
}

#[tokio::test]
async fn later_session_has_no_rights_to_what_a_link_leads_to() {
    let victim = victim();
    let mut stage = Stage::new();
    let repository = Repository::new(&stage);
    let mut first = repository.apart(&format!("cd ..; {}; kill -KILL $$", swap(&victim)));
    first.brief.workspace = repository.0.join("src").display().to_string();
    let seen = stage.run(first.clone()).await;
    assert_eq!(seen.exit, Exit::Signal(9), "{seen:?}");
    let mut next = first.clone();
    next.brief.runner.argv = shell("echo > pwned").brief.runner.argv;
    (next.run.0, next.epoch) = (fresh(), 2);
    stage.start(next).await;
    let told = stage.until_refused().await;
    assert!(told.contains("is outside of its worktree"), "{told}");
    assert!(is_empty(victim.path()));
}

#[tokio::test]
async fn reviewer_has_no_rights_to_what_a_committed_link_leads_to() {
    for sub in ["src", "src/deep"] {
        let victim = victim();
        let mut stage = Stage::new();
        let repository = Repository::new(&stage);
        repository.write("src/deep/c", "c\n");
        repository.commit("deep");
        let work = repository.apart(&swap(&victim));
        let seen = stage.run(work.clone()).await;
        assert_eq!(seen.exit, Exit::Code(0), "{seen:?}");
        let mut review = repository.apart("echo > pwned");
        review.brief.workspace = repository.0.join(sub).display().to_string();
        review.brief.judges = Some(work.agent);
        stage.start(review).await;
        let told = stage.until_refused().await;
        assert!(told.contains("workspace") && told.contains(sub), "{told}");
        assert!(is_empty(victim.path()), "{sub}");
    }
}

#[tokio::test]
async fn workspace_that_became_a_link_is_refused() {
    let (victim, project) = (victim(), tempfile::tempdir_in("/var/tmp").unwrap());
    fs::create_dir(project.path().join("src")).unwrap();
    let mut stage = Stage::new();
    let mut first = shell(&swap(&victim));
    first.brief.workspace = project.path().display().to_string();
    assert_eq!(stage.run(first).await.exit, Exit::Code(0));
    Repository::at(victim.path().join("repo"));
    for worktree in [Worktree::None, Worktree::Auto, Worktree::Isolated] {
        for place in ["src", "src/repo", "moved/../src"] {
            let mut next = shell("echo > pwned");
            next.brief.workspace = project.path().join(place).display().to_string();
            next.brief.worktree = worktree;
            let error = stage.refused(next).await;
            assert!(error.contains("/src is a link") && error.contains("real path"), "{error}");
        }
    }
}

#[tokio::test]
async fn relative_workspace_that_became_a_link_is_refused() {
    let mut stage = Stage::new();
    let work = stage.dir.path().join("work");
    fs::create_dir_all(work.join("other")).unwrap();
    fs::create_dir(work.join("shared")).unwrap();
    symlink("../other", work.join("shared/src")).unwrap();
    let mut start = shell("echo > pwned");
    start.brief.workspace = "shared/src".to_owned();
    let error = stage.refused(start).await;
    assert!(error.contains("not a directory of its own"), "{error}");
}

#[tokio::test]
async fn writable_place_that_became_a_link_is_refused() {
    let (victim, project) = (victim(), tempfile::tempdir_in("/var/tmp").unwrap());
    symlink(victim.path(), project.path().join("cache")).unwrap();
    let mut stage = Stage::new();
    for place in ["cache", "cache/new"] {
        let mut start = shell("true");
        start.brief.runner.writable = vec![project.path().join(place).display().to_string()];
        let error = stage.refused(start).await;
        assert!(error.contains("`writable`") && error.contains("/cache is a link"), "{error}");
    }
    assert!(is_empty(victim.path()));
}

#[tokio::test]
async fn place_of_the_host_that_becomes_a_link_gives_no_rights() {
    let (victim, project) = (victim(), tempfile::tempdir_in("/var/tmp").unwrap());
    let cache = project.path().join("cache");
    fs::create_dir(&cache).unwrap();
    let mut stage = Stage::with(|config| config.containment.writable = vec![cache.clone()]);
    let script = format!("echo > {}/new", cache.display());
    let seen = stage.run(shell(&script)).await;
    assert_eq!(seen.exit, Exit::Code(0), "{seen:?}");
    fs::remove_dir_all(&cache).unwrap();
    symlink(victim.path(), &cache).unwrap();
    let seen = stage.run(shell(&script)).await;
    assert!(!seen.isolation().contains("; landlock (") || is_empty(victim.path()), "{seen:?}");
}
