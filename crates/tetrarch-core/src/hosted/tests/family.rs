//! Waits of a program for the agents below it, and artifacts that it hands over and reads.

use super::*;
use crate::brief::NodeInput;
use crate::limits::{ARTIFACT_PIECE_BYTES, WAITS_MAX};
use crate::mail::{OpReply, ResultReady, Spawned};

fn id(place: u128) -> RequestId {
    RequestId(Ulid(place))
}

fn child(place: u128) -> AgentId {
    AgentId::Worker(Ulid(place))
}

/// What it answers to requests of its program: which, and the body.
fn answers(effects: &[SessionEffect]) -> Vec<(RequestId, serde_json::Value)> {
    let answer = |effect: &SessionEffect| {
        let SessionEffect::Order(order) = effect else { return None };
        let Order::Deliver { line, .. } = &**order else { return None };
        let Inbound::Mail { topic, body, answers, .. } = line else { return None };
        let answers = answers.filter(|_| topic == REPLY)?;
        Some((answers, serde_json::from_str(body).unwrap()))
    };
    effects.iter().filter_map(answer).collect()
}

fn operate(op: &str, number: u128, body: &str) -> SessionInput {
    let (op, body) = (op.to_owned(), body.to_owned());
    SessionInput::Runner(RunnerEvent::Operate { id: Some(id(number)), op, body })
}

fn asks_for_agents(hosted: &mut HostedSession, request: u128) {
    hosted.step(NOW, SessionInput::SpawnRead(Ok((Some(id(request)), wanted()))));
}

fn admitted(request: u128, children: &[u128]) -> SessionInput {
    let spawned = children.iter().map(|place| Spawned {
        agent: child(*place),
        session: SessionId(Ulid(9)),
        epoch: 1,
        depth: 3,
        node: "T1.1".parse().unwrap(),
        host: "h".parse().unwrap(),
    });
    letter(MailBody::SpawnAnswer(SpawnAnswer {
        request: Some(id(request)),
        spawned: spawned.collect(),
        ..SpawnAnswer::default()
    }))
}

fn came_to(place: u128) -> SessionInput {
    letter(MailBody::ResultReady(Box::new(ResultReady {
        agent: child(place),
        node: "T1.1".parse().unwrap(),
        run: RunId(Ulid(8)),
        result: *success(),
        verdict: None,
    })))
}

#[test]
fn wait_for_all_ends_when_each_has_ended_and_none_is_asked_for() {
    let mut hosted = running(worker());
    let none = hosted.step(NOW, operate("agent.wait", 1, "{}"));
    assert_eq!(answers(&none)[0].1["detail"], "you have asked for no agents");
    asks_for_agents(&mut hosted, 20);
    assert_eq!(answers(&hosted.step(NOW, operate("agent.wait", 2, "{}"))), [], "nobody knows yet");
    assert_eq!(answers(&hosted.step(NOW, admitted(20, &[5, 6]))), []);
    assert_eq!(answers(&hosted.step(NOW, came_to(5))), []);
    let over = MailBody::AgentCompleted {
        agent: child(6),
        session: SessionId(Ulid(9)),
        reason: "it was stopped".to_owned(),
    };
    let answered = answers(&hosted.step(NOW, letter(over)));
    let [(request, body)] = answered.as_slice() else { panic!("{answered:?}") };
    assert_eq!(*request, id(2));
    let told: serde_json::Value = serde_json::from_str(body["data"].as_str().unwrap()).unwrap();
    assert_eq!((&told[0]["outcome"], &told[0]["deliverable"]), (&"success".into(), &"42".into()));
    assert_eq!((&told[1]["state"], &told[1]["error"]), (&"ended".into(), &"it was stopped".into()));
}

#[test]
fn wait_for_one_ends_with_it_or_with_its_time() {
    let mut hosted = running(worker());
    asks_for_agents(&mut hosted, 20);
    hosted.step(NOW, admitted(20, &[5, 6]));
    let body = |place: u128| format!(r#"{{"agent":"{}","seconds":3}}"#, child(place));
    for (number, place) in [(1, 5), (2, 6)] {
        let waits = hosted.step(NOW, operate("agent.wait", number, &body(place)));
        assert_eq!(answers(&waits), []);
    }
    assert_eq!(answers(&hosted.step(NOW, came_to(5)))[0].0, id(1));
    let due = NOW + Millis(3_000);
    assert_eq!(hosted.next_deadline(), Some(due));
    assert_eq!(answers(&hosted.step(BusTime(due.0 - 1), SessionInput::Tick)), []);
    let late = answers(&hosted.step(due, SessionInput::Tick));
    assert_eq!((late[0].0, &late[0].1["detail"]), (id(2), &"0 of 1 ended".into()));
    assert!(late[0].1["data"].as_str().unwrap().contains("working"), "{late:?}");
}

#[test]
fn wait_that_cannot_be_made_is_refused_with_what_is_wrong() {
    let mut hosted = running(worker());
    let stranger = format!(r#"{{"agent":"{}"}}"#, child(7));
    for (body, error, words) in [
        (stranger.as_str(), ErrorCode::NotFound, "is none of yours"),
        (r#"{"seconds":0}"#, ErrorCode::InvalidRequest, "1 to 3600"),
        (r#"{"agents":[]}"#, ErrorCode::InvalidRequest, "agents: is an unknown key"),
    ] {
        let answered = answers(&hosted.step(NOW, operate("agent.wait", 1, body)));
        assert_eq!(answered[0].1["error"], error.to_string(), "{body}");
        assert!(answered[0].1["detail"].as_str().unwrap().contains(words), "{answered:?}");
    }
    asks_for_agents(&mut hosted, 20);
    for number in 0..WAITS_MAX {
        let number = u128::try_from(number).unwrap();
        assert_eq!(answers(&hosted.step(NOW, operate("agent.wait", number, "{}"))), []);
    }
    let refused = answers(&hosted.step(NOW, operate("agent.wait", 99, "{}")));
    assert_eq!(refused[0].1["error"], ErrorCode::Unavailable.to_string());
}

fn hand_over(number: u128, name: &str) -> SessionInput {
    let (name, path, media_type) = (name.to_owned(), format!("/w/{name}"), "text/csv".to_owned());
    let file = LocalFile { name, path, media_type };
    SessionInput::Runner(RunnerEvent::HandOver { id: id(number), file })
}

fn kept(name: &str, digit: &str) -> Artifact {
    let (name, media_type) = (name.to_owned(), "text/csv".to_owned());
    Artifact { name, sha256: digit.repeat(64), size: 3, media_type }
}

#[test]
fn file_handed_over_is_stored_at_once_and_told_with_the_result() {
    let mut hosted = running(worker());
    assert_eq!(kinds(&hosted.step(NOW, hand_over(1, "a.csv"))), ["store"]);
    let stored = SessionInput::Stored(vec![kept("a.csv", "a")]);
    let answered = answers(&hosted.step(NOW, stored));
    assert!(answered[0].1["data"].as_str().unwrap().contains(&"a".repeat(64)), "{answered:?}");
    hosted.step(NOW, hand_over(2, "a.csv"));
    hosted.step(NOW, SessionInput::Stored(vec![kept("a.csv", "b")]));
    hosted.step(NOW, hand_over(3, "lost.csv"));
    let lost = answers(&hosted.step(NOW, SessionInput::Stored(Vec::new())));
    assert!(lost[0].1["error"].is_string(), "{lost:?}");
    let result = RunnerEvent::Result { result: success(), files: Vec::new() };
    hosted.step(NOW, SessionInput::Runner(result));
    let late = answers(&hosted.step(NOW, hand_over(4, "late.csv")));
    assert!(late[0].1["error"].is_string(), "its result was given: {late:?}");
    let effects = exited(&mut hosted);
    let result = effects.iter().find_map(|effect| {
        let SessionEffect::Report(report) = effect else { return None };
        let Report::Result { result, .. } = &**report else { return None };
        Some(result.clone())
    });
    assert_eq!(result.unwrap().artifacts, [kept("a.csv", "b")], "the last of that name");
}

#[test]
fn artifact_is_read_when_its_brief_or_mail_names_it_and_not_otherwise() {
    let names = ["a", "b", "c", "d"].map(|digit| digit.repeat(64));
    let mut hosted = worker();
    hosted.run.brief.key_facts.push(format!("see {}", names[0]));
    hosted.run.brief.inputs.push(NodeInput {
        node: "T1.1".parse().unwrap(),
        name: String::new(),
        deliverable: String::new(),
        artifacts: vec![kept("b", "b")],
    });
    let mut hosted = running(hosted);
    let reads = |hosted: &mut HostedSession| {
        let read = |name: &String| {
            let body = format!(r#"{{"sha256":"{name}"}}"#);
            let effects = hosted.step(NOW, operate("artifact.get", 1, &body));
            matches!(effects.as_slice(), [SessionEffect::Fetch { .. }])
        };
        names.iter().map(read).collect::<Vec<bool>>()
    };
    assert_eq!(reads(&mut hosted), [true, true, false, false]);
    let mail = |body: MailBody, name: &str| {
        let SessionInput::Mail { from, mail, place, .. } = letter(body) else { panic!("no mail") };
        SessionInput::Mail { from, mail, json: format!("{{\"text\":\"{name}\"}}"), place }
    };
    let reply = OpReply { op: "agent.status".to_owned(), ..OpReply::default() };
    hosted.step(NOW, mail(MailBody::Reply(reply), &names[3]));
    hosted.step(NOW, mail(MailBody::Info { text: String::new() }, &names[2]));
    assert_eq!(reads(&mut hosted), [true, true, true, false], "not by an echo of its own words");
}

#[test]
fn artifact_is_read_by_pieces_as_text_or_as_base64() {
    let mut hosted = running(worker());
    let mut read = |bytes: &[u8], offset: u64| {
        let media_type = "text/plain".to_owned();
        let fetched = Ok(FetchedArtifact { media_type, bytes: bytes.to_vec() });
        let input = SessionInput::Fetched { id: id(1), offset, fetched };
        answers(&hosted.step(NOW, input)).remove(0).1
    };
    // The last letter of the first piece goes on in the next one.
    let text = format!("{}ä!", "x".repeat(ARTIFACT_PIECE_BYTES - 1));
    let first = read(text.as_bytes(), 0);
    let next = first["next"].as_u64().unwrap();
    assert_eq!(next, ARTIFACT_PIECE_BYTES as u64 - 1);
    let rest = read(text.as_bytes(), next);
    assert_eq!((&rest["data"], &rest["next"]), (&"ä!".into(), &serde_json::Value::Null));
    let binary = read(&[0xff, 0xfe], 0);
    assert_eq!((&binary["encoding"], &binary["data"]), (&"base64".into(), &"//4=".into()));
    let behind = read(b"ab", 3);
    assert!(behind["detail"].as_str().unwrap().contains("it has 2 bytes"), "{behind}");
}
