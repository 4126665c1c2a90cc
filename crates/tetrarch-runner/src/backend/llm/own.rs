//! The tools that a conversation has of its own: those by which an agent asks people, wants agents, says how it
//! stands, writes and waits for mail, reserves files and looks at its goal's work. Each goes the way that programs'
//! lines go (docs/stdio-protocol.md).

mod operation;

use serde_json::{Map, Value, json};
use tetrarch_core::converse::{Due, Effect, ToolDefinition};
use tetrarch_core::hosted;
use tetrarch_core::id::{AgentId, RequestId};
use tetrarch_core::limits::LIST_MAX;
use tetrarch_core::overseer::update;
use tetrarch_core::time::BusTime;

use super::input::InboxMessage;

pub(super) use operation::{Operation, OwnerOperation, operation, replied, write};

/// The topic of an answer to a question.
pub(crate) const ANSWER: &str = "answer";
/// The topic of a question that was not asked.
pub(crate) const ASK_REFUSED: &str = "ask.refused";
/// The topic of a request for a status update.
pub(crate) const STATUS_REQUEST: &str = "status.request";

/// Topics of what comes of operations and messages: heard by who waits for it.
pub(super) const ANSWERS: [&str; 3] = [hosted::REPLY, hosted::MAIL_SENT, hosted::MAIL_REFUSED];

/// Longest wait for mail, in seconds.
const WAIT_MAX: u64 = 3_600;
/// The wait when none is named.
const WAIT: u64 = 60;

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AgentTool {
    /// A question to people.
    AskHuman,
    /// Agents of its own.
    AgentSpawn,
    /// A status update.
    TodoUpdate,
    /// The next message of its inbox.
    MailWait,
    /// A message to another agent.
    MailSend,
    /// Something that the owner is asked for.
    Operate(OwnerOperation),
}

impl AgentTool {
    pub(super) const ALL: [Self; 10] = [
        Self::AskHuman,
        Self::AgentSpawn,
        Self::TodoUpdate,
        Self::MailWait,
        Self::MailSend,
        Self::Operate(OwnerOperation::FileReserve),
        Self::Operate(OwnerOperation::FileRelease),
        Self::Operate(OwnerOperation::AgentStatus),
        Self::Operate(OwnerOperation::TodoList),
        Self::Operate(OwnerOperation::TodoAdd),
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::AskHuman => "ask_human",
            Self::AgentSpawn => "agent_spawn",
            Self::TodoUpdate => "todo_update",
            Self::MailWait => "mail_wait",
            Self::MailSend => "mail_send",
            Self::Operate(asked) => asked.name(),
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|own| own.name() == name)
    }

    /// What the model is told of it. Called twice, each of them does what it did once: the owner knows
    /// questions and requests again, and a reader messages.
    pub(super) fn definition(self) -> ToolDefinition {
        let (description, properties, required) = match self {
            Self::AskHuman => ask_human(),
            Self::AgentSpawn => agent_spawn(),
            Self::TodoUpdate => todo_update(),
            Self::MailWait => (
                "Waits for the next mail and gives it.",
                json!({"seconds": {"type": "integer", "minimum": 1, "maximum": WAIT_MAX}}),
                json!([]),
            ),
            Self::MailSend => operation::mail_send(),
            Self::Operate(asked) => asked.definition(),
        };
        ToolDefinition {
            name: self.name().to_owned(),
            description: description.to_owned(),
            schema: json!({"type": "object", "properties": properties, "required": required}),
            effect: Effect::Idempotent,
        }
    }
}

/// What a tool is for, its arguments, and those that it needs.
type Described = (&'static str, Value, Value);

fn described(what: &str) -> Value {
    json!({"type": "string", "description": what})
}

fn ask_human() -> Described {
    (
        "Asks the goal's owner, a human, and waits for the answer.",
        json!({
            "question": described("In words; say what depends on it."),
            "options": {"type": "array", "items": {"type": "string"}, "description": "Answers to choose from."},
        }),
        json!(["question"]),
    )
}

fn agent_spawn() -> Described {
    (
        "Asks for an agent of your own. The answer, and later its result, come as mail.",
        json!({
            "role": {"type": "string", "enum": ["worker", "specialist", "reviewer"]},
            "domain": described("For specialists and reviewers."),
            "task": described("What it is to do; it knows nothing but this."),
            "reason": described("Why it is needed."),
        }),
        json!(["role", "task", "reason"]),
    )
}

fn todo_update() -> Described {
    (
        "Says how your work stands.",
        json!({
            "status": {"type": "string", "enum": ["in_progress", "blocked", "done"]},
            "summary": described("What changed."),
            "next": described("The next concrete action."),
            "blockers": {"type": "array", "items": {"type": "string"}},
        }),
        json!(["status", "summary"]),
    )
}

/// A question and its options.
///
/// # Errors
/// What is missing.
pub(super) fn question(arguments: &Map<String, Value>) -> Result<(String, Vec<String>), String> {
    let options = arguments.get("options").and_then(Value::as_array);
    let options = options.into_iter().flatten().filter_map(Value::as_str);
    Ok((text(arguments, "question")?, options.take(LIST_MAX).map(str::to_owned).collect()))
}

/// A spawn request's body, under an id that the same call has in every session.
///
/// # Errors
/// What is missing.
pub(super) fn spawn(
    arguments: &Map<String, Value>,
    agent: &AgentId,
    due: &Due,
) -> Result<(RequestId, String), String> {
    let place = usize::try_from(due.step).unwrap_or(usize::MAX);
    let label = format!("agent_spawn.{}", due.index);
    let id = RequestId::derive(BusTime::default(), &agent.to_string(), &label, place);
    let mut wish = json!({"role": text(arguments, "role")?, "task": text(arguments, "task")?});
    if let Ok(domain) = text(arguments, "domain") {
        wish["domain"] = domain.into();
    }
    let body = json!({
        "requestId": id.to_string(),
        "spawnReason": text(arguments, "reason")?,
        "requestedSubagents": [wish],
    });
    Ok((id, body.to_string()))
}

/// A status update.
///
/// # Errors
/// What is wrong with it.
pub(super) fn status(arguments: Map<String, Value>) -> Result<String, String> {
    let update = Value::Object(arguments);
    update::from_value(&update).map_err(|error| error.to_string())?;
    Ok(update.to_string())
}

/// How long mail is waited for, in seconds.
pub(super) fn wait(arguments: &Map<String, Value>) -> u64 {
    arguments.get("seconds").and_then(Value::as_u64).unwrap_or(WAIT).clamp(1, WAIT_MAX)
}

/// Mail in words.
pub(super) fn words(mail: &InboxMessage) -> String {
    let InboxMessage { topic, from, body, .. } = mail;
    mail_words(topic, from, body)
}

/// A message of the inbox as a model reads it.
pub(crate) fn mail_words(topic: &str, from: &str, body: &str) -> String {
    format!("[mail from {from}, topic {topic}]\n{body}")
}

/// What an answer says, or why a question was not asked.
pub(super) fn answer(mail: &InboxMessage) -> Result<String, String> {
    answer_words(&mail.topic, &mail.body)
}

/// The same of a message that comes as this topic and body.
///
/// # Errors
/// Why the question was not asked.
pub(crate) fn answer_words(topic: &str, body: &str) -> Result<String, String> {
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    let said = |key: &str| body.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    if topic == ASK_REFUSED { Err(said("error")) } else { Ok(said("text")) }
}

fn text(arguments: &Map<String, Value>, key: &str) -> Result<String, String> {
    let given = arguments.get(key).and_then(Value::as_str).map(str::trim);
    given
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
        .ok_or_else(|| format!("`{key}` is missing: a text is needed"))
}
