//! `tetrarch up`: everything on this machine. Supervises its children - the bus, the owner, the host,
//! the page and the notifier - restarts each with backoff, and stops them in the right order.

mod child;
mod extras;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde_json::json;
use tetrarch_bus::client::ConnectOptions;
use tetrarch_bus::creds::Authority;
use tetrarch_bus::retry::Retry;
use tetrarch_bus::server::{
    Certificate, Clients, DataDirLock, Health, Listen, ManagedServer, REFUSED_FOR, ReaderLock,
    RefusedUsers, ServerConfig, ServerError, guard_pace,
};
use tetrarch_core::share::Pace;
use tetrarch_engine::HostStop;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::sync::watch;

use crate::command::host::host_name;
use crate::config::BusConfig;
use crate::output;
use crate::process::{READY, host_stop};
use crate::{CliError, CliResult, Code, Context};

use child::{STOP_WITHIN, Supervised, end, end_host};
use extras::Extras;

/// How long a child may take to be ready.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// First and longest wait before a child is started again.
const RESTART: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

/// Children that are started where they are configured.
const PAGE: &str = "page";
const NOTIFIER: &str = "notifier";
/// How often it is looked at whether credentials are to be renewed.
const RENEW_EVERY: Duration = Duration::from_secs(3600);

/// Runs the bus, the owner and a host on this machine.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  tetrarch up\n  tetrarch up --data-dir ./fleet --port 4222\n  tetrarch up --listen 0.0.0.0:4222 --tls-name bus.example.org\n\nWithout --listen, the bus accepts only connections from this machine, without TLS. With --listen,\nhosts and agents on other machines need a credential and the file tls/ca.pem of the data\ndirectory; see `tetrarch host credential --help`."
)]
pub(crate) struct UpArgs {
    /// The loopback port of the bus [default: a free port].
    #[arg(long, conflicts_with = "listen")]
    port: Option<u16>,
    /// Access from other machines.
    #[command(flatten)]
    beyond: BeyondArgs,
    /// The host's name [default: the machine's name].
    #[arg(long)]
    name: Option<String>,
    /// How many agents may work at the same time; orchestrators do not count [default: 4 for each core].
    #[arg(long)]
    capacity: Option<u32>,
    /// Stop at the end of standard input.
    #[arg(long, hide = true)]
    with_parent: bool,
}

/// Access to the bus from other machines, always with TLS.
#[derive(Debug, clap::Args)]
struct BeyondArgs {
    /// Accept TLS connections from other machines at this address; 0.0.0.0 is all addresses.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// A name or address for the certificate, by which others reach the bus; repeatable.
    #[arg(long = "tls-name", value_name = "NAME", requires = "listen")]
    tls_names: Vec<String>,
    /// The certificate, a PEM file [default: issued by the CA of the data directory].
    #[arg(long, value_name = "FILE", requires_all = ["listen", "tls_key"])]
    tls_cert: Option<PathBuf>,
    /// The private key of the certificate, a PEM file.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Also require client certificates issued by this CA, a PEM file.
    #[arg(long, value_name = "FILE", requires = "listen")]
    client_ca: Option<PathBuf>,
}

impl BeyondArgs {
    /// Where the bus listens for others; none for loopback alone.
    fn listen(&self, bus: &BusConfig) -> CliResult<Option<Listen>> {
        let Some(address) = self.listen else { return Ok(None) };
        let usage = |what: &str, hint: &str| Err(CliError::new(Code::Usage, what).hint(hint));
        if address.port() == 0 {
            let what = "--listen needs a fixed port; port 0 changes at every start";
            return usage(what, "use a port such as 4222");
        }
        let mut names = self.tls_names.iter().cloned();
        let name = match names.next() {
            Some(name) => name,
            None if address.ip().is_unspecified() => {
                let what = format!("--listen {address} needs a name for the certificate");
                return usage(&what, "add --tls-name with the name or address of this machine");
            }
            None => address.ip().to_string(),
        };
        let certificate = match (&self.tls_cert, &self.tls_key) {
            (Some(cert), Some(key)) => {
                Certificate::Own { cert: cert.clone(), key: key.clone(), ca: bus.tls_ca.clone() }
            }
            _ => Certificate::Made,
        };
        let clients = match (&self.client_ca, &bus.tls_identity) {
            (None, _) => None,
            (Some(ca), Some(own)) => Some(Clients { ca: ca.clone(), identity: own.clone() }),
            (Some(_), None) => {
                let what =
                    "--client-ca requires a certificate for the processes on this machine too";
                return usage(what, "name one issued by that CA with bus.tls_cert and bus.tls_key");
            }
        };
        Ok(Some(Listen { address, name, more_names: names.collect(), certificate, clients }))
    }
}

/// Runs the command.
///
/// # Errors
/// The data directory is in use, the port is taken, a child does not become ready.
pub(crate) async fn run(context: &Context, args: UpArgs) -> CliResult {
    let started = std::time::Instant::now();
    let data_dir = context.config.bus.data_dir.clone();
    if let Some(url) = &context.config.bus.url {
        let what = format!("a bus is configured ({url}), so `up` does not start one");
        return Err(CliError::new(Code::Usage, what)
            .hint("run `tetrarch serve --global` and `tetrarch host` against it"));
    }
    // The owner would say so too, each time it is started again.
    context.config.planner.prepared()?;
    host_name(args.name.as_ref())?;
    let stop = host_stop(args.with_parent)?;
    // A question that is being answered meanwhile has the bus for a moment.
    let turn = ReaderLock::wait(&data_dir, STOP_WITHIN).await?;
    let _lock = DataDirLock::acquire(&data_dir).map_err(taken)?;
    drop(turn);
    let listen = args.beyond.listen(&context.config.bus)?;
    let server = ServerConfig {
        listen,
        port: args.port.unwrap_or(context.config.bus.port),
        durability: context.config.bus.durability,
        ..ServerConfig::new(&data_dir)
    };
    let bus = ManagedServer::start(&server, &context.authority()?).await?;
    let mut fleet = FleetStart { launcher: FleetLauncher { context, args: &args }, server, bus };
    let outcome = fleet.supervise(stop, started).await;
    fleet.bus.stop().await?;
    outcome
}

/// Why the data directory cannot be had.
fn taken(error: ServerError) -> CliError {
    let ServerError::InUse { path, pid } = error else { return error.into() };
    let what = format!("a fleet already runs in {} (process {pid})", path.display());
    CliError::new(Code::Conflict, what).hint(
        "`tetrarch status` shows it and `tetrarch down` stops it; a second one takes another --data-dir and --port",
    )
}

struct FleetStart<'a> {
    launcher: FleetLauncher<'a>,
    server: ServerConfig,
    bus: ManagedServer,
}

/// Starts owners and hosts.
#[derive(Clone, Copy)]
struct FleetLauncher<'a> {
    context: &'a Context,
    args: &'a UpArgs,
}

impl FleetStart<'_> {
    async fn supervise(
        &mut self,
        mut stop: watch::Receiver<HostStop>,
        started: std::time::Instant,
    ) -> CliResult {
        let mut owner = tokio::select! {
            owner = self.launcher.start("owner") => owner?,
            _ = stop.wait_for(|stop| *stop != HostStop::No) => return Ok(()),
        };
        let launcher = self.launcher;
        let mut extras = Extras::default();
        let both = async {
            let (host, started) = tokio::join!(launcher.start("host"), Extras::start(launcher));
            extras = started;
            host
        };
        let mut host = tokio::select! {
            host = both => host,
            _ = stop.wait_for(|stop| *stop != HostStop::No) => return end(owner).await,
            // The others may end while it comes up.
            failed = keep_bus(launcher.context, &self.server, &mut self.bus) => {
                end(owner).await?;
                return failed;
            }
            () = launcher.keep(&mut owner) => return end(owner).await,
        };
        if host.is_ok() {
            self.say_ready(started, &extras);
        }
        let outcome = match &mut host {
            Ok(host) => self.watch(&mut owner, host, &mut extras, &mut stop).await,
            Err(_) => Ok(()),
        };
        extras.end().await?;
        match host {
            // Without a bus nothing can be kept.
            Ok(host) if outcome.is_err() => end(host).await?,
            Ok(host) => {
                let within = launcher.context.config.policy.deadlines.stop;
                end_host(host, within, &mut stop).await?;
            }
            Err(error) => {
                end(owner).await?;
                return Err(error);
            }
        }
        end(owner).await?;
        outcome
    }

    /// Keeps all up, each by itself: while one comes up again another may end.
    async fn watch(
        &mut self,
        owner: &mut Supervised,
        host: &mut Supervised,
        extras: &mut Extras,
        stop: &mut watch::Receiver<HostStop>,
    ) -> CliResult {
        let launcher = self.launcher;
        tokio::select! {
            _ = stop.wait_for(|stop| *stop != HostStop::No) => Ok(()),
            failed = keep_bus(launcher.context, &self.server, &mut self.bus) => failed,
            () = launcher.keep(owner) => Ok(()),
            () = launcher.keep(host) => Ok(()),
            () = extras.keep(launcher) => Ok(()),
            () = renew(launcher.context) => Ok(()),
        }
    }

    fn say_ready(&self, started: std::time::Instant, extras: &Extras) {
        let (url, dir) = (self.bus.url(), self.server.data_dir.display());
        let took = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let line = format!("{READY}: bus {url}, data {dir}, {took} ms");
        let durability = self.server.durability;
        let page = extras.page();
        let told = json!({
            "event": READY, "durability": durability.as_str(), "bus": url, "tlsCa": self.bus.tls_ca(), "dataDir": self.server.data_dir, "milliseconds": took, "page": page,
        });
        // Whoever started it and does not wait for this line goes without it.
        let context = self.launcher.context;
        let line = match (&self.server.listen, self.bus.tls_ca()) {
            (Some(_), Some(ca)) => format!("{line}\n  others need: {} as --tls-ca", ca.display()),
            (_, _) => line,
        };
        let line = match durability.loses() {
            Some(loses) => format!("{line}\n  durability {}: {loses}", durability.as_str()),
            None => line,
        };
        let line = match page {
            Some(page) => format!("{line}\n  page: {page}"),
            None => line,
        };
        let line = match extras.channels() {
            Some(channels) => format!("{line}\n  notifies by: {channels}"),
            None => line,
        };
        let next = [("run a plan", "run PLAN"), ("look at it", "status"), ("stop it", "down")]
            .map(|(what, words)| format!("  {what}: {}", context.command(words)));
        let line = format!("{line}\n{}", next.join("\n"));
        let _unheard = output::item(context.output, &told, &line);
    }
}

/// Has senders cut off that publish too fast, as long as the bus runs.
async fn keep_pace(to: &ConnectOptions, authority: &Authority) {
    let mut retry = Retry::new(RESTART.0, RESTART.1, None);
    let mut refused = RefusedUsers::new();
    while let Err(error) =
        guard_pace(to, authority, Pace::default(), REFUSED_FOR, &mut refused).await
    {
        tracing::debug!(%error, "checking the rate of senders failed; trying again");
        retry.pause().await;
    }
}

/// Renews credentials that stay here long before their time is over; whoever is connected reads them anew when
/// the server asks.
async fn renew(context: &Context) {
    let mut beat = tokio::time::interval(RENEW_EVERY);
    loop {
        beat.tick().await;
        let renewed = context.authority().map(|authority| authority.renew());
        match renewed {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "renewing credentials failed"),
            Err(error) => tracing::error!(%error, "renewing credentials failed"),
        }
    }
}

/// Starts the bus again whenever it ends or stores nothing any more; gives why it cannot be.
async fn keep_bus(context: &Context, server: &ServerConfig, bus: &mut ManagedServer) -> CliResult {
    let authority = context.authority()?;
    let mut retry = Retry::new(RESTART.0, RESTART.1, None);
    loop {
        let mut health = Health::of(bus, &server.data_dir, &authority)?;
        let to = bus.reached();
        let stuck = tokio::select! {
            how = bus.wait() => {
                let how = how.unwrap_or_else(|error| error.to_string());
                tracing::error!(how, "the bus exited; restarting it");
                None
            }
            why = health.until_stuck() => Some(why),
            () = keep_pace(&to, &authority) => None,
        };
        if let Some(why) = stuck {
            tracing::error!(why, "the bus is stuck; restarting it");
            bus.end().await?;
        }
        loop {
            match ManagedServer::start(server, &authority).await {
                Ok(again) => {
                    *bus = again;
                    break;
                }
                Err(error) => tracing::error!(%error, "starting the bus failed"),
            }
            retry.pause().await;
        }
        retry.reset();
    }
}

impl FleetLauncher<'_> {
    /// Starts a child again whenever it ends.
    async fn keep(self, supervised: &mut Supervised) {
        loop {
            let since = std::time::Instant::now();
            // However it ended, it is started again.
            let _ended = supervised.child.wait().await;
            tracing::error!(what = supervised.what, "it exited; restarting it");
            if since.elapsed() > RESTART.1 {
                supervised.retry.reset();
            }
            loop {
                supervised.retry.pause().await;
                match self.start(supervised.what).await {
                    Ok(again) => {
                        supervised.child = again.child;
                        supervised.input = again.input;
                        break;
                    }
                    Err(error) => {
                        tracing::error!(what = supervised.what, %error, "starting it failed");
                    }
                }
            }
        }
    }

    /// Starts a child and waits until it says that it is ready.
    async fn start(&self, what: &'static str) -> CliResult<Supervised> {
        let program = std::env::current_exe()?;
        let mut command = Command::new(program);
        command.args(self.global_args());
        match what {
            "owner" => command.args(["serve", "--global", "--with-parent"]),
            PAGE => command.args(["page", "--with-parent"]),
            NOTIFIER => command.args(["notify", "--with-parent"]),
            _ => command.args(["host", "--with-parent"]).args(self.host_args()),
        };
        // A terminal's Ctrl-C is for this process: it stops its children in order.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let (input, out) = (child.stdin.take(), child.stdout.take());
        let ready = async {
            let (mut lines, mut said) = (BufReader::new(out.ok_or(None)?).lines(), Vec::new());
            while let Ok(Some(line)) = lines.next_line().await {
                if line == READY {
                    return Ok((lines, said));
                }
                said.push(line);
            }
            Err(said.pop())
        };
        match tokio::time::timeout(READY_WITHIN, ready).await {
            Ok(Ok((_, said))) => {
                let retry = Retry::new(RESTART.0, RESTART.1, None);
                Ok(Supervised { what, child, input, retry, said })
            }
            Ok(Err(why)) => {
                let status = child.wait().await?;
                let why = why.unwrap_or_else(|| status.to_string());
                let what = format!("the {what} exited before it was ready: {why}");
                Err(CliError::new(Code::Failed, what))
            }
            Err(_) => {
                let what = format!("the {what} was not ready within {} s", READY_WITHIN.as_secs());
                Err(CliError::new(Code::Failed, what))
            }
        }
    }

    fn global_args(&self) -> Vec<std::ffi::OsString> {
        let global = &self.context.global;
        let mut args: Vec<std::ffi::OsString> =
            vec!["--data-dir".into(), self.context.config.bus.data_dir.clone().into()];
        if let Some(config) = &global.config {
            args.extend(["--config".into(), config.into()]);
        }
        if let Some(log) = &global.log {
            args.extend(["--log".into(), log.into()]);
        }
        if let Some(human) = &global.human {
            args.extend(["--as".into(), human.into()]);
        }
        args
    }

    fn host_args(&self) -> Vec<String> {
        let mut args = Vec::new();
        if let Some(name) = &self.args.name {
            args.extend(["--name".to_owned(), name.clone()]);
        }
        if let Some(capacity) = self.args.capacity {
            args.extend(["--capacity".to_owned(), capacity.to_string()]);
        }
        args
    }
}
