//! Values with every field set, and with none that may be absent.

pub(super) mod change;
pub(super) mod conversation;
mod crystallization;
mod dispatch;
mod plan;
mod planner;
pub(super) mod planning;
mod question;
mod reservation;
pub(super) mod schedule;

use std::fmt::Debug;
use std::str::FromStr;

use tetrarch_core::agent::{
    Agent, Ending, HeldGrant, Host, Hosting, LostRun, Mode, Placement, Profile, Project, Slot,
    Unsettled, Work,
};
use tetrarch_core::audit::Act;
use tetrarch_core::brief::{
    Artifact, Brief, Evidence, ExpectedOutput, Finding, Judgement, NodeInput, Outcome, RunResult,
    Runner, RunnerKind, Served, Tools, Usage, Verdict, Worktree,
};
use tetrarch_core::budget::{Account, Limits, Spend};
use tetrarch_core::denials::Denials;
use tetrarch_core::goal::{Goal, GoalSpec, GoalState, GoalStatus, Risk};
use tetrarch_core::intensity::{Circuit, FailureCause, Failures};
use tetrarch_core::ledger::{Decision, Record};
use tetrarch_core::liveness::Liveness;
use tetrarch_core::mail::{Mail, MailBody};
use tetrarch_core::plan::folding::EndedChildren;
use tetrarch_core::plan::{Blocker, PlacementWish, Plan, PlanReason, PlanSource};
use tetrarch_core::run::{Run, RunState, RunStatus};
use tetrarch_core::time::{BusTime, Millis};
use tetrarch_core::verb::{Receipt, Stage, Verb, Verbs};

pub(super) use plan::plan_event;
use plan::{goal_result, node, node_state, priorities};

pub(super) const U: &str = "01JD8Z5W6T4QK3M9X2V7B1N0AC";
pub(super) const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Text as whatever it names; `~` stands for a ULID.
pub(super) fn id<T>(text: &str) -> T
where
    T: FromStr,
    T::Err: Debug,
{
    text.replace('~', U).parse().unwrap()
}

pub(super) fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

pub(super) fn labels() -> Vec<(String, String)> {
    vec![("gpu".to_owned(), "yes".to_owned()), ("zone".to_owned(), "a".to_owned())]
}

pub(super) fn limits() -> Limits {
    Limits { tokens: Some(u64::MAX), cost_micro: Some(1_234_567), turns: Some(0) }
}

pub(super) fn placement() -> PlacementWish {
    PlacementWish { host: Some(id("h1")), labels: labels() }
}

fn artifact() -> Artifact {
    let (name, media_type) = ("a b.txt".to_owned(), "text/plain".to_owned());
    Artifact { name, sha256: "0f".repeat(32), size: 12, media_type }
}

pub(super) fn usage() -> Usage {
    Usage { tokens_in: 1, tokens_out: 2, cost_micro: 3, turns: 4 }
}

pub(super) fn verdict() -> Verdict {
    let (place, what) = ("src".to_owned(), "naïve \"quote\"\n".to_owned());
    let finding = Finding { place, what, severity: "high".to_owned() };
    Verdict { judgement: Judgement::NeedsChanges, findings: vec![finding] }
}

pub(super) fn result() -> RunResult {
    RunResult {
        outcome: Outcome::BudgetExceeded,
        deliverable: "{\"a\": [1, 2]}".to_owned(),
        partial: "half".to_owned(),
        artifacts: vec![artifact()],
        usage: usage(),
        evidence: Evidence {
            files: words("f g"),
            commands: words("c"),
            tests: words("t"),
            commits: words("1"),
        },
        crystallization: "so far".to_owned(),
        verdict: Some(verdict()),
        error: "used up".to_owned(),
    }
}

fn brief() -> Brief {
    Brief {
        goal: "reach it".to_owned(),
        key_facts: words("one two"),
        expected_output: ExpectedOutput::Schema("{\"type\":\"object\"}".to_owned()),
        success_criteria: words("works"),
        definition_of_done: "all of it".to_owned(),
        tools: words("read write").into_iter().collect(),
        workspace: "/w".to_owned(),
        scope_paths: words("src"),
        budget: limits(),
        wall: Some(Millis(90_000)),
        turn_timeout: Some(Millis(1)),
        runner: Runner {
            profile: id("default"),
            kind: RunnerKind::Echo,
            argv: words("a b"),
            env: labels(),
            pass_env: words("HOME"),
            writable: words("/cache ~/.cache"),
            model: "m".to_owned(),
            served: served(),
            prompt: "p".to_owned(),
            permissions: vec![planning::permissions()],
            mcp_servers: vec![planning::server()],
        },
        worktree: Worktree::Isolated,
        inputs: vec![NodeInput {
            node: id("S1.2.3"),
            name: "n".to_owned(),
            deliverable: "d".to_owned(),
            artifacts: vec![artifact()],
        }],
        judges: Some(id("W:~")),
    }
}

pub(super) fn run(full: bool) -> Run {
    let brief = if full {
        brief()
    } else {
        Brief {
            expected_output: ExpectedOutput::Text,
            tools: Tools::default(),
            budget: Limits::default(),
            wall: None,
            turn_timeout: None,
            worktree: Worktree::None,
            inputs: Vec::new(),
            judges: None,
            ..brief()
        }
    };
    Run {
        id: id("run_~"),
        agent: id("W:~"),
        session: id("~"),
        epoch: 3,
        epic: id("goal_~"),
        node: id("T1.2"),
        assignment: id("asg_~"),
        brief,
        continues: full.then(|| id("run_~")),
        placement: full.then(|| Placement { host: id("h1"), host_epoch: 7 }),
        created: BusTime(1),
    }
}

fn agent(full: bool) -> Agent {
    Agent {
        id: id("S:api:~"),
        session: full.then(|| id("~")),
        mail_read: if full { 7 } else { 0 },
        retired: full,
        denials: match full {
            true => Denials { since: BusTime(8), count: 9, told: true },
            false => Denials::default(),
        },
        epoch: u64::MAX,
        liveness: Liveness::Stale,
        reason: "r".to_owned(),
        since: BusTime(5),
        ending: full.then(|| Ending {
            cause: FailureCause::Hung,
            reason: "r".to_owned(),
            until: BusTime(6),
        }),
        parent: full.then(|| id("PO-demo")),
        depth: 2,
        max_depth: 3,
        local_max_depth: 3,
        requested_by: id("human:ada"),
        project: full.then(|| id("demo")),
        hosting: if full { Hosting::Hosted } else { Hosting::Owner },
        placement: full.then(|| Placement { host: id("h1"), host_epoch: 7 }),
        label: "l".to_owned(),
        slots: if full { vec![Slot { child: id("W:~"), grant: limits() }] } else { Vec::new() },
        account: if full {
            let spend = Spend { tokens: 1, cost_micro: 2, turns: 3 };
            Account { limit: limits(), reserved: spend, spent: spend, drawn: spend, used: spend }
        } else {
            Account::default()
        },
        unsettled: if full {
            let lost = || LostRun { run: id("run_~"), charged: Spend::default() };
            let spent = Spend { tokens: 1, cost_micro: 2, turns: 3 };
            let held =
                HeldGrant { child: id("W:~"), grant: limits(), spent, runs: vec![lost(), lost()] };
            Unsettled { runs: vec![lost()], grants: vec![held] }
        } else {
            Unsettled::default()
        },
        deadline: full.then_some(BusTime(9)),
        tools: if full { Tools::every() } else { Tools::default() },
        circuit: Circuit {
            failures: Failures::new(if full { vec![BusTime(5), BusTime(9)] } else { Vec::new() }),
            opened: full.then_some(BusTime(11)),
            cause: if full { "it died".to_owned() } else { String::new() },
        },
        work: full.then(|| Work {
            epic: id("goal_~"),
            node: id("P1"),
            assignment: id("asg_~"),
            run: id("run_~"),
        }),
        verbs: if full { verbs() } else { Verbs::default() },
        created: BusTime(0),
    }
}

fn verbs() -> Verbs {
    let receipt = |verb, stage, at: Option<BusTime>| Receipt {
        id: id("~"),
        verb,
        run: id("run_~"),
        by: id("human:ada"),
        stage,
        queued: BusTime(1),
        delivered: at,
        ended: at,
        why: "r".to_owned(),
    };
    Verbs {
        receipts: vec![
            receipt(Verb::Steer, Stage::Queued, None),
            receipt(Verb::Pause, Stage::Effective, Some(BusTime(2))),
        ],
        paused_by: Some(id("PO-demo")),
    }
}

pub(super) fn profile() -> Profile {
    Profile {
        name: id("default"),
        description: "d".to_owned(),
        kind: RunnerKind::Process,
        argv: words("sh -c"),
        env: labels(),
        pass_env: words("PATH"),
        writable: words("/cache ~/.cache"),
        model: "m".to_owned(),
        served: served(),
        prompt: "p".to_owned(),
        tools: words("t").into_iter().collect(),
        permissions: planning::permissions(),
        mcp_servers: vec![planning::server()],
        budget: limits(),
        wall: Some(Millis(500)),
        workspace: "/w".to_owned(),
        worktree: Some(Worktree::Auto),
    }
}

pub(super) fn blocker() -> Blocker {
    Blocker { kind: "k".to_owned(), detail: "d".to_owned(), needs: "n".to_owned() }
}

/// Mail around a body.
pub(super) fn mail(full: bool, body: MailBody) -> Mail {
    Mail {
        to: id("HO@h1"),
        epic: full.then(|| id("goal_~")),
        correlation: full.then(|| id("~")),
        cause: if full { "request 7".to_owned() } else { String::new() },
        ack_required: full,
        trace: full.then(|| TRACE.to_owned()),
        body,
    }
}

/// Every kind of record.
pub(super) fn records(full: bool) -> Vec<Record> {
    let host = Host {
        name: id("h1"),
        instance: "i".to_owned(),
        labels: if full { labels() } else { Vec::new() },
        capacity: 16,
        address: "here".to_owned(),
        joined: BusTime(1),
        drained: full,
    };
    let project = Project {
        name: id("demo"),
        mode: Mode::Tight,
        created_by: id("human:ada"),
        created: BusTime(1),
        retired: full,
        fencing: 3,
    };
    let status = RunStatus {
        id: id("run_~"),
        agent: id("W:~"),
        state: RunState::AwaitingInput,
        cancel_kept: full,
        dropped: full,
        since: BusTime(1),
        reminded: full.then_some(BusTime(2)),
        usage: if full { usage() } else { Usage::default() },
        result: full.then(result),
        archive: full.then(|| "5".repeat(64)),
    };
    let (what, about) = ("budget.raise".to_owned(), "W:1".to_owned());
    let act = Box::new(Act { what, about, credential: Some("UABC".to_owned()) });
    let mut decision = Decision {
        request: id("~"),
        digest: "d".to_owned(),
        sender: id("human:ada"),
        answer: full.then(|| Box::new(mail(true, MailBody::Info { text: "\u{1f600}".to_owned() }))),
        at: BusTime(1),
        act: full.then_some(act),
        also: Vec::new(),
    };
    decision.also.extend(full.then(|| decision.clone()));
    let records = vec![
        Record::Agent(Box::new(agent(full))),
        Record::Host(host),
        Record::Project(project),
        Record::Profile(id("demo"), Box::new(profile())),
        Record::Run(Box::new(run(full))),
        Record::RunStatus(Box::new(status)),
        Record::Node(id("goal_~"), Box::new(node(full))),
        Record::NodeState(id("goal_~"), Box::new(node_state(full))),
        Record::Decision(Box::new(decision)),
        Record::Snapshot(Box::new(super::ledgers::snapshot(full))),
    ];
    records.into_iter().chain(epic_records(full)).collect()
}

pub(super) fn goal_spec() -> GoalSpec {
    let risk = Risk { risk: "r".to_owned(), impact: "i".to_owned(), mitigation: "m".to_owned() };
    GoalSpec {
        title: "t".to_owned(),
        problem_statement: "p".to_owned(),
        success_criteria: words("s"),
        non_goals: words("n"),
        constraints: words("c"),
        assumptions: words("a"),
        risks: vec![risk],
        stakeholders: words("h"),
        repo_context: "on main".to_owned(),
        tags: words("x y"),
        origin: vec![("channel".to_owned(), "irc".to_owned()), ("to".to_owned(), "eve".to_owned())],
    }
}

fn epic_records(full: bool) -> [Record; 16] {
    let goal = Goal {
        id: id("goal_~"),
        project: id("demo"),
        spec: goal_spec(),
        owner: id("IO@ada"),
        created: BusTime(1),
        updated: BusTime(2),
    };
    let state = GoalState {
        id: id("goal_~"),
        status: GoalStatus::Paused,
        percent: 50,
        result: full.then(goal_result),
        since: BusTime(1),
        priorities: priorities(full),
    };
    let ended = EndedChildren { done: 3, failed: 2, cancelled: 1, highest: 9 };
    let plan = Plan {
        epic: id("goal_~"),
        id: id("plan_~"),
        project: id("demo"),
        version: 1,
        source: PlanSource::Overseer,
        reason: PlanReason::InitialCreate,
        output: full.then(|| id("P1")),
        folded: full.then(|| (id("P1"), ended)).into_iter().collect(),
        trace: full.then(|| TRACE.to_owned()),
        created: BusTime(1),
        updated: BusTime(2),
    };
    [
        Record::Dispatch(Box::new(dispatch::sample(full))),
        Record::Question(Box::new(question::sample(full))),
        Record::Draft(Box::new(planning::sample(full, node(full)))),
        Record::Crystallization(Box::new(crystallization::sample(full))),
        Record::Schedule(Box::new(schedule::sample(full))),
        Record::Graph(Box::new(conversation::graph(full))),
        Record::Note(Box::new(conversation::note())),
        Record::Turn(Box::new(conversation::turn(full))),
        Record::Reservation(Box::new(reservation::sample(full))),
        Record::Change(Box::new(change::sample(full))),
        Record::Planning(Box::new(planner::sample(full, goal.clone()))),
        Record::Goal(Box::new(goal)),
        Record::GoalState(Box::new(state)),
        Record::Plan(Box::new(plan)),
        Record::QueuedSpawn(Box::new(super::requests::spawns::queued_spawn(full))),
        Record::Assignment(Box::new(dispatch::assignment(full))),
    ]
}

fn served() -> Served {
    Served {
        provider: "openai".to_owned(),
        base_url: "http://localhost:1/v1".to_owned(),
        key_from: "env:KEY".to_owned(),
        max_output_tokens: Some(9),
        context_tokens: Some(99),
    }
}
