//! How many values a JSON text has: read, each takes up to a hundred bytes of memory, and two of the text.

/// Counts values of a text that comes in pieces.
#[derive(Debug, Default)]
pub(crate) struct ValueCount {
    values: usize,
    in_text: bool,
    is_escaped: bool,
}

impl ValueCount {
    /// Takes the next piece; gives how many values there are until now, at least.
    pub(crate) fn add(&mut self, bytes: &[u8]) -> usize {
        for byte in bytes {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = self.in_text,
                b'"' => self.in_text = !self.in_text,
                b',' | b'[' | b'{' if !self.in_text => self.values += 1,
                _ => {}
            }
        }
        self.values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_but_not_in_texts() {
        for (text, values) in
            [("{}", 1), ("[0,0]", 2), (r#"{"a\"[,": "[{,\\"}"#, 1), ("[[],{}]", 4)]
        {
            assert_eq!(ValueCount::default().add(text.as_bytes()), values, "{text}");
            let mut count = ValueCount::default();
            let pieces = text.as_bytes().iter().map(|byte| count.add(&[*byte]));
            assert_eq!(pieces.last(), Some(values), "{text} in pieces");
        }
    }
}
