//! What is told of a goal's work as JSON text: its nodes, the shape of its plan, what to take first.
//! A list that has no room in an answer is cut at whole items and says so.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::id::{EpicId, NodeId};
use crate::limits::{ANSWER_BYTES_MAX, LIST_MAX, RECOMMENDED};
use crate::plan::advice::{Leaf, Recommendation, of_leaves};
use crate::plan::insight::of_plan;
use crate::plan::rollup::rollup;
use crate::plan::splitting::{Weighed, weigh};
use crate::plan::{Node, NodeState, NodeStatus};
use crate::priority::Priorities;
use crate::request::Page;
use crate::step::Draft;

/// Bytes kept for names, brackets and the word that there is more.
const FRAME: usize = 256;

/// An answer in the making.
pub(in crate::owner) struct Answer {
    fields: Map<String, Value>,
    room: usize,
    more: bool,
}

impl Default for Answer {
    fn default() -> Self {
        Self { fields: Map::new(), room: ANSWER_BYTES_MAX - FRAME, more: false }
    }
}

impl Answer {
    fn new(epic: EpicId) -> Self {
        let fields = Map::from_iter([("epic".to_owned(), json!(epic.to_string()))]);
        Self { fields, ..Self::default() }
    }

    /// As many items as there is room for.
    pub(in crate::owner) fn list(
        &mut self,
        name: &str,
        items: impl IntoIterator<Item = Value>,
    ) -> &mut Self {
        let mut kept = Vec::new();
        for item in items {
            let size = item.to_string().len() + 1;
            if size > self.room {
                self.more = true;
                break;
            }
            self.room -= size;
            kept.push(item);
        }
        self.fields.insert(name.to_owned(), Value::Array(kept));
        self
    }

    /// The items of a page, in their order: as many as there is room for and are wanted. Where there are
    /// more, `next` says after which to go on.
    pub(in crate::owner) fn page<K: Ord + Copy + ToString>(
        &mut self,
        name: &str,
        items: impl IntoIterator<Item = (K, Value)>,
        page: Page<K>,
    ) -> &mut Self {
        let wanted = page.limit.unwrap_or(usize::MAX);
        let mut keys = Vec::new();
        let mut rest = items.into_iter().filter(|(key, _)| Some(*key) > page.after).peekable();
        let taken = rest.by_ref().take(wanted).map(|(key, item)| {
            keys.push(key);
            item
        });
        self.list(name, taken.collect::<Vec<_>>());
        let kept = self.fields.get(name).and_then(Value::as_array).map_or(0, Vec::len);
        self.more |= rest.peek().is_some();
        if let Some(last) = keys.get(kept.wrapping_sub(1)).filter(|_| self.more) {
            self.fields.insert("next".to_owned(), json!(last.to_string()));
        }
        self
    }

    /// Its JSON text.
    pub(in crate::owner) fn finish(mut self) -> String {
        self.fields.insert("more".to_owned(), json!(self.more));
        Value::Object(self.fields).to_string()
    }
}

/// `todo.list`: the nodes of a plan in its order.
pub(super) fn list(
    draft: &Draft<'_>,
    epic: EpicId,
    wanted: Option<NodeStatus>,
    page: Page<NodeId>,
) -> String {
    let nodes = draft.nodes(epic);
    let ids: Vec<NodeId> = nodes.keys().copied().collect();
    let statuses = rollup(&draft.leaf_statuses(epic), &ids, draft.folded(epic)).statuses;
    let listed = nodes.values().filter_map(|node| {
        let status = statuses.get(&node.id).copied().unwrap_or(NodeStatus::Todo);
        let listed = wanted.is_none_or(|wanted| wanted == status);
        listed.then(|| (node.id, item(node, status, draft.node_state(epic, node.id))))
    });
    let mut answer = Answer::new(epic);
    answer.page("nodes", listed, page);
    answer.finish()
}

fn item(node: &Node, status: NodeStatus, state: Option<&NodeState>) -> Value {
    let mut item = json!({
        "id": node.id.to_string(),
        "title": node.name,
        "status": status.as_str(),
        "dependsOn": texts(&node.depends_on),
    });
    if let (Some(state), Value::Object(fields)) = (state, &mut item) {
        let blocker = state
            .blocker
            .as_ref()
            .map(|it| json!({"kind": it.kind, "detail": it.detail, "needs": it.needs}));
        let assignee = state.assignee.as_ref().map(ToString::to_string);
        fields.extend([
            ("assignee".to_owned(), json!(assignee)),
            ("attempts".to_owned(), json!(state.attempts)),
            ("maxAttempts".to_owned(), json!(node.max_attempts)),
            ("priorities".to_owned(), said(state.priorities)),
            ("blocker".to_owned(), json!(blocker)),
            ("sinceUnixMs".to_owned(), json!(state.since.0)),
        ]);
    }
    item
}

fn said(priorities: Priorities) -> Value {
    let Priorities { user, overseer } = priorities;
    json!({
        "user": user.map(crate::priority::Priority::number),
        "overseer": overseer.map(crate::priority::Priority::number),
    })
}

fn texts(ids: &[NodeId]) -> Vec<String> {
    ids.iter().map(ToString::to_string).collect()
}

/// `todo.graph_insights`: the shape of a plan (spec 05, Insights).
pub(super) fn insights(draft: &Draft<'_>, epic: EpicId, page: Page<NodeId>) -> String {
    let found = of_plan(&draft.nodes(epic), &draft.leaf_statuses(epic));
    let names = |ids: &[NodeId]| texts(ids).into_iter().map(Value::String).collect::<Vec<_>>();
    let mut answer = Answer::new(epic);
    // The first page has what is said of the whole plan, in half of its room: nodes go on after it.
    let kept = if page.after.is_none() { answer.room / 2 } else { 0 };
    answer.room -= kept;
    if page.after.is_none() {
        answer
            .list("criticalPath", names(&found.critical_path))
            .list("ready", names(&found.ready))
            .list("cycles", found.cycles.iter().map(|cycle| json!(texts(cycle))))
            .list(
                "bottlenecks",
                found.bottlenecks.iter().map(|(id, held)| json!([id.to_string(), held])),
            )
            .list("topological", names(&found.topological));
    }
    answer.room += kept;
    let nodes = found.pagerank.iter().map(|(id, rank)| {
        let node = json!({
            "id": id.to_string(),
            "longest": found.longest.get(id),
            "inDegree": found.in_degree.get(id),
            "outDegree": found.out_degree.get(id),
            "pagerank": rank,
        });
        (*id, node)
    });
    answer.page("nodes", nodes, page);
    answer.finish()
}

/// What recommendations rest on of each leaf.
pub(super) fn leaves(draft: &Draft<'_>, epic: EpicId) -> BTreeMap<NodeId, Leaf> {
    let nodes = draft.nodes(epic);
    let states = nodes.keys().filter_map(|id| draft.node_state(epic, *id));
    let leaf = |state: &NodeState| {
        let NodeState { id, status, priorities, created, .. } = state;
        (*id, Leaf { status: *status, priorities: *priorities, created: *created })
    };
    states.map(leaf).collect()
}

/// `todo.recommend`: pending leaves with their scores, the best first (spec 05, Insights).
pub(super) fn recommended(draft: &Draft<'_>, epic: EpicId, limit: u32) -> String {
    let nodes = draft.nodes(epic);
    let most = match usize::try_from(limit) {
        Ok(0) => RECOMMENDED,
        Ok(limit) => limit.min(LIST_MAX),
        Err(_) => LIST_MAX,
    };
    let leaves = leaves(draft, epic);
    let best = of_leaves(&nodes, &leaves, draft.now);
    let more = best.len() > most;
    let shown = best.iter().take(most).map(|best| {
        let name = nodes.get(&best.name).map_or("", |node| node.name.as_str());
        let state = draft.node_state(epic, best.name);
        let weighed = nodes.get(&best.name).zip(state).map(|(node, state)| weigh(node, state));
        scored(
            best,
            name,
            leaves.get(&best.name).map(|leaf| leaf.status),
            &weighed.unwrap_or_default(),
        )
    });
    let mut answer = Answer::new(epic);
    answer.list("recommended", shown);
    answer.more |= more;
    answer.finish()
}

fn scored(
    best: &Recommendation<NodeId>,
    name: &str,
    status: Option<NodeStatus>,
    weighed: &Weighed,
) -> Value {
    json!({
        "split": {"advised": weighed.splits(), "pros": weighed.pros, "cons": weighed.cons},
        "id": best.name.to_string(),
        "title": name,
        "status": status.map(NodeStatus::as_str),
        "score": best.score,
        "ready": best.ready,
        "parts": {
            "criticalPath": best.merits.critical_path,
            "pagerank": best.merits.pagerank,
            "userPriority": best.merits.user_priority,
            "overseerPriority": best.merits.overseer_priority,
            "freshness": best.merits.freshness,
        },
    })
}
