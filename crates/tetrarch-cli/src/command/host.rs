//! `tetrarch host`: the orchestrator of this host. Here engine and runner are joined: each
//! speaks core's vocabulary, and neither knows the other.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use tetrarch_bus::creds::CredentialHolder;
use tetrarch_core::converse::cost::Prices;
use tetrarch_core::id::{AgentId, HostName, Principal};
use tetrarch_core::limits::{CAPACITY_PER_CORE, FREEZE_WINDOWS};
use tetrarch_core::request::{HostDrain, Op};
use tetrarch_engine::{HostConfig, serve_host};
use tetrarch_runner::{
    Containment, GuardConfig, GuardProcess, HostLife, Launcher, LeaseUpdate, RunnerConfig,
    clear_earlier_lives, freeze_time, keep_guard,
};
use tokio::sync::{mpsc, oneshot, watch};

use crate::command::creds;
use crate::command::get::{self, GetArgs, ListFilter, ResourceKind};
use crate::command::{project, stop};
use crate::config::{Config, check_freezing};
use crate::document::read_document;
use crate::output::say;
use crate::process::{Instance, address, announce, host_stop};
use crate::{CliError, CliResult, Code, ConfirmArgs, Context, new_ulid};

/// The word after which a program of a run and its arguments follow.
pub(crate) const LAUNCH: &str = "launch";

/// Orders and observations between a host and its runner that wait.
const CHANNEL: usize = 256;
/// Beats that wait for the guard: it takes them at once, unless it is just replaced.
const BEATS: usize = 16;

/// Runs the orchestrator of this host.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  tetrarch host\n  tetrarch host list\n  tetrarch host --name build-2 --label zone=b --capacity 16"
)]
pub(crate) struct HostArgs {
    /// The subcommand.
    #[command(subcommand)]
    command: Option<HostCommand>,
    /// The host's name [default: the machine's name].
    #[arg(long)]
    name: Option<String>,
    /// A label for placement; repeatable.
    #[arg(long = "label", value_name = "KEY=VALUE")]
    labels: Vec<String>,
    /// How many agents may work at the same time; orchestrators do not count [default: 4 for each core].
    #[arg(long)]
    capacity: Option<u32>,
    /// Stop at the end of standard input.
    #[arg(long, hide = true)]
    pub(crate) with_parent: bool,
}

/// Subcommands of `host`.
#[derive(Debug, clap::Subcommand)]
enum HostCommand {
    /// List hosts, as `tetrarch get hosts` does.
    List(ListFilter),
    /// Issue the credential for a host on another machine.
    #[command(
        after_help = "Examples:\n  tetrarch host credential build-2\n\nCopy the file to that machine, readable only by the user that runs the host. Name it there with\n--credentials or bus.credentials, and the bus with --url or bus.url. For a bus that `tetrarch up`\nstarted with --listen, copy tls/ca.pem of its data directory too and name it with --tls-ca or\nbus.tls_ca. Keep the credential secret: its holder can act as that host."
    )]
    Credential {
        /// The host.
        name: HostName,
    },
    /// Drain a host: accept no agents and move its agents to other hosts.
    #[command(after_help = DRAIN_HELP)]
    Drain {
        /// The host.
        name: HostName,
        /// Accept agents again.
        #[arg(long)]
        undo: bool,
        /// The reason, for the ledger.
        #[arg(long, default_value = "", hide_default_value = true)]
        reason: String,
        /// Do not ask for confirmation.
        #[command(flatten)]
        confirm: ConfirmArgs,
    },
    /// Forget a host that is gone for good.
    #[command(after_help = FORGET_HELP)]
    Forget {
        /// The host.
        name: HostName,
        /// The reason, for the ledger.
        #[arg(long, default_value = "", hide_default_value = true)]
        reason: String,
        /// Do not ask for confirmation.
        #[command(flatten)]
        confirm: ConfirmArgs,
    },
}

const FORGET_HELP: &str = "\
Examples:
  tetrarch host forget build-2 --reason 'sold' --yes

The host must be offline and have no agents. Its worktrees stay on its disk. Revoke its credential
with `tetrarch creds revoke HO@build-2`. A host that joins under this name later is a new host.

Exit codes: 3 host not found; 5 the host is alive or has agents.";

const DRAIN_HELP: &str = "\
Examples:
  tetrarch host drain build-2 --reason 'new disks' --yes
  tetrarch host drain build-2 --undo

Each agent on the host writes a checkpoint within runs.drain (default 30s) and continues on another
host. While no other host has room, the agent waits offline. The host stays drained over restarts
until --undo.

Exit codes: 3 host not found; 5 the host is already drained, or not drained with --undo.";

impl HostArgs {
    /// Whether it runs the orchestrator of this host, rather than to ask something and end.
    pub(crate) fn serves(&self) -> bool {
        self.command.is_none()
    }
}

/// Runs the command.
///
/// # Errors
/// The host's.
pub(crate) async fn run(context: &Context, args: HostArgs) -> CliResult {
    match args.command {
        Some(command) => ask(context, command).await,
        None => serve(context, args).await,
    }
}

/// Makes a host's credential and prints its file.
fn credential(context: &Context, name: HostName) -> CliResult {
    let path = creds::kept(context, &CredentialHolder::Host(name.clone()))?;
    // What it needs besides is said where it does not mix with the file's name.
    if let Some(ca) = context.tls_ca() {
        let url = context.urls()?.join(",");
        say(&format!(
            "copy {} to that machine too; name it with --tls-ca, and {url} with --url",
            ca.display()
        ));
    }
    creds::written(context, &Principal::Agent(AgentId::Ho(name)), &path)
}

async fn ask(context: &Context, command: HostCommand) -> CliResult {
    match command {
        HostCommand::List(filter) => {
            get::run(context, GetArgs::of(ResourceKind::Hosts, filter)).await
        }
        HostCommand::Credential { name } => credential(context, name),
        HostCommand::Drain { name, undo, reason, confirm } => {
            if !undo {
                stop::known(&context.client().await?, &AgentId::Ho(name.clone())).await?;
                confirm.to(&format!("move all agents of {name} to other hosts"))?;
            }
            let op = Op::HostDrain(HostDrain { host: name, undo, reason });
            project::ask(context, &op, |reply| reply.detail.clone()).await
        }
        HostCommand::Forget { name, reason, confirm } => {
            let agent = AgentId::Ho(name.clone());
            stop::known(&context.client().await?, &agent).await?;
            confirm.to(&format!("forget {name} and its labels"))?;
            let op = Op::AgentRetire { agent, reason };
            project::ask(context, &op, |_| format!("{name} is forgotten")).await
        }
    }
}

async fn serve(context: &Context, args: HostArgs) -> CliResult {
    let section = &context.config.host;
    let name = host_name(args.name.as_ref().or(section.name.as_ref()))?;
    let mut labels = section.labels.clone();
    for label in &args.labels {
        let (key, value) = label.split_once('=').ok_or_else(|| {
            CliError::new(Code::Usage, format!("label {label:?} is not <key>=<value>"))
        })?;
        labels.push((key.to_owned(), value.to_owned()));
    }
    let instance = instance(context, &name)?;
    let life = new_ulid();
    let mark = HostLife::new(&name, &instance.id, life);
    let cleared = clear_earlier_lives(&mark).await;
    if cleared.killed > 0 {
        tracing::warn!(killed = cleared.killed, "ended processes of an earlier life of this host");
    }
    check_freezing(&context.config.settings, freeze_time(&mark))?;
    let guard = guard(context, &mark).await?;
    let runner = runner_config(context, &name, mark)?;
    let bus = context.connect(&CredentialHolder::Host(name.clone()), &format!("HO@{name}")).await?;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let default = CAPACITY_PER_CORE.saturating_mul(u32::try_from(cores).unwrap_or(u32::MAX));
    let config = HostConfig {
        instance: instance.id.clone(),
        life,
        labels,
        capacity: args.capacity.or(section.capacity).unwrap_or(default),
        address: address(),
        window: context.config.liveness.window,
        stop_within: context.config.policy.deadlines.stop,
        artifact_max: context.config.runs.artifact_max,
        name: name.clone(),
    };
    let stop = host_stop(args.with_parent)?;
    let (tell, ready) = watch::channel(false);
    announce(ready);
    let (orders, ordered) = mpsc::channel(CHANNEL);
    let (tell_observed, observed) = mpsc::channel(CHANNEL);
    let (beats, kept) = mpsc::channel(BEATS);
    let guarding = tokio::spawn(keep_guard(guard, kept));
    let (renewed, renewals) = watch::channel(None);
    let beating = tokio::spawn(beat(renewals, context.config.liveness.window, beats.clone()));
    let runner = tokio::spawn(tetrarch_runner::serve(runner, ordered, tell_observed));
    let outcome = serve_host(bus, config, orders, observed, stop, tell, renewed).await;
    // Every sender of orders is gone now: the runner ends what still runs, then itself.
    let ended = runner.await;
    if let Err(error) = &ended {
        tracing::error!(%error, "the runner died");
    }
    beating.abort();
    if ended.is_err() || outcome.is_err() {
        // What the runner could not end may not outlive the lease, nor the guard.
        let (done, killed) = oneshot::channel();
        if beats.send(LeaseUpdate::Kill(done)).await.is_ok() {
            let _unanswered = killed.await;
        }
    }
    if beats.send(LeaseUpdate::End).await.is_err() {
        tracing::error!("the task that keeps the guard ended");
    }
    if let Err(error) = guarding.await {
        tracing::error!(%error, "keeping the guard failed");
    }
    Ok(outcome?)
}

/// Moves the moment at which the guard freezes everything: two windows after the last acknowledged
/// renewal was sent (spec 04, Hosts).
async fn beat(
    mut renewals: watch::Receiver<Option<Instant>>,
    window: Duration,
    beats: mpsc::Sender<LeaseUpdate>,
) {
    while renewals.changed().await.is_ok() {
        let sent = *renewals.borrow_and_update();
        if let Some(sent) = sent
            && beats.send(LeaseUpdate::Until(sent + FREEZE_WINDOWS * window)).await.is_err()
        {
            return;
        }
    }
}

/// The name of this host: the one that is given, else the machine's own.
///
/// # Errors
/// It is no name.
pub(crate) fn host_name(given: Option<&String>) -> CliResult<HostName> {
    let machine = || rustix::system::uname().nodename().to_string_lossy().into_owned();
    let name = match given {
        Some(name) => HostName::new(name),
        None => HostName::from_machine(&machine()),
    };
    name.map_err(|error| {
        CliError::new(Code::Usage, error.to_string()).hint("name the host with --name")
    })
}

fn instance(context: &Context, name: &HostName) -> CliResult<Instance> {
    let data_dir = &context.config.bus.data_dir;
    Instance::kept(data_dir, &format!("host-{name}"))?.ok_or_else(|| {
        let dir = data_dir.display();
        CliError::new(Code::Conflict, format!("another process runs HO@{name} with {dir}"))
            .hint("use another --name, or stop the other process")
    })
}

/// Starts the guard: without one nothing would run here.
async fn guard(context: &Context, life: &HostLife) -> CliResult<GuardProcess> {
    let config = GuardConfig {
        program: std::env::current_exe()?,
        args: vec!["guard".into()],
        life: life.clone(),
        freeze_max: context.config.host.freeze_max,
        processes_max: context.config.host.containment.processes_max,
        cgroup_parent: None,
    };
    let failed = |error| {
        CliError::new(Code::Failed, format!("cannot start the guard of this host: {error}"))
            .hint("check the host's limits for processes and memory")
    };
    GuardProcess::start(config).await.map_err(failed)
}

/// Where a host keeps the worktrees of its runs.
pub(crate) fn worktrees_dir(context: &Context, name: &HostName) -> PathBuf {
    context.config.bus.data_dir.join("worktrees").join(name.as_str())
}

fn runner_config(context: &Context, name: &HostName, life: HostLife) -> CliResult<RunnerConfig> {
    let default = || context.config.bus.data_dir.join("work").join(name.as_str());
    let workspace_dir: PathBuf = context.config.host.workspace_dir.clone().unwrap_or_else(default);
    Ok(RunnerConfig {
        life,
        workspace_dir,
        output_limit: context.config.runs.output_limit,
        turn_timeout: context.config.runs.turn_timeout,
        artifact_max: context.config.runs.artifact_max,
        cgroup_parent: None,
        containment: Containment {
            launcher: Launcher { argv: vec![std::env::current_exe()?.into(), LAUNCH.into()] },
            ..context.config.host.containment.clone()
        },
        worktrees_dir: worktrees_dir(context, name),
        worktrees_max: context.config.host.worktrees_max,
        prices: prices(&context.config)?,
    })
}

/// What models cost, as the file of `[prices]` has it.
pub(super) fn prices(config: &Config) -> CliResult<Prices> {
    let Some(file) = config.prices.as_deref() else { return Ok(Prices::default()) };
    let read = Prices::read(&read_document(file)?.value);
    read.map_err(|why| CliError::new(Code::Usage, format!("prices.file {}: {why}", file.display())))
}
