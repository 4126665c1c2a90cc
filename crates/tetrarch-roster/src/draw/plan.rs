//! A plan: how far each phase is, who works on what, and what its length hangs on.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use tetrarch_view::amount::bar;
use tetrarch_view::outline::OutlineLine;
use tetrarch_view::row::short;
use tetrarch_view::text::visible;
use tetrarch_view::tone::{Tone, tone_of};

use super::texts::fitted;
use super::{Painter, put, put_all, title};
use crate::model::RosterModel;

/// Columns of the bar of a phase.
const BAR: usize = 10;

/// Draws the plan.
pub(super) fn draw(
    model: &RosterModel,
    painter: Painter,
    [head, body]: [Rect; 2],
    buffer: &mut Buffer,
) {
    let Some(epic) = model.plan.epic else {
        title(model, painter, head, buffer, Line::from(painter.span(" plan", Tone::Head)));
        let none = " No goals. Give the fleet one: tetrarch run PLAN";
        put(buffer, body, &Line::styled(none, painter.tone(Tone::Faint)));
        return;
    };
    let records = &model.fleet.fold.records;
    let name = records.goals.get(&epic).map_or("", |goal| goal.spec.title.as_str());
    let state = records.goal_states.get(&epic);
    let status = state.map_or("", |state| state.status.as_str());
    let version = records.plans.get(&epic).map_or(0, |plan| plan.version);
    let percent = state.map_or(0, |state| state.percent);
    let left = Line::from(vec![
        painter.span(&format!(" {name}  "), Tone::Head),
        painter.span(status, tone_of(status)),
        Span::raw(format!("  {percent}%  v{version}")),
    ]);
    title(model, painter, head, buffer, left);
    let path = model.plan.lines.iter().filter(|line| line.critical);
    let path: Vec<String> = path.map(|line| line.id.to_string()).collect();
    let path = format!(" * critical path: {}", path.join(" → "));
    let below = Rect { y: head.y + 1, height: head.height.saturating_sub(1), ..head };
    put(buffer, below, &Line::from(painter.span(&path, Tone::Plain)));
    let most = model.plan.lines.len().saturating_sub(usize::from(body.height));
    let shown = model.plan.lines.iter().skip(model.plan.scroll.min(most));
    put_all(buffer, body, shown.map(|line| one(painter, line)));
}

fn one(painter: Painter, line: &OutlineLine) -> Line<'static> {
    let (settled, all) = line.settled;
    let amount = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let how = match line.attempts {
        None => format!("{} {settled}/{all}", bar(amount(settled), amount(all), BAR)),
        Some((0, _)) => String::new(),
        Some((begun, most)) => format!("attempt {begun} of {most}"),
    };
    let critical = if line.critical { "*" } else { " " };
    let id = format!("{}{}", "  ".repeat(line.depth), line.id);
    let who: Vec<String> = line.who.iter().map(short).collect();
    let tone = if line.depth == 0 { Tone::Head } else { Tone::Plain };
    Line::from(vec![
        painter.span(critical, Tone::Warn),
        painter.span(&fitted(&id, 12), tone),
        painter.span(&fitted(line.status.as_str(), 12), tone_of(line.status.as_str())),
        Span::raw(fitted(&how, 17)),
        Span::raw(fitted(&visible(&who.join(" ")), 14)),
        painter.span(&line.title, tone),
        painter.span(
            &if line.blocked.is_empty() { String::new() } else { format!("  {}", line.blocked) },
            Tone::Warn,
        ),
    ])
}
