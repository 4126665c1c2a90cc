//! A fleet for the tests: one of everything that a screen shows.

use tetrarch_core::agent::{Mode, Placement, Project};
use tetrarch_core::budget::{Account, Limits, Spend};
use tetrarch_core::burn::Burn;
use tetrarch_core::change::{Action, Change, ChangeStatus, Made};
use tetrarch_core::conversation::lane::TurnLane;
use tetrarch_core::conversation::{Turn, TurnStatus};
use tetrarch_core::goal::{Goal, GoalState, GoalStatus};
use tetrarch_core::id::{
    AgentId, AssignmentId, ChangeId, EpicId, HostName, NodeId, Principal, ProjectName, QuestionId,
    RunId, Ulid,
};
use tetrarch_core::ledger::Record;
use tetrarch_core::liveness::Liveness;
use tetrarch_core::plan::NodeStatus;
use tetrarch_core::question::{Question, QuestionStatus};
use tetrarch_core::run::RunState;
use tetrarch_core::time::BusTime;
use tetrarch_view::fold::RecordFold;
use tetrarch_view::news::{FleetNews, LinkState};

use super::samples::{agent, live, node, node_state, run, run_status, turn, worker};
use crate::input::RosterInput;
use crate::model::RosterModel;

/// When it is.
pub(super) const NOW: BusTime = BusTime(3_661_000);
/// The diff of the change, with something to hide in it.
pub(super) const DIFF: &str = "--- a/src/a.rs\n+++ b/src/a.rs\n@@ -1,2 +1,2 @@\n fn main() {\n-    one();\n+    two(); \x1b[2J\r// \u{202e}evil\n }\n";

pub(super) fn epic() -> EpicId {
    EpicId(Ulid::from_parts(1, 7))
}

pub(super) fn human() -> Principal {
    "human:ada".parse().unwrap()
}

pub(super) fn worker_id(n: u128) -> AgentId {
    AgentId::Worker(Ulid::from_parts(1, n))
}

fn project() -> ProjectName {
    ProjectName::new("demo").unwrap()
}

fn placed() -> Option<Placement> {
    Some(Placement { host: HostName::new("box").unwrap(), host_epoch: 1 })
}

pub(super) fn question() -> Question {
    Question {
        id: QuestionId(Ulid::from_parts(1, 20)),
        agent: worker_id(2),
        run: RunId(Ulid::from_parts(1, 2)),
        epic: epic(),
        node: NodeId::task(1, 1),
        escalates: None,
        to: human(),
        text: "Which of the two formats shall the report have?\nThe first is \x1b[31mred\x1b[0m."
            .to_owned(),
        options: vec!["Markdown".to_owned(), "HTML".to_owned()],
        status: QuestionStatus::Open,
        answer: String::new(),
        answered_by: None,
        asked: BusTime(3_600_000),
        since: BusTime(3_600_000),
    }
}

pub(super) fn change() -> Change {
    let action = Action {
        repository: "/home/ada/site/.git".to_owned(),
        target: "refs/heads/main".to_owned(),
        base: "1".repeat(40),
        head: "2".repeat(40),
        diff: "3".repeat(64),
        files: vec!["src/a.rs".to_owned(), "src/p\u{430}yment.rs".to_owned()],
    };
    Change {
        id: ChangeId(Ulid::from_parts(1, 30)),
        agent: worker_id(5),
        epoch: 1,
        run: RunId(Ulid::from_parts(1, 5)),
        assignment: AssignmentId(Ulid::from_parts(1, 5)),
        epic: epic(),
        node: NodeId::task(1, 4),
        project: Some(project()),
        host: HostName::new("box").unwrap(),
        scope: Vec::new(),
        made: Made {
            action,
            branch: "refs/heads/tetrarch/run".to_owned(),
            additions: 1,
            deletions: 1,
            size: 90,
            salvaged: false,
        },
        to: human(),
        status: ChangeStatus::Proposed,
        reason: String::new(),
        conflicts: Vec::new(),
        needed: 1,
        earlier: Vec::new(),
        approval: None,
        commit: String::new(),
        proposed: BusTime(3_601_000),
        until: BusTime(90_000_000),
        since: BusTime(3_601_000),
    }
}

fn goal() -> [Record; 2] {
    let goal = Goal {
        id: epic(),
        project: project(),
        spec: tetrarch_core::goal::GoalSpec {
            title: "Rebuild the site".to_owned(),
            ..Default::default()
        },
        owner: human(),
        created: BusTime(1_000),
        updated: BusTime(1_000),
    };
    let state = GoalState {
        id: epic(),
        status: GoalStatus::Active,
        percent: 20,
        result: None,
        since: BusTime(1_000),
        priorities: Default::default(),
    };
    [Record::Goal(Box::new(goal)), Record::GoalState(Box::new(state))]
}

fn plan() -> Vec<Record> {
    let names = [
        ("P1", "Build"),
        ("T1.1", "Report"),
        ("T1.2", "世界 translation of every page"),
        ("T1.3", "Links"),
        ("T1.4", "Layout"),
        ("P2", "Ship"),
        ("T2.1", "Release"),
    ];
    let mut records: Vec<Record> = names
        .into_iter()
        .map(|(id, name)| {
            let mut node = node(id, name);
            if id == "T2.1" {
                node.depends_on = vec!["T1.4".parse().unwrap()];
            }
            Record::Node(epic(), Box::new(node))
        })
        .collect();
    let states = [
        ("T1.1", NodeStatus::InProgress, Some(2)),
        ("T1.2", NodeStatus::InProgress, Some(3)),
        ("T1.3", NodeStatus::InProgress, Some(4)),
        ("T1.4", NodeStatus::Done, None),
        ("T2.1", NodeStatus::Todo, None),
    ];
    records.extend(states.into_iter().map(|(id, status, who)| {
        let mut state = node_state(id, status);
        state.assignee = who.map(worker_id);
        state.attempts = u32::from(status != NodeStatus::Todo);
        Record::NodeState(epic(), Box::new(state))
    }));
    records
}

/// A turn that the fleet works for.
fn said() -> Turn {
    let said = turn(TurnLane::Conversation, TurnStatus::Running, None);
    Turn { text: "rebuild\x1b[2J\nthe 世界 site".to_owned(), answer: String::new(), ..said }
}

/// All records: an orchestrator with four workers, of whom one waits, one spends, one is lost and one has ended.
pub(super) fn fold() -> RecordFold {
    let mut records: Vec<Record> = goal().into();
    records.extend(plan());
    let project = Project {
        name: project(),
        mode: Mode::Orchestrator,
        created_by: human(),
        created: BusTime(0),
        retired: false,
        fencing: 0,
    };
    records.push(Record::Project(project));
    let mut agents = vec![
        agent("GO", None, Liveness::Active),
        agent("HO@box", Some("GO"), Liveness::Active),
        agent("PO-demo", Some("GO"), Liveness::Active),
        worker(2, 1, Liveness::Active),
        worker(3, 2, Liveness::Active),
        worker(4, 3, Liveness::Stale),
        worker(5, 4, Liveness::Terminated),
    ];
    for agent in agents.iter_mut().filter(|agent| agent.work.is_some()) {
        agent.placement = placed();
        agent.account = Account::of(Limits { tokens: Some(200_000), ..Limits::default() });
        agent.account.used = Spend { tokens: 10_000, ..Spend::default() };
        agent.created = BusTime(3_000_000);
    }
    agents[3].label = "writes \x1b[2J the report".to_owned();
    records.extend(agents.into_iter().map(|agent| Record::Agent(Box::new(agent))));
    for (n, state) in [
        (2, RunState::AwaitingInput),
        (3, RunState::Running),
        (4, RunState::Running),
        (5, RunState::Done),
    ] {
        let mut status = run_status(n, state);
        status.usage.tokens_in = 12_000 * u64::try_from(n).unwrap();
        status.usage.tokens_out = 900;
        status.usage.cost_micro = 120_000;
        records.push(Record::RunStatus(Box::new(status)));
        let mut run = run(n, "gpt-5-mini");
        run.node = NodeId::task(1, u32::try_from(n).unwrap() - 1);
        run.brief.success_criteria = vec!["the report names every page".to_owned()];
        records.push(Record::Run(Box::new(run)));
    }
    records.push(Record::Turn(Box::new(said())));
    records.push(Record::Question(Box::new(question())));
    records.push(Record::Change(Box::new(change())));
    let mut fold = RecordFold::default();
    fold.add(records.into_iter().map(|record| (record, 1)));
    fold
}

/// A roster of so many columns and lines that shows the fleet.
pub(super) fn model(columns: u16, lines: u16) -> RosterModel {
    let model = RosterModel::new(human(), true, (columns, lines), BusTime(0));
    let mut burning = live(3, 400_000);
    (burning.tokens_out, burning.cost_micro) = (40_000, 3_000_000);
    (burning.tool, burning.words) =
        ("grep".to_owned(), "世界 \x1b[2Jsearching for links".to_owned());
    let minute = NOW.0 / 60_000;
    let amounts =
        (1..=20).map(|part| Spend { tokens: part * 900, cost_micro: part * 30_000, turns: 0 });
    burning.burn = Burn::noted(minute, amounts.rev());
    let inputs = [
        RosterInput::Fleet(FleetNews::Loaded(Box::new(fold()))),
        RosterInput::Fleet(FleetNews::Reported(vec![burning])),
        RosterInput::Fleet(FleetNews::Linked(LinkState::Live)),
        RosterInput::Tick(NOW),
    ];
    inputs.into_iter().fold(model, |model, input| crate::update::update(model, input).0)
}
