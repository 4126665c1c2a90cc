//! A child process of `tetrarch up`, and how it is stopped.

use std::time::Duration;

use tetrarch_bus::retry::Retry;
use tetrarch_core::duration;
use tetrarch_core::order::StopWithin;
use tetrarch_engine::HostStop;
use tokio::process::{Child, ChildStdin};
use tokio::sync::watch;

use crate::CliResult;

/// When it is said what is waited for.
const SAID_AFTER: Duration = Duration::from_secs(1);
/// How long a child may take to stop before it is killed.
pub(super) const STOP_WITHIN: Duration = Duration::from_secs(15);

/// A child with its way of being started again.
pub(super) struct Supervised {
    pub(super) what: &'static str,
    pub(super) child: Child,
    /// Held open: the child stops when it closes, and waiting for a child closes its own.
    pub(super) input: Option<ChildStdin>,
    pub(super) retry: Retry,
    /// What it printed before it was ready.
    pub(super) said: Vec<String>,
}

/// Asks the host to stop and waits until its programs came to a boundary and it has; at the second request no longer.
pub(super) async fn end_host(
    mut host: Supervised,
    within: StopWithin,
    stop: &mut watch::Receiver<HostStop>,
) -> CliResult {
    terminate(&host);
    let StopWithin { drain, kill_grace } = within;
    let patience = Duration::from_millis(drain.0.saturating_add(kill_grace.0)) + STOP_WITHIN;
    let waits = async {
        tokio::time::sleep(SAID_AFTER).await;
        let drain = duration::print(drain);
        tracing::warn!(
            "agents have {drain} to reach a boundary; a second Ctrl-C or TERM ends them"
        );
        std::future::pending::<()>().await;
    };
    tokio::select! {
        status = host.child.wait() => return Ok(status.map(drop)?),
        _ = stop.wait_for(|stop| *stop == HostStop::Now) => {}
        () = tokio::time::sleep(patience) => {}
        () = waits => {}
    }
    end(host).await
}

fn terminate(supervised: &Supervised) {
    if let Some(pid) = supervised.child.id().and_then(|id| i32::try_from(id).ok())
        && let Some(pid) = rustix::process::Pid::from_raw(pid)
    {
        // A child that has ended already needs no signal.
        let _ended = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
}

/// Has a child stop and waits until it has.
pub(super) async fn end(mut supervised: Supervised) -> CliResult {
    drop(supervised.input.take());
    terminate(&supervised);
    match tokio::time::timeout(STOP_WITHIN, supervised.child.wait()).await {
        Ok(status) => {
            status?;
        }
        Err(_) => {
            tracing::error!(what = supervised.what, "it did not stop; killing it");
            supervised.child.kill().await?;
        }
    }
    Ok(())
}
