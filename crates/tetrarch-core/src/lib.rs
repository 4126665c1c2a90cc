//! Tetrarch's core: every decision, pure. Nothing here does IO, reads a clock, draws random
//! numbers or iterates a hash map; time, ids and configuration are arguments.
//!
//! The shape is `decide -> commit -> evolve -> perform` (spec 01): a machine decides on its
//! state and an input, the shell commits what it wrote, the state is folded from the entry,
//! and effects are performed after that.

pub mod admission;
pub mod agent;
pub mod artifacts;
pub mod assignment;
pub mod audit;
pub mod brief;
pub mod budget;
pub mod burn;
pub mod change;
pub mod check;
pub mod conversation;
pub mod converse;
pub mod crystallization;
pub mod cursor;
pub mod denials;
pub mod destination;
pub mod detector;
pub mod dispatch;
pub mod duration;
pub mod error;
mod fit;
pub mod goal;
pub mod governor;
pub mod graph;
pub mod held;
pub mod hosted;
pub mod id;
pub mod intensity;
pub mod journal;
pub mod ledger;
pub mod limits;
pub mod liveness;
pub mod mail;
pub mod mcp;
pub mod metering;
pub mod note;
pub mod obstacle;
pub mod orchestrator;
pub mod order;
pub mod overseer;
pub mod owner;
pub mod permission;
pub mod plan;
pub mod planner;
pub mod priority;
pub mod question;
pub mod reading;
pub mod records;
pub mod redaction;
pub mod request;
pub mod reservation;
pub mod restart;
pub mod role;
pub mod run;
pub mod schedule;
pub mod secret;
pub mod share;
pub mod size;
pub mod snapshot;
pub mod step;
pub mod sweep;
pub mod time;
pub mod trouble;
pub mod url;
pub mod verb;
pub mod vitals;
mod words;
