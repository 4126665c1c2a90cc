//! What a view shows that is not among the records, each read when it is asked for: a transcript, a diff, versions,
//! events, the bus.

use std::time::Duration;

use futures::StreamExt;
use tetrarch_bus::intake::dead_letters;
use tetrarch_bus::journal::JournalName;
use tetrarch_bus::lease::{Lease, LeaseKey};
use tetrarch_bus::state::load_meta;
use tetrarch_bus::subject::pattern::LEDGER;
use tetrarch_core::id::ChangeId;
use tetrarch_core::time::BusTime;
use tetrarch_page::address::{PageView, PastMoment};
use tetrarch_page::render::{BusHealth, OwnerSeen, PageExtra, PageModel, PastFleet};
use tetrarch_view::event::{EVENTS_SHOWN, EventRow};
use tetrarch_view::fold::RecordFold;
use tetrarch_view::news::RunNews;
use tetrarch_view::order::find;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::JoinSet;

use crate::command::change::diff_to_decide;
use crate::command::following::{JOURNAL_END, JournalTail, read_along, read_end};
use crate::command::plan::versions;
use crate::command::replay::{self, PastImages};
use crate::history::{self, Since};
use crate::{CliError, CliResult, HumanClient};

/// News of one view that wait to be taken in.
const NEWS_MAX: usize = 64;
/// Bytes of streamed text that are kept.
const STREAMED_MAX: usize = 16_384;
/// How often the bus is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How long the bus may take to answer.
const ANSWERED_WITHIN: Duration = Duration::from_secs(5);

/// Something that was heard for one view.
#[derive(Debug)]
enum ViewNews {
    Run(RunNews),
    Event(EventRow),
    Bus(Result<BusHealth, String>),
}

/// The run that an agent makes.
fn run_of(model: &PageModel, view: &PageView) -> Option<JournalName> {
    let PageView::Agent(id) = view else { return None };
    let run = find(&model.rows, id)?.run?;
    Some(JournalName { agent: id.clone(), run })
}

fn change_of(model: &PageModel, id: ChangeId) -> Option<(String, String)> {
    let change = model.fleet.fold.records.changes.get(&id)?;
    Some((change.made.action.digest(), change.made.action.diff.clone()))
}

/// What of the records is needed to read what a view shows besides them.
#[derive(Debug)]
pub(super) struct SourceKey {
    run: Option<JournalName>,
    change: Option<(String, String)>,
}

impl SourceKey {
    /// What a view needs.
    pub(super) fn of(model: &PageModel, view: &PageView) -> Self {
        let change = if let PageView::Change(id) = view { change_of(model, *id) } else { None };
        Self { run: run_of(model, view), change }
    }
}

/// Reads what a view shows besides the records.
pub(super) async fn read(client: &HumanClient, view: &PageView, key: SourceKey) -> PageExtra {
    let read = tokio::time::timeout(ANSWERED_WITHIN, reading(client, view, key));
    read.await.unwrap_or_default()
}

async fn reading(client: &HumanClient, view: &PageView, key: SourceKey) -> PageExtra {
    let bus = &client.bus;
    match view {
        PageView::Agent(_) => {
            let Some(name) = key.run else { return PageExtra::Nothing };
            match read_end(bus, &name).await {
                Ok(tail) => PageExtra::Transcript(tail, String::new()),
                Err(error) => PageExtra::Transcript(JournalTail::new(), error.what),
            }
        }
        PageView::Change(id) => {
            let Some((digest, diff)) = key.change else { return PageExtra::Nothing };
            PageExtra::Diff(digest, diff_to_decide(client, *id, &diff).await)
        }
        PageView::History(epic) => {
            PageExtra::Versions(versions(bus, *epic).await.map_err(|error| error.what))
        }
        PageView::Events(before) => {
            PageExtra::Events(events(client, *before).await.map_err(|error| error.what))
        }
        PageView::Hosts => PageExtra::Bus(health(client).await.map_err(|error| error.what)),
        PageView::Past(moment) => {
            PageExtra::Past(past(client, *moment).await.map(Box::new).map_err(|error| error.what))
        }
        PageView::Fleet(..)
        | PageView::Goals
        | PageView::Plan(_)
        | PageView::Inbox(_)
        | PageView::Conversations
        | PageView::Question(_)
        | PageView::Draft(_)
        | PageView::Cost
        | PageView::Search(_) => PageExtra::Nothing,
    }
}

/// Events before a sequence, the newest first.
async fn events(client: &HumanClient, before: Option<u64>) -> CliResult<Vec<EventRow>> {
    let last = match before {
        Some(before) => before.saturating_sub(1),
        None => client.bus.stream_last_seq(LEDGER).await?,
    };
    history::latest_events(&client.bus, last, None).await
}

/// The fleet as it was.
async fn past(client: &HumanClient, moment: PastMoment) -> CliResult<PastFleet> {
    let moment = match moment {
        PastMoment::Seq(seq) => Since::Seq(seq),
        PastMoment::Ago(ago) => Since::Ago(ago),
    };
    let PastImages { through, at, kept, images } = replay::past(&client.bus, moment).await?;
    let mut model = PageModel::new(client.human.clone());
    model.fleet.fold = RecordFold::past(&images);
    model.refresh(at);
    Ok(PastFleet { seq: through, kept, model })
}

async fn health(client: &HumanClient) -> CliResult<BusHealth> {
    let bus = &client.bus;
    let (lease, meta, last, dead) = tokio::join!(
        Lease::look(bus, &LeaseKey::Go),
        load_meta(bus),
        bus.stream_last_seq(LEDGER),
        dead_letters(bus),
    );
    let meta = meta.map_err(CliError::failed)?;
    let holder = lease?.and_then(|seen| seen.holder);
    let server = bus.client().server_info();
    Ok(BusHealth {
        url: format!("nats://{}:{}", server.host, server.port),
        version: server.version,
        owner: holder.map(|holder| OwnerSeen {
            address: holder.address,
            epoch: holder.epoch,
            since: BusTime(holder.since_unix_ms),
        }),
        last: last?,
        published: meta.unwrap_or_default().outbox_through,
        dead: dead?
            .into_iter()
            .map(|(origin, count)| (origin.as_str().to_owned(), count))
            .collect(),
    })
}

/// What one view is told as it comes.
#[derive(Debug)]
pub(super) struct ViewSource {
    client: HumanClient,
    view: PageView,
    run: Option<JournalName>,
    tell: Sender<ViewNews>,
    news: Receiver<ViewNews>,
    tasks: JoinSet<()>,
    /// What it came to.
    pub(super) extra: PageExtra,
}

impl ViewSource {
    /// Begins to hear what a view shows.
    pub(super) async fn open(client: HumanClient, view: PageView, key: SourceKey) -> Self {
        let (tell, news) = mpsc::channel(NEWS_MAX);
        let mut it = Self {
            client,
            view,
            run: None,
            tell,
            news,
            tasks: JoinSet::new(),
            extra: PageExtra::Nothing,
        };
        it.begin(key).await;
        it
    }

    async fn begin(&mut self, key: SourceKey) {
        let (client, tell) = (self.client.clone(), self.tell.clone());
        if let PageView::Agent(_) = &self.view {
            return self.follow(key.run);
        }
        if let PageView::Hosts = &self.view {
            return drop(self.tasks.spawn(follow_bus(client, tell)));
        }
        if let PageView::Change(_) = &self.view {
            // The diff is not sent again: what was shown is what is decided on.
            let shown = key.change.map(|(digest, _)| PageExtra::Diff(digest, Ok(String::new())));
            self.extra = shown.unwrap_or_default();
            return;
        }
        // Read before the events: what comes after it is followed.
        let last = if let PageView::Events(None) = &self.view {
            client.bus.stream_last_seq(LEDGER).await.ok()
        } else {
            None
        };
        self.extra = reading(&client, &self.view, key).await;
        if let Some(last) = last {
            self.tasks.spawn(follow_events(client, tell, last + 1));
        }
    }

    /// Reads along with a run, and no other.
    fn follow(&mut self, run: Option<JournalName>) {
        self.tasks = JoinSet::new();
        self.extra = PageExtra::Transcript(JournalTail::new(), String::new());
        self.run.clone_from(&run);
        if let Some(name) = run {
            let (tell_run, mut heard) = mpsc::channel(NEWS_MAX);
            let tell = self.tell.clone();
            self.tasks.spawn(read_along(self.client.clone(), tell_run, name));
            self.tasks.spawn(async move {
                while let Some(news) = heard.recv().await {
                    if tell.send(ViewNews::Run(news)).await.is_err() {
                        return;
                    }
                }
            });
        }
    }

    /// An agent may make another run than before.
    pub(super) fn look(&mut self, model: &PageModel) {
        let run = run_of(model, &self.view);
        if run.is_some() && run != self.run {
            self.follow(run);
        }
    }

    /// Waits for something and takes in all that is there.
    pub(super) async fn hear(&mut self) {
        // It holds a sender itself, so there is always more to wait for.
        if let Some(news) = self.news.recv().await {
            self.take(news);
        }
    }

    /// Takes in what is there.
    pub(super) fn drain(&mut self) {
        while let Ok(news) = self.news.try_recv() {
            self.take(news);
        }
    }

    fn take(&mut self, news: ViewNews) {
        let own = self.run.as_ref().map(|name| name.run);
        match (news, &mut self.extra) {
            (
                ViewNews::Run(RunNews::Journal { run, entries }),
                PageExtra::Transcript(tail, said),
            ) if Some(run) == own => {
                said.clear();
                tail.extend(entries);
                tail.drain(..tail.len().saturating_sub(JOURNAL_END));
            }
            (ViewNews::Run(RunNews::Text { run, text }), PageExtra::Transcript(_, said))
                if Some(run) == own =>
            {
                said.push_str(&text);
                let over = said.len().saturating_sub(STREAMED_MAX);
                let from = (over..said.len()).find(|at| said.is_char_boundary(*at));
                said.drain(..from.unwrap_or(over));
            }
            (ViewNews::Event(row), PageExtra::Events(Ok(rows))) => {
                rows.insert(0, row);
                rows.truncate(EVENTS_SHOWN);
            }
            (ViewNews::Bus(health), extra) => *extra = PageExtra::Bus(health),
            // Of a run that is not the one any more.
            (ViewNews::Run(_) | ViewNews::Event(_), _) => {}
        }
    }
}

async fn follow_events(client: HumanClient, tell: Sender<ViewNews>, from: u64) {
    let mut events = std::pin::pin!(history::events(&client.bus, from, None));
    while let Some(rows) = events.next().await {
        for row in rows {
            if tell.send(ViewNews::Event(row)).await.is_err() {
                return;
            }
        }
    }
}

async fn follow_bus(client: HumanClient, tell: Sender<ViewNews>) {
    loop {
        let seen = tokio::time::timeout(ANSWERED_WITHIN, health(&client)).await;
        let seen = match seen {
            Ok(seen) => seen.map_err(|error| error.what),
            Err(_) => Err(format!("no answer within {} s", ANSWERED_WITHIN.as_secs())),
        };
        if tell.send(ViewNews::Bus(seen)).await.is_err() {
            return;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
