//! What is kept of a program's output: its beginning and its end, however much there was.

use std::collections::VecDeque;

use tetrarch_core::redaction::Stream;

/// What is kept of the beginning, and of the end, in bytes each.
const KEPT: usize = 16 * 1024;

/// The beginning and the end of some output, without the secrets that are known.
#[derive(Debug, Default)]
pub(super) struct CappedOutput {
    stream: Stream,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    left_out: u64,
}

impl CappedOutput {
    /// Takes what came.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let clean = self.stream.feed(bytes);
        self.keep(&clean);
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = (KEPT - self.head.len()).min(bytes.len());
        let (head, rest) = bytes.split_at(room);
        self.head.extend_from_slice(head);
        self.tail.extend(rest);
        let over = self.tail.len().saturating_sub(KEPT);
        self.left_out += over as u64;
        self.tail.drain(..over);
    }

    /// All that was kept, with what was left out said in between.
    pub(super) fn text(&mut self) -> String {
        let rest = self.stream.rest();
        self.keep(&rest);
        let (one, other) = self.tail.as_slices();
        let head = String::from_utf8_lossy(&self.head);
        if self.left_out == 0 {
            let all = [&self.head, one, other].concat();
            return String::from_utf8_lossy(&all).into_owned();
        }
        let tail = [one, other].concat();
        let tail = String::from_utf8_lossy(&tail);
        format!("{head}\n[{} bytes left out]\n{tail}", self.left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginning_and_end_are_kept() {
        for pieces in [1, 7, 4096, 100_000] {
            let all: Vec<u8> =
                (0..100_000u32).map(|at| b'a' + u8::try_from(at % 26).unwrap()).collect();
            let mut output = CappedOutput::default();
            all.chunks(pieces).for_each(|piece| output.push(piece));
            let text = output.text();
            assert!(text.as_bytes().starts_with(&all[..KEPT]));
            assert!(text.as_bytes().ends_with(&all[all.len() - KEPT..]));
            assert!(text.contains("[67232 bytes left out]"), "{pieces}");
        }
    }

    #[test]
    fn short_output_is_kept_whole() {
        let mut output = CappedOutput::default();
        assert_eq!(output.text(), "");
        output.push(&vec![b'x'; KEPT - 1]);
        output.push("é".as_bytes());
        output.push(&vec![b'y'; KEPT - 1]);
        let whole = format!("{}é{}", "x".repeat(KEPT - 1), "y".repeat(KEPT - 1));
        assert_eq!(output.text(), whole);
        output.push(b"z");
        assert!(output.text().contains("[1 bytes left out]"));
    }
}
