//! What the end of a stalled run's journal says about why it stands still (spec 05, Stall). Only what
//! an entry is counts, never what its words may mean.

use crate::brief::Outcome;
use crate::converse::Recorded;
use crate::journal::{BudgetNote, JournalEvent};
use crate::limits::{DIAGNOSED_ENTRIES, JOURNAL_WORDS_BYTES_MAX};
use crate::redaction;
use crate::words::parsed_words;

/// The topic by which a program is handed the answer to what it asked people.
const ANSWER: &str = "answer";
/// The topic by which a program is asked how it is.
const STATUS_REQUEST: &str = "status.request";

parsed_words! {
    /// What the last entries of a stalled run's journal look like.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum Diagnosis {
        /// Nothing can be told from them, or they could not be read.
        #[default]
        Unknown = "unknown",
        /// It works, or waits for something that is no person, and takes long.
        Slow = "slow",
        /// It waits for a human's word.
        WaitsForHuman = "waits_for_human",
        /// It failed and did not say so.
        Failed = "failed",
    }
}

impl Diagnosis {
    /// What its journal shows, in a few words; none when nothing can be told.
    #[must_use]
    pub fn in_words(self) -> Option<&'static str> {
        match self {
            Self::Unknown => None,
            Self::Slow => Some("its journal shows work"),
            Self::WaitsForHuman => Some("its journal ends with a question"),
            Self::Failed => Some("its journal ends with a failure"),
        }
    }
}

/// Classifies a stall by the journal's last entries, oldest first; of more than
/// [`DIAGNOSED_ENTRIES`] the last ones (spec 05, Stall). Who is being stopped, or gave its result, is
/// not diagnosed: its end is on its way.
#[must_use]
pub fn diagnose(journal: &[JournalEvent]) -> Diagnosis {
    let from = journal.len().saturating_sub(DIAGNOSED_ENTRIES);
    let mut seen = Seen::default();
    for event in journal.get(from..).unwrap_or_default() {
        seen.take(event);
    }
    seen.concludes()
}

/// What the last entries of a stalled run's journal say, oldest first, for whoever is to find out why: of more
/// than [`DIAGNOSED_ENTRIES`] the last ones, of more than [`JOURNAL_WORDS_BYTES_MAX`] bytes the last ones, without
/// what looks like a credential.
#[must_use]
pub fn last_words(journal: &[JournalEvent]) -> Vec<String> {
    let mut left = JOURNAL_WORDS_BYTES_MAX;
    let mut words = Vec::new();
    for event in journal.iter().rev().take(DIAGNOSED_ENTRIES) {
        let Some(said) = in_words(event) else { continue };
        let said = redaction::text(&said);
        let bytes = said.len().min(left).min(JOURNAL_WORDS_BYTES_MAX / 4);
        let line = &said[..said.floor_char_boundary(bytes)];
        if line.is_empty() {
            break;
        }
        left -= line.len();
        words.push(line.to_owned());
    }
    words.reverse();
    words
}

/// An entry as a line; none when it says nothing.
fn in_words(event: &JournalEvent) -> Option<String> {
    Some(match event {
        JournalEvent::Progress { text, .. } => format!("progress: {text}"),
        JournalEvent::Log { text } => format!("log: {text}"),
        JournalEvent::Ask { question, .. } => format!("asks: {question}"),
        JournalEvent::Mail { topic, from } => format!("was handed {topic} from {from}"),
        JournalEvent::Update { update } => format!("update: {update}"),
        JournalEvent::Blocked { reason } => format!("is blocked: {reason}"),
        JournalEvent::Returned { errors, .. } if errors.is_empty() => return None,
        JournalEvent::Returned { errors, .. } => format!("its result was handed back: {errors}"),
        JournalEvent::Stopping { reason } => format!("is being stopped: {reason}"),
        JournalEvent::Verb { verb, stage, text, .. } => {
            format!("{} is {}: {text}", verb.as_str(), stage.as_str())
        }
        JournalEvent::Result(result) => format!("ended {}: {}", result.outcome, result.error),
        JournalEvent::Ended { cause } => format!("its program ended: {cause}"),
        JournalEvent::Conversed(recorded) => conversed(recorded),
        JournalEvent::Starting { .. }
        | JournalEvent::Started { .. }
        | JournalEvent::Usage(_)
        | JournalEvent::Budget(_)
        | JournalEvent::Checkpoint { .. }
        | JournalEvent::Spawn { .. }
        | JournalEvent::Unblocked => return None,
    })
}

fn conversed(recorded: &Recorded) -> String {
    match recorded {
        Recorded::Turn { text, .. } => format!("the model: {text}"),
        Recorded::Intent { tool, .. } => format!("begins {tool}"),
        Recorded::Answer { text, .. } => format!("a tool: {text}"),
        Recorded::Heard { text, .. } => format!("is told: {text}"),
        Recorded::Summary { text, .. } => format!("so far: {text}"),
    }
}

/// What was seen so far.
#[derive(Debug, Default)]
struct Seen {
    result: Option<Outcome>,
    stopping: bool,
    ended: bool,
    asks: bool,
    blocked: bool,
    /// Since it was last asked for its status.
    worked: bool,
}

impl Seen {
    fn take(&mut self, event: &JournalEvent) {
        match event {
            JournalEvent::Starting { .. }
            | JournalEvent::Started { .. }
            | JournalEvent::Verb { .. }
            | JournalEvent::Budget(
                BudgetNote::Before { .. } | BudgetNote::Warning { .. } | BudgetNote::Raised { .. },
            ) => {}
            JournalEvent::Progress { .. }
            | JournalEvent::Log { .. }
            | JournalEvent::Usage(_)
            | JournalEvent::Checkpoint { .. }
            | JournalEvent::Spawn { .. }
            | JournalEvent::Conversed(_)
            | JournalEvent::Budget(BudgetNote::SetAside { .. } | BudgetNote::Spent { .. })
            | JournalEvent::Update { .. } => self.worked = true,
            JournalEvent::Returned { errors, .. } => self.worked |= !errors.is_empty(),
            JournalEvent::Ask { .. } => self.asks = true,
            JournalEvent::Mail { topic, .. } => match topic.as_str() {
                ANSWER => self.asks = false,
                STATUS_REQUEST => self.worked = false,
                _ => {}
            },
            JournalEvent::Blocked { .. } => self.blocked = true,
            JournalEvent::Unblocked => self.blocked = false,
            JournalEvent::Stopping { .. } => self.stopping = true,
            JournalEvent::Result(result) => self.result = Some(result.outcome),
            JournalEvent::Ended { .. } => self.ended = true,
        }
    }

    fn concludes(&self) -> Diagnosis {
        match self.result {
            Some(Outcome::Failure | Outcome::BudgetExceeded) => return Diagnosis::Failed,
            Some(Outcome::Success | Outcome::Cancelled) => return Diagnosis::Unknown,
            None => {}
        }
        if self.stopping {
            return Diagnosis::Unknown;
        }
        if self.ended {
            return Diagnosis::Failed;
        }
        if self.asks {
            return Diagnosis::WaitsForHuman;
        }
        if self.worked || self.blocked { Diagnosis::Slow } else { Diagnosis::Unknown }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brief::{RunResult, Usage};
    use crate::id::{RequestId, Ulid};

    fn mail(topic: &str) -> JournalEvent {
        JournalEvent::Mail { topic: topic.to_owned(), from: "GO".to_owned() }
    }

    fn log() -> JournalEvent {
        JournalEvent::Log { text: "error: it failed, I wait for a human".to_owned() }
    }

    fn ask() -> JournalEvent {
        JournalEvent::Ask { question: "which?".to_owned(), options: Vec::new() }
    }

    fn started() -> JournalEvent {
        JournalEvent::Started { pid: None, isolation: "none".to_owned() }
    }

    fn blocked() -> JournalEvent {
        JournalEvent::Blocked { reason: "the build queue".to_owned() }
    }

    fn stopping() -> JournalEvent {
        JournalEvent::Stopping { reason: "asked to".to_owned() }
    }

    fn ended() -> JournalEvent {
        JournalEvent::Ended { cause: "exit 1".to_owned() }
    }

    fn result(outcome: Outcome) -> JournalEvent {
        JournalEvent::Result(Box::new(RunResult::ended(outcome, "")))
    }

    #[test]
    fn every_diagnosis_row_holds() {
        use Diagnosis::{Failed, Slow, Unknown, WaitsForHuman};
        let update = JournalEvent::Update { update: "{}".to_owned() };
        let progress = JournalEvent::Progress { text: String::new(), done: None, total: None };
        let state = JournalEvent::Checkpoint { state: "{}".to_owned() };
        let spawn = JournalEvent::Spawn { request: RequestId(Ulid(1)) };
        let rows = [
            (vec![], Unknown),
            (vec![started()], Unknown),
            (vec![started(), mail("info")], Unknown),
            (vec![log()], Slow),
            (vec![progress], Slow),
            (vec![JournalEvent::Usage(Usage::default())], Slow),
            (vec![state], Slow),
            (vec![spawn], Slow),
            (vec![update], Slow),
            (vec![log(), mail("info")], Slow),
            (vec![log(), mail(STATUS_REQUEST)], Unknown),
            (vec![log(), mail(STATUS_REQUEST), log()], Slow),
            (vec![blocked()], Slow),
            (vec![blocked(), mail(STATUS_REQUEST)], Slow),
            (vec![blocked(), JournalEvent::Unblocked], Unknown),
            (vec![ask()], WaitsForHuman),
            (vec![ask(), log(), mail(STATUS_REQUEST)], WaitsForHuman),
            (vec![ask(), mail(ANSWER)], Unknown),
            (vec![ask(), mail(ANSWER), log()], Slow),
            (vec![ask(), mail(ANSWER), ask()], WaitsForHuman),
            (vec![ask(), stopping()], Unknown),
            (vec![ask(), ended()], Failed),
            (vec![log(), ended()], Failed),
            (vec![log(), stopping(), ended()], Unknown),
            (vec![result(Outcome::Failure)], Failed),
            (vec![result(Outcome::BudgetExceeded), ended()], Failed),
            (vec![stopping(), result(Outcome::Failure), ended()], Failed),
            (vec![result(Outcome::Success), ended()], Unknown),
            (vec![stopping(), result(Outcome::Cancelled), ended()], Unknown),
        ];
        for (journal, expected) in rows {
            assert_eq!(diagnose(&journal), expected, "{journal:?}");
        }
    }

    #[test]
    fn only_the_last_entries_count() {
        let mut journal = vec![ask()];
        journal.extend(std::iter::repeat_with(log).take(DIAGNOSED_ENTRIES - 1));
        assert_eq!(diagnose(&journal), Diagnosis::WaitsForHuman);
        journal.push(log());
        assert_eq!(diagnose(&journal), Diagnosis::Slow);
    }

    #[test]
    fn every_diagnosis_word_round_trips() {
        for diagnosis in Diagnosis::ALL {
            assert_eq!(Diagnosis::parse(diagnosis.as_str()), Some(diagnosis));
        }
        assert_eq!(Diagnosis::parse("tired"), None);
    }

    #[test]
    fn last_words_are_bounded_and_redacted() {
        assert_eq!(last_words(&[started(), JournalEvent::Unblocked]), [""; 0]);
        let said = last_words(&[log(), mail("info"), ask(), blocked(), ended()]);
        let expected = [
            "log: error: it failed, I wait for a human",
            "was handed info from GO",
            "asks: which?",
            "is blocked: the build queue",
            "its program ended: exit 1",
        ];
        assert_eq!(said, expected);
        let line = |n: usize| JournalEvent::Log { text: format!("{n} {}", "\u{e9}".repeat(90)) };
        let many: Vec<JournalEvent> = (0..40).map(line).collect();
        let said = last_words(&many);
        let bytes: usize = said.iter().map(String::len).sum();
        assert!(bytes <= JOURNAL_WORDS_BYTES_MAX && said.len() > 8, "{bytes} {}", said.len());
        assert!(said.last().unwrap().starts_with("log: 39 "), "the last come first");
        let long = JournalEvent::Log { text: "x".repeat(100_000) };
        let one = last_words(&[long])[0].len();
        assert_eq!(one, JOURNAL_WORDS_BYTES_MAX / 4, "one of them does not take all");
        let secret = format!("key ghp_{}", "a1B2".repeat(9));
        let said = last_words(&[JournalEvent::Log { text: secret }]);
        assert!(said[0].contains("[redacted:"), "{said:?}");
    }
}
