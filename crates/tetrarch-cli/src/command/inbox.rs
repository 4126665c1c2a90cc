//! `inbox`: everything that waits for people (spec 08, IO): questions and escalations, changes before
//! their branches, proposed changes of plans, and what keeps work from starting. What holds up most
//! stands first.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tetrarch_bus::state::Select;
use tetrarch_bus::subject::KeyKind;
use tetrarch_core::change::{Change, ChangeStatus};
use tetrarch_core::id::Principal;
use tetrarch_core::ledger::Record;
use tetrarch_core::obstacle::{Obstacle, ObstacleKind, Subject};
use tetrarch_core::plan::proposal::{DraftStatus, Proposal};
use tetrarch_core::question::{Question, QuestionStatus};
use tetrarch_core::records::Records;
use tetrarch_core::time::BusTime;

use crate::context::Context;
use crate::exit::CliError;
use crate::obstacles;
use crate::output::{self, Cell, Column, Listing, TableRow, Tone, age, now};
use crate::snapshot::StateSnapshot;

/// Arguments of `inbox`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tetrarch inbox
  tetrarch inbox --everyone
  tetrarch inbox --closed -o json
  tetrarch answer qst_01JD8Z5W6T4QK3M9X2V7B1N0AC 'use the second one'
  tetrarch change show chg_01JD8Z5W6T4QK3M9X2V7B1N0AC
  tetrarch approve chg_01JD8Z5W6T4QK3M9X2V7B1N0AC --apply
  tetrarch deny drf_01JD8Z5W6T4QK3M9X2V7B1N0AC --reason 'not this year'")]
pub(crate) struct InboxArgs {
    /// Include what waits for other people.
    #[arg(long)]
    everyone: bool,
    /// Include what was decided, answered or withdrawn.
    #[arg(long)]
    closed: bool,
}

const COLUMNS: &[Column] = &[
    Column::always("ID"),
    Column::always("AGE"),
    Column::always("STATE"),
    Column::always("FROM"),
    Column::always("NODE"),
    Column::wide("FOR"),
    Column::always("HOLDS UP"),
    Column::always("OPTIONS"),
    Column::wide("ANSWER"),
    Column::always("ASKS"),
];

/// One thing that waits.
enum Item<'s> {
    Question(&'s Question),
    Change(&'s Change),
    Draft(&'s Proposal, &'s Principal),
    /// Something that nobody asks about and that needs somebody.
    Obstacle(&'s Obstacle),
}

/// Runs the command.
///
/// # Errors
/// The bus cannot be read.
pub(crate) async fn run(context: &Context, args: InboxArgs) -> Result<(), CliError> {
    let client = context.client().await?;
    let (mut snapshot, obstacles) = obstacles::look(&client, None).await?;
    snapshot.add(&client.bus, &[Select::Kind(KeyKind::Draft)]).await?;
    let mut items: Vec<Item<'_>> = items(&snapshot, &obstacles)
        .into_iter()
        .filter(|item| args.everyone || item.is_for(&client.human, &snapshot.records))
        .filter(|item| args.closed || item.is_open())
        .collect();
    // Obstacles come in the order of what they hold up; what is none holds up nothing.
    let place = |item: &Item<'_>| {
        let known = item.obstacle(&obstacles);
        known.map_or(usize::MAX, |of| obstacles.iter().take_while(|it| *it != of).count())
    };
    items.sort_by_key(|item| (!item.is_open(), place(item), item.since()));
    let rows = items.iter().map(|item| item.row(context, &snapshot, item.obstacle(&obstacles)));
    let rows = rows.collect::<Result<Vec<TableRow>, CliError>>()?;
    let next = next(&rows);
    output::listing(
        context.output,
        &Listing {
            columns: COLUMNS.to_vec(),
            rows,
            empty: "Nothing waits for you. Questions, changes and plan drafts are listed here; --everyone includes what waits for others.",
        },
    )?;
    if !output::is_for_programs(context.output) && !next.is_empty() {
        output::text(&format!("\nnext\n{}", output::align(&next, output::is_coloured())))?;
    }
    Ok(())
}

/// The commands of each item, below its id.
fn next(rows: &[TableRow]) -> Vec<Vec<Cell>> {
    let mut lines = Vec::new();
    for row in rows {
        let commands = row.record["commands"].as_array().into_iter().flatten();
        for (place, command) in commands.filter_map(|command| command.as_str()).enumerate() {
            let id = row.cells.first().filter(|_| place == 0).cloned().unwrap_or_default();
            lines.push(vec![id, command.into()]);
        }
    }
    lines
}

fn items<'s>(snapshot: &'s StateSnapshot, obstacles: &'s [Obstacle]) -> Vec<Item<'s>> {
    let records = &snapshot.records;
    let questions = records.questions.values().map(Item::Question);
    // What expired and is still to be merged is an obstacle.
    let is_obstacle = |change: &Change| {
        let subject = Subject::Change(change.id);
        change.status == ChangeStatus::Expired && obstacles.iter().any(|it| it.subject == subject)
    };
    let changes = records.changes.values().filter(|change| !is_obstacle(change)).map(Item::Change);
    let drafts = records.drafts.values().flat_map(BTreeMap::values).filter_map(|draft| {
        let goal = records.goals.get(&draft.epic)?;
        Some(Item::Draft(draft, &goal.owner))
    });
    let asked = |it: &&Obstacle| {
        !matches!(it.kind, ObstacleKind::QuestionOpen | ObstacleKind::ChangeWaiting)
    };
    let obstacles = obstacles.iter().filter(asked).map(Item::Obstacle);
    questions.chain(changes).chain(drafts).chain(obstacles).collect()
}

impl Item<'_> {
    /// Whose it is; none where it is everybody's.
    fn to<'r>(&'r self, records: &'r Records) -> Option<&'r Principal> {
        match self {
            Self::Question(question) => Some(&question.to),
            Self::Change(change) => Some(&change.to),
            Self::Draft(_, owner) => Some(owner),
            Self::Obstacle(obstacle) => {
                let epic = obstacle.nodes.first().map(|(epic, _)| epic)?;
                records.goals.get(epic).map(|goal| &goal.owner)
            }
        }
    }

    /// Whether it waits for this human: for them, or for any, since no agent decides on it.
    fn is_for(&self, human: &Principal, records: &Records) -> bool {
        let to = self.to(records);
        match self {
            Self::Question(_) => to == Some(human),
            // Others have to say yes as well, and once is enough of each.
            Self::Change(change)
                if change.needed > 1 && change.status != ChangeStatus::Approved =>
            {
                !change.given().any(|approval| approval.by == *human)
            }
            Self::Change(_) | Self::Draft(..) | Self::Obstacle(_) => {
                to.is_none_or(|to| to == human || to.agent().is_some())
            }
        }
    }

    fn is_open(&self) -> bool {
        match self {
            Self::Question(question) => question.status == QuestionStatus::Open,
            Self::Change(change) => !change.status.is_terminal(),
            Self::Draft(draft, _) => draft.status == DraftStatus::Open,
            Self::Obstacle(_) => true,
        }
    }

    fn since(&self) -> BusTime {
        match self {
            Self::Question(question) => question.asked,
            Self::Change(change) => change.proposed,
            Self::Draft(draft, _) => draft.created,
            Self::Obstacle(obstacle) => obstacle.since.unwrap_or(BusTime(u64::MAX)),
        }
    }

    /// The obstacle that it is, with what it holds up and what is to be done.
    fn obstacle<'o>(&self, obstacles: &'o [Obstacle]) -> Option<&'o Obstacle> {
        let subject = match self {
            Self::Question(question) => Subject::Question(question.id),
            Self::Change(change) => Subject::Change(change.id),
            Self::Draft(..) => return None,
            Self::Obstacle(it) => return obstacles.iter().find(|other| other == it),
        };
        obstacles.iter().find(|it| it.subject == subject)
    }

    fn row(
        &self,
        context: &Context,
        snapshot: &StateSnapshot,
        obstacle: Option<&Obstacle>,
    ) -> Result<TableRow, CliError> {
        let held = obstacle.map_or(0, |it| it.holds_up);
        let commands = match self {
            Self::Draft(draft, _) if self.is_open() => {
                vec![context.command(&format!("approve {}", draft.id))]
            }
            Self::Question(_) | Self::Change(_) | Self::Draft(..) | Self::Obstacle(_) => {
                obstacle.map(|it| obstacles::commands(context, it)).unwrap_or_default()
            }
        };
        let (kind, cells, mut record) = self.shown(context, snapshot)?;
        record["kind"] = json!(kind);
        record["holdsUp"] = json!(held);
        record["command"] = json!(commands.first());
        record["commands"] = json!(commands);
        let [id, state, from, node, options, answer, asks] = cells;
        let since = self.since();
        let age = if since == BusTime(u64::MAX) { String::new() } else { age(now(), since) };
        let to = Cell::some(self.to(&snapshot.records));
        let held = held.to_string().into();
        let cells = vec![id, age.into(), state, from, node, to, held, options, answer, asks];
        Ok(TableRow { cells, record })
    }

    /// Its kind, its cells that are its own, and its record.
    fn shown(
        &self,
        context: &Context,
        snapshot: &StateSnapshot,
    ) -> Result<(&'static str, [Cell; 7], Value), CliError> {
        Ok(match self {
            Self::Question(question) => (
                "question",
                [
                    question.id.to_string().into(),
                    Cell::state(question.status.as_str()),
                    question.agent.to_string().into(),
                    question.node.to_string().into(),
                    question.options.join(" | ").into(),
                    question.answer.as_str().into(),
                    question.text.as_str().into(),
                ],
                snapshot.json(&Record::Question(Box::new((*question).clone())))?,
            ),
            Self::Change(change) => (
                "change",
                [
                    change.id.to_string().into(),
                    Cell::state(change.status.as_str()),
                    change.agent.to_string().into(),
                    change.node.to_string().into(),
                    options(change.status).into(),
                    Cell::default(),
                    asks(change).into(),
                ],
                snapshot.json(&Record::Change(Box::new((*change).clone())))?,
            ),
            Self::Draft(draft, _) => (
                "draft",
                [
                    draft.id.to_string().into(),
                    Cell::state(draft.status.as_str()),
                    draft.author.to_string().into(),
                    Cell::default(),
                    "approve | deny".into(),
                    draft.notes.as_str().into(),
                    format!("plan {}: {}; defines {}", draft.epic, draft.reason, draft.defines())
                        .into(),
                ],
                snapshot.json(&Record::Draft(Box::new((*draft).clone())))?,
            ),
            Self::Obstacle(it) => (
                it.kind.as_str(),
                [
                    it.subject.to_string().into(),
                    Cell::from(obstacles::kind(it)).toned(Tone::Warn),
                    Cell::default(),
                    held_nodes(it).into(),
                    Cell::default(),
                    Cell::default(),
                    it.what.as_str().into(),
                ],
                obstacles::value(context, it),
            ),
        })
    }
}

/// Nodes of an obstacle that are listed.
const NODES_SHOWN: usize = 3;

/// The first nodes that an obstacle holds up, and how many more there are.
fn held_nodes(obstacle: &Obstacle) -> String {
    let shown = obstacle.nodes.iter().take(NODES_SHOWN).map(|(_, node)| node.to_string());
    let shown: Vec<String> = shown.collect();
    let more = obstacle.nodes.len().saturating_sub(NODES_SHOWN);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    shown.join(" ") + &more
}

/// What can be done about a change.
fn options(status: ChangeStatus) -> &'static str {
    match status {
        ChangeStatus::Proposed | ChangeStatus::Conflicted => "approve | deny",
        ChangeStatus::Approved => "apply | deny",
        ChangeStatus::Applying
        | ChangeStatus::Applied
        | ChangeStatus::Denied
        | ChangeStatus::Refused
        | ChangeStatus::Expired
        | ChangeStatus::Superseded => "",
    }
}

/// What a change will do, to what, until when.
fn asks(change: &Change) -> String {
    let action = &change.made.action;
    let files = action.files.len();
    let size = format!("{files} files +{} -{}", change.made.additions, change.made.deletions);
    let why = if change.reason.is_empty() { "" } else { ": " };
    let left = change.until - now();
    let given = change.people(|approval| approval.used.is_none());
    let of = if change.needed > 1 {
        format!(", {given} of {} approvals", change.needed)
    } else {
        String::new()
    };
    format!("merge {size} into {}, within {left}{of}{why}{}", action.target, change.reason)
}
