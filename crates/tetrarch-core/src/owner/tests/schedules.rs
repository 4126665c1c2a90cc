//! What begins at set times: once for each time, once for all that were missed, whichever owner finds it
//! due.

use serde_json::{Value, json};

use super::fleet::{Fleet, equipped, human, id, plan_of, po, project, reply, task, tasks};
use crate::audit::{Act, CredentialAct};
use crate::error::ErrorCode;
use crate::goal::GoalStatus;
use crate::id::{AgentId, EpicId, Principal, ProjectName, RequestId, ScheduleId, Ulid};
use crate::ledger::{Entry, EventKind};
use crate::limits::{
    FIRED_MAX, SCHEDULE_PLAN_BYTES_MAX, SCHEDULES_MAX, SCHEDULES_OWN_MAX, TEXT_BYTES_MAX,
};
use crate::mail::{Mail, MailBody, OpReply};
use crate::owner::{Input, decide, next_deadline};
use crate::plan::schema;
use crate::request::schedules::ScheduleOp;
use crate::request::{Op, Page, RequestBody};
use crate::schedule::{Deed, Rhythm, UTC};
use crate::time::{BusTime, Millis};

const MINUTE: Millis = Millis::from_secs(60);

fn goal(plan: &Value) -> Deed {
    let mut plan = plan.clone();
    plan["profiles"] = json!({"default": {"argv": ["head", "-n", "1"]}});
    Deed::Goal { project: project(), plan: plan.to_string() }
}

fn mail(to: Principal, text: &str) -> Deed {
    Deed::Mail { to, text: text.to_owned() }
}

fn cron(expression: &str) -> Rhythm {
    Rhythm::Cron { expression: expression.to_owned(), zone: UTC.to_owned() }
}

fn create(fleet: &mut Fleet, from: &Principal, rhythm: Rhythm, deed: Deed) -> OpReply {
    fleet.op(from, Op::Schedule(ScheduleOp::Create { rhythm, deed: Box::new(deed) }))
}

fn scheduled(fleet: &mut Fleet, rhythm: Rhythm, deed: Deed) -> ScheduleId {
    let said = create(fleet, &human(), rhythm, deed);
    assert_eq!(said.error, None, "{}", said.detail);
    said.detail.parse().unwrap()
}

fn tick(fleet: &mut Fleet, at: BusTime) -> Entry {
    fleet.now = at;
    fleet.one(Input::Tick)
}

fn next(fleet: &Fleet, id: ScheduleId) -> BusTime {
    fleet.records.schedules[&id].next.unwrap()
}

fn fired(entry: &Entry) -> usize {
    entry.events.iter().filter(|event| event.kind == EventKind::ScheduleFired).count()
}

#[test]
fn schedules_of_a_revoked_person_stop_and_those_of_others_go_on() {
    let mut fleet = Fleet::ready();
    let stopped = scheduled(&mut fleet, Rhythm::Every(MINUTE), goal(&tasks(1)));
    let other = Principal::Human("eve".parse().unwrap());
    let kept = create(&mut fleet, &other, Rhythm::Every(MINUTE), goal(&tasks(1)));
    let kept: ScheduleId = kept.detail.parse().unwrap();
    let act = Act { what: "creds.revoke".to_owned(), about: "bob".to_owned(), credential: None };
    let id = RequestId(Ulid(9));
    let act = CredentialAct { id, by: other, ends: Some(human()), act };
    fleet.one(Input::Credential(Box::new(act)));
    let after = &fleet.records.schedules[&stopped];
    assert_eq!((after.next, after.fired), (None, 0));
    assert!(after.outcome.contains("is revoked"), "{}", after.outcome);
    let due = next(&fleet, kept);
    assert_eq!(fired(&tick(&mut fleet, due)), 1);
}

#[test]
fn scheduled_goal_starts_when_due_not_before() {
    let mut fleet = Fleet::ready();
    let id = scheduled(&mut fleet, Rhythm::Every(MINUTE), goal(&tasks(1)));
    let due = next(&fleet, id);
    assert_eq!(due, fleet.records.schedules[&id].created + MINUTE);
    assert_eq!(next_deadline(&fleet.records, &fleet.policy, fleet.now), Some(due));
    assert_eq!(fired(&tick(&mut fleet, BusTime(due.0 - 1))), 0);
    let entry = tick(&mut fleet, due);
    assert_eq!(fired(&entry), 1);
    let epic = fleet.records.schedules[&id].firing(due, 0);
    assert_eq!(fleet.records.goal_states[&epic].status, GoalStatus::Active);
    assert_eq!(fleet.records.goals[&epic].owner, human(), "it is whose the schedule is");
    let begun = |epic| fleet.records.schedules[&id].has_begun(epic);
    assert!(begun(epic) && !begun(EpicId(Ulid::from_parts(due.0, 7))));
    assert_eq!(entry.plans[0].version, 1);
    let took_on = entry.mail.iter().any(|mail| mail.body == MailBody::TakeOn { epic });
    assert!(took_on, "its orchestrator takes it on");
    let after = fleet.records.schedules[&id].clone();
    assert_eq!((after.last, after.next, after.fired), (Some(due), Some(due + MINUTE), 1));
    assert_eq!(fired(&tick(&mut fleet, due)), 0, "once");
}

#[test]
fn firing_with_a_taken_id_starts_under_another() {
    let mut fleet = Fleet::ready();
    let id = scheduled(&mut fleet, Rhythm::Every(MINUTE), goal(&tasks(1)));
    let due = next(&fleet, id);
    let taken = fleet.records.schedules[&id].firing(due, 0);
    let plan = Box::new(equipped(schema::parse_either(&tasks(1)).unwrap()));
    let op = Op::GoalCreate { project: project(), plan };
    let mut input = fleet.asking(&human(), RequestBody::Op(op));
    let Input::Request(request) = &mut input else { panic!("{input:?}") };
    request.id = RequestId(taken.0);
    fleet.one(input);
    let before = fleet.records.goals[&taken].clone();
    assert_eq!(fired(&tick(&mut fleet, due)), 1);
    assert_eq!(fleet.records.goals[&taken], before, "it is not written over");
    let next = fleet.records.schedules[&id].firing(due, 1);
    assert_eq!(fleet.records.goal_states[&next].status, GoalStatus::Active);
}

#[test]
fn schedule_with_a_taken_id_is_refused() {
    let mut fleet = Fleet::ready();
    let look = || mail(human(), "look");
    let id = scheduled(&mut fleet, Rhythm::Every(MINUTE), look());
    fleet.records.decisions.clear();
    let op =
        Op::Schedule(ScheduleOp::Create { rhythm: Rhythm::Every(MINUTE), deed: Box::new(look()) });
    let mut input = fleet.asking(&po().into(), RequestBody::Op(op));
    let Input::Request(request) = &mut input else { panic!("{input:?}") };
    request.id = RequestId(id.0);
    let entry = fleet.one(input);
    let MailBody::Reply(reply) = &entry.mail[0].body else { panic!("{entry:?}") };
    assert_eq!(reply.error, Some(ErrorCode::Conflict), "{reply:?}");
}

#[test]
fn any_owner_starts_the_same_due_goal_once() {
    let mut fleet = Fleet::ready();
    let id = scheduled(&mut fleet, Rhythm::Every(MINUTE), goal(&tasks(1)));
    let due = next(&fleet, id);
    let decided = |fleet: &Fleet, at| decide(&fleet.records, &fleet.policy, at, &Input::Tick);
    let made = |step: &crate::step::Step| -> Vec<EpicId> { step.plans.keys().copied().collect() };
    // The first owner decides and ends before its commit; the next one finds it due, later.
    let lost = decided(&fleet, due);
    fleet.one(Input::Started { epoch: 2, instance: "two".to_owned() });
    let again = decided(&fleet, due + MINUTE);
    assert_eq!(made(&lost), made(&again));
    tick(&mut fleet, due + MINUTE);
    // The third one begins after that commit.
    fleet.one(Input::Started { epoch: 3, instance: "three".to_owned() });
    let now = fleet.now;
    assert_eq!(made(&decided(&fleet, now)), []);
    assert_eq!(fleet.records.goals.len(), 1);
}

#[test]
fn missed_firings_start_once() {
    let mut fleet = Fleet::ready();
    let id = scheduled(&mut fleet, cron("*/10 * * * *"), mail(human(), "look"));
    let due = next(&fleet, id);
    let late = due + Millis::from_secs(3 * 3600 + 5);
    let entry = tick(&mut fleet, late);
    assert_eq!(fired(&entry), 1);
    let after = &fleet.records.schedules[&id];
    assert_eq!(after.last, Some(due));
    assert_eq!(after.next, Some(due + Millis::from_secs(3 * 3600 + 600)), "not made up for");
    let told: Vec<&Mail> = entry.mail.iter().filter(|mail| mail.to == human()).collect();
    assert_eq!(told.len(), 1);
    let MailBody::Info { text } = &told[0].body else { panic!("{told:?}") };
    assert_eq!(
        *text,
        format!("{} by {id}: look", human()),
        "GO sends it, and they are not its words"
    );
}

#[test]
fn several_due_schedules_start_separate_goals() {
    let mut fleet = Fleet::ready();
    for _ in 0..3 {
        scheduled(&mut fleet, cron("*/10 * * * *"), goal(&tasks(1)));
    }
    let due = next_deadline(&fleet.records, &fleet.policy, fleet.now).unwrap();
    assert_eq!(fired(&tick(&mut fleet, due)), 3);
    assert_eq!(fleet.records.goals.len(), 3);
    let mut plans: Vec<_> = fleet.records.plans.values().map(|plan| plan.id).collect();
    plans.dedup();
    assert_eq!(plans.len(), 3, "each has a plan of its own");
}

#[test]
fn firings_per_decision_are_bounded() {
    let mut fleet = Fleet::ready();
    for _ in 0..=FIRED_MAX {
        scheduled(&mut fleet, cron("*/10 * * * *"), mail(human(), "look"));
    }
    let due = next_deadline(&fleet.records, &fleet.policy, fleet.now).unwrap();
    assert_eq!(fired(&tick(&mut fleet, due)), FIRED_MAX);
    assert_eq!(next_deadline(&fleet.records, &fleet.policy, fleet.now), Some(due), "at once");
    let now = fleet.now;
    assert_eq!(fired(&tick(&mut fleet, now)), 1);
    assert!(next_deadline(&fleet.records, &fleet.policy, fleet.now) > Some(due));
}

#[test]
fn largest_scheduled_plan_fits_into_a_commit() {
    let mut fleet = Fleet::ready();
    let task_of = |n: usize, bytes: usize| {
        task(&format!("T1.{n}"), json!({"definitionOfDone": "x".repeat(bytes)}))
    };
    let of = |bytes: usize| plan_of(&(1..=7).map(|n| task_of(n, bytes)).collect::<Vec<_>>());
    let mut bytes = 4096;
    while of(bytes).to_string().len() > SCHEDULE_PLAN_BYTES_MAX {
        bytes -= 16;
    }
    for _ in 0..4 {
        scheduled(&mut fleet, cron("*/10 * * * *"), goal(&of(bytes)));
    }
    let due = next_deadline(&fleet.records, &fleet.policy, fleet.now).unwrap();
    let mut rounds = 0;
    fleet.now = due;
    while next_deadline(&fleet.records, &fleet.policy, fleet.now) == Some(due) {
        let step = decide(&fleet.records, &fleet.policy, fleet.now, &Input::Tick);
        let weight = crate::owner::weight::step(&fleet.records, &step);
        assert!(weight <= crate::limits::STEP_BYTES_MAX, "{weight}");
        fleet.one(Input::Tick);
        rounds += 1;
    }
    assert_eq!(fleet.records.goals.len(), 4);
    assert!(rounds > 1, "in portions");
}

#[test]
fn nothing_starts_while_intake_is_halted() {
    let mut fleet = Fleet::ready();
    let id = scheduled(&mut fleet, Rhythm::Every(MINUTE), goal(&tasks(1)));
    let due = next(&fleet, id);
    fleet.policy.halted = Some("the disk is full".to_owned());
    assert_eq!(next_deadline(&fleet.records, &fleet.policy, fleet.now), None, "no circles");
    assert_eq!(fired(&tick(&mut fleet, due)), 0);
    fleet.policy.halted = None;
    let now = fleet.now;
    assert_eq!(fired(&tick(&mut fleet, now)), 1);
}

#[test]
fn failed_firing_is_reported_to_its_owner_and_retried() {
    let mut fleet = Fleet::ready();
    let id = scheduled(&mut fleet, Rhythm::Every(MINUTE), goal(&tasks(1)));
    assert_eq!(fleet.op(&human(), Op::ProjectRetire { project: project() }).error, None);
    let due = next(&fleet, id);
    let entry = tick(&mut fleet, due);
    let told = entry.mail.iter().find(|mail| mail.to == human()).unwrap();
    let MailBody::Info { text } = &told.body else { panic!("{told:?}") };
    assert!(text.contains("could not begin: E_NOT_FOUND"), "{text}");
    let after = &fleet.records.schedules[&id];
    assert_eq!((after.fired, after.next), (1, Some(due + MINUTE)));
    assert!(after.outcome.contains("E_NOT_FOUND"), "{}", after.outcome);
}

#[test]
fn schedule_permissions_follow_its_target() {
    let mut fleet = Fleet::ready();
    let epic = fleet.goal(tasks(1));
    let worker = Principal::Agent(fleet.worker(epic, "T1.1"));
    let (po, go) = (Principal::Agent(po()), Principal::Agent(AgentId::Go));
    let to_me = || mail(human(), "look");
    let other = Deed::Goal { project: ProjectName::new("none").unwrap(), plan: "{}".to_owned() };
    let to_nobody = mail(Principal::Agent(id("PO-none")), "look");
    for (from, deed, error) in [
        (human(), goal(&tasks(1)), None),
        (po.clone(), goal(&tasks(1)), None),
        (go.clone(), goal(&tasks(1)), None),
        (worker.clone(), goal(&tasks(1)), Some(ErrorCode::Unauthorized)),
        (human(), other, Some(ErrorCode::NotFound)),
        (human(), goal(&json!({"phasen": []})), Some(ErrorCode::InvalidPlan)),
        (
            human(),
            Deed::Goal { project: project(), plan: "{".to_owned() },
            Some(ErrorCode::InvalidPlan),
        ),
        (human(), to_me(), None),
        (go, to_me(), None),
        (po, to_me(), Some(ErrorCode::Unauthorized)),
        (worker, to_me(), Some(ErrorCode::Unauthorized)),
        (human(), to_nobody, Some(ErrorCode::NotFound)),
        (human(), mail(Principal::Agent(id("PO-demo")), "look"), Some(ErrorCode::Unauthorized)),
        (human(), mail(human(), &"x".repeat(TEXT_BYTES_MAX)), None),
        (human(), mail(human(), &"x".repeat(TEXT_BYTES_MAX + 1)), Some(ErrorCode::InvalidRequest)),
    ] {
        let said = create(&mut fleet, &from, Rhythm::Every(MINUTE), deed.clone());
        assert_eq!(said.error, error, "{from} {deed:?}: {}", said.detail);
    }
    for rhythm in [cron("x"), cron("0 0 30 2 *"), Rhythm::Every(Millis(1)), cron(&"*".repeat(300))]
    {
        let said = create(&mut fleet, &human(), rhythm, to_me());
        assert_eq!(said.error, Some(ErrorCode::InvalidRequest), "{}", said.detail);
    }
}

#[test]
fn schedule_is_removed_by_its_owner_or_people() {
    let mut fleet = Fleet::ready();
    let po = Principal::Agent(po());
    let delete = |schedule| Op::Schedule(ScheduleOp::Delete { schedule });
    let profile = json!({"name": "default", "argv": ["head", "-n", "1"]});
    let profile = Box::new(schema::parse_profile(&profile).unwrap());
    fleet.op(&human(), Op::ProfileApply { project: project(), profile });
    let own = create(&mut fleet, &po, Rhythm::Every(MINUTE), goal(&tasks(1)));
    let own: ScheduleId = own.detail.parse().unwrap();
    let other = scheduled(&mut fleet, Rhythm::Every(MINUTE), goal(&tasks(1)));
    assert_eq!(fleet.op(&po, delete(other)).error, Some(ErrorCode::Unauthorized));
    assert_eq!(fleet.op(&po, delete(own)).error, None);
    assert_eq!(fleet.op(&human(), delete(other)).error, None);
    assert_eq!(fleet.op(&human(), delete(other)).error, Some(ErrorCode::NotFound));
    assert!(fleet.records.schedules.is_empty());
    assert_eq!(next_deadline(&fleet.records, &fleet.policy, fleet.now), None);
}

#[test]
fn schedule_list_shows_times_and_outcomes() {
    let mut fleet = Fleet::ready();
    let id = scheduled(&mut fleet, Rhythm::Every(MINUTE), goal(&tasks(1)));
    let due = next(&fleet, id);
    tick(&mut fleet, due);
    let list = RequestBody::Op(Op::Schedule(ScheduleOp::List { page: Page::default() }));
    let input = fleet.asking(&human(), list);
    let data = reply(&fleet.one(input)).data.unwrap();
    let told: Value = serde_json::from_str(&data).unwrap();
    let only = &told["schedules"][0];
    assert_eq!((&only["id"], &only["fired"]), (&json!(id.to_string()), &json!(1)));
    assert_eq!(only["when"], json!("every 1m"));
    assert_eq!(only["lastUnixMs"], json!(due.0));
    assert!(only["outcome"].as_str().unwrap().starts_with("goal_"), "{only}");
    assert!(!data.contains("phases"), "without its plan");
}

#[test]
fn schedules_are_bounded() {
    let mut fleet = Fleet::ready();
    let id = scheduled(&mut fleet, Rhythm::Every(MINUTE), mail(human(), "look"));
    let one = fleet.records.schedules[&id].clone();
    let fill = |fleet: &mut Fleet, owner: Principal, numbers: std::ops::Range<usize>| {
        for n in numbers {
            let (id, owner) = (ScheduleId(crate::id::Ulid(n as u128)), owner.clone());
            let more = crate::schedule::Schedule { id, owner, ..one.clone() };
            fleet.records.put(crate::ledger::Record::Schedule(Box::new(more)));
        }
    };
    let another = |fleet: &mut Fleet| {
        create(fleet, &human(), Rhythm::Every(MINUTE), mail(human(), "a")).error
    };
    fill(&mut fleet, human(), 1..SCHEDULES_OWN_MAX - 1);
    assert_eq!(another(&mut fleet), None);
    assert_eq!(another(&mut fleet), Some(ErrorCode::Conflict), "as many as one may have");
    let mut fleet = Fleet::ready();
    fill(&mut fleet, "human:eve".parse().unwrap(), 0..SCHEDULES_MAX - 1);
    assert_eq!(another(&mut fleet), None);
    assert_eq!(another(&mut fleet), Some(ErrorCode::Conflict), "as many as there may be");
}
