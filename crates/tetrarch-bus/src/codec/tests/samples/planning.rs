//! Changes of plans: asked for, proposed, put to people.

use serde_json::json;
use tetrarch_core::mcp::McpServer;
use tetrarch_core::permission::{PermissionAction, PermissionList, PermissionRule};
use tetrarch_core::plan::change::{Edit, NewNode, Output};
use tetrarch_core::plan::proposal::{DraftStatus, DraftVerdict, PlanReview, Proposal, ReviewAsk};
use tetrarch_core::plan::{Node, PlanReason, schema};
use tetrarch_core::request::Op;
use tetrarch_core::request::planning::{Addition, Merging, PlanMode, PlanOp, Splitting, Wanted};
use tetrarch_core::time::{BusTime, Millis};

use super::{TRACE, id, words};

pub(super) fn sample(full: bool, node: Node) -> Proposal {
    Proposal {
        id: id("drf_~"),
        epic: id("goal_~"),
        author: id("PO-demo"),
        base_version: 4,
        edit: Edit {
            puts: if full { vec![node] } else { Vec::new() },
            removes: if full { vec![id("T1.1")] } else { Vec::new() },
            output: if full { Output::Be(None) } else { Output::Kept },
        },
        reason: "r".to_owned(),
        status: if full { DraftStatus::Approved } else { DraftStatus::Open },
        notes: if full { "n".to_owned() } else { String::new() },
        decided_by: full.then(|| id("human:ada")),
        version: full.then_some(5),
        created: BusTime(1),
        since: BusTime(2),
    }
}

pub(in crate::codec::tests) fn review(full: bool) -> PlanReview {
    let ask = ReviewAsk {
        by: id("PO-demo"),
        reason: PlanReason::Replan,
        draft: full.then(|| id("drf_~")),
        text: "t".to_owned(),
    };
    PlanReview {
        epic: id("goal_~"),
        plan: id("plan_~"),
        project: id("demo"),
        version: 4,
        asks: if full { vec![ask] } else { Vec::new() },
        trace: full.then(|| TRACE.to_owned()),
        at: BusTime(1),
    }
}

pub(in crate::codec::tests) fn wanted<C>(full: bool, what: C) -> Wanted<C> {
    Wanted {
        epic: id("goal_~"),
        mode: if full { PlanMode::Draft } else { PlanMode::Apply },
        base_version: Some(4),
        reason: "r".to_owned(),
        replaces: full.then(|| id("drf_~")),
        what: Ok(what),
    }
}

fn new(full: bool) -> NewNode {
    let mut node = json!({"name": "n", "acceptance": ["a"], "deps": ["T1.1"]});
    if full {
        node["id"] = json!("S1.2.3");
        node["wall"] = json!("1m");
    }
    schema::parse_new(&node, id("T1.2")).unwrap().remove(0)
}

pub(in crate::codec::tests) fn added(full: bool) -> Op {
    let what = Box::new(Addition { parent: id("T1.2"), node: new(full) });
    let wanted = wanted(full, what);
    let base_version = wanted.base_version.filter(|_| full);
    Op::Plan(PlanOp::Add(Wanted { base_version, ..wanted }))
}

pub(in crate::codec::tests) fn split(full: bool) -> Op {
    let subtasks = vec![new(full)];
    Op::Plan(PlanOp::Split(wanted(full, Splitting { node: id("T1.2"), subtasks })))
}

pub(in crate::codec::tests) fn merged(full: bool) -> Op {
    let text = |text: &str| if full { text.to_owned() } else { String::new() };
    let merging =
        Merging { nodes: vec![id("T1.1"), id("T1.2")], name: text("n"), objective: text("o") };
    Op::Plan(PlanOp::Merge(wanted(full, merging)))
}

pub(in crate::codec::tests) fn decided() -> Op {
    let verdict = DraftVerdict::Refine;
    let (epic, draft) = (id("goal_~"), id("drf_~"));
    Op::Plan(PlanOp::Decide { epic, draft, verdict, reason: "r".to_owned() })
}

pub(super) fn permissions() -> PermissionList {
    let (tool, words, action) = ("run".to_owned(), words("git push"), PermissionAction::Ask);
    PermissionList { rules: vec![PermissionRule { tool, words, action }] }
}

pub(super) fn server() -> McpServer {
    McpServer {
        name: "n".to_owned(),
        argv: words("server --stdio"),
        env: vec![("A".to_owned(), "b".to_owned())],
        pass_env: words("HOME"),
        url: "u".to_owned(),
        key_from: "env:K".to_owned(),
        header: "h".to_owned(),
        timeout: Some(Millis(7)),
        required: true,
        trusted: true,
    }
}
