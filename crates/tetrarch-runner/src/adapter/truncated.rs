//! What can still be known of a line of JSON of which only the start was kept: the texts of its own fields. Total:
//! any bytes give some fields or none.

use std::collections::BTreeMap;

/// What a request is answered of which only the start was kept.
pub(crate) const REQUEST: &str = "the request is too long to be judged; write large files in parts";
/// Why a result of which only the start was kept is none.
pub(crate) const RESULT: &str = "its result is too long; put large results in a file and name it";
/// Longest name or value that is told, in bytes.
const TEXT_BYTES_MAX: usize = 256;

/// The fields of the object that the line begins, with their value where it is a short text, number or word; what is
/// nested, and the field in which the line was cut, is left out.
pub(crate) fn fields(start: &[u8]) -> BTreeMap<String, Option<String>> {
    let (mut fields, mut name) = (BTreeMap::new(), None::<String>);
    let (mut depth, mut at, mut value) = (0_u32, 0, 0);
    while let Some(byte) = start.get(at) {
        match byte {
            b'"' => {
                let Some(end) = end_of_text(start, at) else { break };
                if depth == 1 {
                    let text = text(start.get(at..end).unwrap_or_default());
                    match name.take() {
                        Some(name) => drop(fields.insert(name, text)),
                        None => name = text,
                    }
                }
                at = end;
                continue;
            }
            b'{' | b'[' => depth = depth.saturating_add(1),
            b'}' | b']' => depth = depth.saturating_sub(1),
            b':' if depth == 1 => value = at + 1,
            // A value that is no text, or one that was nested.
            b',' if depth == 1 => {
                if let Some(name) = name.take() {
                    fields.insert(name, word(start.get(value..at).unwrap_or_default()));
                }
            }
            _ => {}
        }
        at += 1;
    }
    fields
}

/// Where a text that begins at `from` ends, its quotes included.
fn end_of_text(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from + 1;
    loop {
        match bytes.get(at)? {
            b'\\' => at += 2,
            b'"' => return Some(at + 1),
            _ => at += 1,
        }
    }
}

/// A number, or a word of JSON.
fn word(value: &[u8]) -> Option<String> {
    let value = str::from_utf8(value.trim_ascii()).ok()?;
    let is_short = value.len() <= TEXT_BYTES_MAX;
    let is_word =
        value.chars().all(|letter| letter.is_ascii_alphanumeric() || "+-.".contains(letter));
    (is_short && is_word).then(|| value.to_owned())
}

fn text(quoted: &[u8]) -> Option<String> {
    if quoted.len() > TEXT_BYTES_MAX {
        return None;
    }
    serde_json::from_slice(quoted).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_fields_of_a_cut_object_are_found() {
        for (start, expected) in [
            (r#"{"a":"b","c":"#, vec![("a", Some("b"))]),
            (r#"{"a":1,"c":"d","e":"f"#, vec![("a", Some("1")), ("c", Some("d"))]),
            (
                r#"{"a": -2e3 ,"b":true,"c":null,"d":5"#,
                vec![("a", Some("-2e3")), ("b", Some("true")), ("c", Some("null"))],
            ),
            (r#"{"a":{"type":"result"},"c":["x","y"],"d":"#, vec![("a", None), ("c", None)]),
            (r#"{"a":"\"type\":\"result\"","b":"#, vec![("a", Some("\"type\":\"result\""))]),
            (r#"{"a":"cut"#, vec![]),
            (r#"{"a":"ends in \"#, vec![]),
            ("", vec![]),
            ("\u{0}}}]]\"", vec![]),
        ] {
            let found = fields(start.as_bytes());
            let found: Vec<(&str, Option<&str>)> =
                found.iter().map(|(name, value)| (name.as_str(), value.as_deref())).collect();
            assert_eq!(found, expected, "{start}");
        }
        let long = format!(r#"{{"a":"{}","b":"c","#, "x".repeat(TEXT_BYTES_MAX));
        let found = fields(long.as_bytes());
        assert_eq!((&found["a"], found["b"].as_deref()), (&None, Some("c")));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read(bytes: Vec<u8>) {
            let found = fields(&bytes);
            proptest::prop_assert!(found.len() <= bytes.len());
        }
    }
}
