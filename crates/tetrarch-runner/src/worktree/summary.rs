//! What a goal says of the repository that it is about (spec 05, Records). Only commits are read: reading the files
//! of a worktree may run programs that its settings name.

use std::path::Path;
use std::time::Duration;

use super::git::{Git, GitError};

/// Longer than these calls take of any repository; a goal does not wait for more.
const SUMMARY_WITHIN: Duration = Duration::from_secs(5);
/// Names of the top directory that are listed.
const ENTRIES_MAX: usize = 40;
/// Bytes of the whole, with room for what a goal's author may add.
const SUMMARY_BYTES_MAX: usize = 2 * 1024;
/// Commits that are listed.
const COMMITS: &str = "--max-count=5";

/// A few lines on the repository around a directory: branch, latest commits and the entries at its top, in at most
/// 2 KiB. None where there is no repository with a commit, or no git, or it does not answer within 5 seconds.
pub async fn repository_summary(dir: &Path) -> Option<String> {
    match tokio::time::timeout(SUMMARY_WITHIN, summary(dir)).await {
        Ok(Ok(found)) => found,
        Ok(Err(error)) => {
            tracing::debug!(dir = %dir.display(), %error, "the repository is not described");
            None
        }
        Err(_) => {
            tracing::debug!(dir = %dir.display(), "git takes too long: the repository is not described");
            None
        }
    }
}

async fn summary(dir: &Path) -> Result<Option<String>, GitError> {
    let git = Git::within(dir, "");
    let top = git.says(&["rev-parse", "--show-toplevel"]).await?;
    let Some(commit) = git.commit("HEAD").await?.filter(|_| top.code == 0) else {
        return Ok(None);
    };
    let branch = git.maybe(&["symbolic-ref", "--quiet", "--short", "HEAD"]).await?;
    let latest = git.line(&["log", COMMITS, "--format=%h %cs %s", &commit, "--"]).await?;
    let top = String::from_utf8_lossy(&top.out).trim_end().to_owned();
    let entries =
        Git::within(Path::new(&top), "").line(&["ls-tree", "--format=%(path)", &commit]).await?;
    let names: Vec<&str> = entries.lines().collect();
    let shown = names.iter().take(ENTRIES_MAX).copied().collect::<Vec<_>>().join(", ");
    let more = names.len().saturating_sub(ENTRIES_MAX);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    let branch = branch.map_or_else(|| "no branch".to_owned(), |name| format!("branch {name}"));
    let shown = if shown.is_empty() { "no files" } else { &shown };
    let mut text = format!("{branch}\nlatest commits:\n{latest}\nat the top: {shown}{more}");
    let end = text.floor_char_boundary(SUMMARY_BYTES_MAX);
    text.truncate(end);
    Ok(Some(text))
}
