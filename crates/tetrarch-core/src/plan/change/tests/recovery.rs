//! What becomes of a node's own recovery policy when its plan changes.

use serde_json::json;

use super::{Record, assert_invalid, id, ids, merge, new, node};
use crate::overseer::Rung;
use crate::overseer::policy::RecoveryPolicy;
use crate::plan::change::{Change, ChangeError};
use crate::plan::{Node, NodeStatus};

#[test]
fn parts_inherit_their_tasks_recovery_policy() {
    let mut record = Record::of(&["P1", "T1.1", "T1.2", "T1.3"]);
    let own = RecoveryPolicy { max_retries: Some(1), ..RecoveryPolicy::default() };
    record.nodes.get_mut(&id("T1.1")).unwrap().recovery = own;
    let parts = vec![new(json!({})), new(json!({"recoveryPolicy": "escalate"}))];
    let cut = record.to(&Change::Split { node: id("T1.1"), subtasks: parts });
    let of = |own: &str| cut.defined.iter().find(|node| node.id == id(own)).unwrap().recovery;
    let other = RecoveryPolicy { from: Some(Rung::Escalate), ..RecoveryPolicy::default() };
    assert_eq!((of("T1.1"), of("S1.1.1"), of("S1.1.2")), (own, own, other));
    assert_invalid(&record, &merge(&["T1.1", "T1.2"]), "differ in recoveryPolicy");
    let same = record.to(&merge(&["T1.2", "T1.3"]));
    assert_eq!(same.cancelled, ids(&["T1.3"]));
}

#[test]
fn changed_recovery_policy_redefines_the_node() {
    let record = Record::of(&["P1", "T1.1", "T1.2 in_progress"]);
    let own = RecoveryPolicy { reassign: Some(false), ..RecoveryPolicy::default() };
    let with = |name: &str| record.file(&[], vec![Node { recovery: own, ..node(name, &[]) }]);
    let changed = record.to(&with("T1.1"));
    assert_eq!(changed.redefined, [(id("T1.1"), NodeStatus::Todo)]);
    assert_eq!(changed.defined[0].recovery, own);
    assert!(
        matches!(record.try_at(5, &with("T1.2")), Err(ChangeError::Conflict(_))),
        "in progress"
    );
}
