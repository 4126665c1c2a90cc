//! What a run changed in a worktree of its own: its diff is stored, and it is reported before the
//! result, so that the gate knows of it first (spec 06, Worktrees and the apply gate).

use crate::brief::Artifact;
use crate::change::Made;
use crate::journal::JournalEvent;
use crate::order::LocalFile;
use crate::request::Report;

use super::{HostedSession, Keep, SessionEffect};

impl HostedSession {
    /// Has the diff stored. A session that dies reports nothing: the next one goes on with the work.
    pub(super) fn changed(
        &mut self,
        made: Box<Made>,
        diff: LocalFile,
        effects: &mut Vec<SessionEffect>,
    ) {
        self.change = Some(made);
        self.diffing = true;
        effects.push(SessionEffect::Store(vec![Keep::File(diff)]));
    }

    /// What is not stored as it was found is not proposed: nobody could look at it.
    pub(super) fn diffed(&mut self, kept: &[Artifact], effects: &mut Vec<SessionEffect>) {
        self.diffing = false;
        let Some(made) = self.change.take() else { return };
        let action = &made.action;
        let stored = kept.iter().any(|artifact| artifact.sha256 == action.diff);
        let text = if stored {
            format!(
                "[change: {} files, +{} -{}, diff {} on {}]",
                action.files.len(),
                made.additions,
                made.deletions,
                action.diff,
                made.branch
            )
        } else {
            format!("[the change on {} is not proposed: its diff was not stored]", made.branch)
        };
        effects.push(SessionEffect::Journal(JournalEvent::Log { text }));
        self.change = stored.then_some(made);
    }

    pub(super) fn report_change(&mut self, effects: &mut Vec<SessionEffect>) {
        if let Some(made) = self.change.take() {
            effects
                .push(SessionEffect::Report(Box::new(Report::Change { run: self.run.id, made })));
        }
    }
}
