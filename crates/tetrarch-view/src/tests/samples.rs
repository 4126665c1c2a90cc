//! Records for the tests of views.

use tetrarch_core::agent::{Agent, Hosting, Unsettled, Work};
use tetrarch_core::assignment::Purpose;
use tetrarch_core::brief::{
    Brief, ExpectedOutput, Runner, RunnerKind, Served, Tools, Usage, Worktree,
};
use tetrarch_core::budget::{Account, Limits};
use tetrarch_core::conversation::lane::TurnLane;
use tetrarch_core::conversation::{Turn, TurnId, TurnStatus};
use tetrarch_core::cursor::Positions;
use tetrarch_core::goal::{Goal, GoalSpec};
use tetrarch_core::id::{
    AgentId, AssignmentId, EpicId, GraphName, NodeId, Principal, ProfileName, ProjectName, RunId,
    SessionId, Ulid,
};
use tetrarch_core::ledger::Record;
use tetrarch_core::liveness::Liveness;
use tetrarch_core::plan::{Node, NodeState, NodeStatus, PlacementWish};
use tetrarch_core::role::Role;
use tetrarch_core::run::{Run, RunState, RunStatus};
use tetrarch_core::time::BusTime;
use tetrarch_core::vitals::Vitals;

/// The goal that all of them work on.
fn epic() -> EpicId {
    EpicId(Ulid::from_parts(1, 7))
}

/// An agent of this name; below a project orchestrator it belongs to the project `demo`.
pub(crate) fn agent(id: &str, parent: Option<&str>, liveness: Liveness) -> Agent {
    let project = parent.is_some_and(|parent| parent.starts_with("PO"));
    Agent {
        id: id.parse().unwrap(),
        session: None,
        mail_read: 0,
        denials: Default::default(),
        retired: false,
        epoch: 1,
        liveness,
        reason: String::new(),
        since: BusTime(10_000),
        ending: None,
        parent: parent.map(|parent| parent.parse().unwrap()),
        depth: 0,
        max_depth: 3,
        local_max_depth: 3,
        requested_by: Principal::Agent(AgentId::Go),
        project: project.then(|| ProjectName::new("demo").unwrap()),
        hosting: Hosting::Hosted,
        placement: None,
        label: String::new(),
        slots: Vec::new(),
        account: Account::default(),
        unsettled: Unsettled::default(),
        deadline: None,
        tools: Tools::default(),
        circuit: Default::default(),
        work: None,
        verbs: Default::default(),
        created: BusTime(1_000),
    }
}

/// The `n`th worker of `PO-demo`, at its run, assignment and task.
pub(crate) fn worker(n: u128, task: u32, liveness: Liveness) -> Agent {
    let id = format!("W:{}", Ulid::from_parts(1, n));
    let work = Work {
        epic: epic(),
        node: NodeId::task(1, task),
        assignment: AssignmentId(Ulid::from_parts(1, n)),
        run: RunId(Ulid::from_parts(1, n)),
    };
    Agent { work: Some(work), ..agent(&id, Some("PO-demo"), liveness) }
}

/// The state of the `n`th run.
pub(crate) fn run_status(n: u128, state: RunState) -> RunStatus {
    RunStatus {
        id: RunId(Ulid::from_parts(1, n)),
        agent: AgentId::Worker(Ulid::from_parts(1, n)),
        state,
        cancel_kept: false,
        dropped: false,
        since: BusTime(0),
        reminded: None,
        usage: Usage::default(),
        result: None,
        archive: None,
    }
}

/// The `n`th run, with this model, at the first task.
pub(crate) fn run(n: u128, model: &str) -> Run {
    let runner = Runner {
        profile: ProfileName::new("default").unwrap(),
        kind: RunnerKind::Process,
        argv: Vec::new(),
        env: Vec::new(),
        pass_env: Vec::new(),
        writable: Vec::new(),
        model: model.to_owned(),
        served: Served::default(),
        permissions: Vec::new(),
        mcp_servers: Vec::new(),
        prompt: String::new(),
    };
    let brief = Brief {
        goal: format!("what run {n} is for"),
        key_facts: Vec::new(),
        expected_output: ExpectedOutput::Text,
        success_criteria: Vec::new(),
        definition_of_done: String::new(),
        tools: Tools::default(),
        workspace: String::new(),
        scope_paths: Vec::new(),
        budget: Limits::default(),
        wall: None,
        turn_timeout: None,
        runner,
        worktree: Worktree::None,
        inputs: Vec::new(),
        judges: None,
    };
    Run {
        id: RunId(Ulid::from_parts(1, n)),
        agent: AgentId::Worker(Ulid::from_parts(1, n)),
        session: SessionId(Ulid::from_parts(1, n)),
        epoch: 1,
        epic: epic(),
        node: NodeId::task(1, 1),
        assignment: AssignmentId(Ulid::from_parts(1, n)),
        brief,
        continues: None,
        placement: None,
        created: BusTime(1_000),
    }
}

/// What the host of the `n`th worker says, which used so many tokens.
pub(crate) fn live(n: u128, tokens: u64) -> Vitals {
    Vitals {
        agent: AgentId::Worker(Ulid::from_parts(1, n)),
        session: SessionId(Ulid::from_parts(1, n)),
        epoch: 1,
        run_state: Some(RunState::Running),
        positions: Positions::default(),
        progress: 1,
        tokens,
        tokens_out: 0,
        turns: 0,
        cost_micro: 0,
        burn: Default::default(),
        tool: String::new(),
        words: String::new(),
    }
}

/// A node of a plan.
pub(crate) fn node(id: &str, name: &str) -> Node {
    Node {
        id: id.parse().unwrap(),
        name: name.to_owned(),
        objective: String::new(),
        acceptance: Vec::new(),
        expected_outcome: String::new(),
        estimated_effort: String::new(),
        risk_level: None,
        definition_of_done: String::new(),
        depends_on: Vec::new(),
        role: Role::Worker,
        domain: None,
        profile: None,
        tools: Tools::default(),
        key_facts: Vec::new(),
        output_schema: None,
        scope_paths: Vec::new(),
        budget: Limits::default(),
        wall: None,
        max_attempts: 1,
        review: None,
        placement: PlacementWish::default(),
        recovery: Default::default(),
        spawned: false,
        added: 1,
        defined: 1,
    }
}

/// The state of a node.
pub(crate) fn node_state(id: &str, status: NodeStatus) -> NodeState {
    NodeState {
        id: id.parse().unwrap(),
        status,
        assignee: None,
        assignment: None,
        purpose: Purpose::Execute,
        attempts: 0,
        findings: Vec::new(),
        blocker: None,
        result: None,
        since: BusTime(0),
        failures: Default::default(),
        latest: None,
        begun: 0,
        settled: 0,
        priorities: Default::default(),
        created: BusTime(0),
        started: None,
    }
}

/// The state of a task that is worked on.
pub(crate) fn open_node(task: u32) -> Record {
    let state = node_state(&NodeId::task(1, task).to_string(), NodeStatus::InProgress);
    Record::NodeState(epic(), Box::new(state))
}

/// Turn 3 of ada's conversation main.
pub(crate) fn turn(lane: TurnLane, status: TurnStatus, channel: Option<&str>) -> Turn {
    Turn {
        id: TurnId {
            human: "ada".parse().unwrap(),
            conversation: "main".parse().unwrap(),
            number: 3,
        },
        lane,
        project: ProjectName::new("demo").unwrap(),
        graph: GraphName::new("default").unwrap(),
        version: 0,
        text: "count".to_owned(),
        schedule: None,
        tell: None,
        channel: channel.map(|name| name.parse().unwrap()),
        mode: None,
        kept_mode: None,
        trace: None,
        status,
        moved: 2,
        position: None,
        epic: Some(epic()),
        answer: "42".to_owned(),
        order: 1,
        working: false,
        outcome: String::new(),
        result: String::new(),
        said: BusTime(5_000),
        since: BusTime(5_000),
    }
}

/// The goal, of `demo`, with an origin.
pub(crate) fn goal(owner: &str, origin: &[(&str, &str)]) -> Goal {
    let origin = origin.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned()));
    Goal {
        id: epic(),
        project: ProjectName::new("demo").unwrap(),
        spec: GoalSpec {
            title: "the site".to_owned(),
            origin: origin.collect(),
            ..GoalSpec::default()
        },
        owner: owner.parse().unwrap(),
        created: BusTime(5_000),
        updated: BusTime(5_000),
    }
}
