//! Changes before their branches: nothing is merged without the approval of a human for exactly that,
//! used once and in time (spec 09, Human gate; spec 10, invariants 10 and 19).

use crate::change::{ApplyOrder, Change, ChangeStatus};
use crate::ledger::{Entry, Record};
use crate::mail::MailBody;
use crate::records::Records;

use super::Findings;
use super::history::reachable;

/// Looks at the orders to merge that an entry gives.
pub(super) fn orders(before: &Records, entry: &Entry, found: &mut Findings) {
    for mail in &entry.mail {
        if let MailBody::Apply(order) = &mail.body {
            one_order(before, entry, order, found);
        }
    }
}

fn one_order(before: &Records, entry: &Entry, order: &ApplyOrder, found: &mut Findings) {
    let mut images = entry.records.iter().filter_map(|record| {
        let Record::Change(change) = record else { return None };
        (change.id == order.change).then_some(&**change)
    });
    let change = images.next().or_else(|| before.changes.get(&order.change));
    let fits = change.is_some_and(|change| {
        change.status == ChangeStatus::Applying
            && change.made.action == order.action
            && change.approval.as_ref().is_some_and(|approval| approval.digest == order.digest)
    });
    found.must(fits, 19, &order.change, "it is ordered to be merged, and that is not approved");
}

/// Looks at one change that an entry writes.
pub(super) fn one_change(before: &Records, new: &Change, found: &mut Findings) {
    let old = before.changes.get(&new.id);
    let from = old.map_or(ChangeStatus::Proposed, |old| old.status);
    reachable(&new.id, &ChangeStatus::ALL, from, new.status, ChangeStatus::may_become, found);
    if let Some(old) = old {
        let same = (&old.made, &old.agent, old.run, &old.host, &old.scope, old.until, old.needed)
            == (&new.made, &new.agent, new.run, &new.host, &new.scope, new.until, new.needed);
        found.must(same, 19, &new.id, "what was proposed is something else now");
        let kept = !old.status.is_terminal() || old == new;
        found.must(kept, 10, &new.id, "it was over, and changed");
    }
    let merged = match new.status {
        ChangeStatus::Applying | ChangeStatus::Applied | ChangeStatus::Conflicted => true,
        ChangeStatus::Proposed
        | ChangeStatus::Approved
        | ChangeStatus::Denied
        | ChangeStatus::Refused
        | ChangeStatus::Expired
        | ChangeStatus::Superseded => false,
    };
    if merged {
        approved(old, new, found);
    }
}

/// It was to be merged: by an approval that fits, and that no order before this one used.
fn approved(old: Option<&Change>, new: &Change, found: &mut Findings) {
    let Some(approval) = &new.approval else {
        found.must(false, 19, &new.id, format_args!("it is {} and nobody approved it", new.status));
        return;
    };
    let human = approval.by.agent().is_none();
    found.must(human, 19, &new.id, format_args!("{} approved it", approval.by));
    let digest = new.made.action.digest();
    found.must(approval.digest == digest, 19, &new.id, "what was approved is something else");
    let in_time = approval.used.is_some_and(|used| approval.at <= used && used < approval.until);
    found.must(in_time, 19, &new.id, "its approval was not used in its time");
    // A yes of the next round may stand beside those that were used, and counts with none of them.
    let people =
        new.people(|it| it.by.agent().is_none() && it.digest == digest && it.used == approval.used);
    let needed = new.needed;
    let enough = new.is_enough(people);
    found.must(enough, 19, &new.id, format_args!("{people} of {needed} people approved it"));
    let again = new.status == ChangeStatus::Applying
        && old.is_some_and(|old| {
            old.status != ChangeStatus::Applying
                && old.approval.as_ref().is_some_and(|before| {
                    before.used.is_some()
                        && (before.at, before.used) == (approval.at, approval.used)
                })
        });
    found.must(!again, 19, &new.id, "its approval was used before");
}
