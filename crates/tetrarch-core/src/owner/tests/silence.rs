//! What the sweeper's findings lead to.

use super::fleet::{Fleet, create, human, id, po, success, tasks, topics};
use crate::id::AgentId;
use crate::ledger::{Entry, EventKind};
use crate::liveness::Liveness;
use crate::mail::MailBody;
use crate::owner::{Input, Silence};
use crate::plan::NodeStatus;
use crate::request::{Op, Report};

fn swept(fleet: &mut Fleet, agent: &AgentId, found: Silence) -> Entry {
    let epoch = fleet.agent(agent).epoch;
    fleet.one(Input::Swept { agent: agent.clone(), epoch, found })
}

#[test]
fn a_host_that_misses_windows_is_stale_and_active_again_when_it_is_heard_of() {
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
fn what_a_lost_host_ran_goes_on_elsewhere_under_the_same_names() {
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
fn what_no_host_can_take_waits_for_the_next_join() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let worker = fleet.worker(epic, "T1.1");
    let entry = swept(&mut fleet, &id("HO@h1"), Silence::Long { missed: 3 });
    assert_eq!(topics(&entry, &po()), ["agent.offline"]);
    assert_eq!(fleet.agent(&worker).liveness, Liveness::Offline);
    fleet.join("h2", "life1", 20);
    assert_eq!(fleet.agent(&worker).placement.as_ref().unwrap().host.as_str(), "h2");
}

#[test]
fn a_finding_of_an_earlier_epoch_changes_nothing() {
    let mut fleet = Fleet::ready();
    let h1 = id("HO@h1");
    let late = Input::Swept { agent: h1.clone(), epoch: 1, found: Silence::Long { missed: 3 } };
    fleet.join("h1", "life2", 20);
    assert_eq!(fleet.one(late).records, []);
    assert_eq!(fleet.agent(&h1).liveness, Liveness::Active);
}

#[test]
fn a_silent_external_agent_has_to_register_again() {
    let mut fleet = Fleet::new();
    fleet.op(&human(), Op::ProjectCreate(create(true)));
    fleet.op(&po().into(), Op::AgentRegister);
    fleet.one(Input::Heard { agent: po(), epoch: 1 });
    swept(&mut fleet, &po(), Silence::Begun { missed: 1 });
    swept(&mut fleet, &po(), Silence::Long { missed: 3 });
    assert_eq!(fleet.agent(&po()).liveness, Liveness::Offline);
    let entry = fleet.one(Input::Heard { agent: po(), epoch: 1 });
    assert_eq!(entry.records, [], "an offline session never comes back");
    fleet.op(&po().into(), Op::AgentRegister);
    fleet.one(Input::Heard { agent: po(), epoch: 2 });
    assert_eq!(fleet.agent(&po()).liveness, Liveness::Active);
}

#[test]
fn mass_silence_is_told_to_people_and_changes_nobody() {
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
