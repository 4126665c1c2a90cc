//! Lines on their way into a program that may read them late, never, or be gone: bounded queues with
//! a writer of their own, verbs ahead of everything else. The run never waits for it.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::io::ioctl_fionread;
use tetrarch_core::id::RequestId;
use tetrarch_core::order::{Inbound, RunnerEvent};
use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::channels::Teller;

/// Lines that wait for a program, the pipe's own buffer not counted.
const QUEUE_LINES: usize = 32;
/// Free places with which a line is taken: those that are left are for what the runner itself has to say.
const ROOM: usize = 8;
/// Verbs that wait for a program.
pub(super) const QUEUE_VERBS: usize = 16;
/// After this long in one line a program is said not to read its stdin.
const SLOW_AFTER: Duration = Duration::from_secs(30);

/// Why a line does not reach the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotFed {
    /// It reads too slowly or not at all.
    #[error("too many lines wait; the program does not read its stdin")]
    Full,
    /// It closed its stdin or is being ended.
    #[error("the program's stdin is closed")]
    Closed,
}

/// What became of a verb's line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LineDelivery {
    /// The verb.
    pub(super) id: RequestId,
    /// Why the program does not have it; none when it has.
    pub(super) why: Option<NotFed>,
}

/// What a line is, as far as somebody wants to know what became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A verb.
    Verb(RequestId),
    /// The message of the inbox at this place.
    Mail(u64),
    /// Something else.
    Other,
}

/// A line, with what it is.
type FeedLine = (Vec<u8>, Kind);

/// The way into a program.
#[derive(Debug)]
pub(super) struct Feed {
    queue: Option<mpsc::Sender<FeedLine>>,
    verbs: Option<mpsc::Sender<FeedLine>>,
    writer: JoinHandle<()>,
    /// Its end of the pipe once more, to ask what lies in it.
    pipe: Option<OwnedFd>,
    /// Bytes that were written to it, or are being written.
    told: Arc<AtomicU64>,
}

impl Feed {
    /// Opens it with the first line. `notes` gets what people should know, `deliveries` what becomes of
    /// verbs, `teller` which messages the program has.
    pub(super) fn open(
        stdin: ChildStdin,
        first: Vec<u8>,
        notes: mpsc::Sender<String>,
        deliveries: mpsc::Sender<LineDelivery>,
        teller: Teller,
    ) -> Self {
        let (queue, lines) = mpsc::channel(QUEUE_LINES);
        let (verbs, urgent) = mpsc::channel(QUEUE_VERBS);
        let waiting = FeedQueue { urgent, lines };
        let pipe = stdin.as_fd().try_clone_to_owned().ok();
        let told = Arc::new(AtomicU64::new(0));
        let to = LineReports { notes, deliveries, teller };
        let writer = tokio::spawn(write(stdin, first, waiting, Arc::clone(&told), to));
        Self { queue: Some(queue), verbs: Some(verbs), writer, pipe, told }
    }

    /// Waits until a line can be queued, or none any more.
    async fn room(&self) {
        if let Some(queue) = &self.queue {
            // A line of the run's own may wait behind the last one.
            let _room = queue.reserve_many(ROOM).await;
        }
    }

    /// Queues a line.
    pub(super) fn offer(&self, line: Vec<u8>) -> Result<(), NotFed> {
        put(self.queue.as_ref(), (line, Kind::Other))
    }

    /// Queues the message of the inbox at this place; of 0 nobody wants to know whether it is there.
    pub(super) fn post(&self, place: u64, line: Vec<u8>) -> Result<(), NotFed> {
        let kind = if place > 0 { Kind::Mail(place) } else { Kind::Other };
        put(self.queue.as_ref(), (line, kind))
    }

    /// Queues a verb, ahead of every other line.
    pub(super) fn urge(&self, id: RequestId, line: Vec<u8>) -> Result<(), NotFed> {
        put(self.verbs.as_ref(), (line, Kind::Verb(id)))
    }

    /// Whether the program has read nothing of what it was told, not even its brief: it would not read
    /// the next line either.
    pub(super) fn is_unread(&self) -> bool {
        let told = self.told.load(Ordering::Relaxed);
        let unread = self.pipe.as_ref().and_then(|pipe| ioctl_fionread(pipe).ok());
        told > 0 && unread.is_some_and(|unread| unread >= told)
    }

    /// Closes the program's stdin once what still waits is written.
    pub(super) fn finish(&mut self) {
        self.queue = None;
        self.verbs = None;
        self.pipe = None;
    }

    /// Closes the program's stdin; what still waits is dropped.
    pub(super) fn close(&mut self) {
        self.queue = None;
        self.verbs = None;
        self.pipe = None;
        self.writer.abort();
    }
}

/// The next line for a program, once there is room for it: until then it waits where it is.
pub(super) async fn next_line(
    lines: &mut mpsc::Receiver<Inbound>,
    feed: Option<&Feed>,
) -> Option<Inbound> {
    if let Some(feed) = feed {
        feed.room().await;
    }
    lines.recv().await
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.writer.abort();
    }
}

fn put(queue: Option<&mpsc::Sender<FeedLine>>, line: FeedLine) -> Result<(), NotFed> {
    let queue = queue.ok_or(NotFed::Closed)?;
    queue.try_send(line).map_err(|refused| match refused {
        TrySendError::Full(_) => NotFed::Full,
        TrySendError::Closed(_) => NotFed::Closed,
    })
}

/// What waits to be written.
struct FeedQueue {
    urgent: mpsc::Receiver<FeedLine>,
    lines: mpsc::Receiver<FeedLine>,
}

impl FeedQueue {
    /// The next line, verbs first; none when the way is closed.
    async fn next(&mut self) -> Option<FeedLine> {
        tokio::select! {
            biased;
            Some(line) = self.urgent.recv() => Some(line),
            line = self.lines.recv() => line,
        }
    }

    /// Takes nothing more, and gives what is left.
    fn end(&mut self) -> Vec<Kind> {
        self.urgent.close();
        self.lines.close();
        let urgent = std::iter::from_fn(|| self.urgent.try_recv().ok());
        let mut left: Vec<FeedLine> = urgent.collect();
        left.extend(std::iter::from_fn(|| self.lines.try_recv().ok()));
        left.into_iter().map(|(_, kind)| kind).collect()
    }
}

/// Who hears what became of lines.
struct LineReports {
    notes: mpsc::Sender<String>,
    deliveries: mpsc::Sender<LineDelivery>,
    teller: Teller,
}

async fn write(
    mut stdin: ChildStdin,
    first: Vec<u8>,
    mut waiting: FeedQueue,
    told: Arc<AtomicU64>,
    LineReports { notes, deliveries, teller }: LineReports,
) {
    let tell = |id, why| {
        // A run that has ended wants to know of nothing.
        let _over = deliveries.try_send(LineDelivery { id, why });
    };
    let mut next = Some((first, Kind::Other));
    let mut said = false;
    let mut is_brief = true;
    while let Some((line, kind)) = next {
        told.fetch_add(line.len() as u64, Ordering::Relaxed);
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
            let left = waiting.end();
            let mut lost = 0;
            for kind in (!is_brief).then_some(kind).into_iter().chain(left) {
                match kind {
                    Kind::Verb(id) => tell(id, Some(NotFed::Closed)),
                    Kind::Mail(_) | Kind::Other => lost += 1,
                }
            }
            // A program that does not care for its brief is free to close its stdin.
            if lost > 0 {
                note_down(&notes, format!("{lost} lines were dropped: {}", NotFed::Closed));
            }
            return;
        }
        match kind {
            Kind::Verb(id) => tell(id, None),
            Kind::Mail(place) => teller.tell(RunnerEvent::Taken { place }).await,
            Kind::Other => {}
        }
        is_brief = false;
        next = waiting.next().await;
    }
}

/// Passes a note on when there is room for it; notes never hold anything up.
pub(super) fn note_down(notes: &mpsc::Sender<String>, note: String) {
    if let Err(refused) = notes.try_send(note) {
        tracing::debug!(%refused, "a note was dropped");
    }
}
