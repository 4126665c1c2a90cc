//! The agents: what needs somebody first, then the tree, or by a column (spec 08, Roster).

use maud::{Markup, html};
use tetrarch_core::budget::Spend;
use tetrarch_core::time::Millis;
use tetrarch_view::amount::{cost, count};
use tetrarch_view::burn::bars;
use tetrarch_view::order::{ListLine, ListWish, SortColumn, alarms, lines};
use tetrarch_view::row::{AgentRow, short};

use crate::address::{PageView, PastMoment, turned};
use crate::render::PageModel;
use crate::sheet::{age, heads, link, nothing, state, toned};

/// Agents of one page of the list.
const LINES_SHOWN: usize = 200;
/// Levels that are moved to the right each by itself.
const INDENTS: usize = 6;

/// The list.
pub(crate) fn list(model: &PageModel, wish: &ListWish, part: usize) -> Markup {
    let lines = lines(&model.rows, wish);
    let parts = lines.len().div_ceil(LINES_SHOWN).max(1);
    let part = part.min(parts - 1);
    let shown: Vec<&ListLine> = lines.iter().skip(part * LINES_SHOWN).take(LINES_SHOWN).collect();
    html! {
        p class="count" {
            (lines.len()) " of " (model.rows.len()) " agents, " (alarms(&model.rows)) " with an alert"
        }
        (choices(wish))
        @if shown.is_empty() { (nothing("No agents match.")) } @else {
            table class="fleet" tabindex="0" {
                thead { tr { @for column in SortColumn::ALL { (head(wish, column)) } } }
                tbody { @for one in shown { (line(model, Some(wish), *one)) } }
            }
        }
        @if parts > 1 { (others(wish, part, parts)) }
    }
}

/// The list of a time that is over: nothing of it is folded or sorted.
pub(crate) fn past(model: &PageModel) -> Markup {
    let wish = ListWish { ended: true, ..ListWish::default() };
    let names: Vec<&str> = SortColumn::ALL.into_iter().map(SortColumn::as_str).collect();
    html! {
        table class="fleet" tabindex="0" {
            (heads(&names))
            tbody { @for one in lines(&model.rows, &wish).into_iter().take(LINES_SHOWN) { (line(model, None, one)) } }
        }
    }
}

fn of(wish: &ListWish, change: impl FnOnce(&mut ListWish)) -> PageView {
    let mut wish = wish.clone();
    change(&mut wish);
    PageView::Fleet(Box::new(wish), 0)
}

fn choices(wish: &ListWish) -> Markup {
    let ended =
        if wish.ended { "without those that have ended" } else { "with those that have ended" };
    html! {
        form action="./" method="get" class="filter" {
            label for="filter" { "Filter" }
            input id="filter" name="q" value=(wish.filter) maxlength="200" autocomplete="off";
            @if wish.ended { input type="hidden" name="ended" value="1"; }
            button { "Apply" }
            " " (link(&of(wish, |wish| wish.ended = !wish.ended), ended))
            " " (link(&PageView::Past(PastMoment::Ago(Millis(180_000))), "as it was"))
            @if *wish != ListWish::default() { " " (link(&crate::address::everybody(), "reset")) }
        }
    }
}

fn head(wish: &ListWish, column: SortColumn) -> Markup {
    let own = wish.column == column;
    let next = of(wish, |wish| {
        wish.reversed = own && !wish.reversed;
        wish.column = column;
    });
    let order = if wish.reversed { "descending" } else { "ascending" };
    html! {
        th scope="col" class=(name(column)) aria-sort=[own.then_some(order)] {
            (link(&next, column.as_str())) @if own { span aria-hidden="true" { " ▾" } }
        }
    }
}

/// The class of a column: narrow screens leave some out.
fn name(column: SortColumn) -> String {
    format!("c-{}", column.as_str().to_lowercase())
}

fn line(model: &PageModel, wish: Option<&ListWish>, line: ListLine) -> Markup {
    let Some(row) = model.rows.get(line.row) else { return html! {} };
    let cell = |column: SortColumn, text: Markup| html! { td class=(name(column)) { (text) } };
    let words = |text: &str| html! { (text) };
    let amount = |amount: u64| html! { @if amount > 0 { (count(amount)) } };
    html! {
        tr {
            (cell(SortColumn::Attention, toned(row.alarm.as_str(), row.alarm.tone())))
            (cell(SortColumn::Name, named(wish, row, line)))
            (cell(SortColumn::State, state(row.state)))
            (cell(SortColumn::Intent, words(&row.intent)))
            (cell(SortColumn::Model, words(&row.model)))
            (cell(SortColumn::TokensIn, amount(row.tokens_in)))
            (cell(SortColumn::TokensOut, amount(row.tokens_out)))
            (cell(SortColumn::Cost, words(&cost(row.cost_micro))))
            (cell(SortColumn::Tool, words(&row.tool)))
            (cell(SortColumn::Burn, burn(model, row)))
            (cell(SortColumn::Elapsed, words(&row.elapsed.map(age).unwrap_or_default())))
            (cell(SortColumn::Host, words(&row.host)))
        }
    }
}

fn named(wish: Option<&ListWish>, row: &AgentRow, line: ListLine) -> Markup {
    let (hidden, spent) = line.hidden;
    let indent = line.indent.min(INDENTS);
    html! {
        span class={ "in" (indent) } {
            a class="row" id={ "row-" (row.id) } href=(PageView::Agent(row.id.clone()).href()) title=(row.id) {
                (short(&row.id))
            }
            @if let Some(wish) = wish { (fold(wish, row, hidden, spent)) }
        }
    }
}

/// What hides or shows who is below an agent.
fn fold(wish: &ListWish, row: &AgentRow, hidden: usize, spent: u64) -> Markup {
    let href = turned(wish, &row.id).href();
    html! {
        @if hidden > 0 {
            " " a class="fold" href=(href) { "+" (hidden) " hidden " (cost(spent)) }
        } @else if row.work.is_none() {
            " " a class="fold" href=(href) aria-label={ "hide who is below " (row.id) } { "−" }
        }
    }
}

/// The burn of the last hour, in bars of a minute.
fn burn(model: &PageModel, row: &AgentRow) -> Markup {
    if row.rate == Spend::default() {
        return html! {};
    }
    let vitals = model.fleet.reported.get(&row.id);
    let bars = vitals.map(|vitals| bars(&vitals.burn.by(model.now))).unwrap_or_default();
    let said =
        format!("{} tokens, {} in 5 minutes", count(row.rate.tokens), cost(row.rate.cost_micro));
    html! { span class="burn" role="img" aria-label=(said) title=(said) { (bars) } }
}

fn others(wish: &ListWish, part: usize, parts: usize) -> Markup {
    let at = |part: usize| PageView::Fleet(Box::new(wish.clone()), part);
    html! {
        nav aria-label="Pages of the list" class="parts" {
            @if part > 0 { (link(&at(part - 1), "previous")) " " }
            "page " (part + 1) " of " (parts)
            @if part + 1 < parts { " " (link(&at(part + 1), "next")) }
        }
    }
}
