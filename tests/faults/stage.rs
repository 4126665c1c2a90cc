//! A small fleet whose processes have failpoints: arming a step, seeing it reached, and waiting
//! until everything has settled.

use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::json;
use tetrarch_bus::Bus;
use tetrarch_bus::subject::pattern::LEDGER;
use tetrarch_core::agent::Agent;
use tetrarch_core::id::AgentId;
use tetrarch_core::liveness::Liveness;
use tetrarch_core::records::Records;
use tetrarch_core::role::Role;
use tetrarch_failpoint::{Failpoint, ProcessRole};
use tetrarch_tests::{Fleet, Ledger, Process, Program, binary_with_failpoints, python, wait};

use crate::case::{Fault, Turn};
use crate::witness::{STEPS, assert_made_once, has_saved};

/// The host beside the one that `up` runs.
pub(crate) const SECOND: &str = "h2";
/// Steps that are taken with one fleet: `up` starts again what ends later each time.
pub(crate) const STEPS_OF_A_FLEET: usize = 4;
/// Agents that the first host takes: an orchestrator for each step, and fewer than the second takes.
const ROOM: &str = "48";
/// The liveness window: short, and long enough for a machine that is busy.
const WINDOW: &str = "400ms";
/// The time to live of the owner's lease, for the same reason.
const OWNER_TTL: &str = "1s";

/// A fleet, and what the test follows of it.
pub(crate) struct Stage {
    pub(crate) fleet: Fleet,
    armed: PathBuf,
    pub(crate) control: Bus,
    pub(crate) ledger: Ledger,
    /// The second host, while there is one.
    pub(crate) second: Option<Program>,
    cases: usize,
}

/// A plan that runs, with the file in which its worker tells what it does.
pub(crate) struct Running {
    said: String,
    project: String,
    witness: PathBuf,
    program: Program,
}

impl Stage {
    pub(crate) async fn start() -> Self {
        let fleet = Fleet::prepared();
        let armed = fleet.cwd().join("armed");
        std::fs::create_dir(&armed).unwrap();
        let fleet = fleet
            .with_binary(binary_with_failpoints())
            .with_option("--capacity", ROOM)
            .with_env("FAILPOINT_DIR", armed.to_str().unwrap())
            .with_env("TETRARCH_LIVENESS_WINDOW", WINDOW)
            .with_env("TETRARCH_RETENTION_GO_TTL", OWNER_TTL)
            .started();
        let control = fleet.control().await;
        let ledger = Ledger::follow(&control);
        Self { fleet, armed, control, ledger, second: None, cases: 0 }
    }

    /// Has the next process that reaches a step do this.
    fn arm(&self, step: Failpoint, fault: Fault) {
        let order = match fault {
            Fault::Kill => "kill",
            Fault::Pause => "stop",
        };
        let written = self.armed.join("order");
        std::fs::write(&written, order).unwrap();
        std::fs::rename(written, self.armed.join(step.name())).unwrap();
    }

    /// The process that an armed step took effect in.
    pub(crate) fn reached(&self, step: Failpoint) -> Pid {
        let prefix = format!("{}.", step.name());
        let pid = wait::until(step.name(), || {
            let names = std::fs::read_dir(&self.armed).unwrap().flatten();
            let mut names = names.filter_map(|entry| entry.file_name().into_string().ok());
            names.find_map(|name| name.strip_prefix(&prefix)?.parse().ok())
        });
        std::fs::remove_file(self.armed.join(format!("{prefix}{pid}"))).unwrap();
        Pid::from_raw(pid).unwrap()
    }

    /// Takes back what is armed; says whether it took effect before.
    pub(crate) fn disarm(&self, step: Failpoint) -> bool {
        std::fs::remove_file(self.armed.join(step.name())).is_err()
    }

    /// Arms these steps, and gives work to a project of its own.
    pub(crate) fn begin(&mut self, faults: &[(Failpoint, Fault)], turn: Turn) -> Running {
        self.cases += 1;
        let names: Vec<String> =
            faults.iter().map(|(step, fault)| format!("{} {fault:?}", step.name())).collect();
        let said = names.join(", ");
        let project = format!("case-{}", self.cases);
        // Its orchestrator is placed before there is a second host.
        self.fleet.ok(["project", "create", &project]);
        if turn == Turn::LosesItsHost && self.second.is_none() {
            self.second = Some(self.fleet.second_host(SECOND));
        }
        let witness = self.fleet.cwd().join(format!("{project}.witness"));
        let how = if turn == Turn::Dies { "dies" } else { "waits" };
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/e2e/agent.py");
        let count = STEPS.to_string();
        let argv = [
            python().to_str().unwrap(),
            "-B",
            script,
            "record",
            witness.to_str().unwrap(),
            &count,
            how,
        ]
        .map(str::to_owned);
        let plan = json!({
            "project": project,
            "output": "T1.1",
            "goal": {"title": said},
            "phases": [{"id": "P1", "name": "Go on", "tasks": [
                {"id": "T1.1", "name": "steps", "profile": "record", "maxAttempts": 1,
                 "acceptance": ["every step is made once"]},
            ]}],
            "profiles": {"record": {"argv": argv, "wall": "5m"}},
        });
        let plan = self.fleet.file(&format!("{project}.json"), &plan.to_string());
        for (step, fault) in faults {
            self.arm(*step, *fault);
        }
        let program = self.fleet.spawn(["run", "--quiet", plan.to_str().unwrap()]);
        Running { said, project, witness, program }
    }

    /// Has happen to the worker what leads to the step.
    pub(crate) async fn take_turn(&mut self, running: &Running, turn: Turn) {
        if matches!(turn, Turn::Dies | Turn::Waits) {
            return;
        }
        wait::until("the third step", || has_saved(&running.witness, 3).then_some(()));
        match turn {
            Turn::Dies | Turn::Waits => {}
            Turn::IsReplaced => self.replace(running).await,
            Turn::LosesItsHost => self.second.as_ref().unwrap().signal(Signal::KILL),
            Turn::LosesTheBus => {
                let bus = self.process(|it| it.command.contains("nats-server"));
                kill_process(bus, Signal::STOP).unwrap();
            }
        }
    }

    /// Goes on after the fault where the worker would wait for ever.
    pub(crate) async fn end_turn(&mut self, running: &Running, turn: Turn) {
        match turn {
            Turn::Dies | Turn::Waits | Turn::IsReplaced => {}
            Turn::LosesItsHost => {
                let worker = self.worker(running).await.id;
                let elsewhere = |records: &Records| {
                    let place = records.agents.get(&worker)?.placement.as_ref()?;
                    (place.host.as_str() != SECOND).then_some(())
                };
                self.ledger.until("its next session elsewhere", elsewhere).await;
                // What its first life left is ended before it joins.
                self.second = Some(self.fleet.second_host(SECOND));
            }
            Turn::LosesTheBus => {
                let frozen = || self.fleet.agents().iter().all(stands_still).then_some(());
                wait::until("another guard freezes the program", frozen);
                let_go(self.process(|it| it.command.contains("nats-server")));
                self.replace(running).await;
            }
        }
    }

    async fn replace(&mut self, running: &Running) {
        let worker = self.worker(running).await.id.to_string();
        self.fleet.ok(["agent", "replace", &worker, "--reason", "a test"]);
    }

    /// The worker of a plan.
    async fn worker(&mut self, running: &Running) -> Agent {
        let project = running.project.clone();
        let of_project = move |records: &Records| {
            let parent: AgentId = format!("PO-{project}").parse().ok()?;
            let mut all = records.agents.values();
            all.find(|it| Role::of(&it.id) == Role::Worker && it.parent.as_ref() == Some(&parent))
                .cloned()
        };
        self.ledger.until("the worker", of_project).await
    }

    /// The epoch of an agent that does not change, as it is at the ledger's end.
    pub(crate) async fn epoch(&mut self, agent: &AgentId) -> u64 {
        let last = self.control.stream_last_seq(LEDGER).await.unwrap();
        self.ledger.until_seq(last).await;
        self.ledger.records.agents.get(agent).map_or(0, |agent| agent.epoch)
    }

    /// The follower of a party that is killed: who is in a later session then, and what its epoch is
    /// before. The host of a guard starts another one and says nothing of it.
    pub(crate) async fn follower(&mut self, party: ProcessRole) -> Option<(AgentId, u64)> {
        let id: AgentId = match party {
            ProcessRole::Owner => AgentId::Go,
            ProcessRole::Host => "HO@h1".parse().unwrap(),
            ProcessRole::Guard => return None,
        };
        let before = self.epoch(&id).await;
        Some((id, before))
    }

    /// Waits until an agent is in a later session than this and alive.
    pub(crate) async fn until_back(&mut self, agent: &AgentId, before: u64) {
        let back = |records: &Records| {
            let agent = records.agents.get(agent)?;
            (agent.epoch > before && agent.liveness == Liveness::Active).then_some(())
        };
        self.ledger.until(&format!("{agent} is back"), back).await;
    }

    /// Waits for the plan's end, and looks at what came of it.
    pub(crate) fn settle(&self, running: Running) {
        let said = running.said;
        let ended = running.program.ended();
        assert_eq!(ended.code, Some(0), "{said}: {}", ended.err);
        assert_made_once(&running.witness, &said);
        wait::until(&format!("{said}: no program is left"), || {
            self.fleet.agents().is_empty().then_some(())
        });
    }

    /// A process of this installation.
    pub(crate) fn process(&self, is_it: impl Fn(&Process) -> bool) -> Pid {
        let all = self.fleet.processes();
        let found = all.iter().find(|process| is_it(process));
        Pid::from_raw(i32::try_from(found.unwrap().pid).unwrap()).unwrap()
    }

    /// Stops the second host, if there is one.
    pub(crate) fn without_second(&mut self) {
        let Some(second) = self.second.take() else { return };
        second.signal(Signal::INT);
        let ended = second.ended();
        assert_eq!(ended.code, Some(0), "{}", ended.err);
    }

    /// Stops everything: nothing is left, and the ledger holds.
    pub(crate) fn end(mut self) {
        self.without_second();
        self.fleet.ok(["doctor", "--check-ledger"]);
        let ended = self.fleet.stop();
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        wait::until("no process is left", || self.fleet.processes().is_empty().then_some(()));
    }
}

/// Whether a process is stopped or in a frozen control group.
fn stands_still(process: &Process) -> bool {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/{}/{name}", process.pid));
    let stopped = read("stat").is_ok_and(|stat| stat.contains(") T "));
    let group = read("cgroup").unwrap_or_default();
    let group = group.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or_default();
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let fields = |line: &'_ str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let top = mounts.lines().map(fields).find(|fields| fields[2] == "cgroup2");
    let frozen = top.is_some_and(|fields| {
        let events = std::fs::read_to_string(format!("{}{group}/cgroup.events", fields[1]));
        events.is_ok_and(|events| events.contains("frozen 1"))
    });
    stopped || frozen
}

/// Waits until a process is gone.
pub(crate) fn until_gone(pid: Pid) {
    wait::until("the end of a process", || test_kill_process(pid).is_err().then_some(()));
}

/// Has a process that stands still go on.
pub(crate) fn let_go(pid: Pid) {
    kill_process(pid, Signal::CONT).unwrap();
}
