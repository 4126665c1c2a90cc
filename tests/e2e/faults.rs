//! Faults of the bus, its disk and the network between processes (spec 10, Faults). What needs a
//! network or mounts of its own says so when it cannot have them.

mod clocks;
mod cluster;
mod corruption;
mod cut;
mod disk;
mod power;

use std::future::Future;

/// Runs a future that starts processes, and programs of its own, in the calling thread's namespaces.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(future)
}

/// Says that a test is not made, and why.
#[expect(clippy::print_stdout, reason = "a skipped test has to be seen")]
fn skipped(why: &str) {
    println!("skipped: {why}");
}
