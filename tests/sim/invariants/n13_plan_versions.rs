//! Invariant 13 (spec 10). Versions of a plan are 1, 2, 3, each told once.

use super::found;
use crate::bug::Bug;

#[test]
fn skipped_version_is_found() {
    found(Bug::SkippedVersion, "invariant 13:");
}

#[test]
fn unsequenced_plan_is_found() {
    found(Bug::PlanUnsequenced, "invariant 13:");
}
