//! Lines on their way into a program that may read them late, never, or be gone: a bounded queue
//! with a writer of its own. The run never waits for it.

use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Lines that wait for a program, the pipe's own buffer not counted.
const QUEUE_LINES: usize = 32;
/// After this long in one line a program is said not to read its stdin.
const SLOW_AFTER: Duration = Duration::from_secs(30);

/// Why a line does not reach the program.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotFed {
    /// It reads too slowly or not at all.
    #[error("{QUEUE_LINES} lines already wait; the program does not read its stdin")]
    Full,
    /// It closed its stdin or is being ended.
    #[error("the program's stdin is closed")]
    Closed,
}

/// The way into a program.
#[derive(Debug)]
pub(super) struct Feed {
    queue: Option<mpsc::Sender<Vec<u8>>>,
    writer: JoinHandle<()>,
}

impl Feed {
    /// Opens it with the first line. `notes` gets what people should know.
    pub(super) fn open(stdin: ChildStdin, first: Vec<u8>, notes: mpsc::Sender<String>) -> Self {
        let (queue, lines) = mpsc::channel(QUEUE_LINES);
        let writer = tokio::spawn(write(stdin, first, lines, notes));
        Self { queue: Some(queue), writer }
    }

    /// Queues a line.
    pub(super) fn offer(&self, line: Vec<u8>) -> Result<(), NotFed> {
        let queue = self.queue.as_ref().ok_or(NotFed::Closed)?;
        queue.try_send(line).map_err(|refused| match refused {
            TrySendError::Full(_) => NotFed::Full,
            TrySendError::Closed(_) => NotFed::Closed,
        })
    }

    /// Closes the program's stdin; what still waits is dropped.
    pub(super) fn close(&mut self) {
        self.queue = None;
        self.writer.abort();
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.writer.abort();
    }
}

async fn write(
    mut stdin: ChildStdin,
    first: Vec<u8>,
    mut lines: mpsc::Receiver<Vec<u8>>,
    notes: mpsc::Sender<String>,
) {
    let mut next = Some(first);
    let mut said = false;
    let mut is_brief = true;
    while let Some(line) = next {
        let writing = stdin.write_all(&line);
        tokio::pin!(writing);
        let written = match timeout(SLOW_AFTER, &mut writing).await {
            Ok(written) => written,
            Err(_) => {
                if !std::mem::replace(&mut said, true) {
                    let note = format!("the program has not read its stdin for {SLOW_AFTER:?}");
                    note_down(&notes, note);
                }
                writing.await
            }
        };
        if written.is_err() {
            lines.close();
            let queued = std::iter::from_fn(|| lines.try_recv().ok()).count();
            let lost = queued + usize::from(!is_brief);
            // A program that does not care for its brief is free to close its stdin.
            if lost > 0 {
                note_down(&notes, format!("{lost} lines were dropped: {}", NotFed::Closed));
            }
            return;
        }
        is_brief = false;
        next = lines.recv().await;
    }
}

/// Passes a note on when there is room for it; notes never hold anything up.
pub(super) fn note_down(notes: &mpsc::Sender<String>, note: String) {
    if let Err(refused) = notes.try_send(note) {
        tracing::debug!(%refused, "a note was dropped");
    }
}
