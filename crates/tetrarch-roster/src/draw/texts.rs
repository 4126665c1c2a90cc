//! Texts of others in so many columns: what is hidden is made visible, and wide characters take two.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// What stands before a line of the screen that goes on with the one above.
pub(crate) const GOES_ON: &str = "↳";
/// Characters of a column: more that take none would stand upon each other.
const STACKED_MAX: usize = 4;

/// A text in pieces of at most so many columns, the first and the others. Nothing of it is left out.
pub(crate) fn pieces(text: &str, [first, others]: [usize; 2]) -> Vec<String> {
    let (mut done, mut piece) = (Vec::new(), String::new());
    let (mut used, mut count, mut room) = (0, 0, first.max(1));
    for c in text.chars() {
        let full = used + width(c) > room || count >= room * STACKED_MAX;
        if full && !piece.is_empty() {
            done.push(std::mem::take(&mut piece));
            (used, count, room) = (0, 0, others.max(1));
        }
        piece.push(c);
        (used, count) = (used + width(c), count + 1);
    }
    done.push(piece);
    done
}

/// A text in lines of at most so many columns; those that go on with the one above are marked.
pub(crate) fn marked(text: &str, columns: usize) -> Vec<String> {
    let marks = std::iter::once("").chain(std::iter::repeat(GOES_ON));
    let cut = pieces(text, [columns, columns.saturating_sub(1)]);
    cut.into_iter().zip(marks).map(|(piece, mark)| format!("{mark}{piece}")).collect()
}

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
    fn pieces_have_their_columns_and_leave_nothing_out() {
        for (text, columns, shown) in [
            ("", [3, 2], &[""][..]),
            ("abc", [3, 2], &["abc"]),
            ("abcdef", [3, 2], &["abc", "de", "f"]),
            ("a    b", [3, 2], &["a  ", "  ", "b"]),
            ("世界世", [5, 3], &["世界", "世"]),
            ("a世界", [2, 2], &["a", "世", "界"]),
            ("世", [1, 1], &["世"]),
        ] {
            let cut = pieces(text, columns);
            assert_eq!(cut, shown, "{text} in {columns:?}");
            assert_eq!(cut.concat(), text);
        }
        let stacked = format!("a{}", "\u{301}".repeat(10));
        assert_eq!(pieces(&stacked, [2, 2]).iter().map(|it| it.chars().count()).max(), Some(8));
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
