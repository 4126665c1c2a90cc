//! About how many bytes things take in an entry: never less than they do, so that what is let in
//! always fits into one commit (spec 02, Bounds). Texts count as JSON writes them, the rest by its kind.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::agent::Agent;
use crate::brief::{Artifact, Brief, Evidence, ExpectedOutput, RunResult, Served, Tools, Verdict};
use crate::change::{Action, Change};
use crate::crystallization::{Handoff, References};
use crate::dispatch::Dispatch;
use crate::goal::{Goal, Risk};
use crate::graph::Position;
use crate::id::{EpicId, NodeId};
use crate::ledger::{Decision, Event, Record, RecordKey};
use crate::limits::{
    CONTROL_BYTES_MAX, FULL_EVENT_NODES_MAX, MAIL_BYTES_MAX, RECORD_BYTES_MAX, STEP_BYTES_MAX,
};
use crate::mail::receipt::About;
use crate::mail::{Denied, Lane, Mail, MailBody, SpawnAnswer};
use crate::mcp::McpServer;
use crate::permission::PermissionList;
use crate::plan::{Node, NodeState, view};
use crate::planner::Planning;
use crate::records::Records;
use crate::request::{SpawnRequest, SubagentWish, TaskWish};
use crate::step::{PlanTouch, Step};

/// Anything with a name and a few words.
const ITEM: usize = 256;
/// A record with ids of everything it belongs to.
const RECORD: usize = 512;
/// A node in a plan event, beside its texts.
const VIEW: usize = 160;
/// The key of a record.
const KEY: usize = 96;
/// An entry of a list, beside its text.
const ENTRY: usize = 8;

/// What a step may need, given the records before it: what it writes, and beside that the nodes that
/// stand in the small plans it touches. The ledger leaves those out (decision 0030); the published event,
/// which has the same bound, tells every one of them.
pub(super) fn step(records: &Records, step: &Step) -> usize {
    let mut shown = changed(step);
    for epic in step.plans.keys() {
        let nodes = records.nodes.get(epic).filter(|nodes| nodes.len() <= FULL_EVENT_NODES_MAX);
        shown.extend(nodes.into_iter().flat_map(|nodes| nodes.keys()).map(|id| (*epic, *id)));
    }
    by_itself(step) + views(records, step, &shown)
}

/// A part of a step that no commit, record or message may be as large as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{what} would have about {bytes} bytes; the limit is {limit}")]
pub(super) struct Overweight {
    what: &'static str,
    bytes: usize,
    limit: usize,
}

/// What of a step is too large to be written: its largest record or message, or all of it together.
pub(super) fn overweight(records: &Records, of: &Step) -> Option<Overweight> {
    let records_of = of.records.values().map(|it| ("a record", record(it), RECORD_BYTES_MAX));
    let mails = of.mail.iter().map(|it| match it.body.lane() {
        Lane::Ctl => ("a control message", mail(it), CONTROL_BYTES_MAX),
        Lane::Mail => ("a message", mail(it), MAIL_BYTES_MAX),
    });
    let whole = ("the decision", step(records, of), STEP_BYTES_MAX);
    let mut parts = records_of.chain(mails).chain([whole]);
    let (what, bytes, limit) = parts.find(|(_, bytes, limit)| bytes > limit)?;
    Some(Overweight { what, bytes, limit })
}

/// What a step adds to an entry and to the events of its plans.
pub(super) fn written(records: &Records, step: &Step) -> usize {
    by_itself(step) + views(records, step, &changed(step))
}

fn by_itself(step: &Step) -> usize {
    let written: usize = step.records.values().map(record).sum();
    let events: usize = step.events.iter().map(event).sum();
    let sent: usize = step.mail.iter().map(mail).sum();
    let plans: usize = step.plans.values().map(|touch| plan(step, touch)).sum();
    let asked: usize = step.reviews.iter().map(|(_, ask)| 2 * ITEM + escaped(&ask.text)).sum();
    written + events + sent + plans + asked + step.seals.len() * ITEM + step.dropped.len() * KEY
}

/// What a step itself adds to a plan's event beside nodes that stand there: its changes, and the definitions
/// that are new in it.
fn plan(step: &Step, touch: &PlanTouch) -> usize {
    let changes: usize = touch.changes.iter().map(|change| VIEW + escaped(&change.why)).sum();
    let new = step
        .records
        .values()
        .map(|record| if let Record::Node(_, new) = record { node(new) } else { 0 });
    ITEM + changes + new.sum::<usize>()
}

/// The nodes that a step has plan events show otherwise.
fn changed(step: &Step) -> BTreeSet<(EpicId, NodeId)> {
    let of = |epic| view::changed(epic, step.records.keys()).into_iter().map(move |id| (epic, id));
    step.plans.keys().copied().flat_map(of).collect()
}

/// These nodes as events show them. In the place of an ended child's its node may leave the plan.
fn views(records: &Records, step: &Step, shown: &BTreeSet<(EpicId, NodeId)>) -> usize {
    let view = |(epic, id): &(EpicId, NodeId)| {
        let node = match step.records.get(&RecordKey::Node(*epic, *id)) {
            Some(Record::Node(_, node)) => Some(&**node),
            Some(_) | None => records.nodes.get(epic).and_then(|nodes| nodes.get(id)),
        };
        let state = match step.records.get(&RecordKey::NodeState(*epic, *id)) {
            Some(Record::NodeState(_, state)) => Some(&**state),
            Some(_) | None => records.node_states.get(epic).and_then(|states| states.get(id)),
        };
        let left = if node.is_some_and(|node| node.spawned) { 4 * KEY } else { 0 };
        let found = state.map_or(0, |state| list(&state.findings));
        node.map_or(0, |node| VIEW + escaped(&node.name)) + found + left
    };
    shown.iter().map(view).sum()
}

fn event(event: &Event) -> usize {
    ITEM + escaped(&event.reason)
}

/// An agent.
pub(super) fn agent(agent: &Agent) -> usize {
    let tools: usize = agent.tools.names().map(|name| ENTRY + escaped(name)).sum();
    let ending = agent.ending.as_ref().map_or(0, |ending| ITEM + escaped(&ending.reason));
    let texts = escaped(&agent.label) + escaped(&agent.reason) + escaped(&agent.circuit.cause);
    let verbs: usize = agent.verbs.receipts.iter().map(|it| ITEM + escaped(&it.why)).sum();
    let held = agent.unsettled.grants.len() + agent.unsettled.lost().count();
    RECORD + (agent.slots.len() + held) * ITEM + tools + texts + ending + verbs
}

/// A record.
pub(super) fn record(record: &Record) -> usize {
    match record {
        Record::Agent(it) => agent(it),
        Record::Host(host) => ITEM + pairs(&host.labels) + escaped(&host.address),
        Record::Project(_) | Record::Plan(_) => RECORD,
        Record::Profile(_, profile) => {
            let tools: usize = profile.tools.names().map(|name| ENTRY + escaped(name)).sum();
            let texts = escaped(&profile.prompt)
                + escaped(&profile.workspace)
                + escaped(&profile.model)
                + escaped(&profile.description);
            let texts = texts + served(&profile.served);
            ITEM + texts
                + tools
                + list(&profile.argv)
                + pairs(&profile.env)
                + list(&profile.pass_env)
                + list(&profile.writable)
                + permissions(std::slice::from_ref(&profile.permissions))
                + servers(&profile.mcp_servers)
        }
        Record::Run(run) => RECORD + brief(&run.brief),
        Record::RunStatus(status) => ITEM + KEY + status.result.as_ref().map_or(0, result),
        Record::Goal(it) => goal(it),
        Record::GoalState(state) => {
            let kept = state.result.as_ref().map_or(0, |result| {
                escaped(&result.summary)
                    + escaped(&result.deliverable)
                    + artifacts(&result.artifacts)
            });
            // The plan's event tells it too.
            ITEM + 2 * kept
        }
        Record::Node(_, it) => node(it),
        Record::NodeState(_, state) => node_state(state),
        Record::Assignment(assignment) => {
            RECORD + escaped(&assignment.reason) + assignment.launch.as_deref().map_or(0, dispatch)
        }
        Record::Dispatch(it) => dispatch(it),
        Record::Planning(it) => planning(it),
        Record::Question(question) => {
            RECORD + escaped(&question.text) + escaped(&question.answer) + list(&question.options)
        }
        Record::Draft(draft) => {
            let proposed: usize = draft.edit.puts.iter().map(node).sum();
            let texts = escaped(&draft.reason) + escaped(&draft.notes);
            RECORD + texts + proposed + draft.edit.removes.len() * ENTRY
        }
        Record::Crystallization(it) => RECORD + handoff(&it.handoff),
        Record::Schedule(schedule) => RECORD + schedule.bytes(),
        Record::Note(note) => RECORD + escaped(&note.text),
        Record::Graph(graph) => {
            graph.versions.iter().map(|it| ITEM + it.text.len()).sum::<usize>() + ITEM
        }
        Record::Turn(turn) => {
            RECORD
                + escaped(&turn.text)
                + escaped(&turn.answer)
                + escaped(&turn.result)
                + standing(turn.position.as_ref())
        }
        Record::Reservation(it) => RECORD + escaped(&it.reason) + list(&it.paths),
        Record::Change(it) => change(it),
        Record::QueuedSpawn(it) => RECORD + spawn_request(&it.wanted) + refusals(&it.waiting),
        Record::Decision(it) => decision(it),
        Record::Snapshot(snapshot) => ITEM + list(&snapshot.parts) + list(&snapshot.before),
    }
}

/// Where a turn stands in its graph.
fn standing(position: Option<&Position>) -> usize {
    let values = position.map(|it| Value::Object(it.values.clone()).to_string());
    values.map_or(0, |values| ITEM + values.len())
}

fn dispatch(it: &Dispatch) -> usize {
    RECORD + escaped(&it.text) + escaped(&it.notes)
}

/// A decision, with those that are kept in its record.
pub(super) fn decision(it: &Decision) -> usize {
    let act = it.act.as_ref().map_or(0, |act| ITEM + escaped(&act.about));
    let also: usize = it.also.iter().map(decision).sum();
    ITEM + it.answer.as_deref().map_or(0, mail) + act + also
}

fn handoff(said: &Handoff) -> usize {
    let Evidence { files, commands, tests, commits } = &said.evidence;
    let References { prs, issues, external } = &said.references;
    let told = [&said.decisions, &said.next_actions, &said.open_questions, &said.known_blockers];
    let shown = [files, commands, tests, commits, prs, issues, external];
    let lists: usize = told.into_iter().chain(shown).map(|texts| list(texts)).sum();
    escaped(&said.summary) + escaped(&said.current_state) + lists
}

/// A goal's definition.
pub(super) fn goal(goal: &Goal) -> usize {
    let goal = &goal.spec;
    let lists = [
        &goal.success_criteria,
        &goal.non_goals,
        &goal.constraints,
        &goal.assumptions,
        &goal.stakeholders,
        &goal.tags,
    ];
    let lists: usize = lists.into_iter().map(|texts| list(texts)).sum();
    let size = |risk: &Risk| {
        ITEM + escaped(&risk.risk) + escaped(&risk.impact) + escaped(&risk.mitigation)
    };
    let risks: usize = goal.risks.iter().map(size).sum();
    let texts =
        escaped(&goal.title) + escaped(&goal.problem_statement) + escaped(&goal.repo_context);
    RECORD + texts + lists + risks + pairs(&goal.origin)
}

fn planning(it: &Planning) -> usize {
    let texts = it.model.len() + it.inputs.len() + it.answer.len() + it.reason.len();
    let texts = texts + it.trace.as_ref().map_or(0, |text| escaped(text));
    2 * RECORD + texts + list(&it.problems) + it.goal.as_deref().map_or(0, goal)
}

/// A brief.
pub(super) fn brief(brief: &Brief) -> usize {
    let schema = match &brief.expected_output {
        ExpectedOutput::Text => 0,
        ExpectedOutput::Schema(schema) => escaped(schema),
    };
    let lists = [&brief.key_facts, &brief.success_criteria, &brief.scope_paths];
    let lists: usize = lists.into_iter().map(|texts| list(texts)).sum();
    let tools: usize = brief.tools.names().map(|name| ENTRY + escaped(name)).sum();
    let inputs: usize = brief
        .inputs
        .iter()
        .map(|input| {
            VIEW + escaped(&input.name) + escaped(&input.deliverable) + artifacts(&input.artifacts)
        })
        .sum();
    let runner = &brief.runner;
    let texts =
        escaped(&brief.goal) + escaped(&brief.definition_of_done) + escaped(&brief.workspace);
    let runner_texts = escaped(&runner.prompt) + escaped(&runner.model) + served(&runner.served);
    let runner_lists =
        list(&runner.argv) + pairs(&runner.env) + list(&runner.pass_env) + list(&runner.writable);
    let runner_lists =
        runner_lists + permissions(&runner.permissions) + servers(&runner.mcp_servers);
    ITEM + schema + lists + tools + inputs + texts + runner_texts + runner_lists
}

/// Rules on tools.
fn permissions(lists: &[PermissionList]) -> usize {
    let rules = lists.iter().flat_map(|list| &list.rules);
    rules.map(|rule| 2 * ENTRY + escaped(&rule.tool) + list(&rule.words)).sum()
}

/// Servers of tools.
fn servers(servers: &[McpServer]) -> usize {
    let one = |it: &McpServer| {
        let texts =
            [&it.name, &it.url, &it.key_from, &it.header].into_iter().map(|text| escaped(text));
        ITEM + texts.sum::<usize>() + list(&it.argv) + pairs(&it.env) + list(&it.pass_env)
    };
    servers.iter().map(one).sum()
}

/// How a model is reached.
fn served(served: &Served) -> usize {
    escaped(&served.provider) + escaped(&served.base_url) + escaped(&served.key_from)
}

/// A result.
pub(super) fn result(result: &RunResult) -> usize {
    let texts = escaped(&result.deliverable) + escaped(&result.partial) + escaped(&result.error);
    let Evidence { files, commands, tests, commits } = &result.evidence;
    let evidence: usize = [files, commands, tests, commits].into_iter().map(|l| list(l)).sum();
    let judged = result.verdict.as_ref().map_or(0, verdict);
    ITEM + texts
        + escaped(&result.crystallization)
        + evidence
        + judged
        + artifacts(&result.artifacts)
}

/// A verdict.
pub(super) fn verdict(verdict: &Verdict) -> usize {
    let found = verdict.findings.iter();
    found.map(|f| 3 * ENTRY + escaped(&f.place) + escaped(&f.what) + escaped(&f.severity)).sum()
}

/// A definition.
pub(super) fn node(node: &Node) -> usize {
    let lists = [&node.acceptance, &node.key_facts, &node.scope_paths];
    let lists: usize = lists.into_iter().map(|texts| list(texts)).sum();
    let tools: usize = node.tools.names().map(|name| ENTRY + escaped(name)).sum();
    let texts = escaped(&node.name) + escaped(&node.objective) + escaped(&node.definition_of_done);
    let texts = texts + escaped(&node.expected_outcome) + escaped(&node.estimated_effort);
    let schema = node.output_schema.as_ref().map_or(0, |text| escaped(text));
    let wish = pairs(&node.placement.labels);
    VIEW + texts + lists + tools + schema + wish + node.depends_on.len() * ENTRY
}

fn node_state(state: &NodeState) -> usize {
    let kept = state.result.as_ref().map_or(0, |kept| {
        let Evidence { files, commands, tests, commits } = &kept.evidence;
        let evidence: usize = [files, commands, tests, commits].into_iter().map(|l| list(l)).sum();
        escaped(&kept.deliverable)
            + escaped(&kept.crystallization)
            + evidence
            + artifacts(&kept.artifacts)
    });
    let blocker = state.blocker.as_ref();
    let blocked = blocker.map_or(0, |b| escaped(&b.kind) + escaped(&b.detail) + escaped(&b.needs));
    VIEW + kept + blocked + list(&state.findings)
}

fn mail(mail: &Mail) -> usize {
    let said = match &mail.body {
        MailBody::SpawnAnswer(answer) | MailBody::SponsorAnswer(answer) => spawn_answer(answer),
        MailBody::Launch(launch) => {
            let told = launch.delegation.as_ref().map_or(0, |told| pairs(&told.profiles));
            told + match &launch.duty {
                crate::mail::Duty::Run(run) => RECORD + brief(&run.brief),
                crate::mail::Duty::Project(epics) => epics.len() * VIEW,
                crate::mail::Duty::Human(_) => 0,
            }
        }
        MailBody::ResultReady(ready) => {
            result(&ready.result) + ready.verdict.as_ref().map_or(0, verdict)
        }
        MailBody::Violation { denied, .. } => refusals(denied),
        MailBody::Question { question, options, origin, .. } => {
            escaped(question) + list(options) + pairs(origin)
        }
        MailBody::StatusRequest(asked) => escaped(&asked.text),
        MailBody::TurnDue(due) => {
            let texts = escaped(&due.graph) + escaped(&due.text) + escaped(&due.result);
            texts + standing(due.position.as_ref())
        }
        MailBody::AgentLost { cause: text, .. }
        | MailBody::AgentCompleted { reason: text, .. }
        | MailBody::Answer { text, .. }
        | MailBody::Alert { text, .. }
        | MailBody::Info { text }
        | MailBody::ReviewNeeded { reason: text } => escaped(text),
        MailBody::Unknown { json, .. } => json.len(),
        MailBody::Kill(order)
        | MailBody::Stop(order)
        | MailBody::Rotate(order)
        | MailBody::Superseded(order) => escaped(&order.reason),
        MailBody::Verb(order) => escaped(order.command.wanted.text()),
        MailBody::BudgetRaised(raised) => escaped(&raised.reason),
        MailBody::Dead(dead) => of_letter(&dead.of) + escaped(&dead.reason),
        MailBody::Receipt(receipt) => of_letter(&receipt.of),
        MailBody::Reply(reply) => {
            escaped(&reply.detail) + reply.data.as_ref().map_or(0, String::len)
        }
        MailBody::Apply(order) => RECORD + escaped(&order.message) + action(&order.action),
        // The owner sends none of these.
        MailBody::Sponsor(_) => RECORD,
        MailBody::TakeOn { .. } | MailBody::SponsorSilent { .. } => 0,
    };
    RECORD + said
}

fn of_letter(of: &About) -> usize {
    ITEM + escaped(&of.message) + escaped(&of.topic)
}

fn action(action: &Action) -> usize {
    RECORD + escaped(&action.repository) + escaped(&action.target) + list(&action.files)
}

fn change(change: &Change) -> usize {
    let texts = escaped(&change.reason) + list(&change.scope) + list(&change.conflicts);
    2 * RECORD + texts + action(&change.made.action)
}

fn refusals(all: &[Denied]) -> usize {
    all.iter().map(|denied| ITEM + escaped(&denied.detail)).sum()
}

/// A spawn request.
pub(super) fn spawn_request(it: &SpawnRequest) -> usize {
    let wish = |wish: &SubagentWish| {
        let tools = wish.tools.iter().flat_map(Tools::names);
        let task = match &wish.task {
            TaskWish::Task(task) => escaped(task),
            TaskWish::Brief(brief) => {
                let lists = [&brief.key_facts, &brief.success_criteria, &brief.scope_paths];
                let schema = brief.output_schema.as_deref().map_or(0, escaped);
                let texts = escaped(&brief.goal) + escaped(&brief.definition_of_done);
                let lists: usize = lists.into_iter().map(|texts| list(texts)).sum();
                texts + lists + schema + escaped(&brief.workspace) + brief.notes.len() * ITEM
            }
        };
        let placed = pairs(&wish.placement.labels);
        ITEM + task + tools.map(|name| ENTRY + escaped(name)).sum::<usize>() + placed
    };
    RECORD + escaped(&it.reason) + it.subagents.iter().map(wish).sum::<usize>()
}

fn spawn_answer(answer: &SpawnAnswer) -> usize {
    let denied = refusals(&answer.denied) + refusals(&answer.queued);
    let words = escaped(&answer.reason) + escaped(&answer.suggestion) + list(&answer.corrections);
    answer.spawned.len() * ITEM + denied + words
}

fn artifacts(all: &[Artifact]) -> usize {
    all.iter().map(|it| VIEW + escaped(&it.name) + escaped(&it.media_type)).sum()
}

fn list(texts: &[String]) -> usize {
    texts.iter().map(|text| ENTRY + escaped(text)).sum()
}

fn pairs(texts: &[(String, String)]) -> usize {
    texts.iter().map(|(a, b)| 2 * ENTRY + escaped(a) + escaped(b)).sum()
}

/// A text's bytes within JSON, where some characters are written as escapes.
fn escaped(text: &str) -> usize {
    let written = text.bytes().map(|byte| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' => 2,
        0..0x20 => 6,
        0x20.. => 1,
    });
    written.sum()
}
