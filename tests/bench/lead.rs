//! A specialist's program that runs inside this process: it asks for three workers, waits for
//! their results and gives its own. It stands between host and runner, speaks core's vocabulary
//! like any runner, and passes on whatever is not for it.

use std::collections::HashMap;

use tetrarch_core::brief::{Outcome, RunResult, RunnerKind};
use tetrarch_core::id::RunId;
use tetrarch_core::order::{Exit, Inbound, Observed, Order, RunnerEvent};
use tokio::sync::mpsc;

/// The profile of specialists.
pub(crate) const LEAD: &str = "lead";
/// The profile of their workers.
pub(crate) const LEAF: &str = "leaf";
/// Workers of one specialist.
pub(crate) const LEAVES: usize = 3;

/// The same program as a process.
pub(crate) const SCRIPT: &str = r#"read -r brief
echo '{"type":"spawn","spawnReason":"to measure","requestedSubagents":[{"role":"worker","task":"nothing","runner":"leaf"},{"role":"worker","task":"nothing","runner":"leaf"},{"role":"worker","task":"nothing","runner":"leaf"}]}'
left=3
while [ $left -gt 0 ] && read -r line; do
  case "$line" in *'"result.ready"'*) left=$((left - 1));; esac
done
echo '{"type":"result","outcome":"success","deliverable":"three results"}'
"#;

/// Executes specialists and passes everything else on, until there are no more orders.
pub(crate) async fn serve(
    mut orders: mpsc::Receiver<Order>,
    runner: mpsc::Sender<Order>,
    observed: mpsc::Sender<Observed>,
) {
    let mut left: HashMap<RunId, usize> = HashMap::new();
    while let Some(order) = orders.recv().await {
        let told = match &order {
            Order::Start(start)
                if start.brief.runner.kind == RunnerKind::Echo
                    && start.brief.runner.profile.as_str() == LEAD =>
            {
                left.insert(start.run, LEAVES);
                begin(start.run)
            }
            Order::Deliver { run, line: Inbound::Mail { topic, .. } } if left.contains_key(run) => {
                if topic == "result.ready" {
                    result(&mut left, *run)
                } else {
                    Vec::new()
                }
            }
            Order::Kill { run } | Order::Stop { run, .. } | Order::Rotate { run, .. }
                if left.remove(run).is_some() =>
            {
                let exit = Exit::Signal(9);
                vec![seen(*run, RunnerEvent::Exited { exit, result: None })]
            }
            Order::Start(_)
            | Order::Deliver { .. }
            | Order::Kill { .. }
            | Order::Rotate { .. }
            | Order::Verb { .. }
            | Order::Apply(_)
            | Order::Stop { .. } => {
                // A runner that is gone ends with the fleet.
                let _gone = runner.send(order).await;
                continue;
            }
        };
        for one in told {
            // So does a host.
            let _gone = observed.send(one).await;
        }
    }
}

fn seen(run: RunId, event: RunnerEvent) -> Observed {
    Observed { run, event, place: Box::new(()) }
}

fn begin(run: RunId) -> Vec<Observed> {
    let worker = format!(r#"{{"role":"worker","task":"nothing","runner":"{LEAF}"}}"#);
    let workers = vec![worker; LEAVES].join(",");
    let request = format!(r#"{{"spawnReason":"to measure","requestedSubagents":[{workers}]}}"#);
    let isolation = "inside the benchmark".to_owned();
    [RunnerEvent::Started { pid: None, isolation }, RunnerEvent::Spawn { request }]
        .map(|event| seen(run, event))
        .into()
}

/// One worker is done; with the last one the specialist is.
fn result(left: &mut HashMap<RunId, usize>, run: RunId) -> Vec<Observed> {
    let Some(count) = left.get_mut(&run) else { return Vec::new() };
    *count -= 1;
    if *count > 0 {
        return Vec::new();
    }
    left.remove(&run);
    let mut result = RunResult::ended(Outcome::Success, "");
    "three results".clone_into(&mut result.deliverable);
    let result = RunnerEvent::Result { result: Box::new(result), files: Vec::new() };
    let exited = RunnerEvent::Exited { exit: Exit::Code(0), result: None };
    [result, exited].map(|event| seen(run, event)).into()
}
