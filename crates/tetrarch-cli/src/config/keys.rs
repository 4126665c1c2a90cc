//! Every key there is, with its kind, its default and whether this version acts on it
//! (spec 12). The one list: files, variables, `config explain` and the defaults read it.

use super::value::ValueKind;
use super::value::ValueKind::{
    BusUrls, CollectorUrl, Filter, Flag, Growth, Host, KeyFrom, Labels, Listen, Names, OneOf, Path,
    Paths, Seconds, Share, Size, Span, Text, Whole, Word,
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
    /// Whether this version acts on it.
    pub(crate) used: bool,
}

const fn used(name: &'static str, kind: ValueKind, default: KeyDefault) -> ConfigKey {
    ConfigKey { name, kind, default, used: true }
}

const fn later(name: &'static str, kind: ValueKind, default: KeyDefault) -> ConfigKey {
    ConfigKey { name, kind, default, used: false }
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
    used("bus.url", BusUrls, Follows("this installation's own bus")),
    used("bus.managed", Flag, Is("true")),
    used("bus.data_dir", Path, Follows("$XDG_DATA_HOME/tetrarch")),
    used("bus.port", Whole(0, 65_535), Is("0")),
    used("bus.durability", Word(&["process", "power"]), Is("power")),
    used("bus.replicas", OneOf(&[1, 3, 5]), Is("1")),
    used("bus.api_prefix", Text, Follows("the account's own API")),
    used("bus.credentials", Path, Follows("made by this installation")),
    used("bus.operator_key", Path, Follows("<data_dir>/keys/operator.nk")),
    used("bus.tls_ca", Path, Follows("this installation's own, else those this machine knows")),
    used("bus.tls_cert", Path, Follows("none")),
    used("bus.tls_key", Path, Follows("none")),
    used("liveness.window", WINDOW, Is("5s")),
    used("liveness.register_deadline", Span(50, HOUR), Follows("6 windows")),
    used("liveness.mass_silence", Share, Is("0.3")),
    used("liveness.replacements_per_second", Whole(1, NAMED), Is("50")),
    used("limits.max_depth", Whole(1, 3), Is("3")),
    used("limits.max_children", Whole(0, 3), Is("3")),
    used("limits.requests_per_second", Whole(1, 1_000_000), Is("1000")),
    used("limits.mode", Word(MODES), Is("orchestrator")),
    used("limits.max_restarts", Whole(0, 1000), Is("3")),
    used("limits.restart_window", Span(SECOND, 24 * HOUR), Is("60s")),
    used("overseer.enabled", Flag, Is("true")),
    used("overseer.tick_every", Span(SECOND, ANY), Is("2m")),
    used("overseer.idle_after", Span(SECOND, ANY), Is("15m")),
    used("overseer.max_retries", Whole(0, 100), Is("2")),
    used("overseer.min_resend_interval", Span(SECOND, ANY), Is("5m")),
    used("overseer.backoff", Growth, Is("base=2m,max=30m")),
    used("overseer.allow_agents", Names, Is("")),
    used("overseer.allow_cross_agent", Flag, Is("false")),
    used("overseer.plan_appliers", Names, Is("")),
    used("overseer.propose", Flag, Is("false")),
    used("planner.enabled", Flag, Is("false")),
    used("planner.provider", Text, Follows("none")),
    used("planner.model", Text, Follows("none")),
    used("planner.base_url", Text, Follows("the provider's own")),
    used("planner.key_from", KeyFrom, Follows("none")),
    used("planner.max_phases", Whole(1, 5), Is("5")),
    used("planner.max_tasks_per_phase", Whole(1, 7), Is("7")),
    used("planner.max_subtasks_per_task", Whole(1, 7), Is("7")),
    used("planner.max_repair_attempts", Whole(0, 10), Is("2")),
    used("planner.timeout", Span(SECOND, HOUR), Is("2m")),
    used("planner.max_tokens", Whole(256, 1_000_000), Is("8192")),
    used("host.name", Host, Follows("the machine's own")),
    used("host.labels", Labels, Is("")),
    used("host.capacity", Whole(1, NAMED), Follows("4 for each core")),
    used("host.workspace_dir", Path, Follows("<data_dir>/work/<host>")),
    used("host.isolation", Word(&["required", "best"]), Is("best")),
    used("host.writable", Paths, Is("")),
    used("host.freeze_max", Span(SECOND, ANY), Is("10m")),
    used("host.worktrees_max", Whole(1, NAMED), Is("100")),
    used("runs.drain", Span(0, HOUR), Is("30s")),
    used("runs.kill_grace", Span(0, HOUR), Is("5s")),
    used("runs.turn_timeout", Span(SECOND, ANY), Follows("none; 10m for the llm runner")),
    used("runs.output_limit", Size(64 * 1024, TIB), Is("16MiB")),
    used("runs.artifact_max", Size(1024, TIB), Is("64MiB")),
    used("runs.network", Flag, Is("false")),
    used("runs.memory_max", Size(1024 * 1024, TIB), Follows("no limit")),
    used("runs.processes_max", Whole(1, NAMED), Is("4096")),
    used("runs.cpus_max", Whole(1, NAMED), Follows("no limit")),
    used("deadlines.spawning", Span(SECOND, ANY), Is("60s")),
    used("deadlines.awaiting_input", Span(SECOND, ANY), Is("24h")),
    used("deadlines.blocked", Span(SECOND, ANY), Is("1h")),
    used("deadlines.compacting", Span(SECOND, ANY), Is("10m")),
    used("retention.ledger", Span(HOUR, ANY), Is("30d")),
    used("retention.mail", Span(HOUR, ANY), Is("7d")),
    used("retention.runs", Span(HOUR, ANY), Is("30d")),
    used("retention.plans", Span(HOUR, ANY), Is("90d")),
    later("retention.lane_depth", Whole(1, 10_000), Is("32")),
    used("retention.go_ttl", Seconds(1, 3600), Follows("3s with one replica, else 15s")),
    used("telemetry.otlp_endpoint", CollectorUrl, Follows("nothing is exported")),
    used("telemetry.prometheus_listen", Listen, Follows("not served")),
    used("telemetry.log", Filter, Follows("info for up, serve and host, else warn")),
    used("telemetry.content", Flag, Is("false")),
    later("people.page_listen", Listen, Is("127.0.0.1:7878")),
    later("people.channels", Names, Is("")),
    used("people.approvals", Whole(1, APPROVALS_MAX), Is("1")),
    used("people.approvals_of", Labels, Is("")),
    used("people.approvers", Names, Follows("every human")),
    used("people.approval_ttl", Span(SECOND, ANY), Is("24h")),
    used("prices.file", Path, Follows("none")),
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
