//! What people want of the fleet: plans of all shapes that a plan file may have, and single
//! requests.

use serde_json::{Value, json};
use tetrarch_core::agent::Mode;
use tetrarch_core::brief::Tools;
use tetrarch_core::budget::Limits;
use tetrarch_core::id::{AgentId, EpicId, ProjectName};
use tetrarch_core::plan::PlacementWish;
use tetrarch_core::plan::schema::{PlanFile, parse};
use tetrarch_core::request::{Op, ProjectCreate, SpawnRequest, SubagentWish, TaskWish};
use tetrarch_core::role::Role;

use crate::dice::Dice;

/// The project of every seed.
pub(crate) fn project() -> ProjectName {
    ProjectName::new("demo").expect("it is a name")
}

pub(crate) fn create(budget: bool) -> Op {
    Op::ProjectCreate(ProjectCreate {
        project: project(),
        mode: Mode::Orchestrator,
        external: false,
        tools: Tools::every(),
        budget: Limits { tokens: budget.then_some(100_000), ..Limits::default() },
        local_max_depth: None,
        placement: PlacementWish::default(),
    })
}

/// A plan by chance: one or two phases, tasks that wait for each other, specialists, reviews.
pub(crate) fn plan(dice: &mut Dice) -> PlanFile {
    let phases = dice.range(1, 2);
    let mut read = Vec::new();
    for phase in 1..=phases {
        let tasks: Vec<Value> = (1..=dice.range(1, 4)).map(|n| task(phase, n, dice)).collect();
        let deps: Vec<String> =
            if phase == 2 && dice.percent(60) { vec!["P1".to_owned()] } else { Vec::new() };
        read.push(json!({"id": format!("P{phase}"), "name": "p", "deps": deps, "tasks": tasks}));
    }
    let profiles = json!({"default": {"argv": ["work"]}});
    let plan = json!({"title": "goal", "phaseOrder": "parallel", "phases": read,
        "profiles": profiles});
    parse(&plan).expect("it is a plan")
}

fn task(phase: usize, n: usize, dice: &mut Dice) -> Value {
    let id = format!("T{phase}.{n}");
    let mut task = json!({"id": id, "name": id, "acceptance": ["it holds"], "maxAttempts": 10});
    if n > 1 && dice.percent(40) {
        task["deps"] = json!([format!("T{phase}.{}", dice.range(1, n - 1))]);
    }
    if dice.percent(20) {
        let subtask = |m| {
            let id = format!("S{phase}.{n}.{m}");
            json!({"id": id, "name": id, "acceptance": ["it holds"], "maxAttempts": 10})
        };
        task["subtasks"] = json!([subtask(1), subtask(2)]);
        let fields = task.as_object_mut().expect("it is a mapping");
        fields.remove("acceptance");
        fields.remove("maxAttempts");
        return task;
    }
    if dice.percent(30) {
        task["role"] = json!("specialist");
        task["domain"] = json!("api");
    }
    // By its place, so that what chance decides besides stays as it is.
    match n {
        3 => task["recoveryPolicy"] = json!({"from": "resend_last", "idleAfter": "2s"}),
        4 => task["recoveryPolicy"] = json!({"maxRetries": 1, "reassign": false}),
        _ => {}
    }
    if dice.percent(30) {
        task["review"] = json!({"domain": "quality"});
    }
    task
}

/// A request for one worker at a task of its own.
pub(crate) fn one_worker(epic: EpicId, parent: Option<AgentId>) -> SpawnRequest {
    SpawnRequest {
        epic,
        node: None,
        parent,
        requested_by: None,
        reason: "more hands".to_owned(),
        caller_depth: None,
        caller_max_depth: None,
        caller_local_max_depth: None,
        subagents: vec![SubagentWish {
            role: Role::Worker,
            domain: None,
            task: TaskWish::Task("a part of it".to_owned()),
            suggested_actor_id: String::new(),
            local_max_depth: None,
            budget: Limits::default(),
            wall: None,
            tools: None,
            profile: None,
            placement: PlacementWish::default(),
        }],
        ack_required: true,
        wait: false,
    }
}
