//! The list of agents: which columns fit, and a line for each agent in sight.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use tetrarch_core::limits::BURN_BUCKETS;
use tetrarch_core::run::RunState;
use tetrarch_view::alarm::Alarm;
use tetrarch_view::amount::{cost, count};
use tetrarch_view::burn::bars;
use tetrarch_view::news::LinkState;
use tetrarch_view::order::{ListLine, SortColumn, alarms};
use tetrarch_view::row::AgentRow;
use tetrarch_view::row::short;
use tetrarch_view::text::visible;
use tetrarch_view::tone::{Tone, tone_of};

use super::texts::{fitted, right};
use super::{Painter, put, put_all, title};
use crate::model::RosterModel;

/// The columns that there are, with their widths and the width of the terminal from which on they are shown.
/// What an agent is about takes what is left.
const COLUMNS: [(SortColumn, usize, usize); 12] = [
    (SortColumn::Attention, 8, 0),
    (SortColumn::Name, 20, 0),
    (SortColumn::State, 14, 0),
    (SortColumn::Intent, 0, 0),
    (SortColumn::Model, 14, 118),
    (SortColumn::TokensIn, 6, 132),
    (SortColumn::TokensOut, 6, 132),
    (SortColumn::Cost, 8, 0),
    (SortColumn::Tool, 14, 146),
    (SortColumn::Burn, 10, 96),
    (SortColumn::Elapsed, 7, 0),
    (SortColumn::Host, 12, 160),
];
/// From which width on burn is shown whole, and names and tools have more room.
const WIDE: usize = 220;
/// The least columns for what an agent is about.
const INTENT_MIN: usize = 8;

/// The columns of a terminal, each with its width.
fn columns(width: usize) -> Vec<(SortColumn, usize)> {
    let shown = COLUMNS.into_iter().filter(|(_, _, from)| width >= *from);
    let mut columns: Vec<(SortColumn, usize)> = shown
        .map(|(column, own, _)| match column {
            SortColumn::Burn if width >= WIDE => (column, BURN_BUCKETS),
            SortColumn::Name | SortColumn::Tool if width >= WIDE => (column, own + 12),
            SortColumn::Attention
            | SortColumn::Name
            | SortColumn::State
            | SortColumn::Intent
            | SortColumn::Model
            | SortColumn::TokensIn
            | SortColumn::TokensOut
            | SortColumn::Cost
            | SortColumn::Tool
            | SortColumn::Burn
            | SortColumn::Elapsed
            | SortColumn::Host => (column, own),
        })
        .collect();
    let used: usize = columns.iter().map(|(_, own)| own + 1).sum();
    let rest = width.saturating_sub(used).max(INTENT_MIN);
    for (column, own) in &mut columns {
        if *column == SortColumn::Intent {
            *own = rest;
        }
    }
    columns
}

/// Draws the list.
pub(super) fn draw(
    model: &RosterModel,
    painter: Painter,
    [head, body]: [Rect; 2],
    buffer: &mut Buffer,
) {
    title(model, painter, head, buffer, summary(model, painter));
    let columns = columns(usize::from(head.width));
    let names = Rect { y: head.y + 1, height: head.height.saturating_sub(1), ..head };
    put(buffer, names, &heading(model, painter, &columns));
    if model.lines.is_empty() {
        put(buffer, body, &Line::styled(nobody(model), painter.tone(Tone::Faint)));
        return;
    }
    let shown = model.lines.iter().skip(model.top).take(usize::from(body.height));
    let lines = shown.filter_map(|line| {
        let row = model.rows.get(line.row)?;
        Some(one(model, painter, &columns, row, *line))
    });
    put_all(buffer, body, lines);
}

/// What is said where nobody is listed.
fn nobody(model: &RosterModel) -> &'static str {
    match model.fleet.link {
        _ if model.past.is_some() && model.rows.is_empty() => "There were no agents.",
        LinkState::Opening => "Reading the bus.",
        LinkState::Live | LinkState::Stale(_) if model.rows.is_empty() => {
            "No agents. Give the fleet a plan: tetrarch run PLAN"
        }
        LinkState::Live | LinkState::Stale(_) => "No agents match. Esc leaves the filter.",
    }
}

/// How the fleet is, in one line.
fn summary(model: &RosterModel, painter: Painter) -> Line<'static> {
    let living = model.rows.iter().filter(|row| !row.ended);
    let (mut all, mut works, mut micro) = (0_usize, 0_usize, 0_u64);
    for row in living {
        all += 1;
        works += usize::from(row.state == RunState::Running.as_str());
        micro = micro.saturating_add(row.cost_micro);
    }
    let (alarms, waits) = (alarms(&model.rows), model.waiting().len());
    let loud = |count: usize| if count > 0 { Tone::Warn } else { Tone::Plain };
    let mut spans = vec![
        painter.span(&format!(" {all} agents"), Tone::Head),
        Span::raw(format!(", {works} at work")),
        Span::raw("  "),
        painter.span(&format!("{alarms} alerts"), loud(alarms)),
        Span::raw("  "),
        painter.span(&format!("{waits} for you"), loud(waits)),
        Span::raw(format!("  {}", cost(micro))),
    ];
    if !model.wish.filter.is_empty() {
        spans.push(painter.span(&format!("  /{}", model.wish.filter), Tone::Head));
    }
    Line::from(spans)
}

fn heading(
    model: &RosterModel,
    painter: Painter,
    columns: &[(SortColumn, usize)],
) -> Line<'static> {
    let name = |(column, width): &(SortColumn, usize)| {
        let arrow = match (*column == model.wish.column, model.wish.reversed) {
            (false, _) => "",
            (true, false) => "▼",
            (true, true) => "▲",
        };
        let text = format!("{}{arrow}", column.as_str());
        let text = if is_amount(*column) { right(&text, *width) } else { fitted(&text, *width) };
        painter.span(&format!("{text} "), Tone::Head)
    };
    Line::from(columns.iter().map(name).collect::<Vec<_>>())
}

fn is_amount(column: SortColumn) -> bool {
    match column {
        SortColumn::TokensIn | SortColumn::TokensOut | SortColumn::Cost | SortColumn::Elapsed => {
            true
        }
        SortColumn::Attention
        | SortColumn::Name
        | SortColumn::State
        | SortColumn::Intent
        | SortColumn::Model
        | SortColumn::Tool
        | SortColumn::Burn
        | SortColumn::Host => false,
    }
}

fn one(
    model: &RosterModel,
    painter: Painter,
    columns: &[(SortColumn, usize)],
    row: &AgentRow,
    line: ListLine,
) -> Line<'static> {
    let is_selected = model.selected.as_ref() == Some(&row.id);
    let mut spans = Vec::with_capacity(columns.len());
    for (column, width) in columns {
        let (text, tone) = cell(model, row, line, *column, *width);
        let text = visible(&text);
        let text = if is_amount(*column) { right(&text, *width) } else { fitted(&text, *width) };
        let mut style = painter.tone(tone);
        if row.ended && row.alarm == Alarm::Quiet {
            style = style.add_modifier(Modifier::DIM);
        }
        spans.push(Span::styled(format!("{text} "), style));
    }
    let line = Line::from(spans);
    if is_selected { line.patch_style(Modifier::REVERSED) } else { line }
}

fn cell(
    model: &RosterModel,
    row: &AgentRow,
    line: ListLine,
    column: SortColumn,
    width: usize,
) -> (String, Tone) {
    match column {
        SortColumn::Attention => (row.alarm.as_str().to_owned(), row.alarm.tone()),
        SortColumn::Name => (name(row, line), Tone::Plain),
        SortColumn::State => (row.state.to_owned(), tone_of(row.state)),
        SortColumn::Intent => (row.intent.clone(), Tone::Plain),
        SortColumn::Model => (row.model.clone(), Tone::Faint),
        SortColumn::TokensIn => (amount(row.tokens_in), Tone::Plain),
        SortColumn::TokensOut => (amount(row.tokens_out), Tone::Plain),
        SortColumn::Cost => (cost(row.cost_micro), Tone::Plain),
        SortColumn::Tool => (row.tool.clone(), Tone::Plain),
        SortColumn::Burn => {
            let vitals = model.fleet.reported.get(&row.id).filter(|_| !row.ended);
            let burnt = vitals.map(|vitals| vitals.burn.by(model.now)).unwrap_or_default();
            let skipped = burnt.len().saturating_sub(width);
            (bars(burnt.get(skipped..).unwrap_or_default()), Tone::Plain)
        }
        SortColumn::Elapsed => {
            (row.elapsed.map(|elapsed| elapsed.to_string()).unwrap_or_default(), Tone::Plain)
        }
        SortColumn::Host => (row.host.clone(), Tone::Faint),
    }
}

fn amount(amount: u64) -> String {
    if amount == 0 { String::new() } else { count(amount) }
}

fn name(row: &AgentRow, line: ListLine) -> String {
    let (hidden, micro) = line.hidden;
    let more = if hidden > 0 { format!(" +{hidden} {}", cost(micro)) } else { String::new() };
    format!("{}{}{more}", "  ".repeat(line.indent), short(&row.id))
}
