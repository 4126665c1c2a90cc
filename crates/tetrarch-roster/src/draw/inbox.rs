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

use super::texts::{GOES_ON, fitted, pieces, wrapped};
use super::{Painter, put, put_all, title};
use crate::diff::DiffRow;
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
    let listed = listed(items.len(), body.height);
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
    let whole = items.get(at).map(|item| (whole(model, painter, item, width), rows(model, item)));
    let (lines, rows) = whole.unwrap_or_default();
    scrolled(painter, lines, rows, model.inbox.scroll, area, buffer);
}

/// Lines of the list.
fn listed(items: usize, height: u16) -> usize {
    items.min(usize::from(height / 3).max(1))
}

/// How many lines the item that is shown in full takes, and how many of them are on the screen.
pub(crate) fn extent(model: &RosterModel) -> Option<(usize, usize)> {
    let item = model.chosen()?;
    let height = model.body_height();
    let shown = usize::from(height).saturating_sub(listed(model.waiting().len(), height) + 1);
    let painter = Painter { coloured: false };
    let lines = whole(model, painter, &item, usize::from(model.size.0)).len();
    Some((lines + rows(model, &item).len(), shown))
}

/// The diff of an item.
fn rows<'m>(model: &'m RosterModel, item: &InboxItem<'_>) -> &'m [DiffRow] {
    match item {
        InboxItem::Change(change) => model.diff_rows(change).unwrap_or_default(),
        InboxItem::Question(_)
        | InboxItem::Turn(_)
        | InboxItem::Draft(..)
        | InboxItem::Obstacle(_) => &[],
    }
}

/// Draws lines and the diff below them, from the first that is not scrolled away.
pub(super) fn scrolled(
    painter: Painter,
    lines: Vec<Line<'static>>,
    rows: &[DiffRow],
    scroll: usize,
    area: Rect,
    buffer: &mut Buffer,
) {
    let most = (lines.len() + rows.len()).saturating_sub(usize::from(area.height));
    let scroll = scroll.min(most);
    let rows = rows.iter().skip(scroll.saturating_sub(lines.len()));
    let rows = rows.map(|row| of_diff(painter, row));
    put_all(buffer, area, lines.into_iter().skip(scroll).chain(rows));
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
            lines.extend(next(painter, &turn_answer(turn), width));
            lines
        }
        InboxItem::Change(change) => self::change(model, painter, change, width),
        InboxItem::Draft(draft, _) => proposed(painter, draft, width),
        InboxItem::Obstacle(it) => {
            let mut lines = paragraph(&it.what, width);
            lines.push(Line::raw(format!(" holds up {}", it.holds_up)));
            lines.extend(
                it.remedies.iter().flat_map(|it| next(painter, &it.words().join(" "), width)),
            );
            lines
        }
    }
}

fn next(painter: Painter, words: &str, width: usize) -> Vec<Line<'static>> {
    cut(Span::raw(" "), &painter.span(&format!("next: tetrarch {words}"), Tone::Head), width)
}

/// A text of others as a paragraph.
fn paragraph(text: &str, width: usize) -> Vec<Line<'static>> {
    let whole = text.lines().map(|line| wrapped(&visible(&unmixed(line)), width.saturating_sub(2)));
    let marks = || std::iter::once(" ").chain(std::iter::repeat(GOES_ON));
    whole
        .map(|lines| if lines.is_empty() { vec![String::new()] } else { lines })
        .flat_map(|lines| lines.into_iter().zip(marks()))
        .map(|(line, mark)| Line::raw(format!("{mark}{line}")))
        .collect()
}

/// A text in as many lines as it takes, the first behind its head and the others marked.
fn cut(head: Span<'static>, text: &Span<'static>, width: usize) -> Vec<Line<'static>> {
    let [first, mut indent] = [head.width(); 2];
    if indent * 2 > width {
        // A narrow screen has no room for an indent.
        indent = 1;
    }
    let columns = [first, indent].map(|used| width.saturating_sub(used));
    let mark = Span::raw(format!("{GOES_ON:<indent$}"));
    let heads = std::iter::once(head).chain(std::iter::repeat(mark));
    let lines = pieces(&text.content, columns).into_iter().zip(heads);
    lines.map(|(piece, head)| Line::from(vec![head, Span::styled(piece, text.style)])).collect()
}

/// Fields below each other.
struct FieldSheet {
    painter: Painter,
    width: usize,
    lines: Vec<Line<'static>>,
}

impl FieldSheet {
    fn add(&mut self, name: &str, text: &str, tone: Tone) {
        let head = self.painter.span(&format!(" {} ", fitted(name, 10)), Tone::Faint);
        self.lines.extend(cut(head, &self.painter.span(text, tone), self.width));
    }
}

fn asked(painter: Painter, question: &Question, width: usize) -> Vec<Line<'static>> {
    let mut sheet = FieldSheet { painter, width, lines: Vec::new() };
    sheet.add("question", &question.id.to_string(), Tone::Head);
    sheet.add("from", &format!("{} in {}", question.agent, question.run), Tone::Plain);
    sheet.add("for", &format!("{} {}", question.epic, question.node), Tone::Plain);
    let mut lines = sheet.lines;
    lines.push(Line::default());
    lines.extend(paragraph(&question.text, width));
    lines.push(Line::default());
    let options = (1..).zip(&question.options);
    lines.extend(options.flat_map(|(place, option)| {
        let head = painter.span(&format!(" {place} "), Tone::Head);
        cut(head, &painter.span(&unmixed(option), Tone::Plain), width)
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
    let mut sheet = FieldSheet { painter, width, lines: Vec::new() };
    sheet.add("draft", &draft.id.to_string(), Tone::Head);
    sheet.add("from", &draft.author.to_string(), Tone::Plain);
    sheet.add("plan", &format!("{} version {}", draft.epic, draft.base_version), Tone::Plain);
    sheet.lines.extend(paragraph(&draft.reason, width));
    for node in &draft.edit.puts {
        sheet.lines.push(Line::default());
        sheet.add("defines", &unmixed(&format!("{} {}", node.id, node.name)), Tone::Plain);
        for (key, text) in node_in_words(node) {
            sheet.add(&key, "", Tone::Plain);
            sheet.lines.extend(paragraph(&text, width));
        }
    }
    let output = output_in_words(&draft.edit.output);
    if !output.is_empty() {
        sheet.add("output", &output, Tone::Warn);
    }
    let removed: Vec<String> = draft.edit.removes.iter().map(ToString::to_string).collect();
    if !removed.is_empty() {
        sheet.add("gives up", &removed.join(" "), Tone::Warn);
    }
    sheet.lines
}

/// What a change will do, to what, asked by whom, until when, and how it stands with its diff.
pub(super) fn change(
    model: &RosterModel,
    painter: Painter,
    change: &Change,
    width: usize,
) -> Vec<Line<'static>> {
    let action = &change.made.action;
    let digest = action.digest();
    let status = change.status.as_str();
    let mut sheet = FieldSheet { painter, width, lines: Vec::new() };
    sheet.add("change", &change.id.to_string(), Tone::Head);
    sheet.add("state", status, tone_of(status));
    sheet.add("will", &unmixed(&change_in_words(change, model.now)), Tone::Plain);
    let place = format!("{} on {}", action.repository, change.host);
    sheet.add("in", &unmixed(&place), Tone::Plain);
    sheet.add("head", &format!("{} from {}", action.head, action.base), Tone::Plain);
    sheet.add("from", &format!("{} in {}", change.agent, change.run), Tone::Plain);
    sheet.add("for", &format!("{} {}", change.epic, change.node), Tone::Plain);
    sheet.add("digest", &digest, Tone::Plain);
    action.files.iter().for_each(|file| sheet.add("file", &unmixed(file), Tone::Plain));
    let mut lines = sheet.lines;
    lines.push(Line::default());
    let shown = model.diff.as_ref();
    let shown = shown.filter(|shown| shown.change == change.id && shown.digest == digest);
    match shown.and_then(|shown| shown.text.as_ref()) {
        None => lines.push(Line::styled(" reading the diff", painter.tone(Tone::Faint))),
        Some(Err(why)) => lines.extend(
            paragraph(why, width).into_iter().map(|line| line.style(painter.tone(Tone::Bad))),
        ),
        Some(Ok(_)) => {}
    }
    lines
}

fn of_diff(painter: Painter, row: &DiffRow) -> Line<'static> {
    // A weight would be louder than the text deserves.
    let style = painter.tone(row.tone).remove_modifier(Modifier::BOLD);
    Line::from(Span::styled(row.text.clone(), style))
}
