//! What is said of spawn requests (spec 03, Spawn protocol): who is admitted, who is not, who waits.

use crate::error::DenialReason;
use crate::id::{AgentId, EpicId, HostName, NodeId, RequestId, SessionId};
use crate::request::SpawnRequest;
use crate::role::Role;

/// One admitted child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spawned {
    /// Who.
    pub agent: AgentId,
    /// Its session.
    pub session: SessionId,
    /// Its epoch.
    pub epoch: u64,
    /// Its depth.
    pub depth: u8,
    /// Its node.
    pub node: NodeId,
    /// Its host.
    pub host: HostName,
}

/// One refused child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denied {
    /// Its place in the request, from 0.
    pub index: usize,
    /// The role that was asked for.
    pub role: Role,
    /// Why.
    pub reason: DenialReason,
    /// The limit it met.
    pub limit: Option<u64>,
    /// What stands against the limit.
    pub current: Option<u64>,
    /// In words.
    pub detail: String,
}

/// The answer to a spawn request (spec 03).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SpawnAnswer {
    /// The epic.
    pub epic: Option<EpicId>,
    /// The request; none when its id could not be read.
    pub request: Option<RequestId>,
    /// For whom; a sponsor passes the answer on to it.
    pub parent: Option<AgentId>,
    /// Who was admitted.
    pub spawned: Vec<Spawned>,
    /// Who was not.
    pub denied: Vec<Denied>,
    /// Who waits, each with what is missing.
    pub queued: Vec<Denied>,
    /// The overall reason, when nobody was.
    pub reason: String,
    /// What to do instead.
    pub suggestion: String,
    /// Asking again later may help.
    pub retry: bool,
    /// Claims of the request that the record contradicts, with the true values.
    pub corrections: Vec<String>,
}

impl SpawnAnswer {
    /// Whether at least one was admitted.
    #[must_use]
    pub fn accepted(&self) -> bool {
        !self.spawned.is_empty()
    }

    /// Whether nobody was admitted and nobody waits.
    #[must_use]
    pub fn refused(&self) -> bool {
        self.spawned.is_empty() && self.queued.is_empty()
    }
}

/// A specialist's own request, on its way to its sponsor.
#[derive(Debug, Clone, PartialEq)]
pub struct SponsorRequest {
    /// Its id, kept when the sponsor forwards it.
    pub request: RequestId,
    /// The whole of it.
    pub wanted: SpawnRequest,
}
