//! How a Rust program speaks the stdio protocol and survives its own death. To use it elsewhere,
//! copy `host.rs`: it needs `serde_json` and nothing else.

mod host;

pub use host::{End, Host, run};
