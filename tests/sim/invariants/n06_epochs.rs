//! Invariant 6 (spec 10). Nothing that an earlier session says counts as the current one's. A report of an earlier
//! session that counted would bring the next one while its predecessor still runs.

use super::found;
use crate::bug::Bug;

#[test]
fn unchecked_epoch_is_found() {
    found(Bug::EpochUnchecked, "invariant 7:");
}
