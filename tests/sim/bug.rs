//! Faults that a wrong owner, outbox or ledger would have: each has to be found.

use tetrarch_core::ledger::{Entry, Record};
use tetrarch_core::liveness::Liveness;
use tetrarch_core::mail::{Mail, MailBody};
use tetrarch_core::records::Records;

/// A fault that is planted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    /// A child is admitted and takes no slot.
    ForgottenSlot,
    /// A plan's version is raised by two.
    SkippedVersion,
    /// A new session begins without a seal.
    MissingSeal,
    /// The outbox loses launch orders.
    LostLaunch,
    /// An agent that ended is brought back.
    Revived,
    /// The ledger takes entries of owners that lag behind.
    UnfencedLedger,
    /// A sweeper takes its own deafness for silence.
    DeafnessUnnoticed,
    /// A silent host's sessions go on elsewhere, and its lease is not taken.
    LeaseNotTaken,
    /// A lease is taken at whatever revision it has.
    LeaseTakenBlindly,
}

impl Bug {
    /// Every one, with what has to be said of it.
    pub(crate) const ALL: [(Self, &'static str); 9] = [
        (Self::ForgottenSlot, "invariant 5"),
        (Self::SkippedVersion, "invariant 13"),
        (Self::MissingSeal, "invariant 7"),
        (Self::LostLaunch, "invariant 27"),
        (Self::Revived, "invariant 10"),
        (Self::UnfencedLedger, "invariant 8"),
        (Self::DeafnessUnnoticed, "invariant 11"),
        (Self::LeaseNotTaken, "invariant 7"),
        (Self::LeaseTakenBlindly, "invariant 11"),
    ];

    /// Whether the outbox loses a message.
    pub(crate) fn loses(self, mail: &Mail) -> bool {
        self == Self::LostLaunch && matches!(mail.body, MailBody::Launch(_))
    }

    /// Spoils an entry on its way to the ledger.
    pub(crate) fn spoil(self, truth: &Records, entry: &mut Entry) {
        match self {
            Self::ForgottenSlot => {
                for record in &mut entry.records {
                    if let Record::Agent(agent) = record {
                        agent.slots.pop();
                    }
                }
            }
            Self::SkippedVersion => {
                for event in entry.plans.iter_mut().filter(|event| event.version == 3) {
                    event.version += 1;
                }
            }
            Self::MissingSeal => entry.seals.clear(),
            Self::Revived => {
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
            Self::LostLaunch
            | Self::UnfencedLedger
            | Self::DeafnessUnnoticed
            | Self::LeaseNotTaken
            | Self::LeaseTakenBlindly => {}
        }
    }
}
