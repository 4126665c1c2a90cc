//! One fault at one step: what has to happen for a process to get there, and which steps an
//! ordinary run takes.

use tetrarch_failpoint::{Party, Step};

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
pub(crate) fn turn(step: Step) -> Turn {
    match step {
        Step::SpawnTaken
        | Step::LaunchDecided
        | Step::LaunchCommitted
        | Step::SealsPublished
        | Step::LaunchPublished
        | Step::PlanPublished
        | Step::StateRecorded
        | Step::ThroughRecorded
        | Step::LaunchRead
        | Step::CursorClaimed
        | Step::StartingJournaled
        | Step::ProgramStarted
        | Step::ReadyReported
        | Step::CheckpointJournaled
        | Step::ResultSeen
        | Step::ResultJournaled
        | Step::ResultReported
        | Step::ResultTaken
        | Step::ResultDecided
        | Step::ResultCommitted
        | Step::JournalArchived
        | Step::ProgramGone
        | Step::CrashReported
        | Step::EndTaken
        | Step::NextDecided
        | Step::NextCommitted
        | Step::OwnerLeaseHeld
        | Step::HostLeaseHeld
        | Step::JoinSent => Turn::Dies,
        Step::HeartbeatDue | Step::HeartbeatSent => Turn::Waits,
        Step::EndRead | Step::GoneReported => Turn::IsReplaced,
        Step::Frozen
        | Step::LossFound
        | Step::LeaseTaken
        | Step::LossDecided
        | Step::LossCommitted => Turn::LosesItsHost,
        Step::DeadlinePassed => Turn::LosesTheBus,
    }
}

/// A step at which a process has to die first, so that the one that follows it gets to this one.
pub(crate) fn death_before(step: Step) -> Option<Step> {
    let after = |steps: &[Step]| steps.contains(&step);
    if after(&[Step::OwnerLeaseHeld]) {
        return Some(Step::LaunchCommitted);
    }
    after(&[Step::HostLeaseHeld, Step::JoinSent]).then_some(Step::CursorClaimed)
}

/// What is to be armed for a fault at a step.
pub(crate) fn faults(step: Step, fault: Fault) -> Vec<(Step, Fault)> {
    let before = death_before(step).map(|death| (death, Fault::Kill));
    before.into_iter().chain([(step, fault)]).collect()
}

/// Steps that an ordinary run takes: of each sort the one at which most has happened that nobody
/// knows yet.
const SAMPLE: [(Fault, &[Step]); 2] = [
    (
        Fault::Kill,
        &[
            Step::LaunchCommitted,
            Step::ProgramStarted,
            Step::CheckpointJournaled,
            Step::ResultReported,
            Step::NextCommitted,
            Step::GoneReported,
            Step::LeaseTaken,
        ],
    ),
    (Fault::Pause, &[Step::LaunchDecided, Step::CursorClaimed]),
];

/// The steps of a party that are to be taken with this fault.
pub(crate) fn steps(fault: Fault, parties: &[Party]) -> Vec<Step> {
    let wanted = std::env::var("FAULTS").unwrap_or_default();
    let of_fault = SAMPLE.iter().filter(|(of, _)| *of == fault);
    let sample: Vec<Step> = of_fault.flat_map(|(_, steps)| *steps).copied().collect();
    let taken = |step: &Step| match wanted.as_str() {
        "" => sample.contains(step),
        "all" => true,
        names => names.split(',').any(|name| name == step.name()),
    };
    let all = Step::ALL.iter().copied();
    all.filter(|step| parties.contains(&step.party()) && taken(step)).collect()
}
