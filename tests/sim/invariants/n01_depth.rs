//! Invariant 1 (spec 10). Depth: a child stands one level below its parent, and never below its limit.

use super::found;
use crate::bug::Bug;

#[test]
fn deeper_child_is_found() {
    found(Bug::DeeperChild, "invariant 1:");
}
