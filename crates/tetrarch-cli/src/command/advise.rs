//! `advise`: which pending work of a goal to take first, and what that rests on (spec 05, Insights). The
//! owner scores it.

use serde_json::Value;
use tetrarch_core::id::EpicId;
use tetrarch_core::request::Op;
use tetrarch_core::request::work::{WorkOp, WorkVerb};

use crate::output::{self, Cell, TableRow};
use crate::{CliError, CliResult, Code, Context};

/// Arguments of `advise`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The score is 0.30 PATH + 0.20 RANK + 0.25 USER + 0.15 OVERSEER + 0.10 NEW, each from 0 to 1: the
longest path below the node, its PageRank, the priority set by people, the priority set by the
overseer, and 1 / (1 + days in the plan). A priority that is not set counts as normal. SPLIT says whether
the node is better cut into subtasks; `-o json` lists the reasons.

Examples:
  tetrarch advise goal_01JD8Z5W6T4QK3M9X2V7B1N0AC
  tetrarch advise goal_01JD8Z5W6T4QK3M9X2V7B1N0AC --limit 3 -o json")]
pub(crate) struct AdviseArgs {
    /// The goal.
    epic: EpicId,
    /// The most nodes to list [default: all].
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    limit: u32,
}

const COLUMNS: &str = "NODE|STATE|SCORE|PATH|RANK|USER|OVERSEER|NEW|SPLIT|TITLE";

/// Runs the command.
///
/// # Errors
/// The owner refuses, or does not answer.
pub(crate) async fn run(context: &Context, args: AdviseArgs) -> CliResult {
    let AdviseArgs { epic, limit } = args;
    let op = Op::Work(WorkOp { epic, verb: WorkVerb::Recommend { limit } });
    let reply = context.client().await?.operate(&op).await?;
    let unreadable = |error: String| {
        CliError::new(Code::Failed, format!("cannot read the owner's answer: {error}"))
    };
    let data = reply.data.unwrap_or_default();
    let told: Value = serde_json::from_str(&data).map_err(|error| unreadable(error.to_string()))?;
    let best = told["recommended"].as_array().cloned().unwrap_or_default();
    if output::is_for_programs(context.output) {
        return output::record(context.output, &told, String::new);
    }
    let rows = best.into_iter().map(row).collect();
    output::listing(context.output, COLUMNS, rows, "No work of this goal is pending.")
}

fn row(best: Value) -> TableRow {
    let text = |name: &str| best[name].as_str().unwrap_or_default().to_owned();
    let part = |name: &str| number(&best["parts"][name]);
    let ready = best["ready"].as_bool().unwrap_or_default();
    let state = if ready { "ready".to_owned() } else { text("status") };
    let cells = vec![
        text("id").into(),
        Cell::state(&state),
        number(&best["score"]),
        part("criticalPath"),
        part("pagerank"),
        part("userPriority"),
        part("overseerPriority"),
        part("freshness"),
        if best["split"]["advised"] == true { "yes" } else { "no" }.into(),
        text("title").into(),
    ];
    TableRow { cells, record: best }
}

fn number(value: &Value) -> Cell {
    Cell::some(value.as_f64().map(|number| format!("{number:.3}")))
}
