//! Invariant 28 (spec 10). Nobody goes on with a ledger that is shorter than what was acknowledged.

use super::found;
use crate::bug::Bug;

#[test]
fn unnoticed_amnesia_is_found() {
    found(Bug::AmnesiaUnnoticed, "invariant 28:");
}
