//! Faults that a wrong owner, outbox, sweeper, bus or ledger would have: each has to be found. They
//! are planted in the simulator's shells, never in core.

use tetrarch_core::budget::Spend;
use tetrarch_core::id::{DispatchId, EpicId, NodeId, Ulid};
use tetrarch_core::ledger::{Entry, Record};
use tetrarch_core::limits::COMMIT_BYTES_MAX;
use tetrarch_core::liveness::Liveness;
use tetrarch_core::mail::{Mail, MailBody};
use tetrarch_core::plan::{NodeState, NodeStatus};
use tetrarch_core::records::Records;
use tetrarch_core::time::{BusTime, Millis};

/// A fault that is planted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    /// A child stands a level deeper than below its parent.
    DeeperChild,
    /// A parent is given slots that nobody counted.
    WiderParent,
    /// What was decided on a request is forgotten.
    ForgottenRequest,
    /// A session is ordered to start twice.
    LaunchedTwice,
    /// A child is admitted and takes no slot.
    ForgottenSlot,
    /// Reports of earlier sessions count as the current one's.
    EpochUnchecked,
    /// A new session begins without a seal.
    MissingSeal,
    /// Whoever claims a cursor gets it.
    ClaimUnchecked,
    /// A silent host's sessions go on elsewhere, and its lease is not taken.
    LeaseNotTaken,
    /// Orders to start are visible before the seals of their cursors.
    SealedLate,
    /// The ledger takes entries of owners that lag behind.
    UnfencedLedger,
    /// An agent that ended is brought back.
    Revived,
    /// A sweeper takes its own deafness for silence.
    DeafnessUnnoticed,
    /// A lease is taken at whatever revision it has.
    LeaseTakenBlindly,
    /// A seal forgets how far its inbox was read.
    PositionsForgotten,
    /// A plan's version is raised by two.
    SkippedVersion,
    /// Plan events are published whatever the stream has.
    PlanUnsequenced,
    /// A program starts and its journal does not say so.
    JournalSkipped,
    /// The outbox loses orders to start first sessions.
    LostLaunch,
    /// What was spent is forgotten.
    SpendingForgotten,
    /// STATE misses an entry.
    StateSkipped,
    /// A session is placed under a life of a host that is over.
    PlacedOnDeadLife,
    /// No circuit ever opens.
    Tireless,
    /// Much silence at once is declared at once.
    MassUnguarded,
    /// The owner does nothing by itself.
    NeverDue,
    /// The control plane commits when nothing happens.
    Restless,
    /// What an entry tells is not cut short.
    Unbounded,
    /// An owner goes on with a ledger that lost its memory.
    AmnesiaUnnoticed,
    /// Status requests leave before they are committed.
    SentBeforeCommit,
    /// What is sent again has another id.
    ResentAnew,
    /// The overseer forgets how long nothing is to be sent.
    BackoffForgotten,
    /// A tick of the overseer goes on until nothing is due.
    TickUnbounded,
    /// A node that is added gets the id of one that is settled.
    IdReused,
    /// A plan that changes forgets what was done.
    DoneForgotten,
}

impl Bug {
    /// Whether the outbox loses a message.
    pub(crate) fn loses(self, mail: &Mail) -> bool {
        let first = matches!(&mail.body, MailBody::Launch(launch) if launch.epoch == 1);
        self == Self::LostLaunch && first
    }

    /// Spoils an entry on its way to the ledger.
    pub(crate) fn spoil(self, truth: &Records, entry: &mut Entry) {
        match self {
            Self::SkippedVersion => {
                for event in entry.plans.iter_mut().filter(|event| event.version == 3) {
                    event.version += 1;
                }
            }
            Self::MissingSeal => entry.seals.clear(),
            Self::Revived => revive(truth, entry),
            Self::Unbounded => {
                for event in entry.events.iter_mut().filter(|_| truth.agents.len() > 3) {
                    event.reason = event.reason.repeat(COMMIT_BYTES_MAX / 8);
                }
            }
            Self::LaunchedTwice => {
                let launch =
                    entry.mail.iter().find(|mail| matches!(mail.body, MailBody::Launch(_)));
                entry.mail.extend(launch.cloned());
            }
            Self::ForgottenSlot
            | Self::DeeperChild
            | Self::WiderParent
            | Self::SpendingForgotten
            | Self::PlacedOnDeadLife => self.spoil_agents(truth, entry),
            Self::ResentAnew => resend_anew(truth, entry),
            Self::BackoffForgotten => remember_backoff(entry),
            Self::IdReused => reuse_id(truth, entry),
            Self::DoneForgotten => forget_done(truth, entry),
            Self::ForgottenRequest
            | Self::EpochUnchecked
            | Self::ClaimUnchecked
            | Self::LeaseNotTaken
            | Self::SealedLate
            | Self::UnfencedLedger
            | Self::DeafnessUnnoticed
            | Self::LeaseTakenBlindly
            | Self::PositionsForgotten
            | Self::PlanUnsequenced
            | Self::JournalSkipped
            | Self::LostLaunch
            | Self::StateSkipped
            | Self::Tireless
            | Self::MassUnguarded
            | Self::NeverDue
            | Self::Restless
            | Self::AmnesiaUnnoticed
            | Self::SentBeforeCommit
            | Self::TickUnbounded => {}
        }
    }

    fn spoil_agents(self, truth: &Records, entry: &mut Entry) {
        for record in &mut entry.records {
            let Record::Agent(agent) = record else { continue };
            if self == Self::ForgottenSlot {
                agent.slots.pop();
            } else if self == Self::DeeperChild && agent.work.is_some() {
                agent.depth += 1;
            } else if self == Self::WiderParent {
                let slot = agent.slots.first().cloned();
                agent.slots.extend(vec![slot; 3].into_iter().flatten());
            } else if self == Self::SpendingForgotten && truth.agents.contains_key(&agent.id) {
                let known = &truth.agents[&agent.id].account.spent;
                if *known != Spend::default() {
                    agent.account.spent = Spend::default();
                }
            } else if self == Self::PlacedOnDeadLife
                && let Some(placement) = &mut agent.placement
            {
                placement.host_epoch += 1;
            }
        }
    }
}

fn revive(truth: &Records, entry: &mut Entry) {
    let written: Vec<_> = entry.records.iter().map(Record::key).collect();
    let ended = truth
        .agents
        .values()
        .find(|agent| agent.liveness == Liveness::Terminated && agent.work.is_some());
    if let Some(ended) = ended {
        let mut back = ended.clone();
        back.liveness = Liveness::Active;
        let record = Record::Agent(Box::new(back));
        if !written.contains(&record.key()) {
            entry.records.push(record);
        }
    }
}

/// A node that comes into a plan that there is.
fn added(truth: &Records, entry: &Entry) -> Option<(EpicId, NodeId)> {
    entry.records.iter().find_map(|record| {
        let Record::Node(epic, node) = record else { return None };
        let known = truth.nodes.get(epic)?;
        (!known.contains_key(&node.id)).then_some((*epic, node.id))
    })
}

fn reuse_id(truth: &Records, entry: &mut Entry) {
    let Some((epic, new)) = added(truth, entry) else { return };
    let settled = truth.node_states.get(&epic).into_iter().flatten();
    let mut settled = settled.filter(|(_, state)| state.status.is_settled()).map(|(id, _)| *id);
    let Some(old) = settled.find(|id| id.parent() == new.parent()) else { return };
    for record in &mut entry.records {
        if let Record::Node(of, node) = record
            && (*of, node.id) == (epic, new)
        {
            node.id = old;
        } else if let Record::NodeState(of, state) = record
            && (*of, state.id) == (epic, new)
        {
            state.id = old;
        }
    }
}

fn forget_done(truth: &Records, entry: &mut Entry) {
    let Some((epic, _)) = added(truth, entry) else { return };
    let states = truth.node_states.get(&epic).into_iter().flatten();
    let done = states.map(|(_, state)| state).find(|state| state.status == NodeStatus::Done);
    if let Some(state) = done {
        let state = NodeState { status: NodeStatus::Todo, result: None, ..state.clone() };
        entry.records.push(Record::NodeState(epic, Box::new(state)));
    }
}

/// The ledger says a backoff that its owner does not know.
fn remember_backoff(entry: &mut Entry) {
    for record in &mut entry.records {
        if let Record::Assignment(one) = record
            && let Some(sent) = one.recovery.last_retry
            && one.recovery.backoff_until > BusTime(0)
        {
            one.recovery.backoff_until = sent + Millis(3_000);
        }
    }
}

fn resend_anew(truth: &Records, entry: &mut Entry) {
    let mut renamed = Vec::new();
    for mail in &mut entry.mail {
        if let MailBody::StatusRequest(asked) = &mut mail.body
            && truth.dispatches.contains_key(&asked.dispatch)
        {
            let anew = DispatchId(Ulid(asked.dispatch.0.0 ^ 1));
            renamed.push((std::mem::replace(&mut asked.dispatch, anew), anew));
        }
    }
    for (old, anew) in renamed {
        for record in &mut entry.records {
            if let Record::Dispatch(one) = record
                && one.id == old
            {
                one.id = anew;
            } else if let Record::Assignment(one) = record
                && one.recovery.dispatch == Some(old)
            {
                one.recovery.dispatch = Some(anew);
            }
        }
    }
}
