//! The sweep of artifacts that nothing names (spec 06, Artifacts): a look at the store, and where
//! something is old, at everything that may name it, the kept journals of ended runs last: most of them
//! are in `RUNS` still. What may go is core's to say.

use tetrarch_bus::Bus;
use tetrarch_bus::artifact::{ArtifactError, Artifacts};
use tetrarch_bus::snapshot::SnapshotError;
use tetrarch_bus::subject::pattern::{MAIL, RUNS, STATE};
use tetrarch_bus::tail::StreamBytes;
use tetrarch_core::artifacts::{Names, Stored, named_in, unended, unnamed};
use tetrarch_core::time::{BusTime, Millis};

use crate::error::EngineResult;

/// Where artifacts are named: records, among them the latest snapshot; journals; mail.
const NAMING: [&str; 3] = [STATE, RUNS, MAIL];

/// What went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct SweptArtifacts {
    pub(super) artifacts: usize,
    pub(super) uploads: usize,
}

/// Removes what nothing names and what is left of uploads that never ended, when it is as old as
/// `kept`.
pub(super) async fn sweep(bus: &Bus, now: BusTime, kept: Millis) -> EngineResult<SweptArtifacts> {
    let artifacts = Artifacts::new(bus);
    // Before the artifacts: an upload that ends meanwhile is one of theirs then.
    let uploads = artifacts.uploads().await?;
    let stored = artifacts.stored().await;
    let mut swept = SweptArtifacts::default();
    let old: Vec<Stored> =
        unnamed(&stored, &Names::new(), now, kept).into_iter().cloned().collect();
    let left = named_nowhere(bus, old, now, kept).await;
    for going in named_in_no_journal(&artifacts, left, &stored, (now, kept)).await? {
        swept.artifacts += usize::from(artifacts.sweep(&going).await?);
    }
    for upload in unended(&uploads, &stored) {
        if artifacts.upload_at(upload).await?.is_some_and(|at| now - at >= kept) {
            artifacts.sweep_upload(upload).await?;
            swept.uploads += 1;
        }
    }
    Ok(swept)
}

/// Those of these that nothing names. Each stream is read only while there is something to look for.
async fn named_nowhere(bus: &Bus, old: Vec<Stored>, now: BusTime, kept: Millis) -> Vec<Stored> {
    let mut left = old;
    for stream in NAMING {
        if left.is_empty() {
            break;
        }
        let (mut names, mut texts) = (Names::new(), StreamBytes::of(bus, stream));
        while let Some(text) = texts.next().await {
            named_in(&text, &mut names);
        }
        left = unnamed(&left, &names, now, kept).into_iter().cloned().collect();
    }
    left
}

/// Those of these that no kept journal names. One that is damaged names nothing.
async fn named_in_no_journal(
    artifacts: &Artifacts,
    mut left: Vec<Stored>,
    stored: &[Stored],
    (now, kept): (BusTime, Millis),
) -> EngineResult<Vec<Stored>> {
    for journal in stored.iter().filter(|it| it.is_journal) {
        if left.is_empty() {
            break;
        }
        if left.contains(journal) {
            continue;
        }
        match names_of(artifacts, &journal.sha256).await {
            Ok(names) => left = unnamed(&left, &names, now, kept).into_iter().cloned().collect(),
            Err(error @ (ArtifactError::Missing(_) | ArtifactError::Damaged { .. })) => {
                tracing::warn!(%error, "an archived journal cannot be read; its artifacts may be removed");
            }
            Err(
                error @ (ArtifactError::Name(_)
                | ArtifactError::TooLarge { .. }
                | ArtifactError::Changed(_)
                | ArtifactError::File { .. }
                | ArtifactError::Publish(_)
                | ArtifactError::Read(_)),
            ) => return Err(SnapshotError::from(error).into()),
        }
    }
    Ok(left)
}

async fn names_of(artifacts: &Artifacts, sha256: &str) -> Result<Names, ArtifactError> {
    let (_, mut lines) = artifacts.lines(sha256).await?;
    let mut names = Names::new();
    while let Some(line) = lines.next().await? {
        named_in(&line, &mut names);
    }
    Ok(names)
}
