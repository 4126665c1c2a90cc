//! `tetrarch status`: how the installation is, on one screen. It looks at the bus, the leases
//! and STATE, and decides nothing.

use std::collections::BTreeMap;

use futures::future::try_join_all;
use serde_json::{Value, json};
use tetrarch_bus::Bus;
use tetrarch_bus::intake::dead_letters;
use tetrarch_bus::lease::{Lease, LeaseKey};
use tetrarch_bus::state::{OwnerMeta, Select, load_meta};
use tetrarch_bus::subject::pattern::LEDGER;
use tetrarch_bus::subject::{KeyKind, Origin};
use tetrarch_core::agent::Project;
use tetrarch_core::assignment::Assignment;
use tetrarch_core::goal::GoalStatus;
use tetrarch_core::id::{AgentId, HostName};
use tetrarch_core::liveness::Liveness;
use tetrarch_core::obstacle::Obstacle;
use tetrarch_core::records::Records;
use tetrarch_core::time::BusTime;

use crate::obstacles;
use crate::output::{self, Cell, Sheet, Tone, age, is_coloured, now, stamp};
use crate::{CliError, CliResult, Context, HumanClient};

/// Arguments of `status`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  tetrarch status\n  tetrarch status -o json")]
pub(crate) struct StatusArgs {}

/// Runs the command.
///
/// # Errors
/// The bus does not answer, or STATE cannot be read.
pub(crate) async fn run(context: &Context, _args: StatusArgs) -> CliResult {
    let client = context.client().await?;
    let status = Status::look(&client).await?;
    let shown = || status.sheet(context, now(), is_coloured());
    // A reader that went away has seen enough.
    output::record(context.output, &status.json(context), shown)
}

/// Who holds a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LeaseHolder {
    address: String,
    epoch: u64,
    since: BusTime,
}

impl LeaseHolder {
    async fn of(bus: &Bus, key: &LeaseKey) -> CliResult<Option<Self>> {
        let seen = Lease::look(bus, key).await?;
        Ok(seen.and_then(|seen| seen.holder).map(|holder| Self {
            address: holder.address,
            epoch: holder.epoch,
            since: BusTime(holder.since_unix_ms),
        }))
    }

    fn json(&self) -> Value {
        json!({"address": self.address, "epoch": self.epoch, "since": stamp(self.since)})
    }
}

/// What was seen.
#[derive(Debug)]
struct Status {
    url: String,
    version: String,
    owner: Option<LeaseHolder>,
    hosts: Vec<(HostName, Option<LeaseHolder>)>,
    records: Records,
    meta: OwnerMeta,
    last: u64,
    dead: BTreeMap<Origin, u64>,
    obstacles: Vec<Obstacle>,
}

impl Status {
    async fn look(client: &HumanClient) -> CliResult<Self> {
        let bus = &client.bus;
        let (found, owner, meta, last, dead) = tokio::join!(
            obstacles::look(client, None),
            LeaseHolder::of(bus, &LeaseKey::Go),
            load_meta(bus),
            bus.stream_last_seq(LEDGER),
            dead_letters(bus),
        );
        let (mut snapshot, obstacles) = found?;
        snapshot.add(bus, &[Select::Kind(KeyKind::Assignment)]).await?;
        let records = snapshot.0.records;
        let hosts = records.hosts.keys().map(async |host| {
            let holder = LeaseHolder::of(bus, &LeaseKey::Host(host.clone())).await?;
            Ok::<_, CliError>((host.clone(), holder))
        });
        let server = bus.client().server_info();
        Ok(Self {
            url: format!("nats://{}:{}", server.host, server.port),
            version: server.version,
            owner: owner?,
            hosts: try_join_all(hosts).await?,
            meta: meta.map_err(CliError::failed)?.unwrap_or_default(),
            last: last?,
            dead: dead?,
            records,
            obstacles,
        })
    }

    fn projects(&self) -> impl Iterator<Item = &Project> {
        self.records.projects.values().filter(|project| !project.retired)
    }

    /// Agents of every liveness, in the order of a life.
    fn agents(&self) -> Vec<(Liveness, usize)> {
        let count = |liveness| {
            self.records.agents.values().filter(|agent| agent.liveness == liveness).count()
        };
        Liveness::ALL.into_iter().map(|liveness| (liveness, count(liveness))).collect()
    }

    /// Goals that are not settled.
    fn open(&self) -> Vec<OpenGoal<'_>> {
        let states = self.records.goal_states.values();
        let open =
            states.filter(|state| matches!(state.status, GoalStatus::Active | GoalStatus::Paused));
        open.map(|state| {
            let goal = self.records.goals.get(&state.id);
            OpenGoal {
                epic: state.id.to_string(),
                project: goal.map_or("", |goal| goal.project.as_str()),
                title: goal.map_or("", |goal| &goal.spec.title),
                status: state.status,
                percent: state.percent,
            }
        })
        .collect()
    }

    /// Assignments that stand still: an agent that has the overseer's words is active again, and has not moved yet.
    fn stalled(&self) -> impl Iterator<Item = &Assignment> {
        let all = self.records.assignments.values();
        all.filter(|it| !it.status.is_terminal() && it.recovery.retries > 0)
    }

    /// The state of a host's orchestrator, the agents placed there beside it, and those that take a place.
    fn host(&self, host: &HostName) -> (&'static str, usize, usize) {
        let own = AgentId::Ho(host.clone());
        let liveness = self.records.agents.get(&own).map_or("", |agent| agent.liveness.as_str());
        let agents = self.records.placed_on(host).filter(|id| **id != own);
        (liveness, agents.count(), self.records.places_taken_on(host))
    }

    fn json(&self, context: &Context) -> Value {
        let agents: BTreeMap<&str, usize> =
            self.agents().into_iter().map(|(liveness, count)| (liveness.as_str(), count)).collect();
        let hosts = self.hosts.iter().map(|(host, holder)| {
            let (liveness, agents, busy) = self.host(host);
            json!({
                "name": host.as_str(),
                "up": holder.is_some(),
                "liveness": liveness,
                "agents": agents,
                "placesTaken": busy,
                "capacity": self.records.hosts.get(host).map(|host| host.capacity),
                "lease": holder.as_ref().map(LeaseHolder::json),
            })
        });
        let goals = self.open().into_iter().map(|goal| {
            json!({
                "epic": goal.epic,
                "project": goal.project,
                "title": goal.title,
                "status": goal.status.as_str(),
                "percent": goal.percent,
            })
        });
        json!({
            "bus": {"url": self.url, "version": self.version},
            "owner": self.owner.as_ref().map(LeaseHolder::json),
            "hosts": hosts.collect::<Vec<_>>(),
            "projects": self.projects().map(|project| {
                json!({"name": project.name.as_str(), "mode": project.mode.as_str()})
            }).collect::<Vec<_>>(),
            "agents": agents,
            "openGoals": goals.collect::<Vec<_>>(),
            "stalled": self.stalled().map(|it| {
                json!({
                    "assignment": it.id.to_string(),
                    "epic": it.epic.to_string(),
                    "node": it.node.to_string(),
                    "agent": it.agent.to_string(),
                    "since": stamp(it.updated),
                })
            }).collect::<Vec<_>>(),
            "obstacles": self.obstacles.iter().map(|it| obstacles::value(context, it)).collect::<Vec<_>>(),
            "ledger": {"last": self.last, "published": self.meta.outbox_through},
            "deadLetters": self.dead.iter().map(|(origin, count)| {
                (origin.as_str().to_owned(), (*count).into())
            }).collect::<serde_json::Map<_, _>>(),
        })
    }

    fn sheet(&self, context: &Context, now: BusTime, coloured: bool) -> String {
        let mut sheet = Sheet::new("tetrarch", coloured);
        sheet.field("bus", format!("{} (nats-server {})", self.url, self.version));
        sheet.field("owner", self.owner_cell(now));
        sheet.field("ledger", self.ledger_cell());
        sheet.field("dead letters", self.dead_cell());
        let projects =
            self.projects().map(|project| format!("{} ({})", project.name, project.mode));
        let projects: Vec<String> = projects.collect();
        sheet.field("projects", or_none(&projects));
        let agents = self.agents().into_iter().filter(|(_, count)| *count > 0);
        let agents: Vec<String> =
            agents.map(|(liveness, count)| format!("{count} {}", liveness.as_str())).collect();
        sheet.field("agents", or_none(&agents));
        if self.hosts.is_empty() {
            sheet.field("hosts", Cell::from("none; start one with `tetrarch host`"));
        }
        let hosts = self.hosts.iter().map(|(host, holder)| self.host_line(host, holder, now));
        sheet.table("hosts", hosts.collect());
        let goals = self.open().into_iter().map(|goal| {
            vec![
                goal.epic.into(),
                goal.project.into(),
                Cell::state(goal.status.as_str()),
                format!("{}%", goal.percent).into(),
                goal.title.into(),
            ]
        });
        sheet.table("open goals", goals.collect());
        let stalled = self.stalled().map(|it| {
            let place = format!("{}/{}", it.epic, it.node);
            vec![
                place.into(),
                it.agent.to_string().into(),
                age(now, it.updated).into(),
                it.reason.as_str().into(),
            ]
        });
        sheet.table("stalled assignments", stalled.collect());
        sheet.table_with_notes("obstacles", obstacles::rows(context, &self.obstacles, now));
        sheet.finish()
    }

    fn owner_cell(&self, now: BusTime) -> Cell {
        match &self.owner {
            Some(LeaseHolder { address, epoch, since }) => {
                format!("{address}, epoch {epoch}, for {}", age(now, *since)).into()
            }
            None => {
                let next = "start a fleet with `tetrarch up`, or an owner alone with `tetrarch serve --global`";
                Cell::from(format!("none, so nothing is decided; {next}")).toned(Tone::Bad)
            }
        }
    }

    fn ledger_cell(&self) -> Cell {
        match self.last.saturating_sub(self.meta.outbox_through) {
            0 => format!("sequence {}", self.last).into(),
            behind => Cell::from(format!("sequence {}, {behind} not yet published", self.last))
                .toned(Tone::Warn),
        }
    }

    /// What could not be handled. On the ledger nobody but the owner writes.
    fn dead_cell(&self) -> Cell {
        let counts =
            self.dead.iter().map(|(origin, count)| format!("{count} of {}", origin.as_str()));
        let cell = Cell::from(or_none(&counts.collect::<Vec<_>>()));
        if self.dead.contains_key(&Origin::Ledger) { cell.toned(Tone::Bad) } else { cell }
    }

    fn host_line(&self, host: &HostName, holder: &Option<LeaseHolder>, now: BusTime) -> Vec<Cell> {
        let (liveness, _, busy) = self.host(host);
        let capacity = self.records.hosts.get(host).map_or(0, |host| host.capacity);
        let lease = match holder {
            Some(holder) => format!("{}, for {}", holder.address, age(now, holder.since)).into(),
            None => Cell::from("its lease is not held").toned(Tone::Bad),
        };
        vec![
            host.as_str().into(),
            Cell::state(liveness),
            format!("{busy} of {capacity} places in use").into(),
            lease,
        ]
    }
}

/// A goal that is not settled.
#[derive(Debug)]
struct OpenGoal<'a> {
    epic: String,
    project: &'a str,
    title: &'a str,
    status: GoalStatus,
    percent: u8,
}

fn or_none(texts: &[String]) -> String {
    if texts.is_empty() { "none".to_owned() } else { texts.join(", ") }
}
