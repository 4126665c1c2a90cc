//! The foot of the screen: what was asked for and what became of it, and the labels of the keys or what is typed.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use tetrarch_core::liveness::Liveness;
use tetrarch_core::verb::{Receipt, Stage};
use tetrarch_view::amount::clock;
use tetrarch_view::lineage::Lineage;
use tetrarch_view::text::visible;
use tetrarch_view::tone::Tone;
use unicode_width::UnicodeWidthStr;

use super::{Painter, put};
use crate::keys::{
    COMMAND_LABELS, CONVERSATIONS_LABELS, EVENTS_LABELS, FOCUS_LABELS, INBOX_LABELS, KeyLabel,
    PAST_LABELS, PLAN_LABELS, TABLE_LABELS,
};
use crate::model::{AskedAct, Pane, PromptKind, RosterModel, TextPrompt};

/// Labels that stand in every terminal: help and quit.
const KEPT: usize = 2;

/// Draws the foot.
pub(super) fn draw(model: &RosterModel, painter: Painter, area: Rect, buffer: &mut Buffer) {
    let acts = model.acts.iter().map(|act| asked(model, painter, act));
    let last = match &model.prompt {
        Some(prompt) => typed(model, painter, prompt, usize::from(area.width)),
        None => labels(painter, labels_of(model), usize::from(area.width)),
    };
    let lines: Vec<Line<'_>> = acts.chain([last]).collect();
    let skipped = lines.len().saturating_sub(usize::from(area.height));
    for (line, y) in lines.iter().skip(skipped).zip(area.y..) {
        put(buffer, Rect { y, height: 1, ..area }, line);
    }
}

fn labels_of(model: &RosterModel) -> &'static [KeyLabel] {
    match model.pane {
        Pane::Agents if model.past.is_some() => &PAST_LABELS,
        Pane::Agents => &TABLE_LABELS,
        Pane::Focus => &FOCUS_LABELS,
        Pane::Inbox => &INBOX_LABELS,
        Pane::Plan => &PLAN_LABELS,
        Pane::Conversations => &CONVERSATIONS_LABELS,
        Pane::Events => &EVENTS_LABELS,
        Pane::Command => &COMMAND_LABELS,
    }
}

/// As many labels as fit, and always the last ones.
fn labels(painter: Painter, all: &[KeyLabel], width: usize) -> Line<'static> {
    let size = |label: &KeyLabel| label.key.width() + 1 + label.does.width();
    let (some, kept) = all.split_at(all.len().saturating_sub(KEPT));
    let total: usize = all.iter().map(size).sum();
    let gap = if total + 2 * all.len() <= width { 2 } else { 1 };
    let mut room = (width + gap).saturating_sub(kept.iter().map(|label| size(label) + gap).sum());
    let fitting = some.iter().take_while(|label| {
        let left = room.checked_sub(size(label) + gap);
        room = left.unwrap_or(0);
        left.is_some()
    });
    let mut spans = Vec::new();
    for label in fitting.chain(kept) {
        if !spans.is_empty() {
            spans.push(Span::raw(" ".repeat(gap)));
        }
        spans.push(painter.span(label.key, Tone::Head));
        spans.push(Span::raw(format!(" {}", label.does)));
    }
    Line::from(spans)
}

/// What is typed; of a long text its end. Or the question that a key answers.
fn typed(
    model: &RosterModel,
    painter: Painter,
    prompt: &TextPrompt,
    width: usize,
) -> Line<'static> {
    let (before, confirms) = asks(model, &prompt.kind);
    if let Some(key) = confirms {
        let keys = format!(" {key} yes, any other key no");
        return Line::from(vec![
            painter.span(&before, Tone::Warn),
            painter.span(&keys, Tone::Head),
        ]);
    }
    let text = visible(&prompt.text);
    let room = width.saturating_sub(before.width() + 2);
    let mut from = text.len();
    let mut used = 0;
    for (at, c) in text.char_indices().rev() {
        used += unicode_width::UnicodeWidthChar::width(c).unwrap_or(0);
        if used > room {
            break;
        }
        from = at;
    }
    Line::from(vec![
        painter.span(&before, Tone::Head),
        Span::raw(" "),
        Span::raw(text.get(from..).unwrap_or_default().to_owned()),
        Span::styled(" ", Modifier::REVERSED),
    ])
}

/// What is asked, and the key that confirms where one does.
fn asks(model: &RosterModel, kind: &PromptKind) -> (String, Option<char>) {
    let text = match kind {
        PromptKind::Filter => "/".to_owned(),
        PromptKind::Steer(agent) => format!("steer {agent}:"),
        PromptKind::Interrupt(agent) => format!("interrupt {agent}, why:"),
        PromptKind::Stop(agent) => {
            let lineage = Lineage::of(&model.rows, |row| !row.ended);
            let below = lineage.all_below(agent).len();
            format!("Stop {agent} and {below} below it?")
        }
        PromptKind::Answer(question) => format!("answer {question}:"),
        PromptKind::Approve(change, digest) => {
            let start = digest.get(..12).unwrap_or(digest);
            format!("Approve {change} with digest {start}…?")
        }
        PromptKind::Merge(change) => format!("Merge {change} into its branch?"),
        PromptKind::ApproveDraft(_, draft) => format!("Approve {draft} and apply it to the plan?"),
        PromptKind::Deny(change) => format!("deny {change}, why:"),
        PromptKind::Reject(_, draft) => format!("reject {draft}, why:"),
        PromptKind::Command => ": tetrarch".to_owned(),
        PromptKind::Moment => {
            "the fleet as it was at (10m, 2026-11-22T08:00:00Z, a sequence):".to_owned()
        }
    };
    (text, crate::update::confirmed_by(kind))
}

/// What was asked for, and how far it has come.
fn asked(model: &RosterModel, painter: Painter, act: &AskedAct) -> Line<'static> {
    let (text, tone) = came_to(model, act);
    let gap = if text.is_empty() { "" } else { ": " };
    Line::from(vec![
        painter.span(&format!(" {}{gap}", act.what), Tone::Plain),
        painter.span(&text, tone),
    ])
}

fn came_to(model: &RosterModel, act: &AskedAct) -> (String, Tone) {
    let agent = act.agent.as_ref().and_then(|agent| model.fleet.fold.records.agents.get(agent));
    let receipts = agent.map(|agent| agent.verbs.receipts.as_slice()).unwrap_or_default();
    if let Some(receipt) = receipts.iter().find(|receipt| Some(receipt.id) == act.id) {
        return stages(receipt);
    }
    let ended = agent.filter(|agent| agent.liveness == Liveness::Terminated);
    match &act.outcome {
        None => ("asked".to_owned(), Tone::Plain),
        Some(Ok(_)) if ended.is_some() => {
            let why = ended.map_or("", |agent| agent.reason.as_str());
            (format!("effective: {why}"), Tone::Good)
        }
        Some(Ok(said)) => (said.clone(), Tone::Good),
        Some(Err(why)) => (why.clone(), Tone::Bad),
    }
}

/// The stages that a verb has come through.
fn stages(receipt: &Receipt) -> (String, Tone) {
    let mut parts = vec![format!("queued {}", clock(receipt.queued))];
    parts.extend(receipt.delivered.map(|at| format!("delivered {}", clock(at))));
    let (ended, tone) = match receipt.stage {
        Stage::Queued | Stage::Delivered => (None, Tone::Plain),
        Stage::Effective => {
            (receipt.ended.map(|at| format!("effective {}", clock(at))), Tone::Good)
        }
        Stage::Refused => (Some(format!("refused: {}", receipt.why)), Tone::Bad),
    };
    parts.extend(ended);
    (parts.join(", "), tone)
}
