//! Orders to merge without an approval that fits: each way is found (spec 10, invariant 19).

use super::assert_found;
use crate::change::{Approval, Change, ChangeStatus};
use crate::check::check_entry;
use crate::id::Principal;
use crate::ledger::{Entry, Record};
use crate::mail::MailBody;
use crate::owner::tests::changes::{apply, approve, ask, change, made, working};
use crate::records::Records;
use crate::time::BusTime;

/// The entry that orders a merge, and the records before it.
fn ordered() -> (Records, Entry) {
    let (mut fleet, _, [worker, _]) = working();
    let (_, waits) = change(&mut fleet, &worker, made(&["src/a"]));
    ask(&mut fleet, approve(&waits));
    let before = fleet.records.clone();
    let (entry, _) = ask(&mut fleet, apply(&waits));
    (before, entry)
}

fn of(entry: &mut Entry) -> &mut Change {
    let mut changes = entry.records.iter_mut().filter_map(|record| {
        if let Record::Change(change) = record { Some(&mut **change) } else { None }
    });
    changes.next().unwrap()
}

#[track_caller]
fn broken(text: &str, change: impl FnOnce(&mut Records, &mut Entry)) {
    let (mut before, mut entry) = ordered();
    assert_eq!(check_entry(&before, 1, &entry), [], "it was sound");
    change(&mut before, &mut entry);
    assert_found(&check_entry(&before, 9, &entry), 19, text);
}

fn approval(entry: &mut Entry, change: impl FnOnce(&mut Approval)) {
    change(of(entry).approval.as_mut().unwrap());
}

#[test]
fn unapproved_change_is_never_merged() {
    broken("nobody approved it", |_, entry| of(entry).approval = None);
    broken("approved it", |_, entry| {
        approval(entry, |it| it.by = Principal::Agent("GO".parse().unwrap()));
    });
    broken("something else", |_, entry| approval(entry, |it| it.digest = "0".repeat(64)));
    broken("1 of 2 people", |before, entry| {
        let new = of(entry);
        new.needed = 2;
        let old = before.changes.get(&new.id).unwrap().clone();
        before.put(Record::Change(Box::new(Change { needed: 2, ..old })));
    });
    broken("something else now", |_, entry| of(entry).needed = 0);
    broken("something else now", |_, entry| of(entry).made.action.files.clear());
    broken("not used in its time", |_, entry| approval(entry, |it| it.used = None));
    broken("not used in its time", |_, entry| approval(entry, |it| it.until = BusTime(1)));
    broken("its approval was used before", |before, entry| {
        let new = of(entry).clone();
        let status = ChangeStatus::Conflicted;
        before.put(Record::Change(Box::new(Change { status, ..new })));
    });
    broken("that is not approved", |_, entry| of(entry).status = ChangeStatus::Conflicted);
    broken("that is not approved", |_, entry| {
        entry.records.retain(|record| !matches!(record, Record::Change(_)));
    });
    broken("that is not approved", |_, entry| {
        for mail in &mut entry.mail {
            if let MailBody::Apply(order) = &mut mail.body {
                order.action.head = "0".repeat(40);
            }
        }
    });
}
