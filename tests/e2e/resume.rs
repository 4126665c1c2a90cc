//! The helpers of examples/resume, in real sessions: their programs are killed in the middle, and
//! every step is made once.

use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};
use tetrarch_core::ledger::EventKind;
use tetrarch_core::plan::NodeStatus;
use tetrarch_tests::{Fleet, Ledger, binary, wait};

use crate::workspace;

/// Steps of each program.
const STEPS: usize = 10;
/// After how many steps it is killed.
const DEATHS: [usize; 2] = [3, 6];
/// The programs, by a word of their command, and their nodes.
const PROGRAMS: [(&str, &str); 2] = [("steps.py", "T1.1"), ("tetrarch-steps", "T1.2")];

fn steps(path: &Path) -> Vec<(usize, u64)> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let step = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        (words[0].parse().unwrap(), words[2].parse().unwrap())
    };
    text.lines().map(step).collect()
}

fn kill(fleet: &Fleet, program: &str) {
    let pid = wait::until("the program runs", || {
        fleet.agents().into_iter().find(|agent| agent.command.contains(program))
    })
    .pid;
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::KILL).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_programs_in_both_languages_make_every_step_once() {
    let built = binary().parent().unwrap().to_str().unwrap().to_owned();
    let path = format!("{built}:{}", std::env::var("PATH").unwrap());
    let fleet = Fleet::prepared()
        .with_env("PATH", path)
        .with_env("TETRARCH_LIMITS_MAX_RESTARTS", "10")
        .started();
    let plan = workspace().join("examples/resume/plan.yaml");
    let made = fleet.cwd().join("made");
    std::fs::create_dir(&made).unwrap();
    let running = fleet.spawn(["run", plan.to_str().unwrap(), "--", made.to_str().unwrap()]);
    for after in DEATHS {
        for (program, node) in PROGRAMS {
            let file = made.join(node);
            wait::until("the steps before a death", || (steps(&file).len() >= after).then_some(()));
            kill(&fleet, program);
        }
    }
    let ended = running.ended();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    for (program, node) in PROGRAMS {
        let made = steps(&made.join(node));
        let numbers: Vec<usize> = made.iter().map(|(step, _)| *step).collect();
        assert_eq!(numbers, (1..=STEPS).collect::<Vec<_>>(), "{program}: {made:?}");
        assert!(made.is_sorted_by_key(|(_, epoch)| *epoch), "{program}: {made:?}");
        assert_eq!(made.last().map(|(_, epoch)| *epoch), Some(3), "{program}: {made:?}");
    }
    let control = fleet.control().await;
    let mut ledger = Ledger::follow(&control);
    let done = |status: NodeStatus| status == NodeStatus::Done;
    ledger
        .until("both tasks are done", |records| {
            let states: Vec<_> =
                records.node_states.values().flat_map(|all| all.values()).collect();
            let tasks = states.iter().filter(|state| state.id.to_string().starts_with('T'));
            (tasks.filter(|state| done(state.status)).count() == PROGRAMS.len()).then_some(())
        })
        .await;
    let replaced = ledger.events(EventKind::AgentReplaced).len();
    assert_eq!(replaced, DEATHS.len() * PROGRAMS.len());
    fleet.ok(["doctor", "--check-ledger"]);
}
