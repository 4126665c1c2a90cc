//! What a session's program does on the bus by its agent's authority: operations, and messages to other
//! agents (spec 02, Mail; spec 03). The owner judges an operation, the reader's host a message.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value, json};

use crate::error::ErrorCode;
use crate::id::{AgentId, DispatchId, Principal, RequestId};
use crate::limits::{INSTRUCTION_BYTES_MAX, LETTERS_KNOWN_MAX, TEXT_BYTES_MAX};
use crate::mail::{Mail, MailBody};
use crate::order::{Inbound, Order};

use super::{HostedSession, SessionEffect};

/// Operations that a program may ask for. Whether its agent may, is the owner's to say.
pub const OPERATIONS: [&str; 21] = [
    "agent.interrupt",
    "agent.pause",
    "agent.resume",
    "agent.retire",
    "agent.status",
    "agent.steer",
    WAIT,
    GET,
    "file.list",
    "file.release",
    "file.reserve",
    "note.delete",
    "note.put",
    "note.search",
    "todo.add",
    "todo.graph_insights",
    "todo.list",
    "todo.merge",
    "todo.plan",
    "todo.recommend",
    "todo.split",
];

/// What its own session answers: the agents below it, and artifacts.
pub(super) const WAIT: &str = "agent.wait";
pub(super) const GET: &str = "artifact.get";
/// What is answered like an operation, and has words of its own.
pub(super) const PUT: &str = "artifact.put";

/// What a program asks for as an operation though it is mail to GO: that people look at the plan.
const REVIEW: &str = "plan.review_needed";
/// How often one session may ask people to look at its plan.
const REVIEWS_MAX: usize = 8;

/// The topic of an answer to an operation.
pub const REPLY: &str = "reply";
/// The topics of what became of a message.
pub const MAIL_SENT: &str = "mail.sent";
/// The same of one that was not sent.
pub const MAIL_REFUSED: &str = "mail.refused";

/// What was given to the program of its inbox.
#[derive(Debug, Clone, Default)]
pub(super) struct RecentMail {
    /// What it has not taken yet, by its place, with what is to be told of when it has.
    pub(super) in_hand: BTreeMap<u64, Option<DispatchId>>,
    /// The last messages of other agents, at most [`LETTERS_KNOWN_MAX`].
    known: BTreeSet<(Principal, RequestId)>,
    /// The same as they came, the oldest first.
    order: VecDeque<(Principal, RequestId)>,
}

impl RecentMail {
    /// Notes one; false when it is known. The oldest gives way.
    fn note(&mut self, letter: (Principal, RequestId)) -> bool {
        if !self.known.insert(letter.clone()) {
            return false;
        }
        self.order.push_back(letter);
        if self.order.len() > LETTERS_KNOWN_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }
}

impl HostedSession {
    /// The same with a seed of its own for the ids of requests that the program gives none: what nobody else
    /// knows, since a request is refused when somebody asked under its id before.
    #[must_use]
    pub fn with_id_seed(self, id_seed: String) -> Self {
        Self { id_seed, ..self }
    }

    /// Passes an operation on; one of `todo.*` is about the run's own goal unless it says otherwise.
    pub(super) fn operate(
        &mut self,
        id: Option<RequestId>,
        op: String,
        body: &str,
        effects: &mut Vec<SessionEffect>,
    ) {
        let id = id.unwrap_or_else(|| self.next_id("op"));
        if op != REVIEW && !OPERATIONS.contains(&op.as_str()) {
            let detail = format!("a program may request: {}, {REVIEW}", OPERATIONS.join(", "));
            return self.refuse((&op, id), ErrorCode::Unauthorized, detail, effects);
        }
        let Ok(Value::Object(mut body)) = serde_json::from_str(body) else {
            let detail = "the body is not a JSON object".to_owned();
            return self.refuse((&op, id), ErrorCode::InvalidRequest, detail, effects);
        };
        match op.as_str() {
            REVIEW => return self.review(id, &body, effects),
            WAIT => return self.wait_for_agents(id, &body, effects),
            GET => return self.fetch(id, &body, effects),
            _ => {}
        }
        body.insert("requestId".to_owned(), id.to_string().into());
        if op.starts_with("todo.") {
            body.entry("epic").or_insert_with(|| self.run.epic.to_string().into());
        }
        if op == "agent.status" {
            body.entry("agent").or_insert_with(|| self.launch.agent.to_string().into());
        }
        let body = Value::Object(body).to_string();
        effects.push(SessionEffect::Operate { id, op, body });
    }

    /// Has people told to look at the plan.
    fn review(
        &mut self,
        id: RequestId,
        body: &Map<String, Value>,
        effects: &mut Vec<SessionEffect>,
    ) {
        let reason = body.get("reason").and_then(Value::as_str).unwrap_or_default().trim();
        if reason.is_empty() || reason.len() > TEXT_BYTES_MAX {
            let detail = format!("reason: {} bytes; allowed: 1 to {TEXT_BYTES_MAX}", reason.len());
            return self.refuse((REVIEW, id), ErrorCode::InvalidRequest, detail, effects);
        }
        if self.reviews >= REVIEWS_MAX {
            let detail = format!("people were told {REVIEWS_MAX} times by this session");
            return self.refuse((REVIEW, id), ErrorCode::Unavailable, detail, effects);
        }
        self.reviews += 1;
        let body = MailBody::ReviewNeeded { reason: reason.to_owned() };
        self.post(AgentId::Go, id, body, effects);
        let told = json!({"op": REVIEW, "detail": "people are told"});
        self.answer(REPLY, id, &told, effects);
    }

    /// Says why an operation is not done.
    pub(super) fn refuse(
        &self,
        (op, id): (&str, RequestId),
        code: ErrorCode,
        detail: String,
        effects: &mut Vec<SessionEffect>,
    ) {
        let refused = json!({"op": op, "error": code.to_string(), "detail": detail});
        self.answer(REPLY, id, &refused, effects);
    }

    /// Sends a message, and says that it is sent.
    pub(super) fn write(
        &mut self,
        id: Option<RequestId>,
        to: &str,
        text: String,
        effects: &mut Vec<SessionEffect>,
    ) {
        let id = id.unwrap_or_else(|| self.next_id("mail"));
        let refused = match self.reader(to) {
            Ok(_) if text.is_empty() || text.len() > INSTRUCTION_BYTES_MAX => {
                format!("text: {} bytes; allowed: 1 to {INSTRUCTION_BYTES_MAX}", text.len())
            }
            Ok(to) => {
                self.post(to.clone(), id, MailBody::Info { text }, effects);
                return self.answer(MAIL_SENT, id, &json!({"to": to.to_string()}), effects);
            }
            Err(refused) => refused,
        };
        self.answer(MAIL_REFUSED, id, &json!({"error": refused}), effects);
    }

    fn post(&self, to: AgentId, id: RequestId, body: MailBody, effects: &mut Vec<SessionEffect>) {
        effects.push(SessionEffect::Mail(Box::new(Mail {
            to: Principal::Agent(to),
            epic: Some(self.run.epic),
            correlation: Some(id),
            cause: self.run.id.to_string(),
            ack_required: false,
            trace: self.trace.clone(),
            body,
        })));
    }

    /// Whether a message was given to the program already: a writer that goes on after a death sends what it does
    /// not know to be sent again, under the same id.
    pub(super) fn knows(&mut self, from: &Principal, mail: &Mail) -> bool {
        let (MailBody::Info { .. }, Some(id)) = (&mail.body, mail.correlation) else {
            return false;
        };
        !self.letters.note((from.clone(), id))
    }

    /// Whom a program means.
    fn reader(&self, to: &str) -> Result<AgentId, String> {
        match (to, &self.launch.project) {
            ("parent", _) => Ok(self.launch.parent.clone()),
            ("po", Some(project)) => Ok(AgentId::Po(project.clone())),
            ("po", None) => Err("to: this agent belongs to no project".to_owned()),
            (id, _) => id.parse().map_err(|_| {
                format!("to: {id:?} is not an agent; write to `parent`, `po`, or an agent's id")
            }),
        }
    }

    fn next_id(&mut self, what: &str) -> RequestId {
        self.asked_for += 1;
        RequestId::derive(self.run.created, &self.id_seed, what, self.asked_for)
    }

    pub(super) fn answer(
        &self,
        topic: &str,
        id: RequestId,
        body: &Value,
        effects: &mut Vec<SessionEffect>,
    ) {
        let (topic, from) = (topic.to_owned(), AgentId::Go.to_string());
        let line =
            Inbound::Mail { topic, from, body: body.to_string(), place: 0, answers: Some(id) };
        effects.push(SessionEffect::Order(Box::new(Order::Deliver { run: self.run.id, line })));
    }
}

/// Whether a body has no other fields than these.
pub(super) fn only(body: &Map<String, Value>, fields: &[&str]) -> Result<(), String> {
    match body.keys().find(|key| !fields.contains(&key.as_str())) {
        Some(key) => Err(format!("{key}: is an unknown key; allowed: {}", fields.join(", "))),
        None => Ok(()),
    }
}
