//! The one open extension point: how a brief is executed (spec 01, spec 06 Runners).
//! A backend decides nothing about plans or budgets; it executes and tells.

use std::future::Future;

use tetrarch_core::order::Start;

use crate::channels::RunChannels;

pub(crate) mod echo;
pub(crate) mod ending;
pub(crate) mod expected;
pub(crate) mod fleet_tools;
pub(crate) mod llm;
pub(crate) mod process;

pub use expected::schema_fault;
pub use process::mcp::{RELAY, relay_main, tell_progress};

/// Executes briefs of one kind.
///
/// Every execution tells either `SpawnFailed`, or `Started`, anything, and `Exited`; the last of
/// these is the last event of the run and means that nothing of the run is left. It ends within
/// bounds once it is asked to, also when the program does not cooperate.
pub trait AgentBackend: Send + Sync + 'static {
    /// Executes one brief to its end.
    ///
    /// `start` is all there is to know about the run; `channels` brings lines and requests and takes
    /// what the backend sees.
    fn execute(&self, start: Start, channels: RunChannels) -> impl Future<Output = ()> + Send;
}
