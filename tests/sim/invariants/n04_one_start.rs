//! Invariant 4 (spec 10). One start for a session: one order, one claim, one process.

use super::found;
use crate::bug::Bug;

#[test]
fn double_launch_is_found() {
    found(Bug::LaunchedTwice, "invariant 4:");
}
