//! Spawn requests that wait for a free slot of their parent or a place on a host (spec 03, Spawn protocol). A record;
//! who waits is decided in `admission`, who is admitted next in `owner/spawn/queue.rs`.

use crate::id::{AgentId, Principal, RequestId};
use crate::mail::Denied;
use crate::request::SpawnRequest;
use crate::time::BusTime;

/// A spawn request of which at least one sub-agent waits.
#[derive(Debug, Clone, PartialEq)]
pub struct QueuedSpawn {
    /// For whom.
    pub parent: AgentId,
    /// Its place in the parent's queue; the lowest is decided first.
    pub place: u64,
    /// The request's id.
    pub request: RequestId,
    /// Who asked.
    pub sender: Principal,
    /// A W3C `traceparent`.
    pub trace: Option<String>,
    /// The whole request.
    pub wanted: SpawnRequest,
    /// Who of it waits, each with what is missing.
    pub waiting: Vec<Denied>,
    /// Since when.
    pub since: BusTime,
}

impl QueuedSpawn {
    /// Whether the sub-agent at this index of the request waits.
    #[must_use]
    pub fn has(&self, index: usize) -> bool {
        self.waiting.iter().any(|waiting| waiting.index == index)
    }
}
