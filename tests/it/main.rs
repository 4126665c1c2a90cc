//! The `it` suite.

mod amnesia;
mod archives;
mod bus_infra;
mod bus_protocol;
mod cuts;
mod fidelity;
mod life;
mod mending;
mod ownership;
mod reporting;
mod restarts;
mod shares;
