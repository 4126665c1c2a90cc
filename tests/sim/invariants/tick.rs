//! The tick (spec 05): nothing is sent before it is committed, what is sent again keeps its id, nothing is
//! sent within a backoff, and one look is bounded.

use super::found;
use crate::bug::Bug;
use crate::size::tick;

#[test]
fn message_before_commit_is_found() {
    found(Bug::SentBeforeCommit, "invariant 14:");
}

#[test]
fn new_id_on_resend_is_found() {
    found(Bug::ResentAnew, "the tick:");
}

#[test]
fn forgotten_backoff_is_found() {
    found(Bug::BackoffForgotten, "before its backoff ends");
}

#[test]
fn unbounded_tick_is_found() {
    let looks = tick(None);
    assert!(looks.as_ref().is_ok_and(|looks| *looks > 1), "six hundred stand still: {looks:?}");
    let told = tick(Some(Bug::TickUnbounded)).unwrap_err();
    assert!(told.contains("invariant 21:"), "{told}");
}
