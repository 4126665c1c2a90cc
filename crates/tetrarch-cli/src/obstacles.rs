//! What keeps work from starting, for every view that tells it: what is read for it, and how it looks.
//! What it is, is core's to say.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tetrarch_bus::Bus;
use tetrarch_bus::lease::{Lease, LeaseKey};
use tetrarch_bus::server::{self, FreeSpace};
use tetrarch_bus::state::Select;
use tetrarch_bus::subject::KeyKind;
use tetrarch_core::goal::GoalStatus;
use tetrarch_core::id::EpicId;
use tetrarch_core::ledger::RecordKey;
use tetrarch_core::obstacle::{Obstacle, Telemetry, of_epic, of_fleet};
use tetrarch_core::plan::NodeStatus;
use tetrarch_core::records::Records;
use tetrarch_core::time::BusTime;

use crate::options::quoted;
use crate::output::{Cell, Tone, age, stamp};
use crate::{CliResult, Context, HumanClient, StateSnapshot};

/// The records of one goal and of those who work on it; of all goals without one.
///
/// # Errors
/// The bus is away, or does not let this credential read STATE.
pub(crate) async fn read(bus: &Bus, epic: Option<EpicId>) -> CliResult<StateSnapshot> {
    let kinds = [
        KeyKind::Agent,
        KeyKind::Host,
        KeyKind::Project,
        KeyKind::Profile,
        KeyKind::Goal,
        KeyKind::GoalState,
        KeyKind::Question,
        KeyKind::Change,
    ];
    let mut snapshot = StateSnapshot::read(bus, &kinds.map(Select::Kind)).await?;
    let epics = epic.map_or_else(|| with_work(&snapshot.records), |epic| BTreeSet::from([epic]));
    let nodes = epics.iter().flat_map(|epic| {
        [KeyKind::Node, KeyKind::NodeState].map(|kind| Select::OfEpic(kind, *epic))
    });
    let plans = epics.iter().map(|epic| Select::One(RecordKey::Plan(*epic)));
    add(bus, &mut snapshot, nodes.chain(plans).collect()).await?;
    let states = snapshot.records.node_states.values().flatten().map(|(_, state)| state);
    let blocked = states.filter(|state| state.status == NodeStatus::Blocked);
    // Their last runs are where one looks for the reason.
    let latest =
        blocked.filter_map(|state| Some(Select::One(RecordKey::Assignment(state.latest?))));
    let latest = latest.collect();
    add(bus, &mut snapshot, latest).await?;
    Ok(snapshot)
}

async fn add(bus: &Bus, snapshot: &mut StateSnapshot, wanted: Vec<Select>) -> CliResult {
    if wanted.is_empty() { Ok(()) } else { snapshot.add(bus, &wanted).await }
}

/// Goals that are worked on, or of which something is still to be decided.
fn with_work(records: &Records) -> BTreeSet<EpicId> {
    let open = records.goal_states.values().filter(|state| !state.status.is_closed());
    let archived = |epic: &EpicId| {
        let state = records.goal_states.get(epic);
        state.is_some_and(|state| state.status == GoalStatus::Archived)
    };
    let changed = records.changes.values().map(|change| change.epic);
    open.map(|state| state.id).chain(changed.filter(|epic| !archived(epic))).collect()
}

/// What the records do not say: whether there is an owner, and whether it takes work.
///
/// # Errors
/// The bus is away.
pub(crate) async fn telemetry(client: &HumanClient) -> CliResult<Telemetry> {
    let lease = Lease::look(&client.bus, &LeaseKey::Go).await?;
    let low = client.data_dir.as_deref().and_then(server::free_space).filter(FreeSpace::is_low);
    Ok(Telemetry {
        owner: lease.is_some_and(|seen| seen.holder.is_some()),
        halted: low.map(|free_space| format!("no work is accepted, {free_space}")),
    })
}

/// The obstacles of one goal, or of all, with the records they were found in.
///
/// # Errors
/// The bus is away, or does not let this credential read.
pub(crate) async fn look(
    client: &HumanClient,
    epic: Option<EpicId>,
) -> CliResult<(StateSnapshot, Vec<Obstacle>)> {
    let (snapshot, telemetry) = tokio::join!(read(&client.bus, epic), telemetry(client));
    let (snapshot, telemetry) = (snapshot?, telemetry?);
    let found = match epic {
        Some(epic) => of_epic(&snapshot.records, &telemetry, epic),
        None => of_fleet(&snapshot.records, &telemetry),
    };
    Ok((snapshot, found))
}

/// What helps, as whole command lines.
pub(crate) fn commands(context: &Context, obstacle: &Obstacle) -> Vec<String> {
    let line = |words: Vec<String>| {
        let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        context.command(&words.join(" "))
    };
    obstacle.remedies.iter().map(|remedy| line(remedy.words())).collect()
}

/// An obstacle for programs.
pub(crate) fn value(context: &Context, obstacle: &Obstacle) -> Value {
    let commands = commands(context, obstacle);
    json!({
        "kind": obstacle.kind.as_str(),
        "subject": obstacle.subject.to_string(),
        "since": obstacle.since.map(stamp),
        "what": obstacle.what,
        "holdsUp": obstacle.holds_up,
        "command": commands.first(),
        "commands": commands,
    })
}

/// Its kind for people.
pub(crate) fn kind(obstacle: &Obstacle) -> String {
    obstacle.kind.as_str().replace('_', " ")
}

/// Obstacles as rows of a sheet: each one, and below it what it is and the commands that help.
pub(crate) fn rows(
    context: &Context,
    obstacles: &[Obstacle],
    now: BusTime,
) -> Vec<(Vec<Cell>, Vec<String>)> {
    let row = |obstacle: &Obstacle| {
        let cells = vec![
            Cell::from(kind(obstacle)).toned(Tone::Warn),
            obstacle.subject.to_string().into(),
            Cell::some(obstacle.since.map(|since| age(now, since))),
            format!("holds up {}", obstacle.holds_up).into(),
        ];
        let helps = commands(context, obstacle).into_iter();
        let helps = helps.map(|command| format!("next: {command}"));
        (cells, std::iter::once(obstacle.what.clone()).chain(helps).collect())
    };
    obstacles.iter().map(row).collect()
}
