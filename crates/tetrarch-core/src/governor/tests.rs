//! The governor at its boundary: what it says to do for what it is told, and when it says nothing.

mod turns;

use std::rc::Rc;

use super::*;
use crate::audit::{Act, CredentialAct};
use crate::id::{HumanName, Principal, Ulid};
use crate::ledger::EventKind;
use crate::limits::{ANSWERED_WITHIN, ARCHIVE_GATHERS, COMMIT_INPUTS_MAX, RECOVERED_MAX};
use crate::mail::MailBody;
use crate::owner::tests::fleet::{Fleet, create, human, success, tasks};
use crate::request::{Op, Report, RequestBody};

type Place = Rc<()>;

/// A governor that goes on with a fleet's records.
struct Desk {
    fleet: Fleet,
    governor: Governor<Place>,
}

impl Desk {
    /// Its start is decided on and in flight.
    fn starting(fleet: Fleet) -> (Self, Vec<GovernorAction>) {
        let (policy, records) = (fleet.policy.clone(), fleet.records.clone());
        let (instance, found) = ("one".to_owned(), Vec::new());
        let start = OwnerStart { instance, epoch: 2, loads: 1, policy, records, found };
        let mut desk = Self { fleet, governor: Governor::new(start) };
        let actions = desk.turn();
        (desk, actions)
    }

    /// Its start is committed.
    fn new(fleet: Fleet) -> Self {
        let (mut desk, _) = Self::starting(fleet);
        desk.governor.committed();
        desk.turn();
        desk
    }

    /// Has it decide, as a shell does.
    fn turn(&mut self) -> Vec<GovernorAction> {
        let now = self.fleet.now;
        while let Some(next) = self.governor.next(now) {
            self.governor.decide(&next, now);
        }
        self.governor.actions(now)
    }

    fn ask(&mut self, body: RequestBody) -> Place {
        self.ask_as(&human(), body).0
    }

    /// The place that the request has, and its sequence.
    fn ask_as(&mut self, who: &Principal, body: RequestBody) -> (Place, u64) {
        let place = Rc::new(());
        let request = Box::new(self.fleet.ask(who, body));
        let stored = StoredRequest { last: true, at: self.fleet.now, bytes: 100 };
        let seq = request.seq;
        self.governor.put_request(request, stored, Rc::clone(&place));
        (place, seq)
    }

    fn read(&mut self) -> Place {
        self.ask(RequestBody::Op(Op::AgentStatus { agent: AgentId::Go }))
    }

    fn write(&mut self) -> Place {
        self.ask(RequestBody::Op(Op::ProjectCreate(create(false))))
    }

    fn commits(&mut self) -> Vec<GovernorAction> {
        self.governor.committed();
        self.turn()
    }
}

/// What is to be done, in short, but for when it is to be woken.
fn said(actions: &[GovernorAction]) -> Vec<&'static str> {
    let name = |action: &GovernorAction| match action {
        GovernorAction::Commit(_) => Some("commit"),
        GovernorAction::Reply(_) => Some("reply"),
        GovernorAction::Wake(_) => None,
        GovernorAction::Revoke(..) => Some("revoke"),
        GovernorAction::Settle(..) => Some("settle"),
        GovernorAction::Archive(_) => Some("archive"),
    };
    actions.iter().filter_map(name).collect()
}

fn committed(actions: &[GovernorAction]) -> &Outgoing {
    let found = actions.iter().find_map(|action| {
        if let GovernorAction::Commit(outgoing) = action { Some(outgoing) } else { None }
    });
    found.expect("something is committed")
}

/// When it is to be woken.
fn wake(actions: &[GovernorAction]) -> BusTime {
    let found = actions
        .iter()
        .find_map(|action| if let GovernorAction::Wake(at) = action { *at } else { None });
    found.expect("a time is named")
}

#[test]
fn start_is_the_first_commit_with_what_was_found() {
    let (mut records, mut policy) = (Records::default(), Policy::default());
    policy.kept.decisions_max = 7;
    records.intake_seq = 3;
    let found = vec![Trouble::IntakeShrank { decided: 3, last: 1 }];
    let instance = "one".to_owned();
    let start = OwnerStart { instance, epoch: 2, loads: 1, policy, records, found };
    let mut governor: Governor<Place> = Governor::new(start);
    assert_eq!((governor.waiting(), governor.policy().kept.decisions_max), (2, 7));
    while let Some(next) = governor.next(BusTime(1)) {
        governor.decide(&next, BusTime(1));
    }
    let actions = governor.actions(BusTime(1));
    let entry = &committed(&actions).entry;
    assert_eq!((entry.epoch, entry.events[0].kind), (2, EventKind::OwnerStarted));
    assert_eq!(entry.intake_seq, 1, "what the stream has now");
}

#[test]
fn two_loads_of_one_epoch_give_commits_of_different_ids() {
    let entry = |loads| {
        let (policy, records) = (Policy::default(), Records::default());
        let (instance, found) = ("one".to_owned(), Vec::new());
        let start = OwnerStart { instance, epoch: 2, loads, policy, records, found };
        let mut governor: Governor<Place> = Governor::new(start);
        let next = governor.next(BusTime(1)).unwrap();
        governor.decide(&next, BusTime(1));
        committed(&governor.actions(BusTime(1))).entry.commit
    };
    assert_eq!(entry(1), entry(1));
    assert_ne!(entry(1), entry(2));
}

#[test]
fn inputs_during_a_commit_become_the_next_entry() {
    let (mut desk, first) = Desk::starting(Fleet::new());
    let sent = Arc::clone(&committed(&first).entry);
    desk.write();
    desk.write();
    assert_eq!(said(&desk.turn()), Vec::<&str>::new(), "one commit is in flight at a time");
    assert_eq!(desk.governor.in_flight(), Some(&sent), "unknown: the same is sent again");
    assert!(!desk.governor.is_settled());
    let next = desk.commits();
    assert_eq!(said(&next)[0], "commit");
    let entry = &committed(&next).entry;
    assert_eq!(entry.mail.len(), 2, "both are answered: {:?}", entry.mail);
    assert_ne!(entry.commit, sent.commit);
    assert!(said(&desk.commits()).is_empty());
    assert!(desk.governor.is_settled() && desk.governor.in_flight().is_none());
}

#[test]
fn owner_whose_commit_failed_commits_nothing_more() {
    let (mut desk, _) = Desk::starting(Fleet::new());
    for _ in 0..3 {
        desk.write();
        desk.read();
        desk.governor.tick();
        assert!(said(&desk.turn()).is_empty(), "and it answers nothing");
    }
}

#[test]
fn commit_is_acknowledged_once() {
    let mut desk = Desk::new(Fleet::new());
    desk.write();
    let first = Arc::clone(&committed(&desk.turn()).entry);
    desk.write();
    let second = Arc::clone(&committed(&desk.commits()).entry);
    assert_ne!(first.commit, second.commit);
    assert_eq!(desk.governor.in_flight(), Some(&second));
}

#[test]
fn full_entry_leaves_the_rest_in_its_place() {
    let mut fleet = Fleet::new();
    fleet.policy.requests_per_second = 1_000_000;
    let mut desk = Desk::new(fleet);
    let places: Vec<Place> = (0..COMMIT_INPUTS_MAX * 3).map(|_| desk.write()).collect();
    let held = || places.iter().filter(|place| Rc::strong_count(place) > 1).count();
    let answered = committed(&desk.turn()).entry.mail.len();
    assert!((2..=COMMIT_INPUTS_MAX).contains(&answered), "{answered}");
    assert_eq!((held(), desk.governor.waiting()), (places.len() - answered, held()));
    desk.turn();
    let left = held();
    assert!(left > 0, "the next entry is full too");
    desk.turn();
    assert_eq!(held(), left, "and there is no third one before it is sent");
    assert_eq!(said(&desk.commits()), ["commit"]);
    desk.turn();
    assert!(held() < left);
}

#[test]
fn answers_wait_for_what_they_tell() {
    let mut desk = Desk::new(Fleet::new());
    desk.read();
    assert_eq!(said(&desk.turn()), ["reply"], "all is committed");
    desk.write();
    desk.read();
    let actions = desk.turn();
    assert_eq!(committed(&actions).answers.len(), 1, "it goes out behind the commit");
    assert!(!said(&actions).contains(&"reply"));
    desk.read();
    assert!(said(&desk.turn()).is_empty(), "the records are ahead of the ledger");
    assert_eq!(said(&desk.commits()), ["reply"]);
}

#[test]
fn many_answers_hold_the_queue_back() {
    let mut desk = Desk::new(Fleet::new());
    desk.fleet.policy.requests_per_second = 1_000_000;
    let mut desk = Desk::new(desk.fleet);
    desk.write();
    desk.turn();
    // Several each: of one sender an entry has few.
    for number in 0..=ANSWERS_MAX {
        let who = format!("human:h{}", number / 8).parse().unwrap();
        desk.ask_as(&who, RequestBody::Op(Op::AgentStatus { agent: AgentId::Go }));
    }
    assert!(said(&desk.turn()).is_empty());
    assert_eq!(desk.governor.waiting(), 1);
    let actions = desk.commits();
    assert!(matches!(&actions[..], [GovernorAction::Reply(all)] if all.len() == ANSWERS_MAX));
}

#[test]
fn read_that_nobody_waits_for_is_passed_over() {
    let mut desk = Desk::new(Fleet::new());
    desk.read();
    desk.fleet.now = desk.fleet.now + ANSWERED_WITHIN;
    assert_eq!(said(&desk.turn()), ["reply"], "at the end of its time");
    desk.read();
    desk.fleet.now = BusTime((desk.fleet.now + ANSWERED_WITHIN).0 + 1);
    assert!(said(&desk.turn()).is_empty());
}

#[test]
fn slow_decision_is_charged_to_its_sender() {
    let mut fleet = Fleet::new();
    fleet.policy.requests_per_second = 1;
    let mut desk = Desk::new(fleet);
    desk.read();
    let next = desk.governor.next(desk.fleet.now).unwrap();
    desk.governor.took(&next, Duration::from_secs(60), desk.fleet.now);
    desk.turn();
    desk.read();
    let next = desk.governor.next(desk.fleet.now).unwrap();
    assert!(matches!(next, QueueItem::Decide(Input::OverShare(..), _)), "{next:?}");
    desk.governor.decide(&next, desk.fleet.now);
    desk.governor.tick();
    let actions = desk.turn();
    let texts: Vec<&MailBody> = committed(&actions).entry.mail.iter().map(|it| &it.body).collect();
    assert!(format!("{texts:?}").contains("requests a second"), "people are told: {texts:?}");
}

#[test]
fn wake_is_named_once_and_ticks_when_it_is_due() {
    let (fleet, _) = Fleet::with_goal(tasks(1));
    let now = fleet.now;
    let due = next_deadline(&fleet.records, &fleet.policy, now).into_iter();
    let due = due.chain(forgetting_is_late(&fleet.records, &fleet.policy)).min().unwrap();
    let (mut desk, actions) = Desk::starting(fleet);
    assert_eq!(wake(&actions), due, "when something is due first");
    assert!(desk.turn().is_empty(), "once");
    desk.governor.woken(now);
    assert_eq!(desk.governor.waiting(), 0, "it is not due yet");
    assert_eq!(wake(&desk.turn()), due);
    desk.commits();
    desk.fleet.now = due;
    desk.governor.woken(due);
    assert_eq!(desk.governor.waiting(), 1, "a tick");
    assert_eq!(said(&desk.turn()), ["commit"]);
    assert_ne!(desk.governor.deadline(due), Some(due), "what was due is done");
}

#[test]
fn deadline_that_has_passed_leaves_time_for_requests() {
    let (fleet, _) = Fleet::with_goal(tasks(1));
    let mut desk = Desk::new(fleet);
    // Another wake-up is named, with what is due in the past by now.
    desk.fleet.now = BusTime(desk.fleet.now.0 + 100 * 86_400_000);
    desk.governor.archiving = Some(Vec::new());
    desk.governor.wake = None;
    let named = wake(&desk.turn());
    assert_eq!(named, desk.fleet.now + DEADLINE_PAUSE);
}

#[test]
fn recovery_that_waits_is_due_after_each_commit() {
    let mut fleet = Fleet::new();
    fleet.join("h1", "life1", 100);
    for human in 0..RECOVERED_MAX + 3 {
        let name = HumanName::new(&format!("h{human}")).unwrap();
        fleet.op(&Principal::Human(name.clone()), Op::HumanJoin { human: name });
    }
    fleet.join("h1", "life2", 100);
    assert!(is_due(&fleet.records, &fleet.policy), "more than one portion is to be recovered");
    let (mut desk, _) = Desk::starting(fleet);
    desk.governor.committed();
    assert_eq!(desk.governor.waiting(), 1, "a tick");
}

#[test]
fn lost_journals_are_read_one_time_after_the_other() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let worker = fleet.worker(epic, "T1.1");
    fleet.report(&worker, Report::Crashed { cause: "gone".to_owned() });
    let lost = unsettled(&fleet.records);
    assert!(!lost.is_empty());
    let (mut desk, actions) = Desk::starting(fleet);
    let settle = |actions: &[GovernorAction]| {
        actions.iter().find_map(|action| {
            let GovernorAction::Settle(lost, wait) = action else { return None };
            Some((lost.clone(), *wait))
        })
    };
    assert_eq!(settle(&actions), Some((lost.clone(), Millis(0))));
    assert_eq!(settle(&desk.turn()), None, "it is being read");
    desk.governor.settled(Vec::new());
    assert_eq!(settle(&desk.turn()), Some((lost.clone(), SETTLE_AGAIN)), "it has not ended");
    let (holder, run) = lost[0].clone();
    let ended = Settlement { holder, run, charge: Default::default(), ended: true };
    desk.governor.settled(vec![ended]);
    assert_eq!(settle(&desk.turn()), None, "{lost:?}");
    assert!(unsettled(desk.governor.records()).is_empty());
}

#[test]
fn ended_journals_are_kept_in_one_stroke_at_a_time() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let worker = fleet.worker(epic, "T1.1");
    let run = fleet.run_of(&worker);
    fleet.end(&worker, success("done"));
    let mut desk = Desk::new(fleet);
    desk.fleet.now = desk.fleet.records.run_status[&run].since + ARCHIVE_GATHERS;
    desk.governor.halt(Some("the disk is full".to_owned()));
    assert!(!said(&desk.turn()).contains(&"archive"), "nothing is stored now");
    desk.governor.halt(None);
    let actions = desk.turn();
    assert!(
        actions.iter().any(|it| matches!(it, GovernorAction::Archive(all) if all[0].run == run))
    );
    assert!(!said(&desk.turn()).contains(&"archive"), "it is being kept");
    desk.governor.archived(Vec::new(), desk.fleet.now);
    let actions = desk.turn();
    assert!(!said(&actions).contains(&"archive"), "what failed waits");
    let again = wake(&actions);
    desk.fleet.now = again;
    desk.governor.woken(again);
    assert!(said(&desk.turn()).contains(&"archive"));
    let kept = Archived { run, sha256: "a".repeat(64) };
    desk.governor.archived(vec![kept], desk.fleet.now);
    let actions = desk.turn();
    assert!(said(&actions).contains(&"commit") && !said(&actions).contains(&"archive"));
}

#[test]
fn host_that_does_not_end_a_session_loses_its_lease_once() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let worker = fleet.worker(epic, "T1.1");
    let (agent, session) = (worker.clone(), fleet.agent(&worker).session.unwrap());
    let (give_up, reason) = (false, "it hangs".to_owned());
    let asked = fleet.op(&human(), Op::AgentReplace { agent, session, give_up, reason });
    assert_eq!(asked.error, None, "{asked:?}");
    let until = fleet.agent(&worker).ending.as_ref().unwrap().until;
    let place = fleet.agent(&worker).placement.clone().unwrap();
    let mut desk = Desk::new(fleet);
    assert!(!said(&desk.turn()).contains(&"revoke"));
    desk.fleet.now = until;
    desk.governor.woken(until);
    let revoked: Vec<_> = desk
        .turn()
        .into_iter()
        .filter_map(|action| {
            let GovernorAction::Revoke(host, epoch) = action else { return None };
            Some((host, epoch))
        })
        .collect();
    assert_eq!(revoked, [(place.host, place.host_epoch)]);
    assert!(!said(&desk.turn()).contains(&"revoke"), "once");
}

#[test]
fn acts_on_credentials_are_known_once_committed() {
    let mut desk = Desk::new(Fleet::new());
    let (what, about) = ("creds.revoke".to_owned(), "human bob: UKEY".to_owned());
    let act = Act { what, about, credential: None };
    let act = CredentialAct { id: RequestId(Ulid(7)), by: human(), ends: None, act };
    assert!(desk.governor.put_acts(vec![act.clone()]).is_empty());
    desk.turn();
    assert!(desk.governor.put_acts(vec![act.clone()]).is_empty(), "it is in flight");
    desk.commits();
    assert_eq!(desk.governor.put_acts(vec![act.clone()]), [act.id]);
    assert_eq!(desk.governor.waiting(), 0);
}

#[test]
fn overseer_knows_when_it_looked_before() {
    let mut desk = Desk::new(Fleet::ready());
    assert_eq!(desk.governor.looked(), BusTime(0));
    desk.governor.oversee(Telemetry::default(), BusTime(5));
    let next = desk.governor.next(BusTime(5));
    assert!(
        matches!(&next, Some(QueueItem::Decide(Input::Oversee(it), _)) if it.looked == BusTime(0))
    );
    assert_eq!(desk.governor.looked(), BusTime(5));
}
