//! The `it` suite.

mod bus_infra;
mod bus_protocol;
mod life;
mod ownership;
