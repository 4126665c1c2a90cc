//! A model's words as they come, in pieces that end where a word ends: whoever looks for credentials in them
//! sees each whole.

use tetrarch_core::redaction::Stream;

/// Bytes from which words are passed on before their line ends.
const PIECE_BYTES: usize = 512;
/// A word that is longer is passed on in parts.
const WORD_BYTES_MAX: usize = 16 * 1024;

/// Words that are not passed on yet.
#[derive(Debug, Default)]
pub(super) struct Deltas {
    stream: Stream,
    held: String,
}

impl Deltas {
    /// Takes some words; gives what can be passed on.
    pub(super) fn add(&mut self, text: &str) -> Option<String> {
        self.held.push_str(&String::from_utf8_lossy(&self.stream.feed(text.as_bytes())));
        let line = self.held.rfind('\n').map(|at| at + 1);
        let word = || {
            let long = self.held.len() >= PIECE_BYTES;
            let at = self.held.rfind(char::is_whitespace).filter(|_| long)?;
            Some(at + self.held[at..].chars().next().map_or(0, char::len_utf8))
        };
        let whole = || (self.held.len() >= WORD_BYTES_MAX).then_some(self.held.len());
        let end = line.or_else(word).or_else(whole)?;
        let rest = self.held.split_off(end);
        Some(std::mem::replace(&mut self.held, rest))
    }

    /// What is left.
    pub(super) fn rest(&mut self) -> Option<String> {
        let mut rest = std::mem::take(&mut self.held);
        rest.push_str(&String::from_utf8_lossy(&self.stream.rest()));
        (!rest.is_empty()).then_some(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_forwarded_in_whole_words_without_loss() {
        let mut deltas = Deltas::default();
        assert_eq!(deltas.add("one t"), None);
        assert_eq!(deltas.add("wo\nthr"), Some("one two\n".to_owned()));
        let long = format!("ee {}", "x".repeat(PIECE_BYTES));
        assert_eq!(deltas.add(&long), Some("three ".to_owned()));
        assert_eq!(deltas.add("\u{2003}"), Some(format!("{}\u{2003}", "x".repeat(PIECE_BYTES))));
        assert_eq!(deltas.rest(), None);
        assert_eq!(
            deltas.add(&"y".repeat(WORD_BYTES_MAX)).map(|it| it.len()),
            Some(WORD_BYTES_MAX)
        );
        deltas.add("end");
        assert_eq!(deltas.rest(), Some("end".to_owned()));
    }
}
