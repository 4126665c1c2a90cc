//! What a word tells at a glance. A view says the word first and shows the tone beside it.

/// What a cell's text tells at a glance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tone {
    /// Nothing in particular.
    #[default]
    Plain,
    /// It is well.
    Good,
    /// It waits or is at risk.
    Warn,
    /// It went wrong.
    Bad,
    /// It is over, or of little interest.
    Faint,
    /// A column's name.
    Head,
}

/// The tone of a state's word, whichever machine it belongs to.
#[must_use]
pub fn tone_of(state: &str) -> Tone {
    match state {
        "active" | "running" | "in_progress" | "spawning" | "dispatched" => Tone::Good,
        "failed" | "refused" | "orphaned" | "offline" | "failure" | "budget_exceeded" => Tone::Bad,
        "stale" | "blocked" | "awaiting-input" | "paused-by-user" | "cancelling" | "paused"
        | "stalled" | "drained" | "conflicted" | "unapplied" => Tone::Warn,
        "terminated" | "done" | "completed" | "cancelled" | "archived" | "success" | "retired" => {
            Tone::Faint
        }
        _ => Tone::Plain,
    }
}
