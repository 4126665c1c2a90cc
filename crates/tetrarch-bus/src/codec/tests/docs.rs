//! The public contract in docs/bus.md is current: its table, and every example in it is read.

use std::fs;
use std::path::Path;

use async_nats::HeaderMap;
use tetrarch_core::request::RequestBody;

use crate::codec::*;
use crate::subject::Subject;
use crate::subject::form::table;

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/bus.md");
    fs::read_to_string(path).unwrap()
}

#[test]
fn subject_table_in_docs_matches_the_code() {
    assert!(page().contains(&table()), "replace the table of docs/bus.md by:\n{}", table());
}

/// Examples are fenced as `json <subject>`.
#[test]
fn every_documented_example_decodes() {
    let page = page();
    let mut count = 0;
    for block in page.split("```json ").skip(1) {
        let (subject, rest) = block.split_once('\n').unwrap();
        let body = rest.split("```").next().unwrap().as_bytes();
        let parsed: Subject = subject.parse().unwrap();
        let headers = HeaderMap::new();
        if let Subject::Mail { .. } = &parsed {
            decode_mail(subject, &headers, body).unwrap();
        } else if let Subject::PlanCreated(_) | Subject::PlanUpdated(_) = &parsed {
            decode_plan_event(body).unwrap();
        } else if let Subject::PlanReviewNeeded(_) = &parsed {
            decode_plan_review(body).unwrap();
        } else if let Subject::State(_) = &parsed {
            record_from_json(subject, body).unwrap();
        } else if let Subject::Heartbeat(agent) = &parsed {
            decode_heartbeat(agent, body).unwrap();
        } else if let Subject::Cursor(_) = &parsed {
            decode_cursor(body).unwrap();
        } else if let Subject::Run { .. } = &parsed {
            decode_journal(body).unwrap();
        } else {
            for request in decode_requests(subject, &headers, body, 1).unwrap() {
                let malformed = matches!(request.body, RequestBody::Malformed { .. });
                assert!(!malformed, "{subject}: {:?}", request.body);
            }
        }
        count += 1;
    }
    assert!(count >= 10, "only {count} examples");
}
