//! One agent: how it is, what it may spend, and its transcript, its brief or its change below.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use tetrarch_core::agent::Agent;
use tetrarch_core::brief::ExpectedOutput;
use tetrarch_core::budget::Counter;
use tetrarch_core::converse::Recorded;
use tetrarch_core::id::AgentId;
use tetrarch_core::journal::JournalEvent;
use tetrarch_core::run::Run;
use tetrarch_core::time::BusTime;
use tetrarch_view::amount::{bar, clock, cost, count};
use tetrarch_view::grant::GrantUse;
use tetrarch_view::order::find;
use tetrarch_view::row::AgentRow;
use tetrarch_view::text::visible;
use tetrarch_view::tone::{Tone, tone_of};
use tetrarch_view::transcript::words;

use super::texts::{fitted, wrapped};
use super::{Painter, put, put_all, title};
use crate::diff::DiffRow;
use crate::model::{FocusTab, RosterModel};

/// Columns from which on the brief stands beside the transcript.
const BESIDE: u16 = 140;
/// Lines that one entry of a journal takes at most.
const ENTRY_LINES: usize = 12;
/// Columns of a budget's bar.
const BAR: usize = 20;

/// Draws the agent.
pub(super) fn draw(
    model: &RosterModel,
    painter: Painter,
    [head, body]: [Rect; 2],
    buffer: &mut Buffer,
) {
    let agent = model.focus.agent.as_ref();
    let known = agent
        .and_then(|id| Some((model.fleet.fold.records.agents.get(id)?, find(&model.rows, id)?)));
    let Some((agent, row)) = known else {
        put(buffer, head, &Line::raw(" This agent is not known any more. Esc goes back."));
        return;
    };
    let name = painter.span(&format!(" {}  ", row.id), Tone::Head);
    let state = painter.span(row.state, tone_of(row.state));
    let alarm = painter.span(&format!("  {}", row.alarm.as_str()), row.alarm.tone());
    title(model, painter, head, buffer, Line::from(vec![name, state, alarm]));
    let below = Rect { y: head.y + 1, height: head.height.saturating_sub(1), ..head };
    put(buffer, below, &about(painter, row));
    let facts = facts(model, painter, agent, row);
    let height = u16::try_from(facts.len()).unwrap_or(u16::MAX).min(body.height);
    put_all(buffer, Rect { height, ..body }, facts);
    let rest = Rect { y: body.y + height, height: body.height - height, ..body };
    tabs(model, painter, rest, buffer);
    let area = Rect { y: rest.y + 1, height: rest.height.saturating_sub(1), ..rest };
    if model.focus.tab == FocusTab::Transcript && area.width >= BESIDE {
        let half = area.width / 2;
        transcript(model, painter, Rect { width: half - 1, ..area }, buffer);
        let right = Rect { x: area.x + half, width: area.width - half, ..area };
        top(brief(model, agent, row, usize::from(right.width)), 0, right, buffer);
        return;
    }
    match model.focus.tab {
        FocusTab::Transcript => transcript(model, painter, area, buffer),
        FocusTab::Brief => {
            top(
                brief(model, agent, row, usize::from(area.width)),
                model.focus.scroll,
                area,
                buffer,
            );
        }
        FocusTab::Change => {
            let (lines, rows) = change(model, painter, &row.id, usize::from(area.width));
            super::inbox::scrolled(painter, lines, rows, model.focus.scroll, area, buffer);
        }
    }
}

/// Draws lines from the first that is not scrolled away.
fn top(lines: Vec<Line<'static>>, scroll: usize, area: Rect, buffer: &mut Buffer) {
    let most = lines.len().saturating_sub(usize::from(area.height));
    put_all(buffer, area, lines.into_iter().skip(scroll.min(most)));
}

/// What it is and what it is about.
fn about(painter: Painter, row: &AgentRow) -> Line<'static> {
    let node = row.work.map(|(_, node)| format!("{node}  ")).unwrap_or_default();
    let elapsed = row.elapsed.map(|elapsed| format!("  {elapsed}")).unwrap_or_default();
    Line::from(vec![
        Span::raw(format!(" {node}")),
        painter.span(&row.intent, Tone::Plain),
        painter.span(&format!("  {}  {}{elapsed}", row.model, row.host), Tone::Faint),
    ])
}

/// What it uses and what it may use, and the call that it made last.
fn facts(
    model: &RosterModel,
    painter: Painter,
    agent: &Agent,
    row: &AgentRow,
) -> Vec<Line<'static>> {
    let mut lines = vec![Line::raw(format!(
        " tokens {} in, {} out  {}",
        count(row.tokens_in),
        count(row.tokens_out),
        cost(row.cost_micro)
    ))];
    for counter in Counter::ALL {
        let Some(used) = GrantUse::of(agent, row, counter) else { continue };
        let tone = if used.percent() >= 80 { Tone::Warn } else { Tone::Good };
        lines.push(Line::from(vec![
            Span::raw(format!(" {} ", fitted(counter.as_str(), 6))),
            painter.span(&bar(used.gone, used.limit, BAR), tone),
            Span::raw(format!(" {used}")),
        ]));
    }
    let call = last_call(model, row);
    if !call.is_empty() {
        lines.push(Line::from(vec![Span::raw(" tool   "), painter.span(&call, Tone::Plain)]));
    }
    lines
}

/// The call that works, or the last one that the journal tells of.
fn last_call(model: &RosterModel, row: &AgentRow) -> String {
    let called = model.focus.entries.iter().rev().find_map(|(_, event)| {
        let JournalEvent::Conversed(recorded) = event else { return None };
        let Recorded::Turn { calls, .. } = &**recorded else { return None };
        let call = calls.last()?;
        Some(format!("{} {}", call.tool, call.arguments))
    });
    match (called, row.tool.as_str()) {
        (called, "") => called.unwrap_or_default(),
        (Some(called), tool) if called.starts_with(tool) => format!("{called} (at work)"),
        (_, tool) => format!("{tool} (at work)"),
    }
}

fn tabs(model: &RosterModel, painter: Painter, area: Rect, buffer: &mut Buffer) {
    let mut spans = vec![Span::raw(" ")];
    for (place, tab) in (1..).zip(FocusTab::ALL) {
        let name = match tab {
            FocusTab::Transcript => "transcript",
            FocusTab::Brief => "brief",
            FocusTab::Change => "change",
        };
        let mut style = painter.tone(Tone::Head);
        if tab == model.focus.tab {
            style = style.add_modifier(Modifier::REVERSED);
        }
        spans.push(Span::styled(format!(" {place} {name} "), style));
        spans.push(Span::raw(" "));
    }
    if model.focus.tab == FocusTab::Transcript && model.focus.scroll > 0 {
        let held = format!("{} lines above the end; f follows", model.focus.scroll);
        spans.push(painter.span(&held, Tone::Warn));
    }
    put(buffer, area, &Line::from(spans));
}

/// The end of its journal, with the words that come; as many lines as fit.
fn transcript(model: &RosterModel, painter: Painter, area: Rect, buffer: &mut Buffer) {
    let focus = &model.focus;
    if focus.watched.is_none() {
        let none = " Orchestrators and external agents keep no journal of a run.";
        put(buffer, area, &Line::styled(none, painter.tone(Tone::Faint)));
        return;
    }
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let wanted = height + focus.scroll;
    let mut lines: Vec<Line<'static>> = Vec::new();
    let streamed = wrapped(&shown(&focus.streamed), width.saturating_sub(2));
    let streamed = streamed.into_iter().map(|line| Line::raw(format!(" {line}")));
    lines.extend(streamed.rev().take(wanted));
    for (at, event) in focus.entries.iter().rev() {
        if lines.len() >= wanted {
            break;
        }
        lines.extend(entry(painter, *at, event, width).into_iter().rev());
    }
    let most = lines.len().saturating_sub(height);
    let mut seen: Vec<Line<'static>> =
        lines.into_iter().skip(focus.scroll.min(most)).take(height).collect();
    seen.reverse();
    put_all(buffer, area, seen);
}

/// Text of many lines in which only the ends of lines are what they are.
fn shown(text: &str) -> String {
    text.lines().map(visible).collect::<Vec<_>>().join("\n")
}

fn entry(painter: Painter, at: BusTime, event: &JournalEvent, width: usize) -> Vec<Line<'static>> {
    let (what, text) = words(event);
    let tone = match event {
        JournalEvent::Ask { .. } | JournalEvent::Blocked { .. } | JournalEvent::Stopping { .. } => {
            Tone::Warn
        }
        JournalEvent::Returned { .. } => Tone::Bad,
        JournalEvent::Result(_) | JournalEvent::Checkpoint { .. } => Tone::Good,
        JournalEvent::Usage(_) | JournalEvent::Budget(_) | JournalEvent::Log { .. } => Tone::Faint,
        JournalEvent::Starting { .. }
        | JournalEvent::Started { .. }
        | JournalEvent::Progress { .. }
        | JournalEvent::Spawn { .. }
        | JournalEvent::Mail { .. }
        | JournalEvent::Update { .. }
        | JournalEvent::Unblocked
        | JournalEvent::Conversed(_)
        | JournalEvent::Verb { .. }
        | JournalEvent::Ended { .. } => Tone::Plain,
    };
    let head = format!(" {} {} ", clock(at), fitted(what, 11));
    let indent = head.chars().count();
    let mut texts = wrapped(&shown(text.trim()), width.saturating_sub(indent + 1));
    let more = texts.len().saturating_sub(ENTRY_LINES);
    if more > 0 {
        texts.truncate(ENTRY_LINES - 1);
        texts.push(format!("[{} more lines]", more + 1));
    }
    let mut texts = texts.into_iter();
    let first = texts.next().unwrap_or_default();
    let mut lines = vec![Line::from(vec![painter.span(&head, tone), Span::raw(first)])];
    lines.extend(texts.map(|text| Line::raw(format!("{}{text}", " ".repeat(indent)))));
    lines
}

/// Its contract and its work.
fn brief(model: &RosterModel, agent: &Agent, row: &AgentRow, width: usize) -> Vec<Line<'static>> {
    let mut sheet = BriefSheet { lines: Vec::new(), width };
    let records = &model.fleet.fold.records;
    sheet.field("label", &agent.label);
    sheet.field("reason", &agent.reason);
    if let Some(work) = &agent.work {
        let node = records.nodes.get(&work.epic).and_then(|nodes| nodes.get(&work.node));
        let state = records.node_states.get(&work.epic).and_then(|nodes| nodes.get(&work.node));
        let status = model.fleet.fold.node_status(work.epic, work.node);
        let name = node.map_or("", |node| node.name.as_str());
        let goal = records.goals.get(&work.epic).map_or("", |goal| goal.spec.title.as_str());
        sheet.field("goal", goal);
        sheet.field("node", &format!("{} {name} ({status})", work.node));
        state
            .into_iter()
            .flat_map(|state| &state.findings)
            .for_each(|it| sheet.field("finding", it));
    }
    if let Some(run) = row.run.and_then(|run| records.runs.get(&run)) {
        contract(&mut sheet, run);
    }
    let children = agent.slots.iter().map(|slot| slot.child.to_string());
    sheet.field("children", &children.collect::<Vec<_>>().join(" "));
    sheet.lines
}

fn contract(sheet: &mut BriefSheet, run: &Run) {
    let brief = &run.brief;
    sheet.field("run", &run.id.to_string());
    sheet.field("brief", &brief.goal);
    brief.key_facts.iter().for_each(|fact| sheet.field("fact", fact));
    brief.success_criteria.iter().for_each(|it| sheet.field("criterion", it));
    sheet.field("done when", &brief.definition_of_done);
    if let ExpectedOutput::Schema(schema) = &brief.expected_output {
        sheet.field("output", schema);
    }
    sheet.field("tools", &brief.tools.names().collect::<Vec<_>>().join(" "));
    sheet.field("runner", &format!("{} {}", brief.runner.profile, brief.runner.kind));
    sheet.field("workspace", &brief.workspace);
    sheet.field("scope", &brief.scope_paths.join(" "));
    sheet.field("worktree", brief.worktree.as_str());
    sheet.field("wall", &brief.wall.map(|wall| wall.to_string()).unwrap_or_default());
}

/// Fields below each other.
struct BriefSheet {
    lines: Vec<Line<'static>>,
    width: usize,
}

impl BriefSheet {
    /// A field, unless it is empty.
    fn field(&mut self, name: &str, text: &str) {
        if text.is_empty() {
            return;
        }
        let texts = wrapped(&shown(text), self.width.saturating_sub(14));
        for (place, text) in texts.into_iter().enumerate() {
            let name = if place == 0 { name } else { "" };
            self.lines.push(Line::raw(format!(" {} {text}", fitted(name, 11))));
        }
    }
}

/// What it changed, as it is put to people.
fn change<'m>(
    model: &'m RosterModel,
    painter: Painter,
    agent: &AgentId,
    width: usize,
) -> (Vec<Line<'static>>, &'m [DiffRow]) {
    match model.change_of(agent) {
        Some(change) => (
            super::inbox::change(model, painter, change, width),
            model.diff_rows(change).unwrap_or_default(),
        ),
        None => (vec![Line::styled(" It made no change.", painter.tone(Tone::Faint))], &[]),
    }
}
