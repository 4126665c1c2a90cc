//! The agents as they were after an entry of the ledger, with what moves through it.

use maud::{Markup, html};
use tetrarch_core::time::Millis;
use tetrarch_view::amount::clock;

use crate::address::{PageView, PastMoment, everybody};
use crate::fleet;
use crate::render::{PageExtra, PageModel};
use crate::sheet::{link, nothing};

/// How long ago the links lead.
const AGES: [Millis; 6] = [
    Millis(60_000),
    Millis(180_000),
    Millis(600_000),
    Millis(3_600_000),
    Millis(21_600_000),
    Millis(86_400_000),
];

/// The fleet as it was.
#[derive(Debug)]
pub struct PastFleet {
    /// After which entry.
    pub seq: u64,
    /// The first entry that is kept, and the last.
    pub kept: (u64, u64),
    /// The records of then, looked at then.
    pub model: PageModel,
}

/// What there was.
pub(crate) fn fleet(moment: PastMoment, extra: &PageExtra) -> Markup {
    let shown = match extra {
        PageExtra::Past(Ok(then)) => after(then),
        PageExtra::Past(Err(why)) => html! { p class="bad" { (why) } },
        PageExtra::Nothing
        | PageExtra::Transcript(..)
        | PageExtra::Diff(..)
        | PageExtra::Versions(_)
        | PageExtra::Events(_)
        | PageExtra::Bus(_) => html! {
            p class="bad" { "It takes too long to read. Try a later moment." }
        },
    };
    html! {
        p {
            (link(&everybody(), "now"))
            @for age in AGES {
                @let text = format!("{age} ago");
                " · "
                @if moment == PastMoment::Ago(age) { b { (text) } }
                @else { (link(&PageView::Past(PastMoment::Ago(age)), &text)) }
            }
        }
        (shown)
    }
}

fn after(then: &PastFleet) -> Markup {
    let (first, last) = then.kept;
    let at = |seq: u64| PageView::Past(PastMoment::Seq(seq));
    html! {
        form action="past" method="get" class="filter" {
            label for="seq" { "After entry" }
            input id="seq" name="seq" type="range" min=(first) max=(last) value=(then.seq) data-send="";
            output for="seq" { (then.seq) }
            button { "Show" }
            @if then.seq > first { (link(&at(then.seq - 1), "earlier")) " " }
            @if then.seq < last { (link(&at(then.seq + 1), "later")) " " }
            (link(&PageView::Events(Some(then.seq + 1)), "what happened until then"))
        }
        p class="count" { time { (clock(then.model.now)) } " UTC · " (then.model.rows.len()) " agents" }
        @if then.model.rows.is_empty() { (nothing("There were no agents.")) } @else { (fleet::past(&then.model)) }
    }
}
