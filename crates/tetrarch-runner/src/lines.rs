//! Bounded views of an endless byte stream: its lines and its tail. Never holds more than
//! `LINE_BYTES_MAX` and `OUTPUT_TAIL_BYTES`; knows nothing of what the lines mean.

use tetrarch_core::limits::{LINE_BYTES_MAX, OUTPUT_TAIL_BYTES};
use tetrarch_core::redaction::Stream;

/// The last bytes of a stream.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tail {
    bytes: Vec<u8>,
}

impl Tail {
    /// Appends, forgetting what is no longer among the last bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let from = bytes.len().saturating_sub(OUTPUT_TAIL_BYTES);
        self.bytes.extend_from_slice(bytes.get(from..).unwrap_or_default());
        if self.bytes.len() > 2 * OUTPUT_TAIL_BYTES {
            self.bytes.drain(..self.bytes.len() - OUTPUT_TAIL_BYTES);
        }
    }

    /// Appends a line and its newline.
    pub(crate) fn push_line(&mut self, line: &OutputLine) {
        self.push(line.bytes());
        if let OutputLine::Cut { end, .. } = line {
            self.push(&end.bytes);
        }
        self.push(b"\n");
    }

    /// The tail as text without the newlines at its end, at most `OUTPUT_TAIL_BYTES` long; a
    /// character cut in half at its start is left out.
    pub(crate) fn text(&self) -> String {
        let from = self.bytes.len().saturating_sub(OUTPUT_TAIL_BYTES);
        let mut last = self.bytes.get(from..).unwrap_or_default();
        while from > 0 && last.first().is_some_and(|byte| byte & 0xC0 == 0x80) {
            last = &last[1..];
        }
        end_of(String::from_utf8_lossy(last).trim_end_matches(['\n', '\r']), OUTPUT_TAIL_BYTES)
            .to_owned()
    }
}

/// The first `max` bytes of a text or a few less, so that no character is cut.
pub(crate) fn start_of(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

/// The last `max` bytes of a text or a few less, so that no character is cut.
pub(crate) fn end_of(text: &str, max: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(max))..]
}

/// One line of a stream, without its newline.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum OutputLine {
    /// All of it.
    Whole(Vec<u8>),
    /// The start of one that is longer than `LINE_BYTES_MAX`.
    Cut {
        /// What was kept.
        start: Vec<u8>,
        /// The last of what came after it.
        end: Tail,
        /// How many bytes came after it.
        dropped: usize,
    },
}

impl OutputLine {
    /// What is there of it.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Whole(bytes) | Self::Cut { start: bytes, .. } => bytes,
        }
    }
}

/// Cuts a stream into lines, without the secrets that are known: what is cut later cuts none of them in half.
#[derive(Debug, Default)]
pub(crate) struct LineSplitter {
    stream: Stream,
    line: Vec<u8>,
    dropped: usize,
    end: Tail,
}

impl LineSplitter {
    /// The lines that end in this chunk.
    pub(crate) fn feed(&mut self, chunk: &[u8]) -> Vec<OutputLine> {
        let (chunk, mut ended) = (self.stream.feed(chunk), Vec::new());
        for part in chunk.split_inclusive(|byte| *byte == b'\n') {
            let body = part.strip_suffix(b"\n");
            self.keep(body.unwrap_or(part));
            if body.is_some() {
                ended.push(self.take());
            }
        }
        ended
    }

    /// The line that the stream ended in.
    pub(crate) fn rest(&mut self) -> Option<OutputLine> {
        let rest = self.stream.rest();
        self.keep(&rest);
        (!self.line.is_empty()).then(|| self.take())
    }

    fn keep(&mut self, part: &[u8]) {
        let room = LINE_BYTES_MAX - self.line.len();
        let kept = part.len().min(room);
        self.line.extend_from_slice(&part[..kept]);
        self.dropped += part.len() - kept;
        self.end.push(&part[kept..]);
    }

    fn take(&mut self) -> OutputLine {
        let start = std::mem::take(&mut self.line);
        let end = std::mem::take(&mut self.end);
        match std::mem::take(&mut self.dropped) {
            0 => OutputLine::Whole(start),
            dropped => OutputLine::Cut { start, end, dropped },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_do_not_depend_on_chunking() {
        let stream = b"one\n\ntwo three\nrest";
        for size in 1..stream.len() {
            let mut lines = LineSplitter::default();
            let mut seen: Vec<Vec<u8>> = Vec::new();
            for chunk in stream.chunks(size) {
                seen.extend(lines.feed(chunk).iter().map(|line| line.bytes().to_vec()));
            }
            seen.extend(lines.rest().iter().map(|line| line.bytes().to_vec()));
            assert_eq!(seen, [&b"one"[..], b"", b"two three", b"rest"], "chunks of {size}");
        }
    }

    #[test]
    fn overlong_line_is_cut_and_counted() {
        let mut lines = LineSplitter::default();
        assert!(lines.feed(&vec![b'x'; LINE_BYTES_MAX]).is_empty());
        assert!(lines.feed(&[b'x'; 10]).is_empty());
        let ended = lines.feed(b"yy\nnext\n");
        let start = vec![b'x'; LINE_BYTES_MAX];
        let end = Tail { bytes: b"xxxxxxxxxxyy".to_vec() };
        let cut = OutputLine::Cut { start, end, dropped: 12 };
        let mut tail = Tail::default();
        tail.push_line(&cut);
        assert!(tail.text().ends_with("xxyy"));
        assert_eq!(ended, [cut, OutputLine::Whole(b"next".to_vec())]);
        assert!(matches!(
            lines.feed(&[&vec![b'z'; LINE_BYTES_MAX][..], b"\n"].concat()).as_slice(),
            [OutputLine::Whole(_)]
        ));
    }

    #[test]
    fn secret_across_a_chunk_or_cut_is_in_neither_part() {
        tetrarch_core::redaction::know(b"cut-in-two-0123456789").unwrap();
        let mut lines = LineSplitter::default();
        let long =
            [&vec![b'x'; LINE_BYTES_MAX - 9][..], b"cut-in-two-0123456789 after\ncut-in"].concat();
        let ended = lines.feed(&long);
        let [OutputLine::Cut { start, end, .. }] = ended.as_slice() else {
            panic!("{}", ended.len())
        };
        assert!(start.ends_with(b"x[redacted"));
        assert_eq!(end.text(), ":secret] after");
        assert!(lines.feed(b"-two-0123456").is_empty());
        assert_eq!(lines.feed(b"789 \n"), [OutputLine::Whole(b"[redacted:secret] ".to_vec())]);
    }

    #[test]
    fn tail_is_the_last_bytes_on_a_character_boundary() {
        let mut tail = Tail::default();
        tail.push("é".repeat(OUTPUT_TAIL_BYTES).as_bytes());
        tail.push(b"end\n");
        let text = tail.text();
        assert!(text.len() <= OUTPUT_TAIL_BYTES && text.len() > OUTPUT_TAIL_BYTES - 8);
        assert!(text.starts_with('é') && text.ends_with("éend"));
        let mut short = Tail::default();
        short.push(b"\x80hi\n\n");
        assert_eq!(short.text(), "\u{fffd}hi");
    }

    #[test]
    fn tail_of_binary_data_stays_bounded() {
        let mut tail = Tail::default();
        tail.push(&vec![0xFF; 3 * OUTPUT_TAIL_BYTES]);
        assert!(tail.text().len() <= OUTPUT_TAIL_BYTES);
    }

    #[test]
    fn cuts_fall_between_characters() {
        assert_eq!(start_of("aé", 2), "a");
        assert_eq!(end_of("éa", 2), "a");
        assert_eq!(start_of("ab", 9), "ab");
    }
}
