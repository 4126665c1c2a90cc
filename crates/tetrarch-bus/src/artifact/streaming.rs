//! Artifacts that are never held whole: bytes sent before their name is known, and read in lines while
//! they come.

use tetrarch_core::redaction;
use tokio::fs::File;
use tokio::io::{
    AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream, duplex,
};
use tokio::task::JoinHandle;

use std::path::Path;

use super::transfer::{self, Sent};
use super::{ArtifactError, ArtifactRef, Artifacts, CHUNK_BYTES, reference};

/// Bytes that are on their way between what sends and what reads.
const PIPE_BYTES: usize = 256 * 1024;
/// Bytes of one line that is read; a longer one is damage.
const LINE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Bytes that are stored and are no artifact yet. What nobody names is swept.
#[derive(Debug)]
pub struct Upload(Sent);

/// An artifact that is being read.
#[derive(Debug)]
pub struct ArtifactLines {
    sha256: String,
    bytes: BufReader<DuplexStream>,
    arriving: Option<JoinHandle<Result<(), ArtifactError>>>,
}

/// The two ends of a pipe that holds a bounded number of bytes.
#[must_use]
pub fn pipe() -> (DuplexStream, DuplexStream) {
    duplex(PIPE_BYTES)
}

impl Artifacts {
    /// Sends a source's bytes. They are an artifact once they are [named](Self::name).
    ///
    /// # Errors
    /// Too many bytes, or what the bus answered.
    pub async fn upload<R: AsyncRead + Unpin>(&self, source: R) -> Result<Upload, ArtifactError> {
        let source = source.take(self.bytes_max.saturating_add(1));
        let sent = transfer::send(&self.bus, source, Path::new("memory")).await?;
        self.check_size(sent.size)?;
        Ok(Upload(sent))
    }

    /// Makes an upload the artifact that its bytes are. When there is one already, that one is kept as
    /// if it were stored now, and the upload goes.
    ///
    /// # Errors
    /// What the bus answered.
    pub async fn name(
        &self,
        Upload(sent): Upload,
        media_type: &str,
    ) -> Result<ArtifactRef, ArtifactError> {
        let sha256 = sent.sha256();
        if let Some(stored) = self.stored_again(&sha256).await? {
            self.sweep_upload(&sent.nuid).await?;
            return Ok(stored);
        }
        let media_type = media_type.to_owned();
        self.describe(ArtifactRef { sha256, size: sent.size, media_type }, sent).await
    }

    /// Stores a text file without the secrets that are known.
    pub(super) async fn put_clean(
        &self,
        mut file: File,
        path: &Path,
        media_type: &str,
    ) -> Result<ArtifactRef, ArtifactError> {
        let (mut sink, source) = pipe();
        let clean = async {
            let (mut stream, mut buffer) = (redaction::Stream::default(), vec![0; CHUNK_BYTES]);
            loop {
                let read = file.read(&mut buffer).await?;
                let Some(bytes) = buffer.get(..read).filter(|bytes| !bytes.is_empty()) else {
                    break;
                };
                sink.write_all(&stream.feed(bytes)).await?;
            }
            sink.write_all(&stream.rest()).await?;
            sink.shutdown().await
        };
        let (cleaned, upload) = tokio::join!(clean, self.upload(source));
        let upload = upload?;
        cleaned.map_err(|source| ArtifactError::File { path: path.to_owned(), source })?;
        self.name(upload, media_type).await
    }

    /// Begins to read an artifact in lines; gives what is known about it too.
    ///
    /// # Errors
    /// No such artifact, or what the bus answered.
    pub async fn lines(&self, sha256: &str) -> Result<(ArtifactRef, ArtifactLines), ArtifactError> {
        let meta = self.existing(sha256).await?;
        let (known, (mut sink, source)) = (reference(&meta), pipe());
        let bus = self.bus.clone();
        // When nobody reads any more, its next write fails, and it ends.
        let arriving = tokio::spawn(async move {
            transfer::receive(&bus, &meta, &mut sink, Path::new("memory")).await
        });
        let (sha256, bytes) = (sha256.to_owned(), BufReader::new(source));
        Ok((known, ArtifactLines { sha256, bytes, arriving: Some(arriving) }))
    }
}

impl ArtifactLines {
    /// The next line, with its end; none after the last one, when all bytes are what the name says.
    ///
    /// # Errors
    /// The artifact is damaged, or what the bus answered; what was read before is then not to be
    /// relied on.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, ArtifactError> {
        let mut line = Vec::new();
        let mut bytes = (&mut self.bytes).take(LINE_BYTES_MAX);
        let read = bytes.read_until(b'\n', &mut line).await;
        read.map_err(|error| self.damaged(error.to_string()))?;
        if line.ends_with(b"\n") {
            return Ok(Some(line));
        }
        if u64::try_from(line.len()).is_ok_and(|length| length >= LINE_BYTES_MAX) {
            return Err(self.damaged(format!("a line of it has more than {LINE_BYTES_MAX} bytes")));
        }
        if let Some(arriving) = self.arriving.take() {
            arriving.await.map_err(|error| self.damaged(error.to_string()))??;
        }
        Ok(Some(line).filter(|line| !line.is_empty()))
    }

    fn damaged(&self, reason: String) -> ArtifactError {
        ArtifactError::Damaged { sha256: self.sha256.clone(), reason }
    }
}
