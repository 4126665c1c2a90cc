//! What ten thousand hosted agents cost while they have nothing to do: memory of their host's
//! process beyond what it needs without them, processor time of host, owner and bus. There is no
//! floor: nothing needs nothing.

use std::time::Duration;

use tetrarch_bus::codec;
use tetrarch_bus::creds::CredentialHolder;
use tetrarch_bus::envelope::Envelope;
use tetrarch_bus::state::{Select, read_records};
use tetrarch_bus::subject::{KeyKind, OpName, Subject};
use tetrarch_bus::watch::Replies;
use tetrarch_core::brief::Tools;
use tetrarch_core::budget::Limits;
use tetrarch_core::id::{AgentId, HumanName, Principal, ProjectName};
use tetrarch_core::ledger::Record;
use tetrarch_core::liveness::Liveness;
use tetrarch_core::plan::PlacementWish;
use tetrarch_core::request::{Op, ProjectCreate};
use tetrarch_tests::Fleet;
use tokio::time::interval;

use crate::Effort;
use crate::fleet::{new_id, soon};
use crate::requester::Outgoing;
use crate::table::{Aim, Line, Unit};

/// Idle agents.
const AGENTS: usize = 10_000;
/// What spec 10 allows: bytes for each, hundredths of a core for all.
const BYTES: f64 = 8_192.0;
const PERCENT: f64 = 2.0;
/// Requests that are not answered yet.
const AT_ONCE: usize = 200;
/// How long idling is watched: six windows.
const WATCHED: Duration = Duration::from_secs(30);
/// Time between two looks at whether everybody is up.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Ticks of a second in which the system counts processor time.
const TICKS: f64 = 100.0;
/// Bytes of a page.
const PAGE: f64 = 4_096.0;

/// Measures it.
pub(crate) async fn measure(effort: Effort) -> Vec<Line> {
    let agents = if effort.rounds == 1 { AGENTS / 10 } else { AGENTS };
    let fleet = Fleet::prepared().with_option("--capacity", "20000").started();
    let host = pid(&fleet, " host ");
    let before = resident(host);
    create(&fleet, agents).await;
    let mut memory = Line::new(
        &format!("idle hosted agent of {agents}, memory in its host"),
        Unit::Bytes,
        Aim::Within(BYTES),
    );
    #[expect(clippy::cast_precision_loss, reason = "counts are small")]
    memory.push_alone((resident(host) - before) / agents as f64);
    let parts = [
        ("their host", host, Aim::Within(PERCENT)),
        ("the owner", pid(&fleet, " serve "), Aim::None),
        ("the bus", pid(&fleet, "nats-server"), Aim::None),
    ];
    let used = parts.map(|(_, pid, _)| processor(pid));
    let watching = if effort.rounds == 1 { WATCHED / 3 } else { WATCHED };
    let mut watched = interval(watching);
    watched.tick().await;
    watched.tick().await;
    let mut lines = vec![memory];
    for ((what, pid, aim), before) in parts.into_iter().zip(used) {
        let what = format!("{agents} idle hosted agents, share of a core of {what}");
        let mut line = Line::new(&what, Unit::Percent, aim);
        line.push_alone((processor(pid) - before) / watching.as_secs_f64() * 100.0);
        lines.push(line);
    }
    lines
}

/// Hosted project orchestrators that are given nothing to do.
async fn create(fleet: &Fleet, agents: usize) {
    let human = HumanName::new("bench").unwrap();
    let desk = fleet.bus(&CredentialHolder::Human(human.clone())).await;
    let from = Principal::Human(human);
    let mut replies = Replies::open(&desk, &from).await.unwrap();
    for number in 0..agents {
        let op = Op::ProjectCreate(ProjectCreate {
            project: ProjectName::new(&format!("idle{number}")).unwrap(),
            mode: tetrarch_core::agent::Mode::default(),
            external: false,
            tools: Tools::default(),
            budget: Limits::default(),
            local_max_depth: None,
            placement: PlacementWish::default(),
        });
        let id = new_id();
        let subject = Subject::Op { op: OpName::of(&op), from: from.clone(), via: None };
        let envelope = Envelope { msg_id: Some(id.to_string()), ..Envelope::default() };
        let payload = codec::encode_op(&op, id).unwrap().into();
        let (headers, subject) = (envelope.headers(&subject), subject.to_string());
        Outgoing { subject, headers, payload }.send(&desk).await;
        // No sender has a share of ten thousand at once.
        if (number + 1) % AT_ONCE == 0 || number + 1 == agents {
            replies.wait(id, Duration::from_secs(120)).await.unwrap();
        }
    }
    let control = fleet.control().await;
    let mut look = interval(LOOK_EVERY);
    let all = async {
        while active(&control).await < agents {
            look.tick().await;
        }
    };
    soon("every agent's first sign", all).await;
}

async fn active(control: &tetrarch_bus::Bus) -> usize {
    let records = read_records(control, &[Select::Kind(KeyKind::Agent)]).await.unwrap().records;
    let is_active = |record: &Record| {
        let Record::Agent(agent) = record else { return false };
        matches!(agent.id, AgentId::Po(_)) && agent.liveness == Liveness::Active
    };
    records.iter().filter(|(record, _)| is_active(record)).count()
}

fn pid(fleet: &Fleet, of: &str) -> u32 {
    let all = fleet.processes();
    all.iter().find(|process| process.command.contains(of)).unwrap().pid
}

fn fields(pid: u32, file: &str) -> Vec<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
    let rest = text.rsplit(')').next().unwrap();
    rest.split_whitespace().map(|field| field.parse().unwrap_or(0.0)).collect()
}

/// Bytes that are resident.
fn resident(pid: u32) -> f64 {
    fields(pid, "statm")[1] * PAGE
}

/// Seconds of processor time so far, in user and system.
fn processor(pid: u32) -> f64 {
    let fields = fields(pid, "stat");
    // The state is the first after the name; times are the 14th and 15th of all (proc(5)).
    (fields[11] + fields[12]) / TICKS
}
