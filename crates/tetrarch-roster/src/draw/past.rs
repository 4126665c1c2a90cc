//! The line that says that the past is shown, and of which moment.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::Line;
use tetrarch_view::amount::clock;
use tetrarch_view::text::visible;
use tetrarch_view::tone::Tone;

use super::texts::fitted;
use super::{Painter, put};
use crate::model::{Pane, RosterModel};

/// Draws the line where it is due; gives what is left of the head.
pub(super) fn draw(model: &RosterModel, painter: Painter, head: Rect, buffer: &mut Buffer) -> Rect {
    if !model.travels() {
        return head;
    }
    let style = painter.tone(Tone::Warn).add_modifier(Modifier::REVERSED);
    put(buffer, head, &Line::styled(fitted(&words(model), usize::from(head.width)), style));
    let line = head.height.min(1);
    Rect { y: head.y + line, height: head.height - line, ..head }
}

fn words(model: &RosterModel) -> String {
    let reads = |to: &str| format!("reading the fleet at {}", visible(to));
    let reading = model.travel.as_ref().map(|wish| reads(&wish.to));
    // Elsewhere it leaves the pane.
    let key = if model.pane == Pane::Agents { "Esc" } else { "t" };
    match (&model.past, reading) {
        (None, reading) => format!(" {}, {key}: stay", reading.unwrap_or_default()),
        (Some(past), reading) => {
            let (at, ago) = (clock(past.at), past.now - past.at);
            let reading = reading.map(|text| format!(", {text}")).unwrap_or_default();
            format!(" PAST: ledger {}, {at}, {ago} ago, {key}: back to now{reading}", past.seq)
        }
    }
}
