//! Tables: aligned columns, no blanks at a line's end, colours only when asked for.

use serde_json::Value;

use crate::output::{Tone, tone_of, visible};

/// The codes by which a terminal shows a tone.
fn code(tone: Tone) -> &'static str {
    match tone {
        Tone::Plain => "",
        Tone::Good => "\x1b[32m",
        Tone::Warn => "\x1b[33m",
        Tone::Bad => "\x1b[31m",
        Tone::Faint => "\x1b[2m",
        Tone::Head => "\x1b[1m",
    }
}

/// One cell. Its text is made visible when it is printed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    /// A state's word in its tone.
    pub(crate) fn state(word: &str) -> Self {
        Self { text: word.to_owned(), tone: tone_of(word) }
    }

    /// A text, or nothing.
    pub(crate) fn some<T: ToString>(value: Option<T>) -> Self {
        Self::from(value.map(|value| value.to_string()).unwrap_or_default())
    }

    /// The same text in another tone.
    pub(crate) fn toned(self, tone: Tone) -> Self {
        Self { tone, ..self }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self { text, tone: Tone::Plain }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

/// One row, and the record it shows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct TableRow {
    /// One cell for each column.
    pub(crate) cells: Vec<Cell>,
    /// The whole record, for programs.
    pub(crate) record: Value,
}

/// A table of rows with a head. The names of its columns are separated by `|`; a column whose name begins with `+` is
/// only shown when `wide`.
pub(crate) fn table(columns: &str, rows: &[TableRow], wide: bool, coloured: bool) -> String {
    let columns =
        columns.split('|').map(|name| (name.trim_start_matches('+'), name.starts_with('+')));
    let columns: Vec<(&str, bool)> = columns.collect();
    let shown = |cells: &[Cell]| -> Vec<(String, Tone)> {
        let kept = cells.iter().zip(&columns).filter(|(_, (_, is_wide))| wide || !is_wide);
        kept.map(|(cell, _)| (visible(&cell.text), cell.tone)).collect()
    };
    let head: Vec<Cell> =
        columns.iter().map(|(name, _)| Cell::from(*name).toned(Tone::Head)).collect();
    let rows = rows.iter().map(|row| shown(&row.cells));
    let lines: Vec<_> = std::iter::once(shown(&head)).chain(rows).collect();
    lay_out(&lines, coloured)
}

/// Lines of cells as text, each column as wide as its widest cell. A text whose lines differ in
/// length is fine: what is missing is empty.
pub(crate) fn align(lines: &[Vec<Cell>], coloured: bool) -> String {
    let shown =
        |line: &Vec<Cell>| line.iter().map(|cell| (visible(&cell.text), cell.tone)).collect();
    lay_out(&lines.iter().map(shown).collect::<Vec<_>>(), coloured)
}

fn lay_out(lines: &[Vec<(String, Tone)>], coloured: bool) -> String {
    let mut widths = Vec::new();
    for line in lines {
        widths.resize(widths.len().max(line.len()), 0);
        for (width, (text, _)) in widths.iter_mut().zip(line) {
            *width = text.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for line in lines {
        aligned(line, &widths, coloured, &mut text);
    }
    text
}

fn aligned(line: &[(String, Tone)], widths: &[usize], coloured: bool, text: &mut String) {
    let last = line.iter().rposition(|(cell, _)| !cell.is_empty());
    let cells = last.map_or(&[] as &[_], |last| line.get(..=last).unwrap_or(line));
    for (at, ((cell, tone), width)) in cells.iter().zip(widths).enumerate() {
        let code = if coloured && !cell.is_empty() { code(*tone) } else { "" };
        text.push_str(code);
        text.push_str(cell);
        text.push_str(if code.is_empty() { "" } else { "\x1b[0m" });
        if at + 1 < cells.len() {
            let blanks = width.saturating_sub(cell.chars().count()) + 2;
            text.extend(std::iter::repeat_n(' ', blanks));
        }
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(wide: bool, coloured: bool) -> String {
        let row = |name: &str, state: &str, reason: &str| TableRow {
            cells: vec![name.into(), Cell::state(state), reason.into()],
            record: Value::Null,
        };
        let rows = [row("GO", "active", ""), row("PO-demo", "offline", "3 windows\nmissed")];
        table("NAME|STATE|+REASON", &rows, wide, coloured)
    }

    #[test]
    fn columns_align_without_trailing_spaces() {
        let expected = "NAME     STATE\nGO       active\nPO-demo  offline\n";
        assert_eq!(shown(false, false), expected);
    }

    #[test]
    fn wide_output_shows_all_columns_on_one_line() {
        let expected = "NAME     STATE    REASON\nGO       active\n\
                        PO-demo  offline  3 windows\\nmissed\n";
        assert_eq!(shown(true, false), expected);
    }

    #[test]
    fn colours_do_not_move_columns() {
        let plain = shown(true, false);
        let mut coloured = shown(true, true);
        assert!(coloured.contains("\x1b[31moffline\x1b[0m"), "{coloured}");
        for code in ["\x1b[0m", "\x1b[1m", "\x1b[31m", "\x1b[32m"] {
            coloured = coloured.replace(code, "");
        }
        assert_eq!(coloured, plain);
    }
}
