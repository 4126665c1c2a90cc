//! Requests, operations and reports: what is accepted, and what is said of the rest.

mod gates;
mod goals;
mod repeats;
pub(in crate::codec::tests) mod spawns;
mod together;

use async_nats::HeaderMap;
use serde_json::{Value, json};
use tetrarch_core::agent::Mode;
use tetrarch_core::brief::Tools;
use tetrarch_core::budget::{Counter, Limits, Spend};
use tetrarch_core::limits::REQUEST_BYTES_MAX;
use tetrarch_core::mail::receipt::{About, SetAside};
use tetrarch_core::overseer::Telemetry;
use tetrarch_core::plan::PlacementWish;
use tetrarch_core::request::verbs::VerbOp;
use tetrarch_core::request::{
    BudgetOp, FileOp, HostDrain, HostJoin, MalformedKind, NoteOp, Op, Page, ProjectCreate, Report,
    Request, RequestBody, TaskWish,
};
use tetrarch_core::run::RunEvent;
use tetrarch_core::time::{BusTime, Millis};
use tetrarch_core::verb::{Stage, Verb, Wanted};

pub(super) use spawns::spawn_request;

use super::samples::planning;
use super::samples::{U, blocker, id, limits, placement, profile, result, usage, words};
use crate::codec::*;
use crate::subject::{OpName, Subject};

pub(super) fn ops() -> Vec<Op> {
    let join = HostJoin {
        instance: "i".to_owned(),
        lease_epoch: 3,
        labels: placement().labels,
        capacity: 8,
        address: "a".to_owned(),
    };
    let create = ProjectCreate {
        project: id("demo"),
        mode: Mode::Solo,
        external: true,
        tools: Tools::every(),
        budget: limits(),
        local_max_depth: Some(2),
        placement: placement(),
    };
    let least = ProjectCreate {
        external: false,
        tools: Tools::default(),
        budget: Limits::default(),
        local_max_depth: None,
        placement: PlacementWish::default(),
        ..create.clone()
    };
    let mut ops = vec![
        Op::HostJoin(join),
        Op::HumanJoin { human: id("ada") },
        Op::ProjectCreate(create),
        Op::ProjectCreate(least),
        Op::ProjectMode { project: id("demo"), mode: Mode::Tight },
        Op::ProjectRetire { project: id("demo") },
        Op::ProfileApply { project: id("demo"), profile: Box::new(profile()) },
        Op::AgentRegister,
        Op::HostDrain(HostDrain { host: id("box"), undo: true, reason: "new disks".to_owned() }),
        Op::CircuitClose { agent: id("PO-a") },
        Op::Budget(BudgetOp::Raise {
            agent: id("W:~"),
            more: Spend { tokens: 5, cost_micro: 6, turns: 0 },
            reason: "r".to_owned(),
        }),
        Op::AgentRetire { agent: id("W:~"), reason: "r".to_owned() },
        Op::AgentReplace {
            agent: id("W:~"),
            session: id("~"),
            give_up: true,
            reason: "r".to_owned(),
        },
        Op::AgentReplace {
            agent: id("PO-a"),
            session: id("~"),
            give_up: false,
            reason: String::new(),
        },
        Op::AgentRotate { agent: id("W:~"), reason: "r".to_owned() },
        Op::AgentStatus { agent: id("W:~") },
        Op::QuestionAnswer { question: id("qst_~"), text: "B".to_owned() },
        Op::OverseerTick(Telemetry::default()),
        planning::added(true),
        planning::added(false),
        planning::split(true),
        planning::split(false),
        planning::merged(true),
        planning::merged(false),
        planning::decided(),
        Op::File(FileOp::Reserve {
            paths: words("src/**"),
            mode: tetrarch_core::reservation::Mode::Shared,
            ttl: Some(Millis(90_000)),
            reason: "r".to_owned(),
        }),
        Op::File(FileOp::Release { reservation: id("rsv_~") }),
        Op::File(FileOp::List { project: Some(id("demo")), page: Page::default() }),
        Op::File(FileOp::List {
            project: None,
            page: Page { limit: Some(5), after: Some(id("rsv_01JD8Z5W6T4QK3M9X2V7B1N0AC")) },
        }),
        Op::Note(NoteOp::Put {
            project: Some(id("demo")),
            name: id("build"),
            text: "t".to_owned(),
            expect_version: Some(0),
        }),
        Op::Note(NoteOp::Delete { project: None, name: id("build") }),
        Op::Note(NoteOp::Search {
            project: None,
            words: "a b".to_owned(),
            page: Page { limit: Some(5), after: Some(id("build")) },
        }),
        Op::WorkBlock { epic: id("goal_~"), node: id("T1.2"), blocker: blocker() },
    ];
    ops.extend(goals::ops().chain(gates::ops()));
    ops.extend(super::samples::conversation::ops().into_iter().map(Op::Conversation));
    let verbs = [
        Wanted::Steer { text: "t".to_owned() },
        Wanted::Interrupt { reason: "r".to_owned() },
        Wanted::Pause,
        Wanted::Resume,
    ];
    ops.extend(verbs.map(|wanted| Op::Verb(VerbOp { agent: id("W:~"), wanted })));
    ops
}

fn reports() -> Vec<Report> {
    let cause = || "exit 1".to_owned();
    let run_event =
        |event| Report::Run { run: id("run_~"), event, reason: "r".to_owned(), usage: usage() };
    let mut reports = vec![
        Report::Ready,
        Report::Gone { cause: cause() },
        Report::Crashed { cause: cause() },
        Report::Result { run: Some(id("run_~")), epic: None, result: result() },
        Report::Result { run: None, epic: Some(id("goal_~")), result: result() },
        Report::Ask {
            run: id("run_~"),
            id: Some(id("qst_~")),
            question: "q".to_owned(),
            options: words("a b"),
        },
        Report::Ask { run: id("run_~"), id: None, question: "q".to_owned(), options: Vec::new() },
        Report::Consumed { run: id("run_~"), dispatch: id("dsp_~") },
        Report::Update {
            run: id("run_~"),
            dispatch: Some(id("dsp_~")),
            update: "{}".to_owned(),
            expected: Some(BusTime(7)),
        },
        Report::Update {
            run: id("run_~"),
            dispatch: None,
            update: "done".to_owned(),
            expected: None,
        },
        Report::Verb {
            run: id("run_~"),
            id: id("~"),
            verb: Verb::Pause,
            stage: Stage::Refused,
            why: "r".to_owned(),
        },
        Report::SetAside(SetAside {
            of: About { seq: 7, message: "PO-demo.1.m".to_owned(), topic: "info".to_owned() },
            from: id("PO-demo"),
            via: Some(id("h1")),
            reason: "no JSON".to_owned(),
        }),
        Report::SetAside(SetAside {
            of: About { seq: u64::MAX, message: String::new(), topic: String::new() },
            from: id("human:ada"),
            via: None,
            reason: String::new(),
        }),
        Report::Draw { run: id("run_~"), total: Spend { tokens: 1, cost_micro: 2, turns: 3 } },
        Report::BudgetWarning { run: id("run_~"), counter: Counter::Turns, used: 8, limit: 10 },
        Report::SponsorSilent { request: id("~"), sponsor: id("PO-demo") },
    ];
    reports.extend(gates::reports());
    reports.extend(RunEvent::ALL.map(run_event));
    reports
}

pub(super) fn decode(subject: &str, payload: &[u8]) -> Request {
    decode_request(&id(subject), &HeaderMap::new(), payload, 9).unwrap()
}

pub(super) fn decode_json(subject: &str, body: &Value) -> Request {
    decode(subject, body.to_string().as_bytes())
}

/// What is said of a body that cannot be read.
pub(super) fn complaint(subject: &str, body: &Value) -> String {
    let read = decode_json(subject, body).body;
    let RequestBody::Malformed { error, .. } = read else { panic!("{body} was accepted") };
    error
}

const SPAWN: &str = "spawn.request.goal_~.S1_2_3.PO-demo";

#[test]
fn requests_round_trip() {
    for full in [true, false] {
        let wanted = spawn_request(full);
        let bytes = encode_spawn_request(&wanted, id("~")).unwrap();
        let subject = if full { SPAWN } else { "spawn.request.goal_~.-.PO-demo" };
        let request = decode(subject, &bytes);
        assert_eq!((request.id, request.seq), (id("~"), 9));
        assert_eq!(request.body, RequestBody::Spawn(wanted.clone()));
        let (given, read) = decode_spawn_body(&bytes, wanted.epic, wanted.node).unwrap();
        assert_eq!((given, read), (Some(id("~")), wanted));
    }
    for op in ops() {
        let bytes = encode_op(&op, id("~")).unwrap();
        let request = decode(&format!("op.{}.human:ada", OpName::of(&op)), &bytes);
        assert_eq!(request.body, RequestBody::Op(op));
    }
    for report in reports() {
        let bytes = encode_report(&report, id("~")).unwrap();
        let request = decode("report.W:~.h1", &bytes);
        assert_eq!(request.body, RequestBody::Report(report));
        assert_eq!(request.sender.via, Some(id("h1")));
    }
}

#[test]
fn goal_keeps_its_plan_verbatim() {
    let plan = json!({"goal": {"title": "t"}, "phases": [
        {"id": "P1", "name": "p", "tasks": [{"id": "T1.1", "name": "n", "acceptance": ["a"]}]}]});
    let bytes = encode_goal_create(id("~"), &id("demo"), &plan).unwrap();
    let request = decode("op.goal.create.human:ada", &bytes);
    let RequestBody::Op(op) = request.body else { panic!("{:?}", request.body) };
    let Op::GoalCreate { project, plan: read } = &op else { panic!("{op:?}") };
    assert_eq!((project, read.goal.title.as_str()), (&id("demo"), "t"));
    assert!(encode_op(&op, id("~")).is_err(), "the author's words are gone");
    let bad = json!({"requestId": U, "project": "demo", "plan": {"phasen": []}});
    let error = complaint("op.goal.create.human:ada", &bad);
    assert!(error.starts_with("plan:") && error.contains("phasen"), "{error}");
    let none = json!({"requestId": U, "project": "demo"});
    assert_eq!(complaint("op.goal.create.human:ada", &none), "plan is missing");
}

#[test]
fn both_name_spellings_and_number_forms_are_accepted() {
    let camel = json!({"requestId": U, "spawnReason": "r", "callerDepth": 1, "ackRequired": false,
        "requestedSubagents": [{"role": "worker", "task": "t", "localMaxDepth": 3,
            "budget": {"tokens": "100", "costUsd": 1.5, "wall": "1h30m"}}]});
    let snake = json!({"request_id": U, "spawn_reason": "r", "caller_depth": "1",
        "ack_required": false, "parent": null,
        "requested_subagents": [{"role": "W", "task": "t", "local_max_depth": 3,
            "budget": {"tokens": 100, "cost_micro": 1_500_000, "wall_s": 5400}}]});
    let (camel, snake) = (decode_json(SPAWN, &camel), decode_json(SPAWN, &snake));
    assert_eq!(camel.body, snake.body);
    let RequestBody::Spawn(request) = camel.body else { panic!("{:?}", camel.body) };
    let wish = &request.subagents[0];
    let budget = Limits { tokens: Some(100), cost_micro: Some(1_500_000), turns: None };
    assert_eq!((wish.budget, wish.wall), (budget, Some(Millis(5_400_000))));
}

#[test]
fn empty_tools_and_absent_tools_are_distinguished() {
    let tools = |wish: Value| {
        let body = json!({"requestId": U, "requestedSubagents": [wish]});
        let read = decode_json(SPAWN, &body).body;
        let RequestBody::Spawn(request) = read else { panic!("{read:?}") };
        request.subagents[0].tools.clone()
    };
    let some: Option<Tools> = Some(["a"].into_iter().collect());
    assert_eq!(tools(json!({"role": "worker", "task": "t"})), None);
    assert_eq!(tools(json!({"role": "worker", "task": "t", "tools": null})), None);
    assert_eq!(tools(json!({"role": "worker", "task": "t", "tools": []})), Some(Tools::default()));
    assert_eq!(tools(json!({"role": "worker", "task": "t", "tools": ["a"]})), some);
    assert_eq!(tools(json!({"role": "worker", "brief": {"goal": "g", "tools": ["a"]}})), some);
}

#[test]
fn brief_may_carry_grant_and_schema() {
    let body = json!({"requestId": U, "requestedSubagents": [{"role": "worker", "brief": {
        "goal": "g", "expectedOutput": {"type": "object"}, "budget": {"turns": 3}, "runner": "llm",
        "turnTimeout": "2m", "worktree": "isolated"}}]});
    let RequestBody::Spawn(request) = decode_json(SPAWN, &body).body else { panic!("{body}") };
    let wish = &request.subagents[0];
    assert_eq!((wish.budget.turns, wish.profile.clone()), (Some(3), Some(id("llm"))));
    let TaskWish::Brief(brief) = &wish.task else { panic!("{wish:?}") };
    assert_eq!(brief.output_schema.as_deref(), Some(r#"{"type":"object"}"#));
    assert_eq!(
        (brief.turn_timeout, brief.worktree),
        (Some(Millis(120_000)), Some(tetrarch_core::brief::Worktree::Isolated))
    );
}

#[test]
fn invalid_field_is_named_by_path() {
    let of = |wish: Value| complaint(SPAWN, &json!({"requestId": U, "requestedSubagents": [wish]}));
    let cases = [
        (
            json!({"role": "worker", "task": "t", "budgt": {}}),
            "unknown field requestedSubagents[0].budgt",
        ),
        (
            json!({"role": "worker", "task": "t", "budget": {"coins": 1}}),
            "unknown field requestedSubagents[0].budget.coins",
        ),
        (
            json!({"role": "coder", "task": "t"}),
            "requestedSubagents[0].role: unknown word \"coder\"",
        ),
        (json!({"role": "worker"}), "requestedSubagents[0].task: is missing"),
        (json!({"task": "t"}), "requestedSubagents[0].role is missing"),
        (json!({"role": "worker", "task": 7}), "requestedSubagents[0].task: expected text"),
        (
            json!({"role": "worker", "task": "t", "tools": "a"}),
            "requestedSubagents[0].tools: expected a list",
        ),
        (
            json!({"role": "worker", "task": "t", "localMaxDepth": -1}),
            "requestedSubagents[0].localMaxDepth: expected a whole",
        ),
        (
            json!({"role": "worker", "task": "t", "localMaxDepth": 256}),
            "requestedSubagents[0].localMaxDepth: 256 is more",
        ),
        (
            json!({"role": "worker", "task": "t", "budget": {"costUsd": -1}}),
            "requestedSubagents[0].budget.costUsd: -1",
        ),
        (
            json!({"role": "worker", "task": "t", "budget": {"wall": "soon"}}),
            "requestedSubagents[0].budget.wall: \"soon\"",
        ),
        (
            json!({"role": "worker", "task": "t", "budget": {"wall": "1s", "wallS": 1}}),
            "requestedSubagents[0].budget.wall: is given more than once",
        ),
        (
            json!({"role": "worker", "task": "t", "placement": {"labels": {"a": 1}}}),
            "requestedSubagents[0].placement.labels: expected an object of texts",
        ),
        (
            json!({"role": "worker", "task": "t", "brief": {}}),
            "requestedSubagents[0].task: a brief is also given",
        ),
    ];
    for (wish, expected) in cases {
        let error = of(wish.clone());
        assert!(error.starts_with(expected), "{wish}: {error}");
    }
    let list = json!({"requestId": U, "requestedSubagents": {}});
    assert!(complaint(SPAWN, &list).starts_with("requestedSubagents: expected a list"));
    let other = json!({"requestId": U, "node": "T1.1", "requestedSubagents": []});
    assert!(complaint(SPAWN, &other).starts_with("node: the subject names S1.2.3"));
    let kind = json!({"requestId": U, "kind": "rumour"});
    assert!(complaint("report.GO", &kind).contains("sponsor_silent"));
    let unknown = complaint("op.brand.new.GO", &json!({"requestId": U}));
    assert!(unknown.contains("brand.new"), "{unknown}");
}

#[test]
fn request_needs_one_id_and_one_sender() {
    let error = complaint(SPAWN, &json!({"requestedSubagents": []}));
    assert_eq!(error, "requestId is missing");
    let bad = decode_json(SPAWN, &json!({"requestId": "7"}));
    let again = decode_json(SPAWN, &json!({"requestId": "7"}));
    assert_eq!(bad.id, again.id, "derived from its place");
    assert_eq!(bad.given_id(), None, "and told to nobody");
    assert!(matches!(bad.body, RequestBody::Malformed { kind: MalformedKind::Spawn, .. }));
    let claim = |sender: &str| json!({"requestId": U, "sender": sender, "kind": "ready"});
    assert!(
        complaint("report.PO-demo", &claim("GO")).starts_with("sender: the subject names PO-demo")
    );
    let own = decode_json("report.PO-demo", &claim("PO-demo"));
    assert_eq!(own.body, RequestBody::Report(Report::Ready));
}

#[test]
fn foreign_message_differs_from_a_bad_request() {
    let mail: Subject = "mail.GO.human:ada".parse().unwrap();
    let got = decode_request(&mail, &HeaderMap::new(), b"{}", 1);
    assert!(matches!(got, Err(CodecError::WrongSubject { .. })), "{got:?}");
    let large = decode(SPAWN, &vec![b' '; REQUEST_BYTES_MAX + 1]);
    let RequestBody::Malformed { error, .. } = large.body else { panic!("accepted") };
    assert!(error.contains("the limit is"), "{error}");
    let mut headers = HeaderMap::new();
    headers.insert(crate::envelope::EPOCH, "x");
    let body = json!({"requestId": U, "kind": "ready"}).to_string();
    let got = decode_request(&id("report.GO"), &headers, body.as_bytes(), 1).unwrap();
    let RequestBody::Malformed { error, .. } = got.body else { panic!("accepted") };
    assert!(error.contains("Tetrarch-Epoch"), "{error}");
}

#[test]
fn misaddressed_request_with_readable_sender_is_answerable() {
    let body = json!({"requestId": U}).to_string();
    let at = |subject: &str| decode_request_at(subject, &HeaderMap::new(), body.as_bytes(), 3);
    let request = at("spawn.request.epic-1.-.PO-demo").unwrap();
    assert_eq!((request.sender.from, request.id), (id("PO-demo"), id("~")));
    let RequestBody::Malformed { kind, error, .. } = request.body else { panic!("accepted") };
    assert_eq!(kind, MalformedKind::Spawn);
    assert!(error.contains("epic-1"), "{error}");
    assert!(at("spawn.request.epic-1.-.nobody").is_err());
    assert!(matches!(at("report.GO").unwrap().body, RequestBody::Malformed { .. }));
}
