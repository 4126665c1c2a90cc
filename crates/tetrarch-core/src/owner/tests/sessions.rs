//! Who may speak for whom: owners, external agents, sessions that are over, humans; and what is
//! remembered for how long.

use super::fleet::{
    Fleet, answer, create, human, id, po, project, reply, request, success, tasks, topics, wish,
};
use serde_json::{Value, json};

use crate::agent::Mode;
use crate::error::ErrorCode;
use crate::id::{AgentId, HostName, HumanName, Principal, ProfileName, RequestId, SessionId, Ulid};
use crate::ledger::EventKind;
use crate::limits::{ANSWER_BYTES_MAX, DECISION_KEPT};
use crate::liveness::Liveness;
use crate::mail::MailBody;
use crate::owner::{self, Input};
use crate::request::{Op, ProjectCreate, Report, RequestBody};
use crate::role::Role;
use crate::share::{Backlog, Excess};
use crate::time::{BusTime, Millis};

fn external() -> Fleet {
    let mut fleet = Fleet::new();
    fleet.op(&human(), Op::ProjectCreate(create(true)));
    fleet
}

#[test]
fn new_owner_has_the_next_epoch_and_all_records() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let worker = fleet.worker(epic, "T1.1");
    let before = fleet.records.clone();
    let entry = fleet.one(Input::Started { epoch: 2, instance: "two".to_owned() });
    assert_eq!((fleet.records.epoch, fleet.agent(&AgentId::Go).epoch), (2, 2));
    assert_eq!(entry.events[0].kind, EventKind::OwnerStarted);
    assert_eq!(fleet.agent(&worker), &before.agents[&worker]);
    assert_eq!(fleet.agent(&AgentId::Go).created, before.agents[&AgentId::Go].created);
}

#[test]
fn external_agent_registers_and_registers_again() {
    let mut fleet = external();
    assert_eq!((fleet.agent(&po()).liveness, fleet.agent(&po()).epoch), (Liveness::Register, 0));
    let early = fleet.report(&po(), Report::Ready);
    assert_eq!(topics(&early, &po()), ["superseded"], "it has not registered yet");
    let registered = fleet.op(&po().into(), Op::AgentRegister);
    assert_eq!((registered.agent_epoch, registered.error), (Some(1), None));
    assert_eq!(fleet.ledger.last().unwrap().seals[0].agent, po());
    assert_eq!(fleet.agent(&po()).liveness, Liveness::Register);
    fleet.one(Input::Heard { agent: po(), epoch: 1, session: None });
    assert_eq!(fleet.agent(&po()).liveness, Liveness::Active);
    assert_eq!(fleet.one(Input::Heard { agent: po(), epoch: 1, session: None }).records, []);

    fleet.op(&po().into(), Op::AgentRegister);
    let zombie = fleet.one(Input::Heard { agent: po(), epoch: 1, session: None });
    assert_eq!(topics(&zombie, &po()), ["superseded"]);
    assert_eq!(zombie.records, []);
    fleet.one(Input::Heard { agent: po(), epoch: 2, session: None });
    assert_eq!((fleet.agent(&po()).liveness, fleet.agent(&po()).epoch), (Liveness::Active, 2));
    let session = Some(SessionId(Ulid(77)));
    let other = fleet.one(Input::Heard { agent: po(), epoch: 2, session });
    assert_eq!(topics(&other, &po()), ["superseded"]);
    assert_eq!(other.records, []);
    let MailBody::Superseded(order) = &other.mail[0].body else { panic!("{other:?}") };
    assert_eq!((order.session, order.epoch), (session, 2), "its predecessor goes on");
    assert!(
        fleet.one(Input::Heard { agent: id("PO-none"), epoch: 1, session: None }).mail.is_empty()
    );
}

#[test]
fn only_external_agents_of_live_projects_register() {
    let mut fleet = Fleet::ready();
    for who in [po().into(), Principal::Agent(id("PO-none"))] {
        let refused = fleet.op(&who, Op::AgentRegister);
        assert_eq!(refused.error, Some(ErrorCode::NotFound), "{who}");
    }
    assert_eq!(fleet.op(&human(), Op::AgentRegister).error, Some(ErrorCode::Unauthorized));
    let mut fleet = external();
    fleet.op(&human(), Op::ProjectRetire { project: project() });
    assert_eq!(fleet.op(&po().into(), Op::AgentRegister).error, Some(ErrorCode::NotFound));
}

#[test]
fn recreated_external_project_excludes_its_old_program() {
    let mut fleet = external();
    fleet.op(&po().into(), Op::AgentRegister);
    fleet.one(Input::Heard { agent: po(), epoch: 1, session: None });
    let epic = fleet.goal(tasks(1));
    let old = fleet
        .ask(&po().into(), RequestBody::Spawn(request(epic, "T1.1", vec![wish(Role::Worker)])));
    fleet.op(&human(), Op::AgentRetire { agent: po(), reason: "enough".to_owned() });
    assert_eq!(fleet.op(&human(), Op::ProjectCreate(create(true))).error, None);
    let refused = answer(&fleet.one(Input::Request(Box::new(old))));
    assert!(!refused.accepted(), "{refused:?}");
    assert_eq!(fleet.op(&po().into(), Op::AgentRegister).agent_epoch, Some(2));
}

#[test]
fn retired_external_agent_registers_when_it_is_added_again() {
    let mut fleet = external();
    fleet.op(&po().into(), Op::AgentRegister);
    assert_eq!(
        fleet.op(&po().into(), Op::AgentRegister).error,
        None,
        "it goes on in its next session"
    );
    for _ in 0..2 {
        fleet.op(&human(), Op::AgentRetire { agent: po(), reason: "enough".to_owned() });
        let refused = fleet.op(&po().into(), Op::AgentRegister);
        assert_eq!(refused.error, Some(ErrorCode::Conflict), "{refused:?}");
        assert!(refused.detail.contains("retired (enough)"), "{refused:?}");
        assert!(refused.detail.contains("`tetrarch agent add PO-"), "{refused:?}");
    }
    fleet.op(&human(), Op::ProjectCreate(create(true)));
    assert_eq!(fleet.op(&po().into(), Op::AgentRegister).error, None);
}

#[test]
fn ended_session_is_told_so() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let worker = fleet.worker(epic, "T1.1");
    let run = Some(fleet.run_of(&worker));
    let body = Report::Result { run, epic: None, result: success("late") };
    let late = fleet.ask(&worker.clone().into(), RequestBody::Report(body));
    fleet.join("h1", "life2", 20);
    let entry = fleet.one(Input::Request(Box::new(late.clone())));
    assert_eq!(topics(&entry, &id("HO@h1")), ["superseded"]);
    let told = entry.mail.iter().any(|mail| {
        matches!(&mail.body, MailBody::Superseded(order)
            if order.session == late.sender.session && order.epoch == 1)
    });
    assert!(told && entry.records.is_empty());
    assert_eq!(fleet.agent(&worker).epoch, 2);

    // Its own run is not the current one's either.
    let foreign = Report::Result { run, epic: None, result: success("wrong run") };
    let entry = fleet.report(&worker, foreign);
    assert_eq!((entry.records.len(), entry.mail.len()), (0, 0));
}

#[test]
fn administration_is_limited_to_people() {
    let mut fleet = Fleet::ready();
    let ops = [
        Op::ProjectCreate(create(false)),
        Op::ProjectMode { project: project(), mode: Mode::Solo },
        Op::ProjectRetire { project: project() },
        Op::AgentRetire { agent: po(), reason: String::new() },
    ];
    for op in ops {
        let name = op.name();
        assert_eq!(fleet.op(&po().into(), op).error, Some(ErrorCode::Unauthorized), "{name}");
    }
    let op = Op::AgentRetire { agent: AgentId::Go, reason: String::new() };
    assert_eq!(fleet.op(&human(), op).error, Some(ErrorCode::InvalidRequest));
    let status = fleet.op(&po().into(), Op::AgentStatus { agent: po() });
    assert_eq!((status.liveness, status.agent_epoch), (Some(Liveness::Active), Some(1)));
    let nobody = fleet.op(&po().into(), Op::AgentStatus { agent: id("PO-none") });
    assert_eq!(nobody.error, Some(ErrorCode::NotFound));
}

#[test]
fn project_is_created_once_and_names_its_holder() {
    let mut fleet = Fleet::ready();
    let twice = fleet.op(&human(), Op::ProjectCreate(create(false)));
    assert_eq!(twice.error, Some(ErrorCode::Conflict));
    assert!(twice.detail.contains("held by h1, active for"), "{}", twice.detail);
    let mut nowhere = Fleet::new();
    let refused = nowhere.op(&human(), Op::ProjectCreate(create(false)));
    assert_eq!(refused.error, Some(ErrorCode::Unavailable));
    let shallow = ProjectCreate { local_max_depth: Some(2), ..create(true) };
    nowhere.op(&human(), Op::ProjectCreate(shallow));
    assert_eq!(nowhere.agent(&po()).local_max_depth, 2);
}

#[test]
fn person_joins_once_and_only_for_themselves() {
    let mut fleet = Fleet::ready();
    let name = HumanName::new("Shai").unwrap();
    let joined = fleet.op(&human(), Op::HumanJoin { human: name.clone() });
    assert_eq!(joined.agent, Some(id("IO@Shai")));
    assert_eq!(fleet.op(&human(), Op::HumanJoin { human: name.clone() }).agent_epoch, Some(1));
    let other = Principal::Human(HumanName::new("Eve").unwrap());
    let refused = fleet.op(&other, Op::HumanJoin { human: name });
    assert_eq!(refused.error, Some(ErrorCode::Unauthorized));
    fleet.report(&id("IO@Shai"), Report::Ready);
    let epic = fleet.goal(tasks(1));
    let worker = fleet.worker(epic, "T1.1");
    let run = fleet.run_of(&worker);
    let ask = Report::Ask { run, id: None, question: "which?".to_owned(), options: Vec::new() };
    assert_eq!(topics(&fleet.report(&worker, ask), &id("IO@Shai")), ["question"]);
}

#[test]
fn profiles_belong_to_their_project() {
    let mut fleet = Fleet::ready();
    assert!(fleet.records.profiles.is_empty(), "a project begins without any");
    let document = json!({"name": "default", "argv": ["work"]});
    let given = crate::plan::schema::parse_profile(&document).unwrap();
    let mut empty = given.clone();
    empty.argv = Vec::new();
    let refused =
        fleet.op(&human(), Op::ProfileApply { project: project(), profile: Box::new(empty) });
    assert_eq!(refused.error, Some(ErrorCode::InvalidRequest));
    let mut fast = given;
    fast.name = ProfileName::new("fast").unwrap();
    fast.model = "small".to_owned();
    let applied =
        fleet.op(&human(), Op::ProfileApply { project: project(), profile: Box::new(fast) });
    assert_eq!(applied.error, None);
    let epic = fleet.goal(tasks(1));
    let mut quick = wish(Role::Worker);
    quick.profile = ProfileName::new("fast").ok();
    let answer = fleet.spawn(&po(), request(epic, "T1.1", vec![quick]));
    let run = &fleet.records.runs[&fleet.run_of(&answer.spawned[0].agent)];
    assert_eq!(run.brief.runner.model, "small");
}

fn mode(mode: Mode) -> Op {
    Op::ProjectMode { project: project(), mode }
}

#[test]
fn read_is_answered_and_leaves_nothing() {
    let mut fleet = Fleet::ready();
    let status = fleet.ask(&human(), RequestBody::Op(Op::AgentStatus { agent: po() }));
    let mail = owner::answer(&fleet.records, &fleet.policy, fleet.now, &status).unwrap();
    assert_eq!((mail.to, mail.correlation), (human(), Some(status.id)));
    let step =
        owner::decide(&fleet.records, &fleet.policy, fleet.now, &Input::Request(Box::new(status)));
    assert!(step.records.is_empty() && step.events.is_empty(), "{step:?}");
    let decided = fleet.ask(&human(), RequestBody::Op(mode(Mode::Tight)));
    assert_eq!(owner::answer(&fleet.records, &fleet.policy, fleet.now, &decided), None);
}

#[test]
fn agent_status_tells_its_work_to_those_above_and_itself() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(2));
    let (worker, sibling) = (fleet.worker(epic, "T1.1"), fleet.worker(epic, "T1.2"));
    fleet.end(&sibling, success("mine"));
    let told = |fleet: &mut Fleet, from: &Principal, agent: &AgentId| {
        let asked = fleet.ask(from, RequestBody::Op(Op::AgentStatus { agent: agent.clone() }));
        let mail = owner::answer(&fleet.records, &fleet.policy, fleet.now, &asked).unwrap();
        let MailBody::Reply(reply) = mail.body else { panic!("{mail:?}") };
        (reply.liveness, reply.data.map(|data| serde_json::from_str::<Value>(&data).unwrap()))
    };
    for from in [human(), Principal::Agent(po()), Principal::Agent(worker.clone())] {
        let (liveness, data) = told(&mut fleet, &from, &worker);
        let data = data.unwrap();
        assert_eq!((&data["node"], &data["result"]), (&json!("T1.1"), &Value::Null), "{from}");
        assert_eq!(data["assignment"]["attempt"], 1, "{from}");
        assert!(liveness.is_some(), "{from}");
    }
    assert_eq!(told(&mut fleet, &Principal::Agent(worker.clone()), &po()).1, None, "no work");
    let (liveness, data) = told(&mut fleet, &Principal::Agent(worker), &sibling);
    assert!(liveness.is_some() && data.is_none(), "{data:?}");
    let (_, data) = told(&mut fleet, &human(), &sibling);
    assert_eq!(data.unwrap()["result"]["deliverable"], "mine");
}

#[test]
fn longest_result_fits_the_answer_to_agent_status() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let worker = fleet.worker(epic, "T1.1");
    fleet.end(&worker, success(&"\u{1}".repeat(ANSWER_BYTES_MAX)));
    let asked = fleet.ask(&human(), RequestBody::Op(Op::AgentStatus { agent: worker }));
    let mail = owner::answer(&fleet.records, &fleet.policy, fleet.now, &asked).unwrap();
    let MailBody::Reply(reply) = mail.body else { panic!("{mail:?}") };
    let data = reply.data.unwrap();
    assert!(data.len() <= ANSWER_BYTES_MAX && data.len() > ANSWER_BYTES_MAX / 2, "{}", data.len());
}

#[test]
fn request_above_the_share_is_refused_and_may_be_repeated() {
    let mut fleet = Fleet::ready();
    let asked = fleet.ask(&human(), RequestBody::Op(mode(Mode::Tight)));
    let refused = reply(&fleet.one(Input::OverShare(Box::new(asked.clone()), Excess::Rate(100))));
    assert_eq!(refused.error, Some(ErrorCode::Unavailable), "{refused:?}");
    assert!(refused.detail.contains("100 requests a second"), "{refused:?}");
    let backlog = Backlog { reader: AgentId::Go, from: human(), count: 10_001 };
    let why = Excess::Unread(backlog);
    let refused = reply(&fleet.one(Input::OverShare(Box::new(asked.clone()), why)));
    assert!(refused.detail.starts_with("GO has 10001 unread messages of human:"), "{refused:?}");
    assert_eq!(reply(&fleet.one(Input::Request(Box::new(asked)))).error, None);
}

#[test]
fn decisions_expire_and_are_made_again() {
    let mut fleet = Fleet::ready();
    let mut status = fleet.ask(&human(), RequestBody::Op(mode(Mode::Tight)));
    status.id = RequestId(Ulid(9));
    fleet.one(Input::Request(Box::new(status.clone())));
    let at = fleet.records.decisions[&status.id].at;
    fleet.now = at + DECISION_KEPT;
    fleet.one(Input::Tick);
    assert!(fleet.records.decisions.contains_key(&status.id), "kept for the whole day");
    fleet.now = BusTime(at.0 + DECISION_KEPT.0 + 1);
    // Forgotten and asked again within one entry: the record has to survive its replay.
    fleet.group(vec![Input::Tick, Input::Request(Box::new(status.clone()))]);
    assert!(fleet.records.decisions[&status.id].at > at + Millis(0));
    fleet.now = fleet.now + DECISION_KEPT + Millis(1_000);
    fleet.one(Input::Tick);
    assert!(fleet.records.decisions.is_empty());
}

#[test]
fn sponsor_is_told_of_its_silence() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(1));
    let specialist = fleet.member(epic, "T1.1", Role::Specialist);
    let silent = Report::SponsorSilent { request: RequestId(Ulid(5)), sponsor: po() };
    let entry = fleet.report(&specialist, silent);
    assert_eq!(topics(&entry, &po()), ["sponsor.silent"]);
    assert!(entry.events.iter().any(|event| event.kind == EventKind::Alert));
}

#[test]
fn sponsor_is_the_specialists_own_orchestrator() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(2));
    let specialist = fleet.member(epic, "T1.1", Role::Specialist);
    let worker = fleet.worker(epic, "T1.2");
    for (reporter, sponsor) in [(specialist, id("PO-other")), (worker, po())] {
        let silent =
            Report::SponsorSilent { request: RequestId(Ulid(5)), sponsor: sponsor.clone() };
        let entry = fleet.report(&reporter, silent);
        assert!(topics(&entry, &sponsor).is_empty(), "{reporter}: {entry:?}");
    }
}

#[test]
fn reused_operation_id_with_another_body_is_a_conflict() {
    let mut fleet = Fleet::ready();
    let first = fleet.ask(&human(), RequestBody::Op(mode(Mode::Tight)));
    let once = reply(&fleet.one(Input::Request(Box::new(first.clone()))));
    let twice = reply(&fleet.one(Input::Request(Box::new(first.clone()))));
    assert_eq!(once, twice);
    let mut other = fleet.ask(&human(), RequestBody::Op(mode(Mode::Solo)));
    other.id = first.id;
    assert_eq!(reply(&fleet.one(Input::Request(Box::new(other)))).error, Some(ErrorCode::Conflict));
    let mut thief = first;
    thief.sender.from = Principal::Human(HumanName::new("Eve").unwrap());
    let refused = reply(&fleet.one(Input::Request(Box::new(thief))));
    assert_eq!(refused.error, Some(ErrorCode::Conflict), "another sender is told nothing");
}

#[test]
fn request_may_not_name_another_requester() {
    let (mut fleet, epic) = Fleet::with_goal(tasks(3));
    let others = [("T1.1", human()), ("T1.2", id("PO-other").into()), ("T1.3", AgentId::Go.into())];
    for (node, claimed) in others {
        let mut wanted = request(epic, node, vec![wish(Role::Worker)]);
        wanted.requested_by = Some(claimed);
        let answer = fleet.spawn(&po(), wanted);
        let child = fleet.agent(&answer.spawned[0].agent);
        assert_eq!(child.requested_by, po().into());
    }
}

#[test]
fn host_may_ask_only_for_agents_placed_on_it() {
    let mut fleet = Fleet::ready();
    for (agent, placed) in [(po(), false), (AgentId::Ho(HostName::new("h9").unwrap()), true)] {
        for op in [Op::AgentRegister, Op::AgentStatus { agent: AgentId::Go }] {
            let mut input = fleet.asking(&agent.clone().into(), RequestBody::Op(op.clone()));
            let Input::Request(request) = &mut input else { panic!("{input:?}") };
            request.sender.via = Some(HostName::new("h9").unwrap());
            let entry = fleet.one(input);
            let MailBody::Reply(reply) = &entry.mail[0].body else { panic!("{entry:?}") };
            let refused = reply.error == Some(ErrorCode::Unauthorized);
            assert_eq!(refused, !placed, "{agent} {op:?}: {reply:?}");
        }
    }
}
