//! Every key there is, with its kind and its default (spec 12). The one list: files, variables,
//! `config explain` and the defaults read it.

use super::value::ValueKind;
use super::value::ValueKind::{
    BusUrls, CollectorUrl, Filter, Flag, Growth, Host, KeyFrom, Labels, Listen, Loopback, Names,
    OneOf, Path, Paths, Seconds, Share, Size, Span, Text, Whole, Word,
};

/// What holds when nobody says anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyDefault {
    /// This, as one would write it in a variable.
    Is(&'static str),
    /// It follows from other values or from the machine; in words.
    Follows(&'static str),
}

use self::KeyDefault::{Follows, Is};

/// One key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ConfigKey {
    /// Its dotted name.
    pub(crate) name: &'static str,
    /// What it takes.
    pub(crate) kind: ValueKind,
    /// What holds when nobody says anything.
    pub(crate) default: KeyDefault,
}

/// What the names of keys begin with that the owner takes over at `config reload`; all others need a restart.
const LIVE: [&str; 15] = [
    "limits.max_children",
    "limits.run_",
    "limits.max_restarts",
    "limits.restart_window",
    "overseer.idle_after",
    "overseer.max_retries",
    "overseer.min_resend_interval",
    "overseer.backoff",
    "overseer.allow_",
    "overseer.plan_appliers",
    "overseer.propose",
    "deadlines.",
    "people.approval",
    "people.approvers",
    "prices.file",
];

impl ConfigKey {
    /// Whether a running owner takes a new value over.
    pub(crate) fn is_live(&self) -> bool {
        LIVE.iter().any(|live| self.name.starts_with(live))
    }
}

const fn key(name: &'static str, kind: ValueKind, default: KeyDefault) -> ConfigKey {
    ConfigKey { name, kind, default }
}

/// No upper bound of a length of time.
const ANY: u64 = u64::MAX;
const SECOND: u64 = 1000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const NAMED: u64 = u32::MAX as u64;
const TIB: u64 = 1 << 40;
/// People that a change can need; the record keeps each one's approval.
pub(super) const APPROVALS_MAX: u64 = 10;
const MODES: &[&str] = &["solo", "tight", "orchestrator"];
/// From 50 ms, below which freezing would not fit between the second and the third window,
/// to a minute (spec 04).
const WINDOW: ValueKind = Span(50, MINUTE);

/// Every key, in the order of the page.
pub(crate) const KEYS: &[ConfigKey] = &[
    key("bus.url", BusUrls, Follows("this installation's own bus")),
    key("bus.managed", Flag, Is("true")),
    key("bus.data_dir", Path, Follows("$XDG_DATA_HOME/tetrarch")),
    key("bus.port", Whole(0, 65_535), Is("0")),
    key("bus.durability", Word(&["process", "power"]), Is("power")),
    key("bus.replicas", OneOf(&[1, 3, 5]), Is("1")),
    key("bus.api_prefix", Text, Follows("the account's own API")),
    key("bus.credentials", Path, Follows("made by this installation")),
    key("bus.operator_key", Path, Follows("<data_dir>/keys/operator.nk")),
    key("bus.tls_ca", Path, Follows("this installation's own, else those this machine knows")),
    key("bus.tls_cert", Path, Follows("none")),
    key("bus.tls_key", Path, Follows("none")),
    key("liveness.window", WINDOW, Is("5s")),
    key("liveness.register_deadline", Span(50, HOUR), Follows("6 windows")),
    key("liveness.mass_silence", Share, Is("0.3")),
    key("liveness.replacements_per_second", Whole(1, NAMED), Is("50")),
    key("limits.max_depth", Whole(1, 3), Is("3")),
    key("limits.max_children", Whole(1, 3), Is("3")),
    key("limits.run_wall", Span(SECOND, 365 * 24 * HOUR), Is("24h")),
    key("limits.run_turns", Whole(1, 1_000_000_000), Is("1000")),
    key("limits.run_tokens", Whole(1, 1_000_000_000_000), Is("50000000")),
    key("limits.requests_per_second", Whole(1, 1_000_000), Is("1000")),
    key("limits.mode", Word(MODES), Is("orchestrator")),
    key("limits.max_restarts", Whole(0, 1000), Is("3")),
    key("limits.restart_window", Span(SECOND, 24 * HOUR), Is("60s")),
    key("overseer.enabled", Flag, Is("true")),
    key("overseer.tick_every", Span(SECOND, ANY), Is("2m")),
    key("overseer.idle_after", Span(SECOND, ANY), Is("15m")),
    key("overseer.max_retries", Whole(0, 100), Is("2")),
    key("overseer.min_resend_interval", Span(SECOND, ANY), Is("5m")),
    key("overseer.backoff", Growth, Is("base=2m,max=30m")),
    key("overseer.allow_agents", Names, Is("")),
    key("overseer.allow_cross_agent", Flag, Is("false")),
    key("overseer.plan_appliers", Names, Is("")),
    key("overseer.propose", Flag, Is("false")),
    key("planner.enabled", Flag, Is("false")),
    key("planner.provider", Text, Follows("none")),
    key("planner.model", Text, Follows("none")),
    key("planner.base_url", Text, Follows("the provider's own")),
    key("planner.key_from", KeyFrom, Follows("none")),
    key("planner.max_phases", Whole(1, 5), Is("5")),
    key("planner.max_tasks_per_phase", Whole(1, 7), Is("7")),
    key("planner.max_subtasks_per_task", Whole(1, 7), Is("7")),
    key("planner.max_repair_attempts", Whole(0, 10), Is("2")),
    key("planner.timeout", Span(SECOND, HOUR), Is("2m")),
    key("planner.max_tokens", Whole(256, 1_000_000), Is("8192")),
    key("host.name", Host, Follows("the machine's own")),
    key("host.labels", Labels, Is("")),
    key("host.capacity", Whole(1, NAMED), Follows("4 for each core")),
    key("host.workspace_dir", Path, Follows("<data_dir>/work/<host>")),
    key("host.isolation", Word(&["required", "best"]), Is("best")),
    key("host.writable", Paths, Is("")),
    key("host.freeze_max", Span(SECOND, ANY), Is("10m")),
    key("host.worktrees_max", Whole(1, NAMED), Is("100")),
    key("runs.drain", Span(0, HOUR), Is("30s")),
    key("runs.kill_grace", Span(0, HOUR), Is("5s")),
    key("runs.turn_timeout", Span(SECOND, ANY), Follows("none; 10m for the llm runner")),
    key("runs.output_limit", Size(64 * 1024, TIB), Is("16MiB")),
    key("runs.artifact_max", Size(1024, TIB), Is("64MiB")),
    key("runs.network", Flag, Is("false")),
    key("runs.memory_max", Size(1024 * 1024, TIB), Follows("no limit")),
    key("runs.processes_max", Whole(1, NAMED), Is("4096")),
    key("runs.cpus_max", Whole(1, NAMED), Follows("no limit")),
    key("deadlines.spawning", Span(SECOND, ANY), Is("60s")),
    key("deadlines.awaiting_input", Span(SECOND, ANY), Is("24h")),
    key("deadlines.blocked", Span(SECOND, ANY), Is("1h")),
    key("deadlines.compacting", Span(SECOND, ANY), Is("10m")),
    key("retention.ledger", Span(HOUR, ANY), Is("30d")),
    key("retention.mail", Span(HOUR, ANY), Is("7d")),
    key("retention.runs", Span(HOUR, ANY), Is("30d")),
    key("retention.plans", Span(HOUR, ANY), Is("90d")),
    key("retention.go_ttl", Seconds(1, 3600), Follows("3s with one replica, else 15s")),
    key("telemetry.otlp_endpoint", CollectorUrl, Follows("nothing is exported")),
    key("telemetry.otlp_ca", Path, Follows("the authorities this machine knows")),
    key("telemetry.otlp_protocol", Word(&["http/protobuf", "grpc"]), Is("http/protobuf")),
    key("telemetry.prometheus_listen", Listen, Follows("not served")),
    key("telemetry.log", Filter, Follows("info for up, serve and host, else warn")),
    key("telemetry.content", Flag, Is("false")),
    key("people.page_listen", Loopback, Is("127.0.0.1:7878")),
    key("people.channels", Labels, Is("")),
    key("people.notify", Names, Is("question,blocked,change,draft,turn,goal,alert")),
    key("people.channel_key", KeyFrom, Follows("webhooks are not signed")),
    key("people.approvals", Whole(1, APPROVALS_MAX), Is("1")),
    key("people.approvals_of", Labels, Is("")),
    key("people.approvers", Names, Follows("every human")),
    key("people.approval_ttl", Span(SECOND, ANY), Is("24h")),
    key("prices.file", Path, Follows("none")),
];

impl ConfigKey {
    /// The key of a name.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        KEYS.iter().find(|key| key.name == name)
    }

    /// The environment variable that sets it.
    pub(crate) fn variable(&self) -> String {
        format!("TETRARCH_{}", self.name.replace('.', "_").to_uppercase())
    }
}

/// What may stand directly below a dotted name, in order; below nothing: the sections.
pub(crate) fn below(prefix: &str) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = KEYS
        .iter()
        .filter_map(|key| {
            let rest = match prefix {
                "" => key.name,
                _ => key.name.strip_prefix(prefix)?.strip_prefix('.')?,
            };
            rest.split('.').next()
        })
        .collect();
    names.dedup();
    names
}
