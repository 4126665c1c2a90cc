//! Artifacts: bytes named by their sha256, in the object store's own layout so that stock tools
//! read them. What is stored never changes: the description is written once, expecting none
//! before it, after all its chunks. It knows nothing about what artifacts are for.

mod streaming;
mod sweep;
mod transfer;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use async_nats::HeaderMap;
use data_encoding::BASE64URL;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tetrarch_core::id::sha256_hex;
use tetrarch_core::limits::ARTIFACT_BYTES_MAX;
use tetrarch_core::redaction;
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};

use crate::client::{Bus, RawMessage};
use crate::error::{PublishError, ReadError};
use crate::subject::pattern;

pub use streaming::{ArtifactLines, Upload, pipe};

/// An artifact that is stored again gets a new time when it is older than this: it is kept for long
/// enough after that (`UNNAMED_KEPT`), and its description is not written for every put.
const RENEWED_AFTER: Duration = Duration::from_secs(3600);
/// Bytes of one chunk; what the object store's own clients use.
const CHUNK_BYTES: usize = 128 * 1024;
const MEDIA_TYPE: &str = "media_type";
const DIGEST_PREFIX: &str = "SHA-256=";

/// What is known about a stored artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactRef {
    /// Lower-case hexadecimal sha256 of its bytes: its name.
    pub sha256: String,
    /// Its size in bytes.
    pub size: u64,
    /// What kind of content it is, as its writer said.
    pub media_type: String,
}

/// Why an artifact could not be stored or read.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    /// Not 64 lower-case hexadecimal digits.
    #[error("{0:?} is not an artifact name; expected a sha256 as 64 lower-case hexadecimal digits")]
    Name(String),
    /// More bytes than one artifact may have.
    #[error(
        "{size} bytes are too many for one artifact; at most {max} are allowed; split it, or raise \
             runs.artifact_max of the host"
    )]
    TooLarge {
        /// Its size in bytes.
        size: u64,
        /// The limit in bytes.
        max: u64,
    },
    /// There is none of this name.
    #[error("artifact {0} was not found")]
    Missing(String),
    /// What came is not what the name says; nothing of it was used.
    #[error("artifact {sha256} is damaged: {reason}")]
    Damaged {
        /// Its name.
        sha256: String,
        /// What differs.
        reason: String,
    },
    /// The file changed while it was stored.
    #[error("cannot store {0}: it changed while it was read; try again")]
    Changed(PathBuf),
    /// A local file could not be read or written.
    #[error("cannot use {path}: {source}")]
    File {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A chunk or the description was not stored; the whole may be tried again.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// A chunk or the description could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// The object store's description of an object.
#[derive(Debug, Serialize, Deserialize)]
struct ObjectMeta {
    name: String,
    bucket: String,
    nuid: String,
    size: u64,
    chunks: u64,
    digest: String,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
    #[serde(default)]
    options: MetaOptions,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    deleted: bool,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct MetaOptions {
    #[serde(default)]
    max_chunk_size: usize,
}

/// What a look at a file tells.
struct Looked {
    sha256: String,
    size: u64,
    /// Whether it is a text with a secret in it.
    secret: bool,
}

/// The artifacts of an installation.
#[derive(Debug, Clone)]
pub struct Artifacts {
    bus: Bus,
    bytes_max: u64,
}

impl Artifacts {
    /// The store behind a connection, with the default bound of an artifact's size.
    #[must_use]
    pub fn new(bus: &Bus) -> Self {
        let bytes_max = u64::try_from(ARTIFACT_BYTES_MAX).unwrap_or(u64::MAX);
        Self { bus: bus.clone(), bytes_max }
    }

    /// The same store with another bound of an artifact's size, in bytes (`runs.artifact_max`).
    #[must_use]
    pub fn with_bytes_max(self, bytes_max: u64) -> Self {
        Self { bytes_max, ..self }
    }

    /// Stores bytes; bytes that are stored already are not sent again.
    ///
    /// # Errors
    /// Too many bytes, or what the bus answered.
    pub async fn put_bytes(
        &self,
        bytes: &[u8],
        media_type: &str,
    ) -> Result<ArtifactRef, ArtifactError> {
        let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.check_size(size)?;
        let wanted =
            ArtifactRef { sha256: sha256_hex(bytes), size, media_type: media_type.to_owned() };
        if let Some(stored) = self.stored_again(&wanted.sha256).await? {
            return Ok(stored);
        }
        let sent = transfer::send(&self.bus, bytes, Path::new("memory")).await?;
        self.describe(wanted, sent).await
    }

    /// Stores a regular file, opened once and read twice: once for its name, once to send it. A text is stored without
    /// the secrets that are known. `path` is absolute and without links: who may write where the file is could have put
    /// a link there after somebody looked.
    ///
    /// # Errors
    /// A path that leads over a link, a file that is too large, unreadable or changes meanwhile, or what the bus answered.
    pub async fn put_file(
        &self,
        path: &Path,
        media_type: &str,
    ) -> Result<ArtifactRef, ArtifactError> {
        let file_error = |source| ArtifactError::File { path: path.to_owned(), source };
        let mut file = opened(path.to_owned()).await.map_err(file_error)?;
        self.check_size(file.metadata().await.map_err(file_error)?.len())?;
        let Looked { sha256, size, secret } = self.look(&mut file, path).await?;
        file.rewind().await.map_err(file_error)?;
        if secret {
            return self.put_clean(file, path, media_type).await;
        }
        let wanted = ArtifactRef { sha256, size, media_type: media_type.to_owned() };
        if let Some(stored) = self.stored_again(&wanted.sha256).await? {
            return Ok(stored);
        }
        let sent = transfer::send(&self.bus, file.take(self.bytes_max + 1), path).await?;
        if sent.size != wanted.size || sent.sha256() != wanted.sha256 {
            return Err(ArtifactError::Changed(path.to_owned()));
        }
        self.describe(wanted, sent).await
    }

    /// What is known about an artifact, none when there is none of this name.
    ///
    /// # Errors
    /// A name that is none, or what the bus answered.
    pub async fn stat(&self, sha256: &str) -> Result<Option<ArtifactRef>, ArtifactError> {
        Ok(self.meta(sha256).await?.map(|(meta, _)| reference(&meta)))
    }

    /// An artifact that is there already, kept as if it were stored now. None when it is not, or was
    /// removed at this moment.
    async fn stored_again(&self, sha256: &str) -> Result<Option<ArtifactRef>, ArtifactError> {
        let Some((meta, found)) = self.meta(sha256).await? else { return Ok(None) };
        let since = SystemTime::UNIX_EPOCH + Duration::from_millis(found.time_unix_ms);
        if since.elapsed().is_ok_and(|age| age < RENEWED_AFTER) {
            return Ok(Some(reference(&meta)));
        }
        let RawMessage { subject, payload, seq, .. } = found;
        match self.bus.publish_expect(&subject, HeaderMap::new(), payload, Some(seq)).await {
            Ok(_) => Ok(Some(reference(&meta))),
            Err(PublishError::WrongLast { .. }) => {
                // Another renewed it, or it was swept.
                Ok(self.meta(sha256).await?.map(|(meta, _)| reference(&meta)))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// An artifact's bytes, verified against its name.
    ///
    /// # Errors
    /// No such artifact, a damaged one, or what the bus answered.
    pub async fn get_bytes(&self, sha256: &str) -> Result<Vec<u8>, ArtifactError> {
        let meta = self.existing(sha256).await?;
        let mut bytes = Vec::new();
        transfer::receive(&self.bus, &meta, &mut bytes, Path::new("memory")).await?;
        Ok(bytes)
    }

    /// Writes an artifact's bytes to a file, which appears only once they are verified.
    ///
    /// # Errors
    /// No such artifact, a damaged one, a file that cannot be written, or what the bus answered.
    pub async fn get_to_file(&self, sha256: &str, path: &Path) -> Result<(), ArtifactError> {
        let file_error = |source| ArtifactError::File { path: path.to_owned(), source };
        let meta = self.existing(sha256).await?;
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.part", std::process::id()));
        let part = path.with_file_name(name);
        let mut file = tokio::fs::File::create(&part).await.map_err(file_error)?;
        let received = transfer::receive(&self.bus, &meta, &mut file, path).await;
        let written = match received {
            Ok(()) => file.flush().await.map_err(file_error),
            Err(error) => Err(error),
        };
        if let Err(error) = written {
            tokio::fs::remove_file(&part).await.map_err(file_error)?;
            return Err(error);
        }
        tokio::fs::rename(&part, path).await.map_err(file_error)
    }

    /// Removes an artifact, when it is of this kind: its description first, so that none is left
    /// without its bytes. One that is not there is removed.
    ///
    /// # Errors
    /// A name that is none, or what the bus answered.
    pub async fn remove(&self, sha256: &str, media_type: &str) -> Result<(), ArtifactError> {
        let Some((meta, _)) = self.meta(sha256).await? else { return Ok(()) };
        if meta.metadata.get(MEDIA_TYPE).is_none_or(|known| known != media_type) {
            return Ok(());
        }
        let description = pattern::object_meta(sha256);
        self.bus.purge(pattern::ARTIFACTS, Some(&description), None).await?;
        Ok(self.sweep_upload(&meta.nuid).await?)
    }

    fn check_size(&self, size: u64) -> Result<(), ArtifactError> {
        if size > self.bytes_max {
            return Err(ArtifactError::TooLarge { size, max: self.bytes_max });
        }
        Ok(())
    }

    async fn look(&self, file: &mut File, path: &Path) -> Result<Looked, ArtifactError> {
        let file_error = |source| ArtifactError::File { path: path.to_owned(), source };
        let mut hash = Sha256::new();
        let mut size = 0;
        let (mut stream, mut text) = (redaction::Stream::default(), true);
        let mut buffer = vec![0; CHUNK_BYTES];
        loop {
            let read = file.read(&mut buffer).await.map_err(file_error)?;
            let Some(bytes) = buffer.get(..read).filter(|bytes| !bytes.is_empty()) else { break };
            size += u64::try_from(read).unwrap_or(u64::MAX);
            self.check_size(size)?;
            hash.update(bytes);
            text = text && !bytes.contains(&0);
            if text {
                stream.feed(bytes);
            }
        }
        stream.rest();
        let secret = text && stream.found();
        Ok(Looked { sha256: transfer::hex(&hash.finalize()), size, secret })
    }

    async fn existing(&self, sha256: &str) -> Result<ObjectMeta, ArtifactError> {
        let found = self.meta(sha256).await?.map(|(meta, _)| meta);
        found.ok_or_else(|| ArtifactError::Missing(sha256.to_owned()))
    }

    async fn meta(&self, sha256: &str) -> Result<Option<(ObjectMeta, RawMessage)>, ArtifactError> {
        let digits = sha256.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if sha256.len() != 64 || !digits {
            return Err(ArtifactError::Name(sha256.to_owned()));
        }
        let subject = pattern::object_meta(sha256);
        let Some(message) = self.bus.last_by_subject(pattern::ARTIFACTS, &subject).await? else {
            return Ok(None);
        };
        let meta: ObjectMeta = serde_json::from_slice(&message.payload).map_err(|error| {
            ArtifactError::Damaged { sha256: sha256.to_owned(), reason: error.to_string() }
        })?;
        Ok((!meta.deleted).then_some((meta, message)))
    }

    /// Writes the description. When another writer of the same bytes was first, its chunks are
    /// the artifact, and ours are left for the owner's clean-up.
    async fn describe(
        &self,
        wanted: ArtifactRef,
        sent: transfer::Sent,
    ) -> Result<ArtifactRef, ArtifactError> {
        let meta = ObjectMeta {
            name: wanted.sha256.clone(),
            bucket: pattern::ARTIFACTS_BUCKET.to_owned(),
            nuid: sent.nuid,
            size: sent.size,
            chunks: sent.chunks,
            digest: format!("{DIGEST_PREFIX}{}", BASE64URL.encode(&sent.digest)),
            metadata: BTreeMap::from([(MEDIA_TYPE.to_owned(), wanted.media_type.clone())]),
            options: MetaOptions { max_chunk_size: CHUNK_BYTES },
            deleted: false,
        };
        let body = serde_json::to_vec(&meta).map_err(|error| ArtifactError::Damaged {
            sha256: wanted.sha256.clone(),
            reason: error.to_string(),
        })?;
        let subject = pattern::object_meta(&wanted.sha256);
        let headers = HeaderMap::new();
        match self.bus.publish_expect(&subject, headers, body.into(), Some(0)).await {
            Ok(_) | Err(PublishError::WrongLast { .. }) => Ok(wanted),
            Err(error) => Err(error.into()),
        }
    }
}

/// Opens a regular file that lies where its path says. Never waits, as a pipe without a writer would have it.
async fn opened(path: PathBuf) -> io::Result<File> {
    let open = move || {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = openat2(CWD, &path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
        let file = std::fs::File::from(file);
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        Ok(File::from_std(file))
    };
    tokio::task::spawn_blocking(open).await?
}

fn reference(meta: &ObjectMeta) -> ArtifactRef {
    ArtifactRef {
        sha256: meta.name.clone(),
        size: meta.size,
        media_type: meta.metadata.get(MEDIA_TYPE).cloned().unwrap_or_default(),
    }
}
