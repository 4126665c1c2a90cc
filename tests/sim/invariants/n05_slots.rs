//! Invariant 5 (spec 10). Every slot that is taken is freed once, by the end of whoever it is for.

use super::found;
use crate::bug::Bug;

#[test]
fn forgotten_slot_is_found() {
    found(Bug::ForgottenSlot, "invariant 5:");
}
