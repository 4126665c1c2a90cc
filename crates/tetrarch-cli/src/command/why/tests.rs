//! What belongs to a story and what does not.

use tetrarch_core::agent::{Agent, Placement};
use tetrarch_core::id::{CommitId, HostName, Principal, Ulid};
use tetrarch_core::ledger::{Entry, Event, EventKind, Record};
use tetrarch_core::liveness::Liveness;
use tetrarch_core::time::BusTime;

use super::story::{Focus, Story};
use super::*;
use crate::samples::worker;

fn entry(agents: &[Agent], events: Vec<Event>) -> Entry {
    let records = agents.iter().map(|agent| Record::Agent(Box::new(agent.clone()))).collect();
    Entry {
        commit: CommitId(Ulid::from_parts(1, 1)),
        epoch: 1,
        at: BusTime(0),
        intake_seq: 0,
        events,
        records,
        held: Vec::new(),
        dropped: Vec::new(),
        seals: Vec::new(),
        mail: Vec::new(),
        plans: Vec::new(),
        reviews: Vec::new(),
    }
}

fn event(kind: EventKind, agent: &str, reason: &str) -> Event {
    Event {
        kind,
        actor: Principal::Agent(AgentId::Go),
        agent: Some(agent.parse().unwrap()),
        run: None,
        epic: None,
        node: None,
        request: None,
        reason: reason.to_owned(),
        rule: String::new(),
    }
}

fn on(agent: &Agent, host: &str) -> Agent {
    let host = HostName::new(host).unwrap();
    Agent { placement: Some(Placement { host, host_epoch: 1 }), ..agent.clone() }
}

/// A worker is admitted on one host, moves to another when that is lost; its neighbour stays.
fn history(one: &Agent, other: &Agent) -> Vec<Entry> {
    let (id, beside) = (one.id.to_string(), other.id.to_string());
    vec![
        entry(&[], vec![event(EventKind::HostJoined, "HO@a", "a joined before anybody was on it")]),
        entry(
            &[on(one, "a"), on(other, "b")],
            vec![
                event(EventKind::AgentAdmitted, &id, "one admitted"),
                event(EventKind::AgentAdmitted, &beside, "other admitted"),
            ],
        ),
        entry(&[], vec![event(EventKind::AgentLiveness, "HO@b", "b is stale")]),
        entry(
            &[on(one, "b")],
            vec![
                event(EventKind::HostLeft, "HO@a", "a was lost"),
                event(EventKind::AgentReplaced, &id, "one goes on"),
            ],
        ),
        entry(&[], vec![event(EventKind::HostJoined, "HO@a", "a is back")]),
        entry(&[], vec![event(EventKind::Alert, "PO-demo", "a circuit opened")]),
        entry(&[], vec![event(EventKind::AgentReplaced, "PO-demo", "the parent's own affair")]),
    ]
}

fn told(focus: Focus, entries: &[Entry]) -> Vec<String> {
    let mut story = Story::new(focus);
    entries.iter().flat_map(|entry| story.read(entry)).map(|event| event.reason.clone()).collect()
}

#[test]
fn agent_story_includes_its_host_and_its_parents_circuit() {
    let (one, other) = (worker(1, 1, Liveness::Active), worker(2, 2, Liveness::Active));
    let entries = history(&one, &other);
    let of_one = told(Focus::Agent(one.id), &entries);
    assert_eq!(of_one, ["one admitted", "a was lost", "one goes on", "a circuit opened"]);
    let of_other = told(Focus::Agent(other.id), &entries);
    assert_eq!(of_other, ["other admitted", "b is stale", "a circuit opened"]);
}

#[test]
fn assignment_and_node_stories_include_serving_agents() {
    let (one, other) = (worker(1, 1, Liveness::Active), worker(2, 2, Liveness::Active));
    let entries = history(&one, &other);
    let work = one.work.clone().unwrap();
    let expected = ["one admitted", "a was lost", "one goes on", "a circuit opened"];
    assert_eq!(told(Focus::Attempt(one.id.clone(), work.assignment), &entries), expected);
    assert_eq!(told(Focus::Node(work.epic, work.node), &entries), expected);
    let moved_on = entry(std::slice::from_ref(&other), Vec::new());
    let later = [&entries[..2], &[moved_on], &entries[5..6]].concat();
    let elsewhere = Focus::Attempt(one.id, other.work.unwrap().assignment);
    assert_eq!(told(elsewhere, &later), [""; 0], "another attempt of the same agent");
}

#[test]
fn events_of_a_host_after_its_agent_ended_are_left_out() {
    let one = worker(1, 1, Liveness::Active);
    let ended = Agent { liveness: Liveness::Terminated, ..on(&one, "a") };
    let entries = [
        entry(&[on(&one, "a")], vec![event(EventKind::HostJoined, "HO@a", "a joined")]),
        entry(&[ended], vec![event(EventKind::AgentLiveness, "HO@a", "a is stale")]),
        entry(&[], vec![event(EventKind::HostLeft, "HO@a", "a left later")]),
        entry(&[], vec![event(EventKind::Alert, "PO-demo", "a circuit opened later")]),
    ];
    let work = one.work.unwrap();
    assert_eq!(told(Focus::Node(work.epic, work.node), &entries), ["a joined", "a is stale"]);
}

#[test]
fn story_targets_are_parsed_as_people_write_them() {
    let ulid = "01JD8Z5W6T4QK3M9X2V7B1N0AC";
    let read = |text: &str| WhyTarget::read(text);
    assert_eq!(read("GO"), Ok(WhyTarget::Agent(AgentId::Go)));
    let (epic, node) = (format!("goal_{ulid}").parse().unwrap(), "T1.2".parse().unwrap());
    assert_eq!(read(&format!("goal_{ulid}/T1.2")), Ok(WhyTarget::Node(epic, node)));
    assert!(matches!(read(&format!("run_{ulid}")), Ok(WhyTarget::Run(_))));
    assert!(matches!(read(&format!("asg_{ulid}")), Ok(WhyTarget::Assignment(_))));
    assert_eq!(read(&format!("goal_{ulid}")), Ok(WhyTarget::Goal(epic)));
    assert!(read("nobody").is_err());
}

#[test]
fn goal_story_includes_the_events_of_all_its_nodes_and_no_other_goals() {
    let work = worker(1, 1, Liveness::Active).work.unwrap();
    let of = |epic: EpicId, node: Option<&str>, reason: &str| Event {
        agent: None,
        epic: Some(epic),
        node: node.map(|node| node.parse().unwrap()),
        ..event(EventKind::PlanChanged, "GO", reason)
    };
    let other = "goal_01JD8Z5W6T4QK3M9X2V7B1N0AC".parse().unwrap();
    let events = vec![
        of(work.epic, None, "the goal was given"),
        of(work.epic, Some("T1.2"), "one of its nodes moved"),
        of(other, Some("T1.2"), "another goal's moved"),
    ];
    let said = told(Focus::Goal(work.epic), &[entry(&[], events)]);
    assert_eq!(said, ["the goal was given", "one of its nodes moved"]);
}
