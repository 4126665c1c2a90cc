//! Senders take turns (docs/decisions/0135).

use super::*;
use crate::request::ProjectCreate;

#[test]
fn sender_with_one_request_does_not_wait_for_the_many_of_another() {
    let mut desk = Desk::new(Fleet::new());
    let before = desk.governor.records().intake_seq;
    for _ in 0..COMMIT_INPUTS_MAX * 2 {
        desk.write();
    }
    let project: ProjectCreate =
        ProjectCreate { project: "quiet".parse().unwrap(), ..create(false) };
    let body = RequestBody::Op(Op::ProjectCreate(project));
    let quiet: Principal = "human:quiet".parse().unwrap();
    let (_, seq) = desk.ask_as(&quiet, body);
    let entry = Arc::clone(&committed(&desk.turn()).entry);
    assert!(entry.mail.iter().any(|mail| mail.to == quiet), "it is in the first entry");
    assert!(entry.intake_seq < seq, "what is before it waits, and is read again by another owner");
    assert!(entry.intake_seq > before);
    let mut through = entry.intake_seq;
    while through < seq {
        let next = Arc::clone(&committed(&desk.commits()).entry);
        assert!(next.intake_seq > through);
        through = next.intake_seq;
    }
    assert_eq!((through, desk.governor.waiting()), (seq, 0));
}

#[test]
fn deciding_pauses_for_what_arrives_meanwhile() {
    let mut desk = Desk::new(Fleet::new());
    desk.write();
    desk.write();
    let next = desk.governor.next(desk.fleet.now).unwrap();
    desk.governor.decide(&next, desk.fleet.now);
    desk.governor.took(&next, DECIDED_AT_ONCE, desk.fleet.now);
    assert!(desk.governor.next(desk.fleet.now).is_none());
    assert!(desk.governor.goes_on());
    assert_eq!(said(&desk.governor.actions(desk.fleet.now)), ["commit"]);
    assert!(desk.governor.next(desk.fleet.now).is_some());
    assert!(!desk.governor.goes_on());
}

#[test]
fn too_many_that_wait_are_refused_unless_stored_before_the_owner() {
    for (earlier, most) in [(1, 40), (0, 4)] {
        let mut fleet = Fleet::new();
        fleet.policy.requests_per_second = 2;
        let mut desk = Desk::new(fleet);
        desk.fleet.now = BusTime(desk.fleet.now.0 - earlier);
        let places: Vec<Place> = (0..40).map(|_| desk.read()).collect();
        let held = places.iter().filter(|place| Rc::strong_count(place) > 1).count();
        assert_eq!(held, most, "stored {earlier} ms earlier");
    }
}
