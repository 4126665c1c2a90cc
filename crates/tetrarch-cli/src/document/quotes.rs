//! Where a quoted text of a YAML document begins that is not closed where its author meant it to be. The parser
//! says where it noticed, which is a line or more behind.

/// What may stand between a quoted text and the beginning of its line or entry.
const BEFORE: [char; 6] = [':', '-', '?', '[', '{', ','];

/// The byte of the quote that is still open at `at`, or was closed only on the line of `at`, after others.
pub(super) fn open_at(text: &str, at: usize) -> Option<usize> {
    let before = text.get(..at)?;
    let mut last: Option<(usize, usize)> = None;
    let mut from = 0;
    while let Some(open) = next_quote(before, from) {
        let end = end_of(before, open);
        last = Some((open, end.unwrap_or(at)));
        let Some(end) = end else { break };
        from = end;
    }
    let (open, end) = last?;
    let spans = before.get(open..end)?.contains('\n');
    let noticed = !before.get(end..)?.contains('\n');
    (noticed && (spans || end == at)).then_some(open)
}

/// The next quote from a byte on that begins a quoted text: neither in a comment nor in a block of text, and not
/// within words.
fn next_quote(text: &str, from: usize) -> Option<usize> {
    let mut start = from;
    for line in text.get(from..)?.split_inclusive('\n') {
        let begins = start == 0 || text.as_bytes().get(start - 1) == Some(&b'\n');
        if !(begins && is_in_block(text, start, line)) {
            let mut previous = if begins { None } else { Some('x') };
            let mut spaced = true;
            for (offset, c) in line.char_indices() {
                match c {
                    '#' if spaced => break,
                    '"' | '\'' if previous.is_none_or(|it| BEFORE.contains(&it)) => {
                        return Some(start + offset);
                    }
                    _ => {}
                }
                spaced = c.is_whitespace();
                previous = if spaced { previous } else { Some(c) };
            }
        }
        start += line.len();
    }
    None
}

/// Whether a line belongs to a block of text (`|` or `>`) that a line above it opens.
fn is_in_block(text: &str, start: usize, line: &str) -> bool {
    let indent = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let mut most = indent(line);
    for above in text.get(..start).unwrap_or_default().lines().rev() {
        if above.trim().is_empty() || indent(above) >= most {
            continue;
        }
        most = indent(above);
        let last = above.split_whitespace().next_back().unwrap_or_default();
        let mark = last.trim_end_matches(|c: char| matches!(c, '+' | '-') || c.is_ascii_digit());
        if matches!(mark, "|" | ">") {
            return true;
        }
        if most == 0 {
            break;
        }
    }
    false
}

/// The byte behind a quoted text that opens at `open`.
fn end_of(text: &str, open: usize) -> Option<usize> {
    let quote = text.get(open..)?.chars().next()?;
    let mut chars = text.get(open + 1..)?.char_indices().peekable();
    while let Some((offset, c)) = chars.next() {
        if c == '\\' && quote == '"' {
            chars.next();
        } else if c == quote {
            let twice = quote == '\'' && chars.next_if(|(_, next)| *next == quote).is_some();
            if !twice {
                return Some(open + 1 + offset + 1);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unclosed_quote_is_reported_at_its_start() {
        for (text, opens) in [
            ("title: \"Clean\nphases:\n", Some(7)),
            ("title: 'it''s\nphases:\n", Some(7)),
            ("- \"a \\\" b\n- c\n", Some(2)),
            ("[a, \"b\n]", Some(4)),
            ("a: \"b\"\nc: \"d\ne: f\n", Some(10)),
            // Closed by the quote of the next value, behind which something stands.
            ("a: \"b\nc: \"d", Some(3)),
            ("a: \"b\" c", None),
            ("a: don't\nb: c\n", None),
            ("a: the \"b\nc: d\n", None),
            ("# it's \"this\nb: [\n", None),
            ("a: b # \"c\nd: [\n", None),
            ("a: |\n  'tis\n\n  \"b\nc: [\n", None),
            ("a:\n  - >-\n    \"b\n  - [\n", None),
            ("a: \"b\n  c\"\nd: [\n", None),
        ] {
            assert_eq!(open_at(text, text.len()), opens, "{text:?}");
        }
    }
}
