//! `tetrarch serve --global`: the owner of the ledger, or a standby for it.

use std::time::Duration;

use tetrarch_bus::creds::CredentialHolder;
use tetrarch_bus::server::free_space;
use tetrarch_core::owner::Policy;
use tetrarch_engine::{GlobalConfig, serve_global};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::host::prices;
use crate::config::Config;
use crate::options::GlobalArgs;
use crate::process::{Instance, address, announce, stop_signal_but_hangup};
use crate::{CliError, CliResult, Code, Context};

/// Between two looks at the room on the disk of the bus.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Runs the owner of the ledger.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tetrarch serve --global\n  tetrarch serve --global --url nats://bus.example:4222 --credentials control.creds"
)]
pub(crate) struct ServeArgs {
    /// Run the owner (the control plane), or a standby while another process is the owner.
    #[arg(long)]
    global: bool,
    /// Stop at the end of standard input.
    #[arg(long, hide = true)]
    with_parent: bool,
}

/// Runs the command.
///
/// # Errors
/// The owner's.
pub(crate) async fn run(context: &Context, args: ServeArgs) -> CliResult {
    if !args.global {
        return Err(
            CliError::new(Code::Usage, "--global is required").hint("tetrarch serve --global")
        );
    }
    let bus = context.connect(&CredentialHolder::Control, "owner").await?;
    let kept = Instance::kept(&context.config.bus.data_dir, "global")?;
    let instance = kept.unwrap_or_else(Instance::fresh);
    let window = context.config.liveness.window;
    let config = GlobalConfig {
        instance: instance.id.clone(),
        data_dir: Some(context.config.bus.data_dir.clone()),
        address: address(),
        window,
        ttl_secs: context.config.retention.go_ttl_secs,
        register_deadline: context.config.liveness.register_deadline,
        mass: context.config.liveness.mass,
        replicas: context.config.bus.replicas,
        policy: policy(&context.config)?,
        tick_every: context.config.tick_every,
        planner: context.config.planner.prepared()?,
        halted: watch_room(context),
        reloads: reloads(&context.global)?,
        retention: context.config.retention.ledger,
        ages: context.config.retention.ages,
    };
    let stop = stop_signal_but_hangup(args.with_parent)?;
    let (tell, ready) = watch::channel(false);
    announce(ready);
    Ok(serve_global(bus, config, stop, tell).await?)
}

/// What an operator may set of what the owner decides on.
fn policy(config: &Config) -> CliResult<Policy> {
    Ok(Policy { prices: prices(config)?, ..config.policy.clone() })
}

/// The policy as it is read again at each SIGHUP. What cannot be read is said, and changes nothing.
fn reloads(global: &GlobalArgs) -> CliResult<watch::Receiver<Option<Policy>>> {
    let mut hangup = signal(SignalKind::hangup())?;
    let (tell, reloads) = watch::channel(None);
    let global = global.clone();
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            match Config::load(&global).and_then(|config| policy(&config)) {
                Ok(policy) => {
                    tracing::info!("the configuration was read again");
                    tell.send_replace(Some(policy));
                }
                Err(error) => {
                    tracing::error!(%error, "cannot read the configuration again; it stays as it was");
                }
            }
        }
    });
    Ok(reloads)
}

/// Says for how long no work is to be taken, and why: while the disk of the managed bus has too
/// little room. What is on another machine is not looked at.
fn watch_room(context: &Context) -> watch::Receiver<Option<String>> {
    let (tell, halted) = watch::channel(None);
    if context.config.bus.url.is_some() {
        return halted;
    }
    let data_dir = context.config.bus.data_dir.clone();
    tokio::spawn(async move {
        loop {
            let free_space = free_space(&data_dir);
            let was = tell.borrow().is_some();
            let low = free_space
                .filter(|free_space| free_space.is_low() || (was && !free_space.is_enough()));
            if was || low.is_some() {
                tell.send_replace(
                    low.map(|free_space| format!("no work is accepted, {free_space}")),
                );
            }
            if tell.is_closed() {
                return;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    });
    halted
}
