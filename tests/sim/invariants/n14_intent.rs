//! Invariant 14 (spec 10). What happens was written down before.

use super::found;
use crate::bug::Bug;

#[test]
fn skipped_journal_is_found() {
    found(Bug::JournalSkipped, "invariant 14:");
}
