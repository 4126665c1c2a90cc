//! What a run's journal keeps of a conversation (spec 06, Journal, Effects), and how much of it a run that
//! goes on is given.

use std::collections::VecDeque;

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
        /// Whether its words were cut off at the limit of output tokens.
        is_cut: bool,
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
        /// The message of its inbox that it gives, by its place there; 0 for none.
        letter: u64,
    },
    /// Somebody else said something to the model.
    Heard {
        /// What.
        text: String,
        /// The message of its inbox that it is, by its place there; 0 for none.
        letter: u64,
    },
    /// What was said so far is replaced by this.
    Summary {
        /// The last turn that it covers.
        step: u64,
        /// The summary.
        text: String,
        /// The last message of its inbox that was heard before it, by its place there; 0 for none.
        letter: u64,
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
            Self::Answer { text, .. } | Self::Heard { text, .. } | Self::Summary { text, .. } => {
                text.len()
            }
        }
    }

    /// The message of the agent's inbox up to which everything was heard with it, by its place there; 0 for
    /// none. Messages are heard in their order, answers to questions aside.
    #[must_use]
    pub fn letter(&self) -> u64 {
        match self {
            Self::Turn { .. } | Self::Intent { .. } => 0,
            Self::Answer { letter, .. }
            | Self::Heard { letter, .. }
            | Self::Summary { letter, .. } => *letter,
        }
    }
}

/// The last of what one run recorded: from its last summary on, at most so much.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kept {
    recorded: VecDeque<Recorded>,
    bytes: usize,
    /// Nothing before it is wanted any more.
    is_whole: bool,
}

impl Kept {
    /// Adds what was recorded next.
    pub fn push(&mut self, recorded: Recorded) {
        if matches!(recorded, Recorded::Summary { .. }) {
            *self = Self { is_whole: true, ..Self::default() };
        }
        self.bytes += recorded.bytes();
        self.recorded.push_back(recorded);
        self.fit(RECORDED_BYTES_MAX);
    }

    /// Forgets the oldest until the rest fits.
    fn fit(&mut self, max: usize) {
        let before = self.recorded.len();
        let mut letter = 0;
        while self.bytes > max {
            let Some(oldest) = self.recorded.pop_front() else { break };
            self.bytes -= oldest.bytes();
            letter = letter.max(oldest.letter());
        }
        if self.recorded.len() < before {
            self.is_whole = true;
            // An answer without its turn says nothing.
            while let Some(gone) =
                self.recorded.pop_front_if(|it| !matches!(it, Recorded::Turn { .. }))
            {
                self.bytes -= gone.bytes();
                letter = letter.max(gone.letter());
            }
            let text = CUT.to_owned();
            self.bytes += text.len();
            self.recorded.push_front(Recorded::Heard { text, letter });
        }
    }
}

/// What stands for what a run that goes on is not given.
const CUT: &str = "[What was said before this was too long to be given again.]";

/// What a run that goes on is given, gathered from the newest run before it to the oldest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gathered {
    /// Newest first.
    runs: Vec<Kept>,
    bytes: usize,
    is_whole: bool,
}

impl Gathered {
    /// Adds what one run recorded. True when nothing before it is wanted any more.
    pub fn add(&mut self, mut kept: Kept) -> bool {
        if !self.is_whole {
            kept.fit(RECORDED_BYTES_MAX.saturating_sub(self.bytes));
            self.bytes = self.bytes.saturating_add(kept.bytes);
            self.is_whole = kept.is_whole;
            self.runs.push(kept);
        }
        self.is_whole
    }

    /// All of it, oldest first.
    #[must_use]
    pub fn into_recorded(self) -> Vec<Recorded> {
        self.runs.into_iter().rev().flat_map(|kept| kept.recorded).collect()
    }
}
