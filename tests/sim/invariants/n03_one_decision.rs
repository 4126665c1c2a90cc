//! Invariant 3 (spec 10). One decision for a request id, however often the request comes.

use super::found;
use crate::bug::Bug;

#[test]
fn forgotten_request_is_found() {
    found(Bug::ForgottenRequest, "invariant 3:");
}
