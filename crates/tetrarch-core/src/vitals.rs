//! How a session is, as its host says with every renewal of its lease (spec 04, Hosts): what a view shows
//! beside the records. Nothing is decided on it.

use crate::burn::Burn;
use crate::converse::Recorded;
use crate::cursor::Positions;
use crate::id::{AgentId, SessionId};
use crate::limits::{ACTIVITY_TOOL_CHARS, ACTIVITY_WORDS_CHARS};
use crate::run::RunState;

/// How one session is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vitals {
    /// The agent.
    pub agent: AgentId,
    /// Its session.
    pub session: SessionId,
    /// Its epoch.
    pub epoch: u64,
    /// The state of its run; none when it is idle.
    pub run_state: Option<RunState>,
    /// Inbox positions.
    pub positions: Positions,
    /// Grows while it moves.
    pub progress: u64,
    /// Tokens used.
    pub tokens: u64,
    /// The part of these that a model wrote.
    pub tokens_out: u64,
    /// Turns of its loop.
    pub turns: u64,
    /// Cost in millionths of a dollar.
    pub cost_micro: u64,
    /// How fast it spends tokens and money.
    pub burn: Burn,
    /// The tool that works for it; empty for none.
    pub tool: String,
    /// What it said last of its progress, in one line.
    pub words: String,
}

/// What a run is doing, as far as its program tells.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Activity {
    /// Calls of the latest turn that have no answer, by their place in it.
    calls: Vec<(u32, String)>,
    words: String,
}

impl Activity {
    /// The tool that works, the first of those that were called together; empty for none.
    #[must_use]
    pub fn tool(&self) -> &str {
        self.calls.first().map_or("", |(_, tool)| tool)
    }

    /// What was said last of its progress.
    #[must_use]
    pub fn words(&self) -> &str {
        &self.words
    }

    /// Takes words about progress: of several lines the first.
    pub fn says(&mut self, text: &str) {
        let line = text.trim_start().lines().next().unwrap_or_default();
        self.words = line.chars().take(ACTIVITY_WORDS_CHARS).collect();
    }

    /// This tool works, and no other; none for an empty name.
    pub fn uses(&mut self, tool: &str) {
        let named = Some(tool).filter(|tool| !tool.is_empty());
        self.calls = named.map(|tool| (0, short(tool))).into_iter().collect();
    }

    /// Takes a change of a conversation with a model.
    pub fn hears(&mut self, recorded: &Recorded) {
        match recorded {
            Recorded::Turn { calls, text, .. } => {
                let named = (0..).zip(calls);
                self.calls = named.map(|(at, call)| (at, short(&call.tool))).collect();
                if !text.trim().is_empty() {
                    self.says(text);
                }
            }
            Recorded::Answer { index, .. } => self.calls.retain(|(at, _)| at != index),
            Recorded::Intent { .. } | Recorded::Heard { .. } => {}
            Recorded::Summary { .. } => self.calls.clear(),
        }
    }

    /// Nothing works any more.
    pub fn ends(&mut self) {
        self.calls.clear();
    }
}

/// The name of a tool, within its bound.
fn short(tool: &str) -> String {
    tool.chars().take(ACTIVITY_TOOL_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::converse::Call;

    fn turn(text: &str, tools: &[&str]) -> Recorded {
        let call = |tool: &&str| Call {
            id: String::new(),
            tool: (*tool).to_owned(),
            arguments: String::new(),
        };
        let calls = tools.iter().map(call).collect();
        Recorded::Turn { step: 1, text: text.to_owned(), calls, is_cut: false }
    }

    fn answer(index: u32) -> Recorded {
        Recorded::Answer { step: 1, index, text: String::new(), is_error: false, letter: 0 }
    }

    #[test]
    fn current_tool_is_the_first_unanswered_call() {
        let mut activity = Activity::default();
        assert_eq!(activity.tool(), "");
        activity.hears(&turn("I look\nfor it", &["read", "run", "grep"]));
        assert_eq!((activity.tool(), activity.words()), ("read", "I look"));
        activity.hears(&answer(1));
        assert_eq!(activity.tool(), "read");
        activity.hears(&answer(0));
        assert_eq!(activity.tool(), "grep");
        activity.hears(&answer(2));
        assert_eq!((activity.tool(), activity.words()), ("", "I look"));
        activity.hears(&turn(" ", &["write"]));
        assert_eq!((activity.tool(), activity.words()), ("write", "I look"));
        activity.ends();
        assert_eq!(activity.tool(), "");
        activity.uses("Bash");
        assert_eq!(activity.tool(), "Bash");
        activity.uses("");
        assert_eq!(activity.tool(), "");
    }

    #[test]
    fn activity_texts_are_cut_at_their_bounds() {
        let mut activity = Activity::default();
        for (length, kept) in [(ACTIVITY_WORDS_CHARS, 96), (ACTIVITY_WORDS_CHARS + 1, 96)] {
            activity.says(&"ä".repeat(length));
            assert_eq!(activity.words().chars().count(), kept);
        }
        activity.hears(&turn("", &["t".repeat(ACTIVITY_TOOL_CHARS + 1).as_str()]));
        assert_eq!(activity.tool().len(), ACTIVITY_TOOL_CHARS);
    }
}
