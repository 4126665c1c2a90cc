//! The 40-node tree: GO, three project orchestrators, nine specialists, 27 workers that their
//! orchestrators sponsored; from the request to the last result. A phase holds seven tasks, so each
//! specialist has a goal of its own: three goals for each of the three orchestrators.

use std::collections::HashMap;
use std::time::Duration;

use futures::StreamExt;
use tetrarch_bus::codec;
use tetrarch_bus::envelope::Envelope;
use tetrarch_bus::state::{Select, read_records};
use tetrarch_bus::subject::{KeyKind, Subject};
use tetrarch_core::brief::RunnerKind;
use tetrarch_core::id::{AgentId, EpicId, ProjectName};
use tetrarch_core::ledger::Record;
use tetrarch_core::plan::{Blocker, NodeStatus, PlanEvent};
use tokio::time::Instant;

use crate::Effort;
use crate::admissions::per_second;
use crate::bare::Bare;
use crate::capture::{Capture, Replay, settled};
use crate::fleet::{Fleet, SOON, new_id, plan, profile};
use crate::lead::{LEAD, LEAF, LEAVES, SCRIPT};
use crate::numbers::Samples;
use crate::requester::Outgoing;
use crate::table::{Aim, Line, Unit};

/// Project orchestrators of one tree.
const ORCHESTRATORS: usize = 3;
/// Specialists of one orchestrator.
const LEADS: usize = 3;
/// Trees that grow at once when their rate is measured.
const AT_ONCE: usize = 4;

/// What executes the agents of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Agents {
    /// Programs inside this process.
    InProcess,
    /// A shell script for each specialist, `true` for each worker.
    Processes,
}

/// Measures the latency of one tree and, of trees in this process, their rate.
pub(crate) async fn measure(
    fleet: &Fleet,
    bare: &mut Bare,
    replay: &Replay,
    agents: Agents,
    effort: Effort,
) -> Vec<Line> {
    let (what, trees) = match agents {
        Agents::InProcess => ("in-process agents", effort.trees),
        Agents::Processes => ("36 real processes", effort.process_trees),
    };
    let title = format!("40-node tree, {what}, request to result");
    let mut lines = vec![Line::new(&title, Unit::Micros, Aim::AtMost(2.0))];
    let grove = grove(fleet, agents).await;
    let one = grove.get(..ORCHESTRATORS).unwrap_or_default();
    let (capture, _) = Capture::of(fleet, grow(fleet, one)).await;
    effort.show(&capture);
    bare.write(capture.sizes());
    for _ in 0..effort.rounds {
        let (mut ours, mut floor) = (Vec::new(), Vec::new());
        for _ in 0..trees {
            settled(fleet).await;
            ours.push(grow(fleet, one).await);
        }
        settled(fleet).await;
        for _ in 0..trees {
            floor.push(bare.trees(1, u8::try_from(ORCHESTRATORS * LEADS).unwrap_or(0)).await);
        }
        let (ours, floor) = (Samples::new(ours), Samples::new(floor));
        lines[0].push(ours.quantile(0.5), floor.quantile(0.5));
    }
    if agents == Agents::InProcess {
        lines.push(rate(fleet, replay, &grove, effort).await);
    }
    lines
}

async fn rate(fleet: &Fleet, replay: &Replay, grove: &[ProjectName], effort: Effort) -> Line {
    let title = format!("40-node trees, in-process agents, {AT_ONCE} at once");
    let mut line = Line::new(&title, Unit::PerSecond, Aim::AtLeast(0.6));
    let (capture, _) = Capture::of(fleet, grow(fleet, grove)).await;
    for _ in 0..effort.rounds {
        settled(fleet).await;
        let ours = grow(fleet, grove).await;
        settled(fleet).await;
        let floor = replay.run(&capture).await;
        line.push(per_second(AT_ONCE, ours), per_second(AT_ONCE, floor));
    }
    line
}

/// The projects of as many trees as ever grow at once.
async fn grove(fleet: &Fleet, agents: Agents) -> Vec<ProjectName> {
    let (word, trees) = match agents {
        Agents::InProcess => ("tree", AT_ONCE),
        Agents::Processes => ("forest", 1),
    };
    let mut grove = Vec::new();
    for number in 0..trees * ORCHESTRATORS {
        let profiles = match agents {
            Agents::InProcess => {
                vec![profile(LEAD, RunnerKind::Echo, &[]), profile(LEAF, RunnerKind::Echo, &[])]
            }
            Agents::Processes => vec![
                profile(LEAD, RunnerKind::Process, &["sh", "-c", SCRIPT]),
                profile(LEAF, RunnerKind::Process, &["true"]),
            ],
        };
        let name = format!("{word}{number}");
        let orchestrator = AgentId::Po(ProjectName::new(&name).unwrap());
        let create = async { grove.push(fleet.project(&name, false, profiles).await) };
        fleet.active(&orchestrator, create).await;
    }
    grove
}

/// Gives three goals to each of these projects' orchestrators and waits for every result.
async fn grow(fleet: &Fleet, projects: &[ProjectName]) -> Duration {
    let mut results = fleet.control.client().subscribe("plan.updated.*").await.unwrap();
    fleet.control.client().flush().await.unwrap();
    let plan = plan("specialist", LEAD);
    let goals: Vec<(EpicId, Outgoing)> = (0..LEADS)
        .flat_map(|_| projects)
        .map(|project| {
            let id = new_id();
            let op = "goal.create".parse().unwrap();
            let subject = Subject::Op { op, from: fleet.human.clone(), via: None };
            let envelope = Envelope { msg_id: Some(id.to_string()), ..Envelope::default() };
            let payload = codec::encode_goal_create(id, project, &plan).unwrap().into();
            let headers = envelope.headers(&subject);
            (EpicId(id.0), Outgoing { subject: subject.to_string(), headers, payload })
        })
        .collect();
    let mut open: HashMap<EpicId, Option<PlanEvent>> =
        goals.iter().map(|(epic, _)| (*epic, None)).collect();
    let started = Instant::now();
    for (_, goal) in goals {
        goal.send(&fleet.desk).await;
    }
    let all = async {
        while !open.is_empty() {
            let message = results.next().await.unwrap();
            let event = codec::decode_plan_event(&message.payload).unwrap();
            let Some(last) = open.get_mut(&event.epic) else { continue };
            if event.result.is_some() {
                assert_whole(&event);
                open.remove(&event.epic);
            } else {
                *last = Some(event);
            }
        }
    };
    let timely = tokio::time::timeout(SOON, all).await;
    if timely.is_err() {
        let states = [Select::Kind(KeyKind::NodeState)];
        let states = read_records(&fleet.control, &states).await.unwrap().records;
        let blocked = states.into_iter().filter_map(|(record, _)| {
            let Record::NodeState(epic, state) = record else { return None };
            state.blocker.filter(|_| open.contains_key(&epic))
        });
        let blocked: Vec<Blocker> = blocked.collect();
        panic!("without a result after {SOON:?}: {open:#?}; blocked by {blocked:#?}");
    }
    started.elapsed()
}

/// The specialist's node and its workers' are all done.
fn assert_whole(event: &PlanEvent) {
    let done = event.nodes.iter().filter(|view| view.status == NodeStatus::Done).count();
    let phase_lead_and_leaves = 2 + LEAVES;
    assert_eq!(done, phase_lead_and_leaves, "{event:?}");
}
