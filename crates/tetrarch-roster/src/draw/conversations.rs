//! What people said to the fleet, and who works for it: the session tree of each person, one's own first.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use tetrarch_core::conversation::Turn;
use tetrarch_core::id::Principal;
use tetrarch_view::amount::cost;
use tetrarch_view::row::{AgentRow, short};
use tetrarch_view::session_tree::SessionTree;
use tetrarch_view::text::visible;
use tetrarch_view::tone::{Tone, tone_of};

use super::texts::fitted;
use super::{Painter, put_all, title};
use crate::model::RosterModel;

/// Characters of what was said and answered that a line shows.
const WORDS_SHOWN: usize = 200;

/// Columns of names and of states.
const NAME: usize = 28;
const STATE: usize = 16;

/// How many lines there are.
pub(crate) fn count(model: &RosterModel) -> usize {
    lines(model, Painter { coloured: false }).len()
}

/// Draws them.
pub(super) fn draw(
    model: &RosterModel,
    painter: Painter,
    [head, body]: [Rect; 2],
    buffer: &mut Buffer,
) {
    title(model, painter, head, buffer, Line::from(painter.span(" conversations", Tone::Head)));
    let mut lines = lines(model, painter);
    if lines.is_empty() {
        let none = " No conversations. Begin one: tetrarch chat";
        lines.push(Line::from(painter.span(none, Tone::Faint)));
    }
    let most = lines.len().saturating_sub(usize::from(body.height));
    put_all(buffer, body, lines.into_iter().skip(model.conversations_top.min(most)));
}

fn lines(model: &RosterModel, painter: Painter) -> Vec<Line<'static>> {
    let own = if let Principal::Human(own) = &model.human { Some(own) } else { None };
    let trees = SessionTree::everybody(&model.fleet.fold.records, &model.rows, own);
    let mut lines = Vec::new();
    for tree in &trees {
        let state = tree.root.map_or("", |root| root.state);
        lines.push(Line::from(vec![
            painter.span(&fitted(&format!(" {}", tree.human), NAME), Tone::Head),
            painter.span(state, tone_of(state)),
        ]));
        for branch in &tree.conversations {
            let project = branch.project().map(ToString::to_string).unwrap_or_default();
            let name = format!("   {}", branch.name);
            lines.push(Line::from(vec![
                painter.span(&fitted(&name, NAME), Tone::Plain),
                painter.span(&project, Tone::Faint),
            ]));
            for turn in branch.turns.iter().rev() {
                lines.push(of_turn(painter, turn));
                lines.extend(
                    tree.agents(turn).iter().map(|(depth, row)| of_agent(painter, *depth, row)),
                );
            }
        }
    }
    lines
}

fn of_turn(painter: Painter, turn: &Turn) -> Line<'static> {
    let words = |text: &str| {
        visible(&text.replace('\n', " ")).chars().take(WORDS_SHOWN).collect::<String>()
    };
    let (said, answer) = (words(&turn.text), words(&turn.answer));
    let answer = if answer.is_empty() { answer } else { format!(" → {answer}") };
    Line::from(vec![
        Span::raw(fitted(&format!("     turn {} {}", turn.id.number, turn.lane_and_mode()), NAME)),
        painter.span(&fitted(turn.status.as_str(), STATE), tone_of(turn.status.as_str())),
        Span::raw(said),
        painter.span(&answer, Tone::Faint),
    ])
}

fn of_agent(painter: Painter, depth: usize, row: &AgentRow) -> Line<'static> {
    Line::from(vec![
        Span::raw(fitted(
            &visible(&format!("       {}{}", "  ".repeat(depth), short(&row.id))),
            NAME,
        )),
        painter.span(&fitted(row.state, STATE), tone_of(row.state)),
        painter.span(&fitted(&cost(row.cost_micro), 9), Tone::Faint),
        Span::raw(visible(&row.intent)),
    ])
}
