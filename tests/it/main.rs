//! The `it` suite.

mod bus_infra;
