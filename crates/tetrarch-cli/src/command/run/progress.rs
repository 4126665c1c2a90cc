//! The line at the bottom of a terminal while a goal is followed: how far it is, who is at work, since when, what
//! was spent and what is waited for. Without a terminal there is none.

use std::cell::Cell;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use rustix::termios::tcgetwinsize;
use tetrarch_core::budget::Spend;
use tetrarch_core::obstacle::Obstacle;
use tetrarch_core::plan::PlanEvent;

use crate::obstacles;
use crate::output::{say, visible};

/// What the line says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Progress {
    /// Leaves of the plan.
    pub(super) leaves: u32,
    /// Those that are settled.
    pub(super) settled: u32,
    /// Those that somebody works on.
    pub(super) at_work: u32,
    /// What the project spent since then.
    pub(super) spent: Spend,
    /// What is waited for first, and how many other things are.
    pub(super) waits: Option<(String, usize)>,
}

impl Progress {
    /// Takes the plan as an event has it.
    pub(super) fn take(&mut self, event: &PlanEvent) {
        let counts = event.counts;
        self.settled = counts.done + counts.cancelled;
        self.leaves = self.settled + counts.unsettled();
        self.at_work = counts.in_progress;
    }

    /// Takes what is in the way.
    pub(super) fn wait_for(&mut self, present: &[Obstacle]) {
        self.waits = present.first().map(|it| {
            (format!("{}: {}", obstacles::kind(it), visible(&it.what)), present.len() - 1)
        });
    }

    /// The line after so long a time.
    pub(super) fn line(&self, took: Duration) -> String {
        let Self { leaves, settled, at_work, spent, waits } = self;
        let seconds = took.as_secs();
        let age = match seconds / 3600 {
            0 => format!("{}:{:02}", seconds / 60, seconds % 60),
            hours => format!("{hours}:{:02}:{:02}", seconds / 60 % 60, seconds % 60),
        };
        let mut parts = vec![format!("{settled}/{leaves} done"), format!("{at_work} at work"), age];
        if spent.tokens > 0 {
            parts.push(format!("{} tokens", spent.tokens));
        }
        if spent.cost_micro > 0 {
            parts.push(format!(
                "${}.{:02}",
                spent.cost_micro / 1_000_000,
                spent.cost_micro / 10_000 % 100
            ));
        }
        if let Some((first, others)) = waits {
            let more = if *others > 0 { format!(" (+{others})") } else { String::new() };
            parts.push(format!("waits: {first}{more}"));
        }
        parts.join("  ")
    }
}

/// Goes to the beginning of the line and erases it.
const ERASE: &str = "\r\u{1b}[2K";

/// The line on the terminal, below everything that is said.
#[derive(Debug)]
pub(super) struct StatusLine {
    is_shown: bool,
    is_drawn: Cell<bool>,
}

impl StatusLine {
    /// A line; one that is not shown where nobody wants it, and where there is no terminal.
    pub(super) fn new(wanted: bool) -> Self {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let is_shown = wanted && !dumb && io::stderr().is_terminal();
        Self { is_shown, is_drawn: Cell::new(false) }
    }

    /// Says a line above it.
    pub(super) fn say(&self, text: &str) {
        self.erase();
        say(text);
    }

    /// Draws it, as much of it as there is room for.
    pub(super) fn draw(&self, progress: &Progress, took: Duration) {
        if self.is_shown && progress.leaves > 0 {
            let size = tcgetwinsize(io::stderr()).ok().map(|size| usize::from(size.ws_col));
            let room = size.filter(|columns| *columns > 0).unwrap_or(80) - 1;
            let line: String = progress.line(took).chars().take(room).collect();
            self.write(&format!("{ERASE}{line}"));
            self.is_drawn.set(true);
        }
    }

    fn erase(&self) {
        if self.is_drawn.replace(false) {
            self.write(ERASE);
        }
    }

    fn write(&self, text: &str) {
        let mut terminal = io::stderr().lock();
        // A terminal that is gone shows nothing.
        let _unseen = terminal.write_all(text.as_bytes()).and_then(|()| terminal.flush());
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        self.erase();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_line_shows_percentage_and_what_is_awaited() {
        let mut progress = Progress { leaves: 7, settled: 3, at_work: 2, ..Progress::default() };
        assert_eq!(progress.line(Duration::from_secs(59)), "3/7 done  2 at work  0:59");
        progress.spent = Spend { tokens: 1200, cost_micro: 1_239_999, turns: 9 };
        assert_eq!(
            progress.line(Duration::from_secs(3600)),
            "3/7 done  2 at work  1:00:00  1200 tokens  $1.23"
        );
        progress.spent = Spend::default();
        progress.waits = Some(("question open: which?".to_owned(), 0));
        let line = progress.line(Duration::from_secs(60));
        assert_eq!(line, "3/7 done  2 at work  1:00  waits: question open: which?");
        progress.waits = Some(("circuit open: PO-x".to_owned(), 2));
        assert!(progress.line(Duration::ZERO).ends_with("waits: circuit open: PO-x (+2)"));
    }
}
