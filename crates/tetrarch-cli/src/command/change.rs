//! `change`, `approve`, `deny`, `apply`: what runs made and humans decide on (spec 08, IO; spec 09, Human
//! gate). What is shown is the stored diff, its control characters made visible.

use std::time::Duration;

use futures::StreamExt;
use serde_json::json;
use tetrarch_bus::artifact::Artifacts;
use tetrarch_bus::state::Select;
use tetrarch_bus::subject::KeyKind;
use tetrarch_bus::subject::pattern::LEDGER;
use tetrarch_core::change::{Change, ChangeStatus};
use tetrarch_core::id::ChangeId;
use tetrarch_core::ledger::{Record, RecordKey};
use tetrarch_core::plan::proposal::DraftVerdict;
use tetrarch_core::request::{GateOp, GateVerdict, Op};
use tetrarch_view::diff::too_many_bytes;
use tetrarch_view::text::diff_for_people;

use super::artifact::explained;
use super::plan::drafts;
use super::project::{ask, report};
use crate::name::Decidable;
use crate::output::{self, Cell, Sheet, TableRow, age, is_coloured, now, stamp, unmixed, visible};
use crate::{CliError, CliResult, Code, Context, HumanClient, StateSnapshot};

/// Time between two looks at a change that is being merged.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long a merge is waited for: a host that restarts goes on with it.
const MERGED_WITHIN: Duration = Duration::from_secs(60);

/// Subcommands of `change`.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "\
Examples:
  tetrarch change list
  tetrarch change show chg_01JD8Z5W6T4QK3M9X2V7B1N0AC
  tetrarch approve chg_01JD8Z5W6T4QK3M9X2V7B1N0AC --apply")]
pub(crate) enum ChangeCommand {
    /// List changes that wait for a decision.
    List {
        /// Include closed changes.
        #[arg(long)]
        closed: bool,
    },
    /// Show a change and its diff.
    Show {
        /// The change's id, as shown by `tetrarch inbox`.
        change: ChangeId,
    },
}

/// Arguments of `approve`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tetrarch approve chg_01JD8Z5W6T4QK3M9X2V7B1N0AC
  tetrarch approve chg_01JD8Z5W6T4QK3M9X2V7B1N0AC --digest 3fb9...e1 --apply
  tetrarch approve drf_01JD8Z5W6T4QK3M9X2V7B1N0AC

An approval covers exactly the digest that was shown. It is valid for one day and used once. A
change is merged by `tetrarch apply` after as many approvals as people.approvals requires. A plan
draft is applied at once.

Exit codes: 5 the change or the plan has changed since.")]
pub(crate) struct ChangeApproveArgs {
    /// The id of the change or draft, as shown by `tetrarch inbox`.
    id: Decidable,
    /// The digest of the change that you reviewed [default: current digest].
    #[arg(long)]
    digest: Option<String>,
    /// Merge the change after the approval.
    #[arg(long)]
    apply: bool,
    /// A note, for the ledger.
    #[arg(long, default_value = "", hide_default_value = true)]
    reason: String,
}

/// Arguments of `deny`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tetrarch deny chg_01JD8Z5W6T4QK3M9X2V7B1N0AC --reason 'it breaks the old format'
  tetrarch deny drf_01JD8Z5W6T4QK3M9X2V7B1N0AC --reason 'not this year'")]
pub(crate) struct ChangeDenyArgs {
    /// The id of the change or draft, as shown by `tetrarch inbox`.
    id: Decidable,
    /// The reason, for the author.
    #[arg(long)]
    reason: String,
}

/// Arguments of `apply`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tetrarch apply chg_01JD8Z5W6T4QK3M9X2V7B1N0AC
  tetrarch apply chg_01JD8Z5W6T4QK3M9X2V7B1N0AC --no-wait

Exit codes: 5 the change is not approved, or it conflicts with the branch (which is not changed).")]
pub(crate) struct ChangeApplyArgs {
    /// The approved change.
    change: ChangeId,
    /// Do not wait for the merge.
    #[arg(long)]
    no_wait: bool,
}

const COLUMNS: &str = "CHANGE|AGE|STATE|FROM|NODE|FILES|LINES|BRANCH|+HOST|+DIGEST|WHY";

/// Runs the command.
///
/// # Errors
/// The bus cannot be read, or there is no such change.
pub(crate) async fn run(context: &Context, command: ChangeCommand) -> CliResult {
    let client = context.client().await?;
    match command {
        ChangeCommand::List { closed } => list(context, &client, closed).await,
        ChangeCommand::Show { change } => show(context, &client, change).await,
    }
}

async fn list(context: &Context, client: &HumanClient, closed: bool) -> CliResult {
    let snapshot = StateSnapshot::read(&client.bus, &[Select::Kind(KeyKind::Change)]).await?;
    let all = snapshot.records.changes.values();
    let mut shown: Vec<&Change> =
        all.filter(|change| closed || !change.status.is_terminal()).collect();
    shown.sort_by_key(|change| (change.status, change.proposed, change.id));
    let rows = shown.into_iter().map(|change| row(&snapshot, change));
    let rows = rows.collect::<CliResult<Vec<TableRow>>>()?;
    output::listing(
        context.output,
        COLUMNS,
        rows,
        "No changes wait for a decision. Commits of runs in isolated worktrees are listed here; --closed includes decided changes.",
    )
}

fn row(snapshot: &StateSnapshot, change: &Change) -> CliResult<TableRow> {
    let action = &change.made.action;
    Ok(TableRow {
        cells: vec![
            change.id.to_string().into(),
            age(now(), change.proposed).into(),
            Cell::state(change.status.as_str()),
            change.agent.to_string().into(),
            change.node.to_string().into(),
            action.files.len().to_string().into(),
            lines(change).into(),
            action.target.as_str().into(),
            change.host.to_string().into(),
            action.digest().into(),
            change.reason.as_str().into(),
        ],
        record: snapshot.json(&Record::Change(Box::new(change.clone())))?,
    })
}

fn lines(change: &Change) -> String {
    format!("+{} -{}", change.made.additions, change.made.deletions)
}

async fn read(client: &HumanClient, id: ChangeId) -> CliResult<(StateSnapshot, Change)> {
    let snapshot = StateSnapshot::read(&client.bus, &[Select::One(RecordKey::Change(id))]).await?;
    let found = snapshot.records.changes.get(&id).cloned();
    let change = found.ok_or_else(|| {
        CliError::new(Code::NotFound, format!("change {id} was not found"))
            .hint("list open changes with `tetrarch inbox`")
    })?;
    Ok((snapshot, change))
}

async fn show(context: &Context, client: &HumanClient, id: ChangeId) -> CliResult {
    let (snapshot, change) = read(client, id).await?;
    let diff = Artifacts::new(&client.bus).get_bytes(&change.made.action.diff).await;
    let diff = diff.map_err(explained)?;
    let diff = String::from_utf8_lossy(&diff);
    let mut value = snapshot.json(&Record::Change(Box::new(change.clone())))?;
    value["diff"] = json!(diff);
    output::record(context.output, &value, || {
        format!("{}\n{}", sheet(&change), diff_for_people(&diff))
    })
}

/// The diff of a change for a screen on which it is decided on; one that is too large is not even read.
pub(super) async fn diff_to_decide(
    client: &HumanClient,
    id: ChangeId,
    sha256: &str,
) -> Result<String, String> {
    let artifacts = Artifacts::new(&client.bus);
    let size = artifacts.stat(sha256).await.map_err(|error| error.to_string())?.map(|it| it.size);
    if let Some(why) = size.and_then(|bytes| too_many_bytes(id, bytes)) {
        return Err(why);
    }
    let bytes = artifacts.get_bytes(sha256).await.map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// What is to be done, to what, asked by whom, until when.
fn sheet(change: &Change) -> String {
    let action = &change.made.action;
    let mut sheet = Sheet::new(&format!("change {}", change.id), is_coloured());
    sheet.field("state", Cell::state(change.status.as_str()));
    sheet.field("why", unmixed(&change.reason));
    sheet.field("will", unmixed(&format!("merge {} into {}", change.made.branch, action.target)));
    sheet.field("repository", unmixed(&format!("{} on {}", action.repository, change.host)));
    sheet.field("base", action.base.as_str());
    sheet.field("head", action.head.as_str());
    sheet.field("from", format!("{} in {}", change.agent, change.run));
    sheet.field("for", format!("{} {}", change.epic, change.node));
    sheet.field("asks", change.to.to_string());
    sheet.field("until", stamp(change.until));
    if change.needed > 1 {
        let given = change.people(|approval| approval.used.is_none());
        sheet.field("approvals", format!("{given} of {} people", change.needed));
    }
    for approval in change.earlier.iter().chain(&change.approval) {
        let used = approval.used.map_or("not used", |_| "used");
        sheet.field("approved", format!("{} at {}, {used}", approval.by, stamp(approval.at)));
    }
    sheet.field("commit", change.commit.as_str());
    sheet.list("conflicts", change.conflicts.iter().map(|file| unmixed(file)));
    sheet.field("lines", lines(change));
    sheet.list("files", action.files.iter().map(|file| unmixed(file)));
    sheet.field("digest", action.digest());
    sheet.finish()
}

/// `approve`.
///
/// # Errors
/// The owner refuses, or does not answer.
pub(crate) async fn approve(context: &Context, args: ChangeApproveArgs) -> CliResult {
    let ChangeApproveArgs { id, digest, apply, reason } = args;
    let client = context.client().await?;
    let change = match id {
        Decidable::Draft(draft) => {
            if digest.is_some() {
                let what = format!("{draft} has no digest: a draft never changes");
                return Err(CliError::new(Code::Usage, what).hint("omit --digest"));
            }
            return drafts::verdict(context, &client, draft, reason, DraftVerdict::Approve).await;
        }
        Decidable::Change(change) => change,
    };
    let digest = match digest {
        Some(digest) => digest,
        None => read(&client, change).await?.1.made.action.digest(),
    };
    let said = format!("{change} approved, digest {digest}");
    let verdict = GateVerdict::Approve { digest };
    let reply = client.operate(&Op::Gate(GateOp::Decide { change, verdict, reason })).await?;
    if apply {
        return merge(context, &client, ChangeApplyArgs { change, no_wait: false }).await;
    }
    report(context, &reply, &format!("{said}; {}", reply.detail))
}

/// `deny`.
///
/// # Errors
/// The owner refuses, or does not answer.
pub(crate) async fn deny(context: &Context, args: ChangeDenyArgs) -> CliResult {
    let ChangeDenyArgs { id, reason } = args;
    let client = context.client().await?;
    match id {
        Decidable::Draft(draft) => {
            drafts::verdict(context, &client, draft, reason, DraftVerdict::Reject).await
        }
        Decidable::Change(change) => {
            let op = GateOp::Decide { change, verdict: GateVerdict::Deny, reason };
            ask(context, &Op::Gate(op), |reply| reply.detail.clone()).await
        }
    }
}

/// `apply`.
///
/// # Errors
/// The owner refuses, or does not answer; it cannot be merged.
pub(crate) async fn apply(context: &Context, args: ChangeApplyArgs) -> CliResult {
    let client = context.client().await?;
    merge(context, &client, args).await
}

async fn merge(context: &Context, client: &HumanClient, args: ChangeApplyArgs) -> CliResult {
    let ChangeApplyArgs { change: id, no_wait } = args;
    // Read before the order is sent: what it causes comes after this entry.
    let last = client.bus.stream_last_seq(LEDGER).await?;
    let reply = client.operate(&Op::Gate(GateOp::Apply { change: id })).await?;
    if no_wait {
        return report(context, &reply, &reply.detail);
    }
    let settled = tokio::time::timeout(MERGED_WITHIN, async {
        let found = settlement(client, last + 1, id).await;
        loop {
            let (snapshot, change) = read(client, id).await?;
            // STATE may be a moment behind the ledger.
            if change.since > found.since || change == found {
                return Ok::<_, CliError>((snapshot, change));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    });
    let Ok(settled) = settled.await else {
        let what = format!("{} has not reported on {id} yet", reply.detail);
        return Err(CliError::new(Code::Failed, what)
            .hint(format!("check again with `tetrarch change show {id}`")));
    };
    let (snapshot, change) = settled?;
    let why = format!("{id} is {}: {}", change.status, change.reason);
    if change.status != ChangeStatus::Applied {
        let files: Vec<String> = change.conflicts.iter().map(|file| visible(file)).collect();
        let what = if files.is_empty() { why } else { format!("{why}: {}", files.join(", ")) };
        return Err(CliError::new(Code::Conflict, what)
            .hint("the branch was not changed; resolve the cause and approve the change again"));
    }
    let value = snapshot.json(&Record::Change(Box::new(change)))?;
    output::record(context.output, &value, || format!("{why}\n"))
}

/// Waits until a change that is to be applied is no longer that.
async fn settlement(client: &HumanClient, from: u64, id: ChangeId) -> Change {
    let mut written = std::pin::pin!(client.written_from(from));
    loop {
        let Some(Record::Change(change)) = written.next().await else { continue };
        let waits = match change.status {
            ChangeStatus::Applying | ChangeStatus::Approved => true,
            ChangeStatus::Proposed
            | ChangeStatus::Conflicted
            | ChangeStatus::Applied
            | ChangeStatus::Denied
            | ChangeStatus::Refused
            | ChangeStatus::Expired
            | ChangeStatus::Superseded => false,
        };
        if change.id == id && !waits {
            return *change;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decidable_kind_is_derived_from_its_id() {
        let ulid = "01JD8Z5W6T4QK3M9X2V7B1N0AC";
        assert!(matches!(format!("chg_{ulid}").parse(), Ok(Decidable::Change(_))));
        assert!(matches!(format!("drf_{ulid}").parse(), Ok(Decidable::Draft(_))));
        assert!(format!("qst_{ulid}").parse::<Decidable>().is_err());
    }
}
