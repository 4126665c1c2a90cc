//! Texts of others in so many columns: what is hidden is made visible, and wide characters take two.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The columns that a character takes.
fn width(c: char) -> usize {
    c.width().unwrap_or(0)
}

/// A text of exactly so many columns: cut with an ellipsis, or filled up.
pub(super) fn fitted(text: &str, columns: usize) -> String {
    let fits = text.width() <= columns;
    let mut room = if fits { columns } else { columns.saturating_sub(1) };
    let mut shown = String::new();
    for c in text.chars() {
        let Some(left) = room.checked_sub(width(c)) else { break };
        room = left;
        shown.push(c);
    }
    if !fits && columns > 0 {
        shown.push('…');
    }
    shown.extend(std::iter::repeat_n(' ', room));
    shown
}

/// The same, moved to the right.
pub(super) fn right(text: &str, columns: usize) -> String {
    let used = text.width();
    if used > columns { fitted(text, columns) } else { " ".repeat(columns - used) + text }
}

/// Lines of at most so many columns, broken at blanks where there are some.
pub(super) fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(1);
    let mut lines = Vec::new();
    for line in text.lines() {
        let mut rest = line.trim_end();
        while rest.width() > columns {
            let (mut used, mut blank, mut end) = (0, None, rest.len());
            for (at, c) in rest.char_indices() {
                used += width(c);
                // What a blank would be too much for fits.
                if c == ' ' && at > 0 {
                    blank = Some(at);
                }
                if used > columns {
                    end = at;
                    break;
                }
            }
            // A character that is wider than the line stands alone.
            let first = rest.chars().next().map_or(1, char::len_utf8);
            let at = blank.unwrap_or(end).max(first);
            let (head, tail) = rest.split_at(at);
            lines.push(head.trim_end().to_owned());
            rest = tail.trim_start();
        }
        if !rest.is_empty() || line.trim_end().is_empty() {
            lines.push(rest.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fitted_text_has_exactly_its_columns() {
        for (text, columns, shown) in [
            ("abc", 3, "abc"),
            ("abc", 4, "abc "),
            ("abcd", 3, "ab…"),
            ("世界", 4, "世界"),
            ("世界", 3, "世…"),
            ("世界", 2, "… "),
            ("世界", 1, "…"),
            ("x", 0, ""),
            ("e\u{301}e\u{301}", 2, "e\u{301}e\u{301}"),
        ] {
            assert_eq!(fitted(text, columns), shown, "{text} in {columns}");
            assert_eq!(fitted(text, columns).width(), columns);
        }
        assert_eq!((right("7", 3).as_str(), right("1234", 3).as_str()), ("  7", "12…"));
    }

    #[test]
    fn wrapped_text_breaks_at_blanks_and_loses_no_word() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("onetwothree", 4), ["onet", "woth", "ree"]);
        assert_eq!(wrapped("a\n\nb", 9), ["a", "", "b"]);
        assert_eq!(wrapped("世界世", 1), ["世", "界", "世"]);
        assert_eq!(wrapped("ab cd", 5), ["ab cd"]);
        assert_eq!(wrapped("ab cde", 5), ["ab", "cde"]);
    }
}
