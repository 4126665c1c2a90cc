//! What every suite shares: a real server per test, the product's binary as a user starts it,
//! waiting for a state. It asserts nothing about the product itself.

mod fleet;
mod ledger;
pub mod life;
mod owner;
mod processes;
mod program;
mod server;
pub mod wait;

pub use fleet::{Fleet, binary, binary_with_failpoints, python};
pub use ledger::{Ledger, empty_entry};
pub use owner::Owner;
pub use processes::{Process, processes_of};
pub use program::{Ended, Program};
pub use server::{Server, server};
