//! Records of what was sent for assignments.

use tetrarch_core::dispatch::{Dispatch, DispatchMode, DispatchOutcome};

use super::wire::{message, words};

words!(DispatchMode, DispatchOutcome);

message! { Dispatch, Dispatch {
    id, assignment, at: at_unix_ms, mode, rung, to, session, text, hash, outcome, run, notes,
} }
