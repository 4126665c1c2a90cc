//! Tables: aligned columns, no blanks at a line's end, colours only when asked for. On a terminal long prose is cut so
//! that a line fits.

use std::io;

use rustix::termios::tcgetwinsize;
use serde_json::Value;

use crate::output::{Tone, is_terminal, tone_of, visible};

/// Characters that a column keeps, whatever room there is: no id is cut.
const PROSE_MIN: usize = 40;
/// What stands for the rest of a text that is cut.
const CUT: &str = "...";

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
    /// Whether it may be cut: the whole of it is shown elsewhere.
    is_prose: bool,
}

impl Cell {
    /// A state's word in its tone.
    pub(crate) fn state(word: &str) -> Self {
        Self { tone: tone_of(word), ..word.into() }
    }

    /// A text that may be cut on a terminal: the whole of it is shown elsewhere.
    pub(crate) fn prose(text: String) -> Self {
        Self { is_prose: true, ..text.into() }
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
        Self { text, tone: Tone::Plain, is_prose: false }
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
    let shown = |cells: &[Cell]| -> Vec<Cell> {
        let kept = cells.iter().zip(&columns).filter(|(_, (_, is_wide))| wide || !is_wide);
        kept.map(|(cell, _)| Cell { is_prose: !wide, ..shown(cell) }).collect()
    };
    let head: Vec<Cell> =
        columns.iter().map(|(name, _)| Cell::from(*name).toned(Tone::Head)).collect();
    let rows = rows.iter().map(|row| shown(&row.cells));
    let lines: Vec<_> = std::iter::once(shown(&head)).chain(rows).collect();
    lay_out(lines, room(), coloured)
}

fn shown(cell: &Cell) -> Cell {
    Cell { text: visible(&cell.text), ..cell.clone() }
}

/// Columns of the terminal that shows it; none where no person looks.
fn room() -> Option<usize> {
    let size = is_terminal().then(|| tcgetwinsize(io::stdout()).ok()).flatten();
    size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Lines of cells as text, each column as wide as its widest cell. A text whose lines differ in
/// length is fine: what is missing is empty.
pub(crate) fn align(lines: &[Vec<Cell>], coloured: bool) -> String {
    lay_out(lines.iter().map(|line| line.iter().map(shown).collect()).collect(), room(), coloured)
}

fn lay_out(mut lines: Vec<Vec<Cell>>, room: Option<usize>, coloured: bool) -> String {
    if let Some(room) = room {
        cut(&mut lines, room);
    }
    let widths = widths(&lines);
    let mut text = String::new();
    for line in &lines {
        aligned(line, &widths, coloured, &mut text);
    }
    text
}

/// The width of each column: that of its widest cell.
fn widths(lines: &[Vec<Cell>]) -> Vec<usize> {
    let mut widths = Vec::new();
    for line in lines {
        widths.resize(widths.len().max(line.len()), 0);
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = cell.text.chars().count().max(*width);
        }
    }
    widths
}

/// Cuts the widest column of prose so that lines fit into so many characters, as far as that can be.
fn cut(lines: &mut [Vec<Cell>], room: usize) {
    let widths = widths(lines);
    let whole: usize = widths.iter().map(|width| width + 2).sum();
    let over = whole.saturating_sub(room + 2);
    let is_prose = |at: usize| lines.iter().any(|line| line.get(at).is_some_and(|it| it.is_prose));
    let widest = (0..widths.len()).filter(|at| is_prose(*at)).max_by_key(|at| widths.get(*at));
    let Some((at, width)) = widest.and_then(|at| Some((at, *widths.get(at)?))) else { return };
    let kept = width.saturating_sub(over).max(PROSE_MIN);
    for cell in lines.iter_mut().filter_map(|line| line.get_mut(at)) {
        if over > 0 && cell.is_prose && cell.text.chars().count() > kept {
            let start: String = cell.text.chars().take(kept - CUT.len()).collect();
            cell.text = start + CUT;
        }
    }
}

fn aligned(line: &[Cell], widths: &[usize], coloured: bool, text: &mut String) {
    let last = line.iter().rposition(|cell| !cell.text.is_empty());
    let cells = last.map_or(&[] as &[_], |last| line.get(..=last).unwrap_or(line));
    for (at, (Cell { text: cell, tone, .. }, width)) in cells.iter().zip(widths).enumerate() {
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
    fn long_prose_is_cut_to_the_room_and_ids_are_not() {
        let id = "goal_01JD8Z5W6T4QK3M9X2V7B1N0AC";
        let long = "no program; PATH=".to_owned() + &"/usr/bin:".repeat(20);
        let line = |text: Cell| vec![vec![Cell::prose(id.to_owned()), text, "x".into()]];
        let cut = lay_out(line(Cell::prose(long.clone())), Some(100), false);
        assert_eq!(cut.trim_end().chars().count(), 100, "{cut}");
        assert!(cut.starts_with(id) && cut.contains("...  x"), "{cut}");
        let narrow = lay_out(line(Cell::prose(long.clone())), Some(10), false);
        assert!(narrow.starts_with(id) && narrow.contains("no program; PATH="), "{narrow}");
        for whole in [(Cell::prose(long.clone()), None), (long.as_str().into(), Some(100))] {
            assert!(lay_out(line(whole.0), whole.1, false).contains(&long), "nothing is lost");
        }
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
