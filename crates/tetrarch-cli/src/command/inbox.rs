//! `inbox`: what people are asked (spec 08, IO): questions that agents wait for an answer to, those
//! that have waited longest first.

use tetrarch_bus::state::Select;
use tetrarch_bus::subject::KeyKind;
use tetrarch_core::ledger::Record;
use tetrarch_core::question::{Question, QuestionStatus};

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
  tetrarch answer qst_01JD8Z5W6T4QK3M9X2V7B1N0AC 'use the second one'")]
pub(crate) struct InboxArgs {
    /// Also what others are asked.
    #[arg(long)]
    everyone: bool,
    /// Also what was answered or withdrawn.
    #[arg(long)]
    closed: bool,
}

const COLUMNS: &[Column] = &[
    Column::always("QUESTION"),
    Column::always("AGE"),
    Column::always("STATE"),
    Column::always("FROM"),
    Column::always("NODE"),
    Column::wide("FOR"),
    Column::always("OPTIONS"),
    Column::wide("ANSWER"),
    Column::always("ASKS"),
];

/// Runs the command.
///
/// # Errors
/// The bus cannot be read.
pub(crate) async fn run(context: &Context, args: InboxArgs) -> Result<(), CliError> {
    let desk = context.desk().await?;
    let snapshot = Snapshot::read(&desk.bus, &[Select::Kind(KeyKind::Question)]).await?;
    let wanted = |question: &&Question| {
        (args.everyone || question.to == desk.human)
            && (args.closed || question.status == QuestionStatus::Open)
    };
    let mut questions: Vec<&Question> =
        snapshot.records.questions.values().filter(wanted).collect();
    questions.sort_by_key(|question| (question.status, question.asked, question.id));
    let rows = questions.into_iter().map(|question| row(&snapshot, question));
    let rows = rows.collect::<Result<Vec<Row>, CliError>>()?;
    output::listing(context.output, &Listing { columns: COLUMNS.to_vec(), rows })?;
    Ok(())
}

fn row(snapshot: &Snapshot, question: &Question) -> Result<Row, CliError> {
    Ok(Row {
        cells: vec![
            question.id.to_string().into(),
            age(now(), question.asked).into(),
            Cell::state(question.status.as_str()),
            question.agent.to_string().into(),
            question.node.to_string().into(),
            question.to.to_string().into(),
            question.options.join(" | ").into(),
            question.answer.as_str().into(),
            question.text.as_str().into(),
        ],
        record: snapshot.json(&Record::Question(Box::new(question.clone())))?,
    })
}
