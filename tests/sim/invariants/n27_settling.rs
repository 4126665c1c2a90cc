//! Invariant 27 (spec 10). After the last fault everything settles.

use super::found;
use crate::bug::Bug;

#[test]
fn never_due_deadline_is_found() {
    found(Bug::NeverDue, "invariant 27:");
}
