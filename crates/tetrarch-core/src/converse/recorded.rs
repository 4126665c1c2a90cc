//! What a run's journal keeps of a conversation (spec 06, Journal, Effects), and how much of it a run that
//! goes on is given.

use super::Call;
use crate::limits::RECORDED_BYTES_MAX;

/// One change of a conversation. Its place in the world is `run/step/index`, the run being the journal's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recorded {
    /// The model spoke.
    Turn {
        /// Which turn, from 1.
        step: u64,
        /// Its words.
        text: String,
        /// What it wants done.
        calls: Vec<Call>,
    },
    /// A call that is neither read-only nor idempotent begins.
    Intent {
        /// The turn.
        step: u64,
        /// Its place in the turn, from 0.
        index: u32,
        /// The tool.
        tool: String,
    },
    /// What came of a call.
    Answer {
        /// The turn.
        step: u64,
        /// Its place in the turn, from 0.
        index: u32,
        /// In words.
        text: String,
        /// Whether it went wrong.
        is_error: bool,
    },
    /// Somebody else said something to the model.
    Heard {
        /// What.
        text: String,
    },
    /// What was said so far is replaced by this.
    Summary {
        /// The last turn that it covers.
        step: u64,
        /// The summary.
        text: String,
    },
}

impl Recorded {
    /// Its texts, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Turn { text, calls, .. } => {
                text.len()
                    + calls.iter().map(|call| call.tool.len() + call.arguments.len()).sum::<usize>()
            }
            Self::Intent { tool, .. } => tool.len(),
            Self::Answer { text, .. } | Self::Heard { text } | Self::Summary { text, .. } => {
                text.len()
            }
        }
    }
}

/// What a run that goes on is given, gathered from the newest run before it to the oldest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gathered {
    /// Newest first.
    runs: Vec<Vec<Recorded>>,
    bytes: usize,
    complete: bool,
}

impl Gathered {
    /// Adds what one run recorded. True when nothing before it is wanted any more.
    pub fn add(&mut self, mut recorded: Vec<Recorded>) -> bool {
        if self.complete {
            return true;
        }
        if let Some(at) = recorded.iter().rposition(|it| matches!(it, Recorded::Summary { .. })) {
            recorded.drain(..at);
            self.complete = true;
        }
        let mut kept = recorded.len();
        while kept > 0 {
            let bytes = recorded[kept - 1].bytes();
            if self.bytes.saturating_add(bytes) > RECORDED_BYTES_MAX {
                self.complete = true;
                break;
            }
            self.bytes += bytes;
            kept -= 1;
        }
        if kept > 0 {
            // An answer without its turn says nothing.
            let turns = recorded[kept..].iter().position(|it| matches!(it, Recorded::Turn { .. }));
            recorded.drain(..kept + turns.unwrap_or(recorded.len() - kept));
            let text = "[What was said before this was too long to be given again.]".to_owned();
            recorded.insert(0, Recorded::Heard { text });
        }
        self.runs.push(recorded);
        self.complete
    }

    /// All of it, oldest first.
    #[must_use]
    pub fn into_recorded(self) -> Vec<Recorded> {
        self.runs.into_iter().rev().flatten().collect()
    }
}
