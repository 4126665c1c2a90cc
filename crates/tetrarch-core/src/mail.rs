//! Mail and control: the typed bodies, and who may write to whom (spec 02, Mail).

mod alert;
mod claim;
mod passing;
mod raised;
pub mod receipt;
mod spawning;

use crate::brief::{RunResult, Verdict};
use crate::change::ApplyOrder;
use crate::conversation::TurnDue;
use crate::cursor::FIRST_EPOCH;
use crate::error::ErrorCode;
use crate::id::{
    AgentId, AssignmentId, DispatchId, EpicId, HumanName, NodeId, Principal, ProjectName,
    QuestionId, RequestId, RunId, SessionId,
};
use crate::run::Run;
use crate::verb::Command;
use crate::words::words;
use receipt::{DeadNotice, Receipt};

pub use alert::Alert;
pub use claim::{EpochClaim, claim};
pub use passing::passed_on;
pub use raised::BudgetRaised;
pub use spawning::{Denied, SpawnAnswer, Spawned, SponsorRequest};

/// The two lanes; `ctl` is drained before every mail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// Verbs, launches, kills.
    Ctl,
    /// Everything else.
    Mail,
}

words! {
    /// What a message is for.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum MailKind {
        /// Answers a request.
        Reply = "reply",
        /// Asks the recipient to do something.
        Instruction = "instruction",
        /// Changes what the recipient runs.
        Control = "control",
        /// For information.
        Info = "info",
        /// Something is wrong.
        Alert = "alert",
        /// Asks for an answer.
        Question = "question",
    }
}

/// A message, whoever writes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Mail {
    /// To whom.
    pub to: Principal,
    /// The epic it is about.
    pub epic: Option<EpicId>,
    /// The request it answers.
    pub correlation: Option<RequestId>,
    /// What caused it, for the log.
    pub cause: String,
    /// Whether a receipt is wanted.
    pub ack_required: bool,
    /// A W3C `traceparent`.
    pub trace: Option<String>,
    /// What it says.
    pub body: MailBody,
}

/// What a message says; the topic follows from it.
#[derive(Debug, Clone, PartialEq)]
pub enum MailBody {
    /// `spawn.accepted` or `spawn.denied`.
    SpawnAnswer(SpawnAnswer),
    /// `spawn.sponsor`: a specialist's own request, to its PO.
    Sponsor(SponsorRequest),
    /// `spawn.sponsor.answer`.
    SponsorAnswer(SpawnAnswer),
    /// `launch`, to the HO.
    Launch(Box<Launch>),
    /// `kill`, to the HO.
    Kill(SessionOrder),
    /// `stop`: drain, then the kill ladder.
    Stop(SessionOrder),
    /// `rotate`, to the HO: checkpoint and end, as for a stop, but the next session goes on.
    Rotate(SessionOrder),
    /// `steer`, `interrupt`, `pause`, `resume`, to the agent that makes the run.
    Verb(Box<VerbOrder>),
    /// `budget.raised`, to the agent whose grant it is.
    BudgetRaised(Box<BudgetRaised>),
    /// `apply`, to the HO of the host where the repository lies: merge what was approved.
    Apply(Box<ApplyOrder>),
    /// `superseded`: the session is no longer current.
    Superseded(SessionOrder),
    /// `instruction`: a PO takes on an epic, whose plan it reads from the plan events and STATE.
    TakeOn {
        /// The epic.
        epic: EpicId,
    },
    /// `turn`, to an interaction orchestrator: a turn of its human is to be moved.
    TurnDue(Box<TurnDue>),
    /// `status.request`, to an agent whose assignment stands still.
    StatusRequest(StatusRequest),
    /// `result.ready`, to the parent.
    ResultReady(Box<ResultReady>),
    /// `agent.completed`, to the parent.
    AgentCompleted {
        /// Who ended.
        agent: AgentId,
        /// Which session.
        session: SessionId,
        /// Why.
        reason: String,
    },
    /// `governor.violation`, to the parent orchestrator.
    Violation {
        /// Who asked.
        sender: Principal,
        /// For whom.
        parent: AgentId,
        /// The reasons, by index.
        denied: Vec<Denied>,
        /// How many it was denied of late, with these.
        count: u32,
    },
    /// `agent.crashed` or `agent.offline`.
    AgentLost {
        /// Who.
        agent: AgentId,
        /// Which session.
        session: SessionId,
        /// Whether its HO saw it die, rather than silence.
        crashed: bool,
        /// Which exit, signal or silence.
        cause: String,
    },
    /// `question`, to the goal's owner.
    Question {
        /// What it is called.
        id: QuestionId,
        /// Who asks.
        agent: AgentId,
        /// Its run.
        run: RunId,
        /// In words.
        question: String,
        /// Answers to choose from.
        options: Vec<String>,
        /// Where its goal came from, so that whoever carries messages brings it there.
        origin: Vec<(String, String)>,
    },
    /// `answer`, to the agent that asked.
    Answer {
        /// Which question it answers; none for whatever is asked.
        question: Option<QuestionId>,
        /// In words.
        text: String,
    },
    /// `reply` to an operation.
    Reply(OpReply),
    /// `plan.review_needed`.
    ReviewNeeded {
        /// In words.
        reason: String,
    },
    /// `sponsor.silent`: a sponsor did not answer.
    SponsorSilent {
        /// Who waits.
        agent: AgentId,
        /// Who does not answer.
        sponsor: AgentId,
        /// The request.
        request: RequestId,
    },
    /// Something that people have to look at.
    Alert {
        /// What it is.
        alert: Alert,
        /// In words.
        text: String,
    },
    /// `receipt`, to the writer of a message.
    Receipt(Receipt),
    /// `mail.dead`, to the writer of a message.
    Dead(DeadNotice),
    /// `info`.
    Info {
        /// In words.
        text: String,
    },
    /// A topic of a newer version of our own: kept as it came.
    Unknown {
        /// The topic.
        topic: String,
        /// The body's JSON text.
        json: String,
    },
}

impl MailBody {
    /// Whether the owner alone says it: an order that follows from a commit. Whoever else may write to the reader
    /// would have it without a decision, and without its entry in the ledger.
    #[must_use]
    pub fn is_owners_order(&self) -> bool {
        match self {
            Self::Launch(_)
            | Self::Kill(_)
            | Self::Rotate(_)
            | Self::Superseded(_)
            | Self::Apply(_)
            | Self::BudgetRaised(_)
            | Self::SpawnAnswer(_)
            | Self::StatusRequest(_)
            | Self::TurnDue(_)
            | Self::Answer { .. }
            | Self::Reply(_) => true,
            Self::Stop(_)
            | Self::Verb(_)
            | Self::Sponsor(_)
            | Self::SponsorAnswer(_)
            | Self::TakeOn { .. }
            | Self::ResultReady(_)
            | Self::AgentCompleted { .. }
            | Self::Violation { .. }
            | Self::AgentLost { .. }
            | Self::Question { .. }
            | Self::ReviewNeeded { .. }
            | Self::SponsorSilent { .. }
            | Self::Alert { .. }
            | Self::Receipt(_)
            | Self::Dead(_)
            | Self::Info { .. }
            | Self::Unknown { .. } => false,
        }
    }

    /// The topic (spec 02, Mail).
    #[must_use]
    pub fn topic(&self) -> &str {
        match self {
            Self::SpawnAnswer(answer) if answer.accepted() => "spawn.accepted",
            Self::SpawnAnswer(answer) if answer.refused() => "spawn.denied",
            Self::SpawnAnswer(_) => "spawn.queued",
            Self::Sponsor(_) => "spawn.sponsor",
            Self::SponsorAnswer(_) => "spawn.sponsor.answer",
            Self::Launch(_) => "launch",
            Self::Kill(_) => "kill",
            Self::Stop(_) => "stop",
            Self::Rotate(_) => "rotate",
            Self::Verb(order) => order.command.wanted.verb().as_str(),
            Self::BudgetRaised(_) => "budget.raised",
            Self::Apply(_) => "apply",
            Self::Superseded(_) => "superseded",
            Self::TakeOn { .. } => "instruction",
            Self::TurnDue(_) => "turn",
            Self::StatusRequest(_) => "status.request",
            Self::ResultReady(_) => "result.ready",
            Self::AgentCompleted { .. } => "agent.completed",
            Self::Violation { .. } => "governor.violation",
            Self::AgentLost { crashed: true, .. } => "agent.crashed",
            Self::AgentLost { crashed: false, .. } => "agent.offline",
            Self::Question { .. } => "question",
            Self::Answer { .. } => "answer",
            Self::Reply(_) => "reply",
            Self::ReviewNeeded { .. } => "plan.review_needed",
            Self::SponsorSilent { .. } => "sponsor.silent",
            Self::Alert { alert, .. } => alert.as_str(),
            Self::Receipt(_) => receipt::RECEIPT,
            Self::Dead(_) => receipt::DEAD,
            Self::Info { .. } => "info",
            Self::Unknown { topic, .. } => topic,
        }
    }

    /// The kind that goes with the topic.
    #[must_use]
    pub fn kind(&self) -> MailKind {
        match self {
            Self::SpawnAnswer(_)
            | Self::SponsorAnswer(_)
            | Self::Answer { .. }
            | Self::Reply(_) => MailKind::Reply,
            Self::Sponsor(_) | Self::TakeOn { .. } | Self::StatusRequest(_) | Self::TurnDue(_) => {
                MailKind::Instruction
            }
            Self::Launch(_)
            | Self::Kill(_)
            | Self::Stop(_)
            | Self::Rotate(_)
            | Self::Verb(_)
            | Self::BudgetRaised(_)
            | Self::Apply(_)
            | Self::Superseded(_) => MailKind::Control,
            Self::ResultReady(_)
            | Self::AgentCompleted { .. }
            | Self::Receipt(_)
            | Self::Info { .. }
            | Self::Unknown { .. } => MailKind::Info,
            Self::Alert { .. }
            | Self::Dead(_)
            | Self::Violation { .. }
            | Self::AgentLost { .. }
            | Self::ReviewNeeded { .. }
            | Self::SponsorSilent { .. } => MailKind::Alert,
            Self::Question { .. } => MailKind::Question,
        }
    }

    /// The lane it travels on.
    #[must_use]
    pub fn lane(&self) -> Lane {
        match self.kind() {
            MailKind::Control => Lane::Ctl,
            MailKind::Reply
            | MailKind::Instruction
            | MailKind::Info
            | MailKind::Alert
            | MailKind::Question => Lane::Mail,
        }
    }
}

/// The order to start a session.
#[derive(Debug, Clone, PartialEq)]
pub struct Launch {
    /// Who.
    pub agent: AgentId,
    /// The session to start.
    pub session: SessionId,
    /// Its epoch.
    pub epoch: u64,
    /// The epoch of the HO that is meant.
    pub host_epoch: u64,
    /// Its parent.
    pub parent: AgentId,
    /// Its project.
    pub project: Option<ProjectName>,
    /// Its depth.
    pub depth: u8,
    /// What it is told of delegating, when it may ask for agents.
    pub delegation: Option<crate::agent::DelegationOptions>,
    /// What it is to do.
    pub duty: Duty,
}

impl Launch {
    /// Whether the agent is new, so that no cursor of it can be in anybody's hands: it needs no seal, and its
    /// first claim expects no cursor. Orchestrators are made anew under their old names and may have one.
    #[must_use]
    pub fn is_first(&self) -> bool {
        self.first_run().is_some()
    }

    /// The run that a new agent makes; none of any other.
    #[must_use]
    pub fn first_run(&self) -> Option<RunId> {
        match &self.duty {
            Duty::Run(run) => (self.epoch == FIRST_EPOCH).then_some(run.id),
            Duty::Project(_) | Duty::Human(_) => None,
        }
    }
}

/// What a session is started for.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "a launch is boxed as a whole")]
pub enum Duty {
    /// Execute a run's brief.
    Run(Run),
    /// Orchestrate a project: its open epics.
    Project(Vec<EpicId>),
    /// Stand in for a human.
    Human(HumanName),
}

/// An order about one session; another session drops it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionOrder {
    /// Who.
    pub agent: AgentId,
    /// Which session; none means the current one.
    pub session: Option<SessionId>,
    /// Its epoch; 0 means the current one.
    pub epoch: u64,
    /// The epoch of the host that it is placed under; 0 means any.
    pub host_epoch: u64,
    /// Why.
    pub reason: String,
}

impl SessionOrder {
    /// Whether a life of the host, by its epoch, may say of the session that it is gone when it
    /// does not have it. Two lives read one inbox while the older one does not know yet that its
    /// lease is another's: what was placed under the later life is not the older one's to tell of
    /// (spec 04, Hosts; spec 10, invariant 7).
    #[must_use]
    pub fn is_told_by(&self, host_epoch: u64) -> bool {
        self.host_epoch <= host_epoch
    }
}

/// A verb for one session; another session drops it (spec 06, The three verbs).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerbOrder {
    /// Who.
    pub agent: AgentId,
    /// Which session; none means the current one.
    pub session: Option<SessionId>,
    /// Its epoch; 0 means the current one.
    pub epoch: u64,
    /// What it is to do.
    pub command: Command,
}

/// What the overseer asks of an agent (spec 05, The tick). A repeat has the same dispatch id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusRequest {
    /// Its id; whoever has seen it drops it.
    pub dispatch: DispatchId,
    /// The assignment it is about.
    pub assignment: AssignmentId,
    /// Its node.
    pub node: NodeId,
    /// The session that is asked; another drops it.
    pub session: SessionId,
    /// In words.
    pub text: String,
}

/// A child's result, as its parent gets it.
#[derive(Debug, Clone, PartialEq)]
pub struct ResultReady {
    /// Who worked.
    pub agent: AgentId,
    /// The node.
    pub node: NodeId,
    /// The run.
    pub run: RunId,
    /// What it ended with.
    pub result: RunResult,
    /// The reviewer's verdict that settled the node.
    pub verdict: Option<Verdict>,
}

/// The reply to an operation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OpReply {
    /// The operation.
    pub op: String,
    /// The code, when it was refused.
    pub error: Option<ErrorCode>,
    /// In words.
    pub detail: String,
    /// What came of it.
    pub epic: Option<EpicId>,
    /// The plan's version that it made.
    pub version: Option<u32>,
    /// The agent it is about.
    pub agent: Option<AgentId>,
    /// The agent's session.
    pub session: Option<SessionId>,
    /// The agent's epoch.
    pub agent_epoch: Option<u64>,
    /// The agent's liveness.
    pub liveness: Option<crate::liveness::Liveness>,
    /// What was asked for, as JSON text of at most [`crate::limits::ANSWER_BYTES_MAX`] bytes.
    pub data: Option<String>,
}

/// What is known of a correspondent: enough to say who may write to whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Who.
    pub id: AgentId,
    /// Its ancestors, the parent first.
    pub ancestors: Vec<AgentId>,
    /// Its project.
    pub project: Option<ProjectName>,
}

/// Refused: these two do not correspond.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not_addressable: {from} may not write to {to}; {hint}")]
pub struct NotAddressable {
    /// Who wanted to write.
    pub from: String,
    /// To whom.
    pub to: String,
    /// What to do instead.
    pub hint: &'static str,
}

/// Who may mail whom (spec 02, Mail): parent and child, own PO and GO, IO with GO, POs and its
/// human; ancestors may send `ctl`. Humans are not agents and may write to any.
///
/// # Errors
/// `not_addressable`, for every other pair.
pub fn may_mail(from: &Standing, to: &Standing, lane: Lane) -> Result<(), NotAddressable> {
    let refused =
        |hint| Err(NotAddressable { from: from.id.to_string(), to: to.id.to_string(), hint });
    if from.id == AgentId::Go {
        return Ok(());
    }
    let ancestor = to.ancestors.contains(&from.id);
    if lane == Lane::Ctl {
        return if ancestor { Ok(()) } else { refused("only ancestors may send control messages") };
    }
    let family = to.ancestors.first() == Some(&from.id) || from.ancestors.first() == Some(&to.id);
    let own_po = |id: &AgentId, project: &Option<ProjectName>| match id {
        AgentId::Po(name) => project.as_ref() == Some(name),
        AgentId::Go
        | AgentId::Ho(_)
        | AgentId::Io(_)
        | AgentId::Specialist(..)
        | AgentId::Reviewer(..)
        | AgentId::Worker(_) => false,
    };
    let po = own_po(&to.id, &from.project) || own_po(&from.id, &to.project);
    let io = matches!(
        (&from.id, &to.id),
        (AgentId::Io(_), AgentId::Po(_)) | (AgentId::Po(_), AgentId::Io(_))
    );
    if family || po || io || to.id == AgentId::Go {
        return Ok(());
    }
    refused("write to your parent, your project's PO or GO; write to siblings through the PO")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(id: &str, ancestors: &[&str], project: Option<&str>) -> Standing {
        Standing {
            id: id.parse().unwrap(),
            ancestors: ancestors.iter().map(|a| a.parse().unwrap()).collect(),
            project: project.map(|p| ProjectName::new(p).unwrap()),
        }
    }

    #[test]
    fn mail_permissions_follow_the_table() {
        let u1 = "W:01JD8Z5W6T4QK3M9X2V7B1N0AC";
        let u2 = "W:01JD8Z5W6T4QK3M9X2V7B1N0AD";
        let s = "S:api:01JD8Z5W6T4QK3M9X2V7B1N0AE";
        let go = standing("GO", &[], None);
        let po = standing("PO-a", &["GO"], Some("a"));
        let other = standing("PO-b", &["GO"], Some("b"));
        let io = standing("IO@Shai", &["GO"], None);
        let spec = standing(s, &["PO-a", "GO"], Some("a"));
        let one = standing(u1, &[s, "PO-a", "GO"], Some("a"));
        let two = standing(u2, &[s, "PO-a", "GO"], Some("a"));
        let mail = |from, to| may_mail(from, to, Lane::Mail).is_ok();
        let ctl = |from, to| may_mail(from, to, Lane::Ctl).is_ok();
        assert!(mail(&one, &spec) && mail(&spec, &one), "parent and child");
        assert!(mail(&one, &po) && mail(&po, &one), "own PO");
        assert!(mail(&one, &go) && mail(&go, &one), "GO");
        assert!(mail(&io, &po) && mail(&po, &io) && mail(&io, &go), "IO");
        assert!(!mail(&one, &two), "write to siblings through the PO");
        assert!(!mail(&one, &other) && !mail(&other, &one), "another project");
        assert!(!mail(&po, &other), "two projects");
        assert!(!mail(&io, &one), "IO mediates");
        assert!(ctl(&po, &one) && ctl(&spec, &one), "ancestors may send control");
        assert!(!ctl(&one, &spec) && !ctl(&other, &one) && !ctl(&io, &one));
    }
}
