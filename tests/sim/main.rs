//! The `sim` suite.
