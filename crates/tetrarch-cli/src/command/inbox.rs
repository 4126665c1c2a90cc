//! `inbox`: everything that waits for people (spec 08, IO): questions and escalations, conversations that
//! ask, changes before their branches, proposed changes of plans, and what keeps work from starting. What holds up most
//! stands first.

use std::time::Duration;

use futures::StreamExt;
use serde_json::{Value, json};
use tetrarch_bus::state::Select;
use tetrarch_bus::subject::KeyKind;
use tetrarch_core::change::ChangeStatus;
use tetrarch_core::id::{AgentId, Principal};
use tetrarch_core::ledger::Record;
use tetrarch_core::obstacle::Obstacle;
use tetrarch_core::time::BusTime;
use tetrarch_view::inbox::{
    InboxItem, InboxScope, change_in_words, draft_in_words, inbox, turn_answer,
};

use crate::command::describe::journal::beginning;
use crate::history;
use crate::obstacles;
use crate::options::OutputFormat;
use crate::output::{self, Cell, StdoutReader, TableRow, Tone, age, now, unmixed};
use crate::{CliResult, Context, HumanClient, StateSnapshot};

/// Arguments of `inbox`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tetrarch inbox
  tetrarch inbox --everyone
  tetrarch inbox --watch
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
    /// Show the list again whenever it changes, until interrupted.
    #[arg(short, long)]
    watch: bool,
}

/// At least between two looks, and at most.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_secs(10);
const EMPTY: &str = "Nothing waits for you. Questions, changes and plan drafts are listed here; --everyone includes what waits for others.";
const COLUMNS: &str = "ID|AGE|STATE|FROM|NODE|+FOR|HOLDS UP|OPTIONS|+ANSWER|ASKS";
/// Bytes of an option that the list shows.
const OPTION_SHOWN: usize = 40;

/// Runs the command.
///
/// # Errors
/// The bus cannot be read.
pub(crate) async fn run(context: &Context, args: InboxArgs) -> CliResult {
    let client = context.client().await?;
    if args.watch {
        return watch(context, &client, &args).await;
    }
    let rows = look(context, &client, &args).await?;
    let next = next(&rows);
    output::listing(context.output, COLUMNS, rows, EMPTY)?;
    if !output::is_for_programs(context.output) && !next.is_empty() {
        output::text(&next_lines(&next))?;
    }
    Ok(())
}

/// What waits now.
async fn look(
    context: &Context,
    client: &HumanClient,
    args: &InboxArgs,
) -> CliResult<Vec<TableRow>> {
    let (mut snapshot, obstacles) = obstacles::look(client, None).await?;
    let InboxArgs { everyone, closed, .. } = *args;
    let turns = match &client.human {
        Principal::Human(human) if !everyone => Select::TurnsOf(human.clone()),
        Principal::Human(_) | Principal::Agent(_) => Select::Kind(KeyKind::Turn),
    };
    snapshot.add(&client.bus, &[Select::Kind(KeyKind::Draft), turns]).await?;
    let scope = InboxScope { human: &client.human, everyone, closed };
    let items = inbox(&snapshot.records, &obstacles, scope);
    let rows = items.iter().map(|item| row(item, context, &snapshot, item.obstacle(&obstacles)));
    rows.collect()
}

/// Shows what waits, and shows it again when something of it changes. What keeps work from starting also follows from the
/// time, so it is looked at now and then without news.
async fn watch(context: &Context, client: &HumanClient, args: &InboxArgs) -> CliResult {
    let from = history::next_entry(&client.bus).await?;
    let mut entries = std::pin::pin!(history::entries(&client.bus, from));
    let mut shown: Option<Vec<Value>> = None;
    loop {
        let rows = look(context, client, args).await?;
        let records: Vec<Value> = rows.iter().map(|row| row.record.clone()).collect();
        if shown.as_ref() != Some(&records) {
            let table = if rows.is_empty() {
                EMPTY.to_owned()
            } else {
                let wide = context.output == OutputFormat::Wide;
                output::table(COLUMNS, &rows, wide, output::is_coloured())
            };
            let lines = format!("{table}{}", next_lines(&next(&rows)));
            let value = Value::Array(records.clone());
            if output::screen(context.output, &value, &lines)? == StdoutReader::Gone {
                return Ok(());
            }
            shown = Some(records);
        }
        tokio::time::sleep(AGAIN_AFTER).await;
        // Without news it is time to look all the same.
        let _news = tokio::time::timeout(LOOK_EVERY, entries.next()).await;
    }
}

fn next_lines(next: &[Vec<Cell>]) -> String {
    if next.is_empty() {
        return String::new();
    }
    format!("\nnext\n{}", output::align(next, output::is_coloured()))
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

fn row(
    item: &InboxItem<'_>,
    context: &Context,
    snapshot: &StateSnapshot,
    obstacle: Option<&Obstacle>,
) -> CliResult<TableRow> {
    let held = obstacle.map_or(0, |it| it.holds_up);
    let commands = match item {
        InboxItem::Draft(draft, _) if item.is_open() => {
            vec![context.command(&format!("approve {}", draft.id))]
        }
        InboxItem::Turn(turn) => vec![context.command(&turn_answer(turn))],
        InboxItem::Question(_)
        | InboxItem::Change(_)
        | InboxItem::Draft(..)
        | InboxItem::Obstacle(_) => {
            obstacle.map(|it| obstacles::commands(context, it)).unwrap_or_default()
        }
    };
    let (kind, cells, mut record) = shown(item, context, snapshot)?;
    record["kind"] = json!(kind);
    record["holdsUp"] = json!(held);
    record["command"] = json!(commands.first());
    record["commands"] = json!(commands);
    let [id, state, from, node, options, answer, asks] = cells;
    let since = item.since();
    let age = if since == BusTime(u64::MAX) { String::new() } else { age(now(), since) };
    let to = Cell::some(item.to(&snapshot.records));
    let held = held.to_string().into();
    let cells = vec![id, age.into(), state, from, node, to, held, options, answer, asks];
    Ok(TableRow { cells, record })
}

/// Answers to choose from, of long ones the beginning; the record has them whole.
fn in_short(options: &[String]) -> String {
    let shown = options.iter().map(|option| beginning(option, OPTION_SHOWN));
    shown.collect::<Vec<_>>().join(" | ")
}

/// Its kind, its cells that are its own, and its record.
fn shown(
    item: &InboxItem<'_>,
    context: &Context,
    snapshot: &StateSnapshot,
) -> CliResult<(&'static str, [Cell; 7], Value)> {
    Ok(match item {
        InboxItem::Question(question) => (
            "question",
            [
                question.id.to_string().into(),
                Cell::state(question.status.as_str()),
                question.agent.to_string().into(),
                question.node.to_string().into(),
                unmixed(&in_short(&question.options)).into(),
                question.answer.as_str().into(),
                unmixed(&question.text).into(),
            ],
            snapshot.json(&Record::Question(Box::new((*question).clone())))?,
        ),
        InboxItem::Turn(turn) => (
            "conversation",
            [
                turn.id.conversation.to_string().into(),
                Cell::state(turn.status.as_str()),
                AgentId::Io(turn.id.human.clone()).to_string().into(),
                Cell::default(),
                Cell::default(),
                Cell::default(),
                turn.answer.as_str().into(),
            ],
            snapshot.json(&Record::Turn(Box::new((*turn).clone())))?,
        ),
        InboxItem::Change(change) => (
            "change",
            [
                change.id.to_string().into(),
                Cell::state(change.status.as_str()),
                change.agent.to_string().into(),
                change.node.to_string().into(),
                options(change.status).into(),
                Cell::default(),
                unmixed(&change_in_words(change, now())).into(),
            ],
            snapshot.json(&Record::Change(Box::new((*change).clone())))?,
        ),
        InboxItem::Draft(draft, _) => (
            "draft",
            [
                draft.id.to_string().into(),
                Cell::state(draft.status.as_str()),
                draft.author.to_string().into(),
                Cell::default(),
                "approve | deny".into(),
                draft.notes.as_str().into(),
                unmixed(&draft_in_words(draft)).into(),
            ],
            snapshot.json(&Record::Draft(Box::new((*draft).clone())))?,
        ),
        InboxItem::Obstacle(it) => (
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_option_is_listed_by_its_beginning() {
        let options = ["Red".to_owned(), "ä".repeat(OPTION_SHOWN / 2), "x".repeat(300)];
        let (whole, cut) = ("ä".repeat(OPTION_SHOWN / 2), "x".repeat(OPTION_SHOWN));
        assert_eq!(in_short(&options), format!("Red | {whole} | {cut}…"));
    }
}
