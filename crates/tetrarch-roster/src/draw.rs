//! How what is shown looks. Colours are a help beside words, and there are none when they are unwanted; the
//! terminal's own sixteen are used, so that it is read on light and on dark.

mod agents;
pub(crate) mod command;
pub(crate) mod conversations;
mod events;
mod focus;
mod foot;
mod help;
pub(crate) mod inbox;
mod past;
mod plan;
pub(crate) mod texts;

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use tetrarch_view::news::LinkState;
use tetrarch_view::text::visible;
use tetrarch_view::tone::Tone;
use unicode_width::UnicodeWidthStr;

use crate::model::{Pane, RosterModel};

/// Draws everything.
pub fn draw(model: &RosterModel, frame: &mut Frame<'_>) {
    let area = frame.area();
    let buffer = frame.buffer_mut();
    let [head, body, foot] = parts(model, area);
    let painter = Painter { coloured: model.coloured };
    let head = if model.help.is_none() { past::draw(model, painter, head, buffer) } else { head };
    match model.pane {
        _ if model.help.is_some() => help::draw(model, painter, area, buffer),
        Pane::Agents => agents::draw(model, painter, [head, body], buffer),
        Pane::Focus => focus::draw(model, painter, [head, body], buffer),
        Pane::Inbox => inbox::draw(model, painter, [head, body], buffer),
        Pane::Plan => plan::draw(model, painter, [head, body], buffer),
        Pane::Events => events::draw(model, painter, [head, body], buffer),
        Pane::Command => command::draw(model, painter, [head, body], buffer),
        Pane::Conversations => conversations::draw(model, painter, [head, body], buffer),
    }
    if model.help.is_none() {
        foot::draw(model, painter, foot, buffer);
    }
}

/// Head, body and foot of the screen.
fn parts(model: &RosterModel, area: Rect) -> [Rect; 3] {
    let body = model.body_height().min(area.height);
    let foot = model.foot_height().min(area.height - body);
    let head = area.height - body - foot;
    [
        Rect { height: head, ..area },
        Rect { y: area.y + head, height: body, ..area },
        Rect { y: area.y + head + body, height: foot, ..area },
    ]
}

/// How words are told apart.
#[derive(Debug, Clone, Copy)]
struct Painter {
    coloured: bool,
}

impl Painter {
    /// The style of a tone: colours when they are wanted, weight always.
    fn tone(self, tone: Tone) -> Style {
        let colour = |colour: Color| {
            if self.coloured { Style::new().fg(colour) } else { Style::new() }
        };
        match tone {
            Tone::Plain => Style::new(),
            Tone::Good => colour(Color::Green),
            Tone::Warn => colour(Color::Yellow).add_modifier(Modifier::BOLD),
            Tone::Bad => colour(Color::Red).add_modifier(Modifier::BOLD),
            Tone::Faint => Style::new().add_modifier(Modifier::DIM),
            Tone::Head => Style::new().add_modifier(Modifier::BOLD),
        }
    }

    /// A text of others in a tone.
    fn span(self, text: &str, tone: Tone) -> Span<'static> {
        Span::styled(visible(text), self.tone(tone))
    }
}

/// Writes a line at the top of an area; what does not fit is cut at a character.
fn put(buffer: &mut Buffer, area: Rect, line: &Line<'_>) {
    if area.height > 0 {
        buffer.set_line(area.x, area.y, line, area.width);
    }
}

/// Writes lines from the top of an area on, as many as fit.
fn put_all<'l>(buffer: &mut Buffer, area: Rect, lines: impl IntoIterator<Item = Line<'l>>) {
    for (line, y) in lines.into_iter().zip(area.y..area.y + area.height) {
        put(buffer, Rect { y, height: 1, ..area }, &line);
    }
}

/// The first line of a pane: what it is, and at its end how it stands to what is.
fn title(model: &RosterModel, painter: Painter, area: Rect, buffer: &mut Buffer, left: Line<'_>) {
    let (word, tone) = match &model.fleet.link {
        _ if model.past.is_some() => ("past".to_owned(), Tone::Warn),
        LinkState::Opening => ("reading the bus".to_owned(), Tone::Warn),
        LinkState::Live => ("live".to_owned(), Tone::Good),
        LinkState::Stale(since) => {
            (format!("STALE for {}: the bus is away", model.now - *since), Tone::Bad)
        }
    };
    let word = painter.span(&format!("{word} "), tone);
    let mode = format!("{} ", mode(model));
    let mut right = Line::from(word);
    // How it stands is more than how the project works, and who is looked at is more than both.
    let room = usize::from(area.width).saturating_sub(left.width() + right.width());
    if mode.trim().width() > 0 && mode.width() < room {
        right.spans.insert(0, Span::raw(mode));
    }
    let width = u16::try_from(right.width()).unwrap_or(u16::MAX).min(area.width);
    put(buffer, Rect { width: area.width - width, ..area }, &left);
    put(buffer, Rect { x: area.x + area.width - width, width, ..area }, &right);
}

/// How the project of whoever a key is about delegates.
fn mode(model: &RosterModel) -> String {
    let Some(row) = model.subject() else { return String::new() };
    let of = |name| model.fleet.fold.records.projects.get(name);
    let own = if let tetrarch_core::id::AgentId::Po(name) = &row.id { of(name) } else { None };
    let project = own.or_else(|| row.project.as_ref().and_then(of));
    project.map_or_else(String::new, |project| {
        format!("mode={} (cap {})", project.mode, project.mode.cap())
    })
}
