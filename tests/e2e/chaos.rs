//! Processes of every kind are killed at random moments while a plan runs (spec 10, Faults): it
//! finishes, every node is done once, no recorded step is made again, nothing is left behind.
//! `CHAOS_RUNS` says how often (2), `CHAOS_SEED` where chance begins (1); a failure names its seed.
//! `tests/chaos` makes many runs and sums them up. `PAUSE_RUNS` (1) runs have processes stand still instead.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures::StreamExt;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tetrarch_bus::Bus;
use tetrarch_bus::tail::follow_ledger;
use tetrarch_core::goal::GoalStatus;
use tetrarch_core::plan::NodeStatus;
use tetrarch_core::records::Records;
use tetrarch_core::role::Role;
use tetrarch_tests::{Fleet, Process};

use crate::{acting, first_run, workspace};

/// Kills of one run, when it lasts long enough.
const KILLS: usize = 6;
/// Deaths of agents in one run: more of one task's would open a circuit.
const AGENTS_MAX: usize = 3;
/// Kills are one to eight of these apart.
const BEAT: Duration = Duration::from_millis(100);
/// Longest wait for the goal after the last kill. An agent that waits in vain for an answer goes on
/// without it only later, so it is noticed.
const SETTLED_WITHIN: Duration = Duration::from_secs(45);
/// A pause is one to so many of these, up to six windows.
const PAUSE_BEATS: u64 = 30;
/// Steps of each task of the plan of steps, one every 150 ms.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Agent,
    Host,
    Owner,
    Bus,
    Guard,
}

/// How many kinds there are. None is spared for being fewer, and none hit more often for that.
const KINDS: u64 = 5;

fn kind(process: &Process) -> Option<Kind> {
    let words: Vec<&str> = process.command.split(' ').collect();
    let is = |word: &str| words.contains(&word);
    let own = words.first().is_some_and(|program| program.ends_with("tetrarch"));
    match () {
        // Its tools it answers for itself: one that is killed is a failure of the work.
        () if process.agent.is_some() => leads(process).then_some(Kind::Agent),
        () if words.first().is_some_and(|program| program.ends_with("nats-server")) => {
            Some(Kind::Bus)
        }
        () if own && is("guard") => Some(Kind::Guard),
        () if own && is("host") => Some(Kind::Host),
        () if own && is("serve") => Some(Kind::Owner),
        () => None,
    }
}

fn leads(process: &Process) -> bool {
    let pid = pid(process);
    rustix::process::getpgid(Some(pid)).is_ok_and(|group| group == pid)
}

pub(crate) fn pid(process: &Process) -> Pid {
    Pid::from_raw(i32::try_from(process.pid).unwrap()).unwrap()
}

pub(crate) fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// What is done to a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    Kill,
    Pause,
}

impl Deed {
    /// For whoever reads it.
    fn done(self) -> &'static str {
        match self {
            Self::Kill => "killed",
            Self::Pause => "paused",
        }
    }
}

/// What runs meanwhile.
struct Job {
    plan: PathBuf,
    arguments: Vec<String>,
    /// Agents that may be killed: the others of [`AGENTS_MAX`] die by themselves.
    agents: usize,
    /// Where its agents append what they do, each to a file of its own.
    witness: PathBuf,
    check: fn(&Path, &Records, &str),
}

#[tokio::test(flavor = "multi_thread")]
async fn plan_finishes_with_every_step_made_once_despite_kills() {
    runs(steps, Deed::Kill, number("CHAOS_RUNS", 2)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn paused_processes_leave_each_recorded_step_made_once() {
    runs(steps, Deed::Pause, number("PAUSE_RUNS", 1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn main_job_finishes_with_every_step_made_once_despite_kills() {
    runs(main_job, Deed::Kill, number("CHAOS_RUNS", 2)).await;
}

async fn runs(job: fn(&Fleet, PathBuf) -> Job, deed: Deed, count: u64) {
    let first = number("CHAOS_SEED", 1);
    for seed in first..first + count {
        run(seed, job, deed).await;
    }
}

fn steps(fleet: &Fleet, witness: PathBuf) -> Job {
    let plan = paced(fleet, &witness, STEPS);
    Job { plan, arguments: Vec::new(), agents: AGENTS_MAX, witness, check: assert_steps }
}

/// A plan of tasks side by side and one after them, each of which appends its steps to a file, one
/// every 150 ms.
pub(crate) fn paced(fleet: &Fleet, witness: &Path, steps: usize) -> PathBuf {
    let argv = acting(&["pace", witness.to_str().unwrap(), &steps.to_string()]);
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
        "profiles": {"pace": {"argv": argv, "wall": "1h"}},
    });
    fleet.file("chaos.json", &plan.to_string())
}

/// The first run on a repository of the test's own, its agents told where to append what they do.
fn main_job(fleet: &Fleet, witness: PathBuf) -> Job {
    let home = workspace().join("examples/first-run");
    let text = std::fs::read_to_string(home.join("plan.yaml")).unwrap();
    let witnessed = format!(", env: {{WITNESS: {}}}, wall:", witness.display());
    let plan = text.replace("{plan_dir}", home.to_str().unwrap()).replace(", wall:", &witnessed);
    assert_eq!(plan.matches("WITNESS").count(), plan.matches("argv:").count());
    let plan = fleet.file("first-run.yaml", &plan);
    let repository = first_run::repository(fleet);
    let arguments = vec!["--".to_owned(), repository.to_str().unwrap().to_owned()];
    Job { plan, arguments, agents: AGENTS_MAX - 1, witness, check: assert_main_job }
}

async fn run(seed: u64, job: fn(&Fleet, PathBuf) -> Job, deed: Deed) {
    let fleet = Fleet::prepared()
        .with_env("TETRARCH_LIVENESS_WINDOW", "500ms")
        .with_env("TETRARCH_LIMITS_MAX_RESTARTS", "1000")
        .started();
    let witness = fleet.cwd().join("witness");
    std::fs::create_dir(&witness).unwrap();
    let job = job(&fleet, witness);
    let given = ["run", job.plan.to_str().unwrap()];
    let mut watching = fleet.spawn(given.into_iter().chain(job.arguments.iter().map(|a| &**a)));
    watching.line(|line| line.contains("in_progress"));
    let started = Instant::now();
    let control = fleet.control().await;
    let goal = tokio::spawn(finished(control.clone()));
    let mut chance = Chance(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let hit = havoc(&fleet, &mut chance, deed, job.agents, || goal.is_finished()).await;
    let said = format!("CHAOS_SEED={seed}, one run, {} {hit:?}", deed.done());
    let Ok(records) = tokio::time::timeout(SETTLED_WITHIN, goal).await else {
        panic!("{said}: no result; {:#?}", stuck(&control).await);
    };
    let records = records.unwrap();
    let took = started.elapsed();
    for state in records.node_states.values().flat_map(|states| states.values()) {
        assert_eq!(state.status, NodeStatus::Done, "{said}: {}", state.id);
    }
    (job.check)(&job.witness, &records, &said);
    let ended = watching.ended();
    assert_eq!(ended.code, Some(0), "{said}: {}", ended.err);
    tetrarch_tests::wait::until("the bus answers again", || reached(&fleet).then_some(()));
    fleet.ok(["doctor", "--check-ledger"]);
    tetrarch_tests::wait::until("no agent process is left", || {
        fleet.agents().is_empty().then_some(())
    });
    tell(seed, deed, &hit, took);
}

/// Whether what was killed last is up again, as far as a client needs it.
fn reached(fleet: &Fleet) -> bool {
    fleet.run(["status"]).code == Some(0)
}

/// One line for whoever sums up many runs.
#[expect(clippy::print_stdout, reason = "tests/chaos reads this line")]
fn tell(seed: u64, deed: Deed, hit: &[Kind], took: Duration) {
    let kinds: Vec<String> = hit.iter().map(|kind| format!("{kind:?}").to_lowercase()).collect();
    println!("chaos {}", json!({"seed": seed, deed.done(): kinds, "seconds": took.as_secs_f64()}));
}

/// Kills one process after the other, or has it stand still, while the job is not done.
async fn havoc(
    fleet: &Fleet,
    chance: &mut Chance,
    deed: Deed,
    agents_max: usize,
    done: impl Fn() -> bool,
) -> Vec<Kind> {
    let mut killed: Vec<Kind> = Vec::new();
    let mut beats = tokio::time::interval(BEAT);
    while killed.len() < KILLS && !done() {
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
        there.retain(|(_, kind)| *kind != Kind::Agent || agents < agents_max);
        let kinds: BTreeSet<Kind> = there.iter().map(|(_, kind)| *kind).collect();
        let one = kinds.into_iter().nth(chance.below(KINDS) as usize);
        there.retain(|(_, kind)| Some(*kind) == one);
        if there.is_empty() {
            continue;
        }
        let at = chance.below(there.len() as u64) as usize;
        let (process, kind) = &there[at];
        let signal = match deed {
            Deed::Kill => Signal::KILL,
            Deed::Pause => Signal::STOP,
        };
        if kill_process(pid(process), signal).is_ok() {
            killed.push(*kind);
        }
        if deed == Deed::Pause {
            for _ in 0..=chance.below(PAUSE_BEATS) {
                beats.tick().await;
            }
            // It may have been ended meanwhile, by whoever took it for lost.
            let _gone = kill_process(pid(process), Signal::CONT);
        }
    }
    killed
}

/// The records when the goal has its result.
pub(crate) async fn finished(control: Bus) -> Records {
    let mut items = Box::pin(follow_ledger(&control, 1, 0));
    let mut records = Records::default();
    while let Some(item) = items.next().await {
        if let Ok(entry) = item.entry {
            records.apply(&entry);
        }
        let mut goals = records.goal_states.values();
        if goals.any(|goal| goal.status == GoalStatus::Completed && goal.result.is_some()) {
            break;
        }
    }
    records
}

/// Where everything stands that is not at its end.
async fn stuck(control: &Bus) -> Vec<String> {
    let mut items = Box::pin(follow_ledger(control, 1, 0));
    let mut records = Records::default();
    while let Ok(Some(item)) = tokio::time::timeout(Duration::from_secs(1), items.next()).await {
        if let Ok(entry) = item.entry {
            records.apply(&entry);
        }
    }
    let agents = records.agents.values();
    let agents = agents.map(|a| format!("{} {} {} {}", a.id, a.epoch, a.liveness, a.reason));
    let nodes = records.node_states.values().flat_map(|states| states.values());
    let nodes = nodes.map(|n| format!("{} {:?} {:?} {:?}", n.id, n.status, n.assignee, n.blocker));
    agents.chain(nodes).collect()
}

/// Every step was made, in order. What a session made and could not record may be made again by the
/// next one: one step at most, the one it was at.
fn assert_steps(witness: &Path, _: &Records, said: &str) {
    for (path, made) in steps_made(witness) {
        let mut before = (0, 0);
        for &(step, epoch) in &made {
            let again = step == before.0 && epoch > before.1;
            let next = step == before.0 + 1 && epoch >= before.1;
            assert!(again || next, "{said}: {}: {made:?}", path.display());
            before = (step, epoch);
        }
        assert_eq!(before.0, STEPS, "{said}: {}: {made:?}", path.display());
    }
}

/// Every step was made once, in order, by the first session.
pub(crate) fn assert_each_once(witness: &Path, steps: usize) {
    let wanted: Vec<(usize, u64)> = (1..=steps).map(|step| (step, 1)).collect();
    for (path, made) in steps_made(witness) {
        assert_eq!(made, wanted, "{}", path.display());
    }
}

/// What each task's agents made: steps, and the epochs that made them.
fn steps_made(witness: &Path) -> Vec<(PathBuf, Vec<(usize, u64)>)> {
    let tasks = (1..=TASKS + 1).map(|task| witness.join(format!("T1.{task}")));
    let made = tasks.map(|path| {
        let text = std::fs::read_to_string(&path).unwrap();
        let lines = text.lines().map(|line| line.split_once(' ').unwrap());
        let steps =
            lines.map(|(step, epoch)| (step.parse().unwrap(), epoch.parse().unwrap())).collect();
        (path, steps)
    });
    made.collect()
}

/// Every agent below the project orchestrator told what it made, and made nothing again that it had
/// told to be recorded; sessions follow one another.
fn assert_main_job(witness: &Path, records: &Records, said: &str) {
    let orchestrating = [Role::Global, Role::Host, Role::Project, Role::Interaction];
    let workers = records.agents.keys().filter(|id| !orchestrating.contains(&Role::of(id)));
    let workers: Vec<String> = workers.map(|id| id.to_string().replace(':', "-")).collect();
    assert!(workers.len() >= 12, "{said}: {workers:?}");
    for worker in workers {
        let path = witness.join(worker);
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let (mut made, mut saved, mut last) = (BTreeSet::new(), BTreeSet::new(), 0);
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [what, name, epoch] = words.as_slice() else { panic!("{said}: {text}") };
            let epoch: u64 = epoch.parse().unwrap();
            assert!(epoch >= last, "{said}: {}: {text}", path.display());
            last = epoch;
            if *what == "made" {
                assert!(!saved.contains(name), "{said}: {}: {text}", path.display());
                made.insert(*name);
            } else {
                assert!(made.contains(name), "{said}: {}: {text}", path.display());
                saved.insert(*name);
            }
        }
        assert!(made.len() >= 2, "{said}: {}: {text}", path.display());
    }
}
