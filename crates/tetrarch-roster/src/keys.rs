//! Every key and what it does: for the help, and for the labels at the bottom. What it does is `update`'s.

/// A key, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyLabel {
    /// The key.
    pub key: &'static str,
    /// What it does.
    pub does: &'static str,
}

const fn label(key: &'static str, does: &'static str) -> KeyLabel {
    KeyLabel { key, does }
}

/// The labels of the table. The last two stand in every terminal.
pub const TABLE_LABELS: [KeyLabel; 14] = [
    label("s", "steer"),
    label("i", "interrupt"),
    label("x", "stop"),
    label("p", "pause"),
    label("⏎", "focus"),
    label("a", "inbox"),
    label("P", "plan"),
    label("/", "filter"),
    label("e", "events"),
    label("t", "past"),
    label(":", "command"),
    label("c", "chats"),
    label("?", "help"),
    label("q", "quit"),
];

/// The labels of the table as it was.
pub const PAST_LABELS: [KeyLabel; 8] = [
    label("t", "now"),
    label("[ ]", "earlier, later"),
    label("⏎", "focus"),
    label("P", "plan"),
    label("e", "events"),
    label("/", "filter"),
    label("?", "help"),
    label("q", "quit"),
];

/// The labels of one agent.
pub const FOCUS_LABELS: [KeyLabel; 10] = [
    label("s", "steer"),
    label("i", "interrupt"),
    label("x", "stop"),
    label("p", "pause"),
    label("Tab", "next tab"),
    label("f", "follow"),
    label("e", "events"),
    label("Esc", "back"),
    label("?", "help"),
    label("q", "quit"),
];

/// The labels of the inbox.
pub const INBOX_LABELS: [KeyLabel; 8] = [
    label("j/k", "select"),
    label("PgDn", "read on"),
    label("⏎", "answer"),
    label("y/n", "decide"),
    label("m", "merge"),
    label("Esc", "back"),
    label("?", "help"),
    label("q", "quit"),
];

/// The labels of a plan.
pub const PLAN_LABELS: [KeyLabel; 5] = [
    label("j/k", "scroll"),
    label("[ ]", "other goal"),
    label("Esc", "back"),
    label("?", "help"),
    label("q", "quit"),
];

/// The labels of the conversations.
pub const CONVERSATIONS_LABELS: [KeyLabel; 4] =
    [label("j/k", "scroll"), label("Esc", "back"), label("?", "help"), label("q", "quit")];

/// The labels of the events.
pub const EVENTS_LABELS: [KeyLabel; 6] = [
    label("j/k", "select"),
    label("⏎", "the fleet then"),
    label("Tab", "of one, of all"),
    label("Esc", "back"),
    label("?", "help"),
    label("q", "quit"),
];

/// The labels of what a command line printed.
pub const COMMAND_LABELS: [KeyLabel; 5] = [
    label("j/k", "scroll"),
    label(":", "again, or another"),
    label("Esc", "back"),
    label("?", "help"),
    label("q", "quit"),
];

/// Every key, by where it works.
pub const HELP: [(&str, &[KeyLabel]); 7] = [
    (
        "Everywhere",
        &[
            label("?", "show or leave this help"),
            label("Esc", "go back; leave a filter, and what became of verbs"),
            label("q, Ctrl-C", "quit"),
            label("a", "what waits for you"),
            label("P", "the plan of the selected agent"),
            label("e", "what happened: to the agent that is looked at, else to all"),
            label("t", "the fleet as it was at a moment; back to now"),
            label(":", "a command line of tetrarch, such as goal list; Esc ends it"),
            label("c", "conversations of people, and who works for them"),
            label("j k, ↓ ↑", "down, up"),
            label("PgDn PgUp", "a page down, up"),
            label("g G, Home End", "to the first, to the last"),
        ],
    ),
    (
        "Agents",
        &[
            label("⏎", "look at one agent"),
            label("/", "filter: letters in their order, words in any, !word for without"),
            label("< >", "order by the column to the left, to the right"),
            label("r", "reverse the order"),
            label("0", "order by what needs somebody, then the tree"),
            label("Space", "hide or show who is below"),
            label("- +", "hide or show who is below, everywhere"),
            label("d", "show or hide agents that have ended"),
        ],
    ),
    (
        "Verbs",
        &[
            label("s", "steer: a text before the next step"),
            label("i", "interrupt: abort the turn; the agent then waits for input"),
            label("x", "stop: the agent and all below it, at a safe point; confirmed with y"),
            label("p", "pause, or resume what is paused"),
        ],
    ),
    (
        "One agent",
        &[
            label("Tab, 1 2 3", "transcript, brief, change"),
            label("f", "follow the end of the transcript"),
        ],
    ),
    (
        "Inbox",
        &[
            label("⏎", "answer a question"),
            label("1 to 9", "answer with an option"),
            label("y", "approve what is shown; confirmed with Y"),
            label("n", "deny, with a reason"),
            label("m", "merge an approved change; confirmed with Y"),
        ],
    ),
    (
        "Events",
        &[
            label("⏎", "the fleet as it was after the event"),
            label("Tab", "of the selected agent, or of all"),
        ],
    ),
    (
        "The past",
        &[
            label("[ ]", "an entry of the ledger earlier, later; nothing can be changed there"),
            label("t, Esc", "back to now"),
        ],
    ),
];
