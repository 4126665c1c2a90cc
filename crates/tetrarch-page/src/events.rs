//! What happened, as the ledger tells it.

use maud::{Markup, html};
use tetrarch_view::amount::clock;
use tetrarch_view::event::EventRow;

use crate::address::{PageView, PastMoment};
use crate::render::PageExtra;
use crate::sheet::{agent, heads, link, nothing};

/// The events before a sequence, or the latest ones.
pub(crate) fn list(before: Option<u64>, extra: &PageExtra) -> Markup {
    let PageExtra::Events(rows) = extra else { return nothing("No events were read.") };
    let rows = match rows {
        Ok(rows) => rows,
        Err(why) => return html! { p class="bad" { (why) } },
    };
    let first = rows.last().map(|row| row.seq).filter(|seq| *seq > 1);
    html! {
        p {
            @if before.is_some() { (link(&PageView::Events(None), "latest")) " " }
            @if let Some(first) = first { (link(&PageView::Events(Some(first)), "earlier")) }
        }
        @if rows.is_empty() { (nothing("No events.")) } @else {
            table tabindex="0" {
                (heads(&["TIME (UTC)", "SEQUENCE", "KIND", "ABOUT", "WHY"]))
                tbody { @for row in rows { (line(row)) } }
            }
        }
    }
}

fn line(row: &EventRow) -> Markup {
    let event = &row.event;
    html! {
        tr {
            td { time { (clock(row.at)) } }
            td { (link(&PageView::Past(PastMoment::Seq(row.seq)), &row.seq.to_string())) }
            td { (event.kind.as_str()) }
            td {
                @match &event.agent {
                    Some(id) => { (agent(id)) }
                    None => { (event.actor) }
                }
                @if let (Some(epic), Some(node)) = (event.epic, event.node) {
                    " " (link(&PageView::Plan(epic), &node.to_string()))
                }
            }
            td { (event.reason) }
        }
    }
}
