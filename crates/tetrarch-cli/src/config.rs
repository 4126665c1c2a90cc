//! Configuration: plain values with their defaults (spec 12). Reading and judging them is in
//! the modules below; nothing here is decided by the values.

mod keys;
mod laws;
mod planner;
mod settings;
mod source;
#[cfg(test)]
mod tests;
mod value;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tetrarch_bus::client::Identity;
use tetrarch_bus::server::Durability;
use tetrarch_bus::topology::Ages;
use tetrarch_core::agent::Mode;
use tetrarch_core::change::Approvals;
use tetrarch_core::id::{HumanName, ProjectName};
use tetrarch_core::intensity::Intensity;
use tetrarch_core::order::StopWithin;
use tetrarch_core::overseer::Patience;
use tetrarch_core::overseer::reach::Reach;
use tetrarch_core::owner::{Deadlines, Policy};
use tetrarch_core::snapshot::Retention;
use tetrarch_core::sweep::MassPolicy;
use tetrarch_core::time::Millis;
use tetrarch_runner::{Containment, Launcher};

use crate::CliResult;
use crate::options::GlobalArgs;
use crate::output::say;

pub(crate) use keys::KeyDefault;
pub(crate) use laws::check_freezing;
pub(crate) use planner::PlannerSection;
use settings::fitted;
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
        Ok(Self::of(Settings::read(&ConfigSources::standard(global), global)?))
    }

    fn of(settings: Settings) -> Self {
        let bus = bus(&settings);
        Self {
            liveness: liveness(&settings),
            policy: policy(&settings),
            mode: Mode::parse_or_solo(&settings.text("limits.mode").unwrap_or_default()),
            tick_every: settings
                .flag("overseer.enabled")
                .then(|| settings.span("overseer.tick_every")),
            host: HostSection {
                name: settings.text("host.name"),
                labels: settings.labels("host.labels"),
                capacity: settings.number("host.capacity").map(|number| fitted(number, u32::MAX)),
                workspace_dir: settings.path("host.workspace_dir"),
                containment: containment(&settings, &bus),
                freeze_max: settings.span("host.freeze_max"),
                worktrees_max: fitted(settings.whole("host.worktrees_max"), usize::MAX),
            },
            prices: settings.path("prices.file"),
            runs: RunsConfig {
                output_limit: settings.whole("runs.output_limit"),
                turn_timeout: settings.given_millis("runs.turn_timeout"),
                artifact_max: settings.whole("runs.artifact_max"),
            },
            planner: PlannerSection::of(&settings),
            retention: RetentionConfig {
                go_ttl_secs: fitted(settings.span("retention.go_ttl").as_secs(), u32::MAX),
                ledger: Retention {
                    ledger: settings.millis("retention.ledger"),
                    ..Retention::default()
                },
                ages: Ages {
                    mail: settings.span("retention.mail"),
                    runs: settings.span("retention.runs"),
                    plans: settings.span("retention.plans"),
                },
            },
            // `off` is no address.
            page_listen: settings.text("people.page_listen").and_then(|text| text.parse().ok()),
            telemetry: TelemetryConfig {
                otlp_endpoint: settings.text("telemetry.otlp_endpoint"),
                prometheus_listen: settings.text("telemetry.prometheus_listen"),
                log: settings.text("telemetry.log"),
                content: settings.flag("telemetry.content"),
            },
            bus,
            settings,
        }
    }
}

fn containment(settings: &Settings, bus: &BusConfig) -> Containment {
    let keys = [&bus.credentials, &bus.operator_key].into_iter().flatten().cloned();
    let hidden = [bus.data_dir.clone()].into_iter().chain(keys).chain(settings.path("bus.tls_key"));
    Containment {
        required: settings.text("host.isolation").as_deref() == Some("required"),
        network: settings.flag("runs.network"),
        writable: settings.names("host.writable").into_iter().map(PathBuf::from).collect(),
        hidden: hidden.collect(),
        memory_max: settings.number("runs.memory_max"),
        processes_max: settings.number("runs.processes_max"),
        cpus_max: settings.number("runs.cpus_max"),
        launcher: Launcher::default(),
    }
}

fn liveness(settings: &Settings) -> LivenessConfig {
    LivenessConfig {
        window: settings.span("liveness.window"),
        register_deadline: settings.span("liveness.register_deadline"),
        mass: MassPolicy {
            share: settings.thousandths("liveness.mass_silence"),
            per_second: fitted(settings.whole("liveness.replacements_per_second"), u32::MAX),
        },
    }
}

fn deadlines(settings: &Settings) -> Deadlines {
    Deadlines {
        spawning: settings.millis("deadlines.spawning"),
        awaiting_input: settings.millis("deadlines.awaiting_input"),
        blocked: settings.millis("deadlines.blocked"),
        compacting: settings.millis("deadlines.compacting"),
        stop: StopWithin {
            drain: settings.millis("runs.drain"),
            kill_grace: settings.millis("runs.kill_grace"),
        },
    }
}

fn policy(settings: &Settings) -> Policy {
    // That each is one is among the laws.
    let appliers = settings.names("overseer.plan_appliers");
    Policy {
        max_depth: fitted(settings.whole("limits.max_depth"), u8::MAX),
        max_children: fitted(settings.whole("limits.max_children"), usize::MAX),
        requests_per_second: settings.whole("limits.requests_per_second"),
        intensity: Intensity {
            max: fitted(settings.whole("limits.max_restarts"), u32::MAX),
            window: settings.millis("limits.restart_window"),
        },
        deadlines: deadlines(settings),
        window: settings.millis("liveness.window"),
        overseer: Patience {
            idle_after: settings.millis("overseer.idle_after"),
            max_retries: fitted(settings.whole("overseer.max_retries"), u32::MAX),
            min_resend_interval: settings.millis("overseer.min_resend_interval"),
            backoff: settings.backoff("overseer.backoff"),
        },
        proposes: settings.flag("overseer.propose"),
        reach: reach(settings),
        plan_appliers: appliers.iter().filter_map(|name| name.parse().ok()).collect(),
        approval_ttl: settings.millis("people.approval_ttl"),
        approvals: approvals(settings),
        ..Policy::default()
    }
}

fn reach(settings: &Settings) -> Reach {
    let names = settings.names("overseer.allow_agents");
    Reach {
        cross_agent: settings.flag("overseer.allow_cross_agent"),
        all: names.iter().any(|name| *name == EVERY_AGENT),
        // That each is one is among the laws.
        agents: names.iter().filter_map(|name| name.parse().ok()).collect(),
    }
}

fn approvals(settings: &Settings) -> Approvals {
    // That each is a project with a number, or a human, is among the laws.
    let of = settings.labels("people.approvals_of");
    let of = of.iter().filter_map(|(project, count)| {
        Some((ProjectName::new(project).ok()?, count.parse().ok()?))
    });
    let approvers = settings.names("people.approvers");
    Approvals {
        needed: fitted(settings.whole("people.approvals"), u32::MAX),
        of: of.collect(),
        approvers: approvers.iter().filter_map(|name| HumanName::new(name).ok()).collect(),
    }
}

fn bus(settings: &Settings) -> BusConfig {
    BusConfig {
        url: settings.text("bus.url"),
        data_dir: settings.path("bus.data_dir").unwrap_or_default(),
        port: fitted(settings.whole("bus.port"), u16::MAX),
        durability: match settings.text("bus.durability").as_deref() {
            Some("process") => Durability::Process,
            Some(_) | None => Durability::Power,
        },
        replicas: fitted(settings.whole("bus.replicas"), usize::MAX),
        api_prefix: settings.text("bus.api_prefix"),
        credentials: settings.path("bus.credentials"),
        tls_ca: settings.path("bus.tls_ca"),
        tls_identity: settings
            .path("bus.tls_cert")
            .zip(settings.path("bus.tls_key"))
            .map(|(cert, key)| Identity { cert, key }),
        operator_key: settings.path("bus.operator_key"),
    }
}
