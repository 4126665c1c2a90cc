//! Entries of a run's journal, for people in one line each and for programs as they are.

use serde_json::{Value, json};
use tetrarch_bus::codec;
use tetrarch_bus::journal::Journaled;
use tetrarch_view::transcript::words;

use crate::output::{Cell, Tone, plain, stamp};
use crate::{CliError, CliResult};

/// Bytes of one entry's text that a line shows.
const TEXT_SHOWN: usize = 160;

/// The entries' JSON as it is printed; those that cannot be read are left out.
///
/// # Errors
/// An entry that cannot be written again.
pub(super) fn values(journal: &[Journaled]) -> CliResult<Value> {
    let readable = journal.iter().filter(|it| it.entry.is_ok());
    Ok(Value::Array(readable.map(value).collect::<Result<_, _>>()?))
}

/// An entry's JSON as it is printed, or what is wrong with it, with the time at which it was stored.
///
/// # Errors
/// It cannot be written again.
pub(in crate::command) fn value(stored: &Journaled) -> CliResult<Value> {
    let mut value = match &stored.entry {
        Ok(entry) => {
            let bytes = codec::encode_journal(entry).map_err(CliError::failed)?;
            let entry = serde_json::from_slice(&bytes).map_err(CliError::failed)?;
            plain("JournalEntry", entry)
        }
        Err(error) => json!({"seq": stored.seq, "unreadable": error.to_string()}),
    };
    value["time"] = json!(stamp(stored.at));
    Ok(value)
}

/// The entries' lines: when, place, what happened, in words.
pub(super) fn lines(journal: &[Journaled]) -> Vec<Vec<Cell>> {
    let line = |stored: &Journaled| {
        let (place, what, words) = match &stored.entry {
            Ok(entry) => {
                let (what, words) = words(&entry.event);
                (entry.index, what.into(), shortened(&words))
            }
            Err(error) => {
                (stored.seq, Cell::from("unreadable").toned(Tone::Bad), error.to_string())
            }
        };
        vec![stamp(stored.at).into(), place.to_string().into(), what, words.into()]
    };
    journal.iter().map(line).collect()
}

/// An entry's whole line.
pub(in crate::command) fn line(stored: &Journaled) -> String {
    let at = stamp(stored.at);
    match &stored.entry {
        Ok(entry) => {
            let (what, words) = words(&entry.event);
            format!("{at}  {:>6}  {what:<10}  {}", entry.index, words.trim())
        }
        Err(error) => format!("{at}  {:>6}  unreadable  {error}", stored.seq),
    }
}

/// The beginning of a long text.
pub(super) fn shortened(text: &str) -> String {
    beginning(&text.trim().replace('\n', " "), TEXT_SHOWN)
}

/// A text, or so many bytes of it.
pub(in crate::command) fn beginning(text: &str, bytes: usize) -> String {
    match text.char_indices().find(|(at, _)| *at >= bytes) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or(text)),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_at_a_character_boundary() {
        let long = "ä".repeat(TEXT_SHOWN);
        let short = shortened(&long);
        assert!(short.ends_with("ä…") && short.len() <= TEXT_SHOWN + 4, "{short}");
        assert_eq!(shortened(" ok \n"), "ok");
    }
}
