//! A backend without a process: answers at once with the brief's goal. It measures what the rest
//! of the system costs and must never do work of its own.

use tetrarch_core::brief::{Outcome, RunResult};
use tetrarch_core::order::{Exit, RunnerEvent, Start};

use crate::backend::AgentBackend;
use crate::channels::RunChannels;

/// Answers with the goal.
#[derive(Debug)]
pub(crate) struct EchoBackend;

impl AgentBackend for EchoBackend {
    async fn execute(&self, start: Start, channels: RunChannels) {
        let isolation = "inside the host process".to_owned();
        channels.teller.tell(RunnerEvent::Started { pid: None, isolation }).await;
        let mut result = RunResult::ended(Outcome::Success, "");
        result.deliverable = start.brief.goal;
        let result = Box::new(result);
        channels.teller.tell(RunnerEvent::Result { result, files: Vec::new() }).await;
        channels.teller.tell(RunnerEvent::Exited { exit: Exit::Code(0), result: None }).await;
    }
}
