//! Handoffs (spec 05, Records): kept with a run's result, with a status update, when
//! somebody else calls work done, and when a task, a phase or a goal is settled. Each place keeps its
//! latest, within bounds and without credentials. They change no plan.

use std::collections::{BTreeMap, BTreeSet};

use crate::assignment::Assignment;
use crate::brief::{Evidence, Outcome, RunResult};
use crate::crystallization::{Crystallization, Handoff, References, Source};
use crate::id::{AgentId, CrystallizationId, EpicId, NodeId, RunId, SessionId};
use crate::ledger::Record;
use crate::limits::{ROLL_UPS_BYTES_MAX, SUMMARY_BYTES_MAX, TEXT_BYTES_MAX};
use crate::overseer::update::{self, Said, Update};
use crate::plan::rollup::Rollup;
use crate::plan::{Node, NodeStatus};
use crate::redaction::redact;
use crate::request::work::Completion;
use crate::run::Run;
use crate::step::Draft;

use crate::fit::Room;

/// Who says it: agent, session, run.
type Anchor = (Option<AgentId>, Option<SessionId>, Option<RunId>);

/// Keeps what a run's result leaves, where it leaves anything: what it says itself, as words or in the fields of a
/// status update, else what the same run said before.
pub(super) fn of_result(draft: &mut Draft<'_>, run: &Run, result: &RunResult) {
    let state = draft.node_state(run.epic, run.node);
    let kept = state.and_then(|state| state.result.as_ref());
    let kept = kept.filter(|kept| kept.run == Some(run.id));
    let said = [&result.crystallization, &result.partial].into_iter().find(|it| !it.is_empty());
    // Without words there is nothing to say that the node's own result does not.
    if said.is_none() && (kept.is_some() || result.evidence.is_empty()) {
        return;
    }
    let stands = state.map_or(NodeStatus::Cancelled, |state| state.status);
    let before = before(draft, (run.epic, run.node), run.id);
    let words = said.cloned().unwrap_or_default();
    // What cannot be read as an update is words.
    let fields = update::from_text(&words, 1).ok().flatten();
    let told = fields.map(|update| said_by(&update, before.clone()));
    let told = told.unwrap_or(Handoff { summary: words, ..before });
    let shown = if result.evidence.is_empty() { told.evidence } else { result.evidence.clone() };
    let handoff = Handoff {
        current_state: match result.outcome {
            Outcome::Success => stands.as_str().to_owned(),
            Outcome::Failure | Outcome::BudgetExceeded | Outcome::Cancelled => {
                format!("{stands}: the run ended {}", result.outcome)
            }
        },
        known_blockers: Some(result.error.clone())
            .into_iter()
            .filter(|it| !it.is_empty())
            .collect(),
        evidence: shown,
        ..told
    };
    let by = (Some(run.agent.clone()), Some(run.session), Some(run.id));
    put(draft, (run.epic, Some(run.node)), Source::Result, handoff, by);
}

/// Keeps what a goal's orchestrator put together.
pub(super) fn of_goal(draft: &mut Draft<'_>, epic: EpicId, by: &AgentId, result: &RunResult) {
    let before = draft.crystallization(epic, None).map(|it| it.handoff.clone());
    let before = before.unwrap_or_default();
    if result.crystallization.is_empty() && result.evidence.is_empty() {
        return;
    }
    let shown = if result.evidence.is_empty() { &before.evidence } else { &result.evidence };
    let handoff = Handoff {
        summary: result.crystallization.clone(),
        evidence: shown.clone(),
        current_state: "completed".to_owned(),
        ..before
    };
    let session = draft.agent(by).and_then(|agent| agent.session);
    put(draft, (epic, None), Source::Result, handoff, (Some(by.clone()), session, None));
}

/// Keeps what somebody says who did not work on a leaf and calls it done.
pub(super) fn of_completion(draft: &mut Draft<'_>, epic: EpicId, done: &Completion) {
    let handoff = Handoff {
        summary: done.crystallization.clone(),
        current_state: NodeStatus::Done.as_str().to_owned(),
        evidence: done.evidence.clone(),
        decisions: vec![done.reason.clone()],
        ..Handoff::default()
    };
    let by = draft.actor.agent().cloned();
    put(draft, (epic, Some(done.node)), Source::Completion, handoff, (by, None, None));
}

/// Keeps what a status update says. What it does not say stays as the same run said it before.
pub(super) fn of_update(draft: &mut Draft<'_>, assignment: &Assignment, update: &Update) {
    let Assignment { epic, node, run, .. } = assignment;
    let handoff = said_by(update, before(draft, (*epic, *node), *run));
    if handoff == Handoff::default() {
        return;
    }
    let session = draft.agent(&assignment.agent).and_then(|agent| agent.session);
    let by = (Some(assignment.agent.clone()), session, Some(*run));
    put(draft, (*epic, Some(*node)), Source::Update, handoff, by);
}

/// What the same run said of its work before.
fn before(draft: &Draft<'_>, (epic, node): (EpicId, NodeId), run: RunId) -> Handoff {
    let before = draft.crystallization(epic, Some(node));
    let before = before.filter(|it| it.source == Source::Update && it.run == Some(run));
    before.map(|it| it.handoff.clone()).unwrap_or_default()
}

/// What an update says; what it does not say stays as it was said before.
fn said_by(update: &Update, before: Handoff) -> Handoff {
    let or = |new: &Vec<String>, old: Vec<String>| if new.is_empty() { old } else { new.clone() };
    let goes_on = update.status == Some(Said::InProgress);
    let stood = if goes_on { Vec::new() } else { before.known_blockers };
    Handoff {
        summary: update.summary.clone().unwrap_or(before.summary),
        current_state: update.status.map_or(before.current_state, |said| said.as_str().to_owned()),
        decisions: or(&update.decisions, before.decisions),
        next_actions: update.next.clone().map_or(before.next_actions, |next| vec![next]),
        open_questions: or(&update.open_questions, before.open_questions),
        known_blockers: or(&update.blockers, stood),
        evidence: if update.evidence.is_empty() {
            before.evidence
        } else {
            update.evidence.clone()
        },
        references: if update.references.is_empty() {
            before.references
        } else {
            update.references.clone()
        },
    }
}

/// Sums up every task, phase and goal that is settled by the leaves that this decision settled, the
/// lowest first. Places that hand nothing over have no summary.
pub(super) fn roll_up(
    draft: &mut Draft<'_>,
    epic: EpicId,
    nodes: &BTreeMap<NodeId, Node>,
    rollup: &Rollup,
) {
    let version = draft.next_version(epic);
    let mut tasks = BTreeSet::new();
    let mut phases = BTreeSet::new();
    for record in draft.written().records.values() {
        if let Record::NodeState(of, state) = record
            && (*of, state.settled) == (epic, version)
            && let Some(above) = state.id.parent()
        {
            tasks.extend(above.parent().map(|_| above));
            phases.insert(above.parent().unwrap_or(above));
        }
    }
    let settled = |id: &NodeId| rollup.statuses.get(id).is_some_and(|status| status.is_settled());
    let begun = !phases.is_empty();
    let below = tasks.into_iter().chain(phases).filter(settled).map(Some);
    let mut places: Vec<Option<NodeId>> = below.collect();
    if begun && rollup.goal.status().is_closed() {
        places.push(None);
    }
    let most = SUMMARY_BYTES_MAX.min(ROLL_UPS_BYTES_MAX / places.len().max(1));
    for place in places {
        if let Some(handoff) = summed_up(draft, (epic, place), nodes, rollup, most) {
            put(draft, (epic, place), Source::RollUp, handoff, (None, None, None));
        }
    }
}

/// What those directly below a place leave, in as many bytes at the most.
fn summed_up(
    draft: &Draft<'_>,
    (epic, place): (EpicId, Option<NodeId>),
    nodes: &BTreeMap<NodeId, Node>,
    rollup: &Rollup,
    most: usize,
) -> Option<Handoff> {
    let below: Vec<(NodeId, NodeStatus)> = rollup
        .statuses
        .iter()
        .filter(|(id, _)| id.parent() == place)
        .map(|(id, s)| (*id, *s))
        .collect();
    let left: Vec<Option<Handoff>> =
        below.iter().map(|(id, _)| left_at(draft, epic, *id)).collect();
    left.iter().flatten().next()?;
    let done = below.iter().filter(|(_, status)| *status == NodeStatus::Done).count();
    let mut summary = format!("{done} of {} done", below.len());
    let each = (most / 2).saturating_sub(summary.len()) / below.len().max(1);
    for ((id, status), left) in below.iter().zip(&left) {
        let name = nodes.get(id).map_or("", |node| node.name.as_str());
        let said = left.as_ref().and_then(|left| left.summary.lines().next()).unwrap_or_default();
        let line = format!("\n{id} {name} ({status}): {said}");
        summary.push_str(&Room::of(each).text(&line, usize::MAX));
    }
    let all = |of: fn(&Handoff) -> &Vec<String>| {
        let mut known = BTreeSet::new();
        let texts = left.iter().flatten().flat_map(of);
        texts.filter(|text| known.insert(text.as_str())).cloned().collect::<Vec<String>>()
    };
    let handoff = Handoff {
        summary,
        current_state: place.map_or_else(
            || {
                let given_up = draft.goal_state(epic).map(|state| state.status);
                let status = given_up.filter(|status| status.is_closed());
                status.unwrap_or_else(|| rollup.goal.status()).as_str().to_owned()
            },
            |id| rollup.statuses.get(&id).map(ToString::to_string).unwrap_or_default(),
        ),
        decisions: all(|left| &left.decisions),
        next_actions: all(|left| &left.next_actions),
        open_questions: all(|left| &left.open_questions),
        known_blockers: all(|left| &left.known_blockers),
        evidence: Evidence {
            files: all(|left| &left.evidence.files),
            commands: all(|left| &left.evidence.commands),
            tests: all(|left| &left.evidence.tests),
            commits: all(|left| &left.evidence.commits),
        },
        references: References {
            prs: all(|left| &left.references.prs),
            issues: all(|left| &left.references.issues),
            external: all(|left| &left.references.external),
        },
    };
    Some(within(&handoff, most / 2, most / 2))
}

/// What somebody left at a node; else what its result shows.
fn left_at(draft: &Draft<'_>, epic: EpicId, id: NodeId) -> Option<Handoff> {
    if let Some(it) = draft.crystallization(epic, Some(id)) {
        let said = it.handoff.clone();
        // What shows a roll-up stands with it, once.
        let (evidence, references) = (Evidence::default(), References::default());
        let summed_up = it.source == Source::RollUp;
        return Some(if summed_up { Handoff { evidence, references, ..said } } else { said });
    }
    let kept = draft.node_state(epic, id)?.result.as_ref()?;
    let (summary, evidence) = (kept.crystallization.clone(), kept.evidence.clone());
    Some(Handoff { summary, evidence, ..Handoff::default() })
}

fn put(
    draft: &mut Draft<'_>,
    (epic, node): (EpicId, Option<NodeId>),
    source: Source,
    handoff: Handoff,
    (agent, session, run): Anchor,
) {
    let place = node.map_or_else(|| "goal".to_owned(), |node| node.to_string());
    let seed = draft.seed(&format!("{epic} {}", draft.next_version(epic)));
    let id = CrystallizationId::derive(draft.now, &seed, &place, 0);
    let handoff = within(&clean(handoff), SUMMARY_BYTES_MAX, SUMMARY_BYTES_MAX);
    let at = draft.now;
    let it = Crystallization { id, epic, node, source, at, handoff, agent, session, run };
    draft.put(Record::Crystallization(Box::new(it)));
}

/// What fits: so much of the summary, and so much of all else, what matters most first.
fn within(said: &Handoff, summary: usize, rest: usize) -> Handoff {
    let mut room = Room::of(rest);
    let Evidence { files, commands, tests, commits } = &said.evidence;
    let References { prs, issues, external } = &said.references;
    Handoff {
        summary: Room::of(summary).text(&said.summary, usize::MAX),
        current_state: room.text(&said.current_state, TEXT_BYTES_MAX),
        known_blockers: room.list(&said.known_blockers),
        open_questions: room.list(&said.open_questions),
        next_actions: room.list(&said.next_actions),
        decisions: room.list(&said.decisions),
        evidence: Evidence {
            tests: room.list(tests),
            commits: room.list(commits),
            files: room.list(files),
            commands: room.list(commands),
        },
        references: References {
            prs: room.list(prs),
            issues: room.list(issues),
            external: room.list(external),
        },
    }
}

/// The same without credentials.
fn clean(mut said: Handoff) -> Handoff {
    let Evidence { files, commands, tests, commits } = &mut said.evidence;
    let References { prs, issues, external } = &mut said.references;
    let texts = [&mut said.summary, &mut said.current_state].into_iter();
    let told = [&mut said.decisions, &mut said.next_actions, &mut said.open_questions];
    let shown = [&mut said.known_blockers, files, commands, tests, commits, prs, issues, external];
    let lists = told.into_iter().chain(shown).flat_map(|list| list.iter_mut());
    for text in texts.chain(lists) {
        redact(text);
    }
    said
}
