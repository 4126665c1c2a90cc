//! Operations on goals, work and schedules.

use serde_json::{Value, json};
use tetrarch_core::brief::Evidence;
use tetrarch_core::plan::NodeStatus;
use tetrarch_core::priority::Priority;
use tetrarch_core::request::goals::{GoalChange, GoalOp, GoalUpdate, GoalVerb};
use tetrarch_core::request::schedules::ScheduleOp;
use tetrarch_core::request::work::{Completion, WorkOp, WorkVerb};
use tetrarch_core::request::{Op, Page, RequestBody};

use super::{complaint, decode};
use crate::codec::tests::samples::{self, U, id, result, schedule};
use crate::codec::{encode_goal_create, encode_op};

/// One of each.
pub(super) fn ops() -> impl Iterator<Item = Op> {
    goal_ops().chain(goal_updates()).chain(work_ops()).chain(schedule_ops())
}

fn goal_ops() -> impl Iterator<Item = Op> {
    use GoalVerb::{Archive, Cancel, Pause, Prioritise, Resume};
    let said = |number| Some(Priority::new(number).unwrap());
    let verbs = [Pause, Resume, Cancel, Archive, Prioritise(None), Prioritise(said(0))];
    let op = |verb| GoalOp { epic: id("goal_~"), verb, reason: "r".to_owned() };
    verbs.into_iter().map(move |verb| Op::Goal(op(verb)))
}

fn goal_updates() -> impl Iterator<Item = Op> {
    let spec = samples::goal_spec();
    let whole = GoalChange {
        title: Some(spec.title),
        problem_statement: Some(spec.problem_statement),
        success_criteria: Some(spec.success_criteria),
        non_goals: Some(Vec::new()),
        constraints: Some(spec.constraints),
        assumptions: Some(spec.assumptions),
        risks: Some(spec.risks),
        stakeholders: Some(spec.stakeholders),
        repo_context: Some(spec.repo_context),
        tags: Some(spec.tags),
        origin: Some(spec.origin),
    };
    let one = GoalChange { title: Some("t".to_owned()), ..GoalChange::default() };
    let update = |change| GoalUpdate { epic: id("goal_~"), change, reason: "r".to_owned() };
    [whole, one].map(|change| Op::GoalUpdate(Box::new(update(change)))).into_iter()
}

fn work_ops() -> impl Iterator<Item = Op> {
    let done = |crystallization: &str, evidence, reason: &str| {
        WorkVerb::Complete(Box::new(Completion {
            node: id("T1.2"),
            crystallization: crystallization.to_owned(),
            evidence,
            reason: reason.to_owned(),
        }))
    };
    let said = |number| Some(Priority::new(number).unwrap());
    let priorities = vec![(id("T1.2"), said(100)), (id("P1"), None)];
    let verbs = [
        done("c", result().evidence, "r"),
        done("", Evidence::default(), ""),
        WorkVerb::List { status: None, page: Page { limit: Some(5), after: Some(id("T1.2")) } },
        WorkVerb::List { status: Some(NodeStatus::InProgress), page: Page::default() },
        WorkVerb::Reprioritise { priorities, reason: "r".to_owned() },
        WorkVerb::Insights { page: Page { limit: None, after: Some(id("T1.2")) } },
        WorkVerb::Recommend { limit: 3 },
        WorkVerb::Unblock { node: id("T1.2"), note: "n".to_owned() },
    ];
    verbs.into_iter().map(|verb| Op::Work(WorkOp { epic: id("goal_~"), verb }))
}

fn schedule_ops() -> impl Iterator<Item = Op> {
    let create = |by_clock, deed| ScheduleOp::Create {
        rhythm: schedule::rhythm(by_clock),
        deed: Box::new(deed),
    };
    let delete = ScheduleOp::Delete { schedule: id("sch_~") };
    let ops = [
        create(true, schedule::deed(false)),
        create(false, schedule::deed(true)),
        create(false, schedule::turn(true)),
        create(true, schedule::turn(false)),
        delete,
        ScheduleOp::List { page: Page::default() },
    ];
    ops.into_iter().map(Op::Schedule)
}

#[test]
fn schedule_needs_one_time_and_one_target() {
    let said = |fields: Value| {
        let mut body = json!({"requestId": U});
        let Value::Object(fields) = fields else { panic!("fields are a mapping") };
        body.as_object_mut().unwrap().extend(fields);
        complaint("op.schedule.create.human:ada", &body)
    };
    let mail = || json!({"to": "human:ada", "text": "t"});
    assert_eq!(said(json!({"mail": mail()})), "cron or every is missing");
    assert_eq!(said(json!({"every": "1h"})), "goal, mail or turn is missing");
    let both = said(json!({"every": "1h", "cron": "* * * * *", "mail": mail()}));
    assert!(both.starts_with("every: is given together with cron"), "{both}");
    let goal = json!({"project": "demo", "plan": {"title": "t"}});
    let two = said(json!({"every": "1h", "mail": mail(), "goal": goal}));
    assert!(two.starts_with("mail: is given together with a goal"), "{two}");
    let turn = || json!({"conversation": "night", "project": "demo", "text": "look"});
    let two = said(json!({"every": "1h", "turn": turn(), "mail": mail()}));
    assert!(two.starts_with("turn: is given together with mail"), "{two}");
    let mute = json!({"conversation": "night", "project": "demo"});
    assert_eq!(said(json!({"every": "1h", "turn": mute})), "turn.text is missing");
    let zone = said(json!({"every": "1h", "zone": "UTC", "mail": mail()}));
    assert!(zone.starts_with("zone: an interval has no time zone"), "{zone}");
    let high = complaint(
        "op.goal.prioritise.human:ada",
        &json!({"requestId": U, "epic": format!("goal_{U}"), "priority": 101}),
    );
    assert!(high.starts_with("priority:") && high.contains("0 to 100"), "{high}");
}

#[test]
fn profile_in_a_plan_round_trips() {
    let plan = json!({"goal": {"title": "t"},
        "phases": [{"id": "P1", "name": "p", "tasks": [{"id": "T1.1", "name": "n", "run": "make it"}]}],
        "profiles": {"default": {"argv": ["a"], "env": {"Z": "1", "A": "2"}, "verdict": "exit",
            "passEnv": ["Z", "B"], "tools": ["write", "read"], "budget": {"turns": 3}}}});
    let bytes = encode_goal_create(id("~"), &id("demo"), &plan).unwrap();
    let RequestBody::Op(op) = decode("op.goal.create.human:ada", &bytes).body else { panic!() };
    let Op::GoalCreate { project, plan } = op else { panic!("{op:?}") };
    assert_eq!(plan.profiles.len(), 2);
    for profile in plan.profiles {
        let apply = Op::ProfileApply { project: project.clone(), profile: Box::new(profile) };
        let bytes = encode_op(&apply, id("~")).unwrap();
        assert_eq!(decode("op.profile.apply.human:ada", &bytes).body, RequestBody::Op(apply));
    }
}
