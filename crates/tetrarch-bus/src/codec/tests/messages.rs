//! Which message a record's JSON is one of.

use serde_json::Value;

use super::samples::records;
use crate::codec::*;
use crate::schema::MessageDescriptor;
use crate::subject::KeyKind;

#[test]
fn record_must_match_its_message_type() {
    let stamp = MessageDescriptor::named("StateStamp").unwrap();
    for record in records(true) {
        let message = MessageDescriptor::named(record_message(KeyKind::of(&record.key()))).unwrap();
        let value: Value = serde_json::from_slice(&record_json(&record, 1).unwrap()).unwrap();
        let known = |key: &&String| message.field(key).or_else(|| stamp.field(key)).is_some();
        let unknown: Vec<&String> =
            value.as_object().unwrap().keys().filter(|key| !known(key)).collect();
        assert!(unknown.is_empty(), "{}: {unknown:?}", message.name);
    }
}
