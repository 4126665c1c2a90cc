//! Invariant 11 (spec 10). Nobody is declared offline who was heard, by the sweeper or by the bus.

use super::found;
use crate::bug::Bug;

#[test]
fn unnoticed_deafness_is_found() {
    found(Bug::DeafnessUnnoticed, "invariant 11:");
}

#[test]
fn blindly_taken_lease_is_found() {
    found(Bug::LeaseTakenBlindly, "invariant 11:");
}
