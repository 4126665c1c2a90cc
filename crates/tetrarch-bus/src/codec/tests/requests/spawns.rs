//! Requests for agents, full and as small as they may be.

use tetrarch_core::admission::queued::QueuedSpawn;
use tetrarch_core::brief::{Tools, Worktree};
use tetrarch_core::budget::Limits;
use tetrarch_core::error::DenialReason;
use tetrarch_core::plan::PlacementWish;
use tetrarch_core::request::{BriefWish, SpawnRequest, SubagentWish, TaskWish};
use tetrarch_core::role::Role;
use tetrarch_core::time::{BusTime, Millis};

use crate::codec::tests::letters::denied;
use crate::codec::tests::samples::{TRACE, id, limits, placement, words};

fn wish(full: bool, task: TaskWish, tools: Option<Tools>) -> SubagentWish {
    SubagentWish {
        role: Role::Specialist,
        domain: full.then(|| id("api")),
        task,
        suggested_actor_id: if full { "anna".to_owned() } else { String::new() },
        local_max_depth: full.then_some(0),
        budget: if full { limits() } else { Limits::default() },
        wall: full.then_some(Millis(1)),
        tools,
        profile: full.then(|| id("default")),
        placement: if full { placement() } else { PlacementWish::default() },
    }
}

pub(in crate::codec::tests) fn spawn_request(full: bool) -> SpawnRequest {
    let brief = BriefWish {
        goal: "g".to_owned(),
        key_facts: words("k"),
        notes: vec![id("build")],
        output_schema: full.then(|| "{\"type\":\"object\"}".to_owned()),
        success_criteria: words("s"),
        definition_of_done: "d".to_owned(),
        workspace: "/w".to_owned(),
        scope_paths: words("p"),
        turn_timeout: full.then_some(Millis(2)),
        worktree: full.then_some(Worktree::Isolated),
    };
    let tools = full.then(|| words("read write").into_iter().collect());
    SpawnRequest {
        epic: id("goal_~"),
        node: full.then(|| id("S1.2.3")),
        parent: full.then(|| id("S:api:~")),
        requested_by: full.then(|| id("human:ada")),
        reason: "r".to_owned(),
        caller_depth: full.then_some(0),
        caller_max_depth: full.then_some(3),
        caller_local_max_depth: full.then_some(2),
        subagents: vec![
            wish(full, TaskWish::Brief(brief), tools),
            wish(full, TaskWish::Task("t".to_owned()), Some(Tools::default())),
        ],
        ack_required: full,
        wait: full,
    }
}

pub(in crate::codec::tests) fn queued_spawn(full: bool) -> QueuedSpawn {
    QueuedSpawn {
        parent: id("PO-demo"),
        place: 3,
        request: id("~"),
        sender: id("human:ada"),
        trace: full.then(|| TRACE.to_owned()),
        wanted: spawn_request(full),
        waiting: vec![denied(DenialReason::ChildrenLimitExceeded)],
        since: BusTime(4),
    }
}
