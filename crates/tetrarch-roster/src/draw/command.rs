//! What a command line printed.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use tetrarch_view::text::visible;
use tetrarch_view::tone::Tone;

use super::texts::marked;
use super::{Painter, put_all, title};
use crate::model::{CommandPane, RosterModel};

/// How many lines there are.
pub(crate) fn count(model: &RosterModel) -> usize {
    model.command.as_ref().map_or(0, |command| lines(command, usize::from(model.size.0)).len())
}

/// Draws it.
pub(super) fn draw(
    model: &RosterModel,
    painter: Painter,
    [head, body]: [Rect; 2],
    buffer: &mut Buffer,
) {
    let Some(command) = &model.command else { return };
    let (word, tone) = match &command.outcome {
        None => ("running", Tone::Warn),
        Some(Ok(_)) => ("done", Tone::Good),
        Some(Err(_)) => ("failed", Tone::Bad),
    };
    let left = vec![
        painter.span(&format!(" {word}  "), tone),
        painter.span(&format!("tetrarch {}", command.line), Tone::Head),
    ];
    title(model, painter, head, buffer, Line::from(left));
    let lines = lines(command, usize::from(body.width));
    let most = lines.len().saturating_sub(usize::from(body.height));
    let shown = lines.into_iter().skip(command.scroll.min(most));
    put_all(buffer, body, shown.map(|line| Line::from(Span::raw(line))));
}

fn lines(command: &CommandPane, columns: usize) -> Vec<String> {
    let text = match &command.outcome {
        None => " Esc ends it.",
        Some(Ok(text) | Err(text)) if text.trim().is_empty() => " It printed nothing.",
        Some(Ok(text) | Err(text)) => text,
    };
    text.lines().flat_map(|line| marked(&visible(line), columns)).collect()
}
