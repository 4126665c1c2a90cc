//! Configuration: plain values with their defaults (spec 12).

use std::path::PathBuf;
use std::time::Duration;

use crate::args::GlobalArgs;
use crate::exit::CliError;

/// Everything that can be configured and is used.
#[derive(Debug, Clone, Default)]
pub(crate) struct Config {
    /// `[bus]`.
    pub(crate) bus: BusConfig,
    /// `[liveness]`.
    pub(crate) liveness: LivenessConfig,
    /// `[limits]`.
    pub(crate) limits: LimitsConfig,
    /// `[host]`.
    pub(crate) host: HostSection,
    /// `[runs]`.
    pub(crate) runs: RunsConfig,
    /// `[retention]`.
    pub(crate) retention: RetentionConfig,
    /// `[telemetry]`.
    pub(crate) telemetry: TelemetryConfig,
}

/// `[bus]`.
#[derive(Debug, Clone, Default)]
pub(crate) struct BusConfig {
    /// A bus that somebody else runs.
    pub(crate) url: Option<String>,
    /// Where this installation keeps everything.
    pub(crate) data_dir: PathBuf,
    /// The loopback port of the managed server; 0 means any.
    pub(crate) port: u16,
    /// Acknowledged writes survive a power loss.
    pub(crate) power_durable: bool,
    /// Copies of each stream.
    pub(crate) replicas: usize,
    /// The JetStream API's prefix.
    pub(crate) api_prefix: Option<String>,
    /// The credential file to use instead of this installation's.
    pub(crate) credentials: Option<PathBuf>,
}

/// `[liveness]`.
#[derive(Debug, Clone, Default)]
pub(crate) struct LivenessConfig {
    /// The window.
    pub(crate) window: Duration,
}

/// `[limits]`.
#[derive(Debug, Clone, Default)]
pub(crate) struct LimitsConfig {
    /// Depth below GO.
    pub(crate) max_depth: u8,
    /// Sub-agents per parent.
    pub(crate) max_children: usize,
    /// The mode of new projects.
    pub(crate) mode: tetrarch_core::agent::Mode,
}

/// `[host]`.
#[derive(Debug, Clone, Default)]
pub(crate) struct HostSection {
    /// The host's name; the machine's own unless said.
    pub(crate) name: Option<String>,
    /// Its labels.
    pub(crate) labels: Vec<(String, String)>,
    /// Agents it takes; 4 for each core unless said.
    pub(crate) capacity: Option<u32>,
    /// Where runs without a workspace work.
    pub(crate) workspace_dir: Option<PathBuf>,
    /// A missing isolation layer fails the run.
    pub(crate) isolation_required: bool,
}

/// `[runs]`.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunsConfig {
    /// Output of one run that is kept, in bytes.
    pub(crate) output_limit: u64,
    /// Largest artifact, in bytes.
    pub(crate) artifact_max: u64,
}

/// `[retention]`.
#[derive(Debug, Clone, Default)]
pub(crate) struct RetentionConfig {
    /// Time to live of the GO lease, in whole seconds.
    pub(crate) go_ttl_secs: u32,
}

/// `[telemetry]`.
#[derive(Debug, Clone, Default)]
pub(crate) struct TelemetryConfig {
    /// Where spans go.
    pub(crate) otlp_endpoint: Option<String>,
    /// What is logged.
    pub(crate) log: String,
}

impl Config {
    /// The configuration of this process.
    ///
    /// # Errors
    /// A file, a variable or an option is wrong.
    pub(crate) fn load(_global: &GlobalArgs) -> Result<Self, CliError> {
        Ok(Self::default())
    }
}
