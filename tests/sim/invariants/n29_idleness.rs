//! Invariant 29 (spec 10). With no work there is no traffic but renewals.

use super::found;
use crate::bug::Bug;

#[test]
fn busy_idle_owner_is_found() {
    found(Bug::Restless, "invariant 29:");
}
