//! The owner's machine: what becomes of every request, report and start (spec 02, One ledger,
//! one owner). It decides on the records and says what to write; committing, sending and the
//! clock are the shell's. The governor's rule is in `admission`, spawning in `spawn`,
//! operations in `operations`, reports in `reports`, sessions in `sessions`, lost sessions in
//! `recovery`, those to be ended first in `ending`, on request in `replacing`, silent ones in
//! `silence`, stops in `stopping`, what lasts too long in `deadlines`, what else is asked of runs in `verbs`, what is forgotten in
//! `forgetting`, what cannot be read in `holding`, what people are told to look at in `troubles`,
//! circuits in `circuits`, hosts in `hosts`, plans in `plans`, changes of plans in `planning`, what the
//! planner is asked in `consulting`, tasks that it cuts in `replanning`, goals in `goals`, work in `work`,
//! what is spent ahead in `spending`, what is settled in `settling`, journals
//! that are kept in `archiving`, what begins at set times in
//! `schedules`, reservations of files in `files`, changes before their branches in `changes`, questions
//! to people in `questions`, mail to GO and what readers set aside in `post`, what the overseer does in
//! `overseeing`.

mod affording;
mod archiving;
mod brief;
mod changes;
mod circuits;
mod consulting;
mod conversing;
mod crystallizing;
mod deadlines;
mod ending;
mod files;
mod forgetting;
mod goals;
mod group;
mod holding;
mod hosts;
mod judging;
mod notes;
mod operations;
mod overseeing;
mod planning;
mod plans;
mod post;
mod profiles;
mod proposals;
mod questions;
mod raising;
mod reclaiming;
mod recovery;
mod replacing;
mod replanning;
mod reports;
mod requests;
mod restoring;
mod schedules;
mod sessions;
mod settling;
mod silence;
mod spawn;
pub(crate) mod spending;
mod stopping;
#[cfg(test)]
pub(crate) mod tests;
mod troubles;
mod verbs;
mod weight;
mod work;

use std::collections::BTreeSet;

use crate::agent::{Agent, Hosting, Unsettled};
use crate::audit::CredentialAct;
use crate::brief::Tools;
use crate::budget::Account;
use crate::change::Approvals;
use crate::converse::cost::Prices;
use crate::error::{ErrorCode, Refusal};
use crate::fit;
use crate::id::{AgentId, DispatchId, Principal, SessionId};
use crate::intensity::{Circuit, Intensity};
use crate::ledger::{EventKind, Record};
use crate::limits::{
    APPROVAL_TTL, CHILDREN_MAX, DEPTH_CEILING, REQUESTS_PER_SECOND, TEXT_BYTES_MAX, WINDOW,
};
use crate::liveness::Liveness;
use crate::mail::receipt::SetAside;
use crate::mail::{Alert, MailBody, OpReply};
use crate::overseer::reach::Reach;
use crate::overseer::{Patience, Telemetry};
use crate::planner::{Planner, Proposal};
use crate::records::Records;
use crate::request::{MalformedKind, Request, RequestBody, Sender};
use crate::share::Excess;
use crate::snapshot::{Due, Snapshot};
use crate::step::{Draft, Step};
use crate::sweep::Absence;
use crate::time::{BusTime, Millis};
use crate::trouble::Trouble;
use crate::verb::Verbs;

pub use archiving::{Archived, Failures, Unarchived, archiving_at, journaled, unarchived};
pub use brief::RunDefaults;
pub use consulting::goal_question;
pub use deadlines::{Deadlines, next_deadline, unanswering_hosts};
pub use forgetting::{Kept, forgetting_is_late};
pub use group::Group;
pub use judging::PlannerQuestion;
pub use overseeing::stalling;
pub use post::{Posted, refusal as refusal_of_mail};
pub use reclaiming::{Fill, JournalCount, MailCount, Reclaim, reclaim};
pub use requests::{answer, is_only_answered};
pub use restoring::{Frame, restoring};
pub use settling::{Settlement, unsettled};

/// What an operator may set (spec 12, `[limits]`, `[deadlines]`, `[runs]`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Depth below GO, at most 3.
    pub max_depth: u8,
    /// Sub-agents per parent, at most 3.
    pub max_children: usize,
    /// What a run may use where neither its request, nor its plan, nor its profile says how much.
    pub run: RunDefaults,
    /// What one sender outside may ask a second (spec 09, On the bus).
    pub requests_per_second: u64,
    /// Failures of a parent's children that are borne (spec 04, Restart intensity).
    pub intensity: Intensity,
    /// How long a run may stand in a state (spec 06).
    pub deadlines: Deadlines,
    /// The liveness window (spec 04).
    pub window: Millis,
    /// How long what is over is remembered (spec 02, Streams).
    pub kept: Kept,
    /// How long an assignment may stand still, and what then (spec 05, The tick).
    pub overseer: Patience,
    /// Whether the overseer proposes by itself how plans could be cut or joined (spec 05, Insights).
    pub proposes: bool,
    /// Whom the overseer supervises besides this installation's own agents.
    pub reach: Reach,
    /// Who may change plans besides GO and people (spec 05, `E_UNAUTHORIZED`).
    pub plan_appliers: BTreeSet<Principal>,
    /// Who makes plans, when somebody does (spec 05, The planner).
    pub planner: Option<Planner>,
    /// What models cost (spec 12, `[prices]`).
    pub prices: Prices,
    /// How long a change may wait for a decision and then to be applied (spec 09, Human gate).
    pub approval_ttl: Millis,
    /// How many people have to approve a change, and who may.
    pub approvals: Approvals,
    /// Why no work is taken at present, in words; none when it is.
    pub halted: Option<String>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            max_depth: DEPTH_CEILING,
            max_children: CHILDREN_MAX,
            run: RunDefaults::default(),
            requests_per_second: REQUESTS_PER_SECOND,
            intensity: Intensity::default(),
            deadlines: Deadlines::default(),
            window: WINDOW,
            kept: Kept::default(),
            overseer: Patience::default(),
            proposes: false,
            reach: Reach::default(),
            plan_appliers: BTreeSet::new(),
            planner: None,
            prices: Prices::default(),
            approval_ttl: APPROVAL_TTL,
            approvals: Approvals::default(),
            halted: None,
        }
    }
}

/// What the owner decides on.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// This process became the owner.
    Started {
        /// Its epoch.
        epoch: u64,
        /// What tells this process from others.
        instance: String,
    },
    /// A message of `REQUESTS`.
    Request(Box<Request>),
    /// A message of `REQUESTS` of a sender that asked more than its share, which is so many a second.
    OverShare(Box<Request>, Excess),
    /// A message to GO.
    Post(Box<Posted>),
    /// A message that its reader has not read and that is not kept for much longer.
    Unread(AgentId, Box<SetAside>),
    /// A heartbeat of an external agent, or the first row of a hosted one.
    Heard {
        /// Who.
        agent: AgentId,
        /// Its epoch; 1 when it did not say.
        epoch: u64,
        /// Its session, when it said.
        session: Option<SessionId>,
    },
    /// The sweeper found something of a session.
    Swept {
        /// Whose.
        agent: AgentId,
        /// Its epoch.
        epoch: u64,
        /// What it is.
        found: Silence,
    },
    /// Too many are silent at once.
    MassSilence {
        /// How many are.
        silent: u64,
        /// Of how many.
        active: u64,
    },
    /// Time has passed: what is due is done.
    Tick,
    /// The overseer looks at what stands still, with what is heard of agents.
    Oversee(Telemetry),
    /// What asking the planner came to.
    Proposed(Box<Proposal>),
    /// The planner is asked once more what it was asked by an owner that is gone.
    AskAgain(DispatchId),
    /// All records as they were after an entry are kept, for a reason.
    Snapshot(Box<Snapshot>, Due),
    /// The ledger was nearly full and was trimmed before its time.
    TrimmedEarly {
        /// The last sequence that is gone.
        through: u64,
        /// How many bytes were kept.
        bytes: u64,
        /// How many there may be.
        limit: u64,
    },
    /// Something that people have to look at.
    Trouble(Trouble),
    /// What the journals of lost runs say.
    Settled(Vec<Settlement>),
    /// An ended run's journal is kept.
    Archived(Archived),
    /// Something was done with a credential, beside the bus.
    Credential(Box<CredentialAct>),
}

/// What the sweeper found of a session (spec 04).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Silence {
    /// It missed a window or two.
    Begun {
        /// How many.
        missed: u64,
    },
    /// It is heard of again.
    Broken,
    /// It missed three windows or more. A host's lease was taken from it.
    Long {
        /// How many.
        missed: u64,
    },
    /// Its host lives and does not have it.
    Absent(Absence),
}

/// Decides on one input. Changes nothing; deciding the same again gives the same step.
#[must_use]
pub fn decide(records: &Records, policy: &Policy, now: BusTime, input: &Input) -> Step {
    let step = written_as_a_whole(records, now, decide_on(records, policy, now, input));
    if records.held.is_empty() {
        return step;
    }
    if let Input::Request(request) = input {
        holding::request(records, now, request, step)
    } else {
        holding::spare(records, step)
    }
}

/// A step that can be written; instead of one that cannot, people are told so. A request is answered before it comes
/// to this ([`requests::decide`]): an entry that cannot be encoded would end every owner that makes it again.
fn written_as_a_whole(records: &Records, now: BusTime, step: Step) -> Step {
    let Some(part) = weight::overweight(records, &step) else { return step };
    let mut draft = Draft::new(records, now, go());
    draft.event(EventKind::Alert, "02 Bounds", format!("a decision was left out: {part}"));
    draft.finish()
}

fn decide_on(records: &Records, policy: &Policy, now: BusTime, input: &Input) -> Step {
    match input {
        Input::Started { epoch, instance } => started(records, policy, now, *epoch, instance),
        Input::Request(request) => requests::decide(records, policy, now, request),
        Input::OverShare(request, why) => requests::over_share(records, now, request, why),
        Input::Unread(reader, letter) => {
            let mut draft = Draft::new(records, now, go());
            post::set_aside(&mut draft, reader, letter);
            draft.finish()
        }
        Input::Post(posted) => post::posted(records, now, posted),
        Input::Heard { agent, epoch, session } => {
            silence::heard(records, now, agent, (*epoch, *session))
        }
        Input::Swept { agent, epoch, found } => {
            let mut draft = Draft::new(records, now, go());
            silence::swept(&mut draft, policy, agent, *epoch, *found);
            draft.finish()
        }
        Input::MassSilence { silent, active } => {
            let mut draft = Draft::new(records, now, go());
            silence::mass_silence(&mut draft, *silent, *active);
            draft.finish()
        }
        Input::Tick => tick(records, policy, now),
        Input::Oversee(telemetry) => {
            let mut draft = Draft::new(records, now, go());
            drop(overseeing::tick(&mut draft, policy, telemetry));
            overseeing::propose(&mut draft, policy, telemetry);
            draft.finish()
        }
        Input::Proposed(proposal) => proposals::proposed(records, policy, now, proposal),
        Input::AskAgain(id) => proposals::again(records, policy, now, *id),
        Input::Snapshot(taken, due) => restoring::snapshot(records, now, taken, *due),
        Input::TrimmedEarly { through, bytes, limit } => {
            let mut draft = Draft::new(records, now, go());
            let text = format!(
                "{bytes} bytes of {limit} were used; entries up to {through} are gone before their \
                 time; give it more room or a shorter retention.ledger"
            );
            sessions::alert(
                &mut draft,
                &AgentId::Go,
                Alert::LedgerFull,
                restoring::SNAPSHOTS,
                &text,
            );
            draft.finish()
        }
        Input::Settled(settlements) => {
            let mut draft = Draft::new(records, now, go());
            settling::settle(&mut draft, settlements);
            draft.finish()
        }
        Input::Archived(archived) => archiving::note(records, now, archived),
        Input::Credential(it) => requests::noted(records, now, it),
        Input::Trouble(trouble) => {
            let mut draft = Draft::new(records, now, go());
            troubles::tell(&mut draft, trouble);
            draft.finish()
        }
    }
}

fn go() -> Principal {
    Principal::Agent(AgentId::Go)
}

fn started(records: &Records, policy: &Policy, now: BusTime, epoch: u64, instance: &str) -> Step {
    let mut draft = Draft::new(records, now, go());
    let before = records.agents.get(&AgentId::Go);
    // It begins again on what it finds when a commit of its own was refused.
    let again = before.filter(|go| go.epoch == epoch).and_then(|go| go.session);
    let agent = Agent {
        id: AgentId::Go,
        session: again.or_else(|| Some(SessionId::derive(now, instance, "owner", 0))),
        epoch,
        liveness: Liveness::Active,
        reason: "holds the GO lease".to_owned(),
        since: now,
        ending: None,
        parent: None,
        depth: 0,
        max_depth: policy.max_depth.min(DEPTH_CEILING),
        local_max_depth: policy.max_depth.min(DEPTH_CEILING),
        requested_by: go(),
        project: None,
        hosting: Hosting::Owner,
        placement: None,
        label: String::new(),
        slots: Vec::new(),
        account: before.map_or_else(Account::default, |go| go.account),
        unsettled: Unsettled::default(),
        deadline: None,
        tools: Tools::every(),
        circuit: Circuit::default(),
        work: None,
        verbs: Verbs::default(),
        created: before.map_or(now, |go| go.created),
        mail_read: before.map_or(0, |go| go.mail_read),
        denials: before.map_or_else(Default::default, |go| go.denials),
        retired: false,
    };
    draft.put(Record::Agent(Box::new(agent)));
    draft
        .event(EventKind::OwnerStarted, "04 The GO lease", format!("epoch {epoch} of {instance}"))
        .agent = Some(AgentId::Go);
    draft.finish()
}

fn tick(records: &Records, policy: &Policy, now: BusTime) -> Step {
    let mut draft = Draft::new(records, now, go());
    forgetting::forget_due(&mut draft, policy.kept);
    deadlines::pass(&mut draft, policy);
    schedules::fire_due(&mut draft, policy);
    files::forget_over(&mut draft);
    changes::expire_due(&mut draft);
    if recovery::is_due(records, &draft) {
        recovery::recover_due(&mut draft);
    }
    let step = draft.finish();
    if step.is_empty() { spawn::queue::decide_next(records, policy, now) } else { step }
}

/// Whether a tick would recover or admit somebody now, so that the shell need not wait for the next one.
#[must_use]
pub fn is_due(records: &Records, policy: &Policy) -> bool {
    let draft = Draft::new(records, BusTime::default(), go());
    recovery::is_due(records, &draft) || spawn::queue::is_due(&draft, policy)
}

/// Refuses a request in the form its kind is answered in.
fn refuse(draft: &mut Draft<'_>, request: &Request, refusal: &Refusal) {
    // A list of all that is wrong may be longer than what a record keeps.
    let detail = fit::Room::of(TEXT_BYTES_MAX).text(&refusal.detail, usize::MAX);
    let refusal = &Refusal { detail, ..refusal.clone() };
    let event = draft.event(EventKind::Refused, "02 Subjects", refusal.to_string());
    event.agent = request.sender.from.agent().cloned();
    let op = match &request.body {
        RequestBody::Spawn(_) | RequestBody::Malformed { kind: MalformedKind::Spawn, .. } => {
            spawn::refuse(draft, request, refusal);
            return;
        }
        RequestBody::Op(op) => op.name(),
        RequestBody::Report(report) => report.kind(),
        RequestBody::Malformed { kind: MalformedKind::Plan, .. } => "goal.create",
        RequestBody::Malformed { kind: MalformedKind::Other, .. } => "",
    };
    let reply = OpReply {
        error: Some(refusal.code),
        detail: refusal.detail.clone(),
        version: refusal.version,
        ..ok_reply(op)
    };
    draft.mail(request.sender.from.clone(), None, MailBody::Reply(reply));
}

fn ok_reply(op: &str) -> OpReply {
    OpReply { op: op.to_owned(), ..OpReply::default() }
}

/// Whether the sender's session is the current one of an agent that may act (spec 02: every
/// operation and report of a session or epoch that is not current is refused).
fn current<'d>(draft: &'d Draft<'_>, sender: &Sender) -> Result<&'d Agent, Refusal> {
    let Some(id) = sender.from.agent() else {
        let detail = format!("{} is not an agent", sender.from);
        return Err(Refusal::new(ErrorCode::Unauthorized, detail));
    };
    let agent = draft
        .agent(id)
        .ok_or_else(|| Refusal::new(ErrorCode::NotFound, format!("agent {id} was not found")))?;
    if agent.session.is_none() {
        let detail = format!("{id} has not registered yet");
        return Err(Refusal::new(ErrorCode::Superseded, detail));
    }
    let session_fits = sender.session.is_none_or(|session| agent.session == Some(session));
    if agent.epoch != sender.epoch || !session_fits {
        let detail = format!(
            "epoch {} of {id} is not current; the current epoch is {}",
            sender.epoch, agent.epoch
        );
        return Err(Refusal::new(ErrorCode::Superseded, detail));
    }
    if agent.liveness == Liveness::Terminated {
        let detail = format!("{id} is terminated: {}", agent.reason);
        return Err(Refusal::new(ErrorCode::Superseded, detail));
    }
    if let Some(via) = &sender.via {
        let own = *id == AgentId::Ho(via.clone());
        let placed = agent.placement.as_ref().map(|placement| &placement.host);
        if !own && placed != Some(via) {
            let detail = format!("{id} is not placed on {via}");
            return Err(Refusal::new(ErrorCode::Unauthorized, detail));
        }
    }
    Ok(agent)
}
