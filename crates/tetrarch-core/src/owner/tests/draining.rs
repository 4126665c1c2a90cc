//! What hosts have room for, and hosts that people empty: whom they take, where their agents go on.

use super::fleet::{Fleet, create, human, id, po, reasons, request, success, tasks, wish};
use crate::agent::Agent;
use crate::error::{DenialReason, ErrorCode};
use crate::id::{AgentId, HostName, Principal, ProjectName};
use crate::intensity::FailureCause;
use crate::ledger::Record;
use crate::liveness::Liveness;
use crate::mail::OpReply;
use crate::owner::{Input, Silence};
use crate::request::{HostDrain, Op, ProjectCreate, Report};
use crate::role::Role;

fn drain(fleet: &mut Fleet, host: &str, undo: bool) -> OpReply {
    let host = HostName::new(host).unwrap();
    fleet.op(&human(), Op::HostDrain(HostDrain { host, undo, reason: "new disks".to_owned() }))
}

fn gone(fleet: &mut Fleet, agent: &AgentId) {
    fleet.report(agent, Report::Gone { cause: "rotated".to_owned() });
}

fn host_of(fleet: &Fleet, agent: &AgentId) -> Option<String> {
    fleet.agent(agent).placement.as_ref().map(|placement| placement.host.to_string())
}

#[test]
fn agents_of_a_drained_host_move_and_new_ones_start_elsewhere() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(3));
    let worker = fleet.worker(epic, "T1.1");
    let second = fleet.worker(epic, "T1.2");
    fleet.join("h2", "life1", 1);
    let said = drain(&mut fleet, "h1", false);
    assert_eq!(said.error, None, "{said:?}");
    assert_eq!(said.detail, "h1 accepts no more agents; 3 of its agents move to other hosts");
    let ending = fleet.agent(&worker).ending.clone().unwrap();
    assert_eq!(ending.cause, FailureCause::Rotated);
    assert!(fleet.agent(&id("HO@h1")).ending.is_none(), "the host itself stays");

    gone(&mut fleet, &worker);
    assert_eq!(host_of(&fleet, &worker).as_deref(), Some("h2"));
    gone(&mut fleet, &po());
    assert_eq!(host_of(&fleet, &po()).as_deref(), Some("h2"), "an orchestrator takes no place");
    fleet.report(&po(), Report::Ready);
    gone(&mut fleet, &second);
    let waits = fleet.agent(&second).liveness;
    assert_eq!(waits, Liveness::Offline, "h2 is full and h1 takes nobody");
    fleet.join("h3", "life1", 20);
    assert_eq!(host_of(&fleet, &second).as_deref(), Some("h3"));
    let other = fleet.worker(epic, "T1.3");
    assert_eq!(host_of(&fleet, &other).as_deref(), Some("h3"));
}

#[test]
fn rejoining_host_stays_drained_until_undone() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(2));
    drain(&mut fleet, "h1", false);
    gone(&mut fleet, &po());
    fleet.join("h1", "life2", 20);
    assert_eq!(fleet.agent(&po()).liveness, Liveness::Offline);
    assert_eq!(drain(&mut fleet, "h1", false).error, Some(ErrorCode::Conflict));

    assert_eq!(drain(&mut fleet, "h1", true).error, None);
    assert_eq!(drain(&mut fleet, "h1", true).error, Some(ErrorCode::Conflict));
    fleet.join("h1", "life3", 20);
    fleet.report(&po(), Report::Ready);
    let worker = fleet.worker(epic, "T1.1");
    assert_eq!(host_of(&fleet, &worker).as_deref(), Some("h1"));
}

#[test]
fn only_people_drain_known_hosts() {
    let mut fleet = Fleet::ready();
    assert_eq!(drain(&mut fleet, "nowhere", false).error, Some(ErrorCode::NotFound));
    let host = HostName::new("h1").unwrap();
    let op = Op::HostDrain(HostDrain { host, undo: false, reason: String::new() });
    let said = fleet.op(&Principal::Agent(po()), op);
    assert_eq!(said.error, Some(ErrorCode::Unauthorized), "{said:?}");
}

#[test]
fn only_agents_with_work_take_capacity() {
    let mut fleet = Fleet::new();
    fleet.join("h1", "life1", 2);
    for name in ["demo", "two", "three", "four"] {
        let project = ProjectName::new(name).unwrap();
        fleet.op(&human(), Op::ProjectCreate(ProjectCreate { project, ..create(false) }));
        fleet.report(&id(&format!("PO-{name}")), Report::Ready);
    }
    let epic = fleet.goal(tasks(3));
    let first = fleet.worker(epic, "T1.1");
    fleet.worker(epic, "T1.2");
    let full = fleet.spawn(&po(), request(epic, "T1.3", vec![wish(Role::Worker)]));
    assert_eq!(reasons(&full), [DenialReason::NoHostAvailable]);
    let fifth = ProjectCreate { project: ProjectName::new("five").unwrap(), ..create(false) };
    assert_eq!(fleet.op(&human(), Op::ProjectCreate(fifth)).error, None, "the host is full");
    fleet.end(&first, success("done"));
    assert!(fleet.spawn(&po(), request(epic, "T1.3", vec![wish(Role::Worker)])).accepted());
}

#[test]
fn absent_empty_host_is_forgotten_and_may_rejoin() {
    let mut fleet = Fleet::ready();
    fleet.join("h2", "life1", 2);
    let forget = |fleet: &mut Fleet, agent: &str| {
        fleet.op(&human(), Op::AgentRetire { agent: id(agent), reason: "sold".to_owned() })
    };
    for agent in ["HO@h1", "HO@h2"] {
        let lives = forget(&mut fleet, agent);
        assert_eq!(lives.error, Some(ErrorCode::Conflict), "{lives:?}");
        assert!(lives.detail.contains("is active"), "{lives:?}");
    }
    // The sessions of a lost host end in portions: some may be left.
    let mut lost = fleet.records.clone();
    let orchestrator = fleet.agent(&id("HO@h1")).clone();
    let offline = Agent { liveness: Liveness::Offline, ..orchestrator };
    lost.put(Record::Agent(Box::new(offline)));
    let before = std::mem::replace(&mut fleet.records, lost);
    let said = forget(&mut fleet, "HO@h1");
    assert!(said.detail.contains("agents are placed on h1 (1), such as PO-demo"), "{said:?}");
    fleet.records = before;
    let h2 = id("HO@h2");
    let epoch = fleet.agent(&h2).epoch;
    fleet.one(Input::Swept { agent: h2.clone(), epoch, found: Silence::Long { missed: 3 } });
    let forgotten = forget(&mut fleet, "HO@h2");
    assert_eq!((forgotten.error, forgotten.liveness), (None, Some(Liveness::Terminated)));
    assert!(!fleet.records.hosts.contains_key(&HostName::new("h2").unwrap()));
    assert_eq!(forget(&mut fleet, "HO@h2").error, Some(ErrorCode::NotFound));

    fleet.join("h2", "life2", 2);
    assert!(fleet.agent(&h2).epoch > epoch, "its name keeps its epochs");
    assert!(!fleet.records.hosts[&HostName::new("h2").unwrap()].drained);
}

#[test]
fn external_project_reply_explains_its_credential() {
    let mut fleet = Fleet::new();
    let made = fleet.op(&human(), Op::ProjectCreate(create(true)));
    assert_eq!(made.error, None);
    let again = fleet.op(&human(), Op::ProjectCreate(create(true)));
    assert_eq!(again.error, Some(ErrorCode::Conflict));
    for said in [made, again] {
        assert!(said.detail.contains("`tetrarch creds issue PO-demo`"), "{said:?}");
    }
}
