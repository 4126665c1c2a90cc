//! What a program asks of the owner and writes to others, in its agent's name.

use super::*;
use crate::agent::{DelegationOptions, Mode};
use crate::converse::opening;
use crate::limits::{INSTRUCTION_BYTES_MAX, LETTERS_KNOWN_MAX, TEXT_BYTES_MAX};

fn id(place: u128) -> RequestId {
    RequestId(Ulid(place))
}

/// What the program is told at once: the topic, the body, which request it answers.
fn told(effect: &SessionEffect) -> (String, serde_json::Value, Option<RequestId>) {
    let SessionEffect::Order(order) = effect else { panic!("{effect:?}") };
    let Order::Deliver { line: Inbound::Mail { topic, body, answers, place: 0, .. }, .. } =
        &**order
    else {
        panic!("{order:?}")
    };
    (topic.clone(), serde_json::from_str(body).unwrap(), *answers)
}

fn asked(op: &str, body: &str, id: Option<RequestId>) -> Vec<SessionEffect> {
    let (op, body) = (op.to_owned(), body.to_owned());
    running(worker()).step(NOW, SessionInput::Runner(RunnerEvent::Operate { id, op, body }))
}

#[test]
fn operation_keeps_its_id_and_targets_the_runs_goal() {
    for (op, body, expected) in [
        ("todo.list", "{}", "epic"),
        ("todo.list", r#"{"epic":"other"}"#, "other"),
        ("agent.status", "{}", "\"agent\":\"W:"),
        ("agent.status", r#"{"agent":"GO"}"#, "\"agent\":\"GO\""),
        ("file.reserve", r#"{"paths":["a"]}"#, "paths"),
        ("agent.retire", r#"{"agent":"W:1","reason":"r"}"#, "\"agent\":\"W:1\""),
    ] {
        let effects = asked(op, body, Some(id(7)));
        let [SessionEffect::Operate { id: given, op: name, body }] = effects.as_slice() else {
            panic!("{effects:?}")
        };
        assert_eq!((*given, name.as_str()), (id(7), op));
        assert!(body.contains(expected) && body.contains(&id(7).to_string()), "{body}");
    }
    let [first, second] = ["file.list", "file.list"].map(|op| asked(op, "{}", None));
    assert_eq!(first, second, "one without an id is named by its run and number");
    let seeded = worker().with_id_seed("what nobody else knows".to_owned());
    let (op, body) = ("file.list".to_owned(), "{}".to_owned());
    let other = running(seeded)
        .step(NOW, SessionInput::Runner(RunnerEvent::Operate { id: None, op, body }));
    assert_ne!(first, other, "and by its seed");
}

#[test]
fn review_of_the_plan_is_mail_to_go_and_answered_at_once() {
    let effects = asked("plan.review_needed", r#"{"reason":" the order is wrong "}"#, Some(id(7)));
    let [SessionEffect::Mail(mail), answer] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!((&mail.to, mail.correlation), (&AgentId::Go.into(), Some(id(7))));
    assert_eq!(mail.epic, Some(EpicId(Ulid(4))), "the run's own goal");
    assert_eq!(mail.body, MailBody::ReviewNeeded { reason: "the order is wrong".to_owned() });
    let (topic, body, answers) = told(answer);
    assert_eq!((topic.as_str(), body["error"].as_str(), answers), (REPLY, None, Some(id(7))));
    for reason in [String::new(), "x".repeat(TEXT_BYTES_MAX + 1)] {
        let body = serde_json::json!({"reason": reason}).to_string();
        let effects = asked("plan.review_needed", &body, None);
        let [only] = effects.as_slice() else { panic!("{effects:?}") };
        assert_eq!(told(only).1["error"], ErrorCode::InvalidRequest.to_string());
    }
}

#[test]
fn ninth_review_that_one_session_asks_for_is_refused() {
    let mut session = running(worker());
    let mut ask = || {
        let (op, body) = ("plan.review_needed".to_owned(), r#"{"reason":"look"}"#.to_owned());
        session.step(NOW, SessionInput::Runner(RunnerEvent::Operate { id: None, op, body }))
    };
    for _ in 0..8 {
        let effects = ask();
        assert!(matches!(effects.as_slice(), [SessionEffect::Mail(_), _]), "{effects:?}");
    }
    let effects = ask();
    let [only] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!(told(only).1["error"], ErrorCode::Unavailable.to_string());
}

#[test]
fn forbidden_operation_is_refused_at_once() {
    for (op, body, error) in [
        ("agent.register", "{}", ErrorCode::Unauthorized),
        ("nonsense", "{}", ErrorCode::Unauthorized),
        ("file.list", "[1]", ErrorCode::InvalidRequest),
        ("file.list", "", ErrorCode::InvalidRequest),
    ] {
        let effects = asked(op, body, Some(id(7)));
        let [only] = effects.as_slice() else { panic!("{effects:?}") };
        let (topic, body, answers) = told(only);
        assert_eq!((topic.as_str(), answers), (REPLY, Some(id(7))));
        assert_eq!(body["error"], error.to_string(), "{op}");
    }
}

#[test]
fn message_is_stored_before_it_is_confirmed() {
    let text = |bytes: usize| "x".repeat(bytes);
    for (to, size, reader) in [
        ("parent", 1, Some("PO-a")),
        ("po", INSTRUCTION_BYTES_MAX, Some("PO-a")),
        ("GO", 1, Some("GO")),
        ("GO", 0, None),
        ("GO", INSTRUCTION_BYTES_MAX + 1, None),
        ("human:ada", 1, None),
        ("somebody", 1, None),
    ] {
        let event = RunnerEvent::Write { id: Some(id(7)), to: to.to_owned(), text: text(size) };
        let effects = running(worker()).step(NOW, SessionInput::Runner(event));
        let (topic, body, answers) = told(effects.last().unwrap());
        assert_eq!(answers, Some(id(7)));
        match (reader, effects.as_slice()) {
            (Some(reader), [SessionEffect::Mail(mail), _]) => {
                assert_eq!(mail.to, Principal::Agent(reader.parse().unwrap()));
                assert_eq!((mail.correlation, topic.as_str()), (Some(id(7)), MAIL_SENT));
            }
            (None, [_]) => {
                assert_eq!(topic, MAIL_REFUSED, "{to}");
                assert!(body["error"].is_string(), "{body}");
            }
            (_, effects) => panic!("{to}: {effects:?}"),
        }
    }
}

fn from(writer: &str, correlation: Option<RequestId>) -> SessionInput {
    let SessionInput::Mail { mail, json, place, .. } =
        letter(MailBody::Info { text: "go".to_owned() })
    else {
        panic!("no mail")
    };
    let mail = Box::new(Mail { correlation, ..*mail });
    SessionInput::Mail { from: writer.parse().unwrap(), mail, json, place }
}

#[test]
fn oldest_known_message_is_forgotten_beyond_the_bound() {
    let mut session = running(worker());
    let last = LETTERS_KNOWN_MAX as u128;
    // Ids grow or fall with time: which one is the smallest says nothing of which one is the oldest.
    for fall in [false, true] {
        let place = |n: u128| if fall { 10 * last - n } else { n };
        let mut is_new = |n: u128| !session.step(NOW, from("PO-a", Some(id(place(n))))).is_empty();
        for n in 1..=last {
            assert!(is_new(n), "{n}");
        }
        assert!(!is_new(1) && !is_new(last), "as many as there is room for are known");
        assert!(is_new(last + 1));
        assert!(!is_new(2) && !is_new(last) && !is_new(last + 1), "but for the oldest all are");
        assert!(is_new(1), "the oldest is not");
    }
}

#[test]
fn resent_message_is_delivered_once() {
    let mut session = running(worker());
    for (writer, correlation, new) in [
        ("PO-a", Some(id(1)), true),
        ("PO-a", Some(id(1)), false),
        ("PO-b", Some(id(1)), true),
        ("PO-a", Some(id(2)), true),
        ("PO-a", None, true),
        ("PO-a", None, true),
    ] {
        let effects = session.step(NOW, from(writer, correlation));
        assert_eq!(!effects.is_empty(), new, "{writer} {correlation:?}");
    }
}

#[test]
fn model_that_may_delegate_is_told_its_mode_alone() {
    let mut hosted = worker();
    let told = |hosted: &HostedSession| {
        let prompt = opening::system(&hosted.start());
        Mode::ALL.into_iter().filter(|mode| prompt.contains(mode.guidance())).collect::<Vec<_>>()
    };
    assert_eq!(told(&hosted), [], "it has no agents");
    for mode in Mode::ALL {
        hosted.launch.delegation = Some(DelegationOptions { mode, profiles: Vec::new() });
        assert_eq!(told(&hosted), [mode]);
    }
}
