//! The `tidy` suite.
