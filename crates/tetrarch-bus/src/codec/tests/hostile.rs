//! Any bytes: refused or read, never a panic.

use async_nats::HeaderMap;
use proptest::prelude::*;
use serde_json::Value;
use tetrarch_core::limits::LEASE_EPOCH_MAX;
use tetrarch_core::request::RequestBody;

use super::samples::{id, records, run};
use crate::codec::*;
use crate::envelope::Envelope;
use crate::subject::Subject;

fn subjects() -> Vec<Subject> {
    [
        "spawn.request.goal_~.-.PO-demo",
        "op.host.join.HO@a",
        "op.goal.create.human:ada",
        "op.project.create.human:ada",
        "op.profile.apply.human:ada",
        "op.todo.plan.human:ada",
        "op.todo.split.human:ada",
        "report.W:~.h1",
    ]
    .map(id)
    .into()
}

/// Gives some bytes to every decoder.
fn feed(bytes: &[u8]) -> usize {
    let headers = HeaderMap::new();
    let mut read = 0;
    for subject in subjects() {
        read += usize::from(decode_request(&subject, &headers, bytes, 1).is_ok());
    }
    for topic in ["mail.GO.human:ada", "ctl.GO.human:ada"] {
        read += usize::from(decode_mail(topic, &headers, bytes).is_ok());
    }
    for record in records(false) {
        read +=
            usize::from(record_from_json(&Subject::State(record.key()).to_string(), bytes).is_ok());
    }
    read += usize::from(decode_entry(bytes).is_ok());
    read += usize::from(decode_plan_event(bytes).is_ok());
    read += usize::from(decode_plan_review(bytes).is_ok());
    read += usize::from(decode_cursor(bytes).is_ok());
    read += usize::from(decode_journal(bytes).is_ok());
    read += usize::from(decode_host_lease(bytes).is_ok());
    read + usize::from(decode_heartbeat(&id("GO"), bytes).is_ok())
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    let names = "requestId|request_id|sender|kind|topic|body|requestedSubagents|role|task|brief|\
                 budget|tools|placement|labels|plan|result|deliverable|verdict|event|run|usage|\
                 profile|positions|ledgerSeq|minReaderVersion|[a-z]{0,6}";
    leaf.prop_recursive(4, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(names, inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic_the_decoder(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(feed(&bytes) >= subjects().len(), "requests are always decoded");
    }

    #[test]
    fn arbitrary_json_never_panics_the_decoder(value in any_json()) {
        prop_assert!(feed(value.to_string().as_bytes()) >= subjects().len());
    }

    #[test]
    fn damaged_entry_never_panics_the_decoder(at in any::<prop::sample::Index>(), bit in 0u8..8) {
        let run = tetrarch_core::ledger::Record::Run(Box::new(run(true)));
        let entry = tetrarch_core::ledger::Entry {
            commit: id("~"),
            epoch: 1,
            at: tetrarch_core::time::BusTime(1),
            intake_seq: 1,
            events: Vec::new(),
            records: vec![run],
            held: Vec::new(),
            dropped: Vec::new(),
            seals: Vec::new(),
            mail: Vec::new(),
            plans: Vec::new(),
            reviews: Vec::new(),
        };
        let mut bytes = encode_entry(&entry).unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        if let Ok(read) = decode_entry(&bytes) && read.held.is_empty() {
            prop_assert_eq!(decode_entry(&encode_entry(&read).unwrap()).unwrap(), read);
        }
    }

    #[test]
    fn arbitrary_headers_never_panic_the_decoder(text in "[ -~]{0,40}") {
        let mut headers = HeaderMap::new();
        for name in ["Tetrarch-Session", "Tetrarch-Epoch", "Tetrarch-Seq", "traceparent"] {
            headers.insert(name, text.as_str());
        }
        let subject: Subject = id("report.GO");
        let read = decode_request(&subject, &headers, b"{}", 1);
        prop_assert!(read.is_ok());
        if let Ok(envelope) = Envelope::read(&headers) {
            let again = Envelope::read(&envelope.headers(&subject)).unwrap();
            prop_assert_eq!(again.trace, envelope.trace);
        }
    }
}

#[test]
fn deeply_nested_json_is_refused_without_deep_recursion() {
    for (open, close) in [("[", "]"), ("{\"brief\":", "}")] {
        let deep = format!("{}0{}", open.repeat(20_000), close.repeat(20_000));
        assert_eq!(feed(deep.as_bytes()), subjects().len());
    }
}

#[test]
fn host_with_maximum_epoch_is_refused() {
    let subject: Subject = id("op.host.join.HO@a.a");
    for (epoch, read) in [(LEASE_EPOCH_MAX, true), (LEASE_EPOCH_MAX + 1, false), (u64::MAX, false)]
    {
        let body = format!(
            "{{\"requestId\":\"01JD8Z5W6T4QK3M9X2V7B1N0AC\",\"instance\":\"i\",\
             \"leaseEpoch\":\"{epoch}\",\"capacity\":1}}"
        );
        let request = decode_request(&subject, &HeaderMap::new(), body.as_bytes(), 1).unwrap();
        let malformed = matches!(request.body, RequestBody::Malformed { .. });
        assert_eq!(malformed, !read, "{epoch}: {:?}", request.body);
    }
}
