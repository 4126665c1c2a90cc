//! Following an epic to its end: one line for every move, from its plan events.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::{Duration, Instant};

use futures::StreamExt;
use tetrarch_bus::Bus;
use tetrarch_bus::watch::{From, plan_events};
use tetrarch_core::goal::{GoalResult, GoalStatus};
use tetrarch_core::id::{EpicId, NodeId};
use tetrarch_core::plan::{NodeStatus, NodeView, PlanEvent};
use tokio::signal::unix::{SignalKind, signal};

use crate::exit::CliError;

/// How long a reached goal waits for its orchestrator to put the result together.
const RESULT_WITHIN: Duration = Duration::from_secs(20);

/// How following ended.
#[derive(Debug)]
pub(super) enum Ending {
    /// The goal is reached.
    Completed,
    /// The goal is given up.
    Cancelled,
    /// Nothing can go on by itself; what is unsettled.
    Stuck(Vec<String>),
    /// Ctrl-C.
    Interrupted,
}

/// Follows one epic.
#[derive(Debug)]
pub(super) struct Follower {
    quiet: bool,
    started: Instant,
    titles: BTreeMap<NodeId, String>,
    /// Why each node is where it is.
    whys: BTreeMap<NodeId, String>,
    result: Option<GoalResult>,
}

impl Follower {
    /// A follower that counts time from `started`.
    pub(super) fn new(quiet: bool, started: Instant) -> Self {
        let (titles, whys) = (BTreeMap::new(), BTreeMap::new());
        Self { quiet, started, titles, whys, result: None }
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
        bus: &Bus,
        epic: EpicId,
        wait: bool,
    ) -> Result<Ending, CliError> {
        let events = plan_events(bus, Some(epic), From::Start).await?;
        let mut events = std::pin::pin!(events);
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut completed: Option<tokio::time::Instant> = None;
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                _ = interrupt.recv() => return Ok(Ending::Interrupted),
                () = until(completed) => return Ok(Ending::Completed),
            };
            let Some((_, Ok(event))) = event else { continue };
            let whys = event.changes.iter().map(|change| (change.node, change.why.clone()));
            self.whys.extend(whys);
            self.print(&event);
            if event.result.is_some() {
                self.result.clone_from(&event.result);
            }
            match event.goal {
                GoalStatus::Completed | GoalStatus::Archived if event.result.is_some() => {
                    return Ok(Ending::Completed);
                }
                GoalStatus::Completed | GoalStatus::Archived => {
                    completed = Some(tokio::time::Instant::now() + RESULT_WITHIN);
                }
                GoalStatus::Cancelled => return Ok(Ending::Cancelled),
                GoalStatus::Active | GoalStatus::Paused => {
                    if let Some(list) = stuck(&event, &self.whys)
                        && !wait
                    {
                        return Ok(Ending::Stuck(list));
                    }
                }
            }
        }
    }

    fn print(&mut self, event: &PlanEvent) {
        for view in &event.nodes {
            self.titles.entry(view.id).or_insert_with(|| view.title.clone());
        }
        if self.quiet {
            return;
        }
        let at = self.started.elapsed().as_secs_f32();
        let mut out = std::io::stderr().lock();
        // Whoever does not listen any more still gets the exit code.
        if event.version == 1 {
            let nodes = event.nodes.iter().filter(|view| event.is_leaf(view.id)).count();
            let _unheard =
                writeln!(out, "{at:6.2}s  v1   {} ({nodes} pieces of work)", event.title);
        }
        for change in &event.changes {
            let title = self.titles.get(&change.node).map_or("", String::as_str);
            let _unheard = writeln!(
                out,
                "{at:6.2}s  v{:<3} {:<7} {:<12} {title}: {}",
                event.version,
                change.node.to_string(),
                change.to.to_string(),
                change.why
            );
        }
    }
}

async fn until(moment: Option<tokio::time::Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// What is unsettled when nothing is ready or running (spec 05, Roll-up).
fn stuck(event: &PlanEvent, whys: &BTreeMap<NodeId, String>) -> Option<Vec<String>> {
    let leaves: Vec<&NodeView> = event.nodes.iter().filter(|view| event.is_leaf(view.id)).collect();
    let moving = leaves
        .iter()
        .any(|view| matches!(view.status, NodeStatus::Queued | NodeStatus::InProgress));
    if moving {
        return None;
    }
    let unsettled = leaves.iter().filter(|view| !view.status.is_settled());
    let list: Vec<String> = unsettled
        .map(|view| {
            let why = whys.get(&view.id).map(String::as_str).filter(|_| begun(view));
            let said = why.into_iter().chain(view.findings.iter().map(String::as_str));
            let said: Vec<&str> = said.collect();
            let line =
                format!("  {} {} ({}) {}", view.id, view.title, view.status, said.join("; "));
            line.trim_end().to_owned()
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
