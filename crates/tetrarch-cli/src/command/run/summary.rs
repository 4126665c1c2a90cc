//! What a person sees at the end of a run: the result, the agents, the plan's versions and the
//! figures, all read from the ledger.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};
use tetrarch_bus::artifact::Artifacts;
use tetrarch_bus::subject::pattern::LEDGER;
use tetrarch_bus::tail::read_ledger;
use tetrarch_core::agent::{Agent, is_command};
use tetrarch_core::brief::{LONG_TEXTS, Outcome, Worktree};
use tetrarch_core::goal::GoalResult;
use tetrarch_core::id::{AgentId, EpicId, NodeId, RunId};
use tetrarch_core::ledger::{Entry, Record};
use tetrarch_core::plan::Node;
use tetrarch_core::plan::profiles::executing;
use tetrarch_core::role::Role;
use tetrarch_core::run::RunStatus;

use crate::output::{self, say, visible};
use crate::{CliResult, Context, HumanClient};

/// The figures of one run.
#[derive(Debug, Default)]
struct Figures {
    commits: usize,
    versions: BTreeMap<u32, String>,
    agents: BTreeMap<AgentId, Agent>,
    runs: BTreeMap<RunId, RunStatus>,
    nodes: BTreeMap<NodeId, Node>,
    /// Runs that work in a copy of their own of a repository.
    apart: BTreeSet<RunId>,
    /// Runs that changed it.
    changing: BTreeSet<RunId>,
    slots_most: usize,
    denied: usize,
    replaced: usize,
}

/// Prints the result to standard output and the rest to standard error.
///
/// # Errors
/// The ledger or an artifact cannot be read.
pub(super) async fn print(
    context: &Context,
    client: &HumanClient,
    epic: EpicId,
    from: u64,
    took: Duration,
    result: Option<&GoalResult>,
    quiet: bool,
) -> CliResult {
    let through = client.bus.stream_last_seq(LEDGER).await?;
    let mut figures = Figures::default();
    for item in read_ledger(&client.bus, from + 1, through, 0).await {
        if let Ok(entry) = item.entry {
            figures.take(&entry, epic);
        }
    }
    if output::is_for_programs(context.output) {
        return Ok(());
    }
    if let Some(result) = result {
        output::deliverable(&format!("{}\n", whole_text(client, result).await))?;
    }
    if !quiet {
        say(figures.text(context, took, result).trim_end());
        say(&format!("Look     {}", context.command(&format!("plan show {epic}"))));
    }
    Ok(())
}

/// What a goal came to, for programs.
pub(super) fn value(result: &GoalResult) -> Value {
    let artifacts = result.artifacts.iter().map(
        |artifact| json!({"name": artifact.name, "size": artifact.size, "sha256": artifact.sha256}),
    );
    json!({
        "summary": result.summary,
        "deliverable": result.deliverable,
        "artifacts": artifacts.collect::<Vec<Value>>(),
    })
}

/// The deliverable; the text artifact when that holds the whole of it.
async fn whole_text(client: &HumanClient, result: &GoalResult) -> String {
    let text = result.artifacts.iter().rfind(|artifact| artifact.name == LONG_TEXTS[0]);
    let Some(artifact) = text else { return result.deliverable.clone() };
    let bytes = Artifacts::new(&client.bus).get_bytes(&artifact.sha256).await;
    bytes
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .unwrap_or_else(|| result.deliverable.clone())
}

impl Figures {
    fn take(&mut self, entry: &Entry, epic: EpicId) {
        self.commits += 1;
        for event in entry.plans.iter().filter(|event| event.epic == epic) {
            self.versions.insert(event.version, event.reason.as_str().to_owned());
        }
        for event in &entry.events {
            let denied = event.kind == tetrarch_core::ledger::EventKind::SpawnDenied;
            self.denied += usize::from(denied && event.epic == Some(epic));
            let replaced = event.kind == tetrarch_core::ledger::EventKind::AgentReplaced;
            self.replaced += usize::from(replaced);
        }
        for record in &entry.records {
            if let Record::Agent(agent) = record {
                // Agents of other goals are none of this run's.
                if agent.work.as_ref().is_some_and(|work| work.epic != epic) {
                    continue;
                }
                self.slots_most = self.slots_most.max(agent.slots.len());
                self.agents.insert(agent.id.clone(), (**agent).clone());
            } else if let Record::RunStatus(status) = record {
                self.runs.insert(status.id, (**status).clone());
            } else if let Record::Run(run) = record {
                let brief = &run.brief;
                if brief.worktree != Worktree::None && !brief.workspace.is_empty() {
                    self.apart.insert(run.id);
                }
            } else if let Record::Change(change) = record {
                self.changing.insert(change.run);
            } else if let Record::Node(of, node) = record
                && *of == epic
            {
                self.nodes.insert(node.id, (**node).clone());
            }
        }
    }

    fn text(&self, context: &Context, took: Duration, result: Option<&GoalResult>) -> String {
        let mut text = String::from("\nAgents\n");
        self.roots(&mut text);
        let reasons = self.versions.values().fold(BTreeMap::new(), |mut counts, reason| {
            *counts.entry(reason.as_str()).or_insert(0usize) += 1;
            counts
        });
        let reasons: Vec<String> =
            reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        let last = self.versions.keys().next_back().copied().unwrap_or(0);
        let whole = self.versions.len() == last as usize;
        let gaps = if whole { "no gap" } else { "WITH GAPS" };
        // Writing to a String cannot fail.
        let _infallible =
            writeln!(text, "\nPlan     versions 1 to {last}, {gaps} ({})", reasons.join(", "));
        for artifact in result.map(|result| result.artifacts.as_slice()).unwrap_or_default() {
            let _infallible = writeln!(
                text,
                "Artifact {} ({} bytes): {}",
                visible(&artifact.name),
                artifact.size,
                context.command(&format!("artifact get {}", artifact.sha256))
            );
        }
        text.push_str(&self.notes());
        let workers = self.agents.keys().filter(|id| Role::of(id).takes_slot()).count();
        let _infallible = writeln!(
            text,
            "Figures  {workers} agents below the orchestrators, at most {} at a time below one \
             parent, {} spawns denied, {} replaced after a death, {} commits, {:.1} s",
            self.slots_most,
            self.denied,
            self.replaced,
            self.commits,
            took.as_secs_f32()
        );
        text
    }

    /// What "done" does not say: whose acceptance nobody checked, whose result is empty, and who could change the
    /// repository and did not. A command is judged by its exit code, and may have nothing to say.
    fn notes(&self) -> String {
        let (mut unchecked, mut empty, mut idle) =
            (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let worked = self.agents.values().filter_map(|agent| Some((agent, agent.work.as_ref()?)));
        let is_reviewer = |agent: &Agent| Role::of(&agent.id) == Role::Reviewer;
        let reviewed = worked.clone().filter(|(agent, _)| is_reviewer(agent));
        let reviewed: BTreeSet<NodeId> = reviewed.map(|(_, work)| work.node).collect();
        for (_, work) in worked.filter(|(agent, _)| !is_reviewer(agent)) {
            let result = self.runs.get(&work.run).and_then(|run| run.result.as_ref());
            let result = result.filter(|result| result.outcome == Outcome::Success);
            let (Some(node), Some(result)) = (self.nodes.get(&work.node), result) else { continue };
            if node.needs_judgement() && !reviewed.contains(&node.id) {
                unchecked.insert(node.id);
            }
            let says = !result.deliverable.trim().is_empty() || !result.artifacts.is_empty();
            if is_command(executing(Some(node))) {
                continue;
            }
            if !says {
                empty.insert(node.id);
            }
            if self.apart.contains(&work.run) && !self.changing.contains(&work.run) {
                idle.insert(node.id);
            }
        }
        let line = |nodes: BTreeSet<NodeId>, what: &str| {
            let all: Vec<String> = nodes.iter().map(ToString::to_string).collect();
            (!all.is_empty()).then(|| format!("Note     {}: {what}\n", all.join(", ")))
        };
        let by_nobody = "nobody checked the acceptance; `review` in the plan has it checked";
        let notes = [
            line(unchecked, by_nobody),
            line(empty, "the result is empty"),
            line(idle, "no file of the repository was changed"),
        ];
        notes.into_iter().flatten().collect()
    }

    /// The agents that nothing known stands above, below the parents that the run left alone.
    fn roots(&self, text: &mut String) {
        let mut above: BTreeMap<&AgentId, Vec<&Agent>> = BTreeMap::new();
        for agent in self.agents.values() {
            match &agent.parent {
                Some(parent) if !self.agents.contains_key(parent) => {
                    above.entry(parent).or_default().push(agent);
                }
                Some(_) => {}
                None => self.branch(text, agent, 0),
            }
        }
        for (parent, below) in above {
            let _infallible = writeln!(text, "  {parent}");
            for agent in below {
                self.branch(text, agent, 1);
            }
        }
    }

    /// An agent and those below it, indented.
    fn branch(&self, text: &mut String, agent: &Agent, depth: usize) {
        let work = agent.work.as_ref().map_or_else(String::new, |work| {
            let state = self.runs.get(&work.run).map_or("", |run| run.state.as_str());
            let again = match agent.epoch {
                0 | 1 => String::new(),
                epoch => format!(", in session {epoch}"),
            };
            format!("  {:<7} {state}  {}{again}", work.node.to_string(), visible(&agent.label))
        });
        let name = format!("{}{}", "  ".repeat(depth + 1), agent.id);
        let _infallible = writeln!(text, "{}", format!("{name:<48}{work}").trim_end());
        let below = self.agents.values().filter(|other| other.parent.as_ref() == Some(&agent.id));
        let mut below: Vec<&Agent> = below.collect();
        below.sort_by_key(|agent| (agent.work.as_ref().map(|work| work.node), agent.created));
        for agent in below {
            self.branch(text, agent, depth + 1);
        }
    }
}
