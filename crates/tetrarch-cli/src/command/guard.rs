//! `tetrarch guard`: the small process beside a host that freezes the host's programs when its
//! lease is over (spec 04, Hosts). Reads no configuration and starts no telemetry: it must stand
//! whatever becomes of the host.

use std::path::PathBuf;
use std::time::Duration;

use tetrarch_runner::{GuardDuty, HostLife, guard_main};

use crate::CliResult;

/// Guards a host's programs.
#[derive(Debug, clap::Args)]
pub(crate) struct GuardArgs {
    /// The id of the host's life, as its programs carry it.
    #[arg(long)]
    life: HostLife,
    /// The longest freeze before programs are killed, in milliseconds.
    #[arg(long, value_name = "MS")]
    freeze_max_ms: u64,
    /// The cgroup of the host's runs.
    #[arg(long, value_name = "DIR")]
    cgroup: Option<PathBuf>,
    /// The most processes of one run.
    #[arg(long, value_name = "NUMBER")]
    processes_max: Option<u64>,
}

/// Runs the command.
///
/// # Errors
/// Signals cannot be ignored.
pub(crate) fn run(args: GuardArgs) -> CliResult {
    let GuardArgs { life, freeze_max_ms, cgroup, processes_max } = args;
    let freeze_max = Duration::from_millis(freeze_max_ms);
    Ok(guard_main(GuardDuty { life, freeze_max, cgroup, processes_max })?)
}
