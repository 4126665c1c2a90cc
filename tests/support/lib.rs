//! What every suite shares: a real server per test, waiting for a state. It asserts nothing about
//! the product itself.

mod server;

pub use server::{Server, server};
