//! Mail to GO, dead letters and who is told of them, sessions that die of a message.

use super::fleet::{Fleet, create, human, id, po, reply, request, tasks, topics, wish};
use crate::agent::Hosting;
use crate::error::ErrorCode;
use crate::id::{AgentId, EpicId, HostName, Principal, SessionId, Ulid};
use crate::ledger::{Entry, EventKind, Record};
use crate::limits::IDLE_AFTER;
use crate::mail::receipt::{About, DeadNotice, SetAside, Stage};
use crate::mail::{Lane, Mail, MailBody};
use crate::overseer::Telemetry;
use crate::overseer::reach::Reach;
use crate::owner::{Input, Posted, refusal_of_mail};
use crate::request::{HOST_RESTART, MalformedKind, Op, ProjectCreate, Report, RequestBody, Sender};
use crate::role::Role;
use crate::time::BusTime;

fn about(seq: u64, topic: &str) -> About {
    About { seq, message: format!("m{seq}"), topic: topic.to_owned() }
}

fn letter(topic: &str, from: Principal, via: Option<&str>) -> SetAside {
    let via = via.map(|host| HostName::new(host).unwrap());
    SetAside { of: about(7, topic), from, via, reason: "it cannot be read".to_owned() }
}

fn notices(entry: &Entry) -> Vec<(Principal, DeadNotice)> {
    let all = entry.mail.iter().filter_map(|mail| {
        if let MailBody::Dead(dead) = &mail.body {
            Some((mail.to.clone(), dead.clone()))
        } else {
            None
        }
    });
    all.collect()
}

fn kinds(entry: &Entry) -> Vec<EventKind> {
    entry.events.iter().map(|event| event.kind).collect()
}

#[test]
fn goal_with_an_invalid_plan_gets_its_own_code() {
    let mut fleet = Fleet::ready();
    for (kind, code, op) in [
        (MalformedKind::Plan, ErrorCode::InvalidPlan, "goal.create"),
        (MalformedKind::Other, ErrorCode::InvalidRequest, ""),
    ] {
        let error = "plan: T1.1 twice".to_owned();
        let body = RequestBody::Malformed { kind, error, nameless: true };
        let input = fleet.asking(&human(), body);
        let entry = fleet.one(input);
        let told = reply(&entry);
        assert_eq!((told.error, told.op.as_str()), (Some(code), op));
        assert!(entry.mail.iter().all(|mail| mail.correlation.is_none()), "it named no request");
        assert!(entry.records.is_empty(), "what cannot be read is not decided on");
        assert!(told.detail.contains("T1.1 twice"));
    }
}

#[test]
fn writer_of_a_dead_letter_is_told_once_if_reachable() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(2));
    let worker = fleet.worker(epic, "T1.1");
    let gone = fleet.worker(epic, "T1.2");
    fleet.end(&gone, super::fleet::success("done"));
    let nobody = AgentId::Worker(Ulid(77));
    let of = |id: &AgentId| Principal::Agent(id.clone());
    for (topic, from, via, told) in [
        ("info", human(), None, true),
        ("", human(), None, true),
        ("info", human(), Some("h1"), false),
        ("info", of(&worker), Some("h1"), true),
        ("info", of(&worker), Some("h2"), false),
        ("info", of(&worker), None, false),
        ("info", of(&gone), Some("h1"), false),
        ("info", of(&nobody), None, false),
        ("info", of(&AgentId::Go), None, false),
        ("info", of(&id("HO@h1")), Some("h1"), true),
        ("receipt", human(), None, false),
        ("mail.dead", human(), None, false),
    ] {
        let letter = letter(topic, from.clone(), via);
        let entry = fleet.report(&po(), Report::SetAside(letter));
        assert_eq!(kinds(&entry), [EventKind::MailSetAside], "{topic} {from}");
        let reason = &entry.events[0].reason;
        assert!(reason.contains("it cannot be read") && reason.contains(&from.to_string()));
        let found = notices(&entry);
        assert_eq!(found.len(), usize::from(told), "{topic} of {from} by {via:?}");
        for (to, dead) in found {
            assert_eq!((to, dead.to), (from.clone(), of(&po())));
            assert_eq!((dead.of, dead.reason.as_str()), (about(7, topic), "it cannot be read"));
        }
    }
}

#[test]
fn foreign_dead_letter_text_is_cut_and_old_session_ignored() {
    let mut fleet = Fleet::ready();
    let of = About { seq: 7, message: "m".repeat(9_000), topic: "t".repeat(9_000) };
    let long = SetAside { of, reason: "r".repeat(90_000), ..letter("", human(), None) };
    let entry = fleet.report(&po(), Report::SetAside(long.clone()));
    let [(_, dead)] = notices(&entry).try_into().unwrap();
    assert!(dead.of.message.len() <= 512 && dead.of.topic.len() <= 512);
    assert!(dead.reason.len() <= 4096 && entry.events[0].reason.len() <= 6_000);
    let mut asked = fleet.ask(&po().into(), RequestBody::Report(Report::SetAside(long)));
    asked.sender.epoch = 0;
    let entry = fleet.one(Input::Request(Box::new(asked)));
    assert_eq!(notices(&entry), []);
}

#[test]
fn words_of_an_external_reader_are_told_as_its_own() {
    let mut fleet = Fleet::ready();
    let outside: AgentId = id("PO-out");
    let external = ProjectCreate { project: "out".parse().unwrap(), ..create(true) };
    assert_eq!(fleet.op(&human(), Op::ProjectCreate(external)).error, None);
    assert_eq!(fleet.op(&outside.clone().into(), Op::AgentRegister).error, None);
    let said = Report::SetAside(letter("info", human(), None));
    let entry = fleet.report(&outside, said);
    assert_eq!(notices(&entry)[0].1.reason, "PO-out says: it cannot be read");
    let expired = Box::new(letter("info", human(), None));
    let entry = fleet.one(Input::Unread(outside, expired));
    assert_eq!(notices(&entry)[0].1.reason, "it cannot be read");
}

#[test]
fn writer_of_expired_unread_mail_is_told() {
    let mut fleet = Fleet::ready();
    let letter = Box::new(letter("info", human(), None));
    let entry = fleet.one(Input::Unread(po(), letter));
    assert_eq!(kinds(&entry), [EventKind::MailSetAside]);
    let [(to, dead)] = notices(&entry).try_into().unwrap();
    assert_eq!((to, dead.to), (human(), Principal::Agent(po())));
}

/// A message to GO by somebody who is current.
fn to_go(fleet: &Fleet, from: &Principal, epic: Option<EpicId>, body: MailBody) -> Posted {
    let agent = from.agent().and_then(|id| fleet.records.agents.get(id));
    let via = agent.and_then(|agent| agent.placement.as_ref()).map(|at| at.host.clone());
    let (session, epoch) = (agent.and_then(|a| a.session), agent.map_or(1, |a| a.epoch));
    let mail = Mail {
        to: Principal::Agent(AgentId::Go),
        epic,
        correlation: None,
        cause: String::new(),
        ack_required: false,
        trace: None,
        body,
    };
    Posted {
        of: about(41, mail.body.topic()),
        lane: Lane::Mail,
        writer: Some((from.clone(), via.clone())),
        content: Ok((mail, Sender { from: from.clone(), via, session, epoch })),
    }
}

fn posts(fleet: &mut Fleet, posted: Posted) -> Entry {
    fleet.one(Input::Post(Box::new(posted)))
}

fn review(text: &str) -> MailBody {
    MailBody::ReviewNeeded { reason: text.to_owned() }
}

fn info() -> MailBody {
    MailBody::Info { text: "the build is slow".to_owned() }
}

#[test]
fn owner_takes_reviews_and_info_and_moves_its_position() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let worker: Principal = fleet.worker(epic, "T1.1").into();
    let posted = to_go(&fleet, &worker, Some(epic), review("two tasks are one"));
    assert_eq!(refusal_of_mail(&fleet.records, &posted), None);
    let entry = posts(&mut fleet, posted);
    assert_eq!(kinds(&entry), [EventKind::MailRead]);
    assert_eq!(entry.reviews.len(), 1, "everybody sees that it is asked for");
    let told: Vec<_> = entry.mail.iter().map(|mail| (mail.to.clone(), mail.body.clone())).collect();
    assert_eq!(told, [(human(), review(&format!("{worker}: two tasks are one")))]);
    assert_eq!(fleet.agent(&AgentId::Go).mail_read, 41);

    let mut posted = to_go(&fleet, &worker, None, info());
    posted.of.seq = 50;
    let entry = posts(&mut fleet, posted);
    assert!(entry.events[0].reason.contains("the build is slow") && entry.mail.is_empty());
    assert_eq!(fleet.agent(&AgentId::Go).mail_read, 50);
    fleet.one(Input::Started { epoch: 2, instance: "two".to_owned() });
    assert_eq!(fleet.agent(&AgentId::Go).mail_read, 50, "the next owner goes on from there");
}

#[test]
fn review_of_an_agent_outside_has_to_name_a_goal_of_its_project() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let mut agent = fleet.agent(&po()).clone();
    agent.hosting = Hosting::External;
    fleet.records.put(Record::Agent(Box::new(agent)));
    let outside = Principal::from(po());
    for (about, taken) in [(Some(epic), true), (None, false), (Some(EpicId(Ulid(7))), false)] {
        let posted = to_go(&fleet, &outside, about, review("look"));
        let refused = refusal_of_mail(&fleet.records, &posted);
        assert_eq!(refused.is_none(), taken, "{about:?}: {refused:?}");
    }
}

#[test]
fn owner_sends_receipts_on_request_but_never_for_receipts() {
    let mut fleet = Fleet::ready();
    let receipt = MailBody::Receipt(crate::mail::receipt::Receipt {
        of: about(3, "info"),
        stage: Stage::Consumed,
    });
    for (body, wanted, told) in [(info(), true, 1), (info(), false, 0), (receipt, true, 0)] {
        let mut posted = to_go(&fleet, &human(), None, body);
        if let Ok((mail, _)) = &mut posted.content {
            mail.ack_required = wanted;
        }
        let entry = posts(&mut fleet, posted);
        let receipts: Vec<_> = entry.mail.iter().map(|mail| mail.body.topic()).collect();
        assert_eq!(receipts, vec!["receipt"; told]);
    }
}

#[test]
fn mail_the_owner_does_not_take_is_dead_lettered_with_next_step() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let worker: Principal = fleet.worker(epic, "T1.1").into();
    let answer = || MailBody::Answer { question: None, text: "yes".to_owned() };
    let mut unread = to_go(&fleet, &worker, None, info());
    unread.content = Err("body: no JSON".to_owned());
    let mut control = to_go(&fleet, &worker, None, info());
    control.lane = Lane::Ctl;
    let mut old = to_go(&fleet, &worker, None, info());
    if let Ok((_, sender)) = &mut old.content {
        sender.session = Some(SessionId(Ulid(1)));
    }
    for (posted, word) in [
        (to_go(&fleet, &worker, Some(epic), answer()), "op.<name>"),
        (to_go(&fleet, &human(), None, answer()), "answer is not for GO"),
        (unread, "no JSON"),
        (control, "no control"),
        (old, "superseded"),
    ] {
        let reason = refusal_of_mail(&fleet.records, &posted).unwrap();
        assert!(reason.contains(word), "{reason}");
        let from = posted.writer.clone().unwrap().0;
        let moves = posted.lane == Lane::Mail;
        fleet.now.0 += 1;
        let entry = posts(&mut fleet, posted);
        assert_eq!(kinds(&entry), [EventKind::MailSetAside]);
        let [(to, dead)] = notices(&entry).try_into().unwrap();
        assert_eq!((to, dead.to, dead.reason), (from, Principal::Agent(AgentId::Go), reason));
        assert_eq!(entry.records.len(), usize::from(moves), "its place moves with it");
    }
    let mut nobody = to_go(&fleet, &worker, None, info());
    nobody.writer = None;
    nobody.content = Err("no subject".to_owned());
    let entry = posts(&mut fleet, nobody);
    assert_eq!((notices(&entry), entry.events.len()), (Vec::new(), 0));
}

#[test]
fn own_crash_is_blamed_on_the_message_in_hand() {
    for (cause, blamed) in [("signal 9", true), (HOST_RESTART, false)] {
        let (mut fleet, epic) = Fleet::with_goal(tasks(1));
        let worker = fleet.worker(epic, "T1.1");
        let entry = fleet.report(&worker, Report::Crashed { cause: cause.to_owned() });
        let [seal] = &entry.seals[..] else { panic!("{entry:?}") };
        assert_eq!((&seal.agent, seal.blames), (&worker, blamed), "{cause}");
        assert_eq!(topics(&entry, &po()), ["agent.crashed"]);
    }
}

/// A fleet whose project is orchestrated by somebody else's program, with a worker below it.
fn foreign() -> (Fleet, AgentId) {
    let mut fleet = Fleet::new();
    fleet.join("h1", "life1", 20);
    assert_eq!(fleet.op(&human(), Op::ProjectCreate(create(true))).error, None);
    assert_eq!(fleet.op(&po().into(), Op::AgentRegister).error, None);
    fleet.one(Input::Heard { agent: po(), epoch: fleet.agent(&po()).epoch, session: None });
    let epic = fleet.goal(tasks(1));
    let answer = fleet.spawn(&po(), request(epic, "T1.1", vec![wish(Role::Worker)]));
    let worker = answer.spawned.first().unwrap_or_else(|| panic!("{answer:?}")).agent.clone();
    fleet.report(&worker, Report::Ready);
    (fleet, worker)
}

fn oversee(fleet: &mut Fleet, worker: &AgentId) -> Entry {
    let of = fleet.agent(worker).work.as_ref().unwrap().assignment;
    fleet.now = fleet.records.assignments[&of].recovery.quiet_since() + IDLE_AFTER;
    fleet.one(Input::Oversee(Telemetry { since: BusTime(0), ..Telemetry::default() }))
}

#[test]
fn foreign_projects_mail_is_refused_once_unless_allowed() {
    let (mut fleet, worker) = foreign();
    let first = oversee(&mut fleet, &worker);
    assert_eq!(kinds(&first), [EventKind::Recovery]);
    assert!(first.events[0].reason.contains("allow_cross_agent"), "{:?}", first.events);
    assert!(first.mail.is_empty());
    for _ in 0..3 {
        let again = oversee(&mut fleet, &worker);
        assert_eq!((again.events.len(), again.mail.len()), (0, 0), "{again:?}");
    }
    let allowed = |name: &AgentId| Reach {
        cross_agent: true,
        agents: [name.clone()].into(),
        ..Reach::default()
    };
    fleet.policy.reach = allowed(&id("PO-another"));
    assert!(oversee(&mut fleet, &worker).mail.is_empty());
    fleet.policy.reach = allowed(&po());
    let entry = oversee(&mut fleet, &worker);
    assert_eq!(topics(&entry, &worker), ["status.request"]);
}
