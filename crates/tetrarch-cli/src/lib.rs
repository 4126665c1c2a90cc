//! The `tetrarch` command line: arguments, configuration, telemetry and exit codes. Everything
//! process-wide happens here exactly once; decisions live in core, the bus contract in bus.

mod args;
mod command;
mod config;
mod context;
mod document;
mod exit;
mod history;
mod output;
mod process;
#[cfg(test)]
mod samples;
mod snapshot;
mod telemetry;
pub mod vectors;

use std::process::ExitCode;

use clap::Parser;

/// Runs the command line and gives its exit code.
#[must_use]
pub fn main() -> ExitCode {
    let args = args::Args::parse();
    match command::run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            exit::report(&error);
            error.code.into()
        }
    }
}
