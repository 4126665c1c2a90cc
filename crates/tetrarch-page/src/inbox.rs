//! What waits for people, what holds up most first (spec 08, IO).

use maud::{Markup, html};
use tetrarch_core::obstacle::Obstacle;
use tetrarch_core::time::BusTime;
use tetrarch_view::inbox::{
    InboxItem, InboxScope, change_in_words, draft_in_words, inbox, turn_answer,
};
use tetrarch_view::text::unmixed;

use crate::address::PageView;
use crate::render::PageModel;
use crate::sheet::{age, agent, heads, link, nothing};

/// The list.
pub(crate) fn list(model: &PageModel, everyone: bool) -> Markup {
    let records = &model.fleet.fold.records;
    let scope = InboxScope { human: &model.human, everyone, closed: false };
    let items = inbox(records, &model.obstacles, scope);
    let other = if everyone { "only what waits for you" } else { "with what waits for others" };
    html! {
        p { (link(&PageView::Inbox(!everyone), other)) }
        @if items.is_empty() {
            (nothing("Nothing waits for you. Questions, changes and plan drafts are listed here."))
        } @else {
            table tabindex="0" {
                (heads(&["WHAT", "AGE", "FROM", "HOLDS UP", "ASKS"]))
                tbody { @for item in &items { (line(model, item, item.obstacle(&model.obstacles))) } }
            }
        }
    }
}

fn line(model: &PageModel, item: &InboxItem<'_>, obstacle: Option<&Obstacle>) -> Markup {
    let since = item.since();
    let waits = if since == BusTime(u64::MAX) { String::new() } else { age(model.now - since) };
    let held = obstacle.map_or(0, |it| it.holds_up);
    let opened = |view: PageView, id: String, word: &str| {
        html! { a class="row" id={ "row-" (id) } href=(view.href()) { (word) } }
    };
    let (what, from, asks) = match item {
        InboxItem::Question(it) => (
            opened(PageView::Question(it.id), it.id.to_string(), "question"),
            agent(&it.agent),
            it.text.clone(),
        ),
        InboxItem::Turn(it) => {
            (html! { "conversation" }, html! { (it.id.conversation) }, it.answer.clone())
        }
        InboxItem::Change(it) => (
            opened(PageView::Change(it.id), it.id.to_string(), "change"),
            agent(&it.agent),
            change_in_words(it, model.now),
        ),
        InboxItem::Draft(it, _) => (
            opened(PageView::Draft(it.id), it.id.to_string(), "draft"),
            html! { (it.author) },
            draft_in_words(it),
        ),
        InboxItem::Obstacle(it) => (
            html! { (it.kind.as_str().replace('_', " ")) },
            html! { (it.subject) },
            it.what.clone(),
        ),
    };
    html! {
        tr {
            td { (what) } td { (waits) } td { (from) } td { (held) }
            td {
                (unmixed(&asks))
                @if let InboxItem::Obstacle(it) = item { (remedies(it)) }
                @if let InboxItem::Turn(it) = item { (next(&turn_answer(it))) }
            }
        }
    }
}

fn remedies(obstacle: &Obstacle) -> Markup {
    html! { @for remedy in &obstacle.remedies { (next(&remedy.words().join(" "))) } }
}

fn next(words: &str) -> Markup {
    html! { div { "next: " code { "tetrarch " (words) } } }
}
