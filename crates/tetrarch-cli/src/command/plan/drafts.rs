//! `plan drafts`, `approve`, `refine`, `reject`: what was proposed for a plan, and what becomes of it.

use tetrarch_bus::state::Select;
use tetrarch_bus::subject::KeyKind;
use tetrarch_core::id::{DraftId, EpicId};
use tetrarch_core::ledger::Record;
use tetrarch_core::plan::proposal::{DraftStatus, DraftVerdict, Proposal};
use tetrarch_core::plan::schema::node_in_words;
use tetrarch_core::request::Op;
use tetrarch_core::request::planning::PlanOp;

use tetrarch_view::inbox::output_in_words;

use super::change::told;
use crate::output::{self, Cell, Sheet, TableRow, age, is_coloured, now, unmixed};
use crate::{CliError, CliResult, Code, Context, HumanClient, StateSnapshot};

/// Arguments of `plan drafts`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tetrarch plan drafts goal_01JD8Z5W6T4QK3M9X2V7B1N0AC
  tetrarch plan drafts goal_01JD8Z5W6T4QK3M9X2V7B1N0AC --closed -o json")]
pub(crate) struct DraftsArgs {
    /// The goal.
    epic: EpicId,
    /// Include decided drafts.
    #[arg(long)]
    closed: bool,
}

/// Arguments of `plan approve`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tetrarch plan approve drf_01JD8Z5W6T4QK3M9X2V7B1N0AC

Exit codes: 5 the plan has a conflicting change since; the draft stays open.")]
pub(crate) struct DraftApproveArgs {
    /// The draft's id, as shown by `tetrarch plan drafts`.
    draft: DraftId,
    /// A note for the author.
    #[arg(long, default_value = "", hide_default_value = true)]
    reason: String,
}

/// Arguments of `plan refine` and `plan reject`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tetrarch plan refine drf_01JD8Z5W6T4QK3M9X2V7B1N0AC --reason 'keep T1.2 as it is'
  tetrarch plan reject drf_01JD8Z5W6T4QK3M9X2V7B1N0AC --reason 'not this year'")]
pub(crate) struct DraftDecideArgs {
    /// The draft's id, as shown by `tetrarch plan drafts`.
    draft: DraftId,
    /// A note for the author.
    #[arg(long)]
    reason: String,
}

const COLUMNS: &str = "DRAFT|STATE|AGE|FROM|BASE|DEFINES|GIVES UP|REASON|+NOTES|+VERSION";

/// `plan drafts`.
///
/// # Errors
/// The bus cannot be read.
pub(super) async fn list(context: &Context, client: &HumanClient, args: &DraftsArgs) -> CliResult {
    let wanted = [Select::OfEpic(KeyKind::Draft, args.epic)];
    let snapshot = StateSnapshot::read(&client.bus, &wanted).await?;
    let drafts = snapshot.records.drafts.get(&args.epic).into_iter().flatten();
    let shown = |draft: &&Proposal| args.closed || draft.status == DraftStatus::Open;
    let mut drafts: Vec<&Proposal> = drafts.map(|(_, draft)| draft).filter(shown).collect();
    drafts.sort_by_key(|draft| (draft.status, draft.created, draft.id));
    let rows = drafts.iter().map(|draft| row(&snapshot, draft));
    let rows = rows.collect::<CliResult<Vec<TableRow>>>()?;
    let open = drafts.iter().filter(|draft| draft.status == DraftStatus::Open);
    let defined: String = open.map(|draft| sheet(draft)).collect();
    output::listing(
        context.output,
        COLUMNS,
        rows,
        "No drafts wait for a decision. Proposed changes of this plan are listed here; --closed includes decided drafts.",
    )?;
    if output::is_for_programs(context.output) || defined.is_empty() {
        return Ok(());
    }
    output::text(&format!("\n{}", defined.trim_end())).map(drop)
}

/// All that a draft defines, for whoever decides on it.
fn sheet(draft: &Proposal) -> String {
    let nodes = draft.edit.puts.iter().map(|node| {
        let mut sheet = Sheet::new(&format!("{} defines {}", draft.id, node.id), is_coloured());
        for (key, text) in node_in_words(node) {
            sheet.field(&key, unmixed(&text));
        }
        format!("{}\n", sheet.finish())
    });
    let mut all: String = nodes.collect();
    let output = output_in_words(&draft.edit.output);
    if !output.is_empty() {
        all.push_str(&format!("{}: the output {output}\n", draft.id));
    }
    all
}

fn row(snapshot: &StateSnapshot, draft: &Proposal) -> CliResult<TableRow> {
    let removes: Vec<String> = draft.edit.removes.iter().map(ToString::to_string).collect();
    Ok(TableRow {
        cells: vec![
            draft.id.to_string().into(),
            Cell::state(draft.status.as_str()),
            age(now(), draft.created).into(),
            draft.author.to_string().into(),
            draft.base_version.to_string().into(),
            draft.defines().into(),
            removes.join(" ").into(),
            draft.reason.as_str().into(),
            draft.notes.as_str().into(),
            Cell::some(draft.version),
        ],
        record: snapshot.json(&Record::Draft(Box::new(draft.clone())))?,
    })
}

/// `plan approve`.
///
/// # Errors
/// There is no such draft; the owner refuses, or does not answer.
pub(super) async fn approve(
    context: &Context,
    client: &HumanClient,
    args: DraftApproveArgs,
) -> CliResult {
    let DraftApproveArgs { draft, reason } = args;
    decide(context, client, DraftDecideArgs { draft, reason }, DraftVerdict::Approve).await
}

/// A human's verdict on a draft, from wherever it is said.
///
/// # Errors
/// There is no such draft; the owner refuses, or does not answer.
pub(crate) async fn verdict(
    context: &Context,
    client: &HumanClient,
    draft: DraftId,
    reason: String,
    verdict: DraftVerdict,
) -> CliResult {
    decide(context, client, DraftDecideArgs { draft, reason }, verdict).await
}

/// Decides on a draft, whichever epic it is of.
///
/// # Errors
/// There is no such draft; the owner refuses, or does not answer.
pub(super) async fn decide(
    context: &Context,
    client: &HumanClient,
    args: DraftDecideArgs,
    verdict: DraftVerdict,
) -> CliResult {
    let DraftDecideArgs { draft, reason } = args;
    let snapshot = StateSnapshot::read(&client.bus, &[Select::Kind(KeyKind::Draft)]).await?;
    let mut all = snapshot.0.records.drafts.into_iter();
    let Some((epic, _)) = all.find(|(_, drafts)| drafts.contains_key(&draft)) else {
        return Err(CliError::new(Code::NotFound, format!("draft {draft} was not found"))
            .hint("list the drafts of a goal with `tetrarch plan drafts <goal>`"));
    };
    let op = PlanOp::Decide { epic, draft, verdict, reason };
    let reply = client.operate(&Op::Plan(op)).await;
    told(context, reply, epic)
}
