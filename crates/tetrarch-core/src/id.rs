//! Identities: who an agent is, and the typed ids of everything else (spec 03, 05).
//! Parsing is total and reports the offending character with its position; nothing
//! here knows about subjects or storage keys.

mod node;

use std::fmt;
use std::str::FromStr;

pub use node::{NodeId, Tier};
use sha2::{Digest, Sha256};
pub use ulid::Ulid;

use crate::time::BusTime;

/// Longest host, project, human or domain name, in characters (spec 03).
pub const NAME_LEN_MAX: usize = 64;
/// The alias of `GO` that is accepted on input and never produced (spec 03).
pub const OVERSEER_ALIAS: &str = "actor:system:overseer";

/// Why a text is no identity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// Nothing was given.
    #[error("{what} is empty; expected {expected}")]
    Empty {
        /// Which part is empty.
        what: &'static str,
        /// What would be accepted.
        expected: &'static str,
    },
    /// A character that the part may not hold.
    #[error("{what} has {found:?} at position {position}; allowed: {allowed}")]
    Character {
        /// Which part is wrong.
        what: &'static str,
        /// The offending character.
        found: char,
        /// Its position in the whole text, counted in characters from 0.
        position: usize,
        /// What would be accepted.
        allowed: &'static str,
    },
    /// More characters than allowed.
    #[error(
        "{what} has {len} characters; at most {NAME_LEN_MAX} are allowed (first one too many at position {position})"
    )]
    TooLong {
        /// Which part is too long.
        what: &'static str,
        /// Its length in characters.
        len: usize,
        /// Position in the whole text of the first character too many.
        position: usize,
    },
    /// No known form.
    #[error("{text:?} is not a valid id; expected {expected} (differs at position {position})")]
    Form {
        /// The text that was given.
        text: String,
        /// The forms that exist.
        expected: &'static str,
        /// Where it stops looking like one of them.
        position: usize,
    },
    /// Not a ULID.
    #[error(
        "{what} is not a ULID: {text:?} (expected 26 characters of Crockford base32, position {position})"
    )]
    Ulid {
        /// Which part is wrong.
        what: &'static str,
        /// The text that was given.
        text: String,
        /// Position in the whole text where the ULID starts to be wrong.
        position: usize,
    },
}

const NAME_ALLOWED: &str = "A-Z a-z 0-9 _ -, starting with a letter or digit";
const FORMS: &str =
    "GO, HO@<host>, PO-<project>, IO@<human>, S:<domain>:<ulid>, R:<domain>:<ulid> or W:<ulid>";
/// How a human begins where agents are named too.
const HUMAN: &str = "human:";
const PRINCIPAL_FORMS: &str = "human:<name>, GO, HO@<host>, PO-<project>, IO@<human>, S:<domain>:<ulid>, R:<domain>:<ulid> or W:<ulid>";

fn check_name(what: &'static str, text: &str, offset: usize) -> Result<(), IdError> {
    if text.is_empty() {
        return Err(IdError::Empty { what, expected: NAME_ALLOWED });
    }
    for (index, found) in text.chars().enumerate() {
        let first_ok = found.is_ascii_alphanumeric();
        let ok = first_ok || (index > 0 && (found == '_' || found == '-'));
        if !ok {
            return Err(IdError::Character {
                what,
                found,
                position: offset + index,
                allowed: NAME_ALLOWED,
            });
        }
    }
    let len = text.chars().count();
    if len > NAME_LEN_MAX {
        return Err(IdError::TooLong { what, len, position: offset + NAME_LEN_MAX });
    }
    Ok(())
}

fn parse_ulid(what: &'static str, text: &str, offset: usize) -> Result<Ulid, IdError> {
    // Lower case, or more than 128 bits, would be a second name for the same agent.
    let allowed = |(index, c): (usize, char)| {
        (c.is_ascii_digit() || c.is_ascii_uppercase())
            && !matches!(c, 'I' | 'L' | 'O' | 'U')
            && (index > 0 || c <= '7')
    };
    let bad = text.chars().enumerate().position(|at| !allowed(at));
    let wrong = |position: usize| IdError::Ulid { what, text: text.to_owned(), position };
    if let Some(index) = bad {
        return Err(wrong(offset + index));
    }
    Ulid::from_string(text).map_err(|_| wrong(offset + text.len().min(26)))
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// Parses a name (spec 03, Identity).
            ///
            /// # Errors
            /// The offending character and its position.
            pub fn new(text: &str) -> Result<Self, IdError> {
                Self::at(text, 0)
            }

            fn at(text: &str, offset: usize) -> Result<Self, IdError> {
                check_name($what, text, offset)?;
                Ok(Self(text.to_owned()))
            }

            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::new(text)
            }
        }
    };
}

name_type!(
    /// A host's name; also the host token of subjects.
    HostName, "host name"
);
name_type!(
    /// A project's name.
    ProjectName, "project name"
);
name_type!(
    /// A human's name.
    HumanName, "human name"
);
name_type!(
    /// A specialist's or reviewer's field.
    Domain, "domain"
);
name_type!(
    /// A profile's name.
    ProfileName, "profile name"
);
name_type!(
    /// A note's name.
    NoteName, "note name"
);
name_type!(
    /// A state graph's name.
    GraphName, "graph name"
);
name_type!(
    /// The name of a state graph's node.
    GraphNodeName, "node name"
);
name_type!(
    /// The name of a person's conversation.
    ConversationName, "conversation name"
);
name_type!(
    /// The name of a way by which a person is told: a webhook, a command, their desktop.
    ChannelName, "channel name"
);

impl HostName {
    /// A machine's own host name as a name: its dots become `-` (spec 03).
    ///
    /// # Errors
    /// The offending character and its position, when something else is not allowed.
    pub fn from_machine(text: &str) -> Result<Self, IdError> {
        Self::new(&text.replace('.', "-"))
    }
}

/// An agent's canonical identity: stable for the agent's whole life, one subject token.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AgentId {
    /// The global orchestrator.
    Go,
    /// A host orchestrator.
    Ho(HostName),
    /// A project orchestrator.
    Po(ProjectName),
    /// An interaction orchestrator.
    Io(HumanName),
    /// A specialist of a domain.
    Specialist(Domain, Ulid),
    /// A reviewer of a domain.
    Reviewer(Domain, Ulid),
    /// A worker.
    Worker(Ulid),
}

impl fmt::Display for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Go => f.write_str("GO"),
            Self::Ho(host) => write!(f, "HO@{host}"),
            Self::Po(project) => write!(f, "PO-{project}"),
            Self::Io(human) => write!(f, "IO@{human}"),
            Self::Specialist(domain, ulid) => write!(f, "S:{domain}:{ulid}"),
            Self::Reviewer(domain, ulid) => write!(f, "R:{domain}:{ulid}"),
            Self::Worker(ulid) => write!(f, "W:{ulid}"),
        }
    }
}

fn parse_member(text: &str, kind: &'static str) -> Result<(Domain, Ulid), IdError> {
    let rest = &text[2..];
    let Some((domain, ulid)) = rest.split_once(':') else {
        return Err(IdError::Form {
            text: text.to_owned(),
            expected: FORMS,
            position: text.chars().count(),
        });
    };
    let domain = Domain::at(domain, 2)?;
    let ulid = parse_ulid(kind, ulid, 3 + domain.as_str().len())?;
    Ok((domain, ulid))
}

impl FromStr for AgentId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        if text.is_empty() {
            return Err(IdError::Empty { what: "identity", expected: FORMS });
        }
        if text == "GO" || text == OVERSEER_ALIAS {
            return Ok(Self::Go);
        }
        if let Some(host) = text.strip_prefix("HO@") {
            return Ok(Self::Ho(HostName::at(host, 3)?));
        }
        if let Some(project) = text.strip_prefix("PO-") {
            return Ok(Self::Po(ProjectName::at(project, 3)?));
        }
        if let Some(human) = text.strip_prefix("IO@") {
            return Ok(Self::Io(HumanName::at(human, 3)?));
        }
        if text.starts_with("S:") {
            let (domain, ulid) = parse_member(text, "specialist id")?;
            return Ok(Self::Specialist(domain, ulid));
        }
        if text.starts_with("R:") {
            let (domain, ulid) = parse_member(text, "reviewer id")?;
            return Ok(Self::Reviewer(domain, ulid));
        }
        if let Some(ulid) = text.strip_prefix("W:") {
            return Ok(Self::Worker(parse_ulid("worker id", ulid, 2)?));
        }
        let position = form_differs_at(text);
        Err(IdError::Form { text: text.to_owned(), expected: FORMS, position })
    }
}

/// The first position at which a text that matches no form leaves every form.
fn form_differs_at(text: &str) -> usize {
    ["GO", "HO@", "PO-", "IO@", "S:", "R:", "W:"]
        .iter()
        .map(|form| alike(text, form))
        .max()
        .unwrap_or(0)
}

/// How many characters two texts have in common from the start.
fn alike(text: &str, form: &str) -> usize {
    text.chars().zip(form.chars()).take_while(|(a, b)| a == b).count()
}

/// Who speaks on the bus: an agent, or a human with a credential of their own (spec 02, 08).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Principal {
    /// An agent.
    Agent(AgentId),
    /// A human, never an agent.
    Human(HumanName),
}

impl Principal {
    /// The agent, when it is one.
    #[must_use]
    pub fn agent(&self) -> Option<&AgentId> {
        match self {
            Self::Agent(id) => Some(id),
            Self::Human(_) => None,
        }
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agent(id) => id.fmt(f),
            Self::Human(name) => write!(f, "human:{name}"),
        }
    }
}

impl FromStr for Principal {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        match text.strip_prefix(HUMAN) {
            Some(name) => Ok(Self::Human(HumanName::at(name, 6)?)),
            None => text.parse().map(Self::Agent).map_err(|error| match error {
                IdError::Empty { what, expected: FORMS } => {
                    IdError::Empty { what, expected: PRINCIPAL_FORMS }
                }
                IdError::Form { text, expected: _, position } => {
                    let position = position.max(alike(&text, HUMAN));
                    IdError::Form { text, expected: PRINCIPAL_FORMS, position }
                }
                other @ (IdError::Empty { .. }
                | IdError::Character { .. }
                | IdError::TooLong { .. }
                | IdError::Ulid { .. }) => other,
            }),
        }
    }
}

impl From<AgentId> for Principal {
    fn from(id: AgentId) -> Self {
        Self::Agent(id)
    }
}

macro_rules! ulid_type {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub Ulid);

        impl $name {
            /// Derives the id of what an input causes: the same seed, label and index give the
            /// same id, so deciding again after a crash names the same thing (spec 02, Inbox).
            #[must_use]
            pub fn derive(at: BusTime, seed: &str, label: &str, index: usize) -> Self {
                Self(derive_ulid(at, seed, label, index))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}{}", $prefix, self.0)
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                let Some(ulid) = text.strip_prefix($prefix) else {
                    return Err(IdError::Form {
                        text: text.to_owned(),
                        expected: concat!($prefix, "<ulid>"),
                        position: text.chars().zip($prefix.chars()).take_while(|(a, b)| a == b).count(),
                    });
                };
                Ok(Self(parse_ulid(stringify!($name), ulid, $prefix.len())?))
            }
        }
    };
}

ulid_type!(
    /// One incarnation of an agent.
    SessionId, ""
);
ulid_type!(
    /// The idempotency key of a request, an operation or a report.
    RequestId, ""
);
ulid_type!(
    /// One entry of the ledger.
    CommitId, ""
);
ulid_type!(
    /// One attempt of an agent at a brief.
    RunId, "run_"
);
ulid_type!(
    /// A goal; its plan is the epic of the same id.
    EpicId, "goal_"
);
ulid_type!(
    /// A plan.
    PlanId, "plan_"
);
ulid_type!(
    /// The binding of a work node to an agent.
    AssignmentId, "asg_"
);
ulid_type!(
    /// A question to people.
    QuestionId, "qst_"
);
ulid_type!(
    /// What begins at set times.
    ScheduleId, "sch_"
);
ulid_type!(
    /// Paths that a session holds.
    ReservationId, "rsv_"
);
ulid_type!(
    /// A change that waits before the branch it is for.
    ChangeId, "chg_"
);
ulid_type!(
    /// One instruction that was sent for an assignment.
    DispatchId, "dsp_"
);
ulid_type!(
    /// A proposed change of a plan.
    DraftId, "drf_"
);
ulid_type!(
    /// What whoever goes on from a place needs to know.
    CrystallizationId, "cry_"
);

/// A ULID whose random part is a hash of what causes it.
#[must_use]
pub fn derive_ulid(at: BusTime, seed: &str, label: &str, index: usize) -> Ulid {
    let mut hash = Sha256::new();
    hash.update(seed.as_bytes());
    hash.update([0]);
    hash.update(label.as_bytes());
    hash.update([0]);
    hash.update(index.to_be_bytes());
    let digest = hash.finalize();
    let mut random = [0u8; 16];
    random.copy_from_slice(&digest[..16]);
    Ulid::from_parts(at.0, u128::from_be_bytes(random))
}

/// Lower-case hexadecimal sha256 of some bytes.
#[must_use]
pub fn sha256_hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const U: &str = "01JD8Z5W6T4QK3M9X2V7B1N0AC";

    #[test]
    fn every_id_form_round_trips() {
        for text in [
            "GO".to_owned(),
            "HO@Server1".to_owned(),
            "PO-MVP1".to_owned(),
            "IO@Shai".to_owned(),
            format!("S:backend:{U}"),
            format!("R:api:{U}"),
            format!("W:{U}"),
        ] {
            let id: AgentId = text.parse().unwrap();
            assert_eq!(id.to_string(), text);
        }
    }

    #[test]
    fn alias_is_accepted_and_never_produced() {
        let id: AgentId = OVERSEER_ALIAS.parse().unwrap();
        assert_eq!(id.to_string(), "GO");
    }

    #[test]
    fn errors_show_character_and_position() {
        let error = "HO@my host".parse::<AgentId>().unwrap_err();
        assert!(matches!(error, IdError::Character { found: ' ', position: 5, .. }), "{error}");
        let error = "PO--x".parse::<AgentId>().unwrap_err();
        assert!(matches!(error, IdError::Character { found: '-', position: 3, .. }), "{error}");
        let error = format!("S:b.c:{U}").parse::<AgentId>().unwrap_err();
        assert!(matches!(error, IdError::Character { found: '.', position: 3, .. }), "{error}");
        let error = "W:01JD8Z5W6T4QK3M9X2V7B1N0A!".parse::<AgentId>().unwrap_err();
        assert!(matches!(error, IdError::Ulid { position: 27, .. }), "{error}");
        assert!(matches!("PO-".parse::<AgentId>(), Err(IdError::Empty { .. })));
        assert!(matches!("PX-a".parse::<AgentId>(), Err(IdError::Form { position: 1, .. })));
    }

    #[test]
    fn text_that_names_nobody_is_refused_with_the_form_of_a_human() {
        for (text, at) in [("finn", 0), ("humor:finn", 3), ("PX-a", 1)] {
            let error = text.parse::<Principal>().unwrap_err();
            let IdError::Form { expected, position, .. } = error else { panic!("{error}") };
            assert_eq!((expected, position), (PRINCIPAL_FORMS, at), "{text}");
        }
        let error = "".parse::<Principal>().unwrap_err().to_string();
        assert!(error.contains("human:<name>"), "{error}");
    }

    #[test]
    fn names_hold_1_to_64_characters() {
        assert!(HostName::new(&"a".repeat(64)).is_ok());
        assert!(matches!(
            HostName::new(&"a".repeat(65)),
            Err(IdError::TooLong { len: 65, position: 64, .. })
        ));
        assert!(matches!(HostName::new(""), Err(IdError::Empty { .. })));
        assert_eq!(HostName::from_machine("a.b.c").unwrap().as_str(), "a-b-c");
    }

    #[test]
    fn derived_ids_depend_on_seed_label_and_index() {
        let at = BusTime(1_000);
        let one = RunId::derive(at, "seed", "run", 0);
        assert_eq!(one, RunId::derive(at, "seed", "run", 0));
        assert_ne!(one, RunId::derive(at, "seed", "run", 1));
        assert_ne!(one, RunId::derive(at, "seed", "runs", 0));
        assert_ne!(one, RunId::derive(at, "seeds", "run", 0));
        assert_eq!(one.to_string().parse::<RunId>().unwrap(), one);
    }

    proptest! {
        #[test]
        fn any_text_parses_or_is_refused_without_panic(text in ".{0,80}") {
            if let Ok(id) = text.parse::<AgentId>() {
                prop_assert_eq!(id.to_string().parse::<AgentId>().unwrap(), id);
            }
        }
    }
}
