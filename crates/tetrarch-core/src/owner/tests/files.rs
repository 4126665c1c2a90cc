//! Reservations of files: who gets them, who is told who has them, and when they end.

use serde_json::{Value, json};

use super::fleet::{Fleet, create, human, po, tasks};
use crate::error::ErrorCode;
use crate::id::{AgentId, EpicId, Principal, ProjectName, ReservationId};
use crate::ledger::EventKind;
use crate::limits::{
    LIST_MAX, RESERVATIONS_MAX, RESERVED_FOR, RESERVED_FOR_LEAST, RESERVED_FOR_MAX,
};
use crate::mail::OpReply;
use crate::owner::{Input, next_deadline};
use crate::request::{FileOp, Op, Page, ProjectCreate, Report};
use crate::reservation::Mode;
use crate::time::{BusTime, Millis};

/// Two agents at work on two tasks of a goal.
fn two() -> (Fleet, EpicId, [AgentId; 2]) {
    let (mut fleet, epic) = Fleet::with_goal(tasks(2));
    let agents = ["T1.1", "T1.2"].map(|on| {
        let agent = fleet.worker(epic, on);
        fleet.report(&agent, Report::Ready);
        agent
    });
    (fleet, epic, agents)
}

fn reserve(paths: &[&str], mode: Mode, ttl: Option<Millis>) -> Op {
    let paths = paths.iter().map(|&path| path.to_owned()).collect();
    Op::File(FileOp::Reserve { paths, mode, ttl, reason: "to mend it".to_owned() })
}

fn ask(fleet: &mut Fleet, agent: &AgentId, paths: &[&str], mode: Mode) -> OpReply {
    fleet.op(&Principal::Agent(agent.clone()), reserve(paths, mode, None))
}

fn data(reply: &OpReply) -> Value {
    serde_json::from_str(reply.data.as_deref().unwrap()).unwrap()
}

fn listed(fleet: &mut Fleet) -> Value {
    let project = Some(ProjectName::new("demo").unwrap());
    data(&fleet.op(&human(), Op::File(FileOp::List { project, page: Page::default() })))
}

#[test]
fn conflict_names_the_holder_and_tokens_grow_across_releases() {
    let (mut fleet, _, [one, other]) = two();
    let first = ask(&mut fleet, &one, &["src/**"], Mode::Exclusive);
    assert_eq!((first.error, &data(&first)["fencing"]), (None, &json!("1")), "{first:?}");
    let refused = ask(&mut fleet, &other, &["docs/**", "src/a"], Mode::Shared);
    assert_eq!(refused.error, Some(ErrorCode::Conflict));
    assert!(refused.detail.contains(&format!("{one} holds src/** exclusive")), "{refused:?}");
    assert!(refused.detail.contains("to mend it"), "{refused:?}");
    let list = listed(&mut fleet);
    assert_eq!((list.as_array().unwrap().len(), &list[0]["agent"]), (1, &json!(one.to_string())));

    let id: ReservationId = list[0]["id"].as_str().unwrap().parse().unwrap();
    let release = |reservation| Op::File(FileOp::Release { reservation });
    let foreign = fleet.op(&Principal::Agent(other.clone()), release(id));
    assert_eq!(foreign.error, Some(ErrorCode::Unauthorized));
    assert_eq!(fleet.op(&Principal::Agent(one), release(id)).error, None);
    assert_eq!(fleet.op(&human(), release(id)).error, Some(ErrorCode::NotFound), "it is gone");
    let next = ask(&mut fleet, &other, &["src/a"], Mode::Exclusive);
    assert_eq!(data(&next)["fencing"], "2", "{next:?}");
    let id = data(&next)["id"].as_str().unwrap().parse().unwrap();
    assert_eq!(fleet.op(&human(), release(id)).error, None, "a human may");
    assert_eq!(listed(&mut fleet), json!([]));
}

#[test]
fn reservation_expires() {
    let (mut fleet, _, [one, other]) = two();
    let ttl = Millis(60_000);
    let got = fleet.op(&Principal::Agent(one), reserve(&["a"], Mode::Exclusive, Some(ttl)));
    assert_eq!(got.error, None);
    let until = fleet.records.reservations.values().next().unwrap().until;
    assert!(next_deadline(&fleet.records, &fleet.policy, fleet.now).unwrap() <= until);
    fleet.now = BusTime(until.0 - 1_000);
    assert_eq!(ask(&mut fleet, &other, &["a"], Mode::Shared).error, Some(ErrorCode::Conflict));
    fleet.now = until;
    let entry = fleet.one(Input::Tick);
    let ended = entry.events.iter().find(|event| event.kind == EventKind::FilesReleased);
    assert!(ended.unwrap().reason.contains("it expired"), "{entry:?}");
    assert!(fleet.records.reservations.is_empty());
    assert_eq!(ask(&mut fleet, &other, &["a"], Mode::Shared).error, None);
    let held = fleet.records.reservations.values().next().unwrap();
    assert!(held.until >= fleet.now && held.until.0 <= (fleet.now + RESERVED_FOR).0);
}

#[test]
fn reservation_ends_with_its_session() {
    let (mut fleet, _, [one, other]) = two();
    assert_eq!(ask(&mut fleet, &one, &["a"], Mode::Exclusive).error, None);
    fleet.report(&one, Report::Crashed { cause: "signal 9".to_owned() });
    assert_eq!(fleet.agent(&one).epoch, 2, "its next session");
    assert_eq!(listed(&mut fleet), json!([]));
    assert_eq!(ask(&mut fleet, &other, &["a"], Mode::Exclusive).error, None);
    let entry = fleet.one(Input::Tick);
    let ended = entry.events.iter().find(|event| event.kind == EventKind::FilesReleased);
    assert!(ended.unwrap().reason.contains("its session ended"), "{entry:?}");
    assert_eq!(fleet.records.reservations.len(), 1);
}

#[test]
fn reservations_are_bounded_and_belong_to_a_session() {
    let (mut fleet, _, [one, other]) = two();
    let from = Principal::Agent(one.clone());
    let many = vec!["a"; LIST_MAX + 1];
    let long = "x".repeat(1_025);
    for (paths, ttl, field) in [
        (&[][..], None, "paths"),
        (&many[..], None, "paths"),
        (&["ok", "/etc/**"][..], None, "paths[1]"),
        (&["a/../../b"][..], None, "paths[0]"),
        (&[""][..], None, "paths[0]"),
        (&[long.as_str()][..], None, "paths[0]"),
        (&["a"][..], Some(Millis(RESERVED_FOR_LEAST.0 - 1)), "ttl"),
        (&["a"][..], Some(Millis(RESERVED_FOR_MAX.0 + 1)), "ttl"),
    ] {
        let refused = fleet.op(&from, reserve(paths, Mode::Exclusive, ttl));
        assert_eq!(refused.error, Some(ErrorCode::InvalidRequest), "{refused:?}");
        assert!(refused.detail.starts_with(field), "{refused:?}");
    }
    for (paths, ttl) in [(&many[1..], None), (&[&long[1..]][..], Some(RESERVED_FOR_MAX))] {
        assert_eq!(fleet.op(&from, reserve(paths, Mode::Exclusive, ttl)).error, None);
    }
    let nobody = fleet.op(&human(), reserve(&["b"], Mode::Exclusive, None));
    assert_eq!(nobody.error, Some(ErrorCode::Unauthorized), "a human has no session: {nobody:?}");
    let free = RESERVATIONS_MAX - fleet.records.reservations.len();
    for _ in 0..free {
        assert_eq!(ask(&mut fleet, &one, &["c"], Mode::Shared).error, None);
    }
    let full = ask(&mut fleet, &other, &["d"], Mode::Shared);
    assert_eq!(full.error, Some(ErrorCode::Unavailable), "{full:?}");
    let now = fleet.now;
    fleet.now = now + RESERVED_FOR;
    let over = ask(&mut fleet, &other, &["d"], Mode::Shared);
    assert_eq!(over.error, Some(ErrorCode::Unavailable), "they are not forgotten yet: {over:?}");
    fleet.now = now;
    let project = Some(ProjectName::new("demo").unwrap());
    let list = fleet.op(
        &Principal::Agent(po()),
        Op::File(FileOp::List { project: None, page: Page::default() }),
    );
    let short = data(&list).as_array().unwrap().len();
    assert!(short > 50 && list.detail.contains("more are not listed"), "{short}: {}", list.detail);
    let again = fleet.op(&human(), Op::File(FileOp::List { project, page: Page::default() }));
    assert_eq!(again.data, list.data);
    let after = list.detail.rsplit(' ').next().unwrap().parse().ok();
    let page = Page { limit: Some(1), after };
    let next = fleet.op(
        &human(),
        Op::File(FileOp::List { project: Some(ProjectName::new("demo").unwrap()), page }),
    );
    let last = data(&list).as_array().unwrap().last().cloned();
    assert_ne!(data(&next).as_array().unwrap().first().cloned(), last);
    assert_eq!(data(&next).as_array().unwrap().len(), 1);
    let foreign =
        FileOp::List { project: Some(ProjectName::new("other").unwrap()), page: Page::default() };
    let refused = fleet.op(&Principal::Agent(po()), Op::File(foreign));
    assert_eq!(refused.error, Some(ErrorCode::Unauthorized), "{refused:?}");
}

#[test]
fn projects_do_not_conflict() {
    let (mut fleet, _, [one, _]) = two();
    assert_eq!(ask(&mut fleet, &one, &["**"], Mode::Exclusive).error, None);
    let project = ProjectName::new("other").unwrap();
    let made = Op::ProjectCreate(ProjectCreate { project: project.clone(), ..create(false) });
    assert_eq!(fleet.op(&human(), made).error, None);
    let other = AgentId::Po(project);
    fleet.report(&other, Report::Ready);
    assert_eq!(ask(&mut fleet, &other, &["**"], Mode::Exclusive).error, None);
}
