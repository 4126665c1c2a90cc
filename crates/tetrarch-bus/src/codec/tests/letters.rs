//! Mail and control: every topic.

use async_nats::HeaderMap;
use serde_json::Value;
use tetrarch_core::agent::{DelegationOptions, Mode};
use tetrarch_core::error::{DenialReason, ErrorCode};
use tetrarch_core::limits::{CONTROL_BYTES_MAX, MAIL_BYTES_MAX};
use tetrarch_core::liveness::Liveness;
use tetrarch_core::mail::StatusRequest;
use tetrarch_core::mail::receipt::{About, DeadNotice, Receipt, Stage};
use tetrarch_core::mail::{
    BudgetRaised, Denied, Duty, Lane, Launch, Mail, MailBody, OpReply, ResultReady, SessionOrder,
    SpawnAnswer, Spawned, SponsorRequest, VerbOrder,
};
use tetrarch_core::role::Role;
use tetrarch_core::verb::{Command, Wanted};

use super::requests::spawn_request;
use super::samples::{TRACE, id, labels, limits, mail, result, run, verdict, words};
use crate::codec::*;
use crate::envelope::{EPOCH, SESSION, TRACEPARENT};
use crate::schema::MessageDescriptor;
use crate::subject::Subject;

pub(in crate::codec::tests) fn denied(reason: DenialReason) -> Denied {
    Denied {
        index: 2,
        role: Role::Worker,
        reason,
        limit: Some(3),
        current: None,
        detail: "d".to_owned(),
    }
}

fn of(seq: u64) -> About {
    About { seq, message: "PO-demo.1.m".to_owned(), topic: "info".to_owned() }
}

fn answer(full: bool) -> SpawnAnswer {
    let spawned = Spawned {
        agent: id("W:~"),
        session: id("~"),
        epoch: 1,
        depth: 3,
        node: id("T1.2"),
        host: id("h1"),
    };
    SpawnAnswer {
        epic: full.then(|| id("goal_~")),
        request: full.then(|| id("~")),
        parent: full.then(|| id("S:api:~")),
        spawned: if full { vec![spawned] } else { Vec::new() },
        denied: DenialReason::ALL.into_iter().map(denied).collect(),
        reason: "all_requests_denied".to_owned(),
        suggestion: "do it yourself".to_owned(),
        retry: full,
        queued: if full { vec![denied(DenialReason::ChildrenLimitExceeded)] } else { Vec::new() },
        corrections: words("callerDepth"),
    }
}

fn launch(duty: Duty) -> MailBody {
    MailBody::Launch(Box::new(Launch {
        agent: id("W:~"),
        session: id("~"),
        epoch: 1,
        host_epoch: 4,
        parent: id("PO-demo"),
        project: Some(id("demo")),
        depth: 2,
        delegation: Some(DelegationOptions { mode: Mode::Tight, profiles: labels() }),
        duty,
    }))
}

fn order(full: bool) -> SessionOrder {
    SessionOrder {
        agent: id("W:~"),
        session: full.then(|| id("~")),
        epoch: u64::from(full),
        host_epoch: u64::from(full) * 2,
        reason: "r".to_owned(),
    }
}

fn verb(wanted: Wanted) -> MailBody {
    let full = wanted == Wanted::Pause;
    MailBody::Verb(Box::new(VerbOrder {
        agent: id("W:~"),
        session: full.then(|| id("~")),
        epoch: u64::from(full),
        command: Command { id: id("~"), by: id("human:ada"), wanted },
    }))
}

fn reply(full: bool) -> MailBody {
    MailBody::Reply(OpReply {
        op: "goal.create".to_owned(),
        error: (!full).then_some(ErrorCode::InvalidPlan),
        detail: "d".to_owned(),
        epic: full.then(|| id("goal_~")),
        version: full.then_some(0),
        agent: full.then(|| id("PO-demo")),
        session: full.then(|| id("~")),
        agent_epoch: full.then_some(0),
        liveness: full.then_some(Liveness::Offline),
        data: full.then(|| "{}".to_owned()),
    })
}

fn lost(crashed: bool) -> MailBody {
    MailBody::AgentLost { agent: id("W:~"), session: id("~"), crashed, cause: "t".to_owned() }
}

fn bodies() -> Vec<MailBody> {
    let text = || "t".to_owned();
    let ready = |verdict| ResultReady {
        agent: id("W:~"),
        node: id("T1.2"),
        run: id("run_~"),
        result: result(),
        verdict,
    };
    vec![
        MailBody::SpawnAnswer(answer(true)),
        MailBody::SpawnAnswer(answer(false)),
        MailBody::SponsorAnswer(answer(true)),
        MailBody::Sponsor(SponsorRequest { request: id("~"), wanted: spawn_request(true) }),
        MailBody::Sponsor(SponsorRequest { request: id("~"), wanted: spawn_request(false) }),
        launch(Duty::Run(run(true))),
        launch(Duty::Run(run(false))),
        launch(Duty::Project(vec![id("goal_~")])),
        launch(Duty::Project(Vec::new())),
        launch(Duty::Human(id("ada"))),
        MailBody::Kill(order(true)),
        MailBody::Stop(order(false)),
        MailBody::Rotate(order(true)),
        MailBody::Superseded(order(true)),
        verb(Wanted::Steer { text: text() }),
        verb(Wanted::Interrupt { reason: text() }),
        verb(Wanted::Pause),
        verb(Wanted::Resume),
        MailBody::TakeOn { epic: id("goal_~") },
        MailBody::ResultReady(Box::new(ready(Some(verdict())))),
        MailBody::ResultReady(Box::new(ready(None))),
        MailBody::AgentCompleted { agent: id("W:~"), session: id("~"), reason: text() },
        MailBody::Violation {
            sender: id("human:ada"),
            parent: id("PO-demo"),
            denied: vec![denied(DenialReason::Conflict)],
            count: 7,
        },
        lost(true),
        lost(false),
        MailBody::Question {
            id: id("qst_~"),
            agent: id("W:~"),
            run: id("run_~"),
            question: text(),
            options: words("a b"),
            origin: labels(),
        },
        MailBody::Answer { question: Some(id("qst_~")), text: text() },
        MailBody::StatusRequest(StatusRequest {
            dispatch: id("dsp_~"),
            assignment: id("asg_~"),
            node: id("T1.2"),
            session: id("~"),
            text: text(),
        }),
        MailBody::Answer { question: None, text: text() },
        reply(true),
        reply(false),
        MailBody::ReviewNeeded { reason: text() },
        raised(),
        MailBody::Apply(Box::new(super::samples::change::order(text()))),
        MailBody::SponsorSilent { agent: id("S:api:~"), sponsor: id("PO-demo"), request: id("~") },
        MailBody::Info { text: text() },
        MailBody::Unknown { topic: "weather".to_owned(), json: r#"{"sun":[1,true]}"#.to_owned() },
    ]
}

fn raised() -> MailBody {
    let (agent, by, reason) = (id("W:~"), id("human:ada"), "t\n".to_owned());
    MailBody::BudgetRaised(Box::new(BudgetRaised { agent, limit: limits(), by, reason }))
}

/// What is said about mail.
fn post() -> [MailBody; 5] {
    [
        MailBody::TurnDue(Box::new(super::samples::conversation::due(true))),
        MailBody::TurnDue(Box::new(super::samples::conversation::due(false))),
        MailBody::Receipt(Receipt { of: of(7), stage: Stage::Delivered }),
        MailBody::Receipt(Receipt { of: of(u64::MAX), stage: Stage::Consumed }),
        MailBody::Dead(DeadNotice { of: of(7), to: id("PO-demo"), reason: "why".to_owned() }),
    ]
}

fn subject(mail: &Mail) -> Subject {
    let lane = mail.body.lane();
    Subject::Mail { lane, to: mail.to.clone(), from: id("HO@h1"), via: Some(id("h1")) }
}

fn headers(trace: bool) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(SESSION, super::samples::U);
    headers.insert(EPOCH, "6");
    if trace {
        headers.insert(TRACEPARENT, TRACE);
    }
    headers
}

#[test]
fn every_mail_body_round_trips() {
    for full in [true, false] {
        for body in bodies().into_iter().chain(post()) {
            let mail = mail(full, body);
            let bytes = encode_mail(&mail).unwrap();
            assert_eq!(encode_mail(&mail).unwrap(), bytes, "the same mail, the same bytes");
            let (read, sender) =
                decode_mail(&subject(&mail).to_string(), &headers(full), &bytes).unwrap();
            assert_eq!(read, mail);
            assert_eq!((sender.from, sender.via), (id("HO@h1"), Some(id("h1"))));
            assert_eq!((sender.session, sender.epoch), (Some(id("~")), 6));
        }
    }
}

#[test]
fn mail_body_must_match_its_message_type() {
    for body in bodies().into_iter().chain(post()) {
        let name = mail_body_message(&body);
        let written = encode_mail(&mail(true, body.clone())).unwrap();
        let written: Value = serde_json::from_slice(&written).unwrap();
        let fields = written["body"].as_object().unwrap();
        let Some(name) = name else {
            assert!(matches!(body, MailBody::Unknown { .. }), "{body:?}");
            continue;
        };
        let message = MessageDescriptor::named(name).unwrap();
        let unknown: Vec<&String> =
            fields.keys().filter(|key| message.field(key).is_none()).collect();
        assert!(unknown.is_empty(), "{name}: {unknown:?}");
    }
}

#[test]
fn external_mail_may_omit_and_add_fields() {
    let read = |text: &str| decode_mail("mail.GO.human:ada", &HeaderMap::new(), text.as_bytes());
    let (mail, sender) =
        read(r#"{"topic":"info","body":{"text":"hi","mood":1},"more":[]}"#).unwrap();
    assert_eq!(mail.body, MailBody::Info { text: "hi".to_owned() });
    assert_eq!((sender.session, sender.epoch), (None, 1));
    let (mail, _) = read(r#"{"topic":"status.asked"}"#).unwrap();
    let unknown = MailBody::Unknown { topic: "status.asked".to_owned(), json: "{}".to_owned() };
    assert_eq!(mail.body, unknown);
    assert_eq!(read("{}").unwrap_err().to_string(), "topic is missing");
    let error = read(r#"{"topic":"answer","body":{"text":7}}"#).unwrap_err();
    assert!(error.to_string().starts_with("body.text:"), "{error}");
    let error = read(r#"{"topic":"plan.review_needed","body":[]}"#).unwrap_err();
    assert!(error.to_string().starts_with("body."), "{error}");
}

#[test]
fn control_message_is_refused_on_the_mail_lane() {
    let mail = mail(false, MailBody::Kill(order(true)));
    let bytes = encode_mail(&mail).unwrap();
    let by_mail = Subject::Mail { lane: Lane::Mail, to: mail.to, from: id("GO"), via: None };
    let error = decode_mail(&by_mail.to_string(), &HeaderMap::new(), &bytes).unwrap_err();
    assert!(error.to_string().starts_with("topic:"), "{error}");
    let got = decode_mail("report.GO", &HeaderMap::new(), &bytes);
    assert!(matches!(got, Err(CodecError::WrongSubject { .. })), "{got:?}");
}

#[test]
fn both_lanes_bound_size_in_both_directions() {
    let info = |len| mail(false, MailBody::Info { text: "x".repeat(len) });
    assert!(encode_mail(&info(MAIL_BYTES_MAX - 100)).is_ok());
    let got = encode_mail(&info(MAIL_BYTES_MAX));
    assert!(matches!(&got, Err(CodecError::TooLarge { what, .. }) if what == "info"), "{got:?}");
    let stop =
        |len| mail(false, MailBody::Stop(SessionOrder { reason: "x".repeat(len), ..order(true) }));
    assert!(encode_mail(&stop(CONTROL_BYTES_MAX - 200)).is_ok());
    assert!(matches!(encode_mail(&stop(CONTROL_BYTES_MAX)), Err(CodecError::TooLarge { .. })));
    let got =
        decode_mail("ctl.GO.human:ada", &HeaderMap::new(), &vec![b' '; CONTROL_BYTES_MAX + 1]);
    assert!(matches!(got, Err(CodecError::TooLarge { .. })), "{got:?}");
}
