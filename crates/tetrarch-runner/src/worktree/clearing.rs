//! What is left when a host dies while programs work in its worktrees: settings of theirs that name commands, which git
//! runs for whoever uses it there, until the agent's next session. The host's next life takes them away before it starts
//! anything; objects, branches and the index stay.

use std::fs;
use std::io;
use std::path::Path;

use super::git::GitError;
use super::own::{ASIDE, link, settings};
use super::{WorktreeLocation, Worktrees, on_disk, places, removed};

/// What of a repository names commands, or leads to what does.
const COMMANDING: [&str; 5] = ["config", "config.worktree", "commondir", "hooks", "gitdir"];
/// Where new settings are made, beside the program's repository.
const FRESH: &str = "fresh";

impl Worktrees {
    /// Takes away what programs of earlier lives wrote into the settings of their repositories.
    pub(crate) async fn clear_settings(&self) {
        for place in places(&self.dir) {
            if let Err(cause) = self.clear_own(&place).await {
                let run = &place.about.run;
                tracing::warn!(run, %cause, "settings that a program left in a worktree stay there");
            }
        }
    }

    async fn clear_own(&self, place: &WorktreeLocation) -> Result<(), GitError> {
        let Some(gitdir) = place.about.gitdir.as_deref().map(Path::new) else { return Ok(()) };
        let (own, aside, fresh) = (place.own(), place.dir.join(ASIDE), place.dir.join(FRESH));
        if !own.is_dir() {
            return Ok(());
        }
        removed(&aside).await?;
        removed(&fresh).await?;
        self.begin(place, &fresh).await?;
        let (added, tree, from) = (settings(place, gitdir)?, place.tree(), fresh.clone());
        let replace = move |own: &Path| -> io::Result<()> {
            let config = from.join("config");
            fs::write(&config, fs::read_to_string(&config)? + &added)?;
            fs::create_dir(&aside)?;
            for name in COMMANDING {
                put_aside(&own.join(name), &aside.join(name))?;
            }
            fs::rename(config, own.join("config"))?;
            put_aside(&tree.join(".git"), &aside.join("link"))?;
            link(&tree, own)
        };
        on_disk(&own, replace).await?;
        removed(&fresh).await?;
        removed(&place.dir.join(ASIDE)).await
    }
}

fn put_aside(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(cause),
        Ok(()) | Err(_) => Ok(()),
    }
}
