//! The `faults` suite: the product's binary with failpoints, ended or paused at every step of the
//! protocol (docs/decisions/0018). An ordinary run takes a sample of the steps, `FAULTS=all` takes
//! them all, `FAULTS=<step>,<step>` these.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking where it went wrong")]

mod absence;
mod case;
mod kept;
mod killed;
mod pairs;
mod paused;
mod stage;
mod witness;
