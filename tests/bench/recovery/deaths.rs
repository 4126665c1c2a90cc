//! A worker's process is killed: from the kill to its replacement's first step. The floor: bare
//! clients see their child's end and store what the contract asks for before the next one may
//! start - report, commit, seal, order, claim, journal, one after the other - and start it.

use std::process::{Child, Command};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tetrarch_bus::subject::Subject;
use tetrarch_bus::{Bus, HeaderMap};
use tetrarch_core::id::{AgentId, HostName, RunId};
use tetrarch_core::mail::Lane;
use tetrarch_tests::{Fleet, Server};

use super::witness::{Step, Witness};
use crate::Effort;
use crate::fleet::new_id;
use crate::numbers::Samples;
use crate::table::{Aim, Line, Unit};

/// Tasks of one plan: what one phase holds.
const TASKS: usize = 7;
/// Bytes of a report, an order, a cursor or a journal entry.
const SMALL: usize = 500;
/// Bytes of the commit that replaces a session.
const COMMIT: usize = 4_000;

/// Measures it.
pub(crate) async fn measure(effort: Effort) -> Vec<Line> {
    let mut lines = [0.5, 0.99].map(|share| {
        let what = format!("process death to replacement's first step, p{}", share * 100.0);
        Line::new(&what, Unit::Micros, Aim::None)
    });
    let server = tetrarch_tests::server().await;
    let floor = Floor::on(&server).await;
    let fleet = Fleet::prepared().with_env("TETRARCH_LIMITS_MAX_RESTARTS", "1000").started();
    let witness = Witness::at(&fleet.cwd().join("steps"));
    let file = fleet.file("plan.json", &plan(&witness).to_string());
    let bare = Witness::at(&server.data_dir().join("steps"));
    for _ in 0..effort.rounds {
        let run = fleet.spawn(["run", file.to_str().unwrap()]);
        let ours = killed(&witness);
        assert_eq!(run.ended().code, Some(0));
        let floor = floor.killed(&bare).await;
        for (line, share) in lines.iter_mut().zip([0.5, 0.99]) {
            line.push(ours.quantile(share), floor.quantile(share));
        }
    }
    lines.into()
}

fn plan(witness: &Witness) -> serde_json::Value {
    let tasks: Vec<_> = (1..=TASKS)
        .map(|n| {
            json!({"id": format!("T1.{n}"), "name": "die once", "profile": "mortal",
                        "acceptance": ["it ends"]})
        })
        .collect();
    json!({
        "project": "mortal", "goal": {"title": "Die and go on"},
        "phases": [{"id": "P1", "name": "Die", "tasks": tasks}],
        "profiles": {"mortal": {"argv": witness.argv()}},
    })
}

/// Kills each task's first process, one at a time.
fn killed(witness: &Witness) -> Samples {
    let (mut waiting, mut times) = (Vec::<Step>::new(), Vec::new());
    while times.len() < TASKS {
        let first = if waiting.is_empty() { witness.next() } else { waiting.remove(0) };
        assert_eq!(first.epoch, 1);
        let at = Instant::now();
        kill(first.pid);
        loop {
            let step = witness.next();
            if step.epoch == 1 {
                waiting.push(step);
                continue;
            }
            assert_eq!((step.epoch, &step.agent), (2, &first.agent));
            times.push(step.at - at);
            break;
        }
    }
    Samples::new(times)
}

pub(super) fn kill(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

struct Floor {
    owner: Bus,
    host: Bus,
}

impl Floor {
    async fn on(server: &Server) -> Self {
        Self { owner: server.control().await, host: server.control().await }
    }

    async fn killed(&self, witness: &Witness) -> Samples {
        let mut times = Vec::new();
        for _ in 0..TASKS {
            let mut child = started(witness, 1);
            let first = witness.next();
            let at = Instant::now();
            kill(first.pid);
            child.wait().unwrap();
            self.chain().await;
            let mut next = started(witness, 2);
            times.push(witness.next().at - at);
            next.wait().unwrap();
        }
        Samples::new(times)
    }

    async fn chain(&self) {
        let (worker, ho) = (AgentId::Worker(new_id().0), AgentId::Ho(HostName::new("h").unwrap()));
        let report = Subject::Report { from: ho.clone().into(), via: None };
        let (lane, from) = (Lane::Ctl, AgentId::Go.into());
        let launch = Subject::Mail { lane, to: ho.into(), from, via: None };
        let run = Subject::Run { agent: worker.clone(), run: RunId(new_id().0) };
        store(&self.host, &report, SMALL).await;
        store(&self.owner, &Subject::Ledger, COMMIT).await;
        store(&self.owner, &Subject::Cursor(worker.clone()), SMALL).await;
        store(&self.owner, &launch, SMALL).await;
        store(&self.host, &Subject::Cursor(worker), SMALL).await;
        store(&self.host, &run, SMALL).await;
    }
}

async fn store(bus: &Bus, subject: &Subject, bytes: usize) {
    let payload = vec![b'.'; bytes].into();
    bus.publish_expect(&subject.to_string(), HeaderMap::new(), payload, None).await.unwrap();
}

fn started(witness: &Witness, epoch: u64) -> Child {
    let [program, args @ ..] = witness.argv();
    let mut command = Command::new(program);
    command.args(args).env("TETRARCH_EPOCH", epoch.to_string()).env("TETRARCH_AGENT", "bare");
    command.spawn().unwrap()
}
