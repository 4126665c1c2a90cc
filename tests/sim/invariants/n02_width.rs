//! Invariant 2 (spec 10). Width: a parent holds at most three slots, and no more than its mode allows.

use super::found;
use crate::bug::Bug;

#[test]
fn wider_parent_is_found() {
    found(Bug::WiderParent, "invariant 2:");
}
