//! Output of a program that is no event: gathered into journal entries of bounded size, and kept
//! up to a bound per run. What is beyond it is only streamed.

use crate::journal::JournalEvent;
use crate::limits::{DELIVERABLE_BYTES_MAX, LOG_JOURNALED_WITHIN};
use crate::redaction::Lines;
use crate::time::BusTime;

use super::{HostedSession, SessionEffect};

/// Log text of one journal entry, in bytes.
const GATHERED_MAX: usize = 16 * 1024;
/// Log text that is journaled of one run, in bytes.
const JOURNALED_MAX: usize = 256 * 1024;
/// What the journal says where it stops keeping output.
const CUT: &str = "[further output is streamed, not kept]\n";

/// The log of one run.
#[derive(Debug, Clone, Default)]
pub(super) struct RunLog {
    /// Where its lines stand, for credentials that span several.
    pub(super) lines: Lines,
    gathered: String,
    /// When what is gathered is journaled, whatever happens.
    due: Option<BusTime>,
    kept: usize,
    full: bool,
}

impl RunLog {
    /// Adds a line; gives the entries that are full.
    pub(super) fn add(&mut self, line: &str) -> Vec<String> {
        if self.full {
            return Vec::new();
        }
        let text = head(line, JOURNALED_MAX - self.kept);
        self.kept += text.len();
        self.gathered.push_str(text);
        self.gathered.push('\n');
        if text.len() < line.len() || self.kept == JOURNALED_MAX {
            self.full = true;
            self.gathered.push_str(CUT);
        }
        let mut entries = Vec::new();
        while self.gathered.len() >= GATHERED_MAX {
            let rest = self.gathered.split_off(head(&self.gathered, GATHERED_MAX).len());
            entries.push(std::mem::replace(&mut self.gathered, rest));
        }
        entries
    }

    /// When what is gathered is to be given.
    pub(super) fn due(&self) -> Option<BusTime> {
        self.due
    }

    /// What is gathered and not yet given.
    pub(super) fn take(&mut self) -> Option<String> {
        let text = std::mem::take(&mut self.gathered);
        self.due = None;
        (!text.is_empty()).then_some(text)
    }
}

impl HostedSession {
    pub(super) fn log_line(&mut self, text: &str, effects: &mut Vec<SessionEffect>) {
        effects.push(SessionEffect::Stream(text.to_owned()));
        let entries = self.log.add(text).into_iter();
        if !self.log.gathered.is_empty() {
            self.log.due.get_or_insert(self.now + LOG_JOURNALED_WITHIN);
        }
        effects.extend(entries.map(|text| SessionEffect::Journal(JournalEvent::Log { text })));
    }

    pub(super) fn flush_log(&mut self, effects: &mut Vec<SessionEffect>) {
        effects
            .extend(self.log.take().map(|text| SessionEffect::Journal(JournalEvent::Log { text })));
    }
}

/// What a record keeps of a text that is stored as an artifact.
pub(super) fn beginning(text: &str) -> String {
    format!("{}\n[the whole text is the artifact]", head(text, DELIVERABLE_BYTES_MAX / 4))
}

/// The beginning of a text, at most this many bytes, cut at a character.
fn head(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_gathered_into_entries_of_bounded_size() {
        let mut log = RunLog::default();
        assert!(log.add("one").is_empty() && log.add("two").is_empty());
        assert_eq!(log.take().unwrap(), "one\ntwo\n");
        assert_eq!(log.take(), None);
        let line = "\u{e4}".repeat(GATHERED_MAX);
        let entries = log.add(&line);
        assert_eq!(entries.len(), 2);
        assert!(entries.iter().all(|entry| entry.len() <= GATHERED_MAX));
        assert_eq!(entries.concat() + &log.take().unwrap(), line + "\n");
    }

    #[test]
    fn run_log_is_bounded_and_the_cut_noted_once() {
        let mut log = RunLog::default();
        let line = "x".repeat(1000);
        let mut kept = String::new();
        for _ in 0..JOURNALED_MAX / 1000 * 2 {
            kept.push_str(&log.add(&line).concat());
        }
        kept.push_str(&log.take().unwrap());
        assert_eq!(kept.matches('x').count(), JOURNALED_MAX);
        assert_eq!(kept.matches(CUT).count(), 1);
        assert!(log.add("more").is_empty() && log.take().is_none());
    }
}
