//! A human steers, interrupts, pauses and resumes a program at work, and stops one that does not want
//! to end (spec 06, The three verbs).

use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tetrarch_core::agent::Agent;
use tetrarch_core::liveness::Liveness;
use tetrarch_core::records::Records;
use tetrarch_core::role::Role;
use tetrarch_core::run::RunState;
use tetrarch_tests::{Fleet, Ledger, Program, wait};

use crate::acting;

/// A fleet whose one worker is at work.
struct AtWork {
    fleet: Fleet,
    running: Program,
    ledger: Ledger,
    witness: PathBuf,
    worker: String,
}

fn worker(records: &Records) -> Option<&Agent> {
    records.agents.values().find(|agent| Role::of(&agent.id) == Role::Worker)
}

fn state(records: &Records) -> Option<RunState> {
    let run = worker(records)?.work.as_ref()?.run;
    Some(records.run_status.get(&run)?.state)
}

impl AtWork {
    async fn start(argv: impl FnOnce(&str) -> Vec<String>) -> Self {
        let fleet = Fleet::prepared()
            .with_env("TETRARCH_RUNS_DRAIN", "500ms")
            .with_env("TETRARCH_RUNS_KILL_GRACE", "500ms")
            .started();
        let witness = fleet.cwd().join("witness");
        let plan = json!({
            "project": "steered",
            "output": "T1.1",
            "goal": {"title": "Be told where to go"},
            "phases": [{"id": "P1", "name": "Go", "tasks": [
                {"id": "T1.1", "name": "drive", "profile": "helm", "maxAttempts": 1,
                 "acceptance": ["it arrives"]},
            ]}],
            "profiles": {"helm": {"argv": argv(witness.to_str().unwrap())}},
        });
        let file = fleet.file("plan.json", &plan.to_string());
        let running = fleet.spawn(["run", file.to_str().unwrap()]);
        let mut ledger = Ledger::follow(&fleet.control().await);
        let worker = ledger
            .until("a worker at work", |records| {
                let worker = worker(records).filter(|it| it.liveness == Liveness::Active)?;
                Some(worker.id.to_string())
            })
            .await;
        wait::until("its program is up", || witness.exists().then_some(()));
        Self { fleet, running, ledger, witness, worker }
    }

    async fn helm() -> Self {
        Self::start(|witness| acting(&["helm", witness])).await
    }

    async fn stands(&mut self, wanted: RunState) {
        let is = move |records: &Records| (state(records) == Some(wanted)).then_some(());
        self.ledger.until("its run's state", is).await;
    }

    /// The stages that a verb came to, as the command tells them.
    fn stages(&self, verb: &[&str]) -> Vec<String> {
        let [verb, words @ ..] = verb else { panic!("no verb") };
        let args = [*verb, self.worker.as_str()].into_iter().chain(words.iter().copied());
        let out = self.fleet.ok(args.chain(["-o", "json"]));
        let stage = |line: &str| {
            let line: Value = serde_json::from_str(line).unwrap();
            line["stage"].as_str().unwrap().to_owned()
        };
        out.lines().map(stage).collect()
    }

    fn kill_host(&self) {
        let all = self.fleet.processes();
        let host = all.iter().find(|process| process.command.contains(" host "));
        let host = host.unwrap_or_else(|| panic!("{all:?}"));
        let pid = Pid::from_raw(i32::try_from(host.pid).unwrap()).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
    }

    /// How far its program has counted.
    fn counted(&self) -> String {
        std::fs::read_to_string(self.witness.with_extension("count")).unwrap_or_default()
    }

    fn noted(&self) -> String {
        std::fs::read_to_string(&self.witness).unwrap()
    }

    /// Steers it to its end.
    fn finish(self, noted: &str) {
        assert_eq!(self.stages(&["steer", "end"]), ["queued", "delivered", "effective"]);
        assert_eq!(self.noted(), format!("{noted}steer end\n"));
        let ended = self.running.ended();
        assert_eq!(ended.code, Some(0), "{}\n{}", ended.out, ended.err);
        self.fleet.ok(["doctor", "--check-ledger"]);
    }
}

const ALL: [&str; 3] = ["queued", "delivered", "effective"];

#[tokio::test(flavor = "multi_thread")]
async fn program_is_steered_interrupted_paused_and_resumed() {
    let mut it = AtWork::helm().await;
    assert_eq!(it.stages(&["steer", "left"]), ALL);
    assert_eq!(state(&it.ledger.records), Some(RunState::Running));
    assert_eq!(it.stages(&["interrupt", "--reason", "wrong way"]), ALL);
    it.stands(RunState::AwaitingInput).await;
    let refused = it.fleet.run(["pause", &it.worker]);
    assert_eq!(refused.code, Some(5), "it waits: {}", refused.err);
    assert_eq!(it.stages(&["steer", "right"]), ALL);
    it.stands(RunState::Running).await;

    assert_eq!(it.stages(&["pause"]), ALL);
    it.stands(RunState::PausedByUser).await;
    let counted = it.counted();
    let again = it.fleet.run(["pause", &it.worker]);
    assert_eq!(again.code, Some(5), "{}", again.err);
    assert!(again.err.contains("already paused, by human:ada"), "{}", again.err);
    it.fleet.ok(["steer", &it.worker, "when you can", "--wait", "delivered"]);
    assert_eq!(it.counted(), counted, "nothing of it runs");
    assert_eq!(it.stages(&["resume"]), ALL);
    it.stands(RunState::Running).await;
    wait::until("it counts on", || (it.counted() != counted).then_some(()));
    let late = it.fleet.run(["resume", &it.worker]);
    assert_eq!(late.code, Some(5), "{}", late.err);

    let why = it.fleet.ok(["why", &it.worker]);
    for part in ["pause", "by human:ada: left", "effective"] {
        assert!(why.contains(part), "{part} is missing:\n{why}");
    }
    let nobody = it.fleet.run(["steer", "W:01JD8Z5W6T4QK3M9X2V7B1N0AC", "x"]);
    assert_eq!(nobody.code, Some(3), "{}", nobody.err);
    let empty = it.fleet.run(["steer", &it.worker, " "]);
    assert_eq!(empty.code, Some(2), "{}", empty.err);
    it.finish("up 1\nsteer left\ninterrupt wrong way\nsteer right\nsteer when you can\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn paused_agent_of_a_killed_host_is_paused_in_its_next_session() {
    let mut it = AtWork::helm().await;
    it.stages(&["pause"]);
    it.stands(RunState::PausedByUser).await;
    it.kill_host();
    let next = |records: &Records| {
        let second = worker(records)?.epoch == 2;
        (second && state(records)? == RunState::PausedByUser).then_some(())
    };
    it.ledger.until("its next session, paused", next).await;
    assert_eq!(it.stages(&["resume"]), ALL);
    it.stands(RunState::Running).await;
    it.finish("up 1\nup 2\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_program_is_paused_refuses_a_steer_and_is_stopped() {
    let deaf = "trap '' TERM; setsid sh -c 'trap \"\" TERM; while :; do sleep 1; done' & \
                echo up > \"$0\"; while :; do sleep 1; done";
    let command = |witness: &str| ["sh", "-c", deaf, witness].map(str::to_owned).to_vec();
    let mut it = AtWork::start(command).await;
    let refused = it.fleet.run(["steer", &it.worker, "left"]);
    assert_eq!(refused.code, Some(1), "{}", refused.err);
    assert!(refused.err.contains("does not announce support for steer"), "{}", refused.err);
    assert!(refused.out.contains("refused"), "{}", refused.out);
    assert_eq!(it.stages(&["pause"]), ALL);
    it.stands(RunState::PausedByUser).await;
    it.fleet.ok(["stop", &it.worker, "--reason", "enough", "--timeout", "15s"]);
    assert_eq!(it.fleet.agents(), [], "all of it is gone, what left its session too");
    it.stands(RunState::Failed).await;
    it.fleet.ok(["doctor", "--check-ledger"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_of_a_paused_run_on_a_killed_host_ends_it() {
    let mut it = AtWork::helm().await;
    it.stages(&["pause"]);
    it.stands(RunState::PausedByUser).await;
    it.kill_host();
    it.fleet.ok(["stop", &it.worker, "--reason", "enough", "--timeout", "20s"]);
    let over = |records: &Records| {
        let ended = records.run_status.values().all(|status| status.state.is_terminal());
        (ended && worker(records)?.liveness == Liveness::Terminated).then_some(())
    };
    it.ledger.until("every run of it is over", over).await;
    wait::until("its programs are gone", || it.fleet.agents().is_empty().then_some(()));
    it.fleet.ok(["doctor", "--check-ledger"]);
}
