//! What a shell met on the bus that people have to look at, though the owner goes on by itself.
//! Data only; the words are `owner::troubles`'.

use crate::id::{AgentId, Principal, RunId};
use crate::share::{Backlog, Holder};

/// Something that is wrong and was dealt with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// `REQUESTS` ends before what was decided of it; reading goes on from its end.
    IntakeShrank {
        /// The sequence that was decided last.
        decided: u64,
        /// The stream's last sequence, 0 when it is empty.
        last: u64,
    },
    /// `MAIL` ends before what an inbox read of it; reading goes on from its end.
    InboxShrank {
        /// How many inboxes are beyond it.
        inboxes: u64,
        /// The highest position of one of them.
        position: u64,
        /// The stream's last sequence, 0 when it is empty.
        last: u64,
    },
    /// Runs that go on have no journal, or not its beginning: what they told as saved is lost.
    JournalsLost {
        /// How many.
        runs: u64,
        /// One of them.
        first: RunId,
    },
    /// Agents whose runs go on have no cursor, or one of an earlier epoch.
    CursorsLost {
        /// How many.
        agents: u64,
        /// One of them.
        first: AgentId,
    },
    /// Messages of the ledger that are no commits; everyone skips them.
    NoCommits {
        /// What is wrong with them.
        cause: NoCommit,
        /// How many there are.
        count: u64,
        /// The sequence of the first.
        first: u64,
        /// What is wrong with the first, in words.
        reason: String,
    },
    /// STATE differed from the ledger, and was mended from it.
    StateMended {
        /// Keys that were written again.
        written: u64,
        /// Keys that the ledger does not know, which were dropped.
        dropped: u64,
        /// What gave occasion to look, in words.
        reason: String,
    },
    /// Senders asked for more than their share, and what was beyond it was not decided on.
    OverShare {
        /// Who, with how many requests.
        senders: Vec<(Holder, u64)>,
        /// A share, in requests a second.
        rate: u64,
    },
    /// MAIL had hardly room, or held mail to nobody: some of it was dropped.
    MailDropped {
        /// Whose, with how many messages.
        senders: Vec<(Principal, u64)>,
    },
    /// RUNS had hardly room: the journals were dropped of the agent outside that wrote most.
    JournalsDropped {
        /// Whose.
        agent: AgentId,
        /// How many entries.
        entries: u64,
    },
    /// Agents do not read what was written to them, and requests of those who wrote it are refused.
    MailUnread {
        /// Whose mail, and who does not read it.
        backlogs: Vec<Backlog>,
    },
    /// Records that this version cannot read; they are left as they are.
    RecordsHeld {
        /// What they are and why, each in words.
        held: Vec<String>,
    },
}

/// Why a message of the ledger is no commit: people are told once of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoCommit {
    /// It cannot be read.
    Undecodable,
    /// Its owner was deposed before it wrote it.
    Deposed,
    /// Its epoch is one that no owner can have.
    Impossible,
}
