//! What was done with credentials, written down beside the keys until an owner has it on the ledger: keys are
//! used where no bus need run. Whoever can write here has the keys.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tetrarch_core::audit::{Act, CredentialAct};
use tetrarch_core::id::{AgentId, HumanName, Principal, RequestId};
use tetrarch_core::time::BusTime;

use super::revoked::now_secs;
use super::{CredsError, private_file};

/// How an act's file ends; what is being written ends otherwise.
const ENDING: &str = "json";

/// One act, as its file has it.
#[derive(Debug, Serialize, Deserialize)]
struct StoredAct {
    what: String,
    about: String,
    by: Option<String>,
    #[serde(default)]
    ends: Option<String>,
}

fn dir(keys: &Path) -> PathBuf {
    keys.join("acts")
}

/// Writes an act down: `user` is the public key that it is about, `ends` who has no credential after it.
pub(super) fn keep(
    keys: &Path,
    by: Option<&HumanName>,
    (what, user): (&str, &str),
    about: String,
    ends: Option<String>,
) -> Result<(), CredsError> {
    let now = BusTime(now_secs().saturating_mul(1_000));
    let id = RequestId::derive(now, user, what, 0);
    let path = dir(keys).join(format!("{id}.{ENDING}"));
    let kept = StoredAct { what: what.to_owned(), about, by: by.map(ToString::to_string), ends };
    private_file::private_dir(&dir(keys))
        .and_then(|()| Ok(serde_json::to_vec(&kept)?))
        .and_then(|bytes| private_file::replace(&path, &bytes))
        .map_err(|source| CredsError::File { path, source })
}

/// What was done with the credentials of a data directory and is on no ledger yet, in its order.
///
/// # Errors
/// A file cannot be used.
pub fn unrecorded(data_dir: &Path) -> Result<Vec<CredentialAct>, CredsError> {
    let dir = dir(&data_dir.join("keys"));
    let failed = |path: &Path, source| CredsError::File { path: path.to_owned(), source };
    let entries = match std::fs::read_dir(&dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(failed(&dir, source)),
    };
    let mut acts = Vec::new();
    for entry in entries {
        let path = entry.map_err(|source| failed(&dir, source))?.path();
        if path.extension().is_none_or(|ending| ending != ENDING) {
            continue;
        }
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            // The owner has just taken it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(source) => return Err(failed(&path, source)),
        };
        acts.push(read(&path, &bytes).map_err(|source| failed(&path, source))?);
    }
    acts.sort_by_key(|act| act.id);
    Ok(acts)
}

fn read(path: &Path, bytes: &[u8]) -> Result<CredentialAct, io::Error> {
    let StoredAct { what, about, by, ends } = serde_json::from_slice(bytes)?;
    let id = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().parse();
    let by = by.as_deref().map(HumanName::new).transpose().map_err(io::Error::other)?;
    let ends = ends.as_deref().map(str::parse).transpose().map_err(io::Error::other)?;
    Ok(CredentialAct {
        id: id.map_err(io::Error::other)?,
        ends,
        by: by.map_or(Principal::Agent(AgentId::Go), Principal::Human),
        act: Act { what, about, credential: None },
    })
}

/// Forgets an act that is on the ledger.
///
/// # Errors
/// Its file cannot be removed.
pub fn recorded(data_dir: &Path, id: RequestId) -> Result<(), CredsError> {
    let path = dir(&data_dir.join("keys")).join(format!("{id}.{ENDING}"));
    match std::fs::remove_file(&path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(CredsError::File { path, source })
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
