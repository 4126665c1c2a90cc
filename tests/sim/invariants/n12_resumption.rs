//! Invariant 12 (spec 10). A next session reads on where its predecessor had read to.

use super::found;
use crate::bug::Bug;

#[test]
fn forgotten_positions_are_found() {
    found(Bug::PositionsForgotten, "invariant 12:");
}
