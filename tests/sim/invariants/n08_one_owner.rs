//! Invariant 8 (spec 10). Of two owners the later one commits.

use super::found;
use crate::bug::Bug;

#[test]
fn unfenced_ledger_is_found() {
    found(Bug::UnfencedLedger, "invariant 8:");
}
