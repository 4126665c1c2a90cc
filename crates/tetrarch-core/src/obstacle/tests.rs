//! Each obstacle with what brings it about, what it holds up and what helps. Several at a time, what is
//! progress, and how long each is borne are in `several`.

mod several;

use serde_json::json;

use super::{Obstacle, ObstacleKind as Kind, Telemetry, of_epic, of_fleet};
use crate::agent::{Agent, DEFAULT_PROFILE, Hosting, Mode};
use crate::brief::{Outcome, RunResult};
use crate::budget::{Account, Limits};
use crate::id::{AgentId, EpicId, ProfileName, QuestionId, Ulid};
use crate::ledger::{Record, RecordKey};
use crate::liveness::Liveness;
use crate::owner::tests::changes::{approve, ask, change, made};
use crate::owner::tests::fleet::{Fleet, human, id, node, plan_of, po, project, success, task};
use crate::plan::Blocker;
use crate::request::goals::{GoalOp, GoalVerb};
use crate::request::{Op, Report};
use crate::time::BusTime;

/// T1.1, T1.2 after it, and T1.3 by itself.
fn fleet() -> (Fleet, EpicId) {
    Fleet::with_goal(plan_of(&[
        task("T1.1", json!({})),
        task("T1.2", json!({"deps": ["T1.1"]})),
        task("T1.3", json!({})),
    ]))
}

fn well() -> Telemetry {
    Telemetry { owner: true, halted: None }
}

fn found(fleet: &Fleet, epic: EpicId) -> Vec<Obstacle> {
    of_epic(&fleet.records, &well(), epic)
}

/// The command lines of an obstacle, with the ids that differ from run to run left out.
fn commands(obstacle: &Obstacle) -> Vec<String> {
    let plain = |word: &String| match word.split_once('_') {
        Some((kind @ ("goal" | "run" | "chg" | "qst"), _)) => kind.to_owned(),
        Some(_) | None => word.clone(),
    };
    let line = |words: Vec<String>| words.iter().map(plain).collect::<Vec<_>>().join(" ");
    obstacle.remedies.iter().map(|remedy| line(remedy.words())).collect()
}

fn set(fleet: &mut Fleet, agent: &AgentId, change: impl FnOnce(&mut Agent)) {
    let mut agent = fleet.records.agents[agent].clone();
    change(&mut agent);
    fleet.records.put(Record::Agent(Box::new(agent)));
}

fn trip(fleet: &mut Fleet, cause: &str) {
    set(fleet, &po(), |po| {
        po.circuit.open(BusTime(5), cause);
    });
}

fn placed(fleet: &mut Fleet, epic: EpicId, label: &str) {
    let mut wanted = fleet.records.nodes[&epic][&node("T1.1")].clone();
    wanted.placement.labels = vec![("gpu".to_owned(), label.to_owned())];
    fleet.records.put(Record::Node(epic, Box::new(wanted)));
}

fn with_mode(fleet: &mut Fleet, mode: Mode) {
    let mut changed = fleet.records.projects[&project()].clone();
    changed.mode = mode;
    fleet.records.put(Record::Project(changed));
}

/// Mode solo with an orchestrator that does the work itself.
fn solo_outside(fleet: &mut Fleet) {
    with_mode(fleet, Mode::Solo);
    set(fleet, &po(), |po| po.hosting = Hosting::External);
}

fn goal(fleet: &mut Fleet, epic: EpicId, verb: GoalVerb) {
    let done = fleet.op(&human(), Op::Goal(GoalOp { epic, verb, reason: "so".to_owned() }));
    assert_eq!(done.error, None, "{done:?}");
}

fn fails(fleet: &mut Fleet, epic: EpicId, on: &str) {
    let worker = fleet.worker(epic, on);
    fleet.end(&worker, RunResult::ended(Outcome::Failure, "exit code 3"));
}

fn block(fleet: &mut Fleet, epic: EpicId, kind: &str) {
    let blocker =
        Blocker { kind: kind.to_owned(), detail: "because".to_owned(), needs: String::new() };
    let done = fleet.op(&human(), Op::WorkBlock { epic, node: node("T1.1"), blocker });
    assert_eq!(done.error, None, "{done:?}");
}

/// What happens, and what is found then: its kind, its subject, what it holds up, a part of what is
/// said, the commands.
type Row =
    (fn(&mut Fleet, EpicId), Kind, &'static str, usize, &'static str, &'static [&'static str]);

const ROWS: &[Row] = &[
    (
        |fleet, _| trip(fleet, "T1.1: signal 11"),
        Kind::CircuitOpen,
        "PO-demo",
        3,
        "the last failure: T1.1: signal 11",
        &["circuit close PO-demo"],
    ),
    (
        |fleet, _| set(fleet, &po(), |po| po.liveness = Liveness::Terminated),
        Kind::OrchestratorEnded,
        "PO-demo",
        3,
        "PO-demo has ended",
        &["project create demo", "goal cancel goal"],
    ),
    (
        |fleet, _| {
            set(fleet, &po(), |po| {
                po.hosting = crate::agent::Hosting::External;
                po.liveness = Liveness::Register;
                po.session = None;
            });
        },
        Kind::OrchestratorAbsent,
        "PO-demo",
        3,
        "has never registered",
        &["describe PO-demo"],
    ),
    (
        |fleet, _| {
            set(fleet, &po(), |po| {
                po.hosting = crate::agent::Hosting::External;
                po.liveness = Liveness::Offline;
            });
        },
        Kind::OrchestratorAbsent,
        "PO-demo",
        3,
        "is silent",
        &["describe PO-demo"],
    ),
    (
        |fleet, _| set(fleet, &id("HO@h1"), |host| host.liveness = Liveness::Offline),
        Kind::NoHost,
        "hosts",
        3,
        "no host is running: HO@h1 is offline",
        &["host"],
    ),
    (
        |fleet, _| {
            set(fleet, &id("HO@h1"), |host| host.liveness = Liveness::Offline);
            set(fleet, &po(), |po| po.liveness = Liveness::Offline);
        },
        Kind::NoHost,
        "hosts",
        3,
        "no host is running",
        &["host"],
    ),
    (
        |fleet, epic| placed(fleet, epic, "yes"),
        Kind::NoHostFits,
        "hosts",
        2,
        "no running host is labelled gpu=yes; running: h1 (zone=a)",
        &["host --name host-2 --label gpu=yes"],
    ),
    (
        |fleet, _| {
            let mut host = fleet.records.hosts.values().next().unwrap().clone();
            host.capacity = 0;
            fleet.records.put(Record::Host(host));
        },
        Kind::HostsFull,
        "hosts",
        3,
        "h1 0 of 0",
        &["host --name host-2"],
    ),
    (
        |fleet, _| solo_outside(fleet),
        Kind::NoSlots,
        "project/demo",
        3,
        "mode solo",
        &["project mode demo orchestrator"],
    ),
    (
        |fleet, epic| {
            set(fleet, &po(), |po| {
                po.account = Account::of(Limits { tokens: Some(10), ..Limits::default() });
            });
            let mut asks = fleet.records.nodes[&epic][&node("T1.1")].clone();
            asks.budget.tokens = Some(25);
            fleet.records.put(Record::Node(epic, Box::new(asks)));
        },
        Kind::BudgetUsed,
        "PO-demo",
        2,
        "has 10 tokens left, but 25 are requested",
        &["budget raise PO-demo --tokens 15"],
    ),
    (
        |fleet, epic| goal(fleet, epic, GoalVerb::Pause),
        Kind::GoalPaused,
        "goal",
        3,
        "the goal is paused",
        &["goal resume goal"],
    ),
    (
        |fleet, epic| {
            let worker = fleet.worker(epic, "T1.1");
            set(fleet, &worker, |it| it.verbs.paused_by = Some(human()));
        },
        Kind::AgentPaused,
        "W:",
        2,
        "is paused by human:Shai: T1.1 does not continue",
        &["resume W:"],
    ),
    (
        |fleet, epic| {
            let worker = fleet.worker(epic, "T1.1");
            let (run, id) = (fleet.run_of(&worker), Some(QuestionId(Ulid(7))));
            let question = "which one?".to_owned();
            fleet.report(&worker, Report::Ask { run, id, question, options: Vec::new() });
        },
        Kind::QuestionOpen,
        "qst",
        2,
        "asks about T1.1: which one?",
        &["answer qst TEXT"],
    ),
    (
        |fleet, epic| {
            let worker = fleet.worker(epic, "T1.1");
            change(fleet, &worker, made(&["a"]));
        },
        Kind::ChangeWaiting,
        "chg",
        2,
        "the change of T1.1 needs an approval before it is merged into main",
        &["change show chg", "approve chg --apply"],
    ),
    (
        |fleet, epic| {
            let worker = fleet.worker(epic, "T1.1");
            let (_, proposed) = change(fleet, &worker, made(&["a"]));
            fleet.end(&worker, success("done"));
            assert_eq!(ask(fleet, approve(&proposed)).1.error, None);
        },
        Kind::ChangeWaiting,
        "chg",
        1,
        "approved but not yet merged into main",
        &["apply chg"],
    ),
    (
        |fleet, epic| {
            let worker = fleet.worker(epic, "T1.1");
            let (_, proposed) = change(fleet, &worker, made(&["a"]));
            fleet.end(&worker, success("done"));
            let expired = crate::change::ChangeStatus::Expired;
            let expired = crate::change::Change { status: expired, ..proposed };
            fleet.records.put(Record::Change(Box::new(expired)));
        },
        Kind::ChangeExpired,
        "chg",
        1,
        "the change of T1.1 was not merged into main",
        &["change show chg", "worktree remove run --host h1 --force"],
    ),
    (
        |fleet, epic| {
            fails(fleet, epic, "T1.1");
            fails(fleet, epic, "T1.1");
        },
        Kind::WorkBlocked,
        "goal/T1.1",
        2,
        "exit code 3",
        &["logs run", "profile apply demo FILE", "work unblock goal T1.1"],
    ),
    (
        |fleet, epic| block(fleet, epic, "manual"),
        Kind::WorkBlocked,
        "goal/T1.1",
        2,
        "T1.1 T1.1 is blocked (manual): because",
        &["work unblock goal T1.1"],
    ),
    (
        |fleet, epic| block(fleet, epic, "tool_not_allowed"),
        Kind::WorkBlocked,
        "goal/T1.1",
        2,
        "tool_not_allowed",
        &["profile apply demo FILE", "plan apply goal FILE", "work unblock goal T1.1"],
    ),
    (
        |fleet, epic| {
            set(fleet, &po(), |po| {
                po.account = Account::of(Limits { cost_micro: Some(5), ..Limits::default() });
            });
            let mut asks = fleet.records.nodes[&epic][&node("T1.1")].clone();
            asks.budget.cost_micro = Some(2_000_005);
            fleet.records.put(Record::Node(epic, Box::new(asks)));
            block(fleet, epic, "budget_exceeded");
        },
        Kind::WorkBlocked,
        "goal/T1.1",
        2,
        "budget_exceeded",
        &["budget raise PO-demo --cost-usd 2.000000", "work unblock goal T1.1"],
    ),
    (
        |fleet, epic| {
            let name = ProfileName::new(DEFAULT_PROFILE).unwrap();
            fleet.records.remove(&RecordKey::Profile(project(), name));
            block(fleet, epic, "invalid_request");
        },
        Kind::ProfileMissing,
        "goal/T1.1",
        2,
        "project demo has no profile default, which T1.1 needs",
        &["profile apply demo FILE", "work unblock goal T1.1"],
    ),
    (
        |fleet, epic| {
            let mut gone = fleet.records.node_states[&epic][&node("T1.1")].clone();
            gone.status = crate::plan::NodeStatus::Cancelled;
            fleet.records.put(Record::NodeState(epic, Box::new(gone)));
        },
        Kind::DependencyCancelled,
        "goal/T1.2",
        1,
        "T1.2 depends on T1.1, which is cancelled",
        &["plan apply goal FILE", "goal cancel goal"],
    ),
];

#[test]
fn each_obstacle_names_what_it_blocks_and_its_remedy() {
    for (happens, kind, subject, holds_up, said, next) in ROWS {
        let (mut fleet, epic) = fleet();
        assert_eq!(found(&fleet, epic), [], "nothing is in the way at first");
        happens(&mut fleet, epic);
        let all = found(&fleet, epic);
        let [only] = all.as_slice() else { panic!("{kind}: {all:?}") };
        assert_eq!(only.kind, *kind, "{only:?}");
        let about = only.subject.to_string();
        let parts: Vec<&str> = subject.split('/').collect();
        assert!(parts.iter().all(|part| about.contains(part)), "{kind}: {about}");
        assert!(only.what.contains(said), "{kind}: {}", only.what);
        assert_eq!(only.holds_up, *holds_up, "{kind}: {only:?}");
        let lines = commands(only);
        let same = lines.len() == next.len()
            && lines.iter().zip(*next).all(|(line, part)| line.starts_with(part));
        assert!(same, "{kind}: {lines:?}");
        assert_eq!(of_fleet(&fleet.records, &well()), all, "{kind}: the fleet has the same");
    }
}

#[test]
fn failed_command_is_cured_by_its_plan() {
    let plan = plan_of(&[json!({"id": "T1.1", "name": "test", "run": "make tset"})]);
    let (mut fleet, epic) = Fleet::with_goal(plan);
    fails(&mut fleet, epic, "T1.1");
    fails(&mut fleet, epic, "T1.1");
    let [only] = &found(&fleet, epic)[..] else { panic!() };
    let next = ["logs run", "plan apply goal FILE --reason TEXT", "work unblock goal T1.1"];
    assert_eq!(commands(only), next);
}
