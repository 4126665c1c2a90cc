//! What happened, the newest first, and one event in full.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use tetrarch_view::amount::clock;
use tetrarch_view::event::{EventRow, KIND_WIDTH, about, tone};
use tetrarch_view::row::short;
use tetrarch_view::text::visible;
use tetrarch_view::tone::Tone;

use super::texts::{fitted, right, wrapped};
use super::{Painter, put, put_all, title};
use crate::model::RosterModel;

/// Columns of a time, of a sequence, and of what an event is about on narrow and on wide terminals.
const TIME: usize = 8;
const SEQUENCE: usize = 8;
const ABOUT: [usize; 2] = [18, 32];
/// The columns from which on a terminal is wide.
const WIDE: u16 = 120;

/// Draws them.
pub(super) fn draw(
    model: &RosterModel,
    painter: Painter,
    [head, body]: [Rect; 2],
    buffer: &mut Buffer,
) {
    let it = &model.events;
    let whose = it.agent.as_ref().filter(|_| it.only);
    let whose = whose.map_or_else(|| "events".to_owned(), |id| format!("events of {id}"));
    title(model, painter, head, buffer, Line::from(painter.span(&format!(" {whose}"), Tone::Head)));
    let width = ABOUT[usize::from(head.width >= WIDE)];
    let names = cells(["TIME", "SEQUENCE", "KIND", "ABOUT", "WHY"], width);
    let names = Line::from(names.map(|name| painter.span(&name, Tone::Head)).to_vec());
    let below = Rect { y: head.y + 1, height: head.height.saturating_sub(1), ..head };
    put(buffer, below, &names);
    let Some(rows) = it.rows.as_ref().filter(|rows| !rows.is_empty()) else {
        let none = if it.rows.is_none() { " Reading the ledger." } else { " No events." };
        put(buffer, body, &Line::styled(none, painter.tone(Tone::Faint)));
        return;
    };
    let height = u16::try_from(model.events_height()).unwrap_or(u16::MAX).min(body.height);
    let lines = rows.iter().enumerate().skip(it.top).map(|(place, row)| {
        let line = one(painter, row, width);
        if place == it.place { line.patch_style(Modifier::REVERSED) } else { line }
    });
    put_all(buffer, Rect { height, ..body }, lines);
    let rest = Rect { y: body.y + height, height: body.height - height, ..body };
    if let Some(row) = it.chosen() {
        put_all(buffer, rest, full(painter, row, usize::from(rest.width)));
    }
}

/// What stands in the columns, each fitted to its own; the last takes what is left.
fn cells([time, seq, kind, about, why]: [&str; 5], width: usize) -> [String; 5] {
    [
        format!(" {} ", fitted(time, TIME)),
        format!("{} ", right(seq, SEQUENCE)),
        format!("{} ", fitted(kind, KIND_WIDTH)),
        format!("{} ", fitted(about, width)),
        why.to_owned(),
    ]
}

fn one(painter: Painter, row: &EventRow, width: usize) -> Line<'static> {
    let EventRow { seq, at, event } = row;
    let (about, why) = (visible(&about(event, short)), visible(&event.reason));
    let texts = [&clock(*at), &seq.to_string(), event.kind.as_str(), &about, &why];
    let [time, seq, kind, about, why] = cells(texts, width);
    Line::from(vec![
        Span::raw(time),
        painter.span(&seq, Tone::Faint),
        painter.span(&kind, tone(event.kind)),
        Span::raw(about),
        Span::raw(why),
    ])
}

/// An event in full: whose doing it was, by which rule, and why.
fn full(painter: Painter, row: &EventRow, width: usize) -> Vec<Line<'static>> {
    let event = &row.event;
    let rule = if event.rule.is_empty() { String::new() } else { format!(", {}", event.rule) };
    let about = about(event, ToString::to_string);
    let head = format!(" {} {about}, by {}{rule}", event.kind.as_str(), event.actor);
    let mut lines = vec![Line::from(painter.span(&head, Tone::Head))];
    let why = visible(&event.reason.replace('\n', " "));
    let why = wrapped(&why, width.saturating_sub(2));
    lines.extend(why.into_iter().map(|line| Line::raw(format!(" {line}"))));
    lines
}
