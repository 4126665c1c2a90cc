//! The audit trail (spec 09): which requests are privileged acts, what the decision on one keeps of it, and
//! what an entry of the ledger says of such acts. The form in which they are exported is in `chain`.

pub mod chain;

use crate::id::{Principal, RequestId};
use crate::ledger::{Decision, Entry, EventKind, Record};
use crate::mail::MailBody;
use crate::request::conversations::ConversationOp;
use crate::request::goals::GoalOp;
use crate::request::planning::PlanOp;
use crate::request::schedules::ScheduleOp;
use crate::request::work::{WorkOp, WorkVerb};
use crate::request::{BudgetOp, FileOp, GateOp, GateVerdict, NoteOp, Op, Request, RequestBody};

/// Characters of [`Act::about`] at most.
const ABOUT_CHARS_MAX: usize = 256;

/// A privileged act, as the decision on it keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Act {
    /// Its name: the operation's, such as `budget.raise`, or `creds.revoke`.
    pub what: String,
    /// What it is about, with the reason that was given.
    pub about: String,
    /// The public key of the user it was asked with, as the server said; none when it did not.
    pub credential: Option<String>,
}

/// What was done with a credential, beside the bus: its keys' holder writes it down for the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialAct {
    /// What it is known by: it comes to the ledger once.
    pub id: RequestId,
    /// Who did it, as they named themselves; GO when they did not.
    pub by: Principal,
    /// Who has no credential after it: what they left behind begins no more.
    pub ends: Option<Principal>,
    /// What was done.
    pub act: Act,
}

/// Whether something that is asked is a privileged act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Privilege {
    /// Whoever asks.
    Always,
    /// When a person asks: to agents it is their work.
    OfPeople,
    /// Never: it reads, or is about the sender's own.
    Never,
}

/// What is kept of a request for the audit; none when it is no privileged act.
#[must_use]
pub fn act(request: &Request) -> Option<Act> {
    let (what, (privilege, about)) = match &request.body {
        RequestBody::Op(op) => (op.name(), of_op(op)),
        RequestBody::Spawn(wanted) => {
            let about = format!("{}: {}", wanted.epic, wanted.reason);
            ("spawn.request", (Privilege::OfPeople, about))
        }
        RequestBody::Report(_) | RequestBody::Malformed { .. } => return None,
    };
    let is_act = match privilege {
        Privilege::Always => true,
        Privilege::OfPeople => request.sender.from.agent().is_none(),
        Privilege::Never => false,
    };
    let about = about.chars().take(ABOUT_CHARS_MAX).collect();
    let (what, credential) = (what.to_owned(), request.credential.clone());
    is_act.then_some(Act { what, about, credential })
}

/// Every operation is one or the other, so a new one has to be classified here.
fn of_op(op: &Op) -> (Privilege, String) {
    use Privilege::{Always, Never, OfPeople};
    match op {
        Op::HostJoin(join) => (Always, format!("lease epoch {}", join.lease_epoch)),
        Op::HumanJoin { human } => (Always, human.to_string()),
        Op::ProjectCreate(it) => {
            let how = if it.external { ", with a program of its own" } else { "" };
            (Always, format!("{}: {}{how}", it.project, it.mode))
        }
        Op::ProjectMode { project, mode } => (Always, format!("{project}: {mode}")),
        Op::ProjectRetire { project } => (Always, project.to_string()),
        Op::ProfileApply { project, profile } => (Always, format!("{project}: {}", profile.name)),
        Op::AgentRegister => (Always, String::new()),
        Op::AgentRetire { agent, reason } | Op::AgentRotate { agent, reason } => {
            (Always, because(agent, reason))
        }
        Op::AgentReplace { agent, give_up, reason, .. } => {
            let how = if *give_up { "given up" } else { "goes on" };
            (Always, because(format_args!("{agent} {how}"), reason))
        }
        Op::HostDrain(it) => {
            let how = if it.undo { "accepts agents again" } else { "accepts no more agents" };
            (Always, because(format_args!("{} {how}", it.host), &it.reason))
        }
        Op::CircuitClose { agent } => (Always, agent.to_string()),
        // What was said to it is in its journal.
        Op::Verb(it) => (Always, it.agent.to_string()),
        Op::QuestionAnswer { question, .. } => (Always, question.to_string()),
        Op::OverseerTick(_) => (Always, String::new()),
        Op::Gate(op) => (Always, of_gate(op)),
        Op::Budget(BudgetOp::Raise { agent, more, reason }) => {
            (Always, because(format_args!("{agent} {more} more"), reason))
        }
        Op::Plan(op) => of_plan(op),
        Op::Work(op) => of_work(op),
        Op::GoalCreate { project, plan } => (OfPeople, format!("{project}: {}", plan.goal.title)),
        Op::GoalUpdate(it) => (OfPeople, because(it.epic, &it.reason)),
        Op::Goal(GoalOp { epic, reason, .. }) => (OfPeople, because(epic, reason)),
        Op::WorkBlock { epic, node, .. } => (OfPeople, format!("{epic}/{node}")),
        Op::Schedule(op) => match op {
            ScheduleOp::Create { rhythm, .. } => (OfPeople, rhythm.in_words()),
            ScheduleOp::Delete { schedule } => (OfPeople, schedule.to_string()),
            ScheduleOp::List { .. } => (Never, String::new()),
        },
        Op::File(op) => match op {
            FileOp::Release { reservation } => (OfPeople, reservation.to_string()),
            FileOp::Reserve { .. } | FileOp::List { .. } => (Never, String::new()),
        },
        Op::Note(op) => match op {
            NoteOp::Put { name, .. } | NoteOp::Delete { name, .. } => (OfPeople, name.to_string()),
            NoteOp::Search { .. } => (Never, String::new()),
        },
        Op::Conversation(op) => match op {
            // What is said stands in its turn.
            ConversationOp::Say(it) => (OfPeople, it.conversation.to_string()),
            ConversationOp::Cancel { conversation, number } => {
                (OfPeople, format!("{conversation}: turn {number}"))
            }
            ConversationOp::Move(_) => (Never, String::new()),
            ConversationOp::Graph(it) => (Always, it.project.to_string()),
        },
        Op::AgentStatus { .. } => (Never, String::new()),
    }
}

fn of_gate(op: &GateOp) -> String {
    match op {
        GateOp::Decide { change, verdict: GateVerdict::Approve { digest }, reason } => {
            because(format_args!("{change} approved as {digest}"), reason)
        }
        GateOp::Decide { change, verdict: GateVerdict::Deny, reason } => {
            because(format_args!("{change} denied"), reason)
        }
        GateOp::Apply { change } => change.to_string(),
    }
}

fn of_plan(op: &PlanOp) -> (Privilege, String) {
    match op {
        PlanOp::Decide { draft, verdict, reason, .. } => {
            let what = format_args!("{draft} {}", verdict.as_str());
            (Privilege::Always, because(what, reason))
        }
        PlanOp::Plan(it) => (Privilege::OfPeople, because(it.epic, &it.reason)),
        PlanOp::Add(it) => (Privilege::OfPeople, because(it.epic, &it.reason)),
        PlanOp::Split(it) => (Privilege::OfPeople, because(it.epic, &it.reason)),
        PlanOp::Merge(it) => (Privilege::OfPeople, because(it.epic, &it.reason)),
    }
}

fn of_work(op: &WorkOp) -> (Privilege, String) {
    let WorkOp { epic, verb } = op;
    match verb {
        // Somebody who did not work on it calls it done.
        WorkVerb::Complete(it) => {
            (Privilege::Always, because(format_args!("{epic}/{}", it.node), &it.reason))
        }
        WorkVerb::Reprioritise { reason, .. } => (Privilege::OfPeople, because(epic, reason)),
        WorkVerb::Unblock { node, note } => {
            (Privilege::OfPeople, because(format_args!("{epic}/{node}"), note))
        }
        WorkVerb::List { .. } | WorkVerb::Insights { .. } | WorkVerb::Recommend { .. } => {
            (Privilege::Never, String::new())
        }
    }
}

fn because(what: impl std::fmt::Display, reason: &str) -> String {
    if reason.is_empty() { what.to_string() } else { format!("{what}: {reason}") }
}

/// One act, as an entry of the ledger has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audited {
    /// Whose doing.
    pub actor: Principal,
    /// What was done.
    pub act: Act,
    /// The request behind it; none when there was none.
    pub request: Option<RequestId>,
    /// Why it was refused, with its code; none when it was done.
    pub refused: Option<String>,
}

/// The privileged acts of an entry, in its order.
#[must_use]
pub fn acts_of(entry: &Entry) -> Vec<Audited> {
    let decided = entry.records.iter().filter_map(|record| {
        if let Record::Decision(decision) = record { of_decision(decision) } else { None }
    });
    // What the owner's process and people do to the ledger itself is no request.
    let beside = entry.events.iter().filter(|event| {
        let of_person = event.request.is_none() && event.actor.agent().is_none();
        of_person || event.kind == EventKind::OwnerStarted
    });
    let beside = beside.map(|event| {
        let (what, about) = (event.kind.as_str().to_owned(), event.reason.clone());
        let act = Act { what, about, credential: None };
        Audited { actor: event.actor.clone(), act, request: None, refused: None }
    });
    decided.chain(beside).collect()
}

fn of_decision(decision: &Decision) -> Option<Audited> {
    let refused = decision.answer.as_ref().and_then(|mail| {
        if let MailBody::SpawnAnswer(answer) = &mail.body {
            return answer.refused().then(|| answer.reason.clone());
        }
        let MailBody::Reply(reply) = &mail.body else { return None };
        reply.error.map(|code| format!("{code}: {}", reply.detail))
    });
    let (actor, request) = (decision.sender.clone(), Some(decision.request));
    Some(Audited { actor, act: decision.act.as_deref()?.clone(), request, refused })
}

#[cfg(test)]
mod tests;
