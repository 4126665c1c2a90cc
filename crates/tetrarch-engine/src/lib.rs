//! Tetrarch's actors: the owner of the ledger, host orchestrators, project and interaction
//! orchestrators, and the sessions of hosted agents. Each is a thin shell around a machine of
//! core: it pulls inputs, commits or performs what the machine says, and decides nothing.
//! Actors meet on the bus; the only references between them are a supervisor's.

mod agent;
mod clock;
mod correspond;
mod error;
mod global;
mod host;
mod interaction;
mod metrics;
mod patience;
mod project;
mod pulse;
mod pump;
mod reading;
mod session;
mod tree;

pub use error::EngineError;
pub use global::{
    Acceptance, Accepted, ApiKey, BadPlanner, GlobalConfig, HttpClient, MemorySource,
    PlannerConfig, accept_ledger, http_client, memories, propose, provide_tls, remembered,
    serve_global,
};
pub use host::{HostConfig, HostStop, serve_host};
