//! Invariant 7 (spec 10). A next session starts when its cursor is sealed and claimed, and nothing of the one before
//! runs: it is gone, or its host was revoked and has frozen it.

use super::found;
use crate::bug::Bug;

#[test]
fn missing_seal_is_found() {
    found(Bug::MissingSeal, "invariant 7:");
}

#[test]
fn late_seal_is_found() {
    found(Bug::SealedLate, "invariant 7:");
}

#[test]
fn unchecked_claim_is_found() {
    found(Bug::ClaimUnchecked, "invariant 7:");
}

#[test]
fn untaken_lease_is_found() {
    found(Bug::LeaseNotTaken, "invariant 7:");
}
