//! Changes of plans: the operations that ask for them, drafts, and the public event by which people are
//! asked to look.

use serde_json::Value;
use tetrarch_core::id::{NodeId, RequestId};
use tetrarch_core::limits::PLAN_EVENT_BYTES_MAX;
use tetrarch_core::plan::PlanSource;
use tetrarch_core::plan::change::{Edit, Output};
use tetrarch_core::plan::proposal::{DraftStatus, DraftVerdict, PlanReview, Proposal, ReviewAsk};
use tetrarch_core::plan::schema::{self, PlanProblem};
use tetrarch_core::request::planning::{Addition, Merging, PlanMode, Splitting, Wanted};

use super::error::{CodecError, within};
use super::json;
use super::op::finish;
use super::plan_event::trace_id;
use super::wire::{Wire, field, message, words};
use crate::proto::v1 as pb;

/// What every change says besides what it is, in the message of its operation.
macro_rules! wanted {
    ($id:expr, $wanted:expr, $pb:ident { $($f:ident),* }) => {
        pb::$pb {
            request_id: $id.to_string(),
            sender: String::new(),
            epic: $wanted.epic.put(),
            mode: $wanted.mode.put(),
            base_version: $wanted.base_version,
            reason: $wanted.reason.clone(),
            draft: $wanted.replaces.put(),
            $($f),*
        }
    };
}

/// The body of `todo.add`.
pub(super) fn encode_add(
    wanted: &Wanted<Box<Addition>>,
    id: RequestId,
) -> Result<Vec<u8>, CodecError> {
    let Addition { parent, node } = &**readable("node", wanted)?;
    let (parent, node) = (parent.put(), schema::written(node).to_string());
    finish(&wanted!(id, wanted, TodoAdd { parent, node }))
}

/// The body of `todo.split`.
pub(super) fn encode_split(
    wanted: &Wanted<Splitting>,
    id: RequestId,
) -> Result<Vec<u8>, CodecError> {
    let Splitting { node, subtasks } = readable("subtasks", wanted)?;
    let subtasks = Value::Array(subtasks.iter().map(schema::written).collect());
    let (node, subtasks) = (node.put(), subtasks.to_string());
    finish(&wanted!(id, wanted, TodoSplit { node, subtasks }))
}

/// The body of `todo.merge`.
pub(super) fn encode_merge(wanted: &Wanted<Merging>, id: RequestId) -> Result<Vec<u8>, CodecError> {
    let Merging { nodes, name, objective } = readable("nodes", wanted)?;
    let (nodes, name, objective) = (nodes.put(), name.put(), objective.put());
    finish(&wanted!(id, wanted, TodoMerge { nodes, name, objective }))
}

/// The body of `todo.plan`, with the plan's JSON as its author wrote it.
///
/// # Errors
/// There is no plan; more bytes than allowed.
pub fn encode_todo_plan(id: RequestId, wanted: &Wanted<Value>) -> Result<Vec<u8>, CodecError> {
    let plan = readable("plan", wanted)?.to_string();
    finish(&wanted!(id, wanted, TodoPlan { plan }))
}

fn readable<'a, C>(field: &str, wanted: &'a Wanted<C>) -> Result<&'a C, CodecError> {
    wanted.what.as_ref().map_err(|problems| CodecError::field(field, problems.clone()))
}

/// What every change says besides what it is.
fn wanted<C>(
    (epic, mode, draft): (String, String, String),
    base_version: Option<u32>,
    reason: String,
    what: Result<C, String>,
) -> Result<Wanted<C>, CodecError> {
    let mode: Option<PlanMode> = field("mode", mode)?;
    let mode = mode.unwrap_or_default();
    let (epic, replaces): (_, Option<_>) = (field("epic", epic)?, field("draft", draft)?);
    if replaces.is_some() && mode == PlanMode::Apply {
        return Err(CodecError::field("draft", "only a draft can replace a draft"));
    }
    Ok(Wanted { epic, mode, base_version, reason, replaces, what })
}

fn based(base_version: Option<u32>) -> Result<Option<u32>, CodecError> {
    let missing = || CodecError::missing().under("baseVersion");
    base_version.ok_or_else(missing).map(Some)
}

pub(super) fn document(field: &'static str, text: &str) -> Result<Value, CodecError> {
    if text.is_empty() {
        return Err(CodecError::missing().under(field));
    }
    json::parse(field, text.as_bytes())
}

pub(super) fn said(problems: Vec<PlanProblem>) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Reads the body of `todo.plan`.
pub(super) fn plan(body: Value) -> Result<Wanted<Box<schema::PlanFile>>, CodecError> {
    let it: pb::TodoPlan = json::request(body)?;
    let plan = schema::parse(&document("plan", &it.plan)?).map(Box::new).map_err(said);
    wanted((it.epic, it.mode, it.draft), based(it.base_version)?, it.reason, plan)
}

/// Reads the body of `todo.add`.
pub(super) fn add(body: Value) -> Result<Wanted<Box<Addition>>, CodecError> {
    let it: pb::TodoAdd = json::request(body)?;
    let parent: NodeId = field("parent", it.parent)?;
    let node = document("node", &it.node)?;
    let read = schema::parse_new(&node, parent).map_err(said);
    let what = read.and_then(|mut nodes| match (nodes.pop(), nodes.is_empty()) {
        (Some(node), true) => Ok(Box::new(Addition { parent, node })),
        (_, _) => Err("node: add one node at a time".to_owned()),
    });
    wanted((it.epic, it.mode, it.draft), it.base_version, it.reason, what)
}

/// Reads the body of `todo.split`.
pub(super) fn split(body: Value) -> Result<Wanted<Splitting>, CodecError> {
    let it: pb::TodoSplit = json::request(body)?;
    let node: NodeId = field("node", it.node)?;
    let subtasks = document("subtasks", &it.subtasks)?;
    let what = schema::parse_new(&subtasks, node).map_err(said);
    let what = what.map(|subtasks| Splitting { node, subtasks });
    wanted((it.epic, it.mode, it.draft), based(it.base_version)?, it.reason, what)
}

/// Reads the body of `todo.merge`.
pub(super) fn merge(body: Value) -> Result<Wanted<Merging>, CodecError> {
    let it: pb::TodoMerge = json::request(body)?;
    let nodes = field("nodes", it.nodes)?;
    let what = Ok(Merging { nodes, name: it.name, objective: it.objective });
    wanted((it.epic, it.mode, it.draft), based(it.base_version)?, it.reason, what)
}

words!(DraftStatus, DraftVerdict, PlanMode);

impl Wire<pb::PlanDraft> for Proposal {
    fn put(&self) -> pb::PlanDraft {
        let (sets_output, output) = match self.edit.output {
            Output::Kept => (false, None),
            Output::Be(output) => (true, output),
        };
        pb::PlanDraft {
            id: self.id.put(),
            epic_id: self.epic.put(),
            author: self.author.put(),
            base_version: self.base_version,
            puts: self.edit.puts.put(),
            removes: self.edit.removes.put(),
            sets_output,
            output: output.put(),
            reason: self.reason.clone(),
            status: self.status.put(),
            notes: self.notes.clone(),
            decided_by: self.decided_by.put(),
            version: self.version,
            created_unix_ms: self.created.put(),
            since_unix_ms: self.since.put(),
        }
    }

    fn get(held: pb::PlanDraft) -> Result<Self, CodecError> {
        let output = field("output", held.output)?;
        Ok(Self {
            id: field("id", held.id)?,
            epic: field("epic_id", held.epic_id)?,
            author: field("author", held.author)?,
            base_version: held.base_version,
            edit: Edit {
                puts: field("puts", held.puts)?,
                removes: field("removes", held.removes)?,
                output: if held.sets_output { Output::Be(output) } else { Output::Kept },
            },
            reason: held.reason,
            status: field("status", held.status)?,
            notes: held.notes,
            decided_by: field("decided_by", held.decided_by)?,
            version: held.version,
            created: field("created_unix_ms", held.created_unix_ms)?,
            since: field("since_unix_ms", held.since_unix_ms)?,
        })
    }
}

/// The body of `plan.review_needed`.
///
/// # Errors
/// An event of more bytes than allowed.
pub fn encode_plan_review(review: &PlanReview) -> Result<Vec<u8>, CodecError> {
    let message: pb::PlanReview = review.put();
    json::bounded("plan event", &message, PLAN_EVENT_BYTES_MAX)
}

/// Reads the body of `plan.review_needed`; unknown fields are skipped.
///
/// # Errors
/// What is wrong, with the field.
pub fn decode_plan_review(payload: &[u8]) -> Result<PlanReview, CodecError> {
    within("plan event", payload.len(), PLAN_EVENT_BYTES_MAX)?;
    PlanReview::get(json::read::<pb::PlanReview>(payload)?)
}

message!(PlanReview, PlanReview {
    epic: epic_id, plan: plan_id, version,
    source <- |review: &Self| {
        review.asks.first().map(|ask| PlanSource::of(&ask.by).put()).unwrap_or_default()
    },
    reason <- |review: &Self| {
        review.asks.first().map(|ask| ask.reason.put()).unwrap_or_default()
    },
    trace_id <- |review: &Self| trace_id(review.trace.as_ref()),
    project: workspace_id, asks, trace: traceparent, at: at_unix_ms,
});

message!(ReviewAsk, ReviewAsk { by, reason, draft, text });
