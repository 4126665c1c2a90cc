//! Processes die, and the fleet goes on from where they were (spec 04, Crash recovery).

use std::path::PathBuf;
use std::time::Duration;

use futures::StreamExt;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tetrarch_bus::journal::last_checkpoint;
use tetrarch_core::agent::Agent;
use tetrarch_core::ledger::EventKind;
use tetrarch_core::liveness::Liveness;
use tetrarch_core::plan::NodeStatus;
use tetrarch_core::records::Records;
use tetrarch_core::role::Role;
use tetrarch_core::run::RunState;
use tetrarch_tests::{Fleet, Ledger, Program, wait};

use crate::{acting, journal_of};

fn plan(argv: &[String]) -> serde_json::Value {
    json!({
        "project": "mortal",
        "output": "T1.1",
        "goal": {"title": "Outlive a process"},
        "phases": [{"id": "P1", "name": "Go on", "tasks": [
            {"id": "T1.1", "name": "steps", "profile": "steps", "maxAttempts": 1,
             "acceptance": ["every step is made once"]},
        ]}],
        "profiles": {"steps": {"argv": argv, "wall": "5m"}},
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_worker_resumes_from_its_checkpoint() {
    let fleet = Fleet::up();
    let witness = fleet.cwd().join("witness");
    let argv = acting(&["steps", witness.to_str().unwrap(), "7"]);
    let file = fleet.file("mortal.json", &plan(&argv).to_string());
    let ended = fleet.run(["run", file.to_str().unwrap()]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(ended.out.contains("\"epoch\":3"), "two deaths, three sessions: {}", ended.out);
    let made = std::fs::read_to_string(witness).unwrap();
    assert_eq!(made, "1 1\n2 1\n3 1\n4 2\n5 2\n6 2\n7 3\n", "each step once, in order");

    let control = fleet.control().await;
    let mut ledger = Ledger::follow(&control);
    let node = "T1.1".parse().unwrap();
    let done = |status| status == NodeStatus::Done;
    let attempts = ledger
        .until("the node is done", |records| {
            let state = records.node_states.values().find_map(|states| states.get(&node))?;
            done(state.status).then_some(state.attempts)
        })
        .await;
    assert_eq!(attempts, 1, "a death is no failed attempt");
    let mut states: Vec<RunState> =
        ledger.records.run_status.values().map(|status| status.state).collect();
    states.sort();
    assert_eq!(states, [RunState::Done, RunState::Orphaned, RunState::Orphaned]);
    let worker = ledger.records.agents.values().find(|agent| agent.work.is_some()).unwrap();
    assert_eq!((worker.epoch, worker.liveness), (3, Liveness::Terminated));
    let replaced = ledger.events(EventKind::AgentReplaced);
    assert_eq!(replaced.len(), 2);
    assert!(replaced.iter().all(|event| event.reason.contains("signal 9")), "{replaced:?}");
    let run = worker.work.as_ref().unwrap().run.to_string();
    for thing in [worker.id.to_string(), run] {
        let why = fleet.ok(["why", &thing]);
        assert!(why.contains("is terminated in session 3"), "{why}");
        let said = |word: &str| why.matches(word).count();
        assert_eq!((said("agent.replaced"), said("heartbeat_lost: signal 9")), (2, 2), "{why}");
    }
    fleet.ok(["doctor", "--check-ledger"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn next_session_is_told_what_the_crashed_one_was_told() {
    let fleet = Fleet::up();
    let file = fleet.file("mortal.json", &plan(&acting(&["mortal"])).to_string());
    let running = fleet.spawn(["run", "--quiet", file.to_str().unwrap()]);
    let control = fleet.control().await;
    let mut ledger = Ledger::follow(&control);
    let up = |records: &Records| {
        worker(records).filter(|worker| worker.liveness == Liveness::Active).map(|w| w.id.clone())
    };
    let id = ledger.until("a worker", up).await;
    fleet.ok(["mail", "send", &id.to_string(), "you are needed"]);
    let ended = running.ended();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let told: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!((&told["epoch"], &told["body"]["text"]), (&json!(2), &json!("you are needed")));
}

/// Short enough for a test, long enough for a machine that is busy.
pub(crate) const WINDOW: Duration = Duration::from_millis(400);

/// A fleet whose one worker runs on a second host and waits after its third step.
pub(crate) struct TwoHosts {
    pub(crate) fleet: Fleet,
    second: Option<Program>,
    running: Program,
    pub(crate) ledger: Ledger,
    witness: PathBuf,
    gate: PathBuf,
}

fn worker(records: &Records) -> Option<&Agent> {
    records.agents.values().find(|agent| Role::of(&agent.id) == Role::Worker)
}

fn on(agent: &Agent) -> &str {
    agent.placement.as_ref().unwrap().host.as_str()
}

/// Starts a second host on which all work of the project is placed, while its orchestrator stays on
/// the first one.
fn second_host(fleet: &Fleet) -> Program {
    fleet.ok(["project", "create", "mortal"]);
    fleet.second_host("h2")
}

impl TwoHosts {
    pub(crate) async fn start() -> Self {
        Self::start_with("TETRARCH_LIVENESS_WINDOW", &format!("{}ms", WINDOW.as_millis())).await
    }

    /// The same with one more setting.
    pub(crate) async fn start_with(name: &str, value: &str) -> Self {
        let fleet = Fleet::prepared()
            .with_env("TETRARCH_LIVENESS_WINDOW", format!("{}ms", WINDOW.as_millis()))
            .with_env(name, value)
            .started();
        let second = second_host(&fleet);
        let (witness, gate) = (fleet.cwd().join("witness"), fleet.cwd().join("gate"));
        let argv = acting(&["walk", witness.to_str().unwrap(), gate.to_str().unwrap(), "6"]);
        let file = fleet.file("mortal.json", &plan(&argv).to_string());
        let running = fleet.spawn(["run", file.to_str().unwrap()]);
        let control = fleet.control().await;
        let mut ledger = Ledger::follow(&control);
        let found = |records: &Records| {
            let worker = worker(records)?;
            Some((on(worker).to_owned(), journal_of(worker)?))
        };
        let (place, run) = ledger.until("a worker", found).await;
        assert_eq!(place, "h2");
        let mut entries = control.client().subscribe(run.subject().to_string()).await.unwrap();
        control.client().flush().await.unwrap();
        wait::soon("the third step's checkpoint", async {
            while last_checkpoint(&control, &run).await.unwrap().as_deref() != Some(r#"{"done":3}"#)
            {
                entries.next().await.unwrap();
            }
        })
        .await;
        Self { fleet, second: Some(second), running, ledger, witness, gate }
    }

    /// Sends a signal to the second host.
    pub(crate) fn signal(&self, signal: Signal) {
        self.second.as_ref().unwrap().signal(signal);
    }

    /// Waits until the worker's next session is placed on the first host.
    async fn until_replaced(&mut self) {
        let replaced = |records: &Records| {
            let worker = worker(records)?;
            (worker.epoch == 2 && on(worker) == "h1").then_some(())
        };
        self.ledger.until("the worker's next session", replaced).await;
    }

    /// Opens the gate and looks at what came of it: every step once, the later ones by the session
    /// of this epoch alone.
    pub(crate) fn finish(self, epoch: u64) -> Fleet {
        std::fs::write(&self.gate, "open").unwrap();
        let ended = self.running.ended();
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        let made = std::fs::read_to_string(&self.witness).unwrap();
        let wanted = format!("1 1\n2 1\n3 1\n4 {epoch}\n5 {epoch}\n6 {epoch}\n");
        assert_eq!(made, wanted, "each step once, in order");
        self.fleet.ok(["doctor", "--check-ledger"]);
        self.fleet
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn work_of_a_killed_host_goes_on_elsewhere_once() {
    let mut two = TwoHosts::start().await;
    two.signal(Signal::KILL);
    two.until_replaced().await;
    let states: Vec<Liveness> = ["HO@h1", "HO@h2"]
        .map(|ho| two.ledger.records.agents[&ho.parse().unwrap()].liveness)
        .into();
    assert_eq!(states, [Liveness::Active, Liveness::Offline]);
    assert!(!two.ledger.events(EventKind::HostLeft).is_empty());
    let id = worker(&two.ledger.records).unwrap().id.to_string();
    let why = two.fleet.ok(["why", &id]);
    assert!(why.contains("windows missed, and its lease was taken from it"), "{why}");
    two.finish(2);
}

#[tokio::test(flavor = "multi_thread")]
async fn paused_host_ends_its_runs_when_it_resumes() {
    let mut two = TwoHosts::start().await;
    let before = two.fleet.agents();
    assert_eq!(before.len(), 1, "{before:?}");
    two.signal(Signal::STOP);
    two.until_replaced().await;
    std::fs::write(&two.gate, "open").unwrap();
    two.signal(Signal::CONT);
    let ended = two.second.take().unwrap().ended();
    assert_ne!(ended.code, Some(0), "it has lost its lease: {}", ended.err);
    assert!(ended.err.contains("lease"), "{}", ended.err);
    let fleet = two.finish(2);
    let left = fleet.agents();
    assert!(left.iter().all(|agent| agent.pid != before[0].pid), "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn deaf_program_dies_with_its_host_and_killed_guard() {
    // Nothing is lost before the test is over: what ends the program is neither the guard nor a next life.
    let fleet = Fleet::prepared().with_env("TETRARCH_LIVENESS_WINDOW", "30s").started();
    let second = second_host(&fleet);
    let file = fleet.file("mortal.json", &plan(&["sleep".into(), "1000".into()]).to_string());
    let _running = fleet.spawn(["run", file.to_str().unwrap()]);
    let program = wait::until("the program", || {
        let mut agents = fleet.agents().into_iter();
        agents.find(|agent| agent.command == "sleep 1000")
    });
    let number = |pid: u32| Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    let all = fleet.processes();
    let guard =
        all.iter().find(|it| it.command.contains(" guard ") && it.command.contains("--life h2."));
    // So that it starts no other guard.
    second.signal(Signal::STOP);
    kill_process(number(guard.unwrap().pid), Signal::KILL).unwrap();
    second.signal(Signal::KILL);
    wait::until("the program's death", || {
        (!fleet.agents().iter().any(|agent| agent.pid == program.pid)).then_some(())
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_request_of_a_crashed_specialist_is_answered() {
    // No host is lost here, however long it stands still.
    let fleet = Fleet::prepared().with_env("TETRARCH_LIVENESS_WINDOW", "30s").started();
    let _second = second_host(&fleet);
    let gate = fleet.cwd().join("gate");
    let gate_words = gate.to_str().unwrap();
    let plan = json!({
        "project": "mortal",
        "output": "T1.1",
        "goal": {"title": "Be heard"},
        "phases": [{"id": "P1", "name": "Ask", "tasks": [
            {"id": "T1.1", "name": "asks", "role": "specialist", "domain": "asking",
             "profile": "insist", "acceptance": ["it is answered"]},
        ]}],
        "profiles": {
            "insist": {"argv": acting(&["insist", gate_words]), "wall": "60s"},
            "deeper": {"argv": acting(&["gate", gate_words]), "wall": "60s"},
        },
    });
    let file = fleet.file("mortal.json", &plan.to_string());
    let running = fleet.spawn(["run", "--quiet", file.to_str().unwrap()]);
    let control = fleet.control().await;
    let mut ledger = Ledger::follow(&control);
    let session = |wanted: u64| {
        move |records: &Records| {
            let mut all = records.agents.values();
            let agent = all.find(|agent| Role::of(&agent.id) == Role::Specialist)?;
            let up = agent.epoch == wanted && agent.liveness == Liveness::Active;
            up.then(|| on(agent).to_owned())
        }
    };
    assert_eq!(ledger.until("the specialist", session(1)).await, "h2");
    // Its sponsor reads what the first session asked when that is over.
    let all = fleet.processes();
    let hosts = |command: &str| command.contains(" host") && !command.contains("--name h2");
    let first = all.iter().find(|process| hosts(&process.command));
    let first = Pid::from_raw(i32::try_from(first.unwrap().pid).unwrap()).unwrap();
    kill_process(first, Signal::STOP).unwrap();
    std::fs::write(&gate, "open").unwrap();
    ledger.until("the specialist's next session", session(2)).await;
    kill_process(first, Signal::CONT).unwrap();
    let ended = running.ended();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let told: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(told["epoch"], 2, "{told}");
    assert_eq!(told["answer"]["topic"], "spawn.sponsor.answer", "{told}");
    assert_eq!(told["answer"]["body"]["spawnedAgents"].as_array().map(Vec::len), Some(1), "{told}");
}
