//! Records that this version cannot read: requests that would change them are refused, what else is
//! decided leaves them out.

use super::fleet::{Fleet, create, human, po, reply};
use crate::error::ErrorCode;
use crate::held::{Held, Unread};
use crate::id::{AgentId, ProjectName};
use crate::ledger::{EventKind, RecordKey};
use crate::owner::Input;
use crate::request::{Op, ProjectCreate, Report};
use crate::trouble::Trouble;

fn hold(fleet: &mut Fleet, key: RecordKey) {
    let why = Unread::Newer { needs: 2, reads: 1 };
    fleet.records.hold(Held { name: format!("{key:?}"), key: Some(key), why });
}

#[test]
fn requests_changing_held_records_are_unavailable() {
    let mut fleet = Fleet::ready();
    let other = ProjectName::new("other").unwrap();
    hold(&mut fleet, RecordKey::Project(other.clone()));
    let wanted = Op::ProjectCreate(ProjectCreate { project: other.clone(), ..create(false) });
    let made = fleet.op(&human(), wanted.clone());
    assert_eq!(made.error, Some(ErrorCode::Unavailable), "{made:?}");
    assert!(made.detail.contains("needs schema version 2, this node reads 1"), "{made:?}");
    assert!(!fleet.records.projects.contains_key(&other));
    assert_eq!(fleet.records.held.len(), 1);
    assert_eq!(fleet.records.decisions.len(), 2, "another answer may be given later");
    fleet.records.held.clear();
    let made = fleet.op(&human(), wanted);
    assert_eq!(made.error, None, "{made:?}");
}

#[test]
fn requests_touching_held_records_are_unavailable() {
    let mut fleet = Fleet::ready();
    hold(&mut fleet, RecordKey::Agent(po()));
    let told = fleet.report(&po(), Report::Ready);
    assert_eq!(reply(&told).error, Some(ErrorCode::Unavailable), "{told:?}");
    let gone = fleet.op(&human(), Op::CircuitClose { agent: po() });
    assert_eq!(gone.error, Some(ErrorCode::Unavailable), "{gone:?}");
    assert!(gone.detail.contains("unless it is among"), "{gone:?}");
}

#[test]
fn non_request_inputs_ignore_held_records() {
    let mut fleet = Fleet::ready();
    hold(&mut fleet, RecordKey::Agent(AgentId::Go));
    let entry = fleet.one(Input::Started { epoch: 2, instance: "two".to_owned() });
    assert!(entry.records.is_empty() && entry.tells(EventKind::OwnerStarted), "{entry:?}");
    assert_eq!(fleet.records.held.len(), 1);
    let held = (0..12).map(|number| format!("record {number}")).collect();
    let entry = fleet.one(Input::Trouble(Trouble::RecordsHeld { held }));
    let told = &entry.events[0].reason;
    assert!(told.starts_with("records.held: 12 records are left as they are"), "{told}");
    assert!(told.contains("record 9") && !told.contains("record 10"), "{told}");
}
