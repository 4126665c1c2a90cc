//! Keys of the inbox: what waits is shown in full, and a yes is for exactly what was shown (spec 09, Human gate).

#![expect(clippy::wildcard_enum_match_arm, reason = "keys that do nothing are not listed")]

use crossterm::event::KeyCode;
use tetrarch_core::change::ChangeStatus;
use tetrarch_core::request::Op;
use tetrarch_view::inbox::InboxItem;

use super::acting::{ask_for, is_over, send};
use super::{RosterEffects, moved};
use crate::diff::ShownDiff;
use crate::draw::inbox::extent;
use crate::input::RosterEffect;
use crate::model::{FocusTab, InboxKey, Pane, PromptKind, RosterModel};

/// Columns below which a line may be too narrow for its characters.
const COLUMNS_MIN: u16 = 20;
/// Why a yes is not taken.
const UNREAD: &str = "nothing was sent: its end was not on the screen yet; PgDn reads on";

/// Shows what waits.
pub(super) fn open(model: &mut RosterModel, effects: &mut RosterEffects) {
    model.pane = Pane::Inbox;
    model.look_for_obstacles();
    super::focusing::watch(model, effects);
    read(model, effects);
}

/// Reads the diff of the change that is shown, unless it is there.
pub(super) fn read(model: &mut RosterModel, effects: &mut RosterEffects) {
    let change = match model.pane {
        Pane::Inbox => match model.chosen() {
            Some(InboxItem::Change(change)) => Some(change),
            Some(
                InboxItem::Question(_)
                | InboxItem::Turn(_)
                | InboxItem::Draft(..)
                | InboxItem::Obstacle(_),
            )
            | None => None,
        },
        Pane::Focus if model.focus.tab == FocusTab::Change => {
            model.focus.agent.as_ref().and_then(|agent| model.change_of(agent))
        }
        Pane::Agents
        | Pane::Focus
        | Pane::Plan
        | Pane::Conversations
        | Pane::Events
        | Pane::Command => None,
    };
    let Some(change) = change else { return };
    let (id, digest) = (change.id, change.made.action.digest());
    let shown = model.diff.as_ref();
    if shown.is_some_and(|shown| shown.change == id && shown.digest == digest) {
        return;
    }
    let sha256 = change.made.action.diff.clone();
    model.diff = Some(ShownDiff::reading(id, digest.clone()));
    effects.push(RosterEffect::ReadDiff { change: id, digest, sha256 });
}

/// A key on the inbox.
pub(super) fn press(model: &mut RosterModel, code: KeyCode, effects: &mut RosterEffects) {
    match code {
        KeyCode::Esc | KeyCode::Char('a') => model.pane = Pane::Agents,
        KeyCode::PageDown | KeyCode::PageUp | KeyCode::Char(' ') => {
            let code = if code == KeyCode::Char(' ') { KeyCode::PageDown } else { code };
            let last = extent(model).map(|(lines, height)| lines.saturating_sub(height));
            model.inbox.scroll = moved(model.inbox.scroll, code, model.list_height() / 2, last);
        }
        KeyCode::Enter | KeyCode::Char('1'..='9' | 'y' | 'n' | 'm') if is_over(model) => {}
        KeyCode::Enter => answer(model),
        KeyCode::Char(digit @ '1'..='9') => choose(model, usize::from(digit as u8 - b'1'), effects),
        KeyCode::Char('y') => approve(model),
        KeyCode::Char('n') => deny(model),
        KeyCode::Char('m') => merge(model),
        code => {
            let keys: Vec<InboxKey> = model.waiting().iter().map(InboxKey::of).collect();
            let selected = model.inbox.selected.as_ref();
            let at = keys.iter().position(|key| Some(key) == selected).unwrap_or(0);
            let last = keys.len().saturating_sub(1);
            let next = moved(at, code, model.list_height() / 3, Some(last));
            if next != at {
                model.inbox.selected = keys.into_iter().nth(next);
                model.inbox.scroll = 0;
                read(model, effects);
            }
        }
    }
}

fn answer(model: &mut RosterModel) {
    if let Some(InboxItem::Question(question)) = model.chosen() {
        let id = question.id;
        ask_for(model, PromptKind::Answer(id));
    }
}

fn choose(model: &mut RosterModel, option: usize, effects: &mut RosterEffects) {
    let Some(InboxItem::Question(question)) = model.chosen() else { return };
    let Some(text) = question.options.get(option).cloned() else { return };
    let question = question.id;
    if !was_read(model, &InboxKey::Question(question), "") {
        return model.say(UNREAD);
    }
    let what = format!("answer {question}");
    send(model, what, None, Op::QuestionAnswer { question, text }, effects);
}

/// Notes whether the end of what is shown is on the screen.
pub(super) fn note_read(model: &mut RosterModel) {
    let is_shown = model.pane == Pane::Inbox && model.help.is_none() && model.prompt.is_none();
    let read = if is_shown { end_on_screen(model) } else { None };
    if read.is_some() {
        model.inbox.read = read;
    }
}

fn end_on_screen(model: &RosterModel) -> Option<(InboxKey, String)> {
    let item = model.chosen()?;
    let digest = match item {
        InboxItem::Change(change) => {
            model.diff_rows(change)?;
            change.made.action.digest()
        }
        InboxItem::Question(_)
        | InboxItem::Turn(_)
        | InboxItem::Draft(..)
        | InboxItem::Obstacle(_) => String::new(),
    };
    let (lines, height) = extent(model)?;
    let at_end = height > 0 && model.inbox.scroll.saturating_add(height) >= lines;
    (at_end && model.size.0 >= COLUMNS_MIN).then(|| (InboxKey::of(&item), digest))
}

fn was_read(model: &RosterModel, key: &InboxKey, digest: &str) -> bool {
    model.inbox.read.as_ref().is_some_and(|(read, of)| read == key && of == digest)
}

/// Why a yes is not sent, since what it is for was not on the screen to its end.
pub(super) fn unread(model: &RosterModel, kind: &PromptKind) -> Option<&'static str> {
    let read = match kind {
        PromptKind::Approve(id, digest) => was_read(model, &InboxKey::Change(*id), digest),
        PromptKind::ApproveDraft(epic, id) => was_read(model, &InboxKey::Draft(*epic, *id), ""),
        PromptKind::Filter
        | PromptKind::Steer(_)
        | PromptKind::Interrupt(_)
        | PromptKind::Stop(_)
        | PromptKind::Answer(_)
        | PromptKind::Merge(_)
        | PromptKind::Deny(_)
        | PromptKind::Reject(..)
        | PromptKind::Moment
        | PromptKind::Command => true,
    };
    (!read).then_some(UNREAD)
}

fn approve(model: &mut RosterModel) {
    let kind = match model.chosen() {
        Some(InboxItem::Change(change)) => match change.status {
            ChangeStatus::Proposed | ChangeStatus::Conflicted
                if model.diff_rows(change).is_some() =>
            {
                Ok(PromptKind::Approve(change.id, change.made.action.digest()))
            }
            ChangeStatus::Proposed | ChangeStatus::Conflicted => {
                Err("the diff is not shown: nothing is approved unseen")
            }
            ChangeStatus::Approved => Err("it is approved; m merges it"),
            ChangeStatus::Applying
            | ChangeStatus::Applied
            | ChangeStatus::Denied
            | ChangeStatus::Refused
            | ChangeStatus::Expired
            | ChangeStatus::Superseded => Err("it is decided"),
        },
        Some(InboxItem::Draft(draft, _)) => Ok(PromptKind::ApproveDraft(draft.epic, draft.id)),
        Some(InboxItem::Question(_) | InboxItem::Turn(_) | InboxItem::Obstacle(_)) | None => {
            return;
        }
    };
    match kind.and_then(|kind| unread(model, &kind).map_or(Ok(kind), Err)) {
        Ok(kind) => ask_for(model, kind),
        Err(why) => model.say(why),
    }
}

fn deny(model: &mut RosterModel) {
    let kind = match model.chosen() {
        Some(InboxItem::Change(change)) => PromptKind::Deny(change.id),
        Some(InboxItem::Draft(draft, _)) => PromptKind::Reject(draft.epic, draft.id),
        Some(InboxItem::Question(_) | InboxItem::Turn(_) | InboxItem::Obstacle(_)) | None => {
            return;
        }
    };
    ask_for(model, kind);
}

fn merge(model: &mut RosterModel) {
    let Some(InboxItem::Change(change)) = model.chosen() else { return };
    let (id, approved) = (change.id, change.status == ChangeStatus::Approved);
    if approved {
        ask_for(model, PromptKind::Merge(id));
    } else {
        model.say("it is not approved; y approves it");
    }
}
