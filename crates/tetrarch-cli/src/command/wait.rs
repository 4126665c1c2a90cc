//! `wait`: until a goal, a run, an agent, a node or a change is in a state, from STATE and then the ledger.

use std::time::Duration;

use futures::StreamExt;
use serde_json::json;
use tetrarch_bus::Bus;
use tetrarch_bus::state::Select;
use tetrarch_bus::subject::KeyKind;
use tetrarch_bus::subject::pattern::LEDGER;
use tetrarch_bus::tail::follow_ledger;
use tetrarch_core::change::ChangeStatus;
use tetrarch_core::duration;
use tetrarch_core::goal::GoalStatus;
use tetrarch_core::id::{AgentId, ChangeId, EpicId, NodeId, RunId};
use tetrarch_core::ledger::RecordKey;
use tetrarch_core::liveness::Liveness;
use tetrarch_core::plan::NodeStatus;
use tetrarch_core::run::RunState;
use tetrarch_core::time::Millis;

use crate::history;
use crate::name::{NodePath, ResourceName};
use crate::output;
use crate::{CliError, CliResult, Code, Context, StateSnapshot};

/// Arguments of `wait`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tetrarch wait @last --for completed --timeout 30m
  tetrarch wait T1.2 --for done
  tetrarch wait run_01JD8Z5W6T4QK3M9X2V7B1N0AC --for done
  tetrarch wait PO-demo --for active
  tetrarch wait chg_01JD8Z5W6T4QK3M9X2V7B1N0AC --for applied

Exit codes: 0 state reached; 1 state cannot be reached any more, or timeout; 3 not found.")]
pub(crate) struct WaitArgs {
    /// A goal, a run, an agent, a node (T1.2 or <goal>/T1.2) or a change.
    #[arg(value_name = "THING")]
    thing: ResourceName,
    /// The state to wait for, such as completed, done, running, active, applied.
    #[arg(long = "for", value_name = "STATE")]
    state: String,
    /// The longest wait, such as 90s [default: no limit].
    #[arg(long, value_parser = duration::parse)]
    timeout: Option<Millis>,
}

/// What is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum WaitTarget {
    Goal(EpicId),
    Run(RunId),
    Agent(AgentId),
    Node(EpicId, NodeId),
    Change(ChangeId),
}

impl WaitTarget {
    fn of(text: &str) -> Option<Self> {
        let place = || text.parse().map(|NodePath { epic, node }| Self::Node(epic, node)).ok();
        let goal = || text.parse().map(Self::Goal).ok();
        let run = || text.parse().map(Self::Run).ok();
        let change = || text.parse().map(Self::Change).ok();
        let agent = || text.parse().map(Self::Agent).ok();
        place().or_else(goal).or_else(run).or_else(change).or_else(agent)
    }

    /// The words of its states.
    fn states(&self) -> Vec<&'static str> {
        match self {
            Self::Goal(_) => GoalStatus::ALL.map(GoalStatus::as_str).to_vec(),
            Self::Run(_) => RunState::ALL.map(RunState::as_str).to_vec(),
            Self::Agent(_) => Liveness::ALL.map(Liveness::as_str).to_vec(),
            Self::Node(..) => NodeStatus::ALL.map(NodeStatus::as_str).to_vec(),
            Self::Change(_) => ChangeStatus::ALL.map(ChangeStatus::as_str).to_vec(),
        }
    }

    fn records(&self) -> Vec<Select> {
        match self {
            Self::Goal(epic) => vec![Select::One(RecordKey::GoalState(*epic))],
            Self::Run(run) => vec![Select::One(RecordKey::RunStatus(*run))],
            Self::Agent(agent) => vec![Select::One(RecordKey::Agent(agent.clone()))],
            Self::Node(epic, _) => {
                let mut all = vec![Select::One(RecordKey::Plan(*epic))];
                all.extend([KeyKind::Node, KeyKind::NodeState].map(|it| Select::OfEpic(it, *epic)));
                all
            }
            Self::Change(change) => vec![Select::One(RecordKey::Change(*change))],
        }
    }

    /// Its state; none when there is no such thing.
    fn stands(&self, snapshot: &StateSnapshot) -> Option<WaitState> {
        let records = &snapshot.records;
        match self {
            Self::Goal(epic) => {
                let status = records.goal_states.get(epic)?.status;
                let can_become = |next: &GoalStatus| reaches(status, *next);
                Some(WaitState::new(
                    status.as_str(),
                    names(GoalStatus::ALL, can_become, GoalStatus::as_str),
                ))
            }
            Self::Run(run) => {
                let state = records.run_status.get(run)?.state;
                let open = |_: &RunState| !state.is_terminal();
                Some(WaitState::new(state.as_str(), names(RunState::ALL, open, RunState::as_str)))
            }
            Self::Agent(agent) => {
                let state = records.agents.get(agent)?.liveness;
                let open = |_: &Liveness| state != Liveness::Terminated;
                Some(WaitState::new(state.as_str(), names(Liveness::ALL, open, Liveness::as_str)))
            }
            Self::Node(epic, node) => {
                records.nodes.get(epic)?.get(node)?;
                let status = snapshot.node_status(*epic, *node);
                // Phases and tasks with parts follow from these, and may begin again when one is added.
                let open = |_: &NodeStatus| !status.is_settled();
                Some(WaitState::new(
                    status.as_str(),
                    names(NodeStatus::ALL, open, NodeStatus::as_str),
                ))
            }
            Self::Change(change) => {
                let status = records.changes.get(change)?.status;
                let open = |_: &ChangeStatus| !status.is_terminal();
                Some(WaitState::new(
                    status.as_str(),
                    names(ChangeStatus::ALL, open, ChangeStatus::as_str),
                ))
            }
        }
    }
}

/// Whether a goal may come to a status, by one step or several.
fn reaches(from: GoalStatus, wanted: GoalStatus) -> bool {
    let mut reached = vec![from];
    let mut at = 0;
    while let Some(status) = reached.get(at).copied() {
        let next = GoalStatus::ALL.into_iter().filter_map(|next| status.to(next).ok());
        let new: Vec<GoalStatus> = next.filter(|next| !reached.contains(next)).collect();
        reached.extend(new);
        at += 1;
    }
    from != wanted && reached.contains(&wanted)
}

fn names<S: Copy, const N: usize>(
    all: [S; N],
    wanted: impl Fn(&S) -> bool,
    word: fn(S) -> &'static str,
) -> Vec<&'static str> {
    all.into_iter().filter(wanted).map(word).collect()
}

/// A state, and those that it may come to.
#[derive(Debug, PartialEq, Eq)]
struct WaitState {
    state: &'static str,
    next: Vec<&'static str>,
}

impl WaitState {
    fn new(state: &'static str, next: Vec<&'static str>) -> Self {
        Self { state, next }
    }
}

/// Runs the command.
///
/// # Errors
/// There is no such thing or state; it cannot be reached; the time is over.
pub(crate) async fn run(context: &Context, args: WaitArgs) -> CliResult {
    let WaitArgs { thing: ResourceName(name), state, timeout } = args;
    let awaited = WaitTarget::of(&name).ok_or_else(|| {
        CliError::new(Code::Usage, format!("{name} has no state to wait for"))
            .hint("name a goal, a run, an agent, a node or a change, as in `tetrarch wait @last --for completed`")
    })?;
    let states = awaited.states();
    if !states.contains(&state.as_str()) {
        let what = format!("{name} cannot have the state {state:?}");
        return Err(
            CliError::new(Code::Usage, what).hint(format!("use one of {}", states.join(", ")))
        );
    }
    let bus = context.client().await?.bus;
    let waiting = until(&bus, &name, &awaited, &state);
    let ended = match timeout {
        Some(Millis(timeout)) => {
            tokio::time::timeout(Duration::from_millis(timeout), waiting).await
        }
        None => Ok(waiting.await),
    };
    let timed_out = || {
        let within = duration::print(timeout.unwrap_or_default());
        CliError::new(Code::Failed, format!("{name} was not {state} within {within}"))
            .hint(format!("see `tetrarch describe {name}`"))
    };
    ended.map_err(|_| timed_out())??;
    let value = json!({"thing": name, "state": state});
    output::record(context.output, &value, || format!("{name} is {state}\n"))
}

async fn until(bus: &Bus, name: &str, awaited: &WaitTarget, wanted: &str) -> CliResult {
    // Read before the records: what is newer than this is in the ledger from there on.
    let from = history::next_entry(bus).await?;
    // What was made just now may stand in the ledger alone.
    let last = bus.stream_last_seq(LEDGER).await?;
    let mut seen = from.saturating_sub(1);
    let mut snapshot = StateSnapshot::read(bus, &awaited.records()).await?;
    let mut entries = std::pin::pin!(follow_ledger(bus, from, 0));
    loop {
        match awaited.stands(&snapshot) {
            None if seen < last => {}
            None => {
                return Err(CliError::new(Code::NotFound, format!("{name} was not found")).hint(
                    "list goals with `tetrarch get goals`, and runs, agents and nodes likewise",
                ));
            }
            Some(stand) if stand.state == wanted => return Ok(()),
            Some(stand) if !stand.next.contains(&wanted) => {
                let what = format!("{name} is {} and cannot become {wanted}", stand.state);
                return Err(CliError::new(Code::Failed, what)
                    .hint(format!("see `tetrarch describe {name}` for the cause")));
            }
            Some(_) => {}
        }
        let Some(item) = entries.next().await else { return Ok(()) };
        seen = item.seq;
        if let Ok(entry) = item.entry {
            snapshot.apply(item.seq, &entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_goal_can_only_become_archived() {
        assert!(reaches(GoalStatus::Active, GoalStatus::Completed));
        assert!(reaches(GoalStatus::Paused, GoalStatus::Archived));
        assert!(reaches(GoalStatus::Cancelled, GoalStatus::Archived));
        assert!(!reaches(GoalStatus::Cancelled, GoalStatus::Completed));
        assert!(!reaches(GoalStatus::Archived, GoalStatus::Active));
    }

    #[test]
    fn wait_target_is_derived_from_its_name() {
        let ulid = "01JD8Z5W6T4QK3M9X2V7B1N0AC";
        assert!(matches!(WaitTarget::of(&format!("goal_{ulid}/T1.1")), Some(WaitTarget::Node(..))));
        assert!(matches!(WaitTarget::of(&format!("goal_{ulid}")), Some(WaitTarget::Goal(_))));
        assert!(matches!(WaitTarget::of(&format!("run_{ulid}")), Some(WaitTarget::Run(_))));
        assert!(matches!(WaitTarget::of(&format!("chg_{ulid}")), Some(WaitTarget::Change(_))));
        assert!(matches!(WaitTarget::of("PO-demo"), Some(WaitTarget::Agent(_))));
        assert_eq!(WaitTarget::of("project/demo"), None);
    }
}
