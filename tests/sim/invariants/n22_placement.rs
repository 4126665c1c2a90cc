//! Invariant 22 (spec 10). Whoever runs belongs to a life of a host that is not over.

use super::found;
use crate::bug::Bug;

#[test]
fn placement_on_a_dead_life_is_found() {
    found(Bug::PlacedOnDeadLife, "invariant 22:");
}
