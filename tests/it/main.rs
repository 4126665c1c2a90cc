//! The `it` suite.
