//! Configuration: plain values with their defaults (spec 12). Reading and judging them is in
//! the modules below; nothing here is decided by the values.

mod channels;
mod keys;
mod laws;
mod planner;
mod settings;
mod source;
#[cfg(test)]
mod tests;
mod value;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tetrarch_bus::client::Identity;
use tetrarch_bus::server::Durability;
use tetrarch_bus::topology::Ages;
use tetrarch_core::agent::Mode;
use tetrarch_core::budget::Limits;
use tetrarch_core::change::Approvals;
use tetrarch_core::duration;
use tetrarch_core::id::{HumanName, ProjectName};
use tetrarch_core::intensity::Intensity;
use tetrarch_core::order::StopWithin;
use tetrarch_core::overseer::Patience;
use tetrarch_core::overseer::reach::Reach;
use tetrarch_core::owner::{Deadlines, Policy, RunDefaults};
use tetrarch_core::size;
use tetrarch_core::snapshot::Retention;
use tetrarch_core::sweep::MassPolicy;
use tetrarch_core::time::Millis;
use tetrarch_runner::{Containment, Launcher};

use crate::options::GlobalArgs;
use crate::output::say;
use crate::{CliError, CliResult};

pub(crate) use channels::{ChannelAddress, ChannelsSection};
pub(crate) use keys::KeyDefault;
pub(crate) use laws::check_freezing;
pub(crate) use planner::PlannerSection;
pub(crate) use settings::{Setting, Settings};

use laws::EVERY_AGENT;
use settings::ConfigSources;

/// What a configuration is called in a directory.
const DIRECTORY_FILE: &str = "tetrarch.toml";

/// Says that a configuration in the current directory is not read, unless another was named.
pub(crate) fn warn_of_directory_file(global: &GlobalArgs) {
    if global.config.is_none() && Path::new(DIRECTORY_FILE).exists() {
        say(&format!(
            "warning: ./{DIRECTORY_FILE} is not read, as others may have written it; \
             name it with `--config {DIRECTORY_FILE}`"
        ));
    }
}

/// Everything that can be configured and is used.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    /// `[bus]`.
    pub(crate) bus: BusConfig,
    /// `[liveness]`.
    pub(crate) liveness: LivenessConfig,
    /// What the owner decides by, but for prices and what is known while it runs: `[limits]`, `[deadlines]`,
    /// `[overseer]`, `[people]`, and what `[runs]` says of stops.
    pub(crate) policy: Policy,
    /// The mode of new projects.
    pub(crate) mode: Mode,
    /// How often the overseer looks; none when it is off.
    pub(crate) tick_every: Option<Duration>,
    /// `[host]`.
    pub(crate) host: HostSection,
    /// `[runs]`.
    pub(crate) runs: RunsConfig,
    /// `[prices]`: the file with what models cost.
    pub(crate) prices: Option<PathBuf>,
    /// `[planner]`.
    pub(crate) planner: PlannerSection,
    /// Where the page is served; none where it is not.
    pub(crate) page_listen: Option<SocketAddr>,
    /// How people are told.
    pub(crate) channels: ChannelsSection,
    /// `[retention]`.
    pub(crate) retention: RetentionConfig,
    /// `[telemetry]`.
    pub(crate) telemetry: TelemetryConfig,
    /// Every key, with where its value comes from.
    pub(crate) settings: Settings,
}

/// `[bus]`.
#[derive(Debug, Clone)]
pub(crate) struct BusConfig {
    /// A bus that somebody else runs.
    pub(crate) url: Option<String>,
    /// Where this installation keeps everything.
    pub(crate) data_dir: PathBuf,
    /// The loopback port of the managed server; 0 means any.
    pub(crate) port: u16,
    /// What an acknowledged write survives.
    pub(crate) durability: Durability,
    /// Copies of each stream.
    pub(crate) replicas: usize,
    /// The JetStream API's prefix.
    pub(crate) api_prefix: Option<String>,
    /// The credential file to use instead of this installation's.
    pub(crate) credentials: Option<PathBuf>,
    /// The file of the authority that made the bus's certificate.
    pub(crate) tls_ca: Option<PathBuf>,
    /// What this machine proves itself with to a bus that asks for a certificate.
    pub(crate) tls_identity: Option<Identity>,
    /// Where the operator's key is kept, when not with the others.
    pub(crate) operator_key: Option<PathBuf>,
}

/// `[liveness]`.
#[derive(Debug, Clone)]
pub(crate) struct LivenessConfig {
    /// The window.
    pub(crate) window: Duration,
    /// How long a session's first sign may take.
    pub(crate) register_deadline: Duration,
    /// When silence is a mass failure.
    pub(crate) mass: MassPolicy,
}

/// `[host]`.
#[derive(Debug, Clone)]
pub(crate) struct HostSection {
    /// The host's name; the machine's own unless said.
    pub(crate) name: Option<String>,
    /// Its labels.
    pub(crate) labels: Vec<(String, String)>,
    /// Agents it takes; 4 for each core unless said.
    pub(crate) capacity: Option<u32>,
    /// Where runs without a workspace work.
    pub(crate) workspace_dir: Option<PathBuf>,
    /// What its programs are kept to.
    pub(crate) containment: Containment,
    /// How long programs may be frozen before they are killed.
    pub(crate) freeze_max: Duration,
    /// Worktrees that it keeps.
    pub(crate) worktrees_max: usize,
}

/// `[runs]`.
#[derive(Debug, Clone)]
pub(crate) struct RunsConfig {
    /// Output of one run that is kept, in bytes.
    pub(crate) output_limit: u64,
    /// Longest turn of a run whose brief names none; unbounded unless said.
    pub(crate) turn_timeout: Option<Millis>,
    /// Bytes of one artifact.
    pub(crate) artifact_max: u64,
}

/// `[retention]`.
#[derive(Debug, Clone)]
pub(crate) struct RetentionConfig {
    /// Time to live of the GO lease, in whole seconds.
    pub(crate) go_ttl_secs: u32,
    /// How long the ledger is kept.
    pub(crate) ledger: Retention,
    /// How long mail, journals and plan events are.
    pub(crate) ages: Ages,
}

/// `[telemetry]`.
#[derive(Debug, Clone)]
pub(crate) struct TelemetryConfig {
    /// Where spans go.
    pub(crate) otlp_endpoint: Option<String>,
    /// Whose certificate it has, if nobody's whom this machine knows.
    pub(crate) otlp_ca: Option<PathBuf>,
    /// By which protocol.
    pub(crate) otlp_protocol: String,
    /// Where a process that serves can be asked for its metrics.
    pub(crate) prometheus_listen: Option<String>,
    /// What is logged, unless the command's own default holds.
    pub(crate) log: Option<String>,
    /// Whether spans say what was said to models and tools, and by them.
    pub(crate) content: bool,
}

impl Config {
    /// The configuration of this process.
    ///
    /// # Errors
    /// A file, a variable or an option is wrong.
    pub(crate) fn load(global: &GlobalArgs) -> CliResult<Self> {
        Self::of(Settings::read(&ConfigSources::standard(global), global)?)
    }

    fn of(settings: Settings) -> CliResult<Self> {
        let bus = bus(&settings)?;
        let page: Option<String> = settings.get("people.page_listen")?;
        let tick_every = settings.span("overseer.tick_every")?;
        Ok(Self {
            liveness: LivenessConfig {
                window: settings.span("liveness.window")?,
                register_deadline: settings.span("liveness.register_deadline")?,
                mass: MassPolicy {
                    share: thousandths(settings.get("liveness.mass_silence")?),
                    per_second: settings.get("liveness.replacements_per_second")?,
                },
            },
            policy: policy(&settings)?,
            mode: Mode::parse_or_solo(&settings.get::<String>("limits.mode")?),
            tick_every: settings.get::<bool>("overseer.enabled")?.then_some(tick_every),
            host: HostSection {
                name: settings.get("host.name")?,
                labels: settings.get::<BTreeMap<_, _>>("host.labels")?.into_iter().collect(),
                capacity: settings.get("host.capacity")?,
                workspace_dir: settings.path("host.workspace_dir")?,
                containment: containment(&settings, &bus)?,
                freeze_max: settings.span("host.freeze_max")?,
                worktrees_max: settings.get("host.worktrees_max")?,
            },
            prices: settings.path("prices.file")?,
            runs: RunsConfig {
                output_limit: settings.size("runs.output_limit")?,
                turn_timeout: settings.parsed("runs.turn_timeout", duration::parse)?,
                artifact_max: settings.size("runs.artifact_max")?,
            },
            planner: PlannerSection::of(&settings)?,
            channels: ChannelsSection::of(&settings)?,
            retention: retention(&settings)?,
            // `off` is no address.
            page_listen: page.and_then(|text| text.parse().ok()),
            telemetry: TelemetryConfig {
                otlp_endpoint: settings.get("telemetry.otlp_endpoint")?,
                otlp_ca: settings.path("telemetry.otlp_ca")?,
                otlp_protocol: settings.get("telemetry.otlp_protocol")?,
                prometheus_listen: settings.get("telemetry.prometheus_listen")?,
                log: settings.get("telemetry.log")?,
                content: settings.get("telemetry.content")?,
            },
            bus,
            settings,
        })
    }
}

/// A share of one, above 0, in thousandths.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share is above 0 and at most 1"
)]
fn thousandths(share: f64) -> u32 {
    (share * 1e3).round() as u32
}

fn retention(settings: &Settings) -> CliResult<RetentionConfig> {
    let go_ttl = settings.span("retention.go_ttl")?.as_secs();
    Ok(RetentionConfig {
        go_ttl_secs: u32::try_from(go_ttl).unwrap_or(u32::MAX),
        ledger: Retention { ledger: settings.millis("retention.ledger")?, ..Retention::default() },
        ages: Ages {
            mail: settings.span("retention.mail")?,
            runs: settings.span("retention.runs")?,
            plans: settings.span("retention.plans")?,
        },
    })
}

fn containment(settings: &Settings, bus: &BusConfig) -> CliResult<Containment> {
    let keys = [&bus.credentials, &bus.operator_key].into_iter().flatten().cloned();
    let hidden =
        [bus.data_dir.clone()].into_iter().chain(keys).chain(settings.path("bus.tls_key")?);
    Ok(Containment {
        required: settings.get::<String>("host.isolation")? == "required",
        network: settings.get("runs.network")?,
        writable: settings.get("host.writable")?,
        hidden: hidden.collect(),
        memory_max: settings.parsed("runs.memory_max", size::parse)?,
        processes_max: settings.get("runs.processes_max")?,
        cpus_max: settings.get("runs.cpus_max")?,
        launcher: Launcher::default(),
    })
}

fn deadlines(settings: &Settings) -> CliResult<Deadlines> {
    Ok(Deadlines {
        spawning: settings.millis("deadlines.spawning")?,
        awaiting_input: settings.millis("deadlines.awaiting_input")?,
        blocked: settings.millis("deadlines.blocked")?,
        compacting: settings.millis("deadlines.compacting")?,
        stop: StopWithin {
            drain: settings.millis("runs.drain")?,
            kill_grace: settings.millis("runs.kill_grace")?,
        },
    })
}

fn policy(settings: &Settings) -> CliResult<Policy> {
    // That each is one is among the laws.
    let appliers: Vec<String> = settings.get("overseer.plan_appliers")?;
    Ok(Policy {
        max_depth: settings.get("limits.max_depth")?,
        max_children: settings.get("limits.max_children")?,
        run: RunDefaults {
            budget: Limits {
                tokens: Some(settings.get("limits.run_tokens")?),
                turns: Some(settings.get("limits.run_turns")?),
                ..Limits::default()
            },
            wall: Some(settings.millis("limits.run_wall")?),
        },
        requests_per_second: settings.get("limits.requests_per_second")?,
        intensity: Intensity {
            max: settings.get("limits.max_restarts")?,
            window: settings.millis("limits.restart_window")?,
        },
        deadlines: deadlines(settings)?,
        window: settings.millis("liveness.window")?,
        overseer: Patience {
            idle_after: settings.millis("overseer.idle_after")?,
            max_retries: settings.get("overseer.max_retries")?,
            min_resend_interval: settings.millis("overseer.min_resend_interval")?,
            backoff: settings.backoff("overseer.backoff")?,
        },
        proposes: settings.get("overseer.propose")?,
        reach: reach(settings)?,
        plan_appliers: appliers.iter().filter_map(|name| name.parse().ok()).collect(),
        approval_ttl: settings.millis("people.approval_ttl")?,
        approvals: approvals(settings)?,
        ..Policy::default()
    })
}

fn reach(settings: &Settings) -> CliResult<Reach> {
    let names: Vec<String> = settings.get("overseer.allow_agents")?;
    Ok(Reach {
        cross_agent: settings.get("overseer.allow_cross_agent")?,
        all: names.iter().any(|name| *name == EVERY_AGENT),
        // That each is one is among the laws.
        agents: names.iter().filter_map(|name| name.parse().ok()).collect(),
    })
}

fn approvals(settings: &Settings) -> CliResult<Approvals> {
    // That each is a project with a number, or a human, is among the laws.
    let of: BTreeMap<String, String> = settings.get("people.approvals_of")?;
    let of = of.iter().filter_map(|(project, count)| {
        Some((ProjectName::new(project).ok()?, count.parse().ok()?))
    });
    let approvers: Option<Vec<String>> = settings.get("people.approvers")?;
    let approvers = approvers.iter().flatten();
    Ok(Approvals {
        needed: settings.get("people.approvals")?,
        of: of.collect(),
        approvers: approvers.filter_map(|name| HumanName::new(name).ok()).collect(),
    })
}

fn bus(settings: &Settings) -> CliResult<BusConfig> {
    let identity = settings.path("bus.tls_cert")?.zip(settings.path("bus.tls_key")?);
    let process = settings.get::<String>("bus.durability")? == Durability::Process.as_str();
    Ok(BusConfig {
        url: settings.get("bus.url")?,
        data_dir: std::path::absolute(settings.get::<PathBuf>("bus.data_dir")?)
            .map_err(CliError::usage)?,
        port: settings.get("bus.port")?,
        durability: if process { Durability::Process } else { Durability::Power },
        replicas: settings.get("bus.replicas")?,
        api_prefix: settings.get("bus.api_prefix")?,
        credentials: settings.path("bus.credentials")?,
        tls_ca: settings.path("bus.tls_ca")?,
        tls_identity: identity.map(|(cert, key)| Identity { cert, key }),
        operator_key: settings.path("bus.operator_key")?,
    })
}
