//! `why`: how an agent, a run, an assignment, a node or a goal came to be as it is: where it stands, and
//! the chain of events on the ledger that led there.

mod story;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use serde_json::{Value, json};
use tetrarch_bus::state::Select;
use tetrarch_bus::subject::KeyKind;
use tetrarch_bus::subject::pattern::LEDGER;
use tetrarch_bus::{Bus, snapshot};
use tetrarch_core::id::{AgentId, AssignmentId, EpicId, IdError, NodeId, RunId};
use tetrarch_core::ledger::{Record, RecordKey};
use tetrarch_core::obstacle::Obstacle;
use tetrarch_core::plan::folding::is_used;

use self::story::{Focus, Story};
use crate::command::plan::waits_for;
use crate::history;
use crate::name;
use crate::obstacles;
use crate::options::OutputFormat;
use crate::output::{self, StdoutReader, stamp, visible};
use crate::{CliError, CliResult, Code, Context, StateSnapshot};

/// Arguments of `why`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tetrarch why W:01JD8Z5W6T4QK3M9X2V7B1N0AC
  tetrarch why run_01JD8Z5W6T4QK3M9X2V7B1N0AC
  tetrarch why goal_01JD8Z5W6T4QK3M9X2V7B1N0AC/T1.2
  tetrarch why @last                    # the goal: what is in its way, and how it came there
  tetrarch why HO@box --last 5 -o json

The last line is the latest cause. Each line names its ledger sequence; `tetrarch events --since
SEQ` shows the events around it.")]
pub(crate) struct WhyArgs {
    /// An agent, a run, an assignment, a goal, or a node as <goal>/<node>.
    #[arg(value_name = "THING")]
    thing: name::ResourceName,
    /// The number of events to show, the latest ones.
    #[arg(long, value_name = "N", default_value_t = 40)]
    last: usize,
}

/// What is asked about, as people name it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum WhyTarget {
    Agent(AgentId),
    Run(RunId),
    Assignment(AssignmentId),
    Node(EpicId, NodeId),
    Goal(EpicId),
}

impl WhyTarget {
    fn read(text: &str) -> Result<Self, String> {
        let said = |error: IdError| error.to_string();
        if text.starts_with("run_") {
            return text.parse().map(Self::Run).map_err(said);
        }
        if text.starts_with("asg_") {
            return text.parse().map(Self::Assignment).map_err(said);
        }
        if text.starts_with("goal_") {
            let Some((epic, node)) = text.split_once('/') else {
                return text.parse().map(Self::Goal).map_err(said);
            };
            return Ok(Self::Node(epic.parse().map_err(said)?, node.parse().map_err(said)?));
        }
        text.parse().map(Self::Agent).map_err(said)
    }

    /// What the ledger is searched for.
    async fn focus(&self, bus: &Bus) -> CliResult<Option<Focus>> {
        let key = match self {
            Self::Agent(id) => return Ok(Some(Focus::Agent(id.clone()))),
            Self::Node(epic, node) => return Ok(Some(Focus::Node(*epic, *node))),
            Self::Goal(epic) => return Ok(Some(Focus::Goal(*epic))),
            Self::Run(run) => RecordKey::Run(*run),
            Self::Assignment(assignment) => RecordKey::Assignment(*assignment),
        };
        let records = StateSnapshot::read(bus, &[Select::One(key)]).await?.0.records;
        let of_run = records.runs.values().map(|run| (run.agent.clone(), run.assignment)).next();
        let mut assignments = records.assignments.values();
        let found = of_run.or_else(|| assignments.next().map(|one| (one.agent.clone(), one.id)));
        match found {
            Some((agent, assignment)) => Ok(Some(Focus::Attempt(agent, assignment))),
            None => self.on_ledger(bus).await,
        }
    }

    /// The same, when the present has forgotten it.
    async fn on_ledger(&self, bus: &Bus) -> CliResult<Option<Focus>> {
        let last = bus.stream_last_seq(LEDGER).await?;
        let mut found = None;
        history::each(bus, (1, last), 0, |item| {
            let records = item.entry.iter().flat_map(|entry| &entry.records);
            found = records.filter_map(|record| self.attempt(record)).next();
            Ok(if found.is_some() { StdoutReader::Gone } else { StdoutReader::There })
        })
        .await?;
        Ok(found.map(|(agent, assignment)| Focus::Attempt(agent, assignment)))
    }

    fn attempt(&self, record: &Record) -> Option<(AgentId, AssignmentId)> {
        match (self, record) {
            (Self::Run(id), Record::Run(run)) if run.id == *id => {
                Some((run.agent.clone(), run.assignment))
            }
            (Self::Assignment(id), Record::Assignment(one)) if one.id == *id => {
                Some((one.agent.clone(), *id))
            }
            (
                Self::Agent(_)
                | Self::Run(_)
                | Self::Assignment(_)
                | Self::Node(..)
                | Self::Goal(_),
                _,
            ) => None,
        }
    }
}

/// One event as it is printed.
struct EventLine {
    line: String,
    value: Value,
}

/// Runs the command.
///
/// # Errors
/// Nothing is known of the thing; the bus cannot be read.
pub(crate) async fn run(context: &Context, args: WhyArgs) -> CliResult {
    let wrong = |what: String| {
        CliError::new(Code::Usage, what)
            .hint("name an agent, a run, a goal or a node of it, as in `tetrarch why @last/T1.2`")
    };
    args.thing.must_be_shown_by("why")?;
    let thing = WhyTarget::read(&args.thing.0).map_err(wrong)?;
    let client = context.client().await?;
    let bus = client.bus.clone();
    let unknown = || name::not_found(&args.thing.0);
    let focus = thing.focus(&bus).await?.ok_or_else(unknown)?;
    let last = bus.stream_last_seq(LEDGER).await?;
    let mut story = Story::new(focus.clone());
    story.begin(snapshot::base(&bus).await?.records.iter().map(|(record, _)| record));
    let (mut told, mut earlier) = (VecDeque::new(), 0_usize);
    history::each(&bus, (1, last), 0, |item| {
        let Ok(entry) = &item.entry else { return Ok(StdoutReader::There) };
        for event in story.read(entry) {
            let (line, value) = (history::line(item, event), history::value(item, entry, event));
            told.push_back(EventLine { line, value });
            if told.len() > args.last.max(1) {
                told.pop_front();
                earlier += 1;
            }
        }
        Ok(StdoutReader::There)
    })
    .await?;
    let now = match &focus {
        Focus::Node(epic, node) => {
            let snapshot = with_plan(&bus, *epic).await?;
            if told.is_empty() && !snapshot.records.plans.contains_key(epic) {
                return Err(name::not_found(&epic.to_string()));
            }
            node_stands(&snapshot, *epic, *node)
        }
        Focus::Goal(epic) => {
            let (snapshot, present) = obstacles::look(&client, Some(*epic)).await?;
            goal_stands(context, &snapshot, *epic, &present)
        }
        Focus::Agent(_) | Focus::Attempt(..) => stand(&story, &focus),
    };
    if told.is_empty() && now.is_empty() {
        return Err(unknown());
    }
    match context.output {
        OutputFormat::Table | OutputFormat::Wide => {
            let mut text = now.iter().map(|one| format!("{one}\n")).collect::<String>();
            if earlier > 0 {
                text.push_str(&format!("  ... {earlier} earlier events; --last shows more\n"));
            }
            told.iter().for_each(|one| text.push_str(&format!("{}\n", one.line)));
            output::text(&text)?;
        }
        OutputFormat::Json | OutputFormat::Yaml => {
            let events: Vec<&Value> = told.iter().map(|one| &one.value).collect();
            let value = json!({"now": now, "earlier": earlier, "events": events});
            output::record(context.output, &value, String::new)?;
        }
    }
    Ok(())
}

/// A goal's plan as it is now.
async fn with_plan(bus: &Bus, epic: EpicId) -> CliResult<StateSnapshot> {
    let wanted = [
        Select::One(RecordKey::Plan(epic)),
        Select::OfEpic(KeyKind::Node, epic),
        Select::OfEpic(KeyKind::NodeState, epic),
    ];
    StateSnapshot::read(bus, &wanted).await
}

/// Where a goal stands now, what is in its way, and what helps, in words.
fn goal_stands(
    context: &Context,
    snapshot: &StateSnapshot,
    epic: EpicId,
    present: &[Obstacle],
) -> Vec<String> {
    let Some(state) = snapshot.records.goal_states.get(&epic) else { return Vec::new() };
    let mut said = vec![format!("{epic} is {}, {}% done", state.status, state.percent)];
    for obstacle in present {
        said.push(format!("  {} (holds up {})", visible(&obstacle.what), obstacle.holds_up));
        let helps = obstacles::commands(context, obstacle).into_iter();
        said.extend(helps.map(|command| format!("    next: {command}")));
    }
    said
}

/// Where a node stands now, and what it waits for, in words.
fn node_stands(snapshot: &StateSnapshot, epic: EpicId, node: NodeId) -> Vec<String> {
    let known = snapshot.records.nodes.get(&epic).is_some_and(|nodes| nodes.contains_key(&node));
    if !known {
        let plan = snapshot.records.plans.get(&epic);
        let left = plan.is_some_and(|plan| is_used(&plan.folded, node));
        return left.then(|| format!("{node} has ended and left the plan")).into_iter().collect();
    }
    let mut said = format!("{node} is {}", snapshot.node_status(epic, node).as_str());
    let states = snapshot.records.node_states.get(&epic);
    if let Some(state) = states.and_then(|states| states.get(&node)) {
        match state.attempts {
            0 => {}
            1 => said.push_str(" after 1 attempt"),
            more => said.push_str(&format!(" after {more} attempts")),
        }
        if let Some(blocker) = &state.blocker {
            said.push_str(&format!(": {}: {}", blocker.kind, blocker.detail));
            if !blocker.needs.is_empty() {
                said.push_str(&format!("; it needs {}", blocker.needs));
            }
        }
    }
    let waits = waits_for(snapshot, epic, node);
    if !waits.is_empty() {
        said.push_str(&format!(": it waits for {}", waits.join(", ")));
    }
    vec![said]
}

/// Where it stands now, in words.
fn stand(story: &Story, focus: &Focus) -> Vec<String> {
    let records = story.records();
    let mut said = Vec::new();
    let agent = match focus {
        Focus::Agent(id) | Focus::Attempt(id, _) => Some(id),
        Focus::Node(..) | Focus::Goal(_) => None,
    };
    let Some(agent) = agent.and_then(|id| records.agents.get(id)) else { return said };
    let place = agent.placement.as_ref().map(|at| format!(" on {}", at.host)).unwrap_or_default();
    said.push(format!(
        "{} is {} in session {}{place} since {}: {}",
        agent.id,
        agent.liveness.as_str(),
        agent.epoch,
        stamp(agent.since),
        agent.reason
    ));
    let status = agent.work.as_ref().and_then(|work| records.run_status.get(&work.run));
    said.extend(status.map(|status| {
        format!("its {} is {} since {}", status.id, status.state.as_str(), stamp(status.since))
    }));
    said
}
