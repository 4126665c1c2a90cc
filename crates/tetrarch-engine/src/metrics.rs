//! What is counted of owners and hosts, through OpenTelemetry's global meter: whoever starts the process decides
//! whether anybody reads it, and without a reader no record is looked at. It never takes part in a decision.

use std::collections::BTreeMap;
use std::time::Duration;

use opentelemetry::metrics::{Counter, Gauge, Histogram};
use opentelemetry::{KeyValue, global};
use tetrarch_core::goal::GoalStatus;
use tetrarch_core::id::{AgentId, HostName};
use tetrarch_core::ledger::Entry;
use tetrarch_core::liveness::Liveness;
use tetrarch_core::question::QuestionStatus;
use tetrarch_core::records::Records;
use tetrarch_core::run::RunState;
use tetrarch_telemetry::is_counted;
use tokio::time::Instant;

/// The meter's name.
const METER: &str = "tetrarch";
/// The least time between two looks at all records.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Upper bounds of a commit's time, in seconds: from a server on this machine to one that has to elect its leader.
const COMMIT_BOUNDS: [f64; 10] = [0.001, 0.002, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 5.0, 15.0];

/// What an owner does.
#[derive(Debug, Clone)]
pub(crate) struct OwnerMetrics {
    leads: Gauge<u64>,
    commits: Histogram<f64>,
    ticks: Histogram<f64>,
    events: Counter<u64>,
    set_aside: Counter<u64>,
    waiting: Gauge<u64>,
    agents: Gauge<u64>,
    runs: Gauge<u64>,
    goals: Gauge<u64>,
    questions: Gauge<u64>,
    placed: Gauge<u64>,
    tokens: Gauge<u64>,
    cost: Gauge<f64>,
}

impl OwnerMetrics {
    /// An owner that leads from now on.
    pub(crate) fn leading() -> Self {
        let meter = global::meter(METER);
        let metrics = Self {
            leads: meter
                .u64_gauge("tetrarch.owner.leads")
                .with_description("1 while this process owns the ledger")
                .build(),
            commits: meter
                .f64_histogram("tetrarch.ledger.commit.duration")
                .with_unit("s")
                .with_boundaries(COMMIT_BOUNDS.to_vec())
                .with_description("Time from a decided entry to its acknowledgement")
                .build(),
            ticks: meter
                .f64_histogram("tetrarch.overseer.tick.duration")
                .with_unit("s")
                .with_boundaries(COMMIT_BOUNDS.to_vec())
                .with_description("Time that a look at what stands still takes")
                .build(),
            events: meter
                .u64_counter("tetrarch.events")
                .with_description("Committed events, by kind")
                .build(),
            set_aside: meter
                .u64_counter("tetrarch.dead_letters")
                .with_description("Requests that could not be read")
                .build(),
            waiting: meter
                .u64_gauge("tetrarch.inputs.waiting")
                .with_description("Inputs that wait for a commit")
                .build(),
            agents: meter
                .u64_gauge("tetrarch.agents")
                .with_description("Agents, by liveness")
                .build(),
            runs: meter.u64_gauge("tetrarch.runs").with_description("Runs, by state").build(),
            goals: meter.u64_gauge("tetrarch.goals").with_description("Goals, by status").build(),
            questions: meter
                .u64_gauge("tetrarch.questions.open")
                .with_description("Questions that wait for people")
                .build(),
            placed: meter
                .u64_gauge("tetrarch.host.agents")
                .with_description("Live agents placed on a host")
                .build(),
            tokens: meter
                .u64_gauge("tetrarch.project.tokens")
                .with_description("Tokens that a project has spent")
                .build(),
            cost: meter
                .f64_gauge("tetrarch.project.cost")
                .with_description("Dollars that a project has spent")
                .build(),
        };
        metrics.leads.record(1, &[]);
        metrics
    }

    /// An entry was acknowledged, so long after it was decided.
    pub(crate) fn committed(&self, entry: &Entry, took: Duration) {
        self.commits.record(took.as_secs_f64(), &[]);
        for event in &entry.events {
            self.events.add(1, &[KeyValue::new("kind", event.kind.as_str())]);
        }
    }

    /// The overseer looked, for so long. What it did are events.
    pub(crate) fn ticked(&self, took: Duration) {
        self.ticks.record(took.as_secs_f64(), &[]);
        tracing::debug!(?took, "overseer tick");
    }

    /// A request was set aside.
    pub(crate) fn set_aside(&self) {
        self.set_aside.add(1, &[]);
    }

    /// What stands now. Kinds that nobody is of are said to be none, so that their last number does not stay.
    fn look(&self, records: &Records, waiting: usize) {
        self.waiting.record(waiting as u64, &[]);
        let agents = records.agents.values().map(|agent| agent.liveness.as_str());
        tell(&self.agents, "liveness", Liveness::ALL.map(Liveness::as_str), agents);
        let runs = records.run_status.values().map(|status| status.state.as_str());
        tell(&self.runs, "state", RunState::ALL.map(RunState::as_str), runs);
        let goals = records.goal_states.values().map(|goal| goal.status.as_str());
        tell(&self.goals, "status", GoalStatus::ALL.map(GoalStatus::as_str), goals);
        let open = records.questions.values().filter(|one| one.status == QuestionStatus::Open);
        self.questions.record(open.count() as u64, &[]);
        let alive = records.agents.values().filter(|one| one.liveness != Liveness::Terminated);
        let mut placed: BTreeMap<&HostName, u64> =
            records.hosts.keys().map(|host| (host, 0)).collect();
        for placement in alive.filter_map(|one| one.placement.as_ref()) {
            *placed.entry(&placement.host).or_default() += 1;
        }
        for (host, count) in placed {
            self.placed.record(count, &[KeyValue::new("host", host.to_string())]);
        }
        for agent in records.agents.values() {
            if let AgentId::Po(project) = &agent.id {
                let (spent, project) =
                    (agent.account.spent, KeyValue::new("project", project.to_string()));
                self.tokens.record(spent.tokens, std::slice::from_ref(&project));
                self.cost.record(dollars(spent.cost_micro), &[project]);
            }
        }
    }
}

/// Millionths of a dollar in dollars.
#[expect(clippy::cast_precision_loss, reason = "beyond 9 billion dollars a millionth is lost")]
fn dollars(micro: u64) -> f64 {
    micro as f64 / 1e6
}

/// Records how many there are of each kind.
fn tell<const N: usize>(
    gauge: &Gauge<u64>,
    label: &'static str,
    kinds: [&'static str; N],
    found: impl Iterator<Item = &'static str>,
) {
    let mut counts = BTreeMap::from(kinds.map(|kind| (kind, 0)));
    for kind in found {
        *counts.entry(kind).or_default() += 1;
    }
    for (kind, count) in counts {
        gauge.record(count, &[KeyValue::new(label, kind)]);
    }
}

/// An owner's metrics while it leads.
#[derive(Debug)]
pub(crate) struct Leading {
    /// What is counted; tasks of the owner's have copies.
    pub(crate) metrics: OwnerMetrics,
    looked: Option<Instant>,
}

impl Leading {
    /// From now on.
    pub(crate) fn new() -> Self {
        Self { metrics: OwnerMetrics::leading(), looked: None }
    }

    /// Looks at all records, once a second at most, and only for somebody.
    pub(crate) fn look(&mut self, records: &Records, waiting: usize) {
        if !is_counted() {
            return;
        }
        let now = Instant::now();
        if self.looked.is_none_or(|looked| now - looked >= LOOK_EVERY) {
            self.looked = Some(now);
            self.metrics.look(records, waiting);
        }
    }
}

impl Drop for Leading {
    fn drop(&mut self) {
        // Another process may own the ledger now and count what stands.
        self.metrics.leads.record(0, &[]);
        self.metrics.look(&Records::default(), 0);
    }
}

/// What a host does.
#[derive(Debug)]
pub(crate) struct HostMetrics {
    sessions: Gauge<u64>,
    host: KeyValue,
}

impl HostMetrics {
    /// Of this host.
    pub(crate) fn new(host: &str) -> Self {
        let sessions = global::meter(METER)
            .u64_gauge("tetrarch.host.sessions")
            .with_description("Sessions that run on this host")
            .build();
        Self { sessions, host: KeyValue::new("host", host.to_owned()) }
    }

    /// So many sessions run here.
    pub(crate) fn sessions(&self, count: usize) {
        self.sessions.record(count as u64, std::slice::from_ref(&self.host));
    }
}
