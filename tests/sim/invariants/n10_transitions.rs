//! Invariant 10 (spec 10). Only legal transitions, and what ended stays so, also when plans change.

use super::found;
use crate::bug::Bug;

#[test]
fn revived_agent_is_found() {
    found(Bug::Revived, "invariant 10:");
}

#[test]
fn reused_id_is_found() {
    found(Bug::IdReused, "and its definition changed");
}

#[test]
fn forgotten_finished_work_is_found() {
    found(Bug::DoneForgotten, "invariant 10:");
}
