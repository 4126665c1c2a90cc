//! The bus contract of Tetrarch (spec 02): the only crate that knows NATS, protobuf and
//! subject text. It carries out what others decided: connections, streams, leases, artifacts,
//! credentials and the managed local server. It must not decide anything about agents.

pub mod archive;
pub mod artifact;
pub mod client;
pub mod codec;
pub mod commit;
pub mod creds;
pub mod cursor;
pub mod envelope;
pub mod error;
mod follow;
pub mod inbox;
pub mod intake;
pub mod journal;
pub mod lease;
pub mod mailbox;
pub mod outbox;
mod proto;
pub mod retry;
pub mod schema;
pub mod send;
pub mod server;
pub mod snapshot;
pub mod spoken;
mod stamp;
pub mod state;
pub mod subject;
mod surely;
pub mod tail;
pub mod topology;
pub mod unread;
pub mod watch;

pub use async_nats::HeaderMap;
pub use client::Bus;
