//! The one way results reach people and programs: tables, sheets, JSON and YAML on standard
//! output (spec 08, Command line). It knows how things look, never what they mean.

mod canonical;
mod moment;
mod sheet;
mod table;

use std::io::{self, IsTerminal, Write};

use serde_json::Value;
use tetrarch_core::redaction;
use tetrarch_view::text::is_hidden;

use crate::options::OutputFormat;
use crate::{CliError, CliResult, Code};

pub(crate) use canonical::plain;
pub(crate) use moment::{age, now, read_stamp, stamp};
pub(crate) use sheet::Sheet;
pub(crate) use table::{Cell, TableRow, align, table};
pub(crate) use tetrarch_view::text::{unmixed, visible};
pub(crate) use tetrarch_view::tone::{Tone, tone_of};

/// What clears a terminal and goes to its first line.
const CLEARED: &str = "\x1b[2J\x1b[H";

/// Whether anybody still reads what is printed. A reader that went away, as `head` does, is no
/// error: whoever prints without end stops then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StdoutReader {
    /// It reads on.
    There,
    /// It closed the pipe.
    Gone,
}

/// Prints text with a line's end; what would move the cursor is made visible.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) fn text(text: &str) -> CliResult<StdoutReader> {
    written(&shown(text, is_coloured()))
}

/// Says a line to people, beside the result. What would move the cursor is made visible.
pub(crate) fn say(line: &str) {
    // Whoever does not listen any more still gets the exit code.
    let _unheard = writeln!(io::stderr().lock(), "{}", sayable(line));
}

/// A line as it is said to people.
pub(crate) fn sayable(line: &str) -> String {
    shown(&redaction::text(line), false)
}

/// Prints a deliverable: as it is for programs, with what would move the cursor made visible for people.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) fn deliverable(text: &str) -> CliResult<StdoutReader> {
    if is_terminal() { written(&shown(text, false)) } else { written(text) }
}

fn written(text: &str) -> CliResult<StdoutReader> {
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    raw(&format!("{text}{end}"))
}

fn raw(text: &str) -> CliResult<StdoutReader> {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    match written {
        Ok(()) => Ok(StdoutReader::There),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(StdoutReader::Gone),
        Err(error) => Err(CliError::new(Code::Failed, format!("cannot write the output: {error}"))),
    }
}

/// Prints a record: its JSON or YAML for programs, `sheet` for people.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) fn record(
    output: OutputFormat,
    value: &Value,
    sheet: impl FnOnce() -> String,
) -> CliResult {
    let shown = if is_for_programs(output) { document(output, value)? } else { sheet() };
    text(&shown).map(drop)
}

/// Whether programs read the output, so that whole records are wanted.
pub(crate) fn is_for_programs(output: OutputFormat) -> bool {
    match output {
        OutputFormat::Table | OutputFormat::Wide => false,
        OutputFormat::Json | OutputFormat::Yaml => true,
    }
}

/// Prints a list: a table, or the list of its records. Instead of an empty table people are told on
/// standard error what would be in it.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) fn listing(
    output: OutputFormat,
    columns: &str,
    rows: Vec<TableRow>,
    empty: &str,
) -> CliResult {
    if is_for_programs(output) {
        let records = rows.into_iter().map(|row| row.record).collect();
        return text(&document(output, &Value::Array(records))?).map(drop);
    }
    if rows.is_empty() && !empty.is_empty() {
        // Whoever does not listen has an empty list all the same.
        let _unheard = writeln!(io::stderr(), "{empty}");
        return Ok(());
    }
    text(&table(columns, &rows, output == OutputFormat::Wide, is_coloured())).map(drop)
}

/// Prints one of many records that come one after another: a line of JSON, a document of YAML,
/// or `line` for people.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) fn item(output: OutputFormat, value: &Value, line: &str) -> CliResult<StdoutReader> {
    match output {
        OutputFormat::Table | OutputFormat::Wide => text(line),
        OutputFormat::Json => text(&one_line(value)),
        OutputFormat::Yaml => text(&format!("---\n{}", document(output, value)?)),
    }
}

/// Prints one of many states of the same thing: as [`item`], on a terminal instead of the one before.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) fn screen(output: OutputFormat, value: &Value, lines: &str) -> CliResult<StdoutReader> {
    if is_terminal() && !is_for_programs(output) {
        raw(CLEARED)?;
    }
    item(output, value, lines)
}

/// A value as JSON on one line; hidden characters are escapes.
pub(crate) fn one_line(value: &Value) -> String {
    escaped(&value.to_string())
}

fn document(output: OutputFormat, value: &Value) -> CliResult<String> {
    match output {
        OutputFormat::Yaml => serde_saphyr::to_string(value).map_err(CliError::failed),
        OutputFormat::Table | OutputFormat::Wide | OutputFormat::Json => {
            let text = serde_json::to_string_pretty(value);
            text.map(|text| escaped(&text)).map_err(CliError::failed)
        }
    }
}

/// Whether a person looks at standard output.
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Whether colours are wanted: only on a terminal, and not when `NO_COLOR` says otherwise.
pub(crate) fn is_coloured() -> bool {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    is_terminal() && !unwanted && !dumb
}

/// Text of many lines with everything visible that is no end of a line and no tab; colours stay where
/// they are wanted.
fn shown(text: &str, coloured: bool) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(|c| is_hidden(c) && !matches!(c, '\n' | '\t')) {
        let (before, from) = rest.split_at(at);
        shown.push_str(before);
        let colour = colour(from).filter(|_| coloured);
        let taken = colour.unwrap_or_else(|| from.chars().next().map_or(0, char::len_utf8));
        let (taken, after) = from.split_at(taken);
        shown.push_str(&colour.map_or_else(|| visible(taken), |_| taken.to_owned()));
        rest = after;
    }
    shown + rest
}

/// The bytes of the colour that a text begins with.
fn colour(text: &str) -> Option<usize> {
    let codes = text.strip_prefix("\x1b[")?;
    let end = codes.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    codes[end..].starts_with('m').then_some("\x1b[".len() + end + 1)
}

/// Standard error for what is logged: what would move the cursor is made visible.
#[derive(Debug)]
pub(crate) struct LogWriter {
    /// Whether lines come with colours.
    pub(crate) coloured: bool,
}

impl Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        let text = shown(&redaction::text(&text), self.coloured);
        io::stderr().lock().write_all(text.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().lock().flush()
    }
}

/// JSON whose hidden characters are escapes, which every reader of JSON reads as the same.
fn escaped(json: &str) -> String {
    json.chars().fold(String::with_capacity(json.len()), |mut text, c| {
        if is_hidden(c) && c != '\n' {
            // One beyond the first 65,536 is two escapes.
            for unit in c.encode_utf16(&mut [0; 2]) {
                text.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            text.push(c);
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newlines_tabs_and_own_colours_are_kept() {
        let text = "a\tb\n\x1b[1;31mred\x1b[0m\x1b[2J\r\u{202e}";
        assert_eq!(shown(text, true), "a\tb\n\x1b[1;31mred\x1b[0m\\u{1b}[2J\\r\\u{202e}");
        assert_eq!(shown("\x1b[31mx", false), "\\u{1b}[31mx");
        assert_eq!(shown("\x1b[31", true), "\\u{1b}[31");
        assert_eq!(shown("plain", true), "plain");
    }

    #[test]
    fn json_with_hidden_characters_is_escaped_losslessly() {
        let value = serde_json::json!({"name": "\x1b[2J\r\u{202e}\u{7f}\u{9b}\u{e0041}\n"});
        let text = document(OutputFormat::Json, &value).unwrap();
        assert!(!text.chars().any(|c| is_hidden(c) && c != '\n'), "{text:?}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }

    #[test]
    fn yaml_and_json_output_agree() {
        let value = serde_json::json!([{"id": "W:1", "on": "no", "n": "12", "list": [1, 2]}]);
        let yaml = document(OutputFormat::Yaml, &value).unwrap();
        let read: Value = serde_saphyr::from_str(&yaml).unwrap();
        assert_eq!(read, value);
        let json = document(OutputFormat::Json, &value).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), value);
    }
}
