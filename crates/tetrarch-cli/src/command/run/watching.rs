//! What is in the way of a goal that is followed: the records that say it, kept up to date from the
//! ledger, and what of it was said already.

use std::time::Duration;

use tetrarch_core::budget::Spend;
use tetrarch_core::id::{AgentId, EpicId};
use tetrarch_core::ledger::Entry;
use tetrarch_core::obstacle::{Obstacle, ObstacleKind, Telemetry, of_epic, standstill};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::history;
use crate::obstacles;
use crate::{CliResult, HumanClient, StateSnapshot};

/// How often it is looked for.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(400);
/// The obstacles of one goal.
#[derive(Debug)]
pub(super) struct ObstacleWatch {
    epic: EpicId,
    snapshot: StateSnapshot,
    telemetry: watch::Receiver<Telemetry>,
    /// Those that are there.
    pub(super) present: Vec<Obstacle>,
    /// Since when nothing goes on.
    standing: Option<Instant>,
    /// Whether the project's other goals were told.
    told_others: bool,
    /// What the project had spent when the goal was first looked at.
    before: Spend,
}

/// What changed between two looks.
#[derive(Debug, Default)]
pub(super) struct ObstacleChanges {
    /// What was not there before.
    pub(super) appeared: Vec<Obstacle>,
    /// What is there no more.
    pub(super) gone: Vec<Obstacle>,
    /// Nothing goes on, and it was borne for long enough.
    pub(super) gives_up: bool,
}

/// Whether two looks found the same thing.
fn is_same(one: &Obstacle, other: &Obstacle) -> bool {
    (one.kind, &one.subject, &one.what) == (other.kind, &other.subject, &other.what)
}

impl ObstacleWatch {
    /// Reads the records of a goal; gives the ledger's sequence from which on they are to be followed.
    ///
    /// # Errors
    /// The bus is away, or does not let this credential read.
    pub(super) async fn open(client: &HumanClient, epic: EpicId) -> CliResult<(Self, u64)> {
        let bus = &client.bus;
        // Read before the records: what is newer than this is in the ledger from there on.
        let from = history::next_entry(bus).await?;
        let snapshot = obstacles::read(bus, Some(epic)).await?;
        let telemetry = follow_telemetry(client.clone());
        let (present, standing, before) = (Vec::new(), None, Spend::default());
        let told_others = false;
        let mut watch = Self { epic, snapshot, telemetry, present, standing, told_others, before };
        watch.before = watch.spent();
        Ok((watch, from))
    }

    /// Folds an entry of the ledger in.
    pub(super) fn learn(&mut self, seq: u64, entry: &Entry) {
        self.snapshot.apply(seq, entry);
    }

    /// The version of the plan that is known.
    pub(super) fn version(&self) -> u32 {
        self.snapshot.records.plans.get(&self.epic).map_or(0, |plan| plan.version)
    }

    /// What the project has spent since it is watched, as far as it is known.
    pub(super) fn spent(&self) -> Spend {
        let records = &self.snapshot.records;
        let project = records.goals.get(&self.epic).map(|goal| AgentId::Po(goal.project.clone()));
        let account = project.and_then(|id| records.agents.get(&id)).map(|agent| agent.account);
        account.map_or_else(Spend::default, |account| account.spent.minus(self.before))
    }

    /// Other goals of the same project that are worked on, with their titles: once, as soon as the goal is known.
    pub(super) fn others(&mut self) -> Vec<(EpicId, String)> {
        let records = &self.snapshot.records;
        let Some(own) = records.goals.get(&self.epic) else { return Vec::new() };
        if std::mem::replace(&mut self.told_others, true) {
            return Vec::new();
        }
        let open = records.goal_states.values().filter(|state| !state.status.is_closed());
        let goals = open.filter_map(|state| records.goals.get(&state.id));
        goals
            .filter(|goal| goal.id != own.id && goal.project == own.project)
            .map(|goal| (goal.id, goal.spec.title.clone()))
            .collect()
    }

    /// What is left to decide of a goal that is reached: changes that nobody merged.
    pub(super) fn undecided(mut self) -> Vec<Obstacle> {
        self.look();
        let changes = [ObstacleKind::ChangeWaiting, ObstacleKind::ChangeExpired];
        self.present.retain(|it| changes.contains(&it.kind));
        self.present
    }

    /// Looks again.
    pub(super) fn look(&mut self) -> ObstacleChanges {
        let records = &self.snapshot.records;
        let found = of_epic(records, &self.telemetry.borrow(), self.epic);
        let lacks = |all: &[Obstacle], it: &Obstacle| !all.iter().any(|other| is_same(it, other));
        let new = found.iter().filter(|it| lacks(&self.present, it));
        let gone = self.present.iter().filter(|it| lacks(&found, it));
        let (appeared, gone) = (new.cloned().collect(), gone.cloned().collect());
        let borne = standstill(records, &found, self.epic);
        let since = *self.standing.get_or_insert_with(Instant::now);
        let gives_up = borne.is_some_and(|borne| since.elapsed() >= Duration::from_millis(borne.0));
        self.standing = borne.map(|_| since);
        self.present = found;
        ObstacleChanges { appeared, gone, gives_up }
    }
}

/// What the records do not say, as it is told now and then beside everything else.
fn follow_telemetry(client: HumanClient) -> watch::Receiver<Telemetry> {
    let (tell, telemetry) = watch::channel(Telemetry { owner: true, halted: None });
    tokio::spawn(async move {
        while !tell.is_closed() {
            // While the bus is away, what was known is as good as anything.
            if let Ok(now) = obstacles::telemetry(&client).await {
                tell.send_replace(now);
            }
            tokio::select! {
                () = tell.closed() => return,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    });
    telemetry
}
