//! What people see of a fleet, as pure functions of its records and of what its hosts report: rows, their order,
//! filter and lineage, alarms, what waits for people and what they are told, plans as outlines, journals in words. Every command and
//! screen that shows these shows them from here; nothing is decided on them, and nothing here reads a clock,
//! the bus or a terminal.

pub mod alarm;
pub mod amount;
pub mod burn;
pub mod diff;
pub mod event;
pub mod fold;
pub mod grant;
pub mod graph;
pub mod inbox;
pub mod lineage;
pub mod news;
pub mod notice;
pub mod order;
pub mod outline;
pub mod row;
pub mod session_tree;
pub mod text;
pub mod timeline;
pub mod tone;
pub mod transcript;

#[cfg(test)]
#[path = "tests/samples.rs"]
mod samples;
