//! Invariant 23 (spec 10). Failures and silence in a crowd are borne only so far.

use super::found;
use crate::bug::Bug;

#[test]
fn missing_restraint_is_found() {
    found(Bug::Tireless, "invariant 23:");
}

#[test]
fn unguarded_mass_failure_is_found() {
    found(Bug::MassUnguarded, "invariant 23:");
}
