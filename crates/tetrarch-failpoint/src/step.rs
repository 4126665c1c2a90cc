//! The steps: one name for each moment between two things that the protocol does one after the
//! other. They stand in the order in which a request becomes work, work a result, and a death the
//! next session. What is done and what is not at each of them is said here and nowhere else.

/// Which process reaches a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessRole {
    /// `serve --global`.
    Owner,
    /// `host`.
    Host,
    /// `guard`.
    Guard,
}

macro_rules! steps {
    ($($(#[$text:meta])+ $step:ident = $name:literal by $role:ident,)+) => {
        /// A step of the protocol.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Failpoint {
            $($(#[$text])+ $step,)+
        }

        impl Failpoint {
            /// Every step.
            pub const ALL: &[Self] = &[$(Self::$step,)+];

            /// Its name, as a test arms it.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$step => $name,)+
                }
            }

            /// Which process reaches it.
            #[must_use]
            pub fn role(self) -> ProcessRole {
                match self {
                    $(Self::$step => ProcessRole::$role,)+
                }
            }
        }
    };
}

steps! {
    /// A spawn request was read from `REQUESTS`; nothing is decided.
    SpawnTaken = "spawn-taken" by Owner,
    /// The first launch of a run is decided; its entry is not sent.
    LaunchDecided = "launch-decided" by Owner,
    /// Its entry is in the ledger; the outbox does not know it.
    LaunchCommitted = "launch-committed" by Owner,
    /// Cursors are sealed; no mail of the entry is out.
    SealsPublished = "seals-published" by Owner,
    /// The launch order is out; the entry's plan events are not.
    LaunchPublished = "launch-published" by Owner,
    /// Plan events are out; no image of the entry is in `STATE`.
    PlanPublished = "plan-published" by Owner,
    /// The images are in `STATE`; `meta` does not say so.
    StateRecorded = "state-recorded" by Owner,
    /// `meta` says that everything is out, and that the request was taken in.
    ThroughRecorded = "through-recorded" by Owner,
    /// A launch order was read; nothing was done about it.
    LaunchRead = "launch-read" by Host,
    /// The cursor is claimed; the journal is empty.
    CursorClaimed = "cursor-claimed" by Host,
    /// The journal says `starting`; nothing is started.
    StartingJournaled = "starting-journaled" by Host,
    /// The program runs; nobody was told.
    ProgramStarted = "program-started" by Host,
    /// The owner was told that it runs.
    ReadyReported = "ready-reported" by Host,
    /// The host's lease is to be renewed and would name a run; it is not sent.
    HeartbeatDue = "heartbeat-due" by Host,
    /// The lease was renewed and named a run.
    HeartbeatSent = "heartbeat-sent" by Host,
    /// A checkpoint is in the journal; the program was not told `saved`.
    CheckpointJournaled = "checkpoint-journaled" by Host,
    /// The program gave its result; nothing was done about it.
    ResultSeen = "result-seen" by Host,
    /// The result is in the journal; it is not reported.
    ResultJournaled = "result-journaled" by Host,
    /// The result is reported.
    ResultReported = "result-reported" by Host,
    /// A reported result was read from `REQUESTS`; nothing is decided.
    ResultTaken = "result-taken" by Owner,
    /// What the result changes is decided; its entry is not sent.
    ResultDecided = "result-decided" by Owner,
    /// Its entry is in the ledger; the outbox does not know it.
    ResultCommitted = "result-committed" by Owner,
    /// The journal of a run that ended is an artifact; no record says so.
    JournalArchived = "journal-archived" by Owner,
    /// Every process of a run is gone; nobody was told.
    ProgramGone = "program-gone" by Host,
    /// A death is reported.
    CrashReported = "crash-reported" by Host,
    /// An order to end a session was read; nothing was done about it.
    EndRead = "end-read" by Host,
    /// A session that was ordered to end is reported to be gone.
    GoneReported = "gone-reported" by Host,
    /// That a session crashed or is gone was read from `REQUESTS`; nothing is decided.
    EndTaken = "end-taken" by Owner,
    /// The next session of an agent is decided; its entry is not sent.
    NextDecided = "next-decided" by Owner,
    /// Its entry is in the ledger; the outbox does not know it.
    NextCommitted = "next-committed" by Owner,
    /// The guard's deadline has passed; nothing is frozen.
    DeadlinePassed = "deadline-passed" by Guard,
    /// What the host ran is frozen.
    Frozen = "frozen" by Guard,
    /// A host was silent for long enough; its lease is not taken.
    LossFound = "loss-found" by Owner,
    /// The lease of a silent host is taken; nothing is decided.
    LeaseTaken = "lease-taken" by Owner,
    /// That a host is lost is decided; its entry is not sent.
    LossDecided = "loss-decided" by Owner,
    /// Its entry is in the ledger; the outbox does not know it.
    LossCommitted = "loss-committed" by Owner,
    /// A process holds the owner's lease; it has not read the records.
    OwnerLeaseHeld = "owner-lease-held" by Owner,
    /// A process holds its host's lease; it has not asked to join.
    HostLeaseHeld = "host-lease-held" by Host,
    /// It has asked to join; the answer is not read.
    JoinSent = "join-sent" by Host,
}
