//! Conversations: a turn that an agent works for and one that waits, a graph of two versions, and what is asked
//! and told of them.

use serde_json::json;
use tetrarch_core::agent::Mode;
use tetrarch_core::conversation::lane::TurnLane;
use tetrarch_core::conversation::{Turn, TurnDue, TurnId, TurnMove, TurnStatus};
use tetrarch_core::graph::{Delegation, Doing, GraphRecord, GraphVersion, Position};
use tetrarch_core::note::ProjectNote;
use tetrarch_core::request::conversations::{ConversationOp, GraphApply, TurnSay};
use tetrarch_core::time::BusTime;

use super::id;

const GRAPH: &str = r#"{"name":"g"}"#;

fn turn_id() -> TurnId {
    TurnId { human: id("ada"), conversation: id("site"), number: 3 }
}

fn position() -> Position {
    let values = json!({"intent": "work", "confidence": 0.5, "context": {"text": "\u{1F600}"}});
    Position { at: id("delegation"), stuck: true, values: values.as_object().cloned().unwrap() }
}

pub(super) fn turn(full: bool) -> Turn {
    Turn {
        id: turn_id(),
        lane: if full { TurnLane::Background } else { TurnLane::Conversation },
        project: id("demo"),
        graph: id("g"),
        version: u32::from(full),
        text: "do it".to_owned(),
        schedule: full.then(|| id("sch_~")),
        tell: full.then(|| id("bob")),
        channel: full.then(|| id("phone")),
        mode: full.then_some(Mode::Tight),
        kept_mode: full.then_some(Mode::Solo),
        trace: full.then(|| "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
        status: if full { TurnStatus::Running } else { TurnStatus::Queued },
        moved: u64::from(full),
        position: full.then(position),
        epic: full.then(|| id("goal_~")),
        answer: if full { "done".to_owned() } else { String::new() },
        order: 7,
        working: full,
        outcome: if full { "failure".to_owned() } else { String::new() },
        result: String::new(),
        said: BusTime(1),
        since: BusTime(2),
    }
}

pub(super) fn note() -> ProjectNote {
    let (project, name) = (id("demo"), id("build"));
    let text = "run `make` first\n".to_owned();
    ProjectNote { project, name, text, author: id("W:~"), version: 3, updated: BusTime(9) }
}

pub(super) fn graph(full: bool) -> GraphRecord {
    let version = |version| GraphVersion { version, text: GRAPH.to_owned(), applied: BusTime(4) };
    let versions = if full { vec![version(1), version(2)] } else { vec![version(1)] };
    GraphRecord { project: id("demo"), name: id("g"), versions }
}

pub(in crate::codec::tests) fn due(full: bool) -> TurnDue {
    let said = |text: &str| if full { text.to_owned() } else { String::new() };
    TurnDue {
        turn: turn_id(),
        moved: u64::from(full),
        graph: GRAPH.to_owned(),
        text: "do it".to_owned(),
        said: BusTime(1),
        position: full.then(position),
        outcome: said("success"),
        result: said("7"),
    }
}

pub(in crate::codec::tests) fn ops() -> Vec<ConversationOp> {
    let work = |full: bool| Delegation {
        task: "do it".to_owned(),
        profile: full.then(|| id("coder")),
        domain: full.then(|| id("api")),
        attempts: 3,
        intents: if full { vec!["paint".to_owned()] } else { Vec::new() },
    };
    let doings = [
        Doing::Spawn(work(true)),
        Doing::Spawn(work(false)),
        Doing::Ask("which?".to_owned()),
        Doing::Answer("7".to_owned()),
        Doing::Stuck("no way on".to_owned()),
    ];
    let moved = |(index, doing): (u64, Doing)| {
        ConversationOp::Move(Box::new(TurnMove {
            turn: turn_id(),
            moved: index,
            position: (index > 0).then(position),
            path: vec!["a -> b".to_owned()],
            doing,
        }))
    };
    let say = |full: bool| {
        ConversationOp::Say(TurnSay {
            conversation: id("site"),
            text: "do it".to_owned(),
            lane: if full { TurnLane::Background } else { TurnLane::Conversation },
            project: full.then(|| id("demo")),
            graph: full.then(|| id("g")),
            channel: full.then(|| id("phone")),
            mode: full.then_some(Mode::Tight),
            keeps_mode: full,
        })
    };
    let graph = GraphApply { project: id("demo"), graph: GRAPH.to_owned() };
    let cancel = ConversationOp::Cancel { conversation: id("site"), number: 3 };
    let said = [say(true), say(false), cancel, ConversationOp::Graph(graph)];
    (0..).zip(doings).map(moved).chain(said).collect()
}
