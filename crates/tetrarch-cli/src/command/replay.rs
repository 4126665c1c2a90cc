//! `replay`: the fleet as it was after an entry of the ledger, or at a moment (spec 08): agents as a
//! tree, goals, and what people were asked.

use serde_json::{Map, Value, json};
use tetrarch_bus::subject::Subject;
use tetrarch_bus::subject::pattern::LEDGER;
use tetrarch_bus::{Bus, snapshot};
use tetrarch_core::question::QuestionStatus;
use tetrarch_core::restart::Images;
use tetrarch_core::time::BusTime;

use crate::history::{self, Since, StreamPosition};
use crate::output::{self, Cell, Sheet, StdoutReader, is_coloured, stamp};
use crate::{CliError, CliResult, Code, Context, StateSnapshot};

use super::tree::{self, TreeOptions};

/// Arguments of `replay`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tetrarch replay --at 10m
  tetrarch replay --at 2026-11-22T08:00:00Z
  tetrarch replay --at 4711 -o json | jq '.records | keys'

Shows the records as committed at that time. `tetrarch events` shows sequences.")]
pub(crate) struct ReplayArgs {
    /// An age (10m, 2h), a time (RFC 3339) or a ledger sequence.
    #[arg(long, value_name = "TIME|SEQ", value_parser = Since::read)]
    at: Since,
    /// Include terminated agents.
    #[arg(short, long)]
    all: bool,
}

/// Runs the command.
///
/// # Errors
/// The bus cannot be read; nothing was committed before that, or it is no longer kept.
pub(crate) async fn run(context: &Context, args: ReplayArgs) -> CliResult {
    let bus = context.client().await?.bus;
    let PastImages { through, at, images, .. } = past(&bus, args.at).await?;
    let snapshot = StateSnapshot::past(&images);
    let then = ReplaySheet { through, at, images, snapshot, all: args.all };
    let value = if output::is_for_programs(context.output) { then.json()? } else { Value::Null };
    output::record(context.output, &value, || then.sheet())
}

/// The records of a moment.
#[derive(Debug)]
pub(super) struct PastImages {
    /// After which entry.
    pub(super) through: u64,
    /// When that was stored.
    pub(super) at: BusTime,
    /// The first entry that is kept, and the last.
    pub(super) kept: (u64, u64),
    /// The records.
    pub(super) images: Images,
}

/// Reads the records of a moment.
///
/// # Errors
/// The bus cannot be read; nothing was committed before that, or it is no longer kept.
pub(super) async fn past(bus: &Bus, moment: Since) -> CliResult<PastImages> {
    let kept = bus.stream_extent(LEDGER).await?;
    let through = match moment.place() {
        StreamPosition::Seq(seq) => seq,
        StreamPosition::Moment(_) => moment.first(bus, kept.last).await?.saturating_sub(1),
    };
    check(through, kept.last)?;
    let (at, images) = images_after(bus, through).await?;
    Ok(PastImages { through, at, kept: (kept.first, kept.last), images })
}

/// The records after an entry, and when that was stored.
async fn images_after(bus: &Bus, through: u64) -> CliResult<(BusTime, Images)> {
    let base = snapshot::base_before(bus, through).await?;
    let mut restart = base.restart();
    let (from, epoch) = (restart.through + 1, restart.epoch);
    history::each(bus, (from, through), epoch, |item| {
        match &item.entry {
            Ok(entry) => restart.add(item.seq, entry),
            Err(_) => restart.skip(item.seq),
        }
        Ok(StdoutReader::There)
    })
    .await?;
    let stored = bus.get_seq(LEDGER, through).await?;
    // The entry that a snapshot ends with may be trimmed.
    let at = stored.map_or_else(BusTime::default, |message| BusTime(message.time_unix_ms));
    Ok((at, restart.images))
}

/// Whether there is such an entry.
fn check(through: u64, last: u64) -> CliResult {
    let none = |what: String| {
        Err(CliError::new(Code::NotFound, what)
            .hint("find a sequence or a moment with `tetrarch events`"))
    };
    match through {
        0 => none("nothing was committed before that".to_owned()),
        _ if through > last => none(format!("the ledger ends with entry {last}")),
        _ => Ok(()),
    }
}

/// The fleet as it was.
struct ReplaySheet {
    through: u64,
    at: BusTime,
    images: Images,
    snapshot: StateSnapshot,
    all: bool,
}

impl ReplaySheet {
    fn json(&self) -> CliResult<Value> {
        let images = self.images.iter();
        let records: CliResult<Map<String, Value>> = images
            .map(|(key, (record, _))| {
                Ok((Subject::State(key.clone()).to_string(), self.snapshot.json(record)?))
            })
            .collect();
        Ok(json!({"seq": self.through, "time": stamp(self.at), "records": records?}))
    }

    fn sheet(&self) -> String {
        let records = &self.snapshot.records;
        let mut sheet = Sheet::new(&format!("after entry {}", self.through), is_coloured());
        sheet.field("time", stamp(self.at));
        let goals = records.goal_states.values().map(|state| {
            let goal = records.goals.get(&state.id);
            vec![
                state.id.to_string().into(),
                Cell::state(state.status.as_str()),
                format!("{}%", state.percent).into(),
                Cell::some(records.plans.get(&state.id).map(|plan| format!("v{}", plan.version))),
                Cell::from(goal.map_or("", |goal| goal.spec.title.as_str())),
            ]
        });
        sheet.table("goals", goals.collect());
        let open = records.questions.values();
        let open = open.filter(|question| question.status == QuestionStatus::Open);
        let asked = open.map(|question| {
            vec![
                question.id.to_string().into(),
                question.agent.to_string().into(),
                question.text.as_str().into(),
            ]
        });
        sheet.table("questions", asked.collect());
        let options = TreeOptions { all: self.all, now: self.at, ..TreeOptions::suiting_output() };
        let tree = tree::render(records, &options);
        format!("{}\n{tree}", sheet.finish())
    }
}
