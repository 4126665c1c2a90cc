//! Canonical JSON, whose whole numbers of 64 bits are texts and whose moments are milliseconds, as `-o json` prints
//! it: numbers, and RFC 3339 under the name without its unit (docs/decisions/0077). The table of messages says which
//! fields these are, so that texts stay as they are.

use serde_json::{Map, Value};
use tetrarch_bus::schema::{FieldDescriptor, FieldKind, MessageDescriptor};
use tetrarch_core::time::BusTime;

use super::moment::stamp;

/// Ends the name of a moment in milliseconds since 1970.
const MOMENT: &str = "UnixMs";
/// Largest number up to which every whole number is one of JSON's for every reader.
const WHOLE_MAX: u64 = 1 << 53;
/// What stands beside the fields of a record in STATE.
const STAMP: &str = "StateStamp";

/// The canonical JSON of a message, or of a record of that message, as it is printed. What is no such message is
/// left as it is.
pub(crate) fn plain(message: &str, value: Value) -> Value {
    match MessageDescriptor::named(message) {
        Some(message) => of_message(message, value),
        None => value,
    }
}

fn of_message(message: &MessageDescriptor, value: Value) -> Value {
    let Value::Object(fields) = value else { return value };
    let stamp = MessageDescriptor::named(STAMP);
    let plain = fields.into_iter().map(|(key, value)| {
        let of_stamp = || stamp.and_then(|stamp| stamp.field(&key));
        match message.field(&key).or_else(of_stamp) {
            Some(field) => of_field(field, key, value),
            None => (key, value),
        }
    });
    Value::Object(plain.collect::<Map<_, _>>())
}

fn of_field(field: &FieldDescriptor, key: String, value: Value) -> (String, Value) {
    match field.kind {
        FieldKind::U64 => match field.json.strip_suffix(MOMENT) {
            Some(name) if !name.is_empty() => (name.to_owned(), each(value, &moment)),
            Some(_) | None => (key, each(value, &number)),
        },
        FieldKind::Message(name) => (key, each(value, &|value| plain(name, value))),
        FieldKind::Bool | FieldKind::Double | FieldKind::U32 | FieldKind::Text | FieldKind::Map => {
            (key, value)
        }
    }
}

/// A value, or each of a list.
fn each(value: Value, print: &dyn Fn(Value) -> Value) -> Value {
    let Value::Array(values) = value else { return print(value) };
    Value::Array(values.into_iter().map(print).collect())
}

fn whole(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// A number that some readers would round stays a text.
fn number(value: Value) -> Value {
    whole(&value).filter(|number| *number <= WHOLE_MAX).map_or(value, Value::from)
}

fn moment(value: Value) -> Value {
    whole(&value).map_or(value, |at| Value::from(stamp(BusTime(at))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_stay_numbers_and_times_are_readable() {
        for (message, canonical, printed) in [
            (
                "GoalState",
                json!({"id": "goal_1", "sinceUnixMs": "951782399999", "percent": 7, "ledgerSeq": "12"}),
                json!({"id": "goal_1", "since": "2000-02-28T23:59:59.999Z", "percent": 7, "ledgerSeq": 12}),
            ),
            (
                "Artifact",
                json!({"name": "12", "size": "9007199254740992"}),
                json!({"name": "12", "size": WHOLE_MAX}),
            ),
            ("Artifact", json!({"size": "9007199254740993"}), json!({"size": "9007199254740993"})),
            ("Artifact", json!({"size": 5, "unheard": "5"}), json!({"size": 5, "unheard": "5"})),
            // Nested messages, lists of them, and maps of texts.
            (
                "RunStatus",
                json!({"result": {"artifacts": [{"size": "1"}, {"size": "2"}], "deliverable": "3"}}),
                json!({"result": {"artifacts": [{"size": 1}, {"size": 2}], "deliverable": "3"}}),
            ),
            (
                "Host",
                json!({"labels": {"size": "1", "createdUnixMs": "2"}}),
                json!({"labels": {"size": "1", "createdUnixMs": "2"}}),
            ),
            ("NoSuchMessage", json!({"size": "1"}), json!({"size": "1"})),
        ] {
            assert_eq!(plain(message, canonical), printed, "{message}");
        }
    }

    #[test]
    fn added_time_never_replaces_another_field() {
        let mut moments = 0;
        for message in MessageDescriptor::all() {
            for field in message.fields.iter().filter(|field| field.kind == FieldKind::U64) {
                let Some(name) = field.json.strip_suffix(MOMENT) else { continue };
                assert!(message.field(name).is_none(), "{}.{name}", message.name);
                moments += 1;
            }
        }
        assert!(moments > 20, "{moments}");
    }
}
