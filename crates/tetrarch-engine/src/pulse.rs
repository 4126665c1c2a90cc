//! How a hosted session is: told by its actor, read by its host for the rows of its lease (spec 04,
//! Hosts). An actor that hangs tells nothing new; its row is there all the same.

use tetrarch_core::brief::Usage;
use tetrarch_core::burn::Burn;
use tetrarch_core::cursor::Positions;
use tetrarch_core::run::RunState;
use tetrarch_core::vitals::Activity;

/// How a session is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Pulse {
    /// Where its run stands, as far as its host knows; none for one that executes no run.
    pub(crate) run_state: Option<RunState>,
    /// How far its inbox is handled.
    pub(crate) positions: Positions,
    /// Things that it, or its program, has done: grows while it moves.
    pub(crate) progress: u64,
    /// What it has used.
    pub(crate) usage: Usage,
    /// Turns that it and the sessions it goes on from have made.
    pub(crate) turns: u64,
    /// How fast it spends.
    pub(crate) burn: Burn,
    /// What it is doing.
    pub(crate) activity: Activity,
}
