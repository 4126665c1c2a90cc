//! Keys of STATE: `<kind>.<key>`, with `@` written `=`, `:` written `/` and a node's dots
//! written `_` (spec 02, Tokens). It knows names only, no values.

use tetrarch_core::conversation::TurnId;
use tetrarch_core::id::{AgentId, EpicId, HumanName, NodeId};
use tetrarch_core::ledger::RecordKey;
use tetrarch_core::words;

use super::token::{SubjectError, SubjectTokens};

/// What a key's subject begins with.
pub(super) const STATE_PREFIX: &str = "$KV.STATE.";
/// The one ledger's own token.
const LEDGER: &str = "main";
/// The longest key that is borne, in bytes.
const KEY_BYTES_MAX: usize = 256;
/// Tokens of [`STATE_PREFIX`].
pub(super) const STATE_TOKENS: usize = 2;

/// The kinds of records, each with its word, called as in [`RecordKey`].
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $word:literal,)+) => {
        words! {
            /// The kinds of records, as the first token of their keys.
            #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
            pub enum KeyKind {
                $($(#[$doc])* $kind = $word,)+
            }
        }

        impl KeyKind {
            /// The kind of a key.
            #[must_use]
            pub fn of(key: &RecordKey) -> Self {
                match key {
                    $(RecordKey::$kind { .. } => Self::$kind,)+
                }
            }
        }
    };
}

kinds! {
    /// Agents.
    Agent = "agent",
    /// Hosts.
    Host = "host",
    /// Projects.
    Project = "project",
    /// Profiles.
    Profile = "profile",
    /// Definitions of runs.
    Run = "run",
    /// States of runs.
    RunStatus = "run_state",
    /// Definitions of goals.
    Goal = "goal",
    /// States of goals.
    GoalState = "goal_state",
    /// Headers of plans.
    Plan = "plan",
    /// Definitions of nodes.
    Node = "node",
    /// States of nodes.
    NodeState = "node_state",
    /// Assignments.
    Assignment = "assignment",
    /// What was sent for assignments.
    Dispatch = "dispatch",
    /// Questions to the planner.
    Planning = "planning",
    /// Questions to people.
    Question = "question",
    /// Proposed changes of plans.
    Draft = "draft",
    /// The latest handoffs.
    Crystallization = "crystallization",
    /// What begins at set times.
    Schedule = "schedule",
    /// State graphs.
    Graph = "graph",
    /// Notes of projects.
    Note = "note",
    /// Turns of conversations.
    Turn = "turn",
    /// Paths that sessions hold.
    Reservation = "reservation",
    /// Changes before the branches they are for.
    Change = "change",
    /// Spawn requests that wait.
    QueuedSpawn = "queued_spawn",
    /// Decisions.
    Decision = "decision",
    /// The latest snapshot.
    Snapshot = "snapshot",
}

impl KeyKind {
    /// The pattern of the subjects of all records of this kind.
    #[must_use]
    pub fn pattern(self) -> String {
        format!("{STATE_PREFIX}{}.>", self.as_str())
    }

    /// The pattern of the subjects of this kind's records of one epic: nodes, their states, drafts,
    /// handoffs.
    #[must_use]
    pub fn pattern_of(self, epic: EpicId) -> String {
        format!("{STATE_PREFIX}{}.{epic}.>", self.as_str())
    }

    /// The pattern of the subjects of a person's turns.
    #[must_use]
    pub fn turns_of(human: &HumanName) -> String {
        format!("{STATE_PREFIX}{}.{human}.>", Self::Turn.as_str())
    }
}

/// A node as one token; none is `-`.
pub(super) fn node_token(node: Option<NodeId>) -> String {
    node.map_or_else(|| "-".to_owned(), |node| node.to_string().replace('.', "_"))
}

const NODE: &str = "a node id with _ for its dots, or -";

pub(super) fn parse_node(
    tokens: &SubjectTokens<'_>,
    index: usize,
) -> Result<Option<NodeId>, SubjectError> {
    match tokens.word(index) {
        "-" => Ok(None),
        word => parse_some_node(tokens, index, word).map(Some),
    }
}

fn parse_some_node(
    tokens: &SubjectTokens<'_>,
    index: usize,
    word: &str,
) -> Result<NodeId, SubjectError> {
    if word.contains('-') {
        return Err(tokens.wrong(index, NODE));
    }
    tokens.parse_as(index, &word.replace('_', "."), NODE)
}

fn agent_token(agent: &AgentId) -> String {
    agent.to_string().replace('@', "=").replace(':', "/")
}

fn parse_agent(tokens: &SubjectTokens<'_>, index: usize) -> Result<AgentId, SubjectError> {
    let word = tokens.word(index);
    let expected = "an agent's identity with = for @ and / for :";
    if word.contains(['@', ':']) {
        return Err(tokens.wrong(index, expected));
    }
    tokens.parse_as(index, &word.replace('=', "@").replace('/', ":"), expected)
}

/// The key of a record in STATE, without the bucket.
#[must_use]
pub fn record_key(key: &RecordKey) -> String {
    let kind = KeyKind::of(key).as_str();
    match key {
        RecordKey::Agent(agent) => format!("{kind}.{}", agent_token(agent)),
        RecordKey::Host(host) => format!("{kind}.{host}"),
        RecordKey::Project(project) => format!("{kind}.{project}"),
        RecordKey::Profile(project, profile) => format!("{kind}.{project}.{profile}"),
        RecordKey::Run(run) | RecordKey::RunStatus(run) => format!("{kind}.{run}"),
        RecordKey::Goal(epic) | RecordKey::GoalState(epic) | RecordKey::Plan(epic) => {
            format!("{kind}.{epic}")
        }
        RecordKey::Node(epic, node) | RecordKey::NodeState(epic, node) => {
            format!("{kind}.{epic}.{}", node_token(Some(*node)))
        }
        RecordKey::Assignment(assignment) => format!("{kind}.{assignment}"),
        RecordKey::Dispatch(dispatch) | RecordKey::Planning(dispatch) => {
            format!("{kind}.{dispatch}")
        }
        RecordKey::Question(question) => format!("{kind}.{question}"),
        RecordKey::Draft(epic, draft) => format!("{kind}.{epic}.{draft}"),
        RecordKey::Crystallization(epic, node) => {
            format!("{kind}.{epic}.{}", node_token(*node))
        }
        RecordKey::Schedule(schedule) => format!("{kind}.{schedule}"),
        RecordKey::Graph(project, graph) => format!("{kind}.{project}.{graph}"),
        RecordKey::Note(project, note) => format!("{kind}.{project}.{note}"),
        RecordKey::Turn(TurnId { human, conversation, number }) => {
            format!("{kind}.{human}.{conversation}.{number}")
        }
        RecordKey::Reservation(reservation) => format!("{kind}.{reservation}"),
        RecordKey::Change(change) => format!("{kind}.{change}"),
        RecordKey::QueuedSpawn(parent, place) => {
            format!("{kind}.{}.{place}", agent_token(parent))
        }
        RecordKey::Decision(request) => format!("{kind}.{request}"),
        RecordKey::Snapshot => format!("{kind}.{LEDGER}"),
    }
}

/// Whether a text could be a key of STATE, of whichever kind: a newer version has more of them.
pub(crate) fn is_key(text: &str) -> bool {
    let token = |token: &str| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-=/".contains(&byte);
        !token.is_empty() && token.bytes().all(fits)
    };
    text.len() <= KEY_BYTES_MAX && text.contains('.') && text.split('.').all(token)
}

/// Whether a key is of a kind that this version does not know.
pub(crate) fn is_foreign(text: &str) -> bool {
    let kind = text.split('.').next();
    is_key(text) && KeyKind::ALL.into_iter().all(|known| Some(known.as_str()) != kind)
}

/// The subject of a key of STATE.
pub(crate) fn key_subject(key: &str) -> String {
    format!("{STATE_PREFIX}{key}")
}

/// The key that a subject of STATE is for; none for any other subject.
#[must_use]
pub fn key_of_subject(subject: &str) -> Option<&str> {
    subject.strip_prefix(STATE_PREFIX)
}

/// Reads the key of a record in STATE, without the bucket.
///
/// # Errors
/// The token that is wrong, with its position.
pub fn parse_record_key(text: &str) -> Result<RecordKey, SubjectError> {
    parse_at(text, text, 0)
}

pub(super) fn parse_at(
    subject: &str,
    key: &str,
    skipped: usize,
) -> Result<RecordKey, SubjectError> {
    let tokens = SubjectTokens::part(subject, key, skipped);
    let kind = KeyKind::ALL.into_iter().find(|kind| kind.as_str() == tokens.word(0));
    let kind = kind.ok_or_else(|| tokens.wrong(0, "a kind of record"))?;
    let epic = |index| tokens.parse(index, "an epic's id, goal_<ulid>");
    let run = |index| tokens.parse(index, "a run's id, run_<ulid>");
    let name = "a name of A-Z a-z 0-9 _ -";
    match kind {
        KeyKind::Graph => tokens.exactly("graph.<project>.<name>", 3)?,
        KeyKind::Note => tokens.exactly("note.<project>.<name>", 3)?,
        KeyKind::Turn => tokens.exactly("turn.<human>.<conversation>.<number>", 4)?,
        KeyKind::QueuedSpawn => tokens.exactly("queued_spawn.<parent>.<place>", 3)?,
        KeyKind::Profile => tokens.exactly("profile.<project>.<name>", 3)?,
        KeyKind::Node | KeyKind::NodeState | KeyKind::Crystallization => {
            tokens.exactly("<kind>.<epic>.<node>", 3)?;
        }
        KeyKind::Draft => tokens.exactly("draft.<epic>.<draft>", 3)?,
        KeyKind::Agent
        | KeyKind::Host
        | KeyKind::Project
        | KeyKind::Run
        | KeyKind::RunStatus
        | KeyKind::Goal
        | KeyKind::GoalState
        | KeyKind::Plan
        | KeyKind::Assignment
        | KeyKind::Dispatch
        | KeyKind::Planning
        | KeyKind::Question
        | KeyKind::Schedule
        | KeyKind::Reservation
        | KeyKind::Change
        | KeyKind::Decision
        | KeyKind::Snapshot => tokens.exactly("<kind>.<key>", 2)?,
    }
    let node = || parse_some_node(&tokens, 2, tokens.word(2));
    Ok(match kind {
        KeyKind::Agent => RecordKey::Agent(parse_agent(&tokens, 1)?),
        KeyKind::Host => RecordKey::Host(tokens.parse(1, name)?),
        KeyKind::Project => RecordKey::Project(tokens.parse(1, name)?),
        KeyKind::Profile => RecordKey::Profile(tokens.parse(1, name)?, tokens.parse(2, name)?),
        KeyKind::Run => RecordKey::Run(run(1)?),
        KeyKind::RunStatus => RecordKey::RunStatus(run(1)?),
        KeyKind::Goal => RecordKey::Goal(epic(1)?),
        KeyKind::GoalState => RecordKey::GoalState(epic(1)?),
        KeyKind::Plan => RecordKey::Plan(epic(1)?),
        KeyKind::Node => RecordKey::Node(epic(1)?, node()?),
        KeyKind::NodeState => RecordKey::NodeState(epic(1)?, node()?),
        KeyKind::Assignment => RecordKey::Assignment(tokens.parse(1, "asg_<ulid>")?),
        KeyKind::Dispatch => RecordKey::Dispatch(tokens.parse(1, "dsp_<ulid>")?),
        KeyKind::Planning => RecordKey::Planning(tokens.parse(1, "dsp_<ulid>")?),
        KeyKind::Question => RecordKey::Question(tokens.parse(1, "qst_<ulid>")?),
        KeyKind::Draft => RecordKey::Draft(epic(1)?, tokens.parse(2, "drf_<ulid>")?),
        KeyKind::Crystallization => RecordKey::Crystallization(epic(1)?, parse_node(&tokens, 2)?),
        KeyKind::Schedule => RecordKey::Schedule(tokens.parse(1, "sch_<ulid>")?),
        KeyKind::Graph => RecordKey::Graph(tokens.parse(1, name)?, tokens.parse(2, name)?),
        KeyKind::Note => RecordKey::Note(tokens.parse(1, name)?, tokens.parse(2, name)?),
        KeyKind::Turn => RecordKey::Turn(TurnId {
            human: tokens.parse(1, name)?,
            conversation: tokens.parse(2, name)?,
            number: tokens.parse(3, "a number")?,
        }),
        KeyKind::Reservation => RecordKey::Reservation(tokens.parse(1, "rsv_<ulid>")?),
        KeyKind::Change => RecordKey::Change(tokens.parse(1, "chg_<ulid>")?),
        KeyKind::QueuedSpawn => {
            RecordKey::QueuedSpawn(parse_agent(&tokens, 1)?, tokens.parse(2, "a number")?)
        }
        KeyKind::Decision => RecordKey::Decision(tokens.parse(1, "a ULID")?),
        KeyKind::Snapshot if tokens.word(1) == LEDGER => RecordKey::Snapshot,
        KeyKind::Snapshot => return Err(tokens.wrong(1, LEDGER)),
    })
}
