//! The records of agents, hosts, projects and profiles (spec 03): what the ledger says of
//! each. How they change is decided in `admission` and `owner`.

use crate::brief::{RunnerKind, Served, Tools, Worktree};
use crate::budget::{Account, Counter, Limits, Spend};
use crate::denials::Denials;
use crate::id::{
    AgentId, AssignmentId, EpicId, HostName, NodeId, Principal, ProfileName, ProjectName, RunId,
    SessionId,
};
use crate::intensity::{Circuit, FailureCause};
use crate::limits::CHILDREN_MAX;
use crate::liveness::Liveness;
use crate::mcp::McpServer;
use crate::permission::PermissionList;
use crate::time::{BusTime, Millis};
use crate::verb::Verbs;
use crate::words::words;

words! {
    /// Who runs the agent's process.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Hosting {
        /// A host orchestrator.
        Hosted = "hosted",
        /// A program that speaks NATS itself.
        External = "external",
        /// The owner's own process: GO.
        Owner = "owner",
    }
}

/// The host, and that host orchestrator's epoch, at which an agent was placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// The host.
    pub host: HostName,
    /// The epoch of `HO@host` then.
    pub host_epoch: u64,
}

/// A slot that a sub-agent holds until it is terminated. The record holds the slots
/// themselves, no counter (spec 10, invariant 2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// Who holds it; a replacement keeps it.
    pub child: AgentId,
    /// What was carved out for the child.
    pub grant: Limits,
}

/// A run that ended without saying what it used: its journal says it (spec 06, Budgets).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostRun {
    /// The run.
    pub run: RunId,
    /// What is booked of it already.
    pub charged: Spend,
}

/// The grant of a child that ended, which stays carved out until all its runs are settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldGrant {
    /// Whose it was.
    pub child: AgentId,
    /// What was carved out.
    pub grant: Limits,
    /// What is known to have been spent of it.
    pub spent: Spend,
    /// Whose journals are yet to be read.
    pub runs: Vec<LostRun>,
}

impl HeldGrant {
    /// What counts of what was spent: at most twice the grant, where that limits it. A program says itself what it
    /// used, and is ended when that is more than it has.
    #[must_use]
    pub fn booked(&self) -> Spend {
        let mut booked = self.spent;
        for counter in Counter::ALL {
            let most = self.grant.of(counter).map_or(u64::MAX, |granted| granted.saturating_mul(2));
            booked = booked.with(counter, booked.of(counter).min(most));
        }
        booked
    }
}

/// What is not settled yet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Unsettled {
    /// The agent's own lost runs.
    pub runs: Vec<LostRun>,
    /// Grants of its ended children.
    pub grants: Vec<HeldGrant>,
}

impl Unsettled {
    /// Whether nothing is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.grants.is_empty()
    }

    /// Every run whose journal is yet to be read.
    pub fn lost(&self) -> impl Iterator<Item = &LostRun> {
        self.runs.iter().chain(self.grants.iter().flat_map(|held| &held.runs))
    }
}

/// The order to end a session whose agent is to go on in its next one. That starts when the host
/// says that the process is gone (spec 04, Crash recovery).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// What for; whether it counts against restart intensity follows from it.
    pub cause: FailureCause,
    /// In words.
    pub reason: String,
    /// When the host has to have said so; after that it counts as not answering.
    pub until: BusTime,
}

/// What the ledger knows of an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    /// Its identity.
    pub id: AgentId,
    /// Its current incarnation; none for an external agent that has not registered.
    pub session: Option<SessionId>,
    /// Grows with every incarnation; 0 before the first.
    pub epoch: u64,
    /// Where the session stands.
    pub liveness: Liveness,
    /// Why it stands there.
    pub reason: String,
    /// Since when.
    pub since: BusTime,
    /// The order to end it, while its process may still be there; none for a session that is
    /// offline or has ended.
    pub ending: Option<Ending>,
    /// Its parent; none for GO.
    pub parent: Option<AgentId>,
    /// Levels below GO.
    pub depth: u8,
    /// The root's limit, always inherited.
    pub max_depth: u8,
    /// The subtree's limit; it never loosens downward.
    pub local_max_depth: u8,
    /// Who asked for it.
    pub requested_by: Principal,
    /// The project it works in.
    pub project: Option<ProjectName>,
    /// Who runs its process.
    pub hosting: Hosting,
    /// Where that is.
    pub placement: Option<Placement>,
    /// A name for people.
    pub label: String,
    /// Its sub-agents that are not terminated.
    pub slots: Vec<Slot>,
    /// Its grant and what became of it.
    pub account: Account,
    /// What of it, or of what was carved out of it, is not settled yet.
    pub unsettled: Unsettled,
    /// When its wall clock ends.
    pub deadline: Option<BusTime>,
    /// What it may use, and give to children.
    pub tools: Tools,
    /// Its children's charged failures, and whether they were too many: then nothing is admitted
    /// below.
    pub circuit: Circuit,
    /// The work it was admitted for.
    pub work: Option<Work>,
    /// The verbs that were asked of it, and whether it is to stand still.
    pub verbs: Verbs,
    /// When the name was first admitted.
    pub created: BusTime,
    /// Of GO, up to where its mail was decided on, in sequences of `MAIL`; others have cursors.
    pub mail_read: u64,
    /// What it asked for of late and was not given.
    pub denials: Denials,
    /// A person ended it for good. An external agent comes back only when a person adds it again.
    pub retired: bool,
}

impl Agent {
    /// Whether its session has a process, or is to have one.
    #[must_use]
    pub fn has_process(&self) -> bool {
        match self.liveness {
            Liveness::Register | Liveness::Active | Liveness::Stale => true,
            Liveness::Offline | Liveness::Terminated => false,
        }
    }

    /// Whether it takes a place of its host's capacity, when it has a process there: what has work does,
    /// orchestrators do not (spec 03, Placement).
    #[must_use]
    pub fn takes_place(&self) -> bool {
        self.work.is_some()
    }
}

/// The work a sub-agent was admitted for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Work {
    /// The epic.
    pub epic: EpicId,
    /// The node.
    pub node: NodeId,
    /// The assignment.
    pub assignment: AssignmentId,
    /// The current run.
    pub run: RunId,
}

words! {
    /// How many children a project's agents may have at a time (spec 03, Modes).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub enum Mode {
        /// None: one agent at a time does the project's plan, and has none of its own.
        Solo = "solo",
        /// One at a time.
        Tight = "tight",
        /// Delegate by default.
        #[default]
        Orchestrator = "orchestrator",
    }
}

/// A mode's name that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown mode {0:?}; allowed: solo, tight, orchestrator")]
pub struct UnknownMode(pub String);

impl Mode {
    /// Sub-agents it allows.
    #[must_use]
    pub fn cap(self) -> usize {
        match self {
            Self::Solo => 0,
            Self::Tight => 1,
            Self::Orchestrator => CHILDREN_MAX,
        }
    }

    /// The one of the two that allows less.
    #[must_use]
    pub fn narrowed(self, by: Option<Self>) -> Self {
        by.filter(|by| by.cap() < self.cap()).unwrap_or(self)
    }

    /// Sub-agents that an agent may have in it. The orchestrator that a host runs has no program of its own: in `solo`
    /// it works its plan by one agent at a time (spec 03, Modes).
    #[must_use]
    pub fn slots(self, agent: &Agent) -> usize {
        let works_plan = matches!(agent.id, AgentId::Po(_)) && agent.hosting == Hosting::Hosted;
        self.cap().max(usize::from(works_plan))
    }

    /// What a model that may ask for agents is told of when to do so (docs/llm-runner.md).
    #[must_use]
    pub fn guidance(self) -> &'static str {
        match self {
            Self::Solo => {
                "Do the work yourself. A request for an agent of your own is denied, until a human changes the mode."
            }
            Self::Tight => {
                "Keep to the one task, without tangents. You may have one agent of your own at a time: delegate only \
                 what is plainly beyond you, one thing after another."
            }
            Self::Orchestrator => {
                "Delegate by default: whatever is more than a small edit or a single look-up goes to an agent of your \
                 own, and independent parts to several side by side. Nobody confirms it."
            }
        }
    }

    /// Reads the word; unknown text is an error at configuration time.
    ///
    /// # Errors
    /// The text and what is allowed.
    pub fn parse(text: &str) -> Result<Self, UnknownMode> {
        Self::ALL
            .into_iter()
            .find(|mode| mode.as_str() == text)
            .ok_or_else(|| UnknownMode(text.to_owned()))
    }

    /// Reads the word at run time, where unknown text counts as `solo`.
    #[must_use]
    pub fn parse_or_solo(text: &str) -> Self {
        Self::parse(text).unwrap_or(Self::Solo)
    }
}

/// What a session that may ask for agents is told of delegating when it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DelegationOptions {
    /// How its project delegates.
    pub mode: Mode,
    /// The project's profiles by their names, with what each is for.
    pub profiles: Vec<(String, String)>,
}

/// What the ledger knows of a project.
#[derive(Debug, Clone, PartialEq)]
pub struct Project {
    /// Its name.
    pub name: ProjectName,
    /// How it delegates.
    pub mode: Mode,
    /// Who created it.
    pub created_by: Principal,
    /// When.
    pub created: BusTime,
    /// No longer used.
    pub retired: bool,
    /// The number of the last reservation of its files.
    pub fencing: u64,
}

/// What the ledger knows of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Its name.
    pub name: HostName,
    /// The process that joined, told apart from earlier lives.
    pub instance: String,
    /// Its labels, for placement.
    pub labels: Vec<(String, String)>,
    /// Agents it takes.
    pub capacity: u32,
    /// Where it can be found, for people.
    pub address: String,
    /// When it joined.
    pub joined: BusTime,
    /// It takes no agents until people say otherwise.
    pub drained: bool,
}

/// How agents of a kind are executed (spec 12, Profiles).
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// Its name; `default` is what a bare task uses.
    pub name: ProfileName,
    /// What it is for, told to those who choose one.
    pub description: String,
    /// Which runner.
    pub kind: RunnerKind,
    /// The command and its arguments.
    pub argv: Vec<String>,
    /// Variables added to the scrubbed environment.
    pub env: Vec<(String, String)>,
    /// Names of variables passed on from the host's own environment.
    pub pass_env: Vec<String>,
    /// What programs may write besides their own places: absolute, or below the home of the host's user (`~/`).
    pub writable: Vec<String>,
    /// The model.
    pub model: String,
    /// How the model is reached, for the llm runner.
    pub served: Served,
    /// The system prompt.
    pub prompt: String,
    /// Tools it hands out when a request names none.
    pub tools: Tools,
    /// Rules on what they are called with.
    pub permissions: PermissionList,
    /// Servers whose tools the list may name, each by another name.
    pub mcp_servers: Vec<McpServer>,
    /// Budget it hands out when a request names none.
    pub budget: Limits,
    /// Wall clock it hands out when a request names none.
    pub wall: Option<Millis>,
    /// Directory its agents work in; empty means one of their own.
    pub workspace: String,
    /// Where in it they work; none: as their tools say.
    pub worktree: Option<Worktree>,
}

impl Profile {
    /// What it is for, else how it works.
    #[must_use]
    pub fn purpose(&self) -> String {
        let how = format!("{} {}", self.kind.as_str(), self.model);
        if self.description.is_empty() {
            how.trim_end().to_owned()
        } else {
            self.description.clone()
        }
    }

    /// Whether its model is its parent's: it names none (docs/decisions/0127).
    #[must_use]
    pub fn inherits_model(&self) -> bool {
        self.kind == RunnerKind::Llm && self.model.is_empty()
    }

    /// Whether a model is missing: model and provider are named together, and the default profile names both.
    #[must_use]
    pub fn lacks_model(&self) -> bool {
        let (model, provider) = (self.model.is_empty(), self.served.provider.is_empty());
        let is_root = self.name.as_str() == DEFAULT_PROFILE;
        self.kind == RunnerKind::Llm && (model || provider) && (model != provider || is_root)
    }
}

/// The profile a bare task uses.
pub const DEFAULT_PROFILE: &str = "default";
/// How the names of profiles begin that plans make of commands (docs/decisions/0067).
pub const COMMAND_PROFILE: &str = "run-";
/// Hexadecimal digits that follow in such a name.
pub const COMMAND_DIGITS: usize = 12;

/// Whether this is the name of a profile that a plan made of a command: nobody writes it.
#[must_use]
pub fn is_command(profile: &str) -> bool {
    profile.strip_prefix(COMMAND_PROFILE).is_some_and(|digits| {
        digits.len() == COMMAND_DIGITS && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
    })
}

/// The profile by which a project's orchestrator judges (docs/decisions/0052). A project without it has one
/// that decides by rules alone.
pub const ORCHESTRATOR_PROFILE: &str = "orchestrator";

impl Agent {
    /// Sub-agents that hold a slot.
    #[must_use]
    pub fn slots_held(&self) -> usize {
        self.slots.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Ulid;

    #[test]
    fn held_grant_books_at_most_twice_what_was_granted() {
        let grant = Limits { tokens: Some(10), ..Limits::default() };
        for (said, booked) in [(15, 15), (20, 20), (21, 20), (u64::MAX, 20)] {
            let spent = Spend { tokens: said, turns: 7, ..Spend::default() };
            let child = AgentId::Worker(Ulid(1));
            let held = HeldGrant { child, grant, spent, runs: Vec::new() };
            assert_eq!(held.booked(), Spend { tokens: booked, ..spent });
        }
    }
}
