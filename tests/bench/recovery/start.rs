//! An owner starts on a ledger with a hundred thousand agents: from its start to the answer to the
//! first request. The floor: a bare client that reads as much as it has to read.

use std::time::Instant;

use async_nats::jetstream::consumer::pull;
use futures::StreamExt;
use rustix::process::Signal;
use tetrarch_bus::creds::{Authority, CredentialHolder};
use tetrarch_bus::subject::Subject;
use tetrarch_bus::subject::pattern::{LEDGER, STATE};
use tetrarch_bus::{Bus, HeaderMap, codec};
use tetrarch_core::agent::{Agent, Hosting};
use tetrarch_core::brief::Tools;
use tetrarch_core::budget::{Account, Limits};
use tetrarch_core::id::{AgentId, Principal, ProjectName, SessionId, Ulid};
use tetrarch_core::ledger::{Entry, Record};
use tetrarch_core::liveness::Liveness;
use tetrarch_core::plan::PlacementWish;
use tetrarch_core::request::{Op, ProjectCreate};
use tetrarch_core::time::BusTime;
use tetrarch_tests::{Program, Server, binary, empty_entry};

use crate::Effort;
use crate::fleet::{ask, new_id, soon};
use crate::table::{Aim, Line, Unit};

/// Entries of the ledger, and agents that each of them admits.
const ENTRIES: u64 = 500;
const AGENTS: u64 = 200;
/// What spec 10 allows until the first admission, in microseconds.
const ALLOWED: f64 = 2e6;

/// Measures a start from the ledger alone, then starts from STATE.
pub(crate) async fn measure(effort: Effort) -> Vec<Line> {
    let entries = if effort.rounds == 1 { 5 } else { ENTRIES };
    let agents = entries * AGENTS;
    let title =
        |from| format!("owner's start with {agents} agents, from {from}, to the first answer");
    let mut cold = Line::new(&title("the ledger alone"), Unit::Micros, Aim::None);
    let mut warm = Line::new(&title("STATE"), Unit::Micros, Aim::Within(ALLOWED));
    let server = tetrarch_tests::server().await;
    let control = server.control().await;
    for entry in 0..entries {
        let bytes = codec::encode_entry(&admitted(entry)).unwrap();
        let subject = Subject::Ledger.to_string();
        control.publish_expect(&subject, HeaderMap::new(), bytes.into(), None).await.unwrap();
    }
    let bare = read(&control, LEDGER).await;
    let (owner, first) = started(&server).await;
    cold.push(first, bare);
    until_written(&control, agents).await;
    stop(owner);
    for _ in 0..effort.rounds {
        let bare = read(&control, STATE).await;
        let (owner, first) = started(&server).await;
        warm.push(first, bare);
        stop(owner);
    }
    vec![cold, warm]
}

fn stop(owner: Program) {
    owner.signal(Signal::TERM);
    owner.ended();
}

/// Starts an owner; gives the time until it has answered a request, in microseconds.
async fn started(server: &Server) -> (Program, f64) {
    let human = tetrarch_core::id::HumanName::new("bench").unwrap();
    let desk = server.bus(&CredentialHolder::Human(human.clone())).await;
    let authority = Authority::open_or_create(server.data_dir()).unwrap();
    let mut command = std::process::Command::new(binary());
    command.args(["serve", "--global", "--url", server.url()]);
    command.arg("--credentials").arg(authority.mint(&CredentialHolder::Control).unwrap());
    command.arg("--data-dir").arg(server.data_dir().join("owner"));
    let at = Instant::now();
    let owner = Program::start(&mut command);
    let id = new_id();
    let create = Op::ProjectCreate(ProjectCreate {
        project: ProjectName::new(&format!("first-{}", id.to_string().to_lowercase())).unwrap(),
        mode: tetrarch_core::agent::Mode::default(),
        external: true,
        tools: Tools::default(),
        budget: Limits::default(),
        local_max_depth: None,
        placement: PlacementWish::default(),
    });
    let payload = codec::encode_op(&create, id).unwrap();
    let name = tetrarch_bus::subject::OpName::of(&create);
    ask(&desk, &Principal::Human(human), name, id, payload).await;
    (owner, at.elapsed().as_secs_f64() * 1e6)
}

/// Waits until STATE holds so many agents.
async fn until_written(control: &Bus, agents: u64) {
    let written = async {
        while read_count(control).await < agents {
            tokio::task::yield_now().await;
        }
    };
    soon("a written STATE", written).await;
}

async fn read_count(control: &Bus) -> u64 {
    let stream = control.jetstream().get_stream(STATE).await.unwrap();
    stream.get_info().await.unwrap().state.messages
}

/// Reads a stream with a bare consumer; gives the time in microseconds.
async fn read(control: &Bus, name: &str) -> f64 {
    let at = Instant::now();
    let stream = control.jetstream().get_stream_no_info(name).await.unwrap();
    let config = pull::OrderedConfig::default();
    let mut messages = stream.create_consumer(config).await.unwrap().messages().await.unwrap();
    while let Some(message) = messages.next().await {
        if message.unwrap().info().unwrap().pending == 0 {
            break;
        }
    }
    at.elapsed().as_secs_f64() * 1e6
}

/// An entry that admits agents, as an owner would have written it.
fn admitted(number: u64) -> Entry {
    let records = (0..AGENTS).map(|index| Record::Agent(Box::new(agent(number * AGENTS + index))));
    Entry { records: records.collect(), ..empty_entry(u128::from(number), 1) }
}

fn agent(number: u64) -> Agent {
    let id = AgentId::Po(ProjectName::new(&format!("p{number}")).unwrap());
    Agent {
        id,
        session: Some(SessionId(Ulid::from_parts(1, u128::from(number)))),
        mail_read: 0,
        denials: Default::default(),
        retired: false,
        epoch: 1,
        liveness: Liveness::Active,
        reason: "first heartbeat".to_owned(),
        since: BusTime(1),
        ending: None,
        parent: Some(AgentId::Go),
        depth: 1,
        max_depth: 3,
        local_max_depth: 3,
        requested_by: Principal::Agent(AgentId::Go),
        project: None,
        hosting: Hosting::External,
        placement: None,
        label: String::new(),
        slots: Vec::new(),
        account: Account::default(),
        unsettled: Default::default(),
        deadline: None,
        tools: Tools::default(),
        circuit: Default::default(),
        work: None,
        verbs: Default::default(),
        created: BusTime(1),
    }
}
