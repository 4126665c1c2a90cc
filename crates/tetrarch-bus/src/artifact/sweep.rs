//! What the store holds, and removing what may go: descriptions first, and only as they were seen,
//! so that one that is stored again meanwhile stays. What may go is decided elsewhere.

use std::collections::BTreeMap;

use super::{Artifacts, MEDIA_TYPE, ObjectMeta};
use crate::archive;
use crate::error::ReadError;
use crate::follow::{FollowStep, StreamFollower};
use crate::subject::pattern;
use tetrarch_core::artifacts::Stored;
use tetrarch_core::time::BusTime;

impl Artifacts {
    /// Every artifact. Waits while the bus is away. What cannot be read is none.
    pub async fn stored(&self) -> Vec<Stored> {
        let mut found: BTreeMap<String, Stored> = BTreeMap::new();
        let filter = vec![pattern::object_metas().to_owned()];
        let mut follower = StreamFollower::new(self.bus.clone(), pattern::ARTIFACTS, filter, 1);
        while let FollowStep::Message { message, pending } = follower.step().await {
            if let Ok(meta) = serde_json::from_slice::<ObjectMeta>(&message.payload)
                && !meta.deleted
                && message.subject == pattern::object_meta(&meta.name)
            {
                let (seq, since) = (message.seq, BusTime(message.time_unix_ms));
                let is_journal =
                    meta.metadata.get(MEDIA_TYPE).is_some_and(|kind| kind == archive::MEDIA_TYPE);
                let (sha256, upload) = (meta.name.clone(), meta.nuid);
                let stored = Stored { sha256, upload, seq, since, is_journal };
                found.insert(meta.name, stored);
            }
            if pending == 0 {
                break;
            }
        }
        found.into_values().collect()
    }

    /// Every upload that left something.
    ///
    /// # Errors
    /// What the bus answered.
    pub async fn uploads(&self) -> Result<Vec<String>, ReadError> {
        let chunks = pattern::object_chunk(">");
        let subjects = self.bus.stream_subjects(pattern::ARTIFACTS, &chunks).await?;
        let prefix = pattern::object_chunk("");
        let names = subjects
            .into_keys()
            .filter_map(|subject| subject.strip_prefix(&prefix).map(str::to_owned));
        Ok(names.collect())
    }

    /// When an upload left its last part; none when nothing of it is there.
    ///
    /// # Errors
    /// What the bus answered.
    pub async fn upload_at(&self, upload: &str) -> Result<Option<BusTime>, ReadError> {
        let subject = pattern::object_chunk(upload);
        let last = self.bus.last_by_subject(pattern::ARTIFACTS, &subject).await?;
        Ok(last.map(|message| BusTime(message.time_unix_ms)))
    }

    /// Removes an artifact as it was seen. One that was stored again since then stays; says whether
    /// it is gone.
    ///
    /// # Errors
    /// What the bus answered; it may be tried again.
    pub async fn sweep(&self, seen: &Stored) -> Result<bool, ReadError> {
        let subject = pattern::object_meta(&seen.sha256);
        self.bus.purge(pattern::ARTIFACTS, Some(&subject), Some(seen.seq)).await?;
        if self.bus.last_by_subject(pattern::ARTIFACTS, &subject).await?.is_some() {
            return Ok(false);
        }
        self.sweep_upload(&seen.upload).await?;
        Ok(true)
    }

    /// Removes what an upload left.
    ///
    /// # Errors
    /// What the bus answered; it may be tried again.
    pub async fn sweep_upload(&self, upload: &str) -> Result<(), ReadError> {
        if upload.is_empty() || !upload.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            // Not made by this store: its subject might match more than itself.
            return Ok(());
        }
        let subject = pattern::object_chunk(upload);
        self.bus.purge(pattern::ARTIFACTS, Some(&subject), None).await?;
        Ok(())
    }
}
