//! Which approvals count, row by row, and both ends of each bound.

use super::*;
use crate::change::ChangeStatus;
use crate::owner::tests::changes::{change, made, working};

const UNTIL: BusTime = BusTime(100);

fn by(name: &str, change: &Change) -> Approval {
    let (at, digest) = (BusTime(1), change.made.action.digest());
    Approval { by: name.parse().unwrap(), digest, at, until: UNTIL, used: None }
}

/// A change that needs so many people, approved by these, the last one latest.
fn approved(needed: u32, people: &[&str]) -> Change {
    let (mut fleet, _, [worker, _]) = working();
    let (_, mut it) = change(&mut fleet, &worker, made(&["src/a"]));
    let mut given: Vec<Approval> = people.iter().map(|name| by(name, &it)).collect();
    it.approval = given.pop();
    Change { needed, earlier: given, status: ChangeStatus::Approved, ..it }
}

fn too_few(given: usize, needed: u32) -> Result<(), NotApproved> {
    Err(NotApproved::TooFew { given, needed })
}

fn at(change: &Change, now: u64) -> Result<(), NotApproved> {
    change.approved_at(BusTime(now)).map(drop)
}

#[test]
fn required_number_of_distinct_people_must_approve() {
    let rows: [(u32, &[&str], Result<(), NotApproved>); 8] = [
        (1, &[], Err(NotApproved::Missing)),
        (1, &["human:ada"], Ok(())),
        (2, &["human:ada"], too_few(1, 2)),
        (2, &["human:ada", "human:ada"], too_few(1, 2)),
        (2, &["human:ada", "human:ben"], Ok(())),
        (2, &["human:ada", "human:ada", "human:ben"], Ok(())),
        (3, &["human:ada", "human:ben"], too_few(2, 3)),
        (3, &["human:ada", "human:ben", "human:cleo"], Ok(())),
    ];
    for (needed, people, expected) in rows {
        assert_eq!(at(&approved(needed, people), 50), expected, "{needed} of {people:?}");
    }
}

#[test]
fn approver_in_the_requesting_chain_does_not_count() {
    // Whoever made the change, those above it, and the agent that speaks for a person.
    for agent in ["W:01JD8Z5W6T4QK3M9X2V7B1N0AC", "PO-demo", "IO@ada", "GO"] {
        let change = approved(2, &[agent, "human:ada"]);
        assert_eq!(at(&change, 50), too_few(1, 2), "{agent}");
        let not_human = NotApproved::NotHuman { by: agent.parse().unwrap() };
        assert_eq!(at(&approved(1, &[agent]), 50), Err(not_human), "{agent}");
    }
}

#[test]
fn change_after_approval_voids_all_approvals() {
    let mut change = approved(2, &["human:ada", "human:ben"]);
    change.made.action.head = "e".repeat(40);
    assert!(matches!(at(&change, 50), Err(NotApproved::OtherDigest { .. })));
    // One of them looked again.
    let again = by("human:ben", &change);
    change.approval = Some(again);
    assert_eq!(at(&change, 50), too_few(1, 2));
}

#[test]
fn approvals_expire_with_time_and_use() {
    let change = approved(2, &["human:ada", "human:ben"]);
    assert_eq!(at(&change, UNTIL.0 - 1), Ok(()));
    assert_eq!(at(&change, UNTIL.0), Err(NotApproved::Expired { by_ms: 0 }));
    // One that ended earlier than the other counts no more.
    let mut short = change.clone();
    short.earlier[0].until = BusTime(50);
    assert_eq!((at(&short, 49), at(&short, 50)), (Ok(()), too_few(1, 2)));
    let mut used = change;
    used.earlier[0].used = Some(BusTime(2));
    assert_eq!(at(&used, 50), too_few(1, 2));
    used.approval = used.approval.map(|it| Approval { used: Some(BusTime(2)), ..it });
    assert_eq!(at(&used, 50), Err(NotApproved::Used));
}

#[test]
fn approval_policy_has_a_default_and_project_overrides() {
    let name = |text: &str| ProjectName::new(text).unwrap();
    let human = |text: &str| HumanName::new(text).unwrap();
    let all = Approvals {
        needed: 2,
        of: BTreeMap::from([(name("shop"), 3), (name("toy"), 0)]),
        approvers: BTreeSet::from([human("ada"), human("ben")]),
    };
    let rows = [(None, 2), (Some("demo"), 2), (Some("shop"), 3), (Some("toy"), 1)];
    for (project, needed) in rows {
        assert_eq!(all.needed(project.map(name).as_ref()), needed, "{project:?}");
    }
    let rows = [("human:ada", true), ("human:cleo", false), ("IO@ada", false), ("GO", false)];
    for (who, may) in rows {
        assert_eq!(all.may(&who.parse().unwrap()), may, "{who}");
    }
    let anybody = Approvals::default();
    assert!(anybody.may(&"human:cleo".parse().unwrap()) && !anybody.may(&"GO".parse().unwrap()));
    assert_eq!(anybody.needed(None), 1);
}
