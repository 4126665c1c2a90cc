//! Invariant 20 (spec 10). What is shown, and what an owner knows, is what the ledger replays to.

use super::found;
use crate::bug::Bug;

#[test]
fn skipped_state_is_found() {
    found(Bug::StateSkipped, "invariant 20:");
}
