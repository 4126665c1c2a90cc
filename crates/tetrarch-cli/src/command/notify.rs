//! `notify`: tells a person what they do not look at (spec 08, IO): a question, a change before its branch, the end of a
//! goal, an alert. It follows the ledger with the credential of the person, each channel by itself, so that one that does
//! not answer holds up no other. What is told is `tetrarch-view`'s; nothing is decided here.

mod delivering;
mod record;
pub(crate) mod usable;

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use serde_json::{Map, Value, json};
use tetrarch_bus::retry::Retry;
use tetrarch_bus::state::Select;
use tetrarch_bus::subject::pattern::LEDGER;
use tetrarch_bus::tail::LedgerItem;
use tetrarch_core::goal::Goal;
use tetrarch_core::id::{ChannelName, HumanName};
use tetrarch_core::ledger::RecordKey;
use tetrarch_core::records::Records;
use tetrarch_core::time::Millis;
use tetrarch_view::notice::Notice;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::config::{ChannelAddress, ChannelsSection};
use crate::history;
use crate::options::{GlobalArgs, with_installation};
use crate::output::{self, Cell, TableRow, Tone, now, stamp};
use crate::process::{announce, explained, stop_signal};
use crate::{CliError, CliResult, Code, Context, HumanClient, StateSnapshot};

use delivering::{ChannelSender, NoticeMessage};
use record::{DeliveredNotice, DeliveryRecord};

/// What is older is no news: whoever was away for so long looks at the inbox.
const AGE_MAX: Millis = Millis(24 * 3600 * 1000);
/// First and longest wait before a notice is sent again, and for how long that goes on.
const AGAIN: (Duration, Duration, Duration) =
    (Duration::from_secs(1), Duration::from_secs(60), Duration::from_secs(3600));

/// First and longest wait between two looks at STATE.
const SHOWN: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));
/// By when STATE shows what the ledger has; a goal that is not there then is not kept any more.
const SHOWN_WITHIN: Millis = Millis(10_000);

/// Arguments of `notify`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tetrarch notify --test
  tetrarch notify --list
  tetrarch notify

`tetrarch up` does this by itself where channels are set; this command does it beside another bus.
The configuration:

  [people]
  channel_key = \"env:HOOK_KEY\"        # signs webhooks, as Standard Webhooks says
  notify = [\"question\", \"blocked\", \"change\", \"draft\", \"turn\", \"goal\", \"alert\"]
  [people.channels]
  phone = \"https://hooks.example.org/me\"   # or env:NAME, credential:NAME, file:/path
  pager = \"run:/usr/local/bin/page me\"     # words between blanks; gets the notice as JSON on standard input
  desk = \"desktop\"                         # notify-send
  shell = \"bell\"                           # rings, and prints the notice

A goal whose origin names a channel, and a turn of `tetrarch ask --channel NAME`, use that one alone.")]
pub(crate) struct NotifyArgs {
    /// Send a test notice to every channel and end.
    #[arg(long, conflicts_with = "list")]
    test: bool,
    /// List what was sent, oldest first.
    #[arg(long)]
    list: bool,
    /// Stop at the end of standard input.
    #[arg(long, hide = true)]
    with_parent: bool,
}

impl NotifyArgs {
    /// Whether it goes on until it is told to end.
    pub(crate) fn serves(&self) -> bool {
        !self.test && !self.list
    }
}

/// Runs the command.
///
/// # Errors
/// No channel is set, another process notifies this person, the bus does not answer; a test notice did not arrive.
pub(crate) async fn run(context: &Context, args: NotifyArgs) -> CliResult {
    explained(args.with_parent, notify(context, args)).await
}

async fn notify(context: &Context, args: NotifyArgs) -> CliResult {
    let human = context.human()?;
    let directory = record::directory(&context.config.bus.data_dir, &human);
    if args.list {
        return list(context, record::all(&directory)?);
    }
    let channels = &context.config.channels;
    if channels.channels.is_empty() {
        return Err(CliError::new(Code::Usage, "people.channels is empty; nobody can be told")
            .hint("set a channel in the configuration; `tetrarch notify --help` shows how"));
    }
    let sender = ChannelSender::new(channels.key.as_ref())?;
    if args.test {
        return test(context, channels, &sender).await;
    }
    let mut stop = stop_signal(args.with_parent)?;
    let _lock = record::lock(&directory)?;
    let client = context.client().await?;
    let (from, end) =
        (history::next_entry(&client.bus).await?, client.bus.stream_last_seq(LEDGER).await?);
    let shared = Arc::new(Notifier {
        channels: channels.clone(),
        global: context.global.clone(),
        client,
        human,
        sender,
    });
    let (mut tasks, mut used) = (JoinSet::new(), Vec::new());
    for (name, address) in &channels.channels {
        // What is wrong with the files of one holds up no other.
        let opened = DeliveryRecord::open(&directory, name).and_then(|record| {
            let from = record.next(end)?.unwrap_or(from);
            record.advance(from).map(|()| (record, from))
        });
        match opened {
            Ok((record, from)) => {
                tasks.spawn(Arc::clone(&shared).follow(name.clone(), record, from));
                used.push(match usable::fault(address) {
                    None => name.to_string(),
                    Some(fault) => format!("{name} ({})", fault.what),
                });
            }
            Err(error) => tracing::error!(channel = %name, %error, "the channel is not used"),
        }
    }
    if args.with_parent {
        output::text(&used.join("\n"))?;
        announce(watch::channel(true).1);
    } else {
        let names: Vec<&str> = channels.channels.keys().map(ChannelName::as_str).collect();
        let value = json!({"event": "ready", "channels": names});
        let line = format!("notifying {} by {}", shared.human, used.join(", "));
        let _unheard = output::item(context.output, &value, &line);
    }
    loop {
        let ended = tokio::select! {
            _ = stop.wait_for(|stop| *stop) => break,
            ended = tasks.join_next() => ended,
        };
        match ended {
            Some(Ok(Err(error))) => tracing::error!(%error, "a channel is not used any more"),
            Some(Ok(Ok(()))) => {}
            Some(Err(error)) => return Err(CliError::failed(error)),
            None => return Err(CliError::new(Code::Failed, "no channel can be used; see the log")),
        }
    }
    // Programs end with whoever waits for them.
    tasks.shutdown().await;
    Ok(())
}

fn list(context: &Context, told: Vec<(String, DeliveredNotice)>) -> CliResult {
    let rows = told.into_iter().map(|(channel, notice)| {
        let state = match &notice.failure {
            None => Cell::from("delivered"),
            Some(_) => Cell::from("failed").toned(Tone::Bad),
        };
        let cells = vec![
            notice.time.as_str().into(),
            channel.as_str().into(),
            notice.kind.as_str().into(),
            state,
            notice.attempts.to_string().into(),
            notice.failure.clone().unwrap_or_default().into(),
            Cell::prose(notice.text.clone()),
        ];
        let record = json!({
            "channel": channel,
            "id": notice.id,
            "kind": notice.kind,
            "text": notice.text,
            "time": notice.time,
            "attempts": notice.attempts,
            "delivered": notice.failure.is_none(),
            "failure": notice.failure,
        });
        TableRow { cells, record }
    });
    output::listing(
        context.output,
        "TIME|CHANNEL|KIND|STATE|ATTEMPTS|+FAILURE|SAYS",
        rows.collect(),
        "Nothing was sent. Notices are listed here with what became of them.",
    )
}

/// Sends a notice to every channel, and says which took it.
async fn test(context: &Context, channels: &ChannelsSection, sender: &ChannelSender) -> CliResult {
    let mut failed = Vec::new();
    for (name, address) in &channels.channels {
        let (id, line) = (format!("test.{}", now().0), format!("a test of the channel {name}"));
        let value = json!({"id": id, "kind": "test", "text": line, "time": stamp(now())});
        let sent = sender.deliver(address, &NoticeMessage { id, line, value }).await;
        let (word, why) = match sent {
            Ok(()) => ("delivered", None),
            Err(undelivered) => ("failed", Some(undelivered.why)),
        };
        let line = match &why {
            None => format!("{name}: {word}"),
            Some(why) => format!("{name}: {word}: {why}"),
        };
        let value = json!({"channel": name.as_str(), "delivered": why.is_none(), "failure": why});
        output::item(context.output, &value, &line)?;
        failed.extend(why.map(|_| name.as_str()));
    }
    if failed.is_empty() {
        return Ok(());
    }
    let what = format!("the test did not arrive by {}", failed.join(", "));
    Err(CliError::new(Code::Failed, what)
        .hint("see people.channels with `tetrarch config explain`"))
}

/// What all channels of a person share.
struct Notifier {
    channels: ChannelsSection,
    /// How the program is called for this installation.
    global: GlobalArgs,
    client: HumanClient,
    human: HumanName,
    sender: ChannelSender,
}

impl Notifier {
    /// Reads the ledger from an entry on, and tells on one channel what is to be told there.
    ///
    /// # Errors
    /// The record cannot be written.
    async fn follow(
        self: Arc<Self>,
        name: ChannelName,
        mut record: DeliveryRecord,
        from: u64,
    ) -> CliResult {
        let Some(address) = self.channels.channels.get(&name) else { return Ok(()) };
        let mut entries = std::pin::pin!(history::entries(&self.client.bus, from));
        while let Some(items) = entries.next().await {
            let Some(last) = items.last().map(|item| item.seq) else { continue };
            for notice in items.iter().flat_map(told_of) {
                self.tell((&name, address), &mut record, &notice).await?;
            }
            record.advance(last + 1)?;
        }
        Ok(())
    }

    /// Tells a notice on a channel, where it is for this person and this channel and was not told before.
    async fn tell(
        &self,
        (name, address): (&ChannelName, &ChannelAddress),
        record: &mut DeliveryRecord,
        notice: &Notice,
    ) -> CliResult {
        if !self.channels.kinds.contains(&notice.kind) || record.has(&notice.id) {
            return Ok(());
        }
        let records = self.known(notice).await;
        let goal = notice.epic.and_then(|epic| records.goals.get(&epic));
        let for_me = notice.is_for(&self.client.human, goal) && self.goes_by(name, notice, goal);
        if !for_me || !notice.holds(&records) {
            return Ok(());
        }
        let message = self.message(notice, goal);
        let (attempts, failure) = if now() - notice.at > AGE_MAX {
            (0, Some("it is older than a day".to_owned()))
        } else {
            self.deliver((name, address), notice, &message).await
        };
        let told = DeliveredNotice {
            id: message.id,
            kind: notice.kind.as_str().to_owned(),
            text: message.line,
            time: stamp(now()),
            attempts,
            failure,
        };
        record.add(&told)
    }

    /// A notice as it is sent.
    fn message(&self, notice: &Notice, goal: Option<&Goal>) -> NoticeMessage {
        let (id, line) = (notice.id.clone(), notice.line(goal));
        let origin: Option<Map<String, Value>> = goal.map(|goal| {
            goal.spec.origin.iter().map(|(key, text)| (key.clone(), json!(text))).collect()
        });
        let value = json!({
            "id": id,
            "kind": notice.kind.as_str(),
            "text": line,
            "time": stamp(notice.at),
            "goal": notice.epic.map(|epic| epic.to_string()),
            "title": goal.map(|goal| goal.spec.title.as_str()),
            "origin": origin,
            "command": with_installation(&self.global, &notice.command),
        });
        NoticeMessage { id, line, value }
    }

    /// Sends a notice until it arrives, is no news any more, or for an hour; gives how often, and why it did not.
    async fn deliver(
        &self,
        (name, address): (&ChannelName, &ChannelAddress),
        notice: &Notice,
        message: &NoticeMessage,
    ) -> (u32, Option<String>) {
        let mut retry = Retry::new(AGAIN.0, AGAIN.1, Some(AGAIN.2));
        for attempt in 1.. {
            let Err(undelivered) = self.sender.deliver(address, message).await else {
                return (attempt, None);
            };
            let why = undelivered.why;
            tracing::warn!(channel = %name, notice = message.id, why, "a notice did not arrive");
            if !undelivered.passes || !retry.pause().await {
                return (attempt, Some(why));
            }
            if !notice.holds(&self.known(notice).await) {
                return (attempt, Some(format!("{why}; then it was settled")));
            }
        }
        (u32::MAX, None)
    }

    /// Whether a notice goes by this channel: by all, unless its goal or turn names one.
    fn goes_by(&self, name: &ChannelName, notice: &Notice, goal: Option<&Goal>) -> bool {
        let Some(wanted) = notice.channel(&self.client.human, goal) else { return true };
        let mut known = self.channels.channels.keys();
        // One of them says it.
        let is_first = known.next() == Some(name);
        if is_first && wanted != name.as_str() && known.all(|known| known.as_str() != wanted) {
            tracing::warn!(
                notice = notice.id,
                channel = wanted,
                "a notice is for a channel that is not in people.channels, and for no other"
            );
        }
        wanted == name.as_str()
    }

    /// The goal that a notice is about, and what says whether it is still so. Waits while the bus is away, and a moment for
    /// STATE to show a goal that the ledger has.
    async fn known(&self, notice: &Notice) -> Records {
        let wanted: Vec<Select> = notice
            .epic
            .map(RecordKey::Goal)
            .into_iter()
            .chain(notice.record())
            .map(Select::One)
            .collect();
        if wanted.is_empty() {
            return Records::default();
        }
        let mut retry = Retry::new(SHOWN.0, SHOWN.1, None);
        loop {
            match StateSnapshot::read(&self.client.bus, &wanted).await {
                Ok(snapshot) => {
                    let records = snapshot.0.records;
                    let is_there = |epic| records.goals.contains_key(&epic);
                    let is_young = now() - notice.at < SHOWN_WITHIN;
                    let waits = is_young && !notice.epic.is_none_or(is_there);
                    if !waits {
                        return records;
                    }
                }
                Err(error) => tracing::debug!(%error, "what a notice is about cannot be read"),
            }
            retry.pause().await;
        }
    }
}

/// What an entry gives reason to tell; what is no valid entry is for `events`.
fn told_of(item: &LedgerItem) -> Vec<Notice> {
    item.entry.as_ref().map(Notice::of).unwrap_or_default()
}
