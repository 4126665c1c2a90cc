//! Which rows move with which records, and the names people write.

use super::*;
use crate::samples::{agent, worker};
use tetrarch_core::agent::{Agent, Host, Placement};
use tetrarch_core::brief::Usage;
use tetrarch_core::id::Ulid;
use tetrarch_core::liveness::Liveness;
use tetrarch_core::run::{RunState, RunStatus};

#[test]
fn node_state_change_updates_all_ancestors() {
    let epic = EpicId(Ulid::from_parts(1, 1));
    let changed = [RecordKey::NodeState(epic, NodeId::subtask(1, 2, 3)), RecordKey::Goal(epic)];
    let nodes = [NodeId::phase(1), NodeId::task(1, 2), NodeId::subtask(1, 2, 3)];
    let expected: BTreeSet<RowKey> =
        nodes.into_iter().map(|node| RowKey::Node(epic, node)).collect();
    let nothing = StateSnapshot::default();
    assert_eq!(affected(&nothing, &changed, ResourceKind::Nodes), expected);
    let goals = affected(&nothing, &changed, ResourceKind::Goals);
    assert_eq!(goals, BTreeSet::from([RowKey::Goal(epic)]));
    assert!(affected(&nothing, &changed, ResourceKind::Runs).is_empty());
}

#[test]
fn row_updates_with_records_it_depends_on() {
    let (host, run) = (HostName::new("box").unwrap(), RunId(Ulid::from_parts(1, 2)));
    let mut snapshot = StateSnapshot::default();
    snapshot.records.put(Record::RunStatus(Box::new(RunStatus {
        id: run,
        agent: AgentId::Worker(Ulid::from_parts(1, 3)),
        state: RunState::Running,
        cancel_kept: false,
        dropped: false,
        since: BusTime(0),
        reminded: None,
        usage: Usage::default(),
        result: None,
        archive: None,
    })));
    let changed = [RecordKey::Agent(AgentId::Ho(host.clone())), RecordKey::RunStatus(run)];
    let agents = [AgentId::Ho(host.clone()), AgentId::Worker(Ulid::from_parts(1, 3))];
    assert_eq!(
        affected(&snapshot, &changed, ResourceKind::Agents),
        agents.into_iter().map(RowKey::Agent).collect()
    );
    assert_eq!(
        affected(&snapshot, &changed, ResourceKind::Hosts),
        BTreeSet::from([RowKey::Host(host)])
    );
}

#[test]
fn row_names_are_the_names_people_type() {
    assert!(RowKey::Agent(AgentId::Go).is_named("actor:system:overseer"));
    assert!(RowKey::Host(HostName::new("box").unwrap()).is_named("HO@box"));
    assert!(!RowKey::Host(HostName::new("box").unwrap()).is_named("bo"));
    assert_eq!(cost(2_500_000), "$2.5000");
    assert_eq!(cost(100), "$0.0001");
}

#[test]
fn host_shows_the_places_that_are_taken_and_counts_no_orchestrator() {
    let host = HostName::new("box").unwrap();
    let mut snapshot = StateSnapshot::default();
    snapshot.records.put(Record::Host(Host {
        name: host.clone(),
        instance: String::new(),
        labels: Vec::new(),
        capacity: 8,
        address: String::new(),
        joined: BusTime(0),
        drained: false,
    }));
    let placement = Some(Placement { host: host.clone(), host_epoch: 1 });
    let agents = [
        agent("HO@box", Some("GO"), Liveness::Active),
        agent("PO-demo", Some("GO"), Liveness::Active),
        agent("IO@ada", Some("GO"), Liveness::Active),
        worker(1, 1, Liveness::Active),
    ];
    for agent in agents {
        let placed = Agent { placement: placement.clone(), ..agent };
        snapshot.records.put(Record::Agent(Box::new(placed)));
    }
    let look = RowOptions { now: BusTime(0), whole: false };
    let row = host_row(&snapshot, &host, look).unwrap().unwrap();
    assert_eq!((&row.cells[2], &row.cells[3]), (&Cell::from("1"), &Cell::from("8")));
}
