//! Changes of plans: the operations that ask for them, drafts, and the public event by which people are
//! asked to look.

use serde_json::Value;
use tetrarch_core::id::{EpicId, NodeId, RequestId};
use tetrarch_core::limits::PLAN_EVENT_BYTES_MAX;
use tetrarch_core::plan::PlanSource;
use tetrarch_core::plan::change::{Edit, Output};
use tetrarch_core::plan::proposal::{DraftStatus, DraftVerdict, PlanReview, Proposal, ReviewAsk};
use tetrarch_core::plan::schema::{self, PlanProblem};
use tetrarch_core::request::planning::{Addition, Merging, PlanMode, PlanOp, Splitting, Wanted};
use tetrarch_core::time::BusTime;

use super::error::{CodecError, within};
use super::json::{self, Unknown};
use super::op::finish;
use super::plan::reason;
use super::plan_event::trace_id;
use super::read;
use crate::proto::v1 as pb;

/// The body of an operation that changes plans, but `todo.plan`.
pub(super) fn encode(op: &PlanOp, request_id: String) -> Result<Vec<u8>, CodecError> {
    let sender = String::new();
    match op {
        PlanOp::Plan(_) => Err(CodecError::field(
            "plan",
            "a checked plan is no longer what its author wrote; use encode_todo_plan",
        )),
        PlanOp::Add(wanted) => {
            let Addition { parent, node } = &**readable("node", wanted)?;
            let add = pb::TodoAdd {
                request_id,
                sender,
                epic: wanted.epic.to_string(),
                mode: wanted.mode.as_str().to_owned(),
                base_version: wanted.base_version,
                parent: parent.to_string(),
                node: schema::written(node).to_string(),
                reason: wanted.reason.clone(),
                draft: read::show(wanted.replaces.as_ref()),
            };
            finish("TodoAdd", &add)
        }
        PlanOp::Split(wanted) => {
            let Splitting { node, subtasks } = readable("subtasks", wanted)?;
            let subtasks: Vec<Value> = subtasks.iter().map(schema::written).collect();
            let split = pb::TodoSplit {
                request_id,
                sender,
                epic: wanted.epic.to_string(),
                mode: wanted.mode.as_str().to_owned(),
                base_version: wanted.base_version,
                node: node.to_string(),
                subtasks: Value::Array(subtasks).to_string(),
                reason: wanted.reason.clone(),
                draft: read::show(wanted.replaces.as_ref()),
            };
            finish("TodoSplit", &split)
        }
        PlanOp::Merge(wanted) => {
            let Merging { nodes, name, objective } = readable("nodes", wanted)?.clone();
            let merge = pb::TodoMerge {
                request_id,
                sender,
                epic: wanted.epic.to_string(),
                mode: wanted.mode.as_str().to_owned(),
                base_version: wanted.base_version,
                nodes: nodes.iter().map(ToString::to_string).collect(),
                name,
                objective,
                reason: wanted.reason.clone(),
                draft: read::show(wanted.replaces.as_ref()),
            };
            finish("TodoMerge", &merge)
        }
        PlanOp::Decide { epic, draft, verdict, reason } => {
            let (epic, draft) = (epic.to_string(), draft.to_string());
            let (verdict, reason) = (verdict.as_str().to_owned(), reason.clone());
            finish("TodoDraft", &pb::TodoDraft { request_id, sender, epic, draft, verdict, reason })
        }
    }
}

/// The body of `todo.plan`, with the plan's JSON as its author wrote it.
///
/// # Errors
/// There is no plan; more bytes than allowed.
pub fn encode_todo_plan(id: RequestId, wanted: &Wanted<Value>) -> Result<Vec<u8>, CodecError> {
    let plan = pb::TodoPlan {
        request_id: id.to_string(),
        sender: String::new(),
        epic: wanted.epic.to_string(),
        mode: wanted.mode.as_str().to_owned(),
        base_version: wanted.base_version,
        plan: readable("plan", wanted)?.to_string(),
        reason: wanted.reason.clone(),
        draft: read::show(wanted.replaces.as_ref()),
    };
    finish("TodoPlan", &plan)
}

fn readable<'a, C>(field: &str, wanted: &'a Wanted<C>) -> Result<&'a C, CodecError> {
    wanted.what.as_ref().map_err(|problems| CodecError::field(field, problems.clone()))
}

/// Reads the body of an operation that changes plans. What is wrong with the plan in it is for the
/// owner to say.
pub(super) fn decode(op: &str, body: Value) -> Result<PlanOp, CodecError> {
    Ok(match op {
        "todo.plan" => PlanOp::Plan(plan(body)?),
        "todo.add" => PlanOp::Add(add(body)?),
        "todo.split" => PlanOp::Split(split(body)?),
        "todo.merge" => PlanOp::Merge(merge(body)?),
        "todo.draft" => {
            let decide: pb::TodoDraft = json::message("TodoDraft", body, Unknown::Refused)?;
            let all = &DraftVerdict::ALL;
            PlanOp::Decide {
                epic: read::text("epic", &decide.epic)?,
                draft: read::text("draft", &decide.draft)?,
                verdict: read::word("verdict", &decide.verdict, all, DraftVerdict::as_str)?,
                reason: decide.reason,
            }
        }
        other => {
            return Err(CodecError::field("op", format!("{other} does not change a plan")));
        }
    })
}

/// What every change says besides what it is.
fn wanted<C>(
    (epic, mode, draft): (&str, &str, &str),
    base_version: Option<u32>,
    reason: String,
    what: Result<C, String>,
) -> Result<Wanted<C>, CodecError> {
    let mode = match mode {
        "" => PlanMode::default(),
        word => read::word("mode", word, &PlanMode::ALL, PlanMode::as_str)?,
    };
    let (epic, replaces): (EpicId, _) =
        (read::text("epic", epic)?, read::optional("draft", draft)?);
    if replaces.is_some() && mode == PlanMode::Apply {
        return Err(CodecError::field("draft", "only a draft can replace a draft"));
    }
    Ok(Wanted { epic, mode, base_version, reason, replaces, what })
}

fn based(base_version: Option<u32>) -> Result<Option<u32>, CodecError> {
    let missing = || CodecError::Missing { field: "baseVersion".to_owned() };
    base_version.ok_or_else(missing).map(Some)
}

fn document(field: &'static str, text: &str) -> Result<Value, CodecError> {
    if text.is_empty() {
        return Err(CodecError::Missing { field: field.to_owned() });
    }
    json::parse(field, text.as_bytes())
}

fn said(problems: Vec<PlanProblem>) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn plan(body: Value) -> Result<Wanted<Box<schema::PlanFile>>, CodecError> {
    let it: pb::TodoPlan = json::message("TodoPlan", body, Unknown::Refused)?;
    let plan = schema::parse(&document("plan", &it.plan)?).map(Box::new).map_err(said);
    wanted((&it.epic, &it.mode, &it.draft), based(it.base_version)?, it.reason, plan)
}

fn add(body: Value) -> Result<Wanted<Box<Addition>>, CodecError> {
    let it: pb::TodoAdd = json::message("TodoAdd", body, Unknown::Refused)?;
    let parent: NodeId = read::text("parent", &it.parent)?;
    let node = document("node", &it.node)?;
    let read = schema::parse_new(&node, parent).map_err(said);
    let what = read.and_then(|mut nodes| match (nodes.pop(), nodes.is_empty()) {
        (Some(node), true) => Ok(Box::new(Addition { parent, node })),
        (_, _) => Err("node: add one node at a time".to_owned()),
    });
    wanted((&it.epic, &it.mode, &it.draft), it.base_version, it.reason, what)
}

fn split(body: Value) -> Result<Wanted<Splitting>, CodecError> {
    let it: pb::TodoSplit = json::message("TodoSplit", body, Unknown::Refused)?;
    let node: NodeId = read::text("node", &it.node)?;
    let subtasks = document("subtasks", &it.subtasks)?;
    let what = schema::parse_new(&subtasks, node).map_err(said);
    let what = what.map(|subtasks| Splitting { node, subtasks });
    wanted((&it.epic, &it.mode, &it.draft), based(it.base_version)?, it.reason, what)
}

fn merge(body: Value) -> Result<Wanted<Merging>, CodecError> {
    let it: pb::TodoMerge = json::message("TodoMerge", body, Unknown::Refused)?;
    let nodes = read::texts("nodes", &it.nodes)?;
    let what = Ok(Merging { nodes, name: it.name, objective: it.objective });
    wanted((&it.epic, &it.mode, &it.draft), based(it.base_version)?, it.reason, what)
}

impl From<&Proposal> for pb::PlanDraft {
    fn from(draft: &Proposal) -> Self {
        let (sets_output, output) = match &draft.edit.output {
            Output::Kept => (false, None),
            Output::Be(output) => (true, output.as_ref()),
        };
        Self {
            id: draft.id.to_string(),
            epic_id: draft.epic.to_string(),
            author: draft.author.to_string(),
            base_version: draft.base_version,
            puts: draft.edit.puts.iter().map(Into::into).collect(),
            removes: draft.edit.removes.iter().map(ToString::to_string).collect(),
            sets_output,
            output: read::show(output),
            reason: draft.reason.clone(),
            status: draft.status.as_str().to_owned(),
            notes: draft.notes.clone(),
            decided_by: read::show(draft.decided_by.as_ref()),
            version: draft.version,
            created_unix_ms: draft.created.0,
            since_unix_ms: draft.since.0,
        }
    }
}

impl TryFrom<pb::PlanDraft> for Proposal {
    type Error = CodecError;
    fn try_from(draft: pb::PlanDraft) -> Result<Self, CodecError> {
        let output = read::optional("output", &draft.output)?;
        Ok(Self {
            id: read::text("id", &draft.id)?,
            epic: read::text("epicId", &draft.epic_id)?,
            author: read::text("author", &draft.author)?,
            base_version: draft.base_version,
            edit: Edit {
                puts: read::each("puts", draft.puts)?,
                removes: read::texts("removes", &draft.removes)?,
                output: if draft.sets_output { Output::Be(output) } else { Output::Kept },
            },
            reason: draft.reason,
            status: read::word("status", &draft.status, &DraftStatus::ALL, DraftStatus::as_str)?,
            notes: draft.notes,
            decided_by: read::optional("decidedBy", &draft.decided_by)?,
            version: draft.version,
            created: BusTime(draft.created_unix_ms),
            since: BusTime(draft.since_unix_ms),
        })
    }
}

/// The body of `plan.review_needed`.
///
/// # Errors
/// An event of more bytes than allowed.
pub fn encode_plan_review(review: &PlanReview) -> Result<Vec<u8>, CodecError> {
    let bytes = json::write("PlanReview", &pb::PlanReview::from(review))?;
    within("plan event", bytes.len(), PLAN_EVENT_BYTES_MAX)?;
    Ok(bytes)
}

/// Reads the body of `plan.review_needed`; unknown fields are skipped.
///
/// # Errors
/// What is wrong, with the field.
pub fn decode_plan_review(payload: &[u8]) -> Result<PlanReview, CodecError> {
    within("plan event", payload.len(), PLAN_EVENT_BYTES_MAX)?;
    json::read::<pb::PlanReview>("PlanReview", payload, Unknown::Ignored)?.try_into()
}

impl From<&PlanReview> for pb::PlanReview {
    fn from(review: &PlanReview) -> Self {
        let first = review.asks.first();
        let source = first.map(|ask| PlanSource::of(&ask.by).as_str().to_owned());
        let reason = first.map(|ask| ask.reason.as_str().to_owned());
        Self {
            epic_id: review.epic.to_string(),
            plan_id: review.plan.to_string(),
            version: review.version,
            source: source.unwrap_or_default(),
            reason: reason.unwrap_or_default(),
            trace_id: trace_id(review.trace.as_ref()),
            workspace_id: review.project.to_string(),
            asks: review.asks.iter().map(Into::into).collect(),
            traceparent: read::show(review.trace.as_ref()),
            at_unix_ms: review.at.0,
        }
    }
}

impl TryFrom<pb::PlanReview> for PlanReview {
    type Error = CodecError;
    fn try_from(review: pb::PlanReview) -> Result<Self, CodecError> {
        Ok(Self {
            epic: read::text("epicId", &review.epic_id)?,
            plan: read::text("planId", &review.plan_id)?,
            project: read::text("workspaceId", &review.workspace_id)?,
            version: review.version,
            asks: read::each("asks", review.asks)?,
            trace: read::some(review.traceparent),
            at: BusTime(review.at_unix_ms),
        })
    }
}

impl From<&ReviewAsk> for pb::ReviewAsk {
    fn from(ask: &ReviewAsk) -> Self {
        Self {
            by: ask.by.to_string(),
            reason: ask.reason.as_str().to_owned(),
            draft: read::show(ask.draft.as_ref()),
            text: ask.text.clone(),
        }
    }
}

impl TryFrom<pb::ReviewAsk> for ReviewAsk {
    type Error = CodecError;
    fn try_from(ask: pb::ReviewAsk) -> Result<Self, CodecError> {
        Ok(Self {
            by: read::text("by", &ask.by)?,
            reason: reason("reason", &ask.reason)?,
            draft: read::optional("draft", &ask.draft)?,
            text: ask.text,
        })
    }
}
