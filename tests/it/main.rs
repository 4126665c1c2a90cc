//! The `it` suite.

mod bus_infra;
mod bus_protocol;
mod fidelity;
mod life;
mod ownership;
