//! Invariant 15 (spec 10). What an entry says to somebody arrives.

use super::found;
use crate::bug::Bug;

#[test]
fn lost_launch_is_found() {
    found(Bug::LostLaunch, "invariant 15:");
}
