//! The bytes of an editor, with a bound for its lines: whoever reads them keeps a line until it ends.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tetrarch_core::limits::EDITOR_LINE_BYTES_MAX;
use tokio::io::{AsyncRead, ReadBuf};

/// What an editor says, up to the first line that is too long.
pub(super) struct EditorInput<R> {
    from: R,
    /// Bytes of the line that has not ended.
    line: usize,
}

impl<R> EditorInput<R> {
    /// What comes from there.
    pub(super) fn of(from: R) -> Self {
        Self { from, line: 0 }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for EditorInput<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.from).poll_read(context, into))?;
        let read = into.filled().get(before..).unwrap_or_default();
        let mut longest = 0;
        for part in read.split_inclusive(|byte| *byte == b'\n') {
            self.line += part.len();
            longest = longest.max(self.line);
            if part.ends_with(b"\n") {
                self.line = 0;
            }
        }
        if longest <= EDITOR_LINE_BYTES_MAX {
            return Poll::Ready(Ok(()));
        }
        // Nothing is read with an error.
        into.set_filled(before);
        let what = format!(
            "a message of the editor has more than {EDITOR_LINE_BYTES_MAX} bytes; send shorter prompts, \
             and name files by their paths"
        );
        Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, what)))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, repeat};

    use super::*;

    #[tokio::test]
    async fn endless_line_of_an_editor_is_an_error() {
        let mut kept = Vec::new();
        let refused = EditorInput::of(repeat(b'x')).read_to_end(&mut kept).await.unwrap_err();
        assert!(refused.to_string().contains("more than 1048576 bytes"), "{refused}");
        assert!(kept.len() <= EDITOR_LINE_BYTES_MAX);
    }

    #[tokio::test]
    async fn longest_lines_pass_and_one_byte_more_does_not() {
        let line = [&vec![b'x'; EDITOR_LINE_BYTES_MAX - 1][..], b"\n"].concat();
        let lines = line.repeat(3);
        let mut kept = Vec::new();
        EditorInput::of(&lines[..]).read_to_end(&mut kept).await.unwrap();
        assert!(kept == lines);
        let longer = [&lines[..], b"x", &line].concat();
        EditorInput::of(&longer[..]).read_to_end(&mut Vec::new()).await.unwrap_err();
    }
}
