//! The fleet a plan is given to: the one that is up, else one that is brought up for it and
//! stopped after it.

use std::process::Stdio;
use std::time::Duration;

use tetrarch_bus::lease::{Lease, LeaseKey};
use tetrarch_bus::server::endpoint;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::prepare::Prepared;
use crate::process::READY;
use crate::{CliError, CliResult, Code, Context, HumanClient};

/// How long bringing a fleet up may take; the first time the bus's binary is fetched.
const UP_WITHIN: Duration = Duration::from_secs(180);

/// A fleet that was brought up here and is ours to stop.
pub(super) struct OwnFleet(Child);

/// A connection to the fleet that is up here, else to a new one for this plan, which comes with it.
///
/// # Errors
/// None is up and none can be brought up, or this machine lacks what the plan needs.
pub(super) async fn ensure(
    context: &Context,
    plan: &Prepared,
) -> CliResult<(HumanClient, Option<OwnFleet>)> {
    if let Some(client) = running(context).await? {
        plan.warn_of_here(context, &client);
        return Ok((client, None));
    }
    if context.config.bus.url.is_some() {
        return Ok((context.client().await?, None));
    }
    plan.fits_here(context)?;
    let fleet = OwnFleet(bring_up(context).await?);
    Ok((context.client().await?, Some(fleet)))
}

/// A connection to the fleet that is up here, if one is.
///
/// # Errors
/// Its bus cannot be read.
pub(in crate::command) async fn running(context: &Context) -> CliResult<Option<HumanClient>> {
    let Ok(client) = context.client().await else { return Ok(None) };
    let owned = Lease::look(&client.bus, &LeaseKey::Go).await?;
    // One that is up starts its owner again.
    let is_there = owned.is_some_and(|seen| seen.holder.is_some()) || context.is_up()?;
    Ok(is_there.then_some(client))
}

/// Whether nothing was ever given to a fleet here: no bus was ever up in the data directory.
pub(super) fn is_new(context: &Context) -> bool {
    let bus = &context.config.bus;
    bus.url.is_none() && endpoint(&bus.data_dir).is_none()
}

async fn bring_up(context: &Context) -> CliResult<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("up").arg("--with-parent").arg("--data-dir").arg(&context.config.bus.data_dir);
    if let Some(config) = &context.global.config {
        command.arg("--config").arg(config);
    }
    command.arg("--log").arg(context.global.log.as_deref().unwrap_or("warn"));
    command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn()?;
    let out = child.stdout.take();
    let ready = async {
        let mut lines = BufReader::new(out?).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            if line.starts_with(READY) {
                return Some(());
            }
        }
        None
    };
    match tokio::time::timeout(UP_WITHIN, ready).await {
        Ok(Some(())) => Ok(child),
        Ok(None) => {
            let status = child.wait().await?;
            let what = format!("the fleet did not start: {status}; its output is above");
            Err(CliError::new(Code::Failed, what).hint("`tetrarch doctor` shows what is missing"))
        }
        Err(_) => {
            child.kill().await?;
            let what = format!("the fleet was not ready within {} s", UP_WITHIN.as_secs());
            Err(CliError::new(Code::Failed, what))
        }
    }
}

impl OwnFleet {
    /// Stops the fleet.
    ///
    /// # Errors
    /// It cannot be waited for.
    pub(super) async fn stop(self) -> CliResult {
        let Self(mut child) = self;
        // `up` stops when its standard input ends.
        drop(child.stdin.take());
        child.wait().await?;
        Ok(())
    }
}
