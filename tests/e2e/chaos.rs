//! Processes of every kind are killed at random moments while a plan runs (spec 10, Faults): it
//! finishes, every node is done once, no recorded step is made again, nothing is left behind.
//! `CHAOS_RUNS` says how often (2), `CHAOS_SEED` where chance begins (1); a failure names its seed.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tetrarch_bus::Bus;
use tetrarch_bus::tail::follow_ledger;
use tetrarch_core::goal::GoalStatus;
use tetrarch_core::plan::NodeStatus;
use tetrarch_core::records::Records;
use tetrarch_tests::{Fleet, Process};

use crate::acting;

/// Kills of one run.
const KILLS: usize = 6;
/// Kills of agents in one run: more of one task's would open a circuit.
const AGENTS_MAX: usize = 3;
/// Kills are one to eight of these apart.
const BEAT: Duration = Duration::from_millis(100);
/// Longest wait for the goal after the last kill.
const SETTLED_WITHIN: Duration = Duration::from_secs(90);
/// Steps of each task, one every 150 ms.
const STEPS: usize = 12;
/// Tasks side by side; one more waits for them.
const TASKS: usize = 3;

/// A generator of numbers that a seed repeats.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// What may be killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Agent,
    Host,
    Owner,
    Bus,
    Guard,
}

fn kind(process: &Process) -> Option<Kind> {
    let words: Vec<&str> = process.command.split(' ').collect();
    let is = |word: &str| words.contains(&word);
    let own = words.first().is_some_and(|program| program.ends_with("tetrarch"));
    match () {
        () if process.agent.is_some() => Some(Kind::Agent),
        () if words.first().is_some_and(|program| program.ends_with("nats-server")) => {
            Some(Kind::Bus)
        }
        () if own && is("guard") => Some(Kind::Guard),
        () if own && is("host") => Some(Kind::Host),
        () if own && is("serve") => Some(Kind::Owner),
        () => None,
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_killed_a_plan_finishes_with_every_recorded_step_made_once() {
    let first = number("CHAOS_SEED", 1);
    for seed in first..first + number("CHAOS_RUNS", 2) {
        run(seed).await;
    }
}

async fn run(seed: u64) {
    let fleet = Fleet::prepared()
        .with_env("TETRARCH_LIVENESS_WINDOW", "500ms")
        .with_env("TETRARCH_LIMITS_MAX_RESTARTS", "1000")
        .started();
    let witness = fleet.cwd().join("witness");
    std::fs::create_dir(&witness).unwrap();
    let argv = acting(&["pace", witness.to_str().unwrap(), &STEPS.to_string()]);
    let ids: Vec<String> = (1..=TASKS).map(|n| format!("T1.{n}")).collect();
    let last = format!("T1.{}", TASKS + 1);
    let task = |id: &str, deps: &[String]| {
        json!({"id": id, "name": id, "profile": "pace", "deps": deps, "maxAttempts": 1,
               "acceptance": ["every step is made"]})
    };
    let mut tasks: Vec<_> = ids.iter().map(|id| task(id, &[])).collect();
    tasks.push(task(&last, &ids));
    let plan = json!({
        "project": "chaos",
        "output": last,
        "goal": {"title": "Finish in any case"},
        "phases": [{"id": "P1", "name": "Steps", "tasks": tasks}],
        "profiles": {"pace": {"argv": argv, "wall": "5m"}},
    });
    let plan = fleet.file("chaos.json", &plan.to_string());
    let mut watching = fleet.spawn(["run", plan.to_str().unwrap()]);
    watching.line(|line| line.contains("in_progress"));
    let control = fleet.control().await;
    let killed = havoc(&fleet, &mut Chance(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)).await;
    let said = format!("CHAOS_SEED={seed} CHAOS_RUNS=1, killed {killed:?}");
    finished(&control, &said).await;
    for id in ids.iter().chain([&last]) {
        assert_steps(&witness.join(id), &said);
    }
    fleet.ok(["doctor", "--check-ledger"]);
    tetrarch_tests::wait::until("no agent process is left", || {
        fleet.agents().is_empty().then_some(())
    });
}

/// Kills one process after the other.
async fn havoc(fleet: &Fleet, chance: &mut Chance) -> Vec<Kind> {
    let mut killed: Vec<Kind> = Vec::new();
    let mut beats = tokio::time::interval(BEAT);
    while killed.len() < KILLS {
        // The moments are chance's own: no state is waited for.
        for _ in 0..=chance.below(8) {
            beats.tick().await;
        }
        let agents = killed.iter().filter(|kind| **kind == Kind::Agent).count();
        let mut there: Vec<(Process, Kind)> = fleet
            .processes()
            .into_iter()
            .filter_map(|process| kind(&process).map(|kind| (process, kind)))
            .collect();
        there.retain(|(_, kind)| *kind != Kind::Agent || agents < AGENTS_MAX);
        if there.is_empty() {
            continue;
        }
        let at = chance.below(there.len() as u64) as usize;
        let (process, kind) = &there[at];
        let pid = Pid::from_raw(i32::try_from(process.pid).unwrap()).unwrap();
        if kill_process(pid, Signal::KILL).is_ok() {
            killed.push(*kind);
        }
    }
    killed
}

/// Waits until the goal has its result.
async fn finished(control: &Bus, said: &str) {
    let end = Instant::now() + SETTLED_WITHIN;
    let mut items = Box::pin(follow_ledger(control, 1, 0));
    let mut records = Records::default();
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let next = tokio::time::timeout(left, futures::StreamExt::next(&mut items)).await;
        let Ok(Some(item)) = next else {
            panic!("{said}: no result; {:#?}", stuck(&records));
        };
        if let Ok(entry) = item.entry {
            records.apply(&entry);
        }
        let mut goals = records.goal_states.values();
        if goals.any(|goal| goal.status == GoalStatus::Completed && goal.result.is_some()) {
            break;
        }
    }
    for state in records.node_states.values().flat_map(|states| states.values()) {
        assert_eq!(state.status, NodeStatus::Done, "{said}: {}", state.id);
    }
}

/// Where everything stands that is not at its end.
fn stuck(records: &Records) -> Vec<String> {
    let agents = records.agents.values();
    let agents = agents.map(|a| format!("{} {} {} {}", a.id, a.epoch, a.liveness, a.reason));
    let nodes = records.node_states.values().flat_map(|states| states.values());
    let nodes = nodes.map(|n| format!("{} {:?} {:?} {:?}", n.id, n.status, n.assignee, n.blocker));
    agents.chain(nodes).collect()
}

/// Every step was made, in order. What a session made and could not record may be made again by the
/// next one: one step at most, the one it was at.
fn assert_steps(path: &Path, said: &str) {
    let text = std::fs::read_to_string(path).unwrap();
    let made: Vec<(usize, u64)> = text
        .lines()
        .map(|line| {
            let (step, epoch) = line.split_once(' ').unwrap();
            (step.parse().unwrap(), epoch.parse().unwrap())
        })
        .collect();
    let mut before = (0, 0);
    for (step, epoch) in made {
        let again = step == before.0 && epoch > before.1;
        let next = step == before.0 + 1 && epoch >= before.1;
        assert!(again || next, "{said}: {}: {text}", path.display());
        before = (step, epoch);
    }
    assert_eq!(before.0, STEPS, "{said}: {}: {text}", path.display());
}
