//! The verbs as operations (spec 06, The three verbs): `agent.steer`, `agent.interrupt`,
//! `agent.pause`, `agent.resume`.

use crate::id::AgentId;
use crate::verb::{Verb, Wanted};

/// What is wanted of an agent's run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerbOp {
    /// Who.
    pub agent: AgentId,
    /// The verb and its words.
    pub wanted: Wanted,
}

impl VerbOp {
    /// The names in subjects.
    pub const NAMES: [&str; 4] = ["agent.interrupt", "agent.pause", "agent.resume", "agent.steer"];

    /// The name in the subject.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self.wanted.verb() {
            Verb::Steer => "agent.steer",
            Verb::Interrupt => "agent.interrupt",
            Verb::Pause => "agent.pause",
            Verb::Resume => "agent.resume",
        }
    }
}
