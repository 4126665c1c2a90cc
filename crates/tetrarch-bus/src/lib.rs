//! The bus contract of Tetrarch (spec 02): the only crate that knows NATS, protobuf and
//! subject text. It carries out what others decided: connections, streams, leases, artifacts,
//! credentials and the managed local server. It must not decide anything about agents.

pub mod artifact;
pub mod client;
pub mod creds;
pub mod error;
pub mod lease;
pub mod retry;
pub mod server;
pub mod subject;
pub mod topology;

pub use async_nats::HeaderMap;
pub use client::Bus;
