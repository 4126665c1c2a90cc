//! Reports that a host sends together: each is what it would be alone, whatever its neighbours are.

use async_nats::HeaderMap;
use serde_json::{Value, json};
use tetrarch_core::id::{RequestId, Ulid};
use tetrarch_core::limits::HOST_REPORTS_MAX;
use tetrarch_core::request::{Report, Request, RequestBody};

use super::super::samples::{TRACE, U, id};
use super::{complaint, reports};
use crate::codec::*;
use crate::envelope::Envelope;
use crate::subject::Subject;

const HOST: &str = "report.HO@h1.h1";

fn read(body: &Value) -> Vec<Request> {
    decode_requests(HOST, &HeaderMap::new(), body.to_string().as_bytes(), 9).unwrap()
}

fn error(request: &Request) -> &str {
    let RequestBody::Malformed { error, .. } = &request.body else { panic!("{request:?}") };
    error
}

fn ready(agent: &str) -> Value {
    json!({"agent": agent, "session": U, "epoch": 2, "report": {"requestId": U, "kind": "ready"}})
}

#[test]
fn reports_sent_together_are_read_as_if_each_came_alone() {
    let hosted: Vec<HostedReport> = (1..)
        .zip(reports())
        .map(|(number, report)| HostedReport {
            agent: id(if number % 2 == 0 { "PO-demo" } else { "W:~" }),
            session: id("~"),
            epoch: u64::try_from(number).unwrap(),
            trace: (number % 3 == 0).then(|| TRACE.to_owned()),
            id: RequestId(Ulid(number)),
            report,
        })
        .collect();
    for part in hosted.chunks(HOST_REPORTS_MAX) {
        let payload = encode_reports(part.iter()).unwrap();
        let together = decode_requests(HOST, &HeaderMap::new(), &payload, 9).unwrap();
        let alone = part.iter().map(|it| {
            let subject: Subject = format!("report.{}.h1", it.agent).parse().unwrap();
            let envelope = Envelope {
                session: Some(it.session),
                epoch: Some(it.epoch),
                trace: it.trace.clone(),
                ..Envelope::default()
            };
            let payload = encode_report(&it.report, it.id).unwrap();
            decode_request(&subject, &envelope.headers(&subject), &payload, 9).unwrap()
        });
        assert_eq!(together, alone.collect::<Vec<_>>());
    }
}

#[test]
fn report_sent_alone_is_read_as_before() {
    let payload = encode_report(&Report::Ready, id("~")).unwrap();
    for subject in [HOST, "report.W:~.h1", "report.W:~"] {
        let subject = subject.replace('~', U);
        let read = decode_requests(&subject, &HeaderMap::new(), &payload, 9).unwrap();
        let alone = decode_request_at(&subject, &HeaderMap::new(), &payload, 9).unwrap();
        assert_eq!(read, [alone]);
    }
    assert!(decode_requests("report.nobody", &HeaderMap::new(), &payload, 9).is_err());
}

#[test]
fn unreadable_report_is_its_hosts_and_leaves_its_neighbours() {
    let with = |field: &str, value: Value| {
        let mut report = ready("PO-demo");
        report[field] = value;
        report
    };
    let bad = [
        (json!(7), "report is missing"),
        (json!({"agent": "PO-demo"}), "report is missing"),
        (with("agent", json!("")), "agent is missing"),
        (with("agent", json!("GO")), "agent: h1 does not publish for GO"),
        (with("agent", json!("HO@h2")), "agent: h1 does not publish for HO@h2"),
        (with("agent", json!("human:ada")), "agent: "),
        (with("agent", json!("PO-demo.h2")), "agent: "),
        (with("session", json!("x")), "session: "),
        (with("epoch", json!(-1)), "epoch: "),
    ];
    let mut all = vec![ready("PO-a")];
    all.extend(bad.iter().flat_map(|(report, _)| [report.clone(), ready("PO-b")]));
    let read = read(&json!({ "reports": all }));
    assert_eq!(read.len(), 1 + 2 * bad.len());
    for (index, request) in read.iter().enumerate().step_by(2) {
        let agent = if index == 0 { "PO-a" } else { "PO-b" };
        assert_eq!(request.body, RequestBody::Report(Report::Ready));
        assert_eq!((&request.sender.from, request.sender.epoch), (&id(agent), 2));
    }
    for (at, (_, expected)) in bad.iter().enumerate() {
        let request = &read[2 * at + 1];
        let whole = format!("reports[{}].{expected}", 2 * at + 1);
        assert!(error(request).starts_with(&whole), "{whole}: {}", error(request));
        assert_eq!(request.sender.from, id("HO@h1"));
    }
}

#[test]
fn wrong_report_of_a_known_agent_is_answered_to_it() {
    let kinds = [json!({"kind": "rumour"}), json!({"reports": []}), json!("ready")];
    let wrong = kinds.map(|report| json!({"agent": "PO-demo", "report": report}));
    let read = read(&json!({ "reports": wrong }));
    for request in &read {
        assert!(!error(request).is_empty());
        assert_eq!((&request.sender.from, request.given_id()), (&id("PO-demo"), None));
    }
    assert!(read[0].id != read[1].id && read[1].id != read[2].id, "each has an id of its own");
}

#[test]
fn list_of_reports_is_bounded() {
    let many = |count| json!({"reports": vec![ready("PO-demo"); count]});
    assert_eq!(read(&many(HOST_REPORTS_MAX)).len(), HOST_REPORTS_MAX);
    for wrong in [many(0), many(HOST_REPORTS_MAX + 1), json!({"reports": {}})] {
        let read = read(&wrong);
        let [whole] = read.as_slice() else { panic!("{} requests", read.len()) };
        assert_eq!(error(whole), "reports: expected a list of 1 to 64 reports");
        assert_eq!(whole.sender.from, id("HO@h1"));
    }
}

#[test]
fn nobody_but_an_orchestrator_reports_for_others() {
    let body = json!({"requestId": U, "kind": "ready", "reports": [ready("PO-demo")]});
    for subject in ["report.PO-demo.h1", "report.W:~", "report.HO@h1", "report.human:ada"] {
        let said = complaint(subject, &body);
        assert!(said.starts_with("unknown field reports"), "{subject}: {said}");
        let subject = subject.replace('~', U);
        let payload = body.to_string();
        let read = decode_requests(&subject, &HeaderMap::new(), payload.as_bytes(), 9).unwrap();
        let [one] = read.as_slice() else { panic!("{subject}: {} requests", read.len()) };
        assert_eq!(error(one), said);
    }
    // What another host says of a host is nobody's.
    let payload = json!({"reports": [ready("PO-demo")]}).to_string();
    let forged = "report.HO@h2.h1";
    assert!(decode_requests(forged, &HeaderMap::new(), payload.as_bytes(), 9).is_err());
}
