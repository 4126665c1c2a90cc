//! Executes briefs: takes orders, starts and ends programs, and tells what it observes of them
//! (spec 06, Runners; spec 09, On the host). It knows no bus, no plan and no record; whoever
//! gives the orders does.
//!
//! The way in is [`serve`]. What a program and its host say to each other is in
//! `docs/stdio-protocol.md`; [`AgentBackend`] is where another kind of runner plugs in.

mod adapter;
mod backend;
mod blocked;
mod cgroup;
mod channels;
mod children;
mod confined;
mod containment;
mod directories;
mod fence;
mod files;
mod gateway;
mod guard;
mod headcount;
mod isolation;
mod json_values;
mod launcher;
mod lines;
mod links;
mod mark;
mod pace;
mod procfs;
mod protocol;
mod proxy;
mod rate;
mod removal;
mod serve;
mod sweep;
mod syscalls;
mod tools;
mod worktree;

pub use adapter::{ADAPTERS, AdapterSheet, Capability};
pub use backend::{AgentBackend, RELAY, relay_main, schema_fault, tell_progress};
pub use channels::{RunChannels, StopRequest, Teller};
pub use containment::Containment;
pub use directories::hidden_around;
pub use fence::freeze_time;
pub use guard::{GuardConfig, GuardDuty, GuardProcess, LeaseUpdate, guard_main, keep_guard};
pub use isolation::{Isolation, Layer, probe};
pub use launcher::{Launcher, launch_main};
pub use mark::{HostLife, NoHostLife};
pub use protocol::explain_line;
pub use serve::{RunnerConfig, serve};
pub use sweep::{SweptProcesses, clear_earlier_lives};
pub use tools::{
    Effect, ToolOutcome, ToolSpec, Toolbox, ToolboxConfig, ToolboxError, tool_entries,
};
pub use worktree::{
    InventoryError, KeptWorktree, WorktreeState, remove_worktree, repository_summary, worktrees,
};
