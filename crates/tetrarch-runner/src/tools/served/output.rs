//! What a server of tools writes to its standard output, with bounds: it is for messages, a line each.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::process::ChildStdout;

/// Longest message of a server, in bytes.
pub(super) const MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// What is kept of a line that is no message, in bytes.
const STRANGE_BYTES: usize = 200;

/// What was strange about an output.
#[derive(Debug, Clone, Default)]
pub(super) struct OutputRemarks(Arc<Mutex<Strange>>);

#[derive(Debug, Default)]
struct Strange {
    /// The beginning of the first line that is no message.
    line: Vec<u8>,
    is_overlong: bool,
}

impl OutputRemarks {
    fn strange(&self) -> MutexGuard<'_, Strange> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// In words; none when nothing was.
    pub(super) fn words(&self) -> Option<String> {
        let strange = self.strange();
        if strange.is_overlong {
            return Some(format!("wrote a message of more than {MESSAGE_BYTES_MAX} bytes"));
        }
        let line = String::from_utf8_lossy(&strange.line);
        (!line.trim().is_empty()).then(|| {
            format!("wrote {:?} to standard output, which is for messages alone", line.trim())
        })
    }
}

/// An output that ends with a line that is longer than a message may be.
#[derive(Debug)]
pub(super) struct MessageLines<R = ChildStdout> {
    output: R,
    remarks: OutputRemarks,
    /// Bytes of the line so far.
    length: usize,
    /// Whether the line is kept as the first that is no message.
    is_kept: bool,
}

impl<R> MessageLines<R> {
    pub(super) fn of(output: R) -> (Self, OutputRemarks) {
        let remarks = OutputRemarks::default();
        (Self { output, remarks: remarks.clone(), length: 0, is_kept: false }, remarks)
    }

    /// Looks at what came; whether it may be passed on.
    fn look(&mut self, bytes: &[u8]) -> bool {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let mut strange = self.remarks.strange();
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
            if self.length > MESSAGE_BYTES_MAX {
                strange.is_overlong = true;
                return false;
            }
            if piece.ends_with(b"\n") {
                self.length = 0;
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

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

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
        let whole = vec![b'{'; MESSAGE_BYTES_MAX - 1];
        let two = [&whole[..], b"\n", &whole, b"\n"].concat();
        assert_eq!(read(&two).await, (2 * MESSAGE_BYTES_MAX, None));
        let long = [&whole[..], b"{{\n{}\n"].concat();
        let (length, words) = read(&long).await;
        assert!(length <= MESSAGE_BYTES_MAX, "{length}");
        assert!(words.unwrap().contains("more than 4194304 bytes"));
    }
}
