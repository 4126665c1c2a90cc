//! Brings the owner what was done with credentials beside the bus, until it is on the ledger. Decides nothing.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ractor::ActorRef;
use tetrarch_bus::creds::CredsError;
use tetrarch_bus::creds::acts::{recorded, unrecorded};
use tetrarch_core::audit::CredentialAct;
use tetrarch_core::id::RequestId;
use tokio::sync::oneshot;

use super::owner::OwnerMsg;
use crate::pump::Pump;

/// How often it is looked for.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// What was done, and whom to tell which of it the ledger has.
pub(super) struct CredentialActs {
    pub(super) acts: Vec<CredentialAct>,
    pub(super) told: oneshot::Sender<Vec<RequestId>>,
}

/// Looks again and again in a data directory, at once for the first time.
pub(super) fn start(data_dir: PathBuf, to: &ActorRef<OwnerMsg>) -> Pump {
    let to = to.clone();
    Pump::run(async move {
        let mut beat = tokio::time::interval(LOOK_EVERY);
        loop {
            beat.tick().await;
            let acts = match unrecorded(&data_dir) {
                Ok(acts) if acts.is_empty() => continue,
                Ok(acts) => acts,
                Err(error) => {
                    tracing::error!(%error, "recording acts on credentials failed; trying again later");
                    continue;
                }
            };
            let (told, known) = oneshot::channel();
            if to.cast(OwnerMsg::Credentials(CredentialActs { acts, told })).is_err() {
                return;
            }
            let Ok(known) = known.await else { return };
            if let Err(error) = forget(&data_dir, known) {
                tracing::error!(%error, "recorded acts on credentials could not be removed from the file");
            }
        }
    })
}

fn forget(data_dir: &Path, known: Vec<RequestId>) -> Result<(), CredsError> {
    known.into_iter().try_for_each(|id| recorded(data_dir, id))
}
