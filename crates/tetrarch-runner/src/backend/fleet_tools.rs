//! The tools of the fleet, of models and of coding agents: those by which an agent asks people, wants agents, says how
//! it stands, writes and waits for mail, reserves files and looks at its goal's work. Each goes the way that programs'
//! lines go (docs/stdio-protocol.md). Pure: waits for nothing.

mod operation;

use std::time::Duration;

use serde_json::{Map, Value, json};
use tetrarch_core::brief::SPAWN_TOOL;
use tetrarch_core::converse::{Effect, FINISH, ToolDefinition};
use tetrarch_core::hosted;
use tetrarch_core::id::RequestId;
use tetrarch_core::limits::{
    LIST_MAX, SUBAGENTS_PER_REQUEST_MAX, TEXT_BYTES_MAX, WAIT_SECONDS, WAIT_SECONDS_MAX,
};
use tetrarch_core::order::{RunnerEvent, Start};
use tetrarch_core::overseer::update;

use crate::lines::start_of;
use crate::protocol::NamedFile;

pub(super) use operation::CallOrigin;
pub(crate) use operation::OwnerOperation;
use operation::{operation, write};

/// The topic of an answer to a question.
pub(super) const ANSWER: &str = "answer";
/// The topic of a question that was not asked.
pub(super) const ASK_REFUSED: &str = "ask.refused";
/// The topic of a request for a status update.
pub(super) const STATUS_REQUEST: &str = "status.request";

/// Topics of what people answer, or why they were not asked.
pub(super) const OF_PEOPLE: [&str; 2] = [ANSWER, ASK_REFUSED];

/// Topics of what comes of operations and messages: of no use to anybody but who waits for it. What people answer is.
pub(super) const ANSWERS: [&str; 3] = [hosted::REPLY, hosted::MAIL_SENT, hosted::MAIL_REFUSED];

/// How long the owner's answer to a request is waited for.
pub(super) const REPLY_WITHIN: Duration = Duration::from_secs(60);

/// What came of a call, in words; the error as well.
pub(super) type CallText = Result<String, String>;

/// What a call comes to.
#[derive(Debug, PartialEq)]
pub(super) enum FleetCall {
    /// People are asked.
    Ask { question: String, options: Vec<String> },
    /// This is told, and the model hears these words.
    Tell { event: RunnerEvent, words: String },
    /// The next message is waited for, so many seconds.
    AwaitMail { seconds: u64 },
    /// What has come and was not given yet is wanted.
    ReadMail,
    /// This is told, and what comes of it names the request; it is waited for so long.
    Request { id: RequestId, event: RunnerEvent, within: Duration },
    /// This file of the workspace is to be stored under this id.
    HandOver { id: RequestId, file: NamedFile },
}

/// The tools that a run may use.
pub(crate) fn allowed(start: &Start) -> impl Iterator<Item = ToolDefinition> {
    let tools = &start.brief.tools;
    let profiles = start.delegation.as_ref().map_or(&[][..], |told| &told.profiles);
    let own = AgentTool::ALL.into_iter().filter(|own| tools.has(own.name()));
    own.map(|own| own.definition(profiles))
}

/// Whether a coding agent has them: its list names one, or `finish`, which comes with them.
pub(crate) fn is_offered(start: &Start) -> bool {
    allowed(start).next().is_some() || start.brief.tools.has(FINISH)
}

/// The names of all of them.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    AgentTool::ALL.into_iter().map(AgentTool::name).chain([FINISH])
}

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AgentTool {
    /// A question to people.
    AskHuman,
    /// Agents of its own.
    AgentSpawn,
    /// A status update.
    TodoUpdate,
    /// What it does, in words and numbers.
    Progress,
    /// The next message of its inbox.
    MailWait,
    /// The messages that it was not given yet.
    MailInbox,
    /// A file that is stored at once.
    ArtifactPut,
    /// A message to another agent.
    MailSend,
    /// Something that the owner is asked for.
    Operate(OwnerOperation),
}

impl AgentTool {
    pub(super) const ALL: [Self; 19] = [
        Self::AskHuman,
        Self::AgentSpawn,
        Self::TodoUpdate,
        Self::Progress,
        Self::MailWait,
        Self::MailInbox,
        Self::MailSend,
        Self::ArtifactPut,
        Self::Operate(OwnerOperation::ArtifactGet),
        Self::Operate(OwnerOperation::FileReserve),
        Self::Operate(OwnerOperation::FileRelease),
        Self::Operate(OwnerOperation::AgentStatus),
        Self::Operate(OwnerOperation::AgentWait),
        Self::Operate(OwnerOperation::AgentVerb),
        Self::Operate(OwnerOperation::TodoList),
        Self::Operate(OwnerOperation::TodoAdd),
        Self::Operate(OwnerOperation::PlanReview),
        Self::Operate(OwnerOperation::NotePut),
        Self::Operate(OwnerOperation::NoteSearch),
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::AskHuman => "ask_human",
            Self::AgentSpawn => SPAWN_TOOL,
            Self::TodoUpdate => "todo_update",
            Self::Progress => "progress",
            Self::MailWait => "mail_wait",
            Self::MailInbox => "mail_inbox",
            Self::ArtifactPut => "artifact_put",
            Self::MailSend => "mail_send",
            Self::Operate(asked) => asked.name(),
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|own| own.name() == name)
    }

    /// What this call of it comes to.
    ///
    /// # Errors
    /// What is missing or wrong, for the model.
    pub(super) fn call(
        self,
        arguments: Map<String, Value>,
        of: CallOrigin<'_>,
    ) -> Result<FleetCall, String> {
        Ok(match self {
            Self::AskHuman => question(&arguments)?,
            Self::AgentSpawn => {
                let (id, request) = spawn(&arguments, of)?;
                let words = format!("asked as {id}; the answer comes as mail");
                FleetCall::Tell { event: RunnerEvent::Spawn { request }, words }
            }
            Self::TodoUpdate => {
                let update = status(arguments)?;
                FleetCall::Tell { event: RunnerEvent::Update { update }, words: "noted".to_owned() }
            }
            Self::Progress => progress(&arguments)?,
            Self::MailWait => FleetCall::AwaitMail { seconds: wait(&arguments) },
            Self::MailInbox => FleetCall::ReadMail,
            Self::ArtifactPut => hand_over(&arguments, of)?,
            Self::MailSend => write(&arguments, of)?,
            Self::Operate(asked) => operation(asked, arguments, of)?,
        })
    }

    /// What the model is told of it, with the profiles that it may choose from. Called twice, each of them does what
    /// it did once: the owner knows questions and requests again, and a reader messages.
    pub(super) fn definition(self, profiles: &[(String, String)]) -> ToolDefinition {
        let (description, properties, required) = match self {
            Self::AskHuman => ask_human(),
            Self::AgentSpawn => agent_spawn(profiles),
            Self::TodoUpdate => todo_update(),
            Self::Progress => told_progress(),
            Self::MailWait => {
                ("Waits for the next mail and gives it.", json!({"seconds": seconds()}), json!([]))
            }
            Self::MailInbox => (
                "Gives the mail that came and was not given to you yet, and says which you were given before.",
                json!({}),
                json!([]),
            ),
            Self::ArtifactPut => artifact_put(),
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

/// When to use it is said by the mode, in the prompt; here is only how.
fn agent_spawn(profiles: &[(String, String)]) -> Described {
    let known: Vec<&str> = profiles.iter().map(|(name, _)| name.as_str()).collect();
    let offered: Vec<String> =
        profiles.iter().map(|(name, purpose)| format!("{name}: {purpose}")).collect();
    let texts =
        |what: &str| json!({"type": "array", "items": {"type": "string"}, "description": what});
    let count = |what: &str| json!({"type": "integer", "minimum": 1, "description": what});
    let mut profile = described("How it works; `default` unless said.");
    if !known.is_empty() {
        profile = json!({"type": "string", "enum": known,
            "description": format!("How it works; `default` unless said.\n{}", offered.join("\n"))});
    }
    let agent = json!({
        "role": {"type": "string", "enum": ["worker", "specialist", "reviewer"]},
        "domain": described("For specialists and reviewers."),
        "task": described("Its goal, in one paragraph; it knows nothing of your conversation."),
        "keyFacts": texts("What it has to know."),
        "notes": texts("Names of notes of the project that it is given with `keyFacts`."),
        "successCriteria": texts("By what its work is judged; needed with `keyFacts`, `outputSchema` and `scopePaths`."),
        "definitionOfDone": described("When it may call itself done."),
        "outputSchema": {"type": "object", "description": "The JSON Schema of its deliverable; text unless given."},
        "scopePaths": texts("Globs of what it may change."),
        "profile": profile,
        "tools": texts("Names of tools out of yours; the profile's unless given."),
        "budget": {"type": "object", "description": "Its part of your budget; needed with `successCriteria`.",
            "properties": {"tokens": count("Tokens."), "turns": count("Turns."),
                "costUsd": {"type": "number"}, "wall": described("The longest run, `10m` for instance.")}},
    });
    (
        "Asks for agents of your own. The answer, and later their results, come as mail.",
        json!({
            "agents": {"type": "array", "minItems": 1, "maxItems": SUBAGENTS_PER_REQUEST_MAX,
                "items": {"type": "object", "properties": agent, "required": ["role", "task"]}},
            "reason": described("Why they are needed."),
            "wait": {"type": "boolean",
                "description": "Queue the request if only a free slot or a place on a host is missing."},
        }),
        json!(["agents", "reason"]),
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
fn question(arguments: &Map<String, Value>) -> Result<FleetCall, String> {
    let options = arguments.get("options").and_then(Value::as_array);
    let options = options.into_iter().flatten().filter_map(Value::as_str);
    let options = options.take(LIST_MAX).map(str::to_owned).collect();
    Ok(FleetCall::Ask { question: text(arguments, "question")?, options })
}

/// A spawn request's body, under an id that the same call has in every session.
///
/// # Errors
/// What is missing.
fn spawn(
    arguments: &Map<String, Value>,
    of: CallOrigin<'_>,
) -> Result<(RequestId, String), String> {
    let id = of.lasting();
    let agents = arguments.get("agents").and_then(Value::as_array).filter(|all| !all.is_empty());
    let agents = agents.ok_or("`agents` is missing: a list is needed")?;
    let wishes = agents.iter().map(|agent| {
        let refused = || format!("`agents` holds {agent}: objects are needed");
        wish(agent.as_object().ok_or_else(refused)?)
    });
    let body = json!({
        "requestId": id.to_string(),
        "spawnReason": text(arguments, "reason")?,
        "requestedSubagents": wishes.collect::<Result<Vec<Value>, String>>()?,
        "wait": arguments.get("wait").and_then(Value::as_bool).unwrap_or_default(),
    });
    Ok((id, body.to_string()))
}

/// One of the agents that are asked for, as a request has it. What is said of its work besides the task makes it a
/// whole brief.
fn wish(agent: &Map<String, Value>) -> Result<Value, String> {
    let mut wish = json!({"role": text(agent, "role")?});
    for (key, field) in
        [("domain", "domain"), ("profile", "runner"), ("tools", "tools"), ("budget", "budget")]
    {
        if let Some(given) = agent.get(key) {
            wish[field] = given.clone();
        }
    }
    // No tools at all are said by a flag.
    wish["noTools"] = agent.get("tools").is_some_and(|it| *it == json!([])).into();
    let mut brief = Map::new();
    for key in ["keyFacts", "notes", "successCriteria", "definitionOfDone", "scopePaths"] {
        brief.extend(agent.get(key).map(|given| (key.to_owned(), given.clone())));
    }
    let schema = agent.get("outputSchema").map(|schema| schema.to_string());
    brief.extend(schema.map(|schema| ("expectedOutput".to_owned(), schema.into())));
    let task = text(agent, "task")?;
    if brief.is_empty() {
        wish["task"] = task.into();
    } else {
        brief.insert("goal".to_owned(), task.into());
        wish["brief"] = brief.into();
    }
    Ok(wish)
}

/// A status update.
///
/// # Errors
/// What is wrong with it.
fn status(arguments: Map<String, Value>) -> Result<String, String> {
    let update = Value::Object(arguments);
    update::from_value(&update).map_err(|error| error.to_string())?;
    Ok(update.to_string())
}

fn told_progress() -> Described {
    let count = |what: &str| json!({"type": "integer", "minimum": 0, "description": what});
    (
        "Shows people what you are doing, and how far you are.",
        json!({
            "text": described("What you are doing, in a few words."),
            "done": count("Steps that are done."),
            "total": count("Steps in all."),
        }),
        json!(["text"]),
    )
}

fn artifact_put() -> Described {
    (
        "Stores a file of your workspace now, and hands it over with your result. It gives the name by which agents \
         that you write it to read the file.",
        json!({
            "path": described("The file, relative to your workspace."),
            "name": described("What it is called in your result; its path unless said."),
            "mediaType": described("Its media type, `text/csv` for instance."),
        }),
        json!(["path"]),
    )
}

/// Words and numbers about the work.
///
/// # Errors
/// What is missing or wrong.
fn progress(arguments: &Map<String, Value>) -> Result<FleetCall, String> {
    let text = start_of(&text(arguments, "text")?, TEXT_BYTES_MAX).to_owned();
    let count = |key: &str| match arguments.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(given) => given
            .as_u64()
            .map(Some)
            .ok_or_else(|| format!("`{key}` is {given}: a number of steps is needed")),
    };
    let event = RunnerEvent::Progress { text, done: count("done")?, total: count("total")? };
    Ok(FleetCall::Tell { event, words: "noted".to_owned() })
}

/// A file that is to be stored.
///
/// # Errors
/// What is missing.
fn hand_over(arguments: &Map<String, Value>, of: CallOrigin<'_>) -> Result<FleetCall, String> {
    let path = text(arguments, "path")?;
    let given = |key: &str| text(arguments, key).ok();
    let file = NamedFile {
        name: given("name").unwrap_or_else(|| path.clone()),
        path,
        media_type: given("mediaType"),
    };
    Ok(FleetCall::HandOver { id: of.passing(), file })
}

fn seconds() -> Value {
    json!({"type": "integer", "minimum": 1, "maximum": WAIT_SECONDS_MAX})
}

/// How long something is waited for, in seconds.
fn wait(arguments: &Map<String, Value>) -> u64 {
    let seconds = arguments.get("seconds").and_then(Value::as_u64);
    seconds.unwrap_or(WAIT_SECONDS).clamp(1, WAIT_SECONDS_MAX)
}

/// A message of the inbox as a model reads it.
pub(super) fn mail_words(topic: &str, from: &str, body: &str) -> String {
    format!("[mail from {from}, topic {topic}]\n{body}")
}

/// What came of a call or a question, by this topic and body.
///
/// # Errors
/// Why it was refused, or not asked.
pub(super) fn replied(topic: &str, body: &str) -> CallText {
    let said = |key: &str| {
        let body: Value = serde_json::from_str(body).unwrap_or_default();
        body.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    match topic {
        ASK_REFUSED => Err(said("error")),
        ANSWER => Ok(said("text")),
        _ => operation::replied(body),
    }
}

fn text(arguments: &Map<String, Value>, key: &str) -> Result<String, String> {
    let given = arguments.get(key).and_then(Value::as_str).map(str::trim);
    given
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
        .ok_or_else(|| format!("`{key}` is missing: a text is needed"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tetrarch_core::agent::Mode;
    use tetrarch_core::converse::{Call, Due};
    use tetrarch_core::id::{AgentId, Ulid};

    fn asked(arguments: Value) -> Result<String, String> {
        let Value::Object(arguments) = arguments else { panic!("{arguments}") };
        let call =
            Call { id: "c".to_owned(), tool: SPAWN_TOOL.to_owned(), arguments: String::new() };
        let due = Due { step: 1, index: 0, call };
        let of = CallOrigin { agent: &AgentId::Worker(Ulid(1)), epoch: 1, due: &due };
        spawn(&arguments, of).map(|(_, body)| body)
    }

    #[test]
    fn spawn_tool_lists_profiles_and_leaves_when_to_the_mode() {
        let profiles = [("hands".to_owned(), "edits files".to_owned())];
        let told = AgentTool::AgentSpawn.definition(&profiles);
        let profile = &told.schema["properties"]["agents"]["items"]["properties"]["profile"];
        assert_eq!(profile["enum"], json!(["hands"]));
        assert!(profile["description"].as_str().unwrap().contains("hands: edits files"));
        let all = format!("{} {}", told.description, told.schema).to_lowercase();
        let sentences =
            Mode::ALL.into_iter().flat_map(|mode| mode.guidance().split(['.', ':', ',']));
        let sentences = sentences.map(|it| it.trim().to_lowercase()).filter(|it| !it.is_empty());
        for policy in
            sentences.chain(["delegate", "prefer", "should", "whenever"].map(str::to_owned))
        {
            assert!(!all.contains(&policy), "{policy}");
        }
    }

    #[test]
    fn whole_brief_of_several_agents_becomes_a_request() {
        let brief = json!({
            "role": "worker", "task": "mend it", "profile": "hands", "tools": [], "budget": {"turns": 3},
            "keyFacts": ["f"], "notes": ["n"], "successCriteria": ["c"], "definitionOfDone": "d",
            "scopePaths": ["src/**"], "outputSchema": {"type": "object"},
        });
        let bare =
            json!({"role": "reviewer", "domain": "code", "task": "judge it", "tools": ["read"]});
        let body = asked(json!({"reason": "r", "wait": true, "agents": [brief, bare]})).unwrap();
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body["wait"], true);
        let brief = json!({
            "goal": "mend it", "keyFacts": ["f"], "notes": ["n"], "successCriteria": ["c"],
            "definitionOfDone": "d", "scopePaths": ["src/**"], "expectedOutput": "{\"type\":\"object\"}",
        });
        let expected = json!([
            {"role": "worker", "runner": "hands", "tools": [], "noTools": true, "budget": {"turns": 3},
             "brief": brief},
            {"role": "reviewer", "domain": "code", "task": "judge it", "tools": ["read"], "noTools": false},
        ]);
        assert_eq!(body["requestedSubagents"], expected);
    }

    #[test]
    fn request_without_agents_role_or_task_names_what_is_missing() {
        for (arguments, missing) in [
            (json!({"reason": "r"}), "`agents`"),
            (json!({"reason": "r", "agents": []}), "`agents`"),
            (json!({"reason": "r", "agents": [7]}), "`agents` holds 7"),
            (json!({"reason": "r", "agents": [{"role": "worker"}]}), "`task`"),
            (json!({"reason": "r", "agents": [{"task": "t"}]}), "`role`"),
            (json!({"agents": [{"role": "worker", "task": "t"}]}), "`reason`"),
        ] {
            let error = asked(arguments).unwrap_err();
            assert!(error.starts_with(missing), "{error}");
        }
    }
}
