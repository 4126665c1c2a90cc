//! One fault at one step: what has to happen for a process to get there, and which steps an
//! ordinary run takes.

use tetrarch_failpoint::{Failpoint, ProcessRole};

/// What a process does at a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is gone, as after kill -9.
    Kill,
    /// It stands still until the others have noticed.
    Pause,
}

/// What happens to a worker after its third step, so that the step is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Its program dies.
    Dies,
    /// Nothing, until the fault.
    Waits,
    /// Somebody asks for its next session.
    IsReplaced,
    /// Its host is killed.
    LosesItsHost,
    /// The bus stands still until everything is frozen; then somebody asks for its next session.
    LosesTheBus,
}

/// The turn that leads to a step.
pub(crate) fn turn(step: Failpoint) -> Turn {
    match step {
        Failpoint::SpawnTaken
        | Failpoint::LaunchDecided
        | Failpoint::LaunchCommitted
        | Failpoint::SealsPublished
        | Failpoint::LaunchPublished
        | Failpoint::PlanPublished
        | Failpoint::StateRecorded
        | Failpoint::ThroughRecorded
        | Failpoint::LaunchRead
        | Failpoint::CursorClaimed
        | Failpoint::StartingJournaled
        | Failpoint::ProgramStarted
        | Failpoint::ReadyReported
        | Failpoint::CheckpointJournaled
        | Failpoint::ResultSeen
        | Failpoint::ResultJournaled
        | Failpoint::ResultReported
        | Failpoint::ResultTaken
        | Failpoint::ResultDecided
        | Failpoint::ResultCommitted
        | Failpoint::JournalArchived
        | Failpoint::ProgramGone
        | Failpoint::CrashReported
        | Failpoint::EndTaken
        | Failpoint::NextDecided
        | Failpoint::NextCommitted
        | Failpoint::OwnerLeaseHeld
        | Failpoint::HostLeaseHeld
        | Failpoint::JoinSent => Turn::Dies,
        Failpoint::HeartbeatDue | Failpoint::HeartbeatSent => Turn::Waits,
        Failpoint::EndRead | Failpoint::GoneReported => Turn::IsReplaced,
        Failpoint::Frozen
        | Failpoint::LossFound
        | Failpoint::LeaseTaken
        | Failpoint::LossDecided
        | Failpoint::LossCommitted => Turn::LosesItsHost,
        Failpoint::DeadlinePassed => Turn::LosesTheBus,
    }
}

/// A step at which a process has to die first, so that the one that follows it gets to this one.
pub(crate) fn death_before(step: Failpoint) -> Option<Failpoint> {
    let after = |steps: &[Failpoint]| steps.contains(&step);
    if after(&[Failpoint::OwnerLeaseHeld]) {
        return Some(Failpoint::LaunchCommitted);
    }
    after(&[Failpoint::HostLeaseHeld, Failpoint::JoinSent]).then_some(Failpoint::CursorClaimed)
}

/// What is to be armed for a fault at a step.
pub(crate) fn faults(step: Failpoint, fault: Fault) -> Vec<(Failpoint, Fault)> {
    let before = death_before(step).map(|death| (death, Fault::Kill));
    before.into_iter().chain([(step, fault)]).collect()
}

/// Steps that an ordinary run takes: of each sort the one at which most has happened that nobody
/// knows yet.
const SAMPLE: [(Fault, &[Failpoint]); 2] = [
    (
        Fault::Kill,
        &[
            Failpoint::LaunchCommitted,
            Failpoint::ProgramStarted,
            Failpoint::CheckpointJournaled,
            Failpoint::ResultReported,
            Failpoint::NextCommitted,
            Failpoint::GoneReported,
            Failpoint::LeaseTaken,
        ],
    ),
    (Fault::Pause, &[Failpoint::LaunchDecided, Failpoint::CursorClaimed]),
];

/// The steps of a party that are to be taken with this fault.
pub(crate) fn steps(fault: Fault, parties: &[ProcessRole]) -> Vec<Failpoint> {
    let wanted = std::env::var("FAULTS").unwrap_or_default();
    let of_fault = SAMPLE.iter().filter(|(of, _)| *of == fault);
    let sample: Vec<Failpoint> = of_fault.flat_map(|(_, steps)| *steps).copied().collect();
    let taken = |step: &Failpoint| match wanted.as_str() {
        "" => sample.contains(step),
        "all" => true,
        names => names.split(',').any(|name| name == step.name()),
    };
    let all = Failpoint::ALL.iter().copied();
    all.filter(|step| parties.contains(&step.role()) && taken(step)).collect()
}
