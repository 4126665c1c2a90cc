//! The `tetrarch` command line: arguments, configuration, telemetry and exit codes. Everything
//! process-wide happens here exactly once; decisions live in core, the bus contract in bus.

mod args;
mod command;
mod config;
mod confirm;
mod context;
mod document;
mod exit;
mod history;
mod name;
mod obstacles;
mod offline;
mod options;
mod output;
mod process;
#[cfg(test)]
mod proposed;
#[cfg(test)]
#[path = "../../tetrarch-view/src/tests/samples.rs"]
#[expect(dead_code, reason = "other crates use the rest")]
mod samples;
mod serving;
mod snapshot;
mod suggestion;
mod telemetry;
pub mod vectors;

use std::process::ExitCode;

// What nearly every command needs.
use confirm::ConfirmArgs;
use context::{Context, HumanClient, new_id, new_ulid};
use exit::{CliError, CliResult, Code};
use snapshot::{StateSnapshot, no_plan_of};

/// Runs the command line and gives its exit code.
#[must_use]
pub fn main() -> ExitCode {
    match command::run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            suggestion::report(&error);
            error.code.into()
        }
    }
}
