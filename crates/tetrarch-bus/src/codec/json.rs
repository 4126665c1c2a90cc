//! JSON that others wrote: checked against the table of messages before it becomes a message, so
//! that an error names the field by its path. Names are accepted in camelCase and snake_case,
//! `null` is as good as absent, and where text holds JSON the JSON itself may stand.

use prost::Name;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::error::{CodecError, within};
use crate::proto::fields::{FieldDescriptor, FieldKind, MessageDescriptor};

/// What is done about fields that do not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unknown {
    /// They are an error: requests.
    Refused,
    /// They are skipped: everything else.
    Ignored,
}

/// Text fields in whose place any JSON may stand; it is kept as text.
pub(crate) const JSON_TEXT: [(&str, &str); 15] = [
    ("Brief", "expected_output"),
    ("BriefWish", "expected_output"),
    ("GoalCreate", "plan"),
    ("GoalUpdate", "goal"),
    ("GraphApply", "graph"),
    ("JournalCheckpoint", "state"),
    ("JournalUpdate", "update"),
    ("Mail", "body"),
    ("Node", "output_schema"),
    ("RunResult", "deliverable"),
    ("RunResult", "partial"),
    ("TodoAdd", "node"),
    ("TodoPlan", "plan"),
    ("TodoSplit", "subtasks"),
    ("ScheduledGoal", "plan"),
];

/// Any JSON of these bytes.
pub(super) fn parse(what: &'static str, bytes: &[u8]) -> Result<Value, CodecError> {
    serde_json::from_slice(bytes)
        .map_err(|error| CodecError::Json { what, reason: error.to_string() })
}

/// A message of this JSON.
fn message<P: DeserializeOwned>(
    what: &'static str,
    mut value: Value,
    unknown: Unknown,
) -> Result<P, CodecError> {
    let table = MessageDescriptor::named(what)
        .ok_or(CodecError::Json { what, reason: "no such message in the schema".to_owned() })?;
    check(table, "", &mut value, unknown)?;
    serde_json::from_value(value)
        .map_err(|error| CodecError::Json { what, reason: error.to_string() })
}

/// A request, whose unknown fields are an error.
pub(super) fn request<P: DeserializeOwned + Name>(value: Value) -> Result<P, CodecError> {
    message(P::NAME, value, Unknown::Refused)
}

/// What is no request, whose unknown fields are skipped.
pub(super) fn event<P: DeserializeOwned + Name>(value: Value) -> Result<P, CodecError> {
    message(P::NAME, value, Unknown::Ignored)
}

/// What is no request, of these bytes.
pub(super) fn read<P: DeserializeOwned + Name>(bytes: &[u8]) -> Result<P, CodecError> {
    event(parse(P::NAME, bytes)?)
}

/// Canonical JSON of a message.
pub(super) fn write<P: Serialize>(what: &'static str, message: &P) -> Result<Vec<u8>, CodecError> {
    serde_json::to_vec(message)
        .map_err(|error| CodecError::Json { what, reason: error.to_string() })
}

/// A message's JSON, which is called `what` when it has more bytes than allowed.
pub(super) fn bounded<P: Serialize + Name>(
    what: &str,
    message: &P,
    max: usize,
) -> Result<Vec<u8>, CodecError> {
    let bytes = write(P::NAME, message)?;
    within(what, bytes.len(), max)?;
    Ok(bytes)
}

fn place(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn check(
    table: &MessageDescriptor,
    path: &str,
    value: &mut Value,
    unknown: Unknown,
) -> Result<(), CodecError> {
    let Value::Object(object) = value else {
        let field = if path.is_empty() { table.name } else { path };
        return Err(CodecError::field(
            field,
            format!("expected an object, found {}", shape(value)),
        ));
    };
    let keys: Vec<String> = object.keys().cloned().collect();
    for key in keys {
        match (table.field(&key), unknown) {
            (Some(field), _) => check_field(table, field, path, &key, object, unknown)?,
            (None, Unknown::Ignored) => {
                object.remove(&key);
            }
            (None, Unknown::Refused) => {
                let names: Vec<&str> = table.fields.iter().map(|field| field.json).collect();
                let allowed = names.join(", ");
                return Err(CodecError::UnknownField { field: place(path, &key), allowed });
            }
        }
    }
    if table.field("no_tools").is_some()
        && object.get("tools").and_then(Value::as_array).is_some_and(Vec::is_empty)
        && !object.contains_key("no_tools")
    {
        object.insert("noTools".to_owned(), Value::Bool(true));
    }
    Ok(())
}

fn check_field(
    table: &MessageDescriptor,
    field: &FieldDescriptor,
    path: &str,
    key: &str,
    object: &mut Map<String, Value>,
    unknown: Unknown,
) -> Result<(), CodecError> {
    let Some(value) = object.get_mut(key) else { return Ok(()) };
    if value.is_null() {
        object.remove(key);
        return Ok(());
    }
    let path = place(path, key);
    if JSON_TEXT.contains(&(table.name, field.name)) {
        if !value.is_string() {
            *value = Value::String(value.to_string());
        }
        return Ok(());
    }
    if !field.repeated {
        return check_value(field.kind, &path, value, unknown);
    }
    let Value::Array(items) = value else {
        return Err(CodecError::field(path, format!("expected a list, found {}", shape(value))));
    };
    for (index, item) in items.iter_mut().enumerate() {
        check_value(field.kind, &format!("{path}[{index}]"), item, unknown)?;
    }
    Ok(())
}

fn check_value(
    kind: FieldKind,
    path: &str,
    value: &mut Value,
    unknown: Unknown,
) -> Result<(), CodecError> {
    let whole = |value: &Value, max: u64| {
        let number = value.as_u64().or_else(|| value.as_str()?.parse().ok());
        number.is_some_and(|number| number <= max)
    };
    let (fits, expected) = match kind {
        FieldKind::Message(name) => {
            return MessageDescriptor::named(name)
                .map_or(Ok(()), |table| check(table, path, value, unknown));
        }
        FieldKind::Bool => (value.is_boolean(), "true or false"),
        FieldKind::Double => (value.is_number(), "a number"),
        FieldKind::U32 => (whole(value, u64::from(u32::MAX)), "a whole number of 32 bits"),
        FieldKind::U64 => (whole(value, u64::MAX), "a whole number of 64 bits"),
        FieldKind::Text => (value.is_string(), "text"),
        FieldKind::Map => {
            let texts = value.as_object().is_some_and(|map| map.values().all(Value::is_string));
            (texts, "an object of texts")
        }
    };
    if fits {
        return Ok(());
    }
    Err(CodecError::field(path, format!("expected {expected}, found {}", shape(value))))
}

/// What a value is, in words, without what it holds.
fn shape(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number that does not fit",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
