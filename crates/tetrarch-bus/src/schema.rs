//! JSON Schemas of everything public, made from the descriptors of `proto/tetrarch/v1`. The
//! files in `proto/schema` are what this prints. It describes canonical JSON; snake_case names
//! are accepted beside it and not described.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use tetrarch_core::planner::{self, Bounds, Purpose};

use crate::codec::json::JSON_TEXT;
pub use crate::proto::fields::{FieldDescriptor, FieldKind, MessageDescriptor};

/// Everything else that is public: mail and its bodies, events, what agents write of themselves,
/// and the values of STATE.
const OTHERS: &str = "\
    Agent AgentCompleted AgentLost Answer ApplyOrder Assignment BudgetRaised Change Crystallization \
    Cursor Decision Dispatch EpicNode EpicNodeState Goal GoalState Host HostReports JournalEntry \
    Launch Mail OpReply Plan PlanDraft PlanEvent PlanReview Planning Project ProjectNote ProjectProfile Question \
    QuestionRecord QueuedSpawn Reservation ResultReady ReviewNeeded Run RunStatus ScheduleRecord SessionOrder \
    Snapshot SpawnAnswer SponsorRequest SponsorSilent Receipt DeadNotice StateGraph StatusRequest \
    TakeOn Turn TurnDue VerbOrder Violation Vitals Words";

/// Fields without which a message is refused, beside a request's own id.
const REQUIRED: [(&str, &[&str]); 56] = [
    ("AgentReplace", &["agent", "session"]),
    ("AgentRetire", &["agent"]),
    ("AgentRotate", &["agent"]),
    ("ApplyRequest", &["change"]),
    ("ApprovalDecide", &["change", "verdict"]),
    ("BudgetRaise", &["agent", "more"]),
    ("CircuitClose", &["agent"]),
    ("ConversationCancel", &["conversation", "number"]),
    ("ConversationMove", &["human", "conversation", "doing"]),
    ("ConversationSay", &["conversation", "text"]),
    ("GraphApply", &["project", "graph"]),
    ("TurnDoing", &["kind"]),
    ("HostDrain", &["host"]),
    ("AgentStatus", &["agent"]),
    ("AgentInterrupt", &["agent"]),
    ("AgentPause", &["agent"]),
    ("AgentResume", &["agent"]),
    ("AgentSteer", &["agent", "text"]),
    ("VerbOrder", &["agent", "id", "by"]),
    ("FileRelease", &["reservation"]),
    ("FileReserve", &["paths"]),
    ("GoalCreate", &["project", "plan"]),
    ("HostReports", &["reports"]),
    ("HostedReport", &["agent", "report"]),
    ("HumanJoin", &["human"]),
    ("Mail", &["topic"]),
    ("NoteDelete", &["name"]),
    ("NotePut", &["name", "text"]),
    ("ProfileApply", &["project", "profile"]),
    ("ProjectCreate", &["project"]),
    ("ProjectMode", &["project", "mode"]),
    ("ProjectRetire", &["project"]),
    ("QuestionAnswer", &["question", "text"]),
    ("Report", &["kind"]),
    ("RunResult", &["outcome"]),
    ("SpawnRequest", &["requestedSubagents"]),
    ("SubagentWish", &["role"]),
    ("TodoAdd", &["epic", "parent", "node", "reason"]),
    ("TodoDraft", &["epic", "draft", "verdict"]),
    ("TodoMerge", &["epic", "nodes", "baseVersion", "reason"]),
    ("TodoPlan", &["epic", "plan", "baseVersion", "reason"]),
    ("TodoSplit", &["epic", "node", "subtasks", "baseVersion", "reason"]),
    ("WorkBlock", &["epic", "node", "blocker"]),
    ("GoalMove", &["epic"]),
    ("GoalPrioritise", &["epic"]),
    ("GoalUpdate", &["epic", "goal"]),
    ("TodoComplete", &["epic", "node"]),
    ("TodoList", &["epic"]),
    ("TodoReprioritise", &["epic", "priorities"]),
    ("NodePriority", &["node"]),
    ("TodoInsights", &["epic"]),
    ("TodoRecommend", &["epic"]),
    ("WorkUnblock", &["epic", "node"]),
    ("ScheduleDelete", &["schedule"]),
    ("ScheduledGoal", &["project", "plan"]),
    ("ScheduledMail", &["to", "text"]),
];

/// What the planner answers; its own schemas, under the bounds of every plan.
const ANSWERS: [(&str, Purpose); 2] =
    [("PlannerPlan", Purpose::Plan), ("PlannerSplit", Purpose::Split)];

/// What people write as files; these schemas are written by hand, and tests hold them against the readers.
const FILES: [(&str, &str); 1] =
    [("PlanFile", include_str!("../../../proto/schema/PlanFile.json"))];

/// The messages and files that have a schema, in order.
#[must_use]
pub fn names() -> Vec<&'static str> {
    let requests = MessageDescriptor::all().filter(|it| is_request(it)).map(|it| it.name);
    let mut names: Vec<&str> = requests.chain(OTHERS.split(' ')).collect();
    names.extend(ANSWERS.map(|(name, _)| name));
    names.extend(FILES.map(|(name, _)| name));
    names.sort_unstable();
    names
}

/// The JSON Schema (draft 2020-12) of a public message or file; none for any other name.
#[must_use]
pub fn schema(name: &str) -> Option<Value> {
    let mut schema = described(name)?;
    schema.sort_all_objects();
    Some(schema)
}

fn described(name: &str) -> Option<Value> {
    if let Some((_, purpose)) = ANSWERS.iter().find(|(answer, _)| *answer == name) {
        return Some(planner::schema::answer(*purpose, Bounds::default()));
    }
    if let Some((_, text)) = FILES.iter().find(|(file, _)| *file == name) {
        return serde_json::from_str(text).ok();
    }
    let root = MessageDescriptor::named(name)?;
    let strict = is_request(root);
    if !strict && !OTHERS.split(' ').any(|other| other == name) {
        return None;
    }
    let mut within = BTreeSet::new();
    reach(root, &mut within);
    within.remove(name);
    let parts: Map<String, Value> = within
        .into_iter()
        .filter_map(|part| Some((part.to_owned(), object(MessageDescriptor::named(part)?, strict))))
        .collect();
    let mut schema = object(root, strict);
    if let Value::Object(fields) = &mut schema {
        fields.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
        fields.insert("title".to_owned(), json!(name));
        if !parts.is_empty() {
            fields.insert("$defs".to_owned(), Value::Object(parts));
        }
    }
    Some(schema)
}

/// Whether somebody may ask with it: it has an id, and may say who sends it. A field that it does not know is refused.
fn is_request(message: &MessageDescriptor) -> bool {
    message.field("request_id").is_some() && message.field("sender").is_some()
}

/// Every message that can stand inside another.
fn reach(message: &MessageDescriptor, within: &mut BTreeSet<&'static str>) {
    for field in message.fields {
        if let FieldKind::Message(name) = field.kind
            && within.insert(name)
            && let Some(inner) = MessageDescriptor::named(name)
        {
            reach(inner, within);
        }
    }
}

fn object(message: &MessageDescriptor, strict: bool) -> Value {
    let properties: Map<String, Value> = message
        .fields
        .iter()
        .map(|field| (field.json.to_owned(), property(message, field)))
        .collect();
    let mut schema = json!({
        "type": "object",
        "description": message.about,
        "properties": properties,
    });
    let mut required: Vec<&str> = Vec::new();
    if is_request(message) {
        required.push("requestId");
    }
    if let Some((_, fields)) = REQUIRED.iter().find(|(name, _)| *name == message.name) {
        required.extend(*fields);
    }
    if let Value::Object(fields) = &mut schema {
        if !required.is_empty() {
            fields.insert("required".to_owned(), json!(required));
        }
        if strict {
            fields.insert("additionalProperties".to_owned(), Value::Bool(false));
        }
    }
    schema
}

fn property(message: &MessageDescriptor, field: &FieldDescriptor) -> Value {
    if JSON_TEXT.contains(&(message.name, field.name)) {
        return json!({ "description": field.about });
    }
    let one = match field.kind {
        FieldKind::Bool => json!({ "type": "boolean" }),
        FieldKind::Double => json!({ "type": "number" }),
        FieldKind::U32 => json!({ "type": "integer", "minimum": 0 }),
        FieldKind::U64 => {
            json!({ "type": ["string", "integer"], "pattern": "^[0-9]+$", "minimum": 0 })
        }
        FieldKind::Text => json!({ "type": "string" }),
        FieldKind::Map => json!({ "type": "object", "additionalProperties": { "type": "string" } }),
        FieldKind::Message(name) => json!({ "$ref": format!("#/$defs/{name}") }),
    };
    let mut schema = if field.repeated { json!({ "type": "array", "items": one }) } else { one };
    if let Value::Object(fields) = &mut schema {
        fields.insert("description".to_owned(), json!(field.about));
    }
    schema
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_listed_message_exists() {
        for name in names() {
            assert!(schema(name).is_some(), "{name}");
        }
        let distinct: BTreeSet<&str> = names().into_iter().collect();
        assert_eq!(names().len(), distinct.len());
        assert_eq!(
            names()
                .iter()
                .filter(|name| MessageDescriptor::named(name).is_some_and(is_request))
                .count(),
            53
        );
        assert_eq!(schema("Entry"), None);
        for (name, required) in REQUIRED {
            let message = MessageDescriptor::named(name).unwrap();
            for field in required {
                assert!(message.fields.iter().any(|known| known.json == *field), "{name}.{field}");
            }
        }
        for (name, field) in JSON_TEXT {
            assert!(
                MessageDescriptor::named(name).unwrap().field(field).is_some(),
                "{name}.{field}"
            );
        }
    }

    /// With `UPDATE=1` the files are written instead of compared.
    #[test]
    fn proto_files_match_the_printed_schema() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto/schema");
        let update = std::env::var_os("UPDATE").is_some();
        let mut expected = BTreeSet::new();
        for name in names() {
            let file = format!("{name}.json");
            let text = serde_json::to_string_pretty(&schema(name).unwrap()).unwrap() + "\n";
            if update {
                fs::create_dir_all(&dir).unwrap();
                fs::write(dir.join(&file), &text).unwrap();
            }
            let found = fs::read_to_string(dir.join(&file)).unwrap_or_default();
            assert_eq!(found, text, "{file} is not current; run this test with UPDATE=1");
            expected.insert(file);
        }
        for entry in fs::read_dir(&dir).unwrap() {
            let file = entry.unwrap().file_name().into_string().unwrap();
            assert!(expected.contains(&file), "{file} belongs to no message; remove it");
        }
    }
}
