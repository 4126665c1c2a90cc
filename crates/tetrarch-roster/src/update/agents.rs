//! Keys of the list of agents and of a plan.

#![expect(clippy::wildcard_enum_match_arm, reason = "keys that do nothing are not listed")]

use crossterm::event::KeyCode;
use tetrarch_core::id::{AgentId, EpicId};
use tetrarch_view::order::SortColumn;

use super::{RosterEffects, acting, focusing, moved, travelling};
use crate::model::{Pane, PlanPane, PromptKind, RosterModel, TextPrompt};

/// A key on the list.
pub(super) fn press(model: &mut RosterModel, code: KeyCode, effects: &mut RosterEffects) {
    match code {
        KeyCode::Enter => focusing::open(model, effects),
        KeyCode::Esc if model.travels() => travelling::back(model, effects),
        KeyCode::Esc => {
            model.wish.filter.clear();
            model.acts.clear();
            model.list();
        }
        KeyCode::Char('/') => {
            let text = model.wish.filter.clone();
            model.prompt = Some(TextPrompt { kind: PromptKind::Filter, text });
        }
        KeyCode::Char('<') => order(model, model.wish.column.moved(-1)),
        KeyCode::Char('>') => order(model, model.wish.column.moved(1)),
        KeyCode::Char('0') => order(model, SortColumn::Attention),
        KeyCode::Char('r') => {
            model.wish.reversed = !model.wish.reversed;
            model.list();
        }
        KeyCode::Char('d') => {
            model.wish.ended = !model.wish.ended;
            model.list();
        }
        KeyCode::Char(' ') => {
            if let Some(id) = model.selected.clone()
                && !model.wish.collapsed.remove(&id)
            {
                model.wish.collapsed.insert(id);
            }
            model.list();
        }
        KeyCode::Char('+') => {
            model.wish.collapsed.clear();
            model.list();
        }
        KeyCode::Char('-') => {
            let parents = model.rows.iter().filter_map(|row| row.parent.clone());
            model.wish.collapsed = parents.filter(|id| *id != AgentId::Go).collect();
            model.list();
        }
        KeyCode::Char('s' | 'i' | 'x' | 'p') => acting::verb(model, code, effects),
        code => {
            let place = model.place().unwrap_or(0);
            let last = model.lines.len().saturating_sub(1);
            model.select(moved(place, code, model.list_height(), Some(last)));
        }
    }
}

fn order(model: &mut RosterModel, column: SortColumn) {
    model.wish.column = column;
    model.wish.reversed = false;
    model.list();
}

/// Shows the plan of whoever is selected, else one that is worked on.
pub(super) fn open_plan(model: &mut RosterModel) {
    let row = model.subject();
    let of_row = row.and_then(|row| row.work).map(|(epic, _)| epic);
    let project = row.and_then(|row| {
        if let AgentId::Po(project) = &row.id { Some(project) } else { row.project.as_ref() }
    });
    let epics = epics(model);
    let of_project = epics.iter().copied().find(|epic| {
        let goal = model.fleet.fold.records.goals.get(epic);
        goal.is_some_and(|goal| Some(&goal.project) == project)
    });
    let epic = of_row.or(of_project).or(epics.first().copied());
    model.plan = PlanPane { epic, ..PlanPane::default() };
    model.pane = Pane::Plan;
    model.outline();
}

/// Goals: those that are worked on first, then the newest.
fn epics(model: &RosterModel) -> Vec<EpicId> {
    let mut states: Vec<_> = model.fleet.fold.records.goal_states.values().collect();
    states.sort_by_key(|state| (state.status.is_closed(), std::cmp::Reverse(state.id)));
    states.into_iter().map(|state| state.id).collect()
}

/// A key on a plan.
pub(super) fn press_in_plan(model: &mut RosterModel, code: KeyCode) {
    match code {
        KeyCode::Esc | KeyCode::Char('P') => model.pane = Pane::Agents,
        KeyCode::Char('[' | ']') => {
            let epics = epics(model);
            let at = model.plan.epic.and_then(|epic| epics.iter().position(|it| *it == epic));
            let count = epics.len().max(1);
            let by = if code == KeyCode::Char(']') { 1 } else { count - 1 };
            let epic = epics.get((at.unwrap_or(0) + by) % count).copied();
            model.plan = PlanPane { epic, ..PlanPane::default() };
            model.outline();
        }
        code => {
            let height = model.list_height();
            let last = model.plan.lines.len().saturating_sub(1);
            model.plan.scroll = moved(model.plan.scroll, code, height, Some(last));
        }
    }
}
