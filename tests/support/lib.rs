//! What every suite shares: a real server per test, the product's binary as a user starts it,
//! waiting for a state. It asserts nothing about the product itself.

mod cluster;
pub mod coding_agents;
pub mod dice;
mod fleet;
mod ledger;
pub mod life;
pub mod model;
pub mod namespaces;
mod owner;
mod processes;
mod program;
pub mod proposals;
pub mod scripted;
mod server;
pub mod simulated;
pub mod wait;

pub use cluster::Cluster;
pub use fleet::{Fleet, binary, binary_with_failpoints, python};
pub use ledger::{Ledger, agreeing, empty_entry, entry_bytes, plain_entry, settled};
pub use owner::Owner;
pub use processes::{Process, processes_of};
pub use program::{Ended, Program};
pub use server::{Server, durability, server};
