//! Following an epic to its end: one line for every move, from its plan events.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::{Stream, StreamExt};
use serde_json::json;
use tetrarch_bus::state::read_epic;
use tetrarch_bus::tail::{LedgerItem, follow_ledger};
use tetrarch_bus::watch::{From, plan_events};
use tetrarch_core::goal::{GoalResult, GoalStatus};
use tetrarch_core::id::{EpicId, NodeId};
use tetrarch_core::obstacle::Obstacle;
use tetrarch_core::plan::{NodeStatus, NodeView, PlanEvent, view};
use tokio::signal::unix::{SignalKind, signal};

use super::progress::{Progress, StatusLine};
use super::watching::{LOOK_EVERY, ObstacleChanges, ObstacleWatch};
use crate::obstacles;
use crate::options::OutputFormat;
use crate::output::{self, stamp, visible};
use crate::{CliError, CliResult, Code, Context, HumanClient};

/// How long the ledger may take to tell what a plan event has told already.
const KNOWN_WITHIN: Duration = Duration::from_secs(5);
/// How long a reached goal waits for its orchestrator to put the result together.
const RESULT_WITHIN: Duration = Duration::from_secs(20);

/// How following ended.
#[derive(Debug)]
pub(super) enum FollowOutcome {
    /// The goal is reached; what of it is still to be decided.
    Completed(Vec<Obstacle>),
    /// The goal is given up.
    Cancelled,
    /// Nothing can go on by itself; what is unsettled, and what is in the way.
    Stuck(Vec<(NodeId, String)>, Vec<Obstacle>),
    /// Ctrl-C.
    Interrupted,
}

/// Follows one epic.
#[derive(Debug)]
pub(super) struct GoalFollower {
    quiet: bool,
    started: Instant,
    titles: BTreeMap<NodeId, String>,
    /// Why each node is where it is.
    whys: BTreeMap<NodeId, String>,
    result: Option<GoalResult>,
    progress: Progress,
    line: StatusLine,
}

impl GoalFollower {
    /// A follower that counts time from `started`.
    pub(super) fn new(quiet: bool, started: Instant, output: OutputFormat) -> Self {
        let (titles, whys) = (BTreeMap::new(), BTreeMap::new());
        let line = StatusLine::new(!quiet && !output::is_for_programs(output));
        Self { quiet, started, titles, whys, result: None, progress: Progress::default(), line }
    }

    /// What the goal came to.
    pub(super) fn result(&self) -> Option<&GoalResult> {
        self.result.as_ref()
    }

    /// Follows until the goal is settled or, unless it is to wait, stuck.
    ///
    /// # Errors
    /// The bus is away, or does not let this credential read.
    pub(super) async fn follow(
        &mut self,
        context: &Context,
        client: &HumanClient,
        epic: EpicId,
        wait: bool,
    ) -> CliResult<FollowOutcome> {
        let events = plan_events(&client.bus, Some(epic), From::Start).await?;
        let mut events = std::pin::pin!(events);
        let (mut watch, from) = ObstacleWatch::open(client, epic).await?;
        let mut entries = std::pin::pin!(follow_ledger(&client.bus, from, 0));
        let mut look = tokio::time::interval(LOOK_EVERY);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut completed: Option<tokio::time::Instant> = None;
        let mut known: Option<PlanEvent> = None;
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                _ = interrupt.recv() => return Ok(FollowOutcome::Interrupted),
                () = until(completed) => return Ok(FollowOutcome::Completed(watch.undecided())),
                item = entries.next() => {
                    if let Some((seq, Ok(entry))) = item.map(|item| (item.seq, item.entry)) {
                        watch.learn(seq, &entry);
                    }
                    continue;
                }
                _ = look.tick(), if completed.is_none() => {
                    let news = watch.look();
                    self.tell_others(context, &watch.others())?;
                    self.tell(context, &news)?;
                    self.progress.spent = watch.spent();
                    self.progress.wait_for(&watch.present);
                    self.line.draw(&self.progress, self.started.elapsed());
                    if news.gives_up && !wait {
                        return Ok(FollowOutcome::Stuck(Vec::new(), watch.present));
                    }
                    continue;
                }
            };
            let Some((_, Ok(event))) = event else { continue };
            let event = match event.onto(known.as_ref()) {
                Ok(event) => event,
                // One before it could not be read.
                Err(event) => onto_state(client, *event).await?,
            };
            known = Some(event.clone());
            let whys = event.changes.iter().map(|change| (change.node, change.why.clone()));
            self.whys.extend(whys);
            self.print(context, &event)?;
            self.progress.take(&event);
            self.line.draw(&self.progress, self.started.elapsed());
            if event.result.is_some() {
                self.result.clone_from(&event.result);
            }
            match event.goal {
                GoalStatus::Completed | GoalStatus::Archived if event.result.is_some() => {
                    catch_up(&mut watch, &mut entries, event.version).await;
                    return Ok(FollowOutcome::Completed(watch.undecided()));
                }
                GoalStatus::Completed | GoalStatus::Archived => {
                    completed = Some(tokio::time::Instant::now() + RESULT_WITHIN);
                }
                GoalStatus::Cancelled => return Ok(FollowOutcome::Cancelled),
                GoalStatus::Active | GoalStatus::Paused => {
                    // An earlier version says how it was, and a goal that was stuck may have gone on.
                    if event.version >= watch.version()
                        && let Some(list) = stuck(&event, &self.whys)
                        && !wait
                    {
                        catch_up(&mut watch, &mut entries, event.version).await;
                        watch.look();
                        return Ok(FollowOutcome::Stuck(list, watch.present));
                    }
                }
            }
        }
    }

    /// Says which other goals the same orchestrator works on meanwhile.
    fn tell_others(&self, context: &Context, others: &[(EpicId, String)]) -> CliResult {
        for (epic, title) in others {
            if output::is_for_programs(context.output) {
                let told = json!({"event": "also_open", "goal": epic.to_string(), "title": title});
                output::item(context.output, &told, "")?;
            } else if !self.quiet {
                let cancel = context.command(&format!("goal cancel {epic}"));
                self.line.say(&format!(
                    "also open in this project: {epic}  {}; cancel it with {cancel}",
                    visible(title)
                ));
            }
        }
        Ok(())
    }

    /// Says once what is in the way, with what helps, and once that it is there no more.
    fn tell(&self, context: &Context, news: &ObstacleChanges) -> CliResult {
        if output::is_for_programs(context.output) {
            for (event, all) in [("obstacle_gone", &news.gone), ("obstacle", &news.appeared)] {
                for obstacle in all {
                    let told = obstacles::value(context, obstacle);
                    output::item(context.output, &json!({"event": event, "obstacle": told}), "")?;
                }
            }
            return Ok(());
        }
        if self.quiet {
            return Ok(());
        }
        let at = self.started.elapsed().as_secs_f32();
        for obstacle in &news.gone {
            let kind = obstacles::kind(obstacle);
            self.line.say(&format!("{at:6.2}s  gone  {kind}: {}", obstacle.subject));
        }
        for obstacle in &news.appeared {
            let (kind, held) = (obstacles::kind(obstacle), obstacle.holds_up);
            let what = visible(&obstacle.what);
            self.line.say(&format!("{at:6.2}s  wait  {kind}, holds up {held}: {what}"));
            for command in obstacles::commands(context, obstacle) {
                self.line.say(&format!("               next: {command}"));
            }
        }
        Ok(())
    }

    fn print(&mut self, context: &Context, event: &PlanEvent) -> CliResult {
        for view in &event.nodes {
            self.titles.entry(view.id).or_insert_with(|| view.title.clone());
        }
        if output::is_for_programs(context.output) {
            return self.list(context, event);
        }
        if self.quiet {
            return Ok(());
        }
        let at = self.started.elapsed().as_secs_f32();
        if event.version == 1 {
            let nodes = event.nodes.iter().filter(|view| event.is_leaf(view.id)).count();
            self.line.say(&format!("{at:6.2}s  v1   {} ({nodes} pieces of work)", event.title));
        }
        for change in &event.changes {
            let title = self.titles.get(&change.node).map_or("", String::as_str);
            self.line.say(&format!(
                "{at:6.2}s  v{:<3} {:<7} {:<12} {title}: {}",
                event.version,
                change.node.to_string(),
                change.to.to_string(),
                change.why
            ));
        }
        Ok(())
    }

    /// Tells programs what moved.
    fn list(&self, context: &Context, event: &PlanEvent) -> CliResult {
        for change in &event.changes {
            let told = json!({
                "event": "node",
                "goal": event.epic.to_string(),
                "time": stamp(event.at),
                "version": event.version,
                "percent": event.percent,
                "node": change.node.to_string(),
                "title": self.titles.get(&change.node),
                "status": change.to.as_str(),
                "why": change.why,
            });
            output::item(context.output, &told, "")?;
        }
        Ok(())
    }
}

/// Reads the ledger until it has told a version of the plan. What is not known in time is left out.
async fn catch_up(
    watch: &mut ObstacleWatch,
    entries: &mut (impl Stream<Item = LedgerItem> + Unpin),
    version: u32,
) {
    let known = async {
        while watch.version() < version {
            let Some(item) = entries.next().await else { break };
            if let Ok(entry) = item.entry {
                watch.learn(item.seq, &entry);
            }
        }
    };
    let _late = tokio::time::timeout(KNOWN_WITHIN, known).await;
}

/// The plan as it is with an event that goes on from STATE.
async fn onto_state(client: &HumanClient, event: PlanEvent) -> CliResult<PlanEvent> {
    let found = read_epic(&client.bus, event.epic).await;
    let found = found.map_err(|error| CliError::new(Code::BusUnreachable, error.to_string()))?;
    let before = event.version.saturating_sub(1);
    let before = view::whole(&found, event.epic).map(|it| PlanEvent { version: before, ..it });
    Ok(event.onto(before.as_ref()).unwrap_or_else(|event| *event))
}

async fn until(moment: Option<tokio::time::Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// What is unsettled when nothing is ready or running (spec 05, Roll-up).
fn stuck(event: &PlanEvent, whys: &BTreeMap<NodeId, String>) -> Option<Vec<(NodeId, String)>> {
    let leaves: Vec<&NodeView> = event.nodes.iter().filter(|view| event.is_leaf(view.id)).collect();
    let moving = leaves
        .iter()
        .any(|view| matches!(view.status, NodeStatus::Queued | NodeStatus::InProgress));
    if moving {
        return None;
    }
    let unsettled = leaves.iter().filter(|view| !view.status.is_settled());
    let list: Vec<(NodeId, String)> = unsettled
        .map(|view| {
            let why = whys.get(&view.id).map(String::as_str).filter(|_| begun(view));
            let said = why.into_iter().chain(view.findings.iter().map(String::as_str));
            let said: Vec<&str> = said.collect();
            let line = format!("{} {} ({}) {}", view.id, view.title, view.status, said.join("; "));
            (view.id, visible(line.trim_end()))
        })
        .collect();
    (!list.is_empty()).then_some(list)
}

/// Whether something happened to a node that says why it does not go on.
fn begun(view: &NodeView) -> bool {
    match view.status {
        NodeStatus::Blocked | NodeStatus::Cancelled => true,
        NodeStatus::Todo | NodeStatus::Queued | NodeStatus::InProgress | NodeStatus::Done => false,
    }
}
