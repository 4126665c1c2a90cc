//! Invariant 18 (spec 10). What was spent stays spent.

use super::found;
use crate::bug::Bug;

#[test]
fn forgotten_spending_is_found() {
    found(Bug::SpendingForgotten, "invariant 18:");
}
