//! The main job, as the README has it: `tetrarch run examples/first-run/plan.yaml`, on a
//! repository made for the test.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use tetrarch_core::limits::CHILDREN_MAX;
use tetrarch_core::role::Role;
use tetrarch_core::run::RunState;
use tetrarch_tests::{Fleet, Ledger};

use crate::workspace;

/// Longest it may take.
const WITHIN: Duration = Duration::from_secs(30);

const SECTIONS: [&str; 9] = [
    "## Languages",
    "## Files",
    "## Open notes",
    "## Unsafe code",
    "## Activity",
    "## Dependencies",
    "## Lock file",
    "## Architecture",
    "## Verdict",
];

/// A repository with two crates of this workspace and two commits.
pub(crate) fn repository(fleet: &Fleet) -> PathBuf {
    let path = fleet.cwd().join("repository");
    std::fs::create_dir_all(path.join("crates")).unwrap();
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]).args(args);
        let done = command.current_dir(&path).env("HOME", fleet.cwd()).output().unwrap();
        assert!(done.status.success(), "git {args:?}: {done:?}");
    };
    let copy = |from: &str| {
        let mut command = Command::new("cp");
        command.arg("-R").arg(workspace().join(from)).arg(path.join(from));
        assert!(command.status().unwrap().success(), "{command:?}");
    };
    git(&["init", "--quiet"]);
    for from in ["Cargo.toml", "Cargo.lock", "crates/tetrarch-core"] {
        copy(from);
    }
    git(&["add", "."]);
    git(&["commit", "--quiet", "-m", "one crate"]);
    copy("crates/tetrarch-bus");
    git(&["add", "."]);
    git(&["commit", "--quiet", "-m", "another crate"]);
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn first_run_reports_on_a_repository_with_agents_on_four_levels() {
    let mut fleet = Fleet::prepared();
    let repository = repository(&fleet);
    let plan = workspace().join("examples/first-run/plan.yaml");
    let ended = fleet.run(["run", plan.to_str().unwrap(), "--", repository.to_str().unwrap()]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.out, ended.err);
    assert!(ended.took < WITHIN, "it took {:?}", ended.took);
    assert_eq!(fleet.processes(), [], "the fleet it brought up is down again");

    let report = &ended.out;
    assert!(report.starts_with("# repository\n"), "{report}");
    for section in SECTIONS {
        assert!(report.contains(section), "{section} in\n{report}");
    }
    assert!(!report.contains("No result that can be read"), "{report}");
    assert!(report.contains("**pass**"), "the verdict in\n{report}");
    let said = &ended.err;
    assert!(said.contains("no gap") && said.contains("at most 3 at a time"), "{said}");
    let levels = ["GO", "PO-first-run", "S:architecture:", "W:"];
    let fourth = said.lines().filter(|line| line.trim_start().starts_with("W:"));
    let deepest = fourth.map(|line| line.len() - line.trim_start().len()).max().unwrap();
    for (depth, level) in levels.iter().enumerate() {
        let indent = deepest - 2 * (levels.len() - 1 - depth);
        let line = format!("{}{level}", " ".repeat(indent));
        assert!(said.lines().any(|said| said.starts_with(&line)), "{line:?} in\n{said}");
    }

    // The same, as the ledger has it.
    fleet.start();
    let control = fleet.control().await;
    let mut ledger = Ledger::follow(&control);
    ledger
        .until("the goal with its result", |records| {
            records.goal_states.values().find_map(|state| state.result.clone())
        })
        .await;
    let widest = ledger.widest();
    let most = |role: Role| {
        let of = |(id, slots): (&_, &usize)| (Role::of(id) == role).then_some(*slots);
        widest.iter().filter_map(of).max().unwrap_or(0)
    };
    assert_eq!(most(Role::Project), CHILDREN_MAX, "more was ready than there were slots");
    assert_eq!(most(Role::Specialist), 1);
    let agents = ledger.records.agents.values();
    assert_eq!(agents.map(|agent| agent.depth).max(), Some(3));
    let runs: Vec<_> = ledger.records.run_status.values().map(|status| status.state).collect();
    let ended = |state: RunState| runs.iter().filter(|run| **run == state).count();
    assert!(ended(RunState::Done) >= 12, "{runs:?}");
    assert_eq!(ended(RunState::Orphaned), 1, "one worker is killed and goes on: {runs:?}");
    assert_eq!(ended(RunState::Done) + 1, runs.len(), "{runs:?}");
    let epic = ledger.records.goals.keys().next().unwrap().to_string();
    let insights = fleet.json(&["insights", &epic]);
    let path: Vec<&str> =
        insights["criticalPath"].as_array().unwrap().iter().filter_map(|id| id.as_str()).collect();
    assert_eq!(path.last(), Some(&"T4.1"), "the report comes last: {path:?}");
    assert_eq!(insights["longest"]["T4.1"], path.len() - 1);
    assert!(insights["ready"].as_array().unwrap().is_empty(), "all of it is done: {insights}");
    fleet.ok(["doctor", "--check-ledger"]);
    fleet.stop();
}
