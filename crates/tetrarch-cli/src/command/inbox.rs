//! `inbox`: everything that waits for people (spec 08, IO): questions and escalations, changes before
//! their branches, proposed changes of plans. What holds up most stands first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use tetrarch_bus::state::Select;
use tetrarch_bus::subject::KeyKind;
use tetrarch_core::change::{Change, ChangeStatus};
use tetrarch_core::id::{EpicId, NodeId, Principal};
use tetrarch_core::ledger::{Record, RecordKey};
use tetrarch_core::plan::Node;
use tetrarch_core::plan::proposal::{DraftStatus, Proposal};
use tetrarch_core::question::{Question, QuestionStatus};
use tetrarch_core::time::BusTime;

use crate::context::Context;
use crate::exit::CliError;
use crate::output::{self, Cell, Column, Listing, Row, age, now};
use crate::snapshot::Snapshot;

/// What `inbox` is told.
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
    /// Also what others are asked.
    #[arg(long)]
    everyone: bool,
    /// Also what was decided, answered or withdrawn.
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
}

/// Runs the command.
///
/// # Errors
/// The bus cannot be read.
pub(crate) async fn run(context: &Context, args: InboxArgs) -> Result<(), CliError> {
    let desk = context.desk().await?;
    let kinds = [KeyKind::Question, KeyKind::Change, KeyKind::Draft].map(Select::Kind);
    let mut snapshot = Snapshot::read(&desk.bus, &kinds).await?;
    // Epics of drafts are needed for whose they are, the others' for what hangs on them.
    let records = &snapshot.records;
    let asked = records.questions.values().filter(|it| it.status == QuestionStatus::Open);
    let waiting = records.waiting_changes().map(|change| change.epic);
    let epics: BTreeSet<EpicId> = asked.map(|question| question.epic).chain(waiting).collect();
    let mut wanted: Vec<Select> =
        records.drafts.keys().map(|epic| Select::One(RecordKey::Goal(*epic))).collect();
    wanted.extend(epics.iter().map(|epic| Select::OfEpic(KeyKind::Node, *epic)));
    if !wanted.is_empty() {
        snapshot.add(&desk.bus, &wanted).await?;
    }
    let mut items: Vec<Item<'_>> = items(&snapshot)
        .into_iter()
        .filter(|item| args.everyone || item.is_for(&desk.human))
        .filter(|item| args.closed || item.is_open())
        .collect();
    let nodes = &snapshot.records.nodes;
    items.sort_by_key(|item| (!item.is_open(), Reverse(item.holds_up(nodes)), item.since()));
    let rows = items.iter().map(|item| item.row(&snapshot));
    let rows = rows.collect::<Result<Vec<Row>, CliError>>()?;
    output::listing(
        context.output,
        &Listing {
            columns: COLUMNS.to_vec(),
            rows,
            empty: "Nothing waits for you. Questions, changes to approve and proposed plans are listed here; --everyone shows what others are asked.",
        },
    )?;
    Ok(())
}

fn items(snapshot: &Snapshot) -> Vec<Item<'_>> {
    let records = &snapshot.records;
    let questions = records.questions.values().map(Item::Question);
    let changes = records.changes.values().map(Item::Change);
    let drafts = records.drafts.values().flat_map(BTreeMap::values).filter_map(|draft| {
        let goal = records.goals.get(&draft.epic)?;
        Some(Item::Draft(draft, &goal.owner))
    });
    questions.chain(changes).chain(drafts).collect()
}

type Nodes = BTreeMap<EpicId, BTreeMap<NodeId, Node>>;

/// Nodes that wait for one, directly or through others, and itself.
fn dependents(nodes: &Nodes, epic: EpicId, node: NodeId) -> usize {
    let Some(all) = nodes.get(&epic) else { return 1 };
    let (mut held, mut open) = (BTreeSet::from([node]), vec![node]);
    while let Some(on) = open.pop() {
        for next in all.values().filter(|next| next.depends_on.contains(&on)) {
            if held.insert(next.id) {
                open.push(next.id);
            }
        }
    }
    held.len()
}

impl Item<'_> {
    fn to(&self) -> &Principal {
        match self {
            Self::Question(question) => &question.to,
            Self::Change(change) => &change.to,
            Self::Draft(_, owner) => owner,
        }
    }

    /// Whether it waits for this human: for them, or for any, since no agent decides on it.
    fn is_for(&self, human: &Principal) -> bool {
        match self {
            Self::Question(question) => question.to == *human,
            Self::Change(_) | Self::Draft(..) => self.to() == human || self.to().agent().is_some(),
        }
    }

    fn is_open(&self) -> bool {
        match self {
            Self::Question(question) => question.status == QuestionStatus::Open,
            Self::Change(change) => !change.status.is_terminal(),
            Self::Draft(draft, _) => draft.status == DraftStatus::Open,
        }
    }

    fn since(&self) -> BusTime {
        match self {
            Self::Question(question) => question.asked,
            Self::Change(change) => change.proposed,
            Self::Draft(draft, _) => draft.created,
        }
    }

    /// Nodes that do not go on before it is decided: of a question its own and those behind it, of a
    /// change those behind it.
    fn holds_up(&self, nodes: &Nodes) -> usize {
        match self {
            Self::Question(question) => dependents(nodes, question.epic, question.node),
            Self::Change(change) => dependents(nodes, change.epic, change.node) - 1,
            Self::Draft(..) => 0,
        }
    }

    fn row(&self, snapshot: &Snapshot) -> Result<Row, CliError> {
        let held = if self.is_open() { self.holds_up(&snapshot.records.nodes) } else { 0 };
        let (kind, cells, record) = match self {
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
                Record::Question(Box::new((*question).clone())),
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
                Record::Change(Box::new((*change).clone())),
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
                    format!("plan {}: {}", draft.epic, draft.reason).into(),
                ],
                Record::Draft(Box::new((*draft).clone())),
            ),
        };
        let mut record = snapshot.json(&record)?;
        record["kind"] = json!(kind);
        record["holdsUp"] = json!(held);
        let [id, state, from, node, options, answer, asks] = cells;
        let age = age(now(), self.since()).into();
        let (to, held) = (self.to().to_string().into(), held.to_string().into());
        Ok(Row { cells: vec![id, age, state, from, node, to, held, options, answer, asks], record })
    }
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
    format!("merge {size} into {}, within {left}{why}{}", action.target, change.reason)
}
