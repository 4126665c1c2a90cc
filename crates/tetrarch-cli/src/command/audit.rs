//! `audit`: the privileged acts that the ledger has, who did them and with which credential; their export as a
//! chain of hashes, and the check of such a file. Which acts those are is core's.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use globset::{Glob, GlobMatcher};
use serde_json::{Value, json};
use tetrarch_bus::Bus;
use tetrarch_bus::creds::acts::unrecorded;
use tetrarch_bus::subject::pattern::LEDGER;
use tetrarch_bus::tail::LedgerItem;
use tetrarch_core::audit::chain::{Broken, Chain, Verified, verify};
use tetrarch_core::audit::{Audited, acts_of};
use tetrarch_core::ledger::Entry;

use crate::history::{self, Since};
use crate::output::{self, Cell, StdoutReader, TableRow, Tone, now, one_line, say, stamp};
use crate::{CliError, CliResult, Code, Context};

/// Arguments of `audit`.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  tetrarch audit --since 2h
  tetrarch audit --who 'human:*' --what 'creds.*'
  tetrarch audit export trail.jsonl
  tetrarch audit verify trail.jsonl

The trail is kept as long as the ledger (retention.ledger). Export it to keep it longer."
)]
pub(crate) struct AuditArgs {
    /// Filters.
    #[command(flatten)]
    filter: AuditFilter,
    /// The subcommand.
    #[command(subcommand)]
    command: Option<AuditCommand>,
}

/// Subcommands of `audit`.
#[derive(Debug, clap::Subcommand)]
enum AuditCommand {
    /// Export the trail to a file whose lines form a hash chain.
    Export {
        /// The file to create; it must not exist.
        file: PathBuf,
        /// Filters.
        #[command(flatten)]
        filter: AuditFilter,
    },
    /// Verify the hash chain of an export, and compare it with the ledger when a bus runs.
    Verify {
        /// The exported file.
        file: PathBuf,
        /// The head that `audit export` printed. Without it, a rewritten file cannot be detected.
        #[arg(long, value_name = "SHA256")]
        head: Option<String>,
    },
}

/// Filters.
#[derive(Debug, clap::Args)]
struct AuditFilter {
    /// Start at an age (10m, 2h), a time (RFC 3339) or a ledger sequence.
    #[arg(long, value_name = "TIME|SEQ", value_parser = Since::read)]
    since: Option<Since>,
    /// Stop before an age, a time or a ledger sequence.
    #[arg(long, value_name = "TIME|SEQ", value_parser = Since::read)]
    until: Option<Since>,
    /// Filter by actor, such as human:ada, 'human:*' or a credential's public key.
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    who: Option<GlobMatcher>,
    /// Filter by act, such as budget.raise or 'creds.*'.
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    what: Option<GlobMatcher>,
}

fn pattern(text: &str) -> Result<GlobMatcher, String> {
    Glob::new(text).map(|glob| glob.compile_matcher()).map_err(|error| error.to_string())
}

const COLUMNS: &str = "TIME|+SEQ|ACTOR|WHAT|OUTCOME|ABOUT|+CREDENTIAL|+REQUEST";

/// Runs the command.
///
/// # Errors
/// The bus cannot be read; a file that is there already, or that is not whole.
pub(crate) async fn run(context: &Context, args: AuditArgs) -> CliResult {
    match args.command {
        None => list(context, &args.filter).await,
        Some(AuditCommand::Export { file, filter }) => export(context, &file, &filter).await,
        Some(AuditCommand::Verify { file, head }) => check(context, &file, head.as_deref()).await,
    }
}

async fn list(context: &Context, filter: &AuditFilter) -> CliResult {
    let bus = context.client().await?.bus;
    let range = filter.range(&bus).await?;
    let mut rows = Vec::new();
    read(&bus, range, (filter.who.as_ref(), filter.what.as_ref()), |item, it, record| {
        rows.push(row(item, it, record));
    })
    .await?;
    tell_waiting(context)?;
    let empty = "No privileged acts. `tetrarch events` lists all events.";
    output::listing(context.output, COLUMNS, rows, empty)
}

/// Says what is not on the ledger yet.
fn tell_waiting(context: &Context) -> CliResult {
    let dir = &context.config.bus.data_dir;
    let waiting = unrecorded(dir).map_err(CliError::failed)?;
    if !waiting.is_empty() {
        let (count, dir) = (waiting.len(), dir.join("keys").join("acts"));
        say(&format!(
            "{count} acts on credentials in {} are not on the ledger yet, or were taken in just now",
            dir.display()
        ));
    }
    Ok(())
}

impl AuditFilter {
    /// The sequences of the ledger that are meant, both included.
    async fn range(&self, bus: &Bus) -> CliResult<(u64, u64)> {
        let extent = bus.stream_extent(LEDGER).await?;
        let first = match self.since {
            Some(since) => since.first(bus, extent.last).await?.max(extent.first),
            None => extent.first,
        };
        let last = match self.until {
            Some(until) => until.first(bus, extent.last).await?.saturating_sub(1).min(extent.last),
            None => extent.last,
        };
        Ok((first.max(1), last))
    }
}

type Patterns<'a> = (Option<&'a GlobMatcher>, Option<&'a GlobMatcher>);

/// Gives the acts of a part of the ledger, in its order, each with its record.
async fn read(
    bus: &Bus,
    range: (u64, u64),
    (who, what): Patterns<'_>,
    mut see: impl FnMut(&LedgerItem, &Audited, Value),
) -> CliResult {
    let is_by = |it: &Audited, who: &GlobMatcher| {
        who.is_match(it.actor.to_string())
            || it.act.credential.as_ref().is_some_and(|user| who.is_match(user))
    };
    history::each(bus, range, 0, |item| {
        let Ok(entry) = &item.entry else { return Ok(StdoutReader::There) };
        for it in acts_of(entry) {
            let wanted = who.is_none_or(|who| is_by(&it, who))
                && what.is_none_or(|what| what.is_match(&it.act.what));
            if wanted {
                see(item, &it, record(item, entry, &it));
            }
        }
        Ok(StdoutReader::There)
    })
    .await
    .map(drop)
}

fn outcome(it: &Audited) -> &'static str {
    if it.refused.is_some() { "refused" } else { "done" }
}

fn record(item: &LedgerItem, entry: &Entry, it: &Audited) -> Value {
    json!({
        "time": stamp(item.at),
        "seq": item.seq,
        "commit": entry.commit.to_string(),
        "epoch": entry.epoch,
        "actor": it.actor.to_string(),
        "credential": it.act.credential,
        "what": it.act.what,
        "about": it.act.about,
        "request": it.request.map(|request| request.to_string()),
        "outcome": outcome(it),
        "refused": it.refused,
    })
}

fn row(item: &LedgerItem, it: &Audited, record: Value) -> TableRow {
    let tone = if it.refused.is_some() { Tone::Bad } else { Tone::Plain };
    let about = match &it.refused {
        Some(why) => format!("{} ({why})", it.act.about),
        None => it.act.about.clone(),
    };
    let cells = vec![
        stamp(item.at).into(),
        item.seq.to_string().into(),
        it.actor.to_string().into(),
        it.act.what.clone().into(),
        Cell::from(outcome(it)).toned(tone),
        about.into(),
        Cell::some(it.act.credential.clone()),
        Cell::some(it.request.map(|request| request.to_string())),
    ];
    TableRow { cells, record }
}

async fn export(context: &Context, file: &Path, filter: &AuditFilter) -> CliResult {
    let bus = context.client().await?.bus;
    let (first, last) = filter.range(&bus).await?;
    let glob = |it: &Option<GlobMatcher>| it.as_ref().map(|it| it.glob().glob().to_owned());
    let header = json!({
        "format": 1,
        "ledger": bus.stream_created(LEDGER).await?,
        "first": first,
        "last": last,
        "who": glob(&filter.who),
        "what": glob(&filter.what),
        "made": stamp(now()),
    });
    let mut chain = Chain::default();
    let (mut text, mut entries) = (chain.header(&one_line(&header)), 0_u64);
    read(&bus, (first, last), (filter.who.as_ref(), filter.what.as_ref()), |_, _, record| {
        text.push_str(&chain.entry(&one_line(&record)));
        entries += 1;
    })
    .await?;
    let head = chain.head();
    text.push_str(&chain.seal());
    tell_waiting(context)?;
    let written = OpenOptions::new().write(true).create_new(true).open(file);
    written.and_then(|mut to| to.write_all(text.as_bytes()).and_then(|()| to.sync_all())).map_err(
        |error| CliError::new(Code::Failed, format!("cannot write {}: {error}", file.display())),
    )?;
    let said = json!({"file": file, "entries": entries, "head": head});
    let line = format!(
        "{}: {entries} acts of ledger entries {first} to {last}, head {head}",
        file.display()
    );
    output::item(context.output, &said, &line).map(drop)
}

async fn check(context: &Context, file: &Path, head: Option<&str>) -> CliResult {
    let shown = file.display();
    let bytes = std::fs::read(file)
        .map_err(|error| CliError::new(Code::NotFound, format!("cannot read {shown}: {error}")))?;
    let broken = |broken: Broken| {
        CliError::new(Code::Failed, format!("{shown} is not a valid export: {broken}"))
            .hint("the lines before it are valid")
    };
    let trail = verify(&bytes).map_err(broken)?;
    if let Some(wanted) = head.filter(|wanted| !trail.head.eq_ignore_ascii_case(wanted)) {
        let what = format!("{shown} has the head {}, not {wanted}: it was rewritten", trail.head);
        return Err(CliError::new(Code::Failed, what));
    }
    let (compared, how) = match compare(context, &trail).await? {
        Compared::Same => (true, "as the ledger has them".to_owned()),
        Compared::Not(why) => (false, format!("not compared with the ledger: {why}")),
        Compared::Different(it) => {
            let what = format!("{shown} is intact, but differs from the ledger: {it}");
            return Err(CliError::new(Code::Failed, what));
        }
    };
    let entries = trail.entries.len();
    let said = json!({"file": file, "entries": entries, "head": trail.head, "compared": compared});
    let line = format!("OK: {entries} acts, {how}; head {}", trail.head);
    output::item(context.output, &said, &line).map(drop)
}

/// What comparing a trail with the ledger came to.
enum Compared {
    Same,
    /// It could not be, and why.
    Not(String),
    /// Where they differ first.
    Different(Broken),
}

/// Compares a trail with the ledger of a bus that runs.
async fn compare(context: &Context, trail: &Verified) -> CliResult<Compared> {
    let bus = match context.client().await {
        Ok(client) => client.bus,
        Err(error) if error.code == Code::BusUnreachable => {
            return Ok(Compared::Not("no bus runs".to_owned()));
        }
        Err(error) => return Err(error),
    };
    let wrong = |what: &str| Ok(Compared::Different(Broken { line: 1, what: what.to_owned() }));
    let of = |name: &str| trail.header.get(name).unwrap_or(&Value::Null);
    let created = bus.stream_created(LEDGER).await?;
    if *of("ledger") != json!(created) {
        let why = format!("it is of one begun at {}, this one was at {created}", of("ledger"));
        return Ok(Compared::Not(why));
    }
    let (Some(first), Some(last)) = (of("first").as_u64(), of("last").as_u64()) else {
        return wrong("it does not say which entries of the ledger it is of");
    };
    let glob = |name: &str| of(name).as_str().map(pattern).transpose();
    let (Ok(who), Ok(what)) = (glob("who"), glob("what")) else {
        return wrong("it does not say which acts it has");
    };
    let extent = bus.stream_extent(LEDGER).await?;
    if extent.last < last {
        return wrong(&format!(
            "it is of entries up to {last}, the ledger ends at {}",
            extent.last
        ));
    }
    // What the ledger does not have any more cannot be compared.
    let first = first.max(extent.first);
    let kept = |it: &Value| it.get("seq").and_then(Value::as_u64).is_some_and(|seq| seq >= first);
    let mut there = trail.entries.iter().filter(|(_, it)| kept(it));
    let mut broken: Option<Broken> = None;
    read(&bus, (first, last), (who.as_ref(), what.as_ref()), |item, _, record| {
        let differs = match there.next() {
            Some((_, it)) if *it == record => return,
            Some((line, _)) => (*line, "differs from"),
            None => (last_line(trail) + 1, "is missing:"),
        };
        let what = format!("it {} entry {} of the ledger: {record}", differs.1, item.seq);
        broken.get_or_insert(Broken { line: differs.0, what });
    })
    .await?;
    if let (None, Some((line, _))) = (&broken, there.next()) {
        broken = Some(Broken { line: *line, what: "the ledger has no such act".to_owned() });
    }
    Ok(broken.map_or(Compared::Same, Compared::Different))
}

fn last_line(trail: &Verified) -> u64 {
    trail.entries.last().map_or(1, |(line, _)| *line)
}
