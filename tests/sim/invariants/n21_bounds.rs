//! Invariant 21 (spec 10). Every record and every entry is within its bound.

use super::found;
use crate::bug::Bug;

#[test]
fn unbounded_queue_is_found() {
    found(Bug::Unbounded, "invariant 21:");
}
