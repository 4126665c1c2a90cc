//! Texts of a state graph with placeholders such as `{text}`. What is filled in is not read again.

use serde_json::{Map, Value};

use crate::limits::FILLED_BYTES_MAX;

/// What a text may have filled in besides the results that nodes keep: the person's words, the latest result and
/// what is wanted.
pub(super) const PLACEHOLDERS: [&str; 3] = ["text", "result", "intent"];

/// A part of a text.
enum Piece<'t> {
    Words(&'t str),
    Placeholder(&'t str),
}

/// The names that a text has filled in.
pub(super) fn placeholders(text: &str) -> Vec<&str> {
    let names = pieces(text).into_iter().filter_map(|piece| match piece {
        Piece::Placeholder(name) => Some(name),
        Piece::Words(_) => None,
    });
    names.collect()
}

/// The text with its placeholders filled in, cut where it is longer than [`FILLED_BYTES_MAX`].
pub(super) fn filled(text: &str, values: &Map<String, Value>) -> String {
    let context = &values.get("context").unwrap_or(&Value::Null);
    let value = |name: &str| match name {
        "result" => values.get("result").and_then(|result| result["text"].as_str()),
        "intent" => values.get("intent").and_then(Value::as_str),
        _ => context[name].as_str(),
    };
    let mut filled = String::new();
    for piece in pieces(text) {
        let part = match piece {
            Piece::Words(words) => words,
            Piece::Placeholder(name) => value(name).unwrap_or_default(),
        };
        let room = FILLED_BYTES_MAX - filled.len();
        filled.push_str(&part[..part.floor_char_boundary(room)]);
    }
    filled
}

/// As much of a text as takes at most so many bytes as JSON, whole characters.
pub(super) fn clipped(text: &str, max: usize) -> &str {
    let mut used = 0;
    let end = text.char_indices().find(|(_, c)| {
        used += match c {
            '"' | '\\' | '\n' | '\t' | '\r' => 2,
            c if c.is_control() => 6,
            c => c.len_utf8(),
        };
        used > max
    });
    end.map_or(text, |(end, _)| &text[..end])
}

/// A text in its parts: `{` and `}` around a name of letters, digits, `_` and `-` are a placeholder.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        let after = &rest[open + 1..];
        let is_name = |name: &&str| {
            let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            !name.is_empty() && name.chars().all(fits)
        };
        let name = after.find('}').map(|close| &after[..close]).filter(is_name);
        match name {
            Some(name) => {
                pieces.push(Piece::Words(&rest[..open]));
                pieces.push(Piece::Placeholder(name));
                rest = &after[name.len() + 1..];
            }
            None => {
                pieces.push(Piece::Words(&rest[..=open]));
                rest = after;
            }
        }
    }
    pieces.push(Piece::Words(rest));
    pieces
}
