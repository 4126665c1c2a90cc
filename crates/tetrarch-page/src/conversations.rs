//! What people said to the fleet, and who works for it: the session tree of each person.

use maud::{Markup, html};
use tetrarch_core::conversation::{Turn, TurnStatus};
use tetrarch_core::id::{AgentId, Principal};
use tetrarch_view::amount::cost;
use tetrarch_view::inbox::turn_answer;
use tetrarch_view::row::short;
use tetrarch_view::session_tree::{SessionBranch, SessionTree};

use crate::address::PageView;
use crate::render::PageModel;
use crate::sheet::{agent, ago, heads, link, nothing, state};

/// Characters of what was said and answered that a line shows.
const WORDS_SHOWN: usize = 300;

/// Everybody's.
pub(crate) fn list(model: &PageModel) -> Markup {
    let own = if let Principal::Human(own) = &model.human { Some(own) } else { None };
    let trees = SessionTree::everybody(&model.fleet.fold.records, &model.rows, own);
    html! {
        @if trees.is_empty() {
            (nothing("No conversations. Begin one: tetrarch chat"))
        }
        @for tree in &trees {
            h2 { (agent(&AgentId::Io(tree.human.clone()))) " " (state(tree.root.map_or("", |root| root.state))) }
            @for branch in &tree.conversations { (conversation(model, tree, branch)) }
        }
    }
}

fn conversation(model: &PageModel, tree: &SessionTree<'_>, branch: &SessionBranch<'_>) -> Markup {
    html! {
        h3 { (branch.name) @if let Some(project) = branch.project() { " in project " (project) } }
        table tabindex="0" {
            (heads(&["TURN", "STATE", "SINCE", "SAID", "ANSWER", "AGENTS"]))
            tbody { @for turn in branch.turns.iter().rev() { (line(model, tree, turn)) } }
        }
    }
}

fn line(model: &PageModel, tree: &SessionTree<'_>, turn: &Turn) -> Markup {
    html! {
        tr {
            td {
                @match turn.epic {
                    Some(epic) => { (link(&PageView::Plan(epic), &turn.id.number.to_string())) },
                    None => { (turn.id.number) },
                }
            }
            td { (state(turn.status.as_str())) " " (turn.lane_and_mode()) }
            td { (ago(model.now, turn.since)) }
            td { (beginning(&turn.text)) }
            td {
                (beginning(&turn.answer))
                @if turn.status == TurnStatus::Asking {
                    div { "next: " code { "tetrarch " (turn_answer(turn)) } }
                }
            }
            td {
                @for (depth, row) in tree.agents(turn) {
                    div {
                        ("\u{a0}\u{a0}".repeat(*depth))
                        a class="row" id={ "row-" (row.id) } href=(PageView::Agent(row.id.clone()).href()) title=(row.id) { (short(&row.id)) }
                        " " (state(row.state)) " " (cost(row.cost_micro))
                    }
                }
            }
        }
    }
}

/// What a line shows of a text.
pub(crate) fn beginning(text: &str) -> String {
    let mut shown: String = text.chars().take(WORDS_SHOWN).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}
