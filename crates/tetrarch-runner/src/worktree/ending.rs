//! The end of a run that worked in a worktree: what it left is kept and told before anybody hears that
//! it is over. A run that is to go on in another session keeps its worktree as it is.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tetrarch_core::brief::Outcome;
use tetrarch_core::order::{LocalFile, RunnerEvent, Start};

use super::making::NoWorktree;
use super::{GitError, WorktreeLocation, Worktrees, on_disk, text};

/// The media type of a diff.
const DIFF_MEDIA: &str = "text/x-diff";

/// What is to be done before a run is over; nothing, while it has no worktree.
#[derive(Debug, Clone, Default)]
pub(crate) struct WorktreeFinalizer(Arc<Mutex<Option<FinishedWorktree>>>);

#[derive(Debug, Clone)]
struct FinishedWorktree {
    worktrees: Arc<Worktrees>,
    place: WorktreeLocation,
    title: String,
    outcome: Option<Outcome>,
}

impl WorktreeFinalizer {
    /// Gives a run its worktree, when its brief wants one, and the directory in its brief. Gives what
    /// is to be noted.
    ///
    /// # Errors
    /// It cannot have one.
    pub(crate) async fn prepare(
        &self,
        worktrees: &Arc<Worktrees>,
        start: &mut Start,
        workspace_dir: &std::path::Path,
    ) -> Result<Option<String>, NoWorktree> {
        let Some((place, note)) = worktrees.prepare(start, workspace_dir).await? else {
            return Ok(None);
        };
        start.brief.workspace = place.workspace()?;
        let goal = start.brief.goal.lines().next().unwrap_or_default();
        let left = FinishedWorktree {
            worktrees: Arc::clone(worktrees),
            place,
            title: format!("{} of {}: {goal}", start.node, start.agent),
            outcome: None,
        };
        *self.left() = Some(left);
        Ok(Some(note))
    }

    fn left(&self) -> std::sync::MutexGuard<'_, Option<FinishedWorktree>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is to be told before an event.
    pub(crate) async fn before(&self, event: &RunnerEvent) -> Vec<RunnerEvent> {
        match self.over(event) {
            Some(left) => left.told().await,
            None => Vec::new(),
        }
    }

    /// What is left of a run that is over with this event.
    fn over(&self, event: &RunnerEvent) -> Option<FinishedWorktree> {
        let mut left = self.left();
        if let RunnerEvent::Result { result, .. } = event {
            left.as_mut()?.outcome.get_or_insert(result.outcome);
        }
        let outcome = if let RunnerEvent::Exited { result, .. } = event {
            result.as_ref().map(|result| result.outcome)
        } else if matches!(event, RunnerEvent::SpawnFailed { .. }) {
            Some(Outcome::Failure)
        } else {
            return None;
        };
        let known = left.take()?;
        Some(FinishedWorktree { outcome: known.outcome.or(outcome), ..known })
    }
}

impl FinishedWorktree {
    async fn told(self) -> Vec<RunnerEvent> {
        let note = |text| vec![RunnerEvent::Log { text }];
        let head = match self.committed().await {
            Ok(Some(head)) => head,
            Ok(None) => return Vec::new(),
            Err(error) => return note(self.uncommitted(&error).await),
        };
        match self.proposed(&head).await {
            Ok(events) => events,
            Err(error) if head == self.place.about.base => note(self.uncommitted(&error).await),
            Err(error) => {
                let place = self.place.dir.display();
                note(format!("[what it changed cannot be proposed: {error}; it is in {place}]"))
            }
        }
    }

    /// Commits what it left, and gives the commit when the run is over. Where that is another than the one it began from,
    /// its files belong then to a repository in which people can look at them.
    async fn committed(&self) -> Result<Option<String>, GitError> {
        let Self { worktrees, place, title, outcome } = self;
        let succeeded = *outcome == Some(Outcome::Success);
        let words = if succeeded { title.clone() } else { format!("Salvage {title}") };
        let head = worktrees.commit_all(place, &words).await?;
        if outcome.is_none() {
            // Its next session goes on here.
            return Ok(None);
        }
        if head != place.about.base {
            // People look into what is kept, and would run whatever the program's settings and hooks name.
            worktrees.furnish_anew(place, &head).await?;
        }
        Ok(Some(head))
    }

    /// What is said of what cannot be committed. People are led to no files on which git runs what the program says.
    async fn uncommitted(&self, error: &GitError) -> String {
        if self.outcome.is_none() {
            return format!(
                "[what it changed cannot be committed: {error}; its next session goes on with it]"
            );
        }
        let (said, tree) =
            (format!("what it changed cannot be proposed: {error}"), self.place.tree());
        match self.worktrees.disarm(&self.place).await {
            Ok(()) => format!("[{said}; its files are in {}, in no repository]", tree.display()),
            Err(cause) => format!(
                "[{said}; do not use git on its files in {}: it would run what the program's settings \
                 name, which cannot be moved away: {cause}]",
                tree.display()
            ),
        }
    }

    async fn proposed(&self, head: &str) -> Result<Vec<RunnerEvent>, GitError> {
        let Self { worktrees, place, outcome, .. } = self;
        // What it began from may be somebody else's work, which is not its own to propose.
        let made = if head == place.about.base {
            None
        } else {
            worktrees.made(place, head, *outcome != Some(Outcome::Success)).await?
        };
        let Some((made, file)) = made else {
            worktrees.discard(place).await?;
            return Ok(Vec::new());
        };
        // Who stores it follows no links.
        let file = on_disk(&file, Path::canonicalize).await?;
        let diff = LocalFile {
            name: "change.diff".to_owned(),
            path: text(&file)?.to_owned(),
            media_type: DIFF_MEDIA.to_owned(),
        };
        Ok(vec![RunnerEvent::Changed { made: Box::new(made), diff }])
    }
}
