//! The ground moves under a change, or not (spec 05, `E_CONFLICT`).

use serde_json::json;

use super::*;

/// A plan whose first task was looked at in version 3.
fn at(lines: &[&str]) -> Record {
    Record::of(lines)
}

#[track_caller]
fn assert_conflict(record: &Record, base: u32, wanted: &Change, words: &str) {
    match record.try_at(base, wanted) {
        Err(error @ ChangeError::Conflict(_)) => {
            assert!(error.to_string().contains(words), "{error}");
            let refusal = error.refusal(record.version);
            assert_eq!(
                (refusal.code, refusal.version),
                (ErrorCode::Conflict, Some(record.version))
            );
            assert!(refusal.detail.contains("has version 5"), "{}", refusal.detail);
        }
        other => panic!("{words}: {other:?}"),
    }
}

fn renamed(own: &str, deps: &[&str]) -> Node {
    Node { name: "other".to_owned(), ..node(own, deps) }
}

#[test]
fn definition_changed_since_the_base_is_a_conflict() {
    let mut record = at(&["P1", "T1.1", "T1.2"]);
    record.nodes.get_mut(&id("T1.1")).unwrap().defined = 4;
    let wanted = record.file(&[], vec![renamed("T1.1", &[])]);
    assert_conflict(&record, 3, &wanted, "T1.1 was redefined in version 4");
    assert_eq!(record.try_at(4, &wanted).unwrap().redefined.len(), 1);
    // What somebody else changed is no part of this change.
    let elsewhere = add("P1", json!({"deps": ["T1.2"]}));
    assert_eq!(record.try_at(1, &elsewhere).unwrap().added.len(), 1);
    let on_it = add("P1", json!({"deps": ["T1.1"]}));
    assert_conflict(&record, 3, &on_it, "T1.1 was redefined");
    assert_conflict(&record, 3, &split("T1.1", 1), "T1.1 was redefined");
    assert_conflict(&record, 3, &record.file(&["T1.1"], Vec::new()), "T1.1 was redefined");
}

#[test]
fn node_started_or_ended_since_the_base_is_a_conflict() {
    for (status, words) in [
        ("in_progress", "T1.1 was started in version 4"),
        ("done", "T1.1 is done since version 4"),
        ("cancelled", "T1.1 is cancelled since version 4"),
    ] {
        let mut record = at(&["P1", &format!("T1.1 {status}"), "T1.2"]);
        let leaf = record.leaf("T1.1");
        (leaf.begun, leaf.settled) = if status == "in_progress" { (4, 0) } else { (2, 4) };
        for wanted in [
            record.file(&[], vec![renamed("T1.1", &[])]),
            add("P1", json!({"deps": ["T1.1"]})),
            split("T1.1", 1),
            merge(&["T1.2", "T1.1"]),
        ] {
            assert_conflict(&record, 3, &wanted, words);
        }
    }
    // It failed meanwhile and is ready again: what was seen is not what is there.
    let mut record = at(&["P1", "T1.1 queued"]);
    record.leaf("T1.1").begun = 4;
    let wanted = record.file(&[], vec![renamed("T1.1", &[])]);
    assert_conflict(&record, 3, &wanted, "T1.1 was started in version 4");
    assert_eq!(record.try_at(4, &wanted).unwrap().redefined.len(), 1);
}

#[test]
fn busy_plan_does_not_starve_a_change() {
    let mut record =
        at(&["P1", "T1.1 done", "T1.2 in_progress", "T1.3 in_progress", "P2: P1", "T2.1"]);
    for (leaf, begun) in [("T1.2", 4), ("T1.3", 5)] {
        record.leaf(leaf).begun = begun;
    }
    let wanted = record.file(&[], vec![renamed("T2.1", &[])]);
    assert_eq!(record.try_at(2, &wanted).unwrap().redefined.len(), 1, "rebased");
    // The phase has been at work since version 2, whatever begins below it now.
    let waits = record.file(&[], vec![node("T2.1", &["P1"])]);
    assert_eq!(record.try_at(2, &waits).unwrap().redefined.len(), 1);
    assert_conflict(&record, 1, &waits, "P1 was started in version 2");
}

#[test]
fn node_in_progress_is_never_changed() {
    let mut record = at(&["P1", "T1.1 in_progress", "T1.2 queued"]);
    record.leaf("T1.1").assignee = Some("PO-demo".parse().unwrap());
    for wanted in [
        record.file(&[], vec![renamed("T1.1", &[])]),
        record.file(&["T1.1"], Vec::new()),
        split("T1.1", 2),
        merge(&["T1.1", "T1.2"]),
        merge(&["T1.2", "T1.1"]),
    ] {
        assert_conflict(&record, 5, &wanted, "T1.1 is in progress (PO-demo)");
    }
    record.leaf("T1.1").assignee = None;
    assert_conflict(&record, 5, &split("T1.1", 2), "T1.1 is in progress; do not");
}

#[test]
fn nodes_newer_than_the_base_are_kept() {
    let mut record = at(&["P1", "T1.1", "T1.2"]);
    let wanted = record.file(&["T1.2"], vec![node("T1.4", &[])]);
    let late = record.nodes.get_mut(&id("T1.2")).unwrap();
    (late.added, late.defined) = (4, 4);
    let changed = record.try_at(3, &wanted).unwrap();
    assert!(changed.cancelled.is_empty(), "its author cannot have meant it");
    assert_eq!(changed.added, ids(&["T1.4"]));
    assert_eq!(record.try_at(4, &wanted).unwrap().cancelled, ids(&["T1.2"]));
    let own = record.file(&[], vec![renamed("T1.2", &[])]);
    assert_conflict(&record, 3, &own, "T1.2 was redefined in version 4");
}

#[test]
fn parent_cancelled_meanwhile_is_a_conflict() {
    let record = at(&["P1", "T1.1", "P2", "T2.1 cancelled"]);
    assert_conflict(&record, 2, &add("P2", json!({})), "P2 is cancelled since version 3");
    assert_invalid(&record, &add("P2", json!({})), "P2 was cancelled");
}

#[test]
fn future_base_version_is_refused() {
    let record = at(&["P1", "T1.1"]);
    assert_conflict(&record, 6, &add("P1", json!({})), "version 6 does not exist");
}
