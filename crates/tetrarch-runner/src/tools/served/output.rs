//! What a server of tools writes to its standard output, with bounds: it is for messages, a line each.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::time::{Instant, Sleep, sleep};

use crate::json_values::ValueCount;
use crate::rate::RateLimit;

/// Longest message of a server, in bytes.
pub(super) const MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Most values of a message.
const MESSAGE_VALUES_MAX: usize = 200_000;
/// The time between two messages of a server, in the long run, and how many of them may come at once: each is a task
/// here until its server has read the answer.
const MESSAGES_GAP: Duration = Duration::from_millis(10);
const MESSAGES_AT_ONCE: u32 = 10_000;
/// How long a server may leave what it is sent unread.
const READ_WITHIN: Duration = Duration::from_secs(30);
/// What is kept of a line that is no message, in bytes.
const STRANGE_BYTES: usize = 200;

/// What was strange about an output.
#[derive(Debug, Clone, Default)]
pub(super) struct OutputRemarks(Arc<Mutex<Strange>>);

#[derive(Debug, Default)]
struct Strange {
    /// The beginning of the first line that is no message.
    line: Vec<u8>,
    /// Why nothing more is read of it.
    ended: Option<String>,
}

impl OutputRemarks {
    fn strange(&self) -> MutexGuard<'_, Strange> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// In words; none when nothing was.
    pub(super) fn words(&self) -> Option<String> {
        let strange = self.strange();
        if let Some(why) = &strange.ended {
            return Some(why.clone());
        }
        let line = String::from_utf8_lossy(&strange.line);
        (!line.trim().is_empty()).then(|| {
            format!("wrote {:?} to standard output, which is for messages alone", line.trim())
        })
    }
}

/// An output that ends with a line that is more than a message may be, and with messages that come too fast.
#[derive(Debug)]
pub(super) struct MessageLines<R = ChildStdout> {
    output: R,
    remarks: OutputRemarks,
    /// Bytes of the line so far.
    length: usize,
    values: ValueCount,
    /// Whether the line is kept as the first that is no message.
    is_kept: bool,
    rate: RateLimit,
}

impl<R> MessageLines<R> {
    pub(super) fn of(output: R) -> (Self, OutputRemarks) {
        let remarks = OutputRemarks::default();
        let (values, rate) =
            (ValueCount::default(), RateLimit::new(MESSAGES_GAP, MESSAGES_AT_ONCE));
        let lines =
            Self { output, remarks: remarks.clone(), length: 0, values, is_kept: false, rate };
        (lines, remarks)
    }

    /// Looks at what came; whether it may be passed on.
    fn look(&mut self, bytes: &[u8]) -> bool {
        let remarks = self.remarks.clone();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let mut strange = remarks.strange();
            if self.length == 0 {
                let is_message =
                    piece.first().is_some_and(|byte| matches!(byte, b'{' | b'\n' | b'\r'));
                self.is_kept = !is_message && strange.line.is_empty();
            }
            if self.is_kept {
                let room = STRANGE_BYTES.saturating_sub(strange.line.len());
                strange.line.extend(&piece[..room.min(piece.len())]);
            }
            self.length += piece.len();
            let is_whole = piece.ends_with(b"\n");
            strange.ended = if self.length > MESSAGE_BYTES_MAX {
                Some(format!("wrote a message of more than {MESSAGE_BYTES_MAX} bytes"))
            } else if self.values.add(piece) > MESSAGE_VALUES_MAX {
                Some(format!("wrote a message of more than {MESSAGE_VALUES_MAX} values"))
            } else if is_whole && self.rate.take() > Instant::now() {
                Some("wrote more than 100 messages a second for long".to_owned())
            } else {
                None
            };
            if strange.ended.is_some() {
                return false;
            }
            if is_whole {
                (self.length, self.values) = (0, ValueCount::default());
            }
        }
        true
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for MessageLines<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.output).poll_read(context, buffer))?;
        if !self.look(&buffer.filled()[before..]) {
            // Nothing more comes.
            buffer.set_filled(before);
        }
        Poll::Ready(Ok(()))
    }
}

/// An input of a server that fails when it is not read for too long.
#[derive(Debug)]
pub(super) struct ReadInput<W = ChildStdin> {
    input: W,
    /// The time at which it has failed, while it is full.
    until: Option<Pin<Box<Sleep>>>,
}

impl<W> ReadInput<W> {
    pub(super) fn of(input: W) -> Self {
        Self { input, until: None }
    }

    fn within<T>(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.until = None;
            return polled;
        }
        let until = self.until.get_or_insert_with(|| Box::pin(sleep(READ_WITHIN)));
        ready!(until.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for ReadInput<W> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.input).poll_write(context, bytes);
        self.within(context, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.input).poll_flush(context);
        self.within(context, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.input).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    async fn read(bytes: &[u8]) -> (usize, Option<String>) {
        let (mut lines, remarks) = MessageLines::of(bytes);
        let mut all = Vec::new();
        lines.read_to_end(&mut all).await.unwrap();
        (all.len(), remarks.words())
    }

    #[tokio::test]
    async fn messages_are_passed_on_and_the_first_other_line_is_kept() {
        assert_eq!(read(b"{}\n{}\n\r\n").await, (8, None));
        let (length, words) = read(b"{}\nhello there\nand more\n{}\n").await;
        let expected = "wrote \"hello there\" to standard output, which is for messages alone";
        assert_eq!((length, words.as_deref()), (27, Some(expected)));
    }

    #[tokio::test]
    async fn output_ends_with_a_line_that_is_too_long() {
        let whole = [b"{".to_vec(), vec![b' '; MESSAGE_BYTES_MAX - 2]].concat();
        let two = [&whole[..], b"\n", &whole, b"\n"].concat();
        assert_eq!(read(&two).await, (2 * MESSAGE_BYTES_MAX, None));
        let long = [&whole[..], b"  \n{}\n"].concat();
        let (length, words) = read(&long).await;
        assert!(length <= MESSAGE_BYTES_MAX, "{length}");
        assert!(words.unwrap().contains("more than 4194304 bytes"));
    }
    #[tokio::test]
    async fn output_ends_with_a_message_of_too_many_values() {
        // The object and the list, and a comma for each value but one.
        let message =
            |values: usize| format!("{{\"x\":[{}0]}}\n", "0,".repeat(values - 2)).into_bytes();
        let most = message(MESSAGE_VALUES_MAX);
        assert_eq!(read(&[&most[..], &most].concat()).await, (2 * most.len(), None));
        let words = read(&message(MESSAGE_VALUES_MAX + 1)).await.1;
        assert!(words.unwrap().contains("more than 200000 values"));
    }

    #[tokio::test(start_paused = true)]
    async fn output_ends_when_messages_come_too_fast_for_long() {
        let most = b"{}\n".repeat(MESSAGES_AT_ONCE as usize);
        assert_eq!(read(&most).await.1, None);
        let words = read(&[&most[..], b"{}\n"].concat()).await.1;
        assert!(words.unwrap().contains("100 messages a second"));
    }

    #[tokio::test(start_paused = true)]
    async fn input_fails_when_its_server_reads_nothing() {
        let (mut near, mut far) = tokio::io::duplex(4);
        let mut input = ReadInput::of(&mut near);
        input.write_all(b"1234").await.unwrap();
        let begun = Instant::now();
        let failed = input.write_all(b"5").await.unwrap_err();
        assert_eq!((failed.kind(), begun.elapsed()), (io::ErrorKind::TimedOut, READ_WITHIN));
        far.read_exact(&mut [0; 4]).await.unwrap();
        input.write_all(b"5678").await.unwrap();
    }
}
