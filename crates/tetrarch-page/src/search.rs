//! What has some words in it: agents, goals, work, questions, changes, conversations, hosts.

use maud::{Markup, html};
use tetrarch_core::id::AgentId;
use tetrarch_view::order::matching;

use crate::address::PageView;
use crate::conversations::beginning;
use crate::render::PageModel;
use crate::sheet::{link, nothing, state};

/// Finds of each kind that are listed.
const FOUND_SHOWN: usize = 25;

/// One find.
struct SearchFind {
    view: PageView,
    name: String,
    text: String,
    state: &'static str,
}

/// What was found.
pub(crate) fn found(model: &PageModel, words: &str) -> Markup {
    if words.is_empty() {
        return nothing("Type some words: a name, a part of a title, of a question, of a task.");
    }
    let wanted = words.to_lowercase();
    let has = |text: &str| text.to_lowercase().contains(&wanted);
    let groups = [
        ("Agents", agents(model, words)),
        ("Goals", goals(model, has)),
        ("Work", work(model, has)),
        ("Questions", questions(model, has)),
        ("Changes", changes(model, has)),
        ("Conversations", turns(model, has)),
        ("Hosts", hosts(model, has)),
    ];
    let none = groups.iter().all(|(_, found)| found.is_empty());
    html! {
        @if none { (nothing("Nothing has these words in it.")) }
        @for (name, found) in groups.iter().filter(|(_, found)| !found.is_empty()) {
            h2 { (name) }
            ul class="found" {
                @for one in found.iter().take(FOUND_SHOWN) {
                    li { (link(&one.view, &one.name)) " " (state(one.state)) " " (one.text) }
                }
            }
            @if found.len() > FOUND_SHOWN { (nothing(&format!("and {} more", found.len() - FOUND_SHOWN))) }
        }
    }
}

fn agents(model: &PageModel, words: &str) -> Vec<SearchFind> {
    let rows = matching(&model.rows, words).into_iter().filter_map(|at| model.rows.get(at));
    rows.map(|row| SearchFind {
        view: PageView::Agent(row.id.clone()),
        name: row.id.to_string(),
        text: row.intent.clone(),
        state: row.state,
    })
    .collect()
}

fn goals(model: &PageModel, has: impl Fn(&str) -> bool) -> Vec<SearchFind> {
    let records = &model.fleet.fold.records;
    let goals = records.goals.values().filter(|goal| {
        has(&goal.spec.title) || has(&goal.id.to_string()) || has(goal.project.as_str())
    });
    goals
        .map(|goal| SearchFind {
            view: PageView::Plan(goal.id),
            name: goal.spec.title.clone(),
            text: goal.project.to_string(),
            state: records.goal_states.get(&goal.id).map_or("", |state| state.status.as_str()),
        })
        .collect()
}

fn work(model: &PageModel, has: impl Fn(&str) -> bool) -> Vec<SearchFind> {
    let fold = &model.fleet.fold;
    let nodes = fold
        .records
        .nodes
        .iter()
        .flat_map(|(epic, nodes)| nodes.values().map(move |node| (*epic, node)));
    nodes
        .filter(|(_, node)| has(&node.name) || has(&node.objective))
        .map(|(epic, node)| SearchFind {
            view: PageView::Plan(epic),
            name: node.id.to_string(),
            text: node.name.clone(),
            state: fold.node_status(epic, node.id).as_str(),
        })
        .collect()
}

fn questions(model: &PageModel, has: impl Fn(&str) -> bool) -> Vec<SearchFind> {
    let all = model.fleet.fold.records.questions.values();
    all.filter(|it| has(&it.text) || has(&it.id.to_string()))
        .map(|it| SearchFind {
            view: PageView::Question(it.id),
            name: it.id.to_string(),
            text: it.text.clone(),
            state: it.status.as_str(),
        })
        .collect()
}

fn changes(model: &PageModel, has: impl Fn(&str) -> bool) -> Vec<SearchFind> {
    let all = model.fleet.fold.records.changes.values();
    all.filter(|it| has(&it.id.to_string()) || it.made.action.files.iter().any(|file| has(file)))
        .map(|it| SearchFind {
            view: PageView::Change(it.id),
            name: it.id.to_string(),
            text: it.made.action.files.join(" "),
            state: it.status.as_str(),
        })
        .collect()
}

fn turns(model: &PageModel, has: impl Fn(&str) -> bool) -> Vec<SearchFind> {
    let all = model.fleet.fold.records.turns.values();
    all.filter(|it| has(&it.text) || has(&it.answer))
        .map(|it| SearchFind {
            view: it.epic.map_or(PageView::Conversations, PageView::Plan),
            name: it.id.to_string(),
            text: beginning(&it.text),
            state: it.status.as_str(),
        })
        .collect()
}

fn hosts(model: &PageModel, has: impl Fn(&str) -> bool) -> Vec<SearchFind> {
    let all = model.fleet.fold.records.hosts.values().filter(|host| has(host.name.as_str()));
    all.map(|host| SearchFind {
        view: PageView::Agent(AgentId::Ho(host.name.clone())),
        name: host.name.to_string(),
        text: host.address.clone(),
        state: "",
    })
    .collect()
}
