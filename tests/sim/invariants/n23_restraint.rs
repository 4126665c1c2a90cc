//! Invariant 23 (spec 10). Failures and silence in a crowd are borne only so far.

use super::found;
use crate::bug::Bug;

#[test]
fn tireless_is_found() {
    found(Bug::Tireless, "invariant 23:");
}

#[test]
fn mass_unguarded_is_found() {
    found(Bug::MassUnguarded, "invariant 23:");
}
