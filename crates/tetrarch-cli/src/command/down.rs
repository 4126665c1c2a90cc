//! `down`: stops the `up` of this data directory as Ctrl-C does, and waits until it has ended.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tetrarch_bus::server::{DataDirLock, ManagedServer};
use tetrarch_core::duration;
use tetrarch_core::time::Millis;

use crate::output;
use crate::{CliError, CliResult, Code, Context};

/// Time between two looks at whether it has ended.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// When it is said what is waited for.
const SAID_AFTER: Duration = Duration::from_secs(2);

/// Arguments of `down`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tetrarch down
  tetrarch down --data-dir ./fleet --timeout 2m

Agents have runs.drain (default 30s) to save their state. Goals, agents and mail are kept and continue
at the next `tetrarch up`.

Exit codes: 0 stopped, or nothing was running; 1 not stopped in time.")]
pub(crate) struct DownArgs {
    /// The longest wait for the end, such as 90s.
    #[arg(long, value_parser = duration::parse, default_value = "1m")]
    timeout: Millis,
}

/// Runs the command.
///
/// # Errors
/// It cannot be told to stop, or does not end in time.
pub(crate) async fn run(context: &Context, args: DownArgs) -> CliResult {
    let dir = &context.config.bus.data_dir;
    if let Some(url) = &context.config.bus.url {
        let what = format!("{url} is not a bus of this installation");
        return Err(CliError::new(Code::Usage, what)
            .hint("stop its `tetrarch serve --global` and `tetrarch host` where they run"));
    }
    let Some(pid) = DataDirLock::holder(&context.config.bus.data_dir)? else {
        return left(context).await;
    };
    let unknown =
        || CliError::new(Code::Failed, format!("{pid:?} in {} is not a process id", dir.display()));
    let number: i32 = pid.parse().map_err(|_| unknown())?;
    let process = Pid::from_raw(number).ok_or_else(unknown)?;
    let began = Instant::now();
    let until = began + Duration::from_millis(args.timeout.0);
    let mut told = false;
    kill_process(process, Signal::TERM).map_err(|error| {
        CliError::new(Code::Denied, format!("cannot signal process {pid}: {error}"))
    })?;
    while DataDirLock::holder(&context.config.bus.data_dir)?.is_some_and(|holder| holder == pid) {
        if Instant::now() >= until {
            let what =
                format!("process {pid} has not ended within {}", duration::print(args.timeout));
            return Err(CliError::new(Code::Failed, what).hint(format!(
                "wait longer with `tetrarch down --timeout 5m`, or kill it: kill -9 {pid}"
            )));
        }
        if !told && began.elapsed() > SAID_AFTER {
            told = true;
            let drain = duration::print(context.config.policy.deadlines.stop.drain);
            output::say(&format!(
                "agents have {drain} to reach a boundary; a second `tetrarch down` ends them"
            ));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    let value = json!({"stopped": true, "pid": number, "dataDir": dir.display().to_string()});
    output::record(context.output, &value, || format!("stopped (process {pid})\n"))
}

/// Ends the server of a data directory that nobody holds: its `up` was killed.
async fn left(context: &Context) -> CliResult {
    let dir = &context.config.bus.data_dir;
    let mut pid = None;
    if dir.join("lock").exists() {
        let lock = DataDirLock::acquire(dir)?;
        if let Some(server) = ManagedServer::left(&lock, dir)? {
            pid = Some(server.pid());
            server.stop().await?;
        }
    }
    let value = json!({"stopped": pid.is_some(), "pid": pid, "dataDir": dir.display().to_string()});
    output::record(context.output, &value, || match pid {
        Some(pid) => {
            format!("stopped the nats-server (process {pid}) that a killed `tetrarch up` left\n")
        }
        None => format!("nothing is running in {}\n", dir.display()),
    })
}
