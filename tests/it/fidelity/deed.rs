//! What is done in a sequence, and what it came to: the same words for both buses.

use tetrarch_core::cursor::{Claim, Cursor, FIRST_EPOCH};
use tetrarch_core::id::{AgentId, CommitId, HostName, RunId, SessionId, Ulid};
use tetrarch_core::journal::JournalEvent;
use tetrarch_core::ledger::{Entry, Seal};
use tetrarch_tests::dice::Dice;
use tetrarch_tests::empty_entry;

/// Owners, agents, runs, hosts and keys in a sequence.
const FEW: usize = 3;

/// One thing that is done. Numbers name whoever does it; what does not exist yet does nothing.
#[derive(Debug, Clone)]
pub(super) enum Deed {
    /// An owner begins to write, knowing all but this many of the ledger's entries.
    Own {
        owner: usize,
        epoch: u64,
        lag: u64,
    },
    /// An owner commits; `unheard`: an earlier attempt of the same is stored.
    Commit {
        owner: usize,
        commit: CommitId,
        unheard: bool,
    },
    Seal(Seal),
    Claim {
        slot: usize,
        agent: AgentId,
        epoch: u64,
        claim: Claim,
        /// The cursor of a new agent.
        first: Option<Box<Cursor>>,
    },
    /// Whoever claimed moves its cursor; `again`: the same bytes at the same sequence once more.
    Move {
        slot: usize,
        mail: u64,
        again: bool,
    },
    Open {
        slot: usize,
        run: RunId,
        agent: AgentId,
        epoch: u64,
    },
    Append {
        slot: usize,
        events: Vec<JournalEvent>,
    },
    Read {
        agent: AgentId,
    },
    Acquire {
        key: usize,
        instance: usize,
        floor: u64,
        ttl_secs: Option<u32>,
    },
    Renew {
        holder: usize,
    },
    Release {
        holder: usize,
    },
    Look {
        key: usize,
    },
    /// The lease is taken at the revision at which it was looked at last.
    Revoke {
        key: usize,
    },
}

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Outcome {
    Nothing,
    Stored(u64),
    Deposed(u64),
    Reload(u64),
    Fenced(u64),
    Refused,
    EarlierLife,
    NotYet,
    Unknown,
    Lost,
    Acquired {
        epoch: u64,
        seq: u64,
    },
    Held(String),
    /// A cursor or a lease: its sequence, and what it says.
    Shown(Option<(u64, String)>),
}

impl Deed {
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Own { .. } => "own",
            Self::Commit { .. } => "commit",
            Self::Seal(_) => "seal",
            Self::Claim { .. } => "claim",
            Self::Move { .. } => "move",
            Self::Open { .. } => "open",
            Self::Append { .. } => "append",
            Self::Read { .. } => "read",
            Self::Acquire { .. } => "acquire",
            Self::Renew { .. } => "renew",
            Self::Release { .. } => "release",
            Self::Look { .. } => "look",
            Self::Revoke { .. } => "revoke",
        }
    }
}

impl Outcome {
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Stored(_) | Self::Acquired { .. } => "stored",
            Self::Deposed(_) => "deposed",
            Self::Reload(_) => "reload",
            Self::Fenced(_) => "fenced",
            Self::Refused => "refused",
            Self::EarlierLife => "of an earlier life",
            Self::NotYet => "not yet",
            Self::Unknown => "unknown",
            Self::Lost => "lost",
            Self::Held(_) => "held",
            Self::Shown(_) => "shown",
        }
    }

    /// Whether nothing was done.
    pub(super) fn is_refusal(&self) -> bool {
        !matches!(self, Self::Stored(_) | Self::Acquired { .. } | Self::Shown(_) | Self::Nothing)
    }
}

/// An owner's entry.
pub(super) fn entry(commit: CommitId, epoch: u64) -> Entry {
    empty_entry(commit.0.0, epoch)
}

pub(super) fn instance(number: usize) -> String {
    format!("i{number}")
}

/// The sequence of a seed. Its agents, runs and epochs are its own; the ledger and the keys of the
/// leases are everybody's.
pub(super) fn deeds(seed: u64, count: usize, dice: &mut Dice) -> Vec<Deed> {
    let base = u128::from(seed + 1) << 32;
    let mut commits = base;
    let mut make = |at: usize| {
        let few = |dice: &mut Dice| dice.below(FEW);
        let agent = |dice: &mut Dice| AgentId::Worker(Ulid(base | few(dice) as u128));
        // A run is one agent's.
        let made = |dice: &mut Dice| {
            let ulid = Ulid(base | few(dice) as u128);
            (RunId(ulid), AgentId::Worker(ulid))
        };
        let epoch = |dice: &mut Dice| dice.range(1, 1 + at / 15) as u64;
        match dice.below(20) {
            0 | 1 => {
                let owner = few(dice);
                let epoch = 1 + seed * FEW as u64 + owner as u64;
                Deed::Own { owner, epoch, lag: dice.below(10).saturating_sub(7) as u64 }
            }
            2..=4 => {
                commits += 1;
                let commit = CommitId(Ulid(commits));
                Deed::Commit { owner: few(dice), commit, unheard: dice.percent(30) }
            }
            5 | 6 => {
                let ((run, agent), epoch) = (made(dice), epoch(dice));
                let session = SessionId(Ulid(base | u128::from(epoch)));
                let ends = dice.percent(50).then_some(run);
                Deed::Seal(Seal {
                    agent,
                    session,
                    epoch,
                    run: None,
                    ends,
                    blames: dice.percent(50),
                })
            }
            7 | 8 => {
                let host = HostName::new(&format!("h{}", dice.below(2))).unwrap();
                let claim = Claim { host, host_epoch: 1, instance: instance(dice.below(2)) };
                let (slot, agent, epoch) = (few(dice), agent(dice), epoch(dice));
                let session = SessionId(Ulid(base | u128::from(epoch)));
                let run = RunId(Ulid(base));
                let first = || Box::new(Cursor::first(agent.clone(), session, run, claim.clone()));
                let first = (epoch == FIRST_EPOCH).then(first);
                Deed::Claim { slot, agent, epoch, claim, first }
            }
            9 | 10 => Deed::Move { slot: few(dice), mail: at as u64, again: dice.percent(30) },
            11 => {
                let (run, agent) = made(dice);
                Deed::Open { slot: few(dice), run, agent, epoch: epoch(dice) }
            }
            12 | 13 => {
                let log = |number| JournalEvent::Log { text: format!("{base} {at} {number}") };
                let events = (0..=dice.below(3)).map(log).collect();
                Deed::Append { slot: few(dice), events }
            }
            14 => Deed::Read { agent: agent(dice) },
            15 => {
                let (key, instance) = (few(dice), dice.below(2));
                Deed::Acquire { key, instance, floor: dice.below(3) as u64, ttl_secs: None }
            }
            16 | 17 => Deed::Renew { holder: few(dice) },
            18 if dice.percent(50) => Deed::Release { holder: few(dice) },
            18 => Deed::Look { key: few(dice) },
            _ => Deed::Revoke { key: few(dice) },
        }
    };
    (0..count).map(&mut make).collect()
}
