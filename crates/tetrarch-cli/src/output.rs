//! The one way results reach people and programs: tables, sheets, JSON and YAML on standard
//! output (spec 08, Command line). It knows how things look, never what they mean.

mod moment;
mod sheet;
mod table;

use std::io::{self, IsTerminal, Write};

use serde_json::Value;

use crate::args::Output;
use crate::exit::{CliError, Code};

pub(crate) use moment::{age, now, read_stamp, stamp};
pub(crate) use sheet::Sheet;
pub(crate) use table::{Cell, Column, Listing, Row, Tone, align, tone_of};

/// Whether anybody still reads what is printed. A reader that went away, as `head` does, is no
/// error: whoever prints without end stops then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    /// It reads on.
    There,
    /// It closed the pipe.
    Gone,
}

/// Prints text as it is, with a line's end.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) fn text(text: &str) -> Result<Reader, CliError> {
    let mut out = io::stdout().lock();
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    let written = write!(out, "{text}{end}").and_then(|()| out.flush());
    match written {
        Ok(()) => Ok(Reader::There),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(error) => Err(CliError::new(Code::Failed, format!("cannot write the output: {error}"))),
    }
}

/// Prints a record: its JSON or YAML for programs, `sheet` for people.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) fn record(
    output: Output,
    value: &Value,
    sheet: impl FnOnce() -> String,
) -> Result<Reader, CliError> {
    match output {
        Output::Table | Output::Wide => text(&sheet()),
        Output::Json | Output::Yaml => text(&document(output, value)?),
    }
}

/// Whether programs read the output, so that whole records are wanted.
pub(crate) fn is_for_programs(output: Output) -> bool {
    match output {
        Output::Table | Output::Wide => false,
        Output::Json | Output::Yaml => true,
    }
}

/// Prints a list: a table, or the list of its records. Instead of an empty table people are told on
/// standard error what would be in it.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) fn listing(output: Output, listing: &Listing) -> Result<Reader, CliError> {
    match output {
        Output::Table | Output::Wide if listing.rows.is_empty() && !listing.empty.is_empty() => {
            // Whoever does not listen has an empty list all the same.
            let _unheard = writeln!(io::stderr(), "{}", listing.empty);
            Ok(Reader::There)
        }
        Output::Table => text(&listing.table(false, is_coloured())),
        Output::Wide => text(&listing.table(true, is_coloured())),
        Output::Json | Output::Yaml => {
            let records = listing.rows.iter().map(|row| row.record.clone()).collect();
            text(&document(output, &Value::Array(records))?)
        }
    }
}

/// Prints one of many records that come one after another: a line of JSON, a document of YAML,
/// or `line` for people.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) fn item(output: Output, value: &Value, line: &str) -> Result<Reader, CliError> {
    match output {
        Output::Table | Output::Wide => text(line),
        Output::Json => text(&value.to_string()),
        Output::Yaml => text(&format!("---\n{}", document(output, value)?)),
    }
}

fn document(output: Output, value: &Value) -> Result<String, CliError> {
    let broken = |error: String| CliError::new(Code::Failed, error);
    match output {
        Output::Yaml => serde_saphyr::to_string(value).map_err(|error| broken(error.to_string())),
        Output::Table | Output::Wide | Output::Json => {
            serde_json::to_string_pretty(value).map_err(|error| broken(error.to_string()))
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

/// Text with its control characters made visible: what others wrote must not move the cursor.
pub(crate) fn visible(text: &str) -> String {
    if !text.chars().any(is_hidden) {
        return text.to_owned();
    }
    text.chars().fold(String::with_capacity(text.len()), |mut shown, c| {
        if is_hidden(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
        shown
    })
}

/// Control characters, and those that change the direction of what follows.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_made_visible() {
        assert_eq!(visible("a\x1b[31mb\r\n\tc"), "a\\u{1b}[31mb\\r\\n\\tc");
        assert_eq!(visible("\u{202e}x\u{9b}"), "\\u{202e}x\\u{9b}");
        assert_eq!(visible("grüße, 世界"), "grüße, 世界");
    }

    #[test]
    fn yaml_and_json_say_the_same() {
        let value = serde_json::json!([{"id": "W:1", "on": "no", "n": "12", "list": [1, 2]}]);
        let yaml = document(Output::Yaml, &value).unwrap();
        let read: Value = serde_saphyr::from_str(&yaml).unwrap();
        assert_eq!(read, value);
        let json = document(Output::Json, &value).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), value);
    }
}
