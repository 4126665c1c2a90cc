//! Moving an artifact's bytes: chunks out with many acknowledgements in flight, chunks in by
//! direct gets, hashed on the way. Names and descriptions are the caller's.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

use async_nats::HeaderMap;
use bytes::Bytes;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::{ArtifactError, CHUNK_BYTES, ObjectMeta};
use crate::client::{Bus, PendingAck};
use crate::retry::Retry;
use crate::subject::pattern;

/// Chunks sent and not yet acknowledged: 64 uploads at once fit into what may wait in the stream.
const IN_FLIGHT: usize = 4;
/// Chunks asked for at once.
const BATCH: usize = 32;
/// Time for a lagging replica to have the next chunk.
const CHUNK_WITHIN: Duration = Duration::from_secs(10);

/// What was sent: one upload's chunks.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) nuid: String,
    pub(super) size: u64,
    pub(super) chunks: u64,
    pub(super) digest: Vec<u8>,
}

impl Sent {
    pub(super) fn sha256(&self) -> String {
        hex(&self.digest)
    }
}

/// Lower-case hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(bytes)
}

/// Sends all bytes of a source as chunks of a new upload and waits until all are stored.
pub(super) async fn send<R: AsyncRead + Unpin>(
    bus: &Bus,
    mut source: R,
    path: &Path,
) -> Result<Sent, ArtifactError> {
    let nuid = pattern::inbox_token(&bus.client.new_inbox()).to_owned();
    let subject = pattern::object_chunk(&nuid);
    let mut hash = Sha256::new();
    let (mut size, mut chunks) = (0u64, 0u64);
    let mut waiting: VecDeque<PendingAck> = VecDeque::new();
    loop {
        let chunk = next_chunk(&mut source)
            .await
            .map_err(|source| ArtifactError::File { path: path.to_owned(), source })?;
        if chunk.is_empty() {
            break;
        }
        hash.update(&chunk);
        size += u64::try_from(chunk.len()).unwrap_or(u64::MAX);
        chunks += 1;
        if waiting.len() >= IN_FLIGHT
            && let Some(first) = waiting.pop_front()
        {
            first.stored().await?;
        }
        waiting.push_back(bus.start_publish(&subject, HeaderMap::new(), chunk, None).await?);
    }
    for ack in waiting {
        ack.stored().await?;
    }
    Ok(Sent { nuid, size, chunks, digest: hash.finalize().to_vec() })
}

async fn next_chunk<R: AsyncRead + Unpin>(source: &mut R) -> std::io::Result<Bytes> {
    let mut chunk = Vec::with_capacity(CHUNK_BYTES);
    let bound = u64::try_from(CHUNK_BYTES).unwrap_or(u64::MAX);
    source.take(bound).read_to_end(&mut chunk).await?;
    Ok(chunk.into())
}

/// Writes all chunks of a described upload to a sink and verifies them against its name.
pub(super) async fn receive<W: AsyncWrite + Unpin>(
    bus: &Bus,
    meta: &ObjectMeta,
    sink: &mut W,
    path: &Path,
) -> Result<(), ArtifactError> {
    let damaged = |reason: String| ArtifactError::Damaged { sha256: meta.name.clone(), reason };
    let subject = pattern::object_chunk(&meta.nuid);
    let mut hash = Sha256::new();
    let (mut size, mut chunks, mut next) = (0u64, 0u64, 1u64);
    let mut retry = Retry::until(CHUNK_WITHIN);
    while chunks < meta.chunks {
        let batch = bus.next_by_subject_batch(pattern::ARTIFACTS, &subject, next, BATCH).await?;
        if batch.is_empty() && !retry.pause().await {
            return Err(damaged(format!("only {chunks} of its {} chunks were found", meta.chunks)));
        }
        for chunk in batch {
            hash.update(&chunk.payload);
            size += u64::try_from(chunk.payload.len()).unwrap_or(u64::MAX);
            chunks += 1;
            next = chunk.seq + 1;
            if size > meta.size {
                return Err(damaged(format!("it has more than its {} bytes", meta.size)));
            }
            sink.write_all(&chunk.payload)
                .await
                .map_err(|source| ArtifactError::File { path: path.to_owned(), source })?;
            retry.reset();
        }
    }
    let found = hex(&hash.finalize());
    if size != meta.size || found != meta.name {
        return Err(damaged(format!("its {size} bytes have sha256 {found}")));
    }
    Ok(())
}
