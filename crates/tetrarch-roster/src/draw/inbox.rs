//! What waits for people: a line for each, and below the one that is chosen in full, from the stored bytes.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use tetrarch_core::change::Change;
use tetrarch_core::plan::proposal::Proposal;
use tetrarch_core::plan::schema::node_in_words;
use tetrarch_core::question::Question;
use tetrarch_core::time::BusTime;
use tetrarch_view::inbox::{
    InboxItem, change_in_words, draft_in_words, output_in_words, turn_answer,
};
use tetrarch_view::row::short;
use tetrarch_view::text::{unmixed, visible};
use tetrarch_view::tone::{Tone, tone_of};

use super::texts::{fitted, wrapped};
use super::{Painter, put, put_all, title};
use crate::model::{InboxKey, RosterModel};

/// Draws the inbox.
pub(super) fn draw(
    model: &RosterModel,
    painter: Painter,
    [head, body]: [Rect; 2],
    buffer: &mut Buffer,
) {
    let items = model.waiting();
    let count = format!(" inbox  {} wait for {}", items.len(), model.human);
    title(model, painter, head, buffer, Line::from(painter.span(&count, Tone::Head)));
    let names = Rect { y: head.y + 1, height: head.height.saturating_sub(1), ..head };
    let heading = " KIND     AGE     FROM                  WHAT";
    put(buffer, names, &Line::from(painter.span(heading, Tone::Head)));
    if items.is_empty() {
        let none = " Nothing waits for you. Questions, changes and plan drafts are listed here.";
        put(buffer, body, &Line::styled(none, painter.tone(Tone::Faint)));
        return;
    }
    let selected = model.inbox.selected.as_ref();
    let at = items.iter().position(|item| Some(&InboxKey::of(item)) == selected).unwrap_or(0);
    let listed = items.len().min(usize::from(body.height / 3).max(1));
    let from = (at + 1).saturating_sub(listed);
    let width = usize::from(body.width);
    let lines = items.iter().enumerate().skip(from).take(listed).map(|(place, item)| {
        let line = one(model, item, width);
        if place == at { line.patch_style(Modifier::REVERSED) } else { line }
    });
    put_all(buffer, body, lines);
    let height = u16::try_from(listed).unwrap_or(u16::MAX).min(body.height);
    let rest = Rect { y: body.y + height, height: body.height - height, ..body };
    put(buffer, rest, &Line::styled("─".repeat(width), painter.tone(Tone::Faint)));
    let area = Rect { y: rest.y + 1, height: rest.height.saturating_sub(1), ..rest };
    let whole = items.get(at).map(|item| whole(model, painter, item, width)).unwrap_or_default();
    let most = whole.len().saturating_sub(usize::from(area.height));
    put_all(buffer, area, whole.into_iter().skip(model.inbox.scroll.min(most)));
}

/// One line of the list.
fn one(model: &RosterModel, item: &InboxItem<'_>, width: usize) -> Line<'static> {
    let since = item.since();
    let age =
        if since == BusTime(u64::MAX) { String::new() } else { (model.now - since).to_string() };
    let (kind, from, what) = match item {
        InboxItem::Question(question) => {
            ("question", short(&question.agent), question.text.clone())
        }
        InboxItem::Turn(turn) => ("asks", turn.id.conversation.to_string(), turn.answer.clone()),
        InboxItem::Change(change) => {
            ("change", short(&change.agent), change_in_words(change, model.now))
        }
        InboxItem::Draft(draft, _) => ("draft", draft.author.to_string(), draft_in_words(draft)),
        InboxItem::Obstacle(it) => ("obstacle", it.subject.to_string(), it.what.clone()),
    };
    let from = visible(&from);
    let text = format!(" {kind:<8} {} {} {}", fitted(&age, 7), fitted(&from, 21), visible(&what));
    Line::raw(fitted(&text, width))
}

/// All of an item.
fn whole(
    model: &RosterModel,
    painter: Painter,
    item: &InboxItem<'_>,
    width: usize,
) -> Vec<Line<'static>> {
    match item {
        InboxItem::Question(question) => asked(painter, question, width),
        InboxItem::Turn(turn) => {
            let mut lines = paragraph(&turn.answer, width);
            lines.push(next(painter, &turn_answer(turn)));
            lines
        }
        InboxItem::Change(change) => self::change(model, painter, change),
        InboxItem::Draft(draft, _) => proposed(painter, draft, width),
        InboxItem::Obstacle(it) => {
            let mut lines = paragraph(&it.what, width);
            lines.push(Line::raw(format!(" holds up {}", it.holds_up)));
            lines.extend(it.remedies.iter().map(|it| next(painter, &it.words().join(" "))));
            lines
        }
    }
}

fn next(painter: Painter, words: &str) -> Line<'static> {
    Line::from(painter.span(&format!(" next: tetrarch {words}"), Tone::Head))
}

/// A text of others as a paragraph.
fn paragraph(text: &str, width: usize) -> Vec<Line<'static>> {
    let shown = text.lines().map(|line| visible(&unmixed(line))).collect::<Vec<_>>().join("\n");
    let lines = wrapped(&shown, width.saturating_sub(2));
    lines.into_iter().map(|line| Line::raw(format!(" {line}"))).collect()
}

fn field(painter: Painter, name: &str, text: &str, tone: Tone) -> Line<'static> {
    Line::from(vec![
        painter.span(&format!(" {} ", fitted(name, 10)), Tone::Faint),
        painter.span(text, tone),
    ])
}

fn asked(painter: Painter, question: &Question, width: usize) -> Vec<Line<'static>> {
    let mut lines = vec![
        field(painter, "question", &question.id.to_string(), Tone::Head),
        field(painter, "from", &format!("{} in {}", question.agent, question.run), Tone::Plain),
        field(painter, "for", &format!("{} {}", question.epic, question.node), Tone::Plain),
        Line::default(),
    ];
    lines.extend(paragraph(&question.text, width));
    lines.push(Line::default());
    let options = (1..).zip(&question.options);
    lines.extend(options.map(|(place, option)| {
        Line::from(vec![
            painter.span(&format!(" {place} "), Tone::Head),
            painter.span(option, Tone::Plain),
        ])
    }));
    let hint = if question.options.is_empty() {
        " ⏎ types the answer."
    } else {
        " A digit answers with an option; ⏎ types another answer."
    };
    lines.push(Line::styled(hint, painter.tone(Tone::Faint)));
    lines
}

fn proposed(painter: Painter, draft: &Proposal, width: usize) -> Vec<Line<'static>> {
    let mut lines = vec![
        field(painter, "draft", &draft.id.to_string(), Tone::Head),
        field(painter, "from", &draft.author.to_string(), Tone::Plain),
        field(
            painter,
            "plan",
            &format!("{} version {}", draft.epic, draft.base_version),
            Tone::Plain,
        ),
    ];
    lines.extend(paragraph(&draft.reason, width));
    for node in &draft.edit.puts {
        lines.push(Line::default());
        lines.push(field(painter, "defines", &format!("{} {}", node.id, node.name), Tone::Plain));
        for (key, text) in node_in_words(node) {
            lines.push(field(painter, &key, "", Tone::Plain));
            lines.extend(paragraph(&text, width));
        }
    }
    let output = output_in_words(&draft.edit.output);
    if !output.is_empty() {
        lines.push(field(painter, "output", &output, Tone::Warn));
    }
    let removed: Vec<String> = draft.edit.removes.iter().map(ToString::to_string).collect();
    if !removed.is_empty() {
        lines.push(field(painter, "gives up", &removed.join(" "), Tone::Warn));
    }
    lines
}

/// What a change will do, to what, asked by whom, until when, and its diff.
pub(super) fn change(model: &RosterModel, painter: Painter, change: &Change) -> Vec<Line<'static>> {
    let action = &change.made.action;
    let digest = action.digest();
    let status = change.status.as_str();
    let mut lines = vec![
        field(painter, "change", &change.id.to_string(), Tone::Head),
        field(painter, "state", status, tone_of(status)),
        field(painter, "will", &unmixed(&change_in_words(change, model.now)), Tone::Plain),
        field(
            painter,
            "in",
            &unmixed(&format!("{} on {}", action.repository, change.host)),
            Tone::Plain,
        ),
        field(painter, "head", &format!("{} from {}", action.head, action.base), Tone::Plain),
        field(painter, "from", &format!("{} in {}", change.agent, change.run), Tone::Plain),
        field(painter, "for", &format!("{} {}", change.epic, change.node), Tone::Plain),
        field(painter, "digest", &digest, Tone::Plain),
    ];
    let files = action.files.iter().map(|file| field(painter, "file", &unmixed(file), Tone::Plain));
    lines.extend(files);
    lines.push(Line::default());
    let shown = model.diff.as_ref();
    let shown = shown.filter(|shown| shown.change == change.id && shown.digest == digest);
    match shown.and_then(|shown| shown.text.as_ref()) {
        None => lines.push(Line::styled(" reading the diff", painter.tone(Tone::Faint))),
        Some(Err(why)) => lines.push(Line::from(painter.span(&format!(" {why}"), Tone::Bad))),
        Some(Ok(diff)) => lines.extend(diff.lines().map(|line| of_diff(painter, line))),
    }
    lines
}

fn of_diff(painter: Painter, line: &str) -> Line<'static> {
    let tone = match line.chars().next() {
        Some('+') => Tone::Good,
        Some('-') => Tone::Bad,
        Some('@') => Tone::Head,
        Some(_) | None => Tone::Plain,
    };
    // A weight would be louder than the text deserves.
    let style = painter.tone(tone).remove_modifier(Modifier::BOLD);
    Line::from(Span::styled(line.to_owned(), style))
}
