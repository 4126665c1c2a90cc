//! The processes that the tests start: this program again, as a host or as a guard. Each does
//! what its real counterpart does at the start, and then what the test says.

use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tetrarch_core::brief::{Brief, ExpectedOutput, Runner, RunnerKind, Tools, Worktree};
use tetrarch_core::budget::Limits;
use tetrarch_core::id::{
    AgentId, EpicId, NodeId, ProfileName, ProjectName, RunId, SessionId, Ulid,
};
use tetrarch_core::order::{Order, Start};
use tetrarch_runner::{
    Containment, GuardConfig, GuardDuty, GuardProcess, HostLife, LeaseUpdate, RunnerConfig,
    clear_earlier_lives, guard_main, keep_guard, serve,
};
use tokio::sync::{mpsc, oneshot};

/// The life of a host, for its role.
pub(crate) const LIFE: &str = "GUARD_TEST_LIFE";
/// How long a host's programs may be frozen, in milliseconds.
pub(crate) const FREEZE_MAX: &str = "GUARD_TEST_FREEZE_MAX";
/// Where a host may keep files.
pub(crate) const PLACE: &str = "GUARD_TEST_PLACE";
/// Set when a host is to find no control groups.
pub(crate) const NO_CGROUP: &str = "GUARD_TEST_NO_CGROUP";
/// A guard's arguments.
pub(crate) const DUTY: &str = "GUARD_TEST_DUTY";

/// How this program is told to play a role and nothing else.
pub(crate) const AS_HOST: [&str; 5] =
    ["--quiet", "--nocapture", "--ignored", "--exact", "roles::as_the_host"];
const AS_GUARD: &str =
    "GUARD_TEST_DUTY=\"$*\" exec \"$0\" --quiet --nocapture --ignored --exact roles::as_the_guard";

fn told(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

#[test]
#[ignore = "a role that the tests start"]
fn as_the_guard() {
    let Some(duty) = told(DUTY) else { return };
    let words: Vec<&str> = duty.split(' ').collect();
    let after = |name| words.iter().position(|word| *word == name).map(|at| words[at + 1]);
    guard_main(GuardDuty {
        life: after("--life").unwrap().parse().unwrap(),
        freeze_max: Duration::from_millis(after("--freeze-max-ms").unwrap().parse().unwrap()),
        cgroup: after("--cgroup").map(PathBuf::from),
        processes_max: None,
    })
    .unwrap();
}

#[test]
#[ignore = "a role that the tests start"]
fn as_the_host() {
    let Some(life) = told(LIFE) else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(host(life.parse().unwrap()));
}

async fn host(life: HostLife) {
    let place = PathBuf::from(told(PLACE).unwrap());
    let cgroup_parent = told(NO_CGROUP).map(|_| place.clone());
    say(&format!("cleared {}", clear_earlier_lives(&life).await.killed));
    let guard = GuardProcess::start(GuardConfig {
        program: PathBuf::from("/bin/sh"),
        args: ["-c".into(), AS_GUARD.into(), std::env::current_exe().unwrap().into()].into(),
        life: life.clone(),
        freeze_max: Duration::from_millis(told(FREEZE_MAX).unwrap().parse().unwrap()),
        processes_max: None,
        cgroup_parent: cgroup_parent.clone(),
    });
    let guard = guard.await.unwrap();
    let (beats, kept) = mpsc::channel(8);
    tokio::spawn(keep_guard(guard, kept));
    let (orders, ordered) = mpsc::channel(8);
    let (tell, mut observed) = mpsc::channel(8);
    let config = RunnerConfig {
        life,
        workspace_dir: place,
        output_limit: 1 << 16,
        turn_timeout: None,
        artifact_max: 1 << 20,
        cgroup_parent,
        containment: Containment::default(),
        worktrees_dir: std::env::temp_dir().join("tetrarch-no-worktrees"),
        worktrees_max: 1,
        prices: Default::default(),
    };
    tokio::spawn(serve(config, ordered, tell));
    tokio::spawn(async move { while observed.recv().await.is_some() {} });
    say("up");
    let (hear, mut heard) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        std::io::stdin().lock().lines().map_while(Result::ok).try_for_each(|line| hear.send(line))
    });
    while let Some(line) = heard.recv().await {
        match line.split_once(' ') {
            Some(("beat", ms)) => {
                let left = Duration::from_millis(ms.parse().unwrap());
                let until = Instant::now() + left;
                // When the second is taken the guard was told the first.
                beats.send(LeaseUpdate::Until(until)).await.unwrap();
                beats.send(LeaseUpdate::Until(until)).await.unwrap();
                while beats.capacity() < beats.max_capacity() {
                    tokio::task::yield_now().await;
                }
                say("told");
            }
            Some(("start", program)) => {
                orders.send(Order::Start(Box::new(start(program)))).await.unwrap();
            }
            _ if line == "kill" => {
                let (done, killed) = oneshot::channel();
                beats.send(LeaseUpdate::Kill(done)).await.unwrap();
                killed.await.unwrap();
                say("killed");
            }
            _ if line == "end" => {
                beats.send(LeaseUpdate::End).await.unwrap();
                beats.closed().await;
                say("ended");
            }
            _ => panic!("{line}"),
        }
    }
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).unwrap();
}

fn start(program: &str) -> Start {
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos();
    let fresh = || Ulid::from_parts(1, now);
    let brief = Brief {
        goal: "count".to_owned(),
        key_facts: Vec::new(),
        expected_output: ExpectedOutput::Text,
        success_criteria: Vec::new(),
        definition_of_done: String::new(),
        tools: Tools::from_iter(["read"]),
        workspace: String::new(),
        scope_paths: Vec::new(),
        budget: Limits { tokens: None, cost_micro: None, turns: None },
        wall: None,
        turn_timeout: None,
        runner: Runner {
            profile: ProfileName::new("default").unwrap(),
            kind: RunnerKind::Process,
            argv: vec!["python3".to_owned(), program.to_owned()],
            env: Vec::new(),
            pass_env: Vec::new(),
            writable: Vec::new(),
            model: String::new(),
            served: Default::default(),
            permissions: Vec::new(),
            mcp_servers: Vec::new(),
            prompt: String::new(),
        },
        worktree: Worktree::None,
        inputs: Vec::new(),
        judges: None,
    };
    let run = RunId(fresh());
    Start {
        run,
        first: run,
        agent: AgentId::Worker(fresh()),
        session: SessionId(fresh()),
        epoch: 1,
        parent: AgentId::Po(ProjectName::new("demo").unwrap()),
        depth: 2,
        project: Some(ProjectName::new("demo").unwrap()),
        epic: EpicId(fresh()),
        node: NodeId::task(1, 1),
        brief,
        delegation: None,
        checkpoint: None,
        recorded: Vec::new(),
        returned: 0,
        trace: None,
    }
}
