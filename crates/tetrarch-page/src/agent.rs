//! One agent: what it does and may spend, its transcript, its brief, and the verbs.

use maud::{Markup, html};
use tetrarch_core::agent::Agent;
use tetrarch_core::brief::ExpectedOutput;
use tetrarch_core::budget::Counter;
use tetrarch_core::id::AgentId;
use tetrarch_core::question::{Question, QuestionStatus};
use tetrarch_core::role::Role;
use tetrarch_core::run::{Run, RunState};
use tetrarch_core::time::BusTime;
use tetrarch_view::amount::{clock, cost, count};
use tetrarch_view::grant::GrantUse;
use tetrarch_view::order::find;
use tetrarch_view::row::AgentRow;
use tetrarch_view::transcript::words;

use crate::address::PageView;
use crate::form::{FormKind, button, text_form};
use crate::render::{PageExtra, PageModel, PageParts, PageVisit};
use crate::sheet::{age, agent as agent_link, field, field_of, link, list, nothing, state, toned};

/// All of it.
pub(crate) fn parts(
    model: &PageModel,
    visit: &PageVisit<'_>,
    id: &AgentId,
    extra: &PageExtra,
) -> PageParts {
    let title = id.to_string();
    let records = &model.fleet.fold.records;
    let known = records.agents.get(id).zip(find(&model.rows, id));
    let Some((agent, row)) = known else {
        let live = nothing("This agent is not known, or not any more.");
        return PageParts { title, live, ..PageParts::default() };
    };
    let run = row.run.and_then(|run| records.runs.get(&run));
    let live = html! {
        (facts(model, agent, row))
        @if run.is_some() { (transcript(extra)) }
    };
    let after = html! {
        (verbs(visit, row))
        @if let Some(run) = run { (brief(run)) }
    };
    PageParts { title, live, after, ..PageParts::default() }
}

fn facts(model: &PageModel, agent: &Agent, row: &AgentRow) -> Markup {
    let fold = &model.fleet.fold;
    let node = agent.work.as_ref().map(|work| {
        let nodes = fold.records.nodes.get(&work.epic);
        let name = nodes.and_then(|nodes| nodes.get(&work.node)).map_or("", |node| &node.name);
        let status = fold.node_status(work.epic, work.node);
        html! { (link(&PageView::Plan(work.epic), &work.node.to_string())) " " (name) " " (state(status.as_str())) }
    });
    let changes = fold.records.changes.values().filter(|change| change.agent == agent.id);
    let changes: Vec<_> = changes.collect();
    html! {
        dl class="sheet" data-state={ (row.state == RunState::PausedByUser.as_str()) (row.state == RunState::AwaitingInput.as_str()) (row.ended) (row.run.is_some()) } {
            (field_of("state", &html! { (state(row.state)) " " (toned(row.alarm.as_str(), row.alarm.tone())) }))
            (field("about", &row.intent))
            (field("label", &row.label))
            (field("because", &agent.reason))
            @for question in open_questions(model, &agent.id) {
                (field_of("asks", &html! { (link(&PageView::Question(question.id), &question.text)) }))
            }
            @if let Some(node) = node { (field_of("work", &node)) }
            @if let Some(parent) = &agent.parent { (field_of("parent", &agent_link(parent))) }
            @if !agent.slots.is_empty() {
                (field_of("children", &html! { @for slot in &agent.slots { (agent_link(&slot.child)) " " } }))
            }
            (field("model", &row.model))
            (field("host", &row.host))
            (field("tool", &row.tool))
            (field("time", &row.elapsed.map(age).unwrap_or_default()))
            (field("used", &format!(
                "{} tokens in, {} out {}", count(row.tokens_in), count(row.tokens_out), cost(row.cost_micro)
            )))
            @for counter in Counter::ALL { (budget(agent, row, counter)) }
            @if !changes.is_empty() {
                (field_of("changes", &html! {
                    @for change in changes {
                        (link(&PageView::Change(change.id), &change.id.to_string())) " " (state(change.status.as_str())) " "
                    }
                }))
            }
            (list("verbs", agent.verbs.receipts.iter().rev().take(5).map(|it| it.verb.as_str())))
        }
    }
}

/// What it asks and nobody has answered.
fn open_questions<'m>(model: &'m PageModel, id: &'m AgentId) -> impl Iterator<Item = &'m Question> {
    let all = model.fleet.fold.records.questions.values();
    all.filter(move |it| it.agent == *id && it.status == QuestionStatus::Open)
}

/// What is used of a grant, and what of it children hold.
fn budget(agent: &Agent, row: &AgentRow, counter: Counter) -> Markup {
    let Some(used) = GrantUse::of(agent, row, counter) else { return html! {} };
    let (limit, text) = (used.limit, used.to_string());
    field_of(
        counter.as_str(),
        &html! {
            meter min="0" max=(limit) high=(limit / 5 * 4) value=(used.gone.min(limit)) { (text) } " " (text)
        },
    )
}

fn transcript(extra: &PageExtra) -> Markup {
    let PageExtra::Transcript(entries, streamed) = extra else { return html! {} };
    html! {
        h2 { "Transcript" }
        div class="transcript" id="transcript" data-follow="" tabindex="0" role="log" aria-label="Transcript" {
            @if entries.is_empty() && streamed.is_empty() { (nothing("Nothing is written down yet.")) }
            @for (at, event) in entries {
                @let (what, text) = words(event);
                div class="entry" { (time(*at)) " " b { (what) } " " pre { (text) } }
            }
            @if !streamed.is_empty() { div class="entry" { pre { (streamed) } } }
        }
    }
}

fn time(at: BusTime) -> Markup {
    html! { time { (clock(at)) } }
}

fn verbs(visit: &PageVisit<'_>, row: &AgentRow) -> Markup {
    let id = row.id.to_string();
    let runs = row.run.is_some() && !row.ended;
    let paused = row.state == RunState::PausedByUser.as_str();
    // There is nothing to pause in one that waits for a person.
    let waits = row.state == RunState::AwaitingInput.as_str();
    let stopped = !row.ended
        && match Role::of(&row.id) {
            Role::Global | Role::Host => false,
            Role::Project
            | Role::Interaction
            | Role::Specialist
            | Role::Reviewer
            | Role::Worker => true,
        };
    html! {
        @if runs || stopped { h2 { "Direct it" } }
        @if runs {
            (text_form(visit, FormKind::Steer, &id, "Steer: a text before its next step", "Steer"))
            (text_form(visit, FormKind::Interrupt, &id, "Interrupt: abort its turn, because", "Interrupt"))
            @if paused { (button(visit, FormKind::Resume, &id, "Resume")) }
            @else if !waits { (button(visit, FormKind::Pause, &id, "Pause")) }
        }
        @if stopped {
            details {
                summary { "Stop…" }
                p { "It and all agents below it end." }
                (text_form(visit, FormKind::Stop, &id, "Stop it, because", "Stop it and all below it"))
            }
        }
    }
}

fn brief(run: &Run) -> Markup {
    let brief = &run.brief;
    html! {
        h2 { "Brief" }
        dl class="sheet" {
            (field("run", &run.id.to_string()))
            (field("goal", &brief.goal))
            (list("facts", brief.key_facts.iter().map(String::as_str)))
            (list("criteria", brief.success_criteria.iter().map(String::as_str)))
            (field("done when", &brief.definition_of_done))
            @if let ExpectedOutput::Schema(schema) = &brief.expected_output { (field("output", schema)) }
            (list("tools", brief.tools.names()))
            (field("runner", &format!("{} {}", brief.runner.profile, brief.runner.kind)))
            (field("workspace", &brief.workspace))
            (list("scope", brief.scope_paths.iter().map(String::as_str)))
            (field("worktree", brief.worktree.as_str()))
            (field("wall", &brief.wall.map(|wall| wall.to_string()).unwrap_or_default()))
        }
    }
}
