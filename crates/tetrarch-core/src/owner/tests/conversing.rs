//! What people say: a turn waits in its lane, is moved once, has a goal worked on, and ends with an answer,
//! whatever dies meanwhile.

use serde_json::{Value, json};

use super::fleet::{Fleet, human, id, po, project, request, success, tasks, wish};
use crate::conversation::lane::TurnLane;
use crate::conversation::{
    Turn, TurnDue, TurnId, TurnMove, TurnStatus, advance, is_by_turn, turn_of,
};
use crate::error::ErrorCode;
use crate::goal::Goal;
use crate::graph::Doing;
use crate::id::{AgentId, ConversationName, EpicId, HumanName, Principal, Ulid};
use crate::ledger::Entry;
use crate::limits::{GRAPHS_MAX, LANE_MAX, TURN_TEXT_BYTES_MAX};
use crate::mail::{MailBody, OpReply};
use crate::request::conversations::{ConversationOp, GraphApply, TurnSay};
use crate::request::{Op, Report};
use crate::role::Role;

pub(super) fn io() -> AgentId {
    id("IO@Shai")
}

/// A fleet whose project has a profile.
pub(super) fn fleet() -> Fleet {
    let mut fleet = Fleet::ready();
    fleet.goal(tasks(1));
    fleet
}

pub(super) fn said(conversation: &str, text: &str) -> TurnSay {
    TurnSay {
        conversation: ConversationName::new(conversation).unwrap(),
        text: text.to_owned(),
        lane: TurnLane::Conversation,
        project: Some(project()),
        graph: None,
        channel: None,
        mode: None,
        keeps_mode: false,
    }
}

pub(super) fn say(fleet: &mut Fleet, said: TurnSay) -> OpReply {
    fleet.op(&human(), Op::Conversation(ConversationOp::Say(said)))
}

pub(super) fn turn<'f>(fleet: &'f Fleet, conversation: &str, number: u64) -> &'f Turn {
    let human = HumanName::new("Shai").unwrap();
    let conversation = ConversationName::new(conversation).unwrap();
    &fleet.records.turns[&TurnId { human, conversation, number }]
}

fn dues(entry: &Entry) -> Vec<TurnDue> {
    let due = |body: &MailBody| {
        if let MailBody::TurnDue(due) = body { Some((**due).clone()) } else { None }
    };
    entry.mail.iter().filter_map(|mail| due(&mail.body)).collect()
}

/// What the orchestrator was told last.
pub(super) fn last_due(fleet: &Fleet) -> TurnDue {
    fleet.ledger.iter().rev().find_map(|entry| dues(entry).pop()).unwrap()
}

/// The orchestrator's session is up and makes the move it was told of last.
pub(super) fn moved(fleet: &mut Fleet) -> OpReply {
    let made = advance(&last_due(fleet));
    make(fleet, made)
}

fn make(fleet: &mut Fleet, made: TurnMove) -> OpReply {
    let op = Op::Conversation(ConversationOp::Move(Box::new(made)));
    fleet.op(&Principal::Agent(io()), op)
}

/// A turn that an agent works for, and its goal.
pub(super) fn delegated(fleet: &mut Fleet) -> EpicId {
    let reply = say(fleet, said("main", "count the files\nall of them"));
    assert_eq!(reply.error, None, "{}", reply.detail);
    fleet.report(&io(), Report::Ready);
    assert_eq!(moved(fleet).error, None);
    turn(fleet, "main", 1).epic.unwrap()
}

pub(super) fn whole(fleet: &mut Fleet, epic: EpicId, text: &str) -> Entry {
    let worker = fleet.worker(epic, "T1.1");
    fleet.end(&worker, success("draft"));
    fleet.report(&po(), Report::Result { run: None, epic: Some(epic), result: success(text) })
}

#[test]
fn turn_is_delegated_and_answered_with_the_result() {
    let mut fleet = fleet();
    let epic = delegated(&mut fleet);
    let goal = &fleet.records.goals[&epic];
    assert_eq!((&goal.owner, goal.spec.title.as_str()), (&human(), "count the files"));
    let objective = &fleet.records.nodes[&epic][&super::fleet::node("T1.1")].objective;
    assert_eq!(objective, "count the files\nall of them");
    assert!(turn(&fleet, "main", 1).working);
    let told = dues(&whole(&mut fleet, epic, "there are 7"));
    assert_eq!((told[0].outcome.as_str(), told[0].result.as_str()), ("success", "there are 7"));
    assert_eq!(moved(&mut fleet).error, None);
    let turn = turn(&fleet, "main", 1);
    assert_eq!((turn.status, turn.answer.as_str()), (TurnStatus::Done, "there are 7"));
    assert_eq!((turn.moved, turn.working), (2, false));
}

#[test]
fn move_is_made_once_and_only_by_its_orchestrator() {
    let mut fleet = fleet();
    delegated(&mut fleet);
    let before = turn(&fleet, "main", 1).clone();
    let again = moved(&mut fleet);
    assert_eq!(again.error, Some(ErrorCode::Conflict), "{}", again.detail);
    assert_eq!(*turn(&fleet, "main", 1), before);
    let op = Op::Conversation(ConversationOp::Move(Box::new(advance(&last_due(&fleet)))));
    for other in [human(), Principal::Agent(po())] {
        assert_eq!(fleet.op(&other, op.clone()).error, Some(ErrorCode::Unauthorized));
    }
}

#[test]
fn refused_goal_is_an_answer_and_no_silence() {
    let mut fleet = Fleet::ready();
    say(&mut fleet, said("main", "count the files"));
    fleet.report(&io(), Report::Ready);
    moved(&mut fleet);
    assert_eq!((last_due(&fleet).outcome.as_str(), last_due(&fleet).moved), ("failure", 1));
    moved(&mut fleet);
    let Turn { answer, outcome, epic, .. } = turn(&fleet, "main", 1);
    assert_eq!(
        (outcome.as_str(), *epic),
        ("failure", None),
        "whoever asked sees that nothing began"
    );
    assert!(
        answer.ends_with("give the project one: `tetrarch profile apply demo <file>`"),
        "{answer}"
    );
    assert!(!answer.contains("in the plan"), "{answer}");
}

#[test]
fn next_session_is_told_what_the_one_before_left() {
    let mut fleet = fleet();
    say(&mut fleet, said("main", "count the files"));
    let told = dues(fleet.ledger.last().unwrap());
    let ready = fleet.report(&io(), Report::Ready);
    assert_eq!(dues(&ready), told, "the same again");
    moved(&mut fleet);
    let epic = turn(&fleet, "main", 1).epic.unwrap();
    fleet.report(&io(), Report::Crashed { cause: "signal 9".to_owned() });
    assert_eq!(fleet.agent(&io()).epoch, 2);
    let ready = fleet.report(&io(), Report::Ready);
    assert_eq!(dues(&ready), [], "an agent works; there is nothing to move");
    whole(&mut fleet, epic, "7");
    let due = last_due(&fleet);
    fleet.report(&io(), Report::Crashed { cause: "signal 9".to_owned() });
    let ready = fleet.report(&io(), Report::Ready);
    assert_eq!(dues(&ready), [due]);
    moved(&mut fleet);
    assert_eq!(turn(&fleet, "main", 1).answer, "7");
}

#[test]
fn turns_of_a_person_run_in_order_and_lanes_do_not_wait() {
    let mut fleet = fleet();
    let epic = delegated(&mut fleet);
    let second = say(&mut fleet, said("main", "second"));
    let third = say(&mut fleet, said("other", "third"));
    let ahead = |reply: &OpReply| {
        let told: Value = serde_json::from_str(reply.data.as_ref().unwrap()).unwrap();
        (told["status"].as_str().unwrap().to_owned(), told["ahead"].as_u64().unwrap())
    };
    assert_eq!(ahead(&second), ("queued".to_owned(), 1));
    assert_eq!(ahead(&third), ("queued".to_owned(), 2));
    let background = TurnSay { lane: TurnLane::Background, ..said("night", "hello") };
    assert_eq!(ahead(&say(&mut fleet, background)), ("running".to_owned(), 0));
    let done = moved(&mut fleet);
    assert_eq!(done.error, None, "{}", done.detail);
    let informed = fleet.ledger.last().unwrap().mail.iter().any(|mail| {
        matches!(&mail.body, MailBody::Info { text } if text.contains("conversation night: Say"))
    });
    assert!(informed, "nobody waits for a background turn, so its person is told");
    let stands = |fleet: &Fleet| {
        [("main", 2), ("other", 1)].map(|(name, number)| turn(fleet, name, number).status)
    };
    assert_eq!(stands(&fleet), [TurnStatus::Queued, TurnStatus::Queued]);
    whole(&mut fleet, epic, "7");
    moved(&mut fleet);
    assert_eq!(stands(&fleet), [TurnStatus::Running, TurnStatus::Queued]);
}

#[test]
fn full_lane_refuses_with_depth_and_limit_and_drops_nothing() {
    let mut fleet = fleet();
    for at in 0..LANE_MAX {
        let reply = say(&mut fleet, said("main", &format!("turn {at}")));
        assert_eq!(reply.error, None, "{at}: {}", reply.detail);
    }
    let full = say(&mut fleet, said("main", "one more"));
    assert_eq!(full.error, Some(ErrorCode::LaneFull));
    let words =
        "lane_full: the lane conversation has 32 turns; the limit is 32; wait until one ends";
    assert_eq!(full.detail, words);
    assert_eq!(fleet.records.turns.len(), LANE_MAX);
    let other = TurnSay { lane: TurnLane::Background, ..said("night", "go") };
    assert_eq!(say(&mut fleet, other).error, None);
}

#[test]
fn what_cannot_be_said_is_refused_with_its_reason() {
    let mut fleet = fleet();
    let most = "x".repeat(TURN_TEXT_BYTES_MAX);
    assert_eq!(say(&mut fleet, said("main", &most)).error, None);
    for (wish, code, expected) in [
        (said("a", &format!("{most}x")), ErrorCode::InvalidRequest, "text: 8193 bytes; the limit"),
        (said("a", " \n"), ErrorCode::InvalidRequest, "text: is empty"),
        (
            said("a", "a\u{1b}[31m"),
            ErrorCode::InvalidRequest,
            "text: holds the control character U+001B",
        ),
        (
            TurnSay { project: None, ..said("a", "x") },
            ErrorCode::InvalidRequest,
            "project: name one",
        ),
        (
            TurnSay { project: Some("none".parse().unwrap()), ..said("a", "x") },
            ErrorCode::NotFound,
            "project none was not found",
        ),
        (
            TurnSay { graph: Some("none".parse().unwrap()), ..said("a", "x") },
            ErrorCode::NotFound,
            "has no graph none",
        ),
        (
            TurnSay { graph: Some("none".parse().unwrap()), ..said("main", "x") },
            ErrorCode::Conflict,
            "conversation main has the graph default",
        ),
    ] {
        let refused = say(&mut fleet, wish);
        assert_eq!(refused.error, Some(code), "{}", refused.detail);
        assert!(refused.detail.contains(expected), "{}", refused.detail);
    }
    let op = Op::Conversation(ConversationOp::Say(said("a", "x")));
    let agent = fleet.op(&Principal::Agent(po()), op);
    assert_eq!(agent.error, Some(ErrorCode::Unauthorized));
    assert_eq!(fleet.records.turns.len(), 1);
}

pub(super) fn apply(fleet: &mut Fleet, graph: &Value) -> OpReply {
    let graph = GraphApply { project: project(), graph: graph.to_string() };
    fleet.op(&human(), Op::Conversation(ConversationOp::Graph(graph)))
}

pub(super) fn asking(name: &str, question: &str) -> Value {
    json!({"name": name, "nodes": [
        {"name": "ask", "entry": {"ask": question}, "edges": [{"to": "end"}]},
        {"name": "end", "entry": {"answer": "you said {result}"}, "terminal": true},
    ]})
}

#[test]
fn asked_person_answers_in_the_same_conversation() {
    let mut fleet = fleet();
    assert_eq!(apply(&mut fleet, &asking("g", "which one?")).version, Some(1));
    let first = TurnSay { graph: Some("g".parse().unwrap()), ..said("main", "begin") };
    say(&mut fleet, first);
    say(&mut fleet, said("main", "then this"));
    fleet.report(&io(), Report::Ready);
    moved(&mut fleet);
    let asked = turn(&fleet, "main", 1);
    assert_eq!((asked.status, asked.answer.as_str()), (TurnStatus::Asking, "which one?"));
    let other = say(&mut fleet, said("other", "hello"));
    assert_eq!(other.error, None, "{}", other.detail);
    assert_eq!(turn(&fleet, "other", 1).status, TurnStatus::Running, "it does not wait");
    assert_eq!(turn(&fleet, "main", 2).status, TurnStatus::Queued, "this does");
    moved(&mut fleet);
    let answered = TurnSay { project: None, ..said("main", "the blue one") };
    assert_eq!(say(&mut fleet, answered).error, None);
    moved(&mut fleet);
    assert_eq!(turn(&fleet, "main", 1).answer, "you said the blue one");
    assert_eq!(turn(&fleet, "main", 2).status, TurnStatus::Running, "it waited for its turn");
}

#[test]
fn conversation_keeps_the_version_of_its_graph() {
    let mut fleet = fleet();
    apply(&mut fleet, &asking("g", "one?"));
    let with = |name: &str| TurnSay { graph: Some("g".parse().unwrap()), ..said(name, "begin") };
    say(&mut fleet, with("old"));
    assert_eq!(apply(&mut fleet, &asking("g", "two?")).version, Some(2));
    assert_eq!(apply(&mut fleet, &asking("g", "two?")).version, Some(2), "the same again");
    assert_eq!(apply(&mut fleet, &asking("g", "three?")).version, Some(3));
    let record = &fleet.records.graphs[&(project(), "g".parse().unwrap())];
    let kept: Vec<u32> = record.versions.iter().map(|it| it.version).collect();
    assert_eq!(kept, [1, 3], "2 was followed by nobody");
    say(&mut fleet, with("new"));
    assert_eq!((turn(&fleet, "old", 1).version, turn(&fleet, "new", 1).version), (1, 3));
    fleet.report(&io(), Report::Ready);
    moved(&mut fleet);
    assert_eq!(turn(&fleet, "old", 1).answer, "one?");
}

#[test]
fn wrong_graph_is_not_applied() {
    let mut fleet = fleet();
    let cycle = json!({"name": "g", "nodes": [{"name": "a", "edges": [{"to": "a"}]}]});
    let refused = apply(&mut fleet, &cycle);
    assert_eq!(refused.error, Some(ErrorCode::InvalidRequest));
    assert!(refused.detail.contains("has the cycle a -> a"), "{}", refused.detail);
    let unknown = json!({"name": "g", "nodes": [
        {"name": "a", "entry": {"spawn": {"profile": "none"}}, "terminal": true}]});
    let refused = apply(&mut fleet, &unknown);
    assert!(
        refused.detail.contains("node a: project demo has no profile none"),
        "{}",
        refused.detail
    );
    for at in 0..GRAPHS_MAX {
        assert_eq!(apply(&mut fleet, &asking(&format!("g{at}"), "x")).error, None);
    }
    assert_eq!(apply(&mut fleet, &asking("more", "x")).error, Some(ErrorCode::Conflict));
    assert_eq!(apply(&mut fleet, &asking("g0", "y")).version, Some(2));
}

#[test]
fn stuck_turn_fails_and_the_next_begins() {
    let mut fleet = fleet();
    let stuck = json!({"name": "g", "nodes": [
        {"name": "a", "edges": [{"to": "b", "guard": "false"}]}, {"name": "b", "terminal": true}]});
    apply(&mut fleet, &stuck);
    say(&mut fleet, TurnSay { graph: Some("g".parse().unwrap()), ..said("main", "one") });
    say(&mut fleet, said("main", "two"));
    fleet.report(&io(), Report::Ready);
    moved(&mut fleet);
    let failed = turn(&fleet, "main", 1);
    assert_eq!(failed.status, TurnStatus::Failed);
    assert_eq!(failed.answer, "no guard of node a was true");
    assert_eq!(turn(&fleet, "main", 2).status, TurnStatus::Running);
}

#[test]
fn interaction_orchestrator_executes_nothing() {
    let mut fleet = fleet();
    let epic = delegated(&mut fleet);
    assert_eq!(fleet.agent(&io()).tools, crate::brief::Tools::default(), "it has no tool");
    let refused = fleet.spawn(&io(), request(epic, "T1.1", vec![wish(Role::Worker)]));
    assert!(!refused.accepted(), "{refused:?}");
    let tool = json!({"name": "g", "nodes": [
        {"name": "a", "entry": {"tool": "shell"}, "terminal": true}]});
    let refused = apply(&mut fleet, &tool);
    assert!(
        refused.detail.contains("an interaction orchestrator executes nothing"),
        "{}",
        refused.detail
    );
}

#[test]
fn orchestrator_cannot_move_the_turn_of_another_person() {
    let mut fleet = fleet();
    delegated(&mut fleet);
    let mut made = advance(&last_due(&fleet));
    made.turn.human = HumanName::new("Eve").unwrap();
    made.doing = Doing::Answer("stolen".to_owned());
    assert_eq!(make(&mut fleet, made).error, Some(ErrorCode::Unauthorized));
}

#[test]
fn goal_of_a_turn_names_it_and_its_channel_as_its_origin() {
    for channel in [None, Some("phone")] {
        let mut fleet = fleet();
        let channel = channel.map(|name| name.parse().unwrap());
        let say_so = TurnSay { channel: channel.clone(), ..said("main", "count the files") };
        say(&mut fleet, say_so);
        fleet.report(&io(), Report::Ready);
        assert_eq!(moved(&mut fleet).error, None);
        let told = turn(&fleet, "main", 1).clone();
        assert_eq!(told.channel, channel);
        let goal = &fleet.records.goals[&told.epic.unwrap()];
        assert_eq!(turn_of(goal), Some(told.id));
        assert!(is_by_turn(goal));
        let by_hand = Goal { id: EpicId(Ulid::from_parts(told.said.0, 7)), ..goal.clone() };
        assert!(!is_by_turn(&by_hand), "a person gave it from the turn");
        let named = goal.spec.origin.iter().find(|(key, _)| key == "channel");
        assert_eq!(named.map(|(_, name)| name.parse().unwrap()), channel);
    }
    for text in
        ["", "turn 1", "turn x of ada's conversation main", "turn 1 of a b's conversation c"]
    {
        assert!(text.parse::<TurnId>().is_err(), "{text}");
    }
}
