//! What becomes of agents whose process or host is lost.

use super::fleet::{
    Fleet, create, equipped, human, id, join, po, project, reply, request, success, tasks, topics,
    wish,
};
use crate::agent::{Ending, Hosting};
use crate::brief::Outcome;
use crate::error::ErrorCode;
use crate::id::{AgentId, Principal};
use crate::intensity::FailureCause;
use crate::ledger::Entry;
use crate::limits::{COMMIT_BYTES_MAX, LOST_MAX, RECOVERED_MAX};
use crate::liveness::Liveness;
use crate::mail::{Launch, MailBody};
use crate::owner::hosts::{host_views, place_again};
use crate::owner::{Input, is_due};
use crate::plan::NodeStatus;
use crate::request::{Op, Report, RequestBody, SubagentWish};
use crate::role::Role;
use crate::run::{RunEvent, RunState};
use crate::step::Draft;
use crate::time::Millis;

fn launches(entry: &Entry) -> Vec<Launch> {
    let all = entry.mail.iter().filter_map(|mail| {
        if let MailBody::Launch(launch) = &mail.body { Some((**launch).clone()) } else { None }
    });
    all.collect()
}

fn gone() -> Report {
    Report::Gone { cause: "the host was stopped".to_owned() }
}

#[test]
fn next_life_of_a_host_takes_over_its_agents() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let worker = fleet.worker(epic, "T1.1");
    let before = fleet.agent(&worker).clone();
    let run = fleet.run_of(&worker);
    let entry = fleet.join("h1", "life2", 20);
    let after = fleet.agent(&worker);
    assert_eq!((after.epoch, after.liveness), (2, Liveness::Register));
    assert_ne!(after.session, before.session);
    assert_eq!((&after.parent, &after.account), (&before.parent, &before.account));
    assert_eq!(fleet.agent(&po()).epoch, 2);
    let next = &fleet.records.runs[&fleet.run_of(&worker)];
    assert_eq!(next.continues, Some(run));
    assert_eq!(fleet.records.run_status[&run].state, RunState::Orphaned);
    assert_eq!(launches(&entry).len(), 2);
    assert!(launches(&entry).iter().all(|launch| launch.host_epoch == 2));
    let seal = entry.seals.iter().find(|seal| seal.agent == worker).unwrap();
    assert_eq!((seal.epoch, seal.ends, seal.run), (2, Some(run), Some(next.id)));
    assert_eq!(fleet.node(epic, "T1.1").status, NodeStatus::InProgress);

    fleet.report(&worker, Report::Ready);
    fleet.end(&worker, success("done"));
    assert_eq!(fleet.node(epic, "T1.1").status, NodeStatus::Done);
}

#[test]
fn repeated_join_changes_nothing() {
    let mut fleet = Fleet::ready();
    let before = fleet.agent(&po()).epoch;
    let again = fleet.join("h1", "life1", 20);
    assert_eq!(launches(&again).len(), 0);
    assert_eq!(reply(&again).agent_epoch, Some(1));
    assert_eq!(fleet.agent(&po()).epoch, before);
    let ho = Principal::Agent(id("HO@h1"));
    let late = fleet.asking(&ho, RequestBody::Op(join("life0", 0, 20)));
    assert_eq!(reply(&fleet.one(late)).error, Some(ErrorCode::Superseded));
    let foreign = fleet.asking(&human(), RequestBody::Op(join("life1", 1, 20)));
    assert_eq!(reply(&fleet.one(foreign)).error, Some(ErrorCode::Unauthorized));
}

#[test]
fn full_host_takes_its_own_agents_back() {
    let mut fleet = Fleet::new();
    fleet.join("h1", "life1", 3);
    fleet.op(&human(), Op::ProjectCreate(create(false)));
    fleet.report(&po(), Report::Ready);
    let epic = fleet.goal(tasks(3));
    for on in ["T1.1", "T1.2", "T1.3"] {
        fleet.worker(epic, on);
    }
    let entry = fleet.join("h1", "life2", 3);
    assert_eq!(launches(&entry).len(), 4);
    let entry = fleet.join("h1", "life3", 2);
    assert_eq!(launches(&entry).len(), 3, "the orchestrator, and no more than it has places now");
    let offline = fleet.records.offline().count();
    assert_eq!(offline, 1);
}

#[test]
fn agents_of_a_departed_host_move() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let worker = fleet.worker(epic, "T1.1");
    fleet.join("h2", "life1", 20);
    let entry = fleet.report(&id("HO@h1"), gone());
    assert_eq!(fleet.agent(&id("HO@h1")).liveness, Liveness::Terminated);
    let hosts: Vec<String> = launches(&entry)
        .iter()
        .map(|launch| format!("{} {}", launch.agent, launch.epoch))
        .collect();
    assert_eq!(hosts, [format!("{} 2", po()), format!("{worker} 2")]);
    assert_eq!(topics(&entry, &id("HO@h2")), ["launch", "launch"]);
}

#[test]
fn agents_without_a_host_are_offline_until_one_joins() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let worker = fleet.worker(epic, "T1.1");
    let waiting = fleet.spawn(&po(), request(epic, "-", vec![wish(Role::Worker)]));
    let waiting = waiting.spawned[0].agent.clone();
    let entry = fleet.report(&id("HO@h1"), gone());
    for agent in [&po(), &worker, &waiting] {
        assert_eq!(fleet.agent(agent).liveness, Liveness::Offline);
    }
    assert_eq!(topics(&entry, &po()), ["agent.offline", "agent.offline"]);
    assert_eq!(topics(&entry, &id("GO")), ["agent.offline"]);
    assert_eq!(fleet.records.run_status[&fleet.run_of(&worker)].state, RunState::Running);

    // A host that was never seen before.
    let entry = fleet.join("h7", "life1", 20);
    assert_eq!(topics(&entry, &id("HO@h7")), ["launch", "launch", "launch", "reply"]);
    assert_eq!(fleet.agent(&worker).epoch, 2);
}

#[test]
fn many_agents_are_recovered_in_portions() {
    let mut fleet = Fleet::new();
    fleet.join("h1", "life1", 100);
    for human in 0..RECOVERED_MAX + 3 {
        let name = crate::id::HumanName::new(&format!("h{human}")).unwrap();
        let joined = fleet.op(&Principal::Human(name.clone()), Op::HumanJoin { human: name });
        assert_eq!(joined.error, None);
    }
    let entry = fleet.join("h1", "life2", 100);
    assert_eq!(launches(&entry).len(), RECOVERED_MAX);
    assert!(is_due(&fleet.records, &fleet.policy));
    let entry = fleet.one(Input::Tick);
    assert_eq!(launches(&entry).len(), 3);
    assert!(!is_due(&fleet.records, &fleet.policy));
    assert_eq!(fleet.one(Input::Tick).records, [], "a second tick finds nothing to do");
}

#[test]
fn crowded_host_is_lost_in_portions() {
    let mut fleet = Fleet::new();
    fleet.join("h1", "life1", 1000);
    let people = 3 * LOST_MAX + 1;
    for human in 0..people {
        let name = crate::id::HumanName::new(&format!("h{human}")).unwrap();
        fleet.op(&Principal::Human(name.clone()), Op::HumanJoin { human: name });
    }
    let mut entry = fleet.report(&id("HO@h1"), gone());
    let mut told = 0;
    for portion in 1.. {
        let weight = super::bounds::size(&entry);
        assert!(weight < COMMIT_BYTES_MAX, "{weight}");
        told += topics(&entry, &id("GO")).iter().filter(|topic| **topic == "agent.offline").count();
        assert_eq!(told, people.min(portion * LOST_MAX));
        assert_eq!(fleet.records.offline().count(), told);
        if !is_due(&fleet.records, &fleet.policy) {
            break;
        }
        entry = fleet.one(Input::Tick);
    }
    assert_eq!(told, people);
    assert_eq!(fleet.one(Input::Tick).records, [], "a tick more finds nothing to do");
}

#[test]
fn offline_agents_resume_within_host_capacity() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let workers: Vec<AgentId> = (0..3)
        .map(|_| {
            let answer = fleet.spawn(&po(), request(epic, "-", vec![wish(Role::Worker)]));
            answer.spawned[0].agent.clone()
        })
        .collect();
    fleet.report(&id("HO@h1"), gone());
    assert_eq!(fleet.records.offline().count(), 4, "three workers and their orchestrator");
    fleet.join("h2", "life1", 1);
    assert_eq!(fleet.records.offline().count(), 2, "one has a place, the orchestrator needs none");
    fleet.join("h3", "life1", 2);
    assert_eq!(fleet.records.offline().count(), 0);
    assert!(workers.iter().all(|worker| fleet.agent(worker).epoch == 2));
}

#[test]
fn lost_host_does_not_undo_a_stop() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let worker = fleet.worker(epic, "T1.1");
    let run = fleet.run_of(&worker);
    fleet.report(
        &worker,
        Report::Run {
            run,
            event: RunEvent::CancelRequested,
            reason: "enough".to_owned(),
            usage: Default::default(),
        },
    );
    fleet.join("h1", "life2", 20);
    assert_eq!(fleet.agent(&worker).liveness, Liveness::Terminated);
    assert_eq!(fleet.node(epic, "T1.1").blocker.as_ref().unwrap().kind, "stopped");
}

#[test]
fn crashed_agent_resumes_in_its_next_session_same_attempt() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let worker = fleet.worker(epic, "T1.1");
    let first = fleet.run_of(&worker);
    let crash = || RequestBody::Report(Report::Crashed { cause: "signal 11".to_owned() });
    let again = fleet.asking(&Principal::Agent(worker.clone()), crash());
    let entry = fleet.report(&worker, Report::Crashed { cause: "signal 11".to_owned() });
    assert_eq!(topics(&entry, &po()), ["agent.crashed"]);
    let [launch] = &launches(&entry)[..] else { panic!("one launch") };
    assert_eq!((&launch.agent, launch.epoch), (&worker, 2));
    let state = fleet.node(epic, "T1.1");
    assert_eq!((state.status, state.attempts), (NodeStatus::InProgress, 1));
    let second = fleet.run_of(&worker);
    assert_eq!(fleet.records.runs[&second].continues, Some(first));
    assert_eq!(fleet.records.run_status[&first].state, RunState::Orphaned);
    let late = fleet.one(again);
    assert_eq!(late.records, [], "its session is over, and nothing changes");
}

#[test]
fn wall_clock_continues_in_the_next_session() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let wall = Some(Millis(60_000));
    let wanted = SubagentWish { wall, ..wish(Role::Worker) };
    let answer = fleet.spawn(&po(), request(epic, "T1.1", vec![wanted]));
    let worker = answer.spawned[0].agent.clone();
    let first = fleet.records.runs[&fleet.run_of(&worker)].clone();
    assert_eq!(first.brief.wall, wall);
    fleet.report(&worker, Report::Ready);
    fleet.now.0 += 20_000;
    fleet.report(&worker, Report::Crashed { cause: "signal 11".to_owned() });
    let second = &fleet.records.runs[&fleet.run_of(&worker)];
    let passed = second.created - first.created;
    assert!(passed >= Millis(20_000), "{passed:?}");
    assert_eq!(second.brief.wall, Some(Millis(60_000 - passed.0)));
    assert_eq!(second.brief.goal, first.brief.goal);
}

#[test]
fn crashed_orchestrator_resumes_where_it_was() {
    let mut fleet = Fleet::new();
    fleet.join("h1", "life1", 1);
    fleet.op(&human(), Op::ProjectCreate(create(false)));
    fleet.report(&po(), Report::Ready);
    let entry = fleet.report(&po(), Report::Crashed { cause: "a bug".to_owned() });
    assert_eq!(launches(&entry).len(), 1, "its own place is free for it, also on a full host");
    assert_eq!((fleet.agent(&po()).epoch, fleet.agent(&po()).liveness), (2, Liveness::Register));

    let mut fleet = Fleet::new();
    fleet.op(&human(), Op::ProjectCreate(create(true)));
    fleet.one(Input::Heard { agent: po(), epoch: 1, session: None });
    let registered = fleet.op(&po().into(), Op::AgentRegister);
    assert_eq!(registered.error, None);
    fleet.one(Input::Heard { agent: po(), epoch: 1, session: None });
    fleet.report(&po(), Report::Crashed { cause: "a bug".to_owned() });
    assert_eq!(fleet.agent(&po()).liveness, Liveness::Offline, "it has to register again");
    assert_eq!(fleet.agent(&po()).hosting, Hosting::External);
    fleet.op(&po().into(), Op::AgentRegister);
    fleet.one(Input::Heard { agent: po(), epoch: 2, session: None });
    assert_eq!(fleet.agent(&po()).liveness, Liveness::Active);
}

#[test]
fn ending_an_agent_ends_its_descendants() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(2));
    let specialist = fleet.member(epic, "T1.1", Role::Specialist);
    let child = fleet.sponsored(epic, &specialist).spawned[0].agent.clone();
    fleet.report(&child, Report::Ready);
    let run = fleet.run_of(&child);
    let entry = fleet.end(&specialist, success("without it"));
    assert_eq!(fleet.agent(&child).liveness, Liveness::Terminated);
    assert_eq!(fleet.node(epic, "T1.3").status, NodeStatus::Cancelled);
    assert_eq!(fleet.node(epic, "T1.1").status, NodeStatus::Done);
    assert_eq!(fleet.records.run_status[&run].state, RunState::Orphaned);
    assert_eq!(topics(&entry, &id("HO@h1")), ["kill"]);
    assert_eq!(fleet.agent(&specialist).slots, []);

    let specialist = fleet.member(epic, "T1.2", Role::Specialist);
    let child = fleet.sponsored(epic, &specialist).spawned[0].agent.clone();
    fleet.op(&human(), Op::ProjectRetire { project: project() });
    for agent in [&po(), &specialist, &child] {
        assert_eq!(fleet.agent(agent).liveness, Liveness::Terminated);
    }
    assert_eq!(fleet.node(epic, "T1.2").status, NodeStatus::Cancelled);
}

#[test]
fn replacement_keeps_slot_and_children() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let specialist = fleet.member(epic, "T1.1", Role::Specialist);
    let child = fleet.sponsored(epic, &specialist).spawned[0].agent.clone();
    fleet.join("h1", "life2", 20);
    assert_eq!(fleet.agent(&po()).slots[0].child, specialist);
    assert_eq!(fleet.agent(&specialist).slots[0].child, child);
    assert_eq!(fleet.agent(&child).epoch, 2);
    let failed = crate::brief::RunResult::ended(Outcome::Failure, "no");
    fleet.report(&child, Report::Ready);
    fleet.end(&child, failed);
    assert_eq!(fleet.agent(&specialist).slots, []);
}

#[test]
fn crashing_host_counts_as_lost() {
    let mut fleet = Fleet::ready();
    fleet.report(&id("HO@h1"), Report::Crashed { cause: "a bug".to_owned() });
    assert_eq!(fleet.agent(&id("HO@h1")).liveness, Liveness::Terminated);
    assert_eq!(fleet.agent(&po()).liveness, Liveness::Offline);
    let AgentId::Ho(host) = id("HO@h1") else { unreachable!("it is a host's") };
    assert_eq!(fleet.records.placed_on(&host).count(), 0);
}

#[test]
fn agents_of_a_lost_host_are_spread_over_the_others() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let worker = fleet.worker(epic, "T1.1");
    for host in ["h2", "h3"] {
        fleet.join(host, "life1", 20);
    }
    let draft = Draft::new(&fleet.records, fleet.now, human());
    let mut views = host_views(&draft);
    let mut agent = fleet.agent(&worker).clone();
    agent.ending =
        Some(Ending { cause: FailureCause::HostLost, reason: String::new(), until: fleet.now });
    let mut next = || place_again(&draft, &mut views, &agent).unwrap().host.to_string();
    assert_eq!([next(), next(), next(), next()], ["h2", "h3", "h2", "h3"]);
}

#[test]
fn foreign_failure_is_not_charged() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let worker = fleet.worker(epic, "T1.1");
    for life in 2..8 {
        fleet.join("h1", &format!("life{life}"), 20);
        let cause = crate::request::HOST_RESTART.to_owned();
        fleet.report(&worker, Report::Crashed { cause });
    }
    assert!(!fleet.agent(&po()).circuit.is_open());
    assert_eq!(fleet.agent(&po()).circuit.failures.times(), []);
}

#[test]
fn losing_a_busy_host_opens_no_circuit() {
    let mut fleet = Fleet::new();
    fleet.join("h1", "life1", 20);
    let mut lost = Vec::new();
    for n in 0..4 {
        let project = crate::id::ProjectName::new(&format!("p{n}")).unwrap();
        let wanted = crate::request::ProjectCreate { project: project.clone(), ..create(false) };
        assert_eq!(fleet.op(&human(), Op::ProjectCreate(wanted)).error, None);
        let po = AgentId::Po(project.clone());
        fleet.report(&po, Report::Ready);
        let plan = Box::new(equipped(crate::plan::schema::parse(&tasks(3)).unwrap()));
        let epic = fleet.op(&human(), Op::GoalCreate { project, plan }).epic.unwrap();
        for on in ["T1.1", "T1.2", "T1.3"] {
            let asked = request(epic, on, vec![wish(Role::Worker)]);
            let worker = fleet.spawn(&po, asked).spawned[0].agent.clone();
            fleet.report(&worker, Report::Ready);
            lost.push(worker);
        }
        lost.push(po);
    }
    fleet.join("h2", "life1", 20);
    let entry = fleet.one(Input::Swept {
        agent: id("HO@h1"),
        epoch: 1,
        found: crate::owner::Silence::Long { missed: 3 },
    });
    assert_eq!(launches(&entry).len(), lost.len(), "all of them go on at once");
    for agent in &lost {
        assert_eq!(
            (fleet.agent(agent).epoch, fleet.agent(agent).liveness.as_str()),
            (2, "register")
        );
    }
    let open = fleet.records.agents.values().filter(|agent| agent.circuit.is_open());
    assert_eq!(open.count(), 0);
    let counted: usize =
        fleet.records.agents.values().map(|agent| agent.circuit.failures.times().len()).sum();
    assert_eq!(counted, 0, "a lost host is nobody's failure");
    assert!(entry.events.iter().all(|event| event.kind != crate::ledger::EventKind::Alert));
}
