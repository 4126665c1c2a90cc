//! What the sweeper's findings lead to.

use serde_json::json;

use super::fleet::{Fleet, create, human, id, po, request, success, tasks, topics, wish};
use crate::id::AgentId;
use crate::ledger::{Entry, EventKind};
use crate::liveness::Liveness;
use crate::mail::MailBody;
use crate::owner::{Input, Silence, next_deadline, unanswering_hosts};
use crate::plan::NodeStatus;
use crate::request::{Op, Report};
use crate::role::Role;
use crate::run::RunState;
use crate::sweep::Absence;
use crate::time::BusTime;

fn swept(fleet: &mut Fleet, agent: &AgentId, found: Silence) -> Entry {
    let epoch = fleet.agent(agent).epoch;
    fleet.one(Input::Swept { agent: agent.clone(), epoch, found })
}

#[test]
fn host_missing_windows_turns_stale_and_active_again() {
    let mut fleet = Fleet::ready();
    let h1 = id("HO@h1");
    swept(&mut fleet, &h1, Silence::Begun { missed: 1 });
    assert_eq!(fleet.agent(&h1).liveness, Liveness::Stale);
    let entry = swept(&mut fleet, &h1, Silence::Begun { missed: 2 });
    assert_eq!(entry.records, [], "it is stale already");
    let entry = swept(&mut fleet, &h1, Silence::Broken);
    assert_eq!(fleet.agent(&h1).liveness, Liveness::Active);
    assert_eq!(entry.mail, [], "nobody lost anything");
    let entry = swept(&mut fleet, &h1, Silence::Broken);
    assert_eq!(entry.records, [], "it is active already");
}

#[test]
fn agents_of_a_lost_host_move_under_the_same_names() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let worker = fleet.worker(epic, "T1.1");
    fleet.join("h2", "life1", 20);
    let h1 = id("HO@h1");
    let entry = swept(&mut fleet, &h1, Silence::Long { missed: 3 });
    assert_eq!(fleet.agent(&h1).liveness, Liveness::Offline);
    assert!(entry.events.iter().any(|event| event.kind == EventKind::HostLeft));
    for agent in [&po(), &worker] {
        let agent = fleet.agent(agent);
        assert_eq!((agent.epoch, agent.liveness), (2, Liveness::Register));
        assert_eq!(agent.placement.as_ref().unwrap().host.as_str(), "h2");
    }
    assert_eq!(entry.seals.len(), 2);
    assert_eq!(fleet.node(epic, "T1.1").attempts, 1, "the loss of a host is no failed attempt");
    for agent in [&po(), &worker] {
        fleet.report(agent, Report::Ready);
    }
    fleet.end(&worker, success("done"));
    assert_eq!(fleet.node(epic, "T1.1").status, NodeStatus::Done);

    fleet.join("h1", "life2", 20);
    assert_eq!((fleet.agent(&h1).epoch, fleet.agent(&h1).liveness), (2, Liveness::Active));
}

#[test]
fn unplaceable_agents_wait_for_the_next_join() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let worker = fleet.worker(epic, "T1.1");
    let entry = swept(&mut fleet, &id("HO@h1"), Silence::Long { missed: 3 });
    assert_eq!(topics(&entry, &po()), ["agent.offline"]);
    assert_eq!(fleet.agent(&worker).liveness, Liveness::Offline);
    fleet.join("h2", "life1", 20);
    assert_eq!(fleet.agent(&worker).placement.as_ref().unwrap().host.as_str(), "h2");
}

#[test]
fn offline_worker_of_a_specialist_is_told_to_all_above_it() {
    let mut plan = tasks(1);
    plan["phases"][0]["tasks"][0]["role"] = json!("specialist");
    plan["phases"][0]["tasks"][0]["domain"] = json!("code");
    let (mut fleet, epic) = Fleet::with_goal(plan);
    let specialist = fleet.member(epic, "T1.1", Role::Specialist);
    let worker = fleet.sponsored(epic, &specialist).spawned[0].agent.clone();
    let entry = swept(&mut fleet, &id("HO@h1"), Silence::Long { missed: 3 });
    assert_eq!(fleet.agent(&worker).liveness, Liveness::Offline);
    let told = |agent: &AgentId| {
        let lost = entry.mail.iter().filter(|mail| {
            matches!(&mail.body, MailBody::AgentLost { agent: lost, crashed: false, .. } if lost == agent)
        });
        lost.map(|mail| mail.to.clone()).collect::<Vec<_>>()
    };
    assert_eq!(told(&worker), [specialist.clone().into(), po().into(), human()]);
    assert_eq!(told(&specialist), [po().into(), human()], "GO knows");
}

#[test]
fn finding_of_an_earlier_epoch_changes_nothing() {
    let mut fleet = Fleet::ready();
    let h1 = id("HO@h1");
    let late = Input::Swept { agent: h1.clone(), epoch: 1, found: Silence::Long { missed: 3 } };
    fleet.join("h1", "life2", 20);
    assert_eq!(fleet.one(late).records, []);
    assert_eq!(fleet.agent(&h1).liveness, Liveness::Active);
}

#[test]
fn silent_external_agent_must_register_again() {
    let mut fleet = Fleet::new();
    fleet.op(&human(), Op::ProjectCreate(create(true)));
    fleet.op(&po().into(), Op::AgentRegister);
    fleet.one(Input::Heard { agent: po(), epoch: 1, session: None });
    swept(&mut fleet, &po(), Silence::Begun { missed: 1 });
    swept(&mut fleet, &po(), Silence::Long { missed: 3 });
    assert_eq!(fleet.agent(&po()).liveness, Liveness::Offline);
    let entry = fleet.one(Input::Heard { agent: po(), epoch: 1, session: None });
    assert_eq!(entry.records, [], "an offline session never comes back");
    fleet.op(&po().into(), Op::AgentRegister);
    fleet.one(Input::Heard { agent: po(), epoch: 2, session: None });
    assert_eq!(fleet.agent(&po()).liveness, Liveness::Active);
}

#[test]
fn mass_silence_alerts_people_and_changes_nobody() {
    let mut fleet = Fleet::ready();
    let crate::id::Principal::Human(name) = human() else { panic!("a human") };
    fleet.op(&human(), Op::HumanJoin { human: name.clone() });
    fleet.report(&AgentId::Io(name), Report::Ready);
    let entry = fleet.one(Input::MassSilence { silent: 4, active: 10 });
    assert_eq!(entry.records, []);
    let told =
        |body: &MailBody| matches!(body, MailBody::Alert { text, .. } if text.contains("4 of 10"));
    assert_eq!(entry.mail.iter().filter(|mail| told(&mail.body)).count(), 1);
    assert!(entry.events.iter().any(|event| event.kind == EventKind::Alert));
}

/// A worker that its host does not have, ordered to end; with room on a second host.
fn absent(state: Liveness, absence: Absence) -> (Fleet, AgentId, Entry) {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    fleet.join("h2", "life1", 2);
    let answer = fleet.spawn(&po(), request(epic, "T1.1", vec![wish(Role::Worker)]));
    let worker = answer.spawned[0].agent.clone();
    if state == Liveness::Active {
        fleet.report(&worker, Report::Ready);
    }
    assert_eq!(fleet.agent(&worker).placement.as_ref().unwrap().host.as_str(), "h1");
    let entry = swept(&mut fleet, &worker, Silence::Absent(absence));
    (fleet, worker, entry)
}

#[test]
fn session_absent_on_a_live_host_is_ended_and_moves() {
    for (state, absence, host, charged) in [
        (Liveness::Register, Absence::NeverNamed, "h2", 0),
        (Liveness::Register, Absence::NotUp, "h1", 1),
        (Liveness::Register, Absence::Dropped, "h2", 0),
        (Liveness::Active, Absence::Dropped, "h2", 0),
    ] {
        let (mut fleet, worker, entry) = absent(state, absence);
        assert_eq!(topics(&entry, &id("HO@h1")), ["kill"], "{absence:?}");
        assert_eq!((fleet.agent(&worker).epoch, fleet.agent(&worker).liveness), (1, state));
        let again = swept(&mut fleet, &worker, Silence::Absent(absence));
        assert_eq!((again.records, again.mail), (vec![], vec![]), "{absence:?}: once");

        let gone = Report::Gone { cause: "ordered".to_owned() };
        let entry = fleet.report(&worker, gone);
        assert_eq!(topics(&entry, &id(&format!("HO@{host}"))), ["launch"], "{absence:?}");
        assert_eq!(fleet.agent(&worker).epoch, 2);
        assert_eq!(fleet.agent(&po()).circuit.failures.times().len(), charged, "{absence:?}");
    }
}

#[test]
fn session_that_registered_or_ended_meanwhile_is_not_absent() {
    for absence in [Absence::NeverNamed, Absence::NotUp] {
        let (mut fleet, worker, entry) = absent(Liveness::Active, absence);
        assert_eq!((entry.records, entry.mail), (vec![], vec![]), "{absence:?}: it came up");
        fleet.end(&worker, success("done"));
        let entry = swept(&mut fleet, &worker, Silence::Absent(Absence::Dropped));
        assert_eq!((entry.records, entry.mail), (vec![], vec![]), "it has ended");
    }
}

#[test]
fn host_not_confirming_a_gone_session_loses_its_lease() {
    let (mut fleet, worker, _) = absent(Liveness::Register, Absence::NeverNamed);
    let until = fleet.agent(&worker).ending.as_ref().unwrap().until;
    let ordered = fleet.ledger.last().unwrap().at;
    assert_eq!(until, ordered + fleet.policy.ending());
    let before = BusTime(until.0 - 1);
    let hosts = |fleet: &Fleet, at| {
        let found = unanswering_hosts(&fleet.records, at).into_iter();
        found.map(|(host, epoch)| (host.to_string(), epoch)).collect::<Vec<_>>()
    };
    assert_eq!(next_deadline(&fleet.records, &fleet.policy, before), Some(until));
    assert_eq!(hosts(&fleet, before), []);
    assert_eq!(hosts(&fleet, until), [("h1".to_owned(), 1)]);
    assert_eq!(next_deadline(&fleet.records, &fleet.policy, until), None, "it was acted on");

    // Its lease taken, it is silent for three windows.
    fleet.now = until;
    swept(&mut fleet, &id("HO@h1"), Silence::Long { missed: 3 });
    let agent = fleet.agent(&worker);
    assert_eq!((agent.epoch, agent.placement.as_ref().unwrap().host.as_str()), (2, "h2"));
    assert_eq!(hosts(&fleet, until), []);
}

#[test]
fn spawn_deadline_leaves_an_ordered_end_alone() {
    let (mut fleet, worker, _) = absent(Liveness::Register, Absence::NeverNamed);
    let run = fleet.run_of(&worker);
    fleet.now = fleet.records.run_status[&run].since + fleet.policy.deadlines.spawning;
    fleet.one(Input::Tick);
    assert_eq!(fleet.records.run_status[&run].state, RunState::Spawning);
}
