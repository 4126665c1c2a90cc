//! Operations of and on hosts (spec 04). Nothing here decides.

use crate::id::HostName;

/// `op.host.drain`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostDrain {
    /// Which host.
    pub host: HostName,
    /// It takes agents again.
    pub undo: bool,
    /// Why.
    pub reason: String,
}

/// `op.host.join`.
#[derive(Debug, Clone, PartialEq)]
pub struct HostJoin {
    /// The process, told apart from earlier lives.
    pub instance: String,
    /// The lease's epoch that the process holds.
    pub lease_epoch: u64,
    /// Its labels.
    pub labels: Vec<(String, String)>,
    /// Agents it takes.
    pub capacity: u32,
    /// Where it can be found, for people.
    pub address: String,
}
