//! A view as HTML: the whole document, and the parts of it that are sent again when they change. Everything goes out
//! through one function, which makes visible what would hide or turn text that agents wrote.

use std::collections::VecDeque;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use tetrarch_core::id::Principal;
use tetrarch_core::journal::JournalEvent;
use tetrarch_core::obstacle::{Obstacle, of_fleet};
use tetrarch_core::plan::PlanEvent;
use tetrarch_core::time::BusTime;
use tetrarch_view::event::EventRow;
use tetrarch_view::inbox::{InboxScope, inbox};
use tetrarch_view::news::{FleetImage, LinkState};
use tetrarch_view::row::{AgentRow, rows};
use tetrarch_view::text::visible;
use tetrarch_view::tone::Tone;

use crate::address::{PageView, everybody};
use crate::session::PageAct;
use crate::sheet::{age, toned};
use crate::{
    agent, conversations, cost, deciding, events, fleet, health, inbox as waiting, past, plan,
    search,
};

pub use crate::health::{BusHealth, OwnerSeen};
pub use crate::past::PastFleet;

/// The fleet as the page shows it.
#[derive(Debug)]
pub struct PageModel {
    /// Who looks.
    pub human: Principal,
    /// What was heard.
    pub fleet: FleetImage,
    /// A row for each agent, in the order of their names.
    pub rows: Vec<AgentRow>,
    /// What keeps work from starting.
    pub(crate) obstacles: Vec<Obstacle>,
    /// When that was.
    pub now: BusTime,
}

impl PageModel {
    /// A fleet of which nothing was heard.
    #[must_use]
    pub fn new(human: Principal) -> Self {
        let (rows, obstacles) = (Vec::new(), Vec::new());
        Self { human, fleet: FleetImage::default(), rows, obstacles, now: BusTime(0) }
    }

    /// Makes the rows and obstacles of what was heard until now.
    pub fn refresh(&mut self, now: BusTime) {
        self.now = now;
        self.obstacles = of_fleet(&self.fleet.fold.records, &self.fleet.telemetry);
        self.rows = rows(&self.fleet.fold.records, &self.fleet.reported, now);
    }

    /// How many things wait for whoever looks.
    fn waiting(&self) -> usize {
        let scope = InboxScope { human: &self.human, everyone: false, closed: false };
        inbox(&self.fleet.fold.records, &self.obstacles, scope).len()
    }
}

/// Who looks, and from where.
#[derive(Debug)]
pub struct PageVisit<'v> {
    /// The path that everything is below, with a slash at both ends.
    pub place: &'v str,
    /// What the forms of this page carry.
    pub form: &'v str,
    /// What was asked for last.
    pub acts: Vec<PageAct>,
}

/// What a view shows that is not among the records.
#[derive(Debug, Default)]
pub enum PageExtra {
    /// Nothing.
    #[default]
    Nothing,
    /// The end of a journal, and the words since its last entry.
    Transcript(VecDeque<(BusTime, JournalEvent)>, String),
    /// The diff of the change with this digest, or why it cannot be read.
    Diff(String, Result<String, String>),
    /// The versions of a plan, or why they cannot be read.
    Versions(Result<Vec<PlanEvent>, String>),
    /// Events, the newest first.
    Events(Result<Vec<EventRow>, String>),
    /// How the bus is, or why that is not known.
    Bus(Result<BusHealth, String>),
    /// The fleet as it was, or why it cannot be read.
    Past(Result<Box<PastFleet>, String>),
}

/// A view in its parts: what stays as it was loaded, and what is sent again.
#[derive(Debug, Default)]
pub(crate) struct PageParts {
    pub(crate) title: String,
    pub(crate) before: Markup,
    pub(crate) live: Markup,
    pub(crate) after: Markup,
}

fn parts(
    model: &PageModel,
    visit: &PageVisit<'_>,
    view: &PageView,
    extra: &PageExtra,
) -> PageParts {
    let live = |title: &str, live: Markup| PageParts {
        title: title.to_owned(),
        live,
        ..PageParts::default()
    };
    match view {
        PageView::Fleet(wish, part) => live("Fleet", fleet::list(model, wish, *part)),
        PageView::Agent(id) => agent::parts(model, visit, id, extra),
        PageView::Goals => live("Goals", plan::goals(model)),
        PageView::Plan(epic) => live("Plan", plan::plan(model, *epic)),
        PageView::History(epic) => live("Plan history", plan::history(model, *epic, extra)),
        PageView::Inbox(everyone) => live("Inbox", waiting::list(model, *everyone)),
        PageView::Conversations => live("Conversations", conversations::list(model)),
        PageView::Question(id) => deciding::question(model, visit, *id),
        PageView::Change(id) => deciding::change(model, visit, *id, extra),
        PageView::Draft(id) => deciding::draft(model, visit, *id),
        PageView::Hosts => live("Hosts", health::hosts(model, extra)),
        PageView::Cost => live("Cost", cost::cost(model)),
        PageView::Events(before) => live("Events", events::list(*before, extra)),
        PageView::Past(moment) => live("Fleet as it was", past::fleet(*moment, extra)),
        PageView::Search(words) => live("Search", search::found(model, words)),
    }
}

/// The whole document.
#[must_use]
pub fn document(
    model: &PageModel,
    visit: &PageVisit<'_>,
    view: &PageView,
    extra: &PageExtra,
) -> String {
    let shown = parts(model, visit, view, extra);
    let words = if let PageView::Search(words) = view { words.as_str() } else { "" };
    out(html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (shown.title) " - tetrarch" }
                base href=(visit.place);
                link rel="icon" href="icon.svg" type="image/svg+xml";
                link rel="stylesheet" href="page.css";
                script src="page.js" defer {}
            }
            body data-live={ "live/" (view.href().trim_start_matches("./")) } data-form=(visit.form) {
                a class="skip" href={ (view.href()) "#main" } { "Skip to content" }
                header {
                    nav aria-label="Views" { (views(view)) }
                    form action="search" method="get" role="search" {
                        label for="words" { "Search" }
                        input id="words" name="q" type="search" value=(words) maxlength="200" autocomplete="off";
                        button { "Find" }
                    }
                }
                div id="status" role="status" { (status(model, visit)) }
                main id="main" tabindex="-1" {
                    h1 { (shown.title) }
                    (shown.before)
                    div id="live" { (shown.live) }
                    (shown.after)
                }
                (help())
            }
        }
    })
}

/// The parts that are sent again when they change, by their names.
#[must_use]
pub fn regions(
    model: &PageModel,
    visit: &PageVisit<'_>,
    view: &PageView,
    extra: &PageExtra,
) -> [(&'static str, String); 2] {
    let live = parts(model, visit, view, extra).live;
    [("status", out(status(model, visit))), ("live", out(live))]
}

/// A document that says one thing.
#[must_use]
pub fn message(title: &str, text: &str) -> String {
    out(html! {
        (DOCTYPE)
        html lang="en" { head { meta charset="utf-8"; title { (title) " - tetrarch" } } body { h1 { (title) } p { (text) } } }
    })
}

/// The one way out: what agents wrote turns no text around and hides none.
fn out(markup: Markup) -> String {
    let PreEscaped(text) = markup;
    text.split('\n').map(visible).collect::<Vec<_>>().join("\n")
}

fn views(view: &PageView) -> Markup {
    let all = [
        (everybody(), "Fleet"),
        (PageView::Goals, "Goals"),
        (PageView::Inbox(false), "Inbox"),
        (PageView::Conversations, "Conversations"),
        (PageView::Hosts, "Hosts"),
        (PageView::Cost, "Cost"),
        (PageView::Events(None), "Events"),
    ];
    html! {
        ul {
            @for (one, name) in &all {
                @let here = std::mem::discriminant(one) == std::mem::discriminant(view);
                li { a href=(one.href()) aria-current=[here.then_some("page")] { (name) } }
            }
        }
    }
}

/// How what is shown stands to what is, what waits, and what became of what was asked for.
fn status(model: &PageModel, visit: &PageVisit<'_>) -> Markup {
    let (word, tone) = match &model.fleet.link {
        LinkState::Opening => ("reading the bus".to_owned(), Tone::Warn),
        LinkState::Live if !model.fleet.telemetry.owner => {
            ("no owner: nothing is decided".to_owned(), Tone::Bad)
        }
        LinkState::Live => ("live".to_owned(), Tone::Good),
        LinkState::Stale(since) => {
            (format!("STALE for {}: the bus is away", age(model.now - *since)), Tone::Bad)
        }
    };
    let waiting = model.waiting();
    html! {
        p {
            (toned(&word, tone))
            " · " (model.human) " · "
            span data-waiting=(waiting) {
                @if waiting > 0 { a href=(PageView::Inbox(false).href()) class="warn" { (waiting) " for you" } }
                @else { "nothing waits for you" }
            }
        }
        @for act in &visit.acts { p class="act" { (act_line(model, act)) } }
    }
}

fn act_line(model: &PageModel, act: &PageAct) -> Markup {
    let agent = act.agent.as_ref().and_then(|id| model.fleet.fold.records.agents.get(id));
    let receipt = agent.and_then(|agent| agent.verbs.receipts.iter().find(|it| it.id == act.id));
    html! {
        (act.what) ": "
        @match (&act.outcome, receipt) {
            (Err(why), _) => { (toned(why, Tone::Bad)) }
            (Ok(_), Some(receipt)) => {
                (toned(receipt.stage.as_str(), Tone::Good)) " " (receipt.why)
            }
            (Ok(said), None) => { (toned(if said.is_empty() { "done" } else { said }, Tone::Good)) }
        }
    }
}

fn help() -> Markup {
    let keys = [
        ("/", "search"),
        ("j k", "next and previous line"),
        ("Enter", "open the line"),
        ("g", "fleet"),
        ("a", "inbox"),
        ("?", "this list"),
    ];
    html! {
        dialog id="help" aria-label="Keys" {
            h2 { "Keys" }
            dl { @for (key, does) in keys { dt { kbd { (key) } } dd { (does) } } }
            form method="dialog" { button { "Close" } }
        }
    }
}
