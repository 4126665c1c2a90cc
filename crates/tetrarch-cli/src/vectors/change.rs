//! Cases of plans that change and of drafts (spec 05, Plan events): what a change comes to on a plan as it
//! is now, or why it is refused.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tetrarch_core::assignment::Purpose;
use tetrarch_core::error::ErrorCode;
use tetrarch_core::id::{NodeId, Principal};
use tetrarch_core::intensity::Failures;
use tetrarch_core::plan::change::{self, Change, Changed, Edit, NewNode, Present};
use tetrarch_core::plan::folding::FoldedChildren;
use tetrarch_core::plan::proposal::{DraftStatus, DraftVerdict, may_apply, may_decide};
use tetrarch_core::plan::{Blocker, Node, NodeState, NodeStatus, graph, schema};
use tetrarch_core::priority::Priorities;
use tetrarch_core::time::BusTime;

use crate::vectors::input::{CaseError, CaseMap, CaseValue};
use crate::vectors::outcome::{CaseOutcome, CaseResult};

/// What is wanted and cannot be read is refused as the operation would be.
type Readable<T> = Result<Result<T, String>, CaseError>;

pub(super) fn changed(given: &CaseValue<'_>, when: &CaseValue<'_>) -> CaseResult {
    let given = given.keys("plan version nodes draft plan_appliers")?;
    let record = PlanCase::read(&given)?;
    let when = when.keys("by base_version plan add split merge edit verdict")?;
    if let Some(verdict) = when.get("verdict") {
        return record.decided(&given, &when, &verdict);
    }
    let appliers = given.each("plan_appliers", CaseValue::parsed)?;
    let appliers: BTreeSet<Principal> = appliers.into_iter().collect();
    let by: Option<Principal> = when.maybe("by", CaseValue::parsed)?;
    if by.is_some_and(|by| !may_apply(&by, &appliers)) {
        return Ok(refused(ErrorCode::Unauthorized, record.version, String::new()));
    }
    let base = when.or("base_version", record.version, CaseValue::whole)?;
    let present = record.present();
    if let Some(edit) = when.get("edit") {
        return Ok(match read_edit(&edit)? {
            Ok(edit) => record.apply(base, &edit),
            Err(problem) => refused(ErrorCode::InvalidPlan, record.version, problem),
        });
    }
    Ok(match wanted(&when)? {
        Ok(wanted) => match change::read(&present, base, &wanted) {
            Ok(edit) => record.apply(base, &edit),
            Err(error) => record.refusal(&error),
        },
        Err(problem) => refused(ErrorCode::InvalidPlan, record.version, problem),
    })
}

/// A plan of record.
struct PlanCase {
    version: u32,
    nodes: BTreeMap<NodeId, Node>,
    states: BTreeMap<NodeId, NodeState>,
    output: Option<NodeId>,
}

impl PlanCase {
    fn read(given: &CaseMap<'_>) -> Result<Self, CaseError> {
        let plan = given.need("plan")?;
        let file = schema::parse(plan.value())
            .map_err(|problems| CaseError(problems.iter().map(ToString::to_string).collect()))?;
        let version = given.or("version", 1, CaseValue::whole)?;
        let made = |node: Node| (node.id, Node { added: 1, defined: 1, ..node });
        let nodes: BTreeMap<NodeId, Node> = file.nodes.into_iter().map(made).collect();
        let leaves = graph::leaves(&nodes).into_iter();
        let states = leaves.map(|id| (id, state(id, NodeStatus::Todo))).collect();
        let mut record = Self { version, nodes, states, output: file.output };
        let Some(said) = given.get("nodes") else { return Ok(record) };
        let Value::Object(all) = said.value() else { return Err(said.wrong("a mapping")) };
        for (key, value) in all {
            let field = CaseValue::new(format!("given.nodes.{key}"), value);
            let id = key.parse().map_err(|_| field.wrong("a node's id as its key"))?;
            record.read_node(id, &field)?;
        }
        Ok(record)
    }

    /// Where a node stands: a status, or a mapping that says more.
    fn read_node(&mut self, id: NodeId, field: &CaseValue<'_>) -> Result<(), CaseError> {
        let unknown = || field.wrong("something about a node of the plan");
        let node = self.nodes.get_mut(&id).ok_or_else(unknown)?;
        let word = |field: &CaseValue<'_>| field.one(&NodeStatus::ALL, NodeStatus::as_str);
        if field.value().is_string() {
            *self.states.get_mut(&id).ok_or_else(unknown)? = state(id, word(field)?);
            return Ok(());
        }
        let input = field.keys("status attempts begun settled assignee blocker added defined")?;
        node.added = input.or("added", node.added, CaseValue::whole)?;
        node.defined = input.or("defined", node.defined, CaseValue::whole)?;
        let Some(leaf) = self.states.get_mut(&id) else { return Ok(()) };
        *leaf = state(id, input.or("status", NodeStatus::Todo, word)?);
        leaf.attempts = input.or("attempts", leaf.attempts, CaseValue::whole)?;
        leaf.begun = input.or("begun", leaf.begun, CaseValue::whole)?;
        leaf.settled = input.or("settled", leaf.settled, CaseValue::whole)?;
        leaf.assignee = input.maybe("assignee", CaseValue::parsed)?;
        if let Some(kind) = input.get("blocker") {
            leaf.blocker = Some(blocker(kind.text()?));
        }
        Ok(())
    }

    fn present(&self) -> Present<'_> {
        static NONE: FoldedChildren = FoldedChildren::new();
        let Self { version, nodes, states, output } = self;
        Present { version: *version, nodes, states, output: *output, folded: &NONE }
    }

    fn apply(&self, base: u32, edit: &Edit) -> CaseOutcome {
        match change::change(&self.present(), base, edit) {
            Ok(changed) => self.told(&changed),
            Err(error) => self.refusal(&error),
        }
    }

    fn refusal(&self, error: &change::ChangeError) -> CaseOutcome {
        let refusal = error.refusal(self.version);
        refused(refusal.code, self.version, refusal.detail)
    }

    fn told(&self, changed: &Changed) -> CaseOutcome {
        let ids = |ids: &[NodeId]| ids.iter().map(ToString::to_string).collect::<Vec<_>>();
        let redefined: Vec<NodeId> = changed.redefined.iter().map(|(id, _)| *id).collect();
        let raised = u32::from(!changed.is_nothing(&self.present()));
        CaseOutcome::default()
            .set("ok", true)
            .set("version", self.version + raised)
            .set("added", ids(&changed.added))
            .set("redefined", ids(&redefined))
            .set("cancelled", ids(&changed.cancelled))
            .set("split", ids(&changed.split))
            .set("waiting", ids(&changed.waiting))
            .set("freed", ids(&changed.freed))
            .set("output", changed.output.map(|id| id.to_string()))
    }

    /// What somebody says to a draft.
    fn decided(
        &self,
        given: &CaseMap<'_>,
        when: &CaseMap<'_>,
        verdict: &CaseValue<'_>,
    ) -> CaseResult {
        let draft = given.need("draft")?.keys("status base_version edit")?;
        let word = |field: &CaseValue<'_>| field.one(&DraftStatus::ALL, DraftStatus::as_str);
        let status = draft.or("status", DraftStatus::Open, word)?;
        let verdict = verdict.one(&DraftVerdict::ALL, DraftVerdict::as_str)?;
        let by: Option<Principal> = when.maybe("by", CaseValue::parsed)?;
        let Some(to) = status.after(verdict) else {
            let refused = refused(ErrorCode::Conflict, self.version, format!("it is {status}"));
            return Ok(refused.set("draft", status.as_str()));
        };
        let outcome = if by.is_some_and(|by| !may_decide(&by)) {
            refused(ErrorCode::Unauthorized, self.version, String::new())
        } else if to == DraftStatus::Approved {
            let base = draft.or("base_version", self.version, CaseValue::whole)?;
            match read_edit(&draft.need("edit")?)? {
                Ok(edit) => self.apply(base, &edit),
                Err(problem) => refused(ErrorCode::InvalidPlan, self.version, problem),
            }
        } else {
            CaseOutcome::default().set("ok", true).set("version", self.version)
        };
        let stands = if outcome.is_error() { status } else { to };
        Ok(outcome.set("draft", stands.as_str()))
    }
}

fn refused(code: ErrorCode, version: u32, detail: String) -> CaseOutcome {
    let outcome = CaseOutcome::default().set("ok", false).set("error", code.as_str());
    outcome.set("version", version).set_detail(detail)
}

/// A leaf that stands there since version 1.
fn state(id: NodeId, status: NodeStatus) -> NodeState {
    let begun = matches!(status, NodeStatus::InProgress | NodeStatus::Done);
    NodeState {
        id,
        status,
        assignee: None,
        assignment: None,
        purpose: Purpose::Execute,
        attempts: u32::from(begun),
        findings: Vec::new(),
        blocker: (status == NodeStatus::Blocked).then(|| blocker("stopped")),
        result: None,
        since: BusTime(0),
        failures: Failures::default(),
        latest: None,
        begun: u32::from(begun),
        settled: u32::from(status.is_settled()),
        priorities: Priorities::default(),
        created: BusTime(0),
        started: None,
    }
}

fn blocker(kind: &str) -> Blocker {
    Blocker { kind: kind.to_owned(), detail: String::new(), needs: String::new() }
}

/// What the one key of a change asks for.
fn wanted(when: &CaseMap<'_>) -> Readable<Change> {
    if let Some(plan) = when.get("plan") {
        let whole = schema::parse(plan.value()).map_err(said);
        return Ok(whole.map(|it| Change::Whole { nodes: it.nodes, output: it.output }));
    }
    if let Some(add) = when.get("add") {
        let add = add.keys("parent node")?;
        let parent = add.need("parent")?.parsed()?;
        let read = news(&add.need("node")?, parent);
        return Ok(read.and_then(|mut all| match (all.pop(), all.is_empty()) {
            (Some(node), true) => Ok(Change::Add { parent, node: Box::new(node) }),
            (_, _) => Err("one node is added at a time".to_owned()),
        }));
    }
    if let Some(split) = when.get("split") {
        let split = split.keys("node subtasks")?;
        let node = split.need("node")?.parsed()?;
        let read = news(&split.need("subtasks")?, node);
        return Ok(read.map(|subtasks| Change::Split { node, subtasks }));
    }
    let merge = when.need("merge")?.keys("nodes name objective")?;
    let text = |field: &CaseValue<'_>| field.text().map(str::to_owned);
    Ok(Ok(Change::Merge {
        nodes: merge.need("nodes")?.each(CaseValue::parsed)?,
        name: merge.or("name", String::new(), text)?,
        objective: merge.or("objective", String::new(), text)?,
    }))
}

fn read_edit(field: &CaseValue<'_>) -> Readable<Edit> {
    let input = field.keys("puts removes")?;
    let mut edit = Edit::default();
    for put in input.or("puts", Vec::new(), CaseValue::list)? {
        let id: NodeId = put.value()["id"]
            .as_str()
            .and_then(|id| id.parse().ok())
            .ok_or_else(|| put.wrong("a node with its id"))?;
        let parent = id.parent().ok_or_else(|| put.wrong("a task or a subtask"))?;
        match news(&put, parent) {
            Ok(all) => edit.puts.extend(all.into_iter().map(|new| new.node)),
            Err(problem) => return Ok(Err(problem)),
        }
    }
    edit.removes = input.each("removes", CaseValue::parsed)?.into_iter().collect();
    Ok(Ok(edit))
}

fn news(field: &CaseValue<'_>, parent: NodeId) -> Result<Vec<NewNode>, String> {
    schema::parse_new(field.value(), parent).map_err(said)
}

fn said(problems: Vec<schema::PlanProblem>) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
