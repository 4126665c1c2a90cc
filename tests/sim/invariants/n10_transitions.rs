//! Invariant 10 (spec 10). Only legal transitions, and what ended stays so, also when plans change.

use super::found;
use crate::bug::Bug;

#[test]
fn revived_is_found() {
    found(Bug::Revived, "invariant 10:");
}

#[test]
fn an_id_that_is_used_again_is_found() {
    found(Bug::IdReused, "and its definition changed");
}

#[test]
fn done_work_that_is_forgotten_is_found() {
    found(Bug::DoneForgotten, "invariant 10:");
}
