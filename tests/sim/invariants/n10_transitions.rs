//! Invariant 10 (spec 10). Only legal transitions, and what ended stays so.

use super::found;
use crate::bug::Bug;

#[test]
fn revived_is_found() {
    found(Bug::Revived, "invariant 10:");
}
