//! Goals, and a goal's plan: a graph in layers with the critical path, the same as a table, and its versions.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use maud::{Markup, html};
use tetrarch_core::id::{EpicId, NodeId};
use tetrarch_core::plan::PlanEvent;
use tetrarch_core::time::BusTime;
use tetrarch_view::amount::clock;
use tetrarch_view::graph::{GraphPlace, PlanGraph, plan_graph};
use tetrarch_view::outline::{OutlineLine, outline};
use tetrarch_view::row::short;
use tetrarch_view::timeline::{RunSpan, timeline};
use tetrarch_view::tone::tone_of;

use crate::address::PageView;
use crate::render::{PageExtra, PageModel};
use crate::sheet::{agent, ago, class, field_of, heads, link, nothing, state};

/// Goals that are listed.
const GOALS_SHOWN: usize = 200;
/// Leaves and lines of a graph that is drawn; of a larger plan there is the table.
const LEAVES_DRAWN: usize = 300;
const EDGES_DRAWN: usize = 1_500;
/// Versions that are listed, the latest ones.
const VERSIONS_SHOWN: usize = 200;
/// A box of the graph, and the space between two, in pixels.
const BOX: (usize, usize) = (176, 46);
const GAP: (usize, usize) = (48, 14);
/// Attempts that are drawn, the width of their time and of what is left of it, and the height of each, in pixels.
const SPANS_DRAWN: usize = 100;
const SPAN_WIDTH: u64 = 760;
const LABEL: usize = 170;
const SPAN_HEIGHT: usize = 22;
/// Characters of a name in a box.
const NAME_CHARS: usize = 24;

/// The goals: those that are worked on first, then the newest.
pub(crate) fn goals(model: &PageModel) -> Markup {
    let records = &model.fleet.fold.records;
    let mut states: Vec<_> = records.goal_states.values().collect();
    states.sort_by_key(|state| (state.status.is_closed(), Reverse(state.id)));
    html! {
        p class="count" { (states.len()) " goals" }
        @if states.is_empty() { (nothing("No goals. Give the fleet one: tetrarch run PLAN")) } @else {
            table tabindex="0" {
                (heads(&["GOAL", "PROJECT", "STATE", "DONE", "SINCE"]))
                tbody {
                    @for it in states.into_iter().take(GOALS_SHOWN) {
                        @let goal = records.goals.get(&it.id);
                        tr {
                            td { a class="row" id={ "row-" (it.id) } href=(PageView::Plan(it.id).href()) {
                                (goal.map_or("", |goal| &goal.spec.title))
                            } }
                            td { (goal.map_or("", |goal| goal.project.as_str())) }
                            td { (state(it.status.as_str())) }
                            td { (it.percent) "%" }
                            td { (ago(model.now, it.since)) }
                        }
                    }
                }
            }
        }
    }
}

/// A plan.
pub(crate) fn plan(model: &PageModel, epic: EpicId) -> Markup {
    let records = &model.fleet.fold.records;
    let lines = outline(&model.fleet.fold, epic);
    let Some(goal) = records.goals.get(&epic) else { return nothing("This goal is not known.") };
    let standing = records.goal_states.get(&epic);
    let version = records.plans.get(&epic).map_or(0, |plan| plan.version);
    let statuses = lines.iter().map(|line| (line.id, line.status)).collect();
    let graph = records.nodes.get(&epic).map(|nodes| plan_graph(nodes, &statuses));
    let graph = graph.unwrap_or_default();
    let path: Vec<String> = graph.critical.iter().map(ToString::to_string).collect();
    html! {
        h2 { (goal.spec.title) }
        dl class="sheet" {
            @if let Some(it) = standing {
                (field_of("state", &html! { (state(it.status.as_str())) " " (it.percent) "%" }))
            }
            (field_of("version", &html! { (version) " " (link(&PageView::History(epic), "history")) }))
            (field_of("critical path", &html! { (path.join(" → ")) }))
        }
        @if graph.places.len() > LEAVES_DRAWN || graph.edges.len() > EDGES_DRAWN {
            (nothing("The plan is too large to be drawn; the table below has all of it."))
        } @else { (drawn(&graph, &lines)) }
        (table(&lines))
        (attempts(model, epic))
    }
}

/// The attempts on a line of time, the latest ones.
fn attempts(model: &PageModel, epic: EpicId) -> Markup {
    let spans = timeline(&model.fleet.fold.records, epic, model.now);
    let shown = &spans[spans.len().saturating_sub(SPANS_DRAWN)..];
    let (Some(begin), Some(end)) =
        (shown.first().map(|span| span.from), shown.iter().map(|span| span.until).max())
    else {
        return html! {};
    };
    let whole = (end - begin).0.max(1);
    let at = |moment: BusTime| {
        LABEL + usize::try_from((moment - begin).0 * SPAN_WIDTH / whole).unwrap_or(0)
    };
    let (width, height) =
        (LABEL + usize::try_from(SPAN_WIDTH).unwrap_or(0) + 8, 30 + shown.len() * SPAN_HEIGHT);
    html! {
        h2 { "Attempts" }
        div class="graph" tabindex="0" role="region" aria-label="Attempts on a line of time" {
            svg width=(width) height=(height) viewBox={ "0 0 " (width) " " (height) } role="group" aria-label="Attempts" {
                @for quarter in 0..=4u64 {
                    @let moment = BusTime(begin.0 + whole * quarter / 4);
                    line class="grid" x1=(at(moment)) x2=(at(moment)) y1="22" y2=(height - 4) {}
                    text class="axis" x=(at(moment)) y="14" text-anchor=(if quarter == 4 { "end" } else { "start" }) { (clock(moment)) }
                }
                @for (row, span) in shown.iter().enumerate() { (bar(span, 26 + row * SPAN_HEIGHT, at)) }
            }
        }
    }
}

fn bar(span: &RunSpan, y: usize, at: impl Fn(BusTime) -> usize) -> Markup {
    let state = span.state.as_str();
    let busy = span.waits.unwrap_or(span.until);
    let said = format!("{} {}: {state}, {}", span.node, short(&span.agent), span.until - span.from);
    let part = |class: &str, from: BusTime, to: BusTime| {
        let (x, end) = (at(from), at(to));
        html! { rect class={ "bar " (class) } x=(x) y=(y + 3) width=((end - x).max(3)) height=(SPAN_HEIGHT - 7) rx="3" {} }
    };
    html! {
        a href=(PageView::Agent(span.agent.clone()).href()) class=(class(tone_of(state))) {
            title { (said) }
            text x="4" y=(y + 14) { (span.node) " " (state) }
            (part("", span.from, busy))
            @if let Some(since) = span.waits { (part("waits", since, span.until)) }
        }
    }
}

fn table(lines: &[OutlineLine]) -> Markup {
    html! {
        table tabindex="0" {
            (heads(&["NODE", "STATE", "PROGRESS", "WHO", "NAME", "HELD BY"]))
            tbody {
                @for line in lines {
                    tr {
                        th scope="row" class={ "in" (line.depth) } { @if line.critical { "* " } (line.id) }
                        td { (state(line.status.as_str())) }
                        td { @match line.attempts {
                            None => { (line.settled.0) "/" (line.settled.1) },
                            Some((0, _)) => {},
                            Some((begun, most)) => { "attempt " (begun) " of " (most) },
                        } }
                        td { @for who in &line.who { (agent(who)) " " } }
                        td { (line.title) }
                        td { (line.blocked) }
                    }
                }
            }
        }
    }
}

fn corner(place: &GraphPlace) -> (usize, usize) {
    (8 + place.layer * (BOX.0 + GAP.0), 8 + place.row * (BOX.1 + GAP.1))
}

fn drawn(graph: &PlanGraph, lines: &[OutlineLine]) -> Markup {
    let lines: BTreeMap<NodeId, &OutlineLine> = lines.iter().map(|line| (line.id, line)).collect();
    let corners: BTreeMap<NodeId, (usize, usize)> =
        graph.places.iter().map(|place| (place.id, corner(place))).collect();
    let far = |of: fn(&(usize, usize)) -> usize| corners.values().map(of).max().unwrap_or(0);
    let (width, height) = (far(|at| at.0) + BOX.0 + 8, far(|at| at.1) + BOX.1 + 8);
    let is_critical = |from: NodeId, to: NodeId| {
        graph.critical.windows(2).any(|pair| pair == [from, to] || pair == [to, from])
    };
    html! {
        div class="graph" tabindex="0" role="region" aria-label="Graph of the plan; the table below says the same" {
            svg width=(width) height=(height) viewBox={ "0 0 " (width) " " (height) } role="group" aria-label="Graph of the plan" {
                @for (from, to) in &graph.edges {
                    @if let (Some(a), Some(b)) = (corners.get(from), corners.get(to)) {
                        path d=(curve(*a, *b)) class=(if is_critical(*from, *to) { "edge critical" } else { "edge" }) {}
                    }
                }
                @for place in &graph.places {
                    @if let Some(line) = lines.get(&place.id) { (boxed(line, corner(place))) }
                }
            }
        }
    }
}

fn curve((ax, ay): (usize, usize), (bx, by): (usize, usize)) -> String {
    let (ax, ay, by) = (ax + BOX.0, ay + BOX.1 / 2, by + BOX.1 / 2);
    let middle = ax.midpoint(bx);
    format!("M{ax} {ay} C{middle} {ay} {middle} {by} {bx} {by}")
}

fn boxed(line: &OutlineLine, (x, y): (usize, usize)) -> Markup {
    let status = line.status.as_str();
    let name: String = line.title.chars().take(NAME_CHARS).collect();
    let critical = if line.critical { " critical" } else { "" };
    let inside = html! {
        g class={ "node " (class(tone_of(status))) (critical) } {
            title { (line.id) " " (line.title) ": " (status) }
            rect x=(x) y=(y) width=(BOX.0) height=(BOX.1) rx="4" {}
            text x=(x + 8) y=(y + 18) { @if line.critical { "* " } (line.id) " " (status) }
            text x=(x + 8) y=(y + 36) { (name) }
        }
    };
    html! {
        @match line.who.first() {
            Some(who) => { a href=(PageView::Agent(who.clone()).href()) { (inside) } }
            None => { (inside) }
        }
    }
}

/// The versions of a plan, the latest first.
pub(crate) fn history(model: &PageModel, epic: EpicId, extra: &PageExtra) -> Markup {
    let PageExtra::Versions(versions) = extra else { return nothing("No versions were read.") };
    let versions = match versions {
        Ok(versions) => versions,
        Err(why) => return html! { p class="bad" { (why) } },
    };
    html! {
        p { (link(&PageView::Plan(epic), "the plan as it is")) " · " (versions.len()) " versions" }
        table tabindex="0" {
            (heads(&["VERSION", "AGE", "FROM", "WHY", "DONE", "CHANGES"]))
            tbody { @for event in versions.iter().rev().take(VERSIONS_SHOWN) { (version(model, event)) } }
        }
    }
}

fn version(model: &PageModel, event: &PlanEvent) -> Markup {
    html! {
        tr {
            th scope="row" { (event.version) }
            td { (ago(model.now, event.at)) }
            td { (event.source.as_str()) }
            td { (event.reason.as_str()) }
            td { (event.percent) "%" }
            td { @for change in &event.changes {
                div { (change.node) " " @if let Some(from) = change.from { (state(from.as_str())) " → " }
                    (state(change.to.as_str())) " " (change.why) }
            } }
        }
    }
}
