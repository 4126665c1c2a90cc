//! Gives a program the whole deliverables of the nodes it depends on: a brief carries only the
//! beginning of a long one, and the artifact that has all of it. Changes nothing else of a brief. Reads as well the
//! artifacts that a program asks for.

use tetrarch_bus::artifact::{ArtifactError, ArtifactRef, Artifacts};
use tetrarch_core::brief::{LONG_TEXTS, NodeInput};
use tetrarch_core::hosted::FetchedArtifact;
use tetrarch_core::id::NodeId;
use tetrarch_core::limits::ARTIFACT_READ_BYTES_MAX;

/// The name under which a session keeps a deliverable that is too long for a record.
const WHOLE: &str = LONG_TEXTS[0];
/// Longest deliverable that is given whole, in bytes.
const ONE_BYTES_MAX: u64 = 1024 * 1024;
/// All that are given whole to one program, in bytes.
const ALL_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Why a deliverable stays shortened.
#[derive(Debug, thiserror::Error)]
enum StaysShort {
    #[error("{0}")]
    Artifact(#[from] ArtifactError),
    #[error("artifact {0} was not found")]
    Missing(String),
    #[error("it has {size} bytes; the limit is {room}")]
    TooLong { size: u64, room: u64 },
    #[error("it is not UTF-8 text")]
    NoText,
    #[error("the artifact of that name is not the deliverable")]
    Other,
}

/// Replaces shortened deliverables by the whole. Gives what is to be said of those that stay as
/// they are.
pub(super) async fn make_whole(artifacts: &Artifacts, inputs: &mut [NodeInput]) -> Vec<String> {
    let mut room = ALL_BYTES_MAX;
    let mut said = Vec::new();
    for input in inputs {
        let Some(beginning) = shortened(&input.deliverable) else {
            continue;
        };
        // The session's own comes after the files to which programs outside may have given the same name.
        let kept = input.artifacts.iter().rfind(|artifact| artifact.name == WHOLE);
        let Some(kept) = kept else {
            continue;
        };
        match fetch(artifacts, &kept.sha256, beginning, room).await {
            Ok(whole) => {
                room = room.saturating_sub(u64::try_from(whole.len()).unwrap_or(u64::MAX));
                input.deliverable = whole;
            }
            Err(reason) => said.push(stays_short(input.node, &reason)),
        }
    }
    said
}

async fn fetch(
    artifacts: &Artifacts,
    sha256: &str,
    beginning: &str,
    room: u64,
) -> Result<String, StaysShort> {
    let stored = artifacts.stat(sha256).await?;
    let stored = stored.ok_or_else(|| StaysShort::Missing(sha256.to_owned()))?;
    fits(stored.size, room)?;
    whole(artifacts.get_bytes(sha256).await?, beginning)
}

/// Why an artifact cannot be read for a program.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotFetched {
    #[error("{0}")]
    Artifact(#[from] ArtifactError),
    #[error("artifact {0} was not found; it may have been removed since nothing names it any more")]
    Missing(String),
    #[error(
        "artifact {sha256} has {size} bytes, and at most {ARTIFACT_READ_BYTES_MAX} can be read this way; have it handed \
         over in smaller parts"
    )]
    TooLarge { sha256: String, size: u64 },
}

/// An artifact that a program asks for.
pub(super) async fn fetched(
    artifacts: &Artifacts,
    sha256: &str,
) -> Result<FetchedArtifact, NotFetched> {
    let missing = || NotFetched::Missing(sha256.to_owned());
    let ArtifactRef { size, media_type, .. } = artifacts.stat(sha256).await?.ok_or_else(missing)?;
    if size > ARTIFACT_READ_BYTES_MAX {
        return Err(NotFetched::TooLarge { sha256: sha256.to_owned(), size });
    }
    Ok(FetchedArtifact { media_type, bytes: artifacts.get_bytes(sha256).await? })
}

fn fits(size: u64, room: u64) -> Result<(), StaysShort> {
    let room = room.min(ONE_BYTES_MAX);
    if size > room { Err(StaysShort::TooLong { size, room }) } else { Ok(()) }
}

fn whole(bytes: Vec<u8>, beginning: &str) -> Result<String, StaysShort> {
    let text = String::from_utf8(bytes).map_err(|_| StaysShort::NoText)?;
    if text.starts_with(beginning) { Ok(text) } else { Err(StaysShort::Other) }
}

/// The beginning that is left of a shortened deliverable: what stands before the last line, which
/// says in brackets that there is more.
fn shortened(deliverable: &str) -> Option<&str> {
    let (beginning, remark) = deliverable.rsplit_once('\n')?;
    (remark.starts_with('[') && remark.ends_with(']')).then_some(beginning)
}

fn stays_short(node: NodeId, reason: &StaysShort) -> String {
    format!("[the program gets only the start of the deliverable of {node}: {reason}]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deliverable_is_shortened_when_its_last_line_says_so() {
        assert_eq!(shortened("ab\ncd\n[the whole text is the artifact]"), Some("ab\ncd"));
        assert_eq!(shortened("ab\n[the first 2 of 9 bytes; the rest stands]"), Some("ab"));
        for whole in ["", "ab", "[1,2]", "ab\ncd", "ab\n[cd", "ab\n[cd]\n"] {
            assert_eq!(shortened(whole), None, "{whole:?}");
        }
    }

    #[test]
    fn only_the_shortened_text_is_replaced() {
        assert_eq!(whole(b"abcdef".to_vec(), "abc").unwrap(), "abcdef");
        let other = whole(b"a file of that name".to_vec(), "abc");
        assert!(matches!(other, Err(StaysShort::Other)), "{other:?}");
        let binary = whole(vec![0xff, 0xfe], "");
        assert!(matches!(binary, Err(StaysShort::NoText)), "{binary:?}");
    }

    #[test]
    fn each_input_and_their_sum_are_bounded() {
        assert!(fits(ONE_BYTES_MAX, ALL_BYTES_MAX).is_ok());
        assert!(fits(ONE_BYTES_MAX + 1, ALL_BYTES_MAX).is_err());
        assert!(fits(10, 10).is_ok());
        assert!(fits(11, 10).is_err());
    }
}
