//! Programs that die again and again, fast or slowly, of themselves or of a letter, and many that die
//! at once (spec 04, Restart intensity; spec 10, Faults).

use std::path::{Path, PathBuf};

use async_nats::HeaderMap;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tetrarch_bus::intake::dead_letters;
use tetrarch_bus::subject::Origin;
use tetrarch_core::ledger::EventKind;
use tetrarch_core::liveness::Liveness;
use tetrarch_core::records::Records;
use tetrarch_core::role::Role;
use tetrarch_tests::{Fleet, Ledger, Program, wait};

use crate::acting;
use crate::storm::run_to_its_end;

/// Failures that are borne of one parent's children, or of one task.
const BORNE: usize = 3;
/// Projects, and tasks of each, whose programs die at once.
const CROWD: (usize, usize) = (3, 3);

/// A plan with a task for each of these commands, side by side.
fn plan(project: &str, acts: &[Vec<String>]) -> Value {
    let ids = 1..=acts.len();
    let task = |n: usize| {
        json!({"id": format!("T1.{n}"), "name": "live", "profile": format!("p{n}"),
               "maxAttempts": 1, "acceptance": ["it ends"]})
    };
    let profile = |(n, argv)| (format!("p{n}"), json!({"argv": argv, "wall": "5m"}));
    let profiles: serde_json::Map<_, _> = ids.clone().zip(acts).map(profile).collect();
    json!({
        "project": project,
        "goal": {"title": "Come to an end"},
        "phases": [{"id": "P1", "name": "Live", "tasks": ids.map(task).collect::<Vec<_>>()}],
        "profiles": profiles,
    })
}

fn start(fleet: &Fleet, project: &str, acts: &[Vec<String>]) -> Program {
    let file = fleet.file(&format!("{project}.json"), &plan(project, acts).to_string());
    fleet.spawn(["run", "--quiet", file.to_str().unwrap()])
}

fn lines(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn act(name: &str, path: &Path, more: &[&str]) -> Vec<String> {
    acting(&[&[name, path.to_str().unwrap()], more].concat())
}

/// Nothing goes on, with one alert; the project does once its plan is cancelled and somebody has closed the circuit.
async fn assert_given_up(fleet: &Fleet, project: &str, running: Program) {
    let ended = running.ended();
    assert_eq!(ended.code, Some(1), "{}{}", ended.out, ended.err);
    let mut ledger = Ledger::follow(&fleet.control().await);
    let po = format!("PO-{project}").parse().unwrap();
    let open = |records: &Records| records.agents.get(&po)?.circuit.is_open().then_some(());
    ledger.until("an open circuit", open).await;
    let alerts = ledger.events(EventKind::Alert);
    let told = alerts.iter().filter(|event| event.reason.starts_with("circuit.open"));
    assert_eq!(told.count(), 1, "{alerts:?}");
    wait::until("no program is left", || fleet.agents().is_empty().then_some(()));
    // What waits for the circuit would go on and open it again.
    let mut goals = ledger.records.goals.values();
    let goal = goals.find(|goal| goal.project.as_str() == project).unwrap().id.to_string();
    fleet.ok(["goal", "cancel", &goal, "--reason", "it cannot be mended", "--yes"]);
    fleet.ok(["circuit", "close", &format!("PO-{project}")]);
    run_to_its_end(fleet, project);
    fleet.ok(["doctor", "--check-ledger"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_crashing_at_once_are_given_up_after_a_few_starts() {
    let fleet = Fleet::up();
    let files: Vec<PathBuf> = ["a", "b"].map(|name| fleet.cwd().join(name)).into();
    let acts: Vec<_> = files.iter().map(|file| act("perish", file, &["0"])).collect();
    let running = start(&fleet, "looping", &acts);
    assert_given_up(&fleet, "looping", running).await;
    let starts: usize = files.iter().map(|file| lines(file).len()).sum();
    // The last one may be stopped before it has noted anything.
    let most = files.len() + BORNE;
    assert!((most - 1..=most).contains(&starts), "{starts} starts");
}

#[tokio::test(flavor = "multi_thread")]
async fn task_with_slowly_crashing_programs_is_given_up() {
    let fleet = Fleet::prepared().with_env("TETRARCH_LIMITS_RESTART_WINDOW", "1s").started();
    let file = fleet.cwd().join("slow");
    let running = start(&fleet, "slow", &[act("perish", &file, &["1.1"])]);
    assert_given_up(&fleet, "slow", running).await;
    assert_eq!(lines(&file), ["1", "2", "3", "4"], "never two deaths in one window");
}

#[tokio::test(flavor = "multi_thread")]
async fn poisonous_mail_costs_one_task_and_nobody_else() {
    let fleet = Fleet::up();
    let file = fleet.cwd().join("poisoned");
    let running = start(&fleet, "poison", &[act("poisoned", &file, &[])]);
    let mut ledger = Ledger::follow(&fleet.control().await);
    let up = |records: &Records| {
        let mut all = records.agents.values();
        let worker = all.find(|agent| Role::of(&agent.id) == Role::Worker)?;
        (worker.liveness == Liveness::Active).then(|| worker.id.to_string())
    };
    let worker = ledger.until("a worker", up).await;
    fleet.ok(["mail", "send", &worker, "read this"]);
    run_to_its_end(&fleet, "bystander");
    assert_given_up(&fleet, "poison", running).await;
    assert_eq!(lines(&file), ["1", "2", "3", "4"], "it comes again after each death");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_programs_of_a_host_dying_at_once_resume() {
    let fleet = Fleet::prepared().with_option("--capacity", "40").started();
    let (projects, tasks) = CROWD;
    let file = |project: usize, task: usize| fleet.cwd().join(format!("{project}.{task}"));
    let begin = |project: usize| {
        let act = |task| act("record", &file(project, task), &["5", "waits"]);
        let acts: Vec<_> = (0..tasks).map(act).collect();
        start(&fleet, &format!("crowd-{project}"), &acts)
    };
    let running: Vec<Program> = (0..projects).map(begin).collect();
    let files = (0..projects).flat_map(|project| (0..tasks).map(move |task| file(project, task)));
    let files: Vec<PathBuf> = files.collect();
    let third = |path: &PathBuf| lines(path).contains(&"saved 3 1".to_owned());
    wait::until("everybody's third step", || files.iter().all(third).then_some(()));
    for agent in fleet.agents() {
        let pid = Pid::from_raw(i32::try_from(agent.pid).unwrap()).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
    }
    for ended in running.into_iter().map(Program::ended) {
        assert_eq!(ended.code, Some(0), "{}{}", ended.out, ended.err);
    }
    for path in files {
        let made: Vec<String> =
            lines(&path).into_iter().filter(|line| line.starts_with("made")).collect();
        assert_eq!(made, ["made 1 1", "made 2 1", "made 3 1", "made 4 2", "made 5 2"]);
    }
    let mut ledger = Ledger::follow(&fleet.control().await);
    let over = |records: &Records| {
        let workers = records.agents.values().filter(|agent| Role::of(&agent.id) == Role::Worker);
        let over = workers.filter(|agent| agent.liveness == Liveness::Terminated);
        (over.count() == projects * tasks).then_some(())
    };
    ledger.until("everybody's end", over).await;
    assert_eq!(ledger.events(EventKind::AgentReplaced).len(), projects * tasks);
    fleet.ok(["doctor", "--check-ledger"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn undecodable_plan_event_is_set_aside_and_its_plan_goes_on() {
    let fleet = Fleet::up();
    let control = fleet.control().await;
    let mut ledger = Ledger::follow(&control);
    let gate = fleet.cwd().join("gate");
    let running = start(&fleet, "garbled", &[act("gate", &gate, &[])]);
    let epic = ledger
        .until("a program that runs", |records| {
            let runs = records.run_status.values().any(|run| run.state.as_str() == "running");
            if runs { records.goals.keys().next().copied() } else { None }
        })
        .await;
    let subject = format!("plan.updated.{epic}");
    let garbage = b"{ no plan".to_vec().into();
    control.publish_expect(&subject, HeaderMap::new(), garbage, None).await.unwrap();
    let kept =
        async { while dead_letters(&control).await.unwrap().get(&Origin::Plans) != Some(&1) {} };
    wait::soon("a dead letter", kept).await;
    std::fs::write(&gate, "").unwrap();
    let ended = running.ended();
    assert_eq!(ended.code, Some(0), "{}{}", ended.out, ended.err);
}
