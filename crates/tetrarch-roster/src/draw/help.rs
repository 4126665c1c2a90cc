//! Every key, by where it works.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use tetrarch_view::tone::Tone;

use super::texts::fitted;
use super::{Painter, put_all};
use crate::keys::HELP;
use crate::model::RosterModel;

/// Columns of a key.
const KEY: usize = 14;

/// Draws the help over everything.
pub(super) fn draw(model: &RosterModel, painter: Painter, area: Rect, buffer: &mut Buffer) {
    let mut lines = vec![Line::from(painter.span(" Keys", Tone::Head))];
    for (place, labels) in HELP {
        lines.push(Line::default());
        lines.push(Line::from(painter.span(&format!(" {place}"), Tone::Head)));
        lines.extend(labels.iter().map(|label| {
            Line::from(vec![
                Span::raw("   "),
                painter.span(&fitted(label.key, KEY), Tone::Good),
                Span::raw(label.does),
            ])
        }));
    }
    let height = usize::from(area.height);
    let skipped = model.help.unwrap_or(0).min(lines.len().saturating_sub(height));
    put_all(buffer, area, lines.into_iter().skip(skipped));
}
