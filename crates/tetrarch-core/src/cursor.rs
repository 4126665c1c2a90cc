//! What an agent has durably processed, and who may act for it: cursor, seal and claim
//! (spec 02, Cursor and fencing). The rules are pure; writing them is the bus's business.

pub mod trials;

use crate::id::{AgentId, HostName, RunId, SessionId};
use crate::ledger::Seal;

pub use trials::Trials;

/// The epoch of an agent's first session.
pub const FIRST_EPOCH: u64 = 1;

/// How far an agent has read its inbox: the highest position handled per lane, in sequences
/// of the `MAIL` stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Positions {
    /// Of the mail lane.
    pub mail: u64,
    /// Of the ctl lane.
    pub ctl: u64,
}

impl Positions {
    /// The higher of each: the journal and the cursor may both carry them (spec 02, Inbox).
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self { mail: self.mail.max(other.mail), ctl: self.ctl.max(other.ctl) }
    }
}

/// The life of a host orchestrator that started, or will start, the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The host.
    pub host: HostName,
    /// The epoch of `HO@host`.
    pub host_epoch: u64,
    /// That life's instance id.
    pub instance: String,
}

/// The value of `cursor.<agent>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    /// Whose.
    pub agent: AgentId,
    /// The session it is sealed for.
    pub session: SessionId,
    /// Its epoch.
    pub epoch: u64,
    /// Positions in the inbox.
    pub positions: Positions,
    /// The run whose journal goes with it.
    pub run: Option<RunId>,
    /// Who acts for it; none while it is only sealed.
    pub claim: Option<Claim>,
    /// What is being handled, and how often that failed.
    pub trials: Trials,
    /// Up to where writers were told that their mail is consumed; none means all that was handled.
    pub receipts: Option<u64>,
}

impl Cursor {
    /// The cursor of a new agent, claimed without a seal (spec 02, Outbox).
    #[must_use]
    pub fn first(agent: AgentId, session: SessionId, run: RunId, claim: Claim) -> Self {
        Self {
            agent,
            session,
            epoch: FIRST_EPOCH,
            positions: Positions::default(),
            run: Some(run),
            claim: Some(claim),
            trials: Trials::default(),
            receipts: None,
        }
    }

    /// Whether no session has handled this message of the mail lane, nor begun to.
    #[must_use]
    pub fn has_not_seen(&self, seq: u64) -> bool {
        let begun = self.trials.in_hand.contains(&seq) || self.trials.failures(seq) > 0;
        seq > self.positions.mail && !begun
    }
}

/// What whoever starts an agent finds when its claim is refused (spec 02).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimOutcome {
    /// The claim is ours.
    Claimed,
    /// This epoch's seal is there: claim again on its sequence.
    ClaimAgain,
    /// An earlier life of the same host claimed it: report `host_restart`, do not start.
    EarlierLife,
    /// Another epoch or another host: do not start.
    DoNotStart,
}

/// Judges the cursor that a refused claim ran into.
#[must_use]
pub fn judge_claim(found: &Cursor, epoch: u64, ours: &Claim) -> ClaimOutcome {
    if found.epoch != epoch {
        return ClaimOutcome::DoNotStart;
    }
    match &found.claim {
        None => ClaimOutcome::ClaimAgain,
        Some(claim) if claim == ours => ClaimOutcome::Claimed,
        Some(claim) if claim.host == ours.host => ClaimOutcome::EarlierLife,
        Some(_) => ClaimOutcome::DoNotStart,
    }
}

/// The cursor after the owner gave the agent a new session: positions kept, epoch set. None
/// when it is already at that epoch or higher, which counts as sealed. What was being handled has
/// failed when the death is charged to the program, and whenever the agent is part of its host, which
/// a message may bring down whole (docs/decisions/0036).
#[must_use]
pub fn seal(found: Option<&Cursor>, order: &Seal) -> Option<Cursor> {
    let Seal { agent, session, epoch, run, .. } = order.clone();
    let (positions, mut trials, receipts) = match found {
        Some(cursor) if cursor.epoch >= epoch => return None,
        Some(cursor) => (cursor.positions, cursor.trials.clone(), cursor.receipts),
        None => (Positions::default(), Trials::default(), None),
    };
    trials.end_session(order.blames || run.is_none());
    Some(Cursor { agent, session, epoch, positions, run, claim: None, trials, receipts })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Ulid;

    fn cursor(epoch: u64, claim: Option<Claim>) -> Cursor {
        Cursor {
            agent: AgentId::Worker(Ulid(1)),
            session: SessionId(Ulid(2)),
            epoch,
            positions: Positions { mail: 7, ctl: 3 },
            run: None,
            claim,
            trials: Trials::default(),
            receipts: None,
        }
    }

    fn claim(host: &str, instance: &str) -> Claim {
        Claim { host: HostName::new(host).unwrap(), host_epoch: 1, instance: instance.to_owned() }
    }

    #[test]
    fn merge_takes_the_higher_position_of_each_lane() {
        let (one, other) = (Positions { mail: 7, ctl: 3 }, Positions { mail: 5, ctl: 9 });
        assert_eq!(one.max(other), Positions { mail: 7, ctl: 9 });
        assert_eq!(other.max(one), one.max(other));
    }

    #[test]
    fn refused_claim_is_classified_by_its_conflict() {
        let ours = claim("a", "one");
        let judge = |epoch, found| judge_claim(&cursor(epoch, found), 2, &ours);
        assert_eq!(judge(2, Some(claim("a", "one"))), ClaimOutcome::Claimed);
        assert_eq!(judge(2, None), ClaimOutcome::ClaimAgain);
        assert_eq!(judge(2, Some(claim("a", "zero"))), ClaimOutcome::EarlierLife);
        assert_eq!(judge(2, Some(claim("b", "one"))), ClaimOutcome::DoNotStart);
        assert_eq!(judge(3, Some(claim("a", "one"))), ClaimOutcome::DoNotStart);
        assert_eq!(judge(1, None), ClaimOutcome::DoNotStart);
    }

    fn order(epoch: u64) -> Seal {
        let (agent, session) = (AgentId::Worker(Ulid(1)), SessionId(Ulid(9)));
        Seal { agent, session, epoch, run: None, ends: None, blames: false }
    }

    #[test]
    fn seal_keeps_positions_and_never_goes_back() {
        let found = cursor(1, Some(claim("a", "one")));
        let sealed = seal(Some(&found), &order(2)).unwrap();
        assert_eq!((sealed.epoch, sealed.positions), (2, found.positions));
        assert_eq!(sealed.claim, None);
        assert_eq!(seal(Some(&found), &order(1)), None);
        assert_eq!(seal(None, &order(1)).unwrap().positions, Positions::default());
    }

    #[test]
    fn delivered_message_is_not_unread() {
        let mut found = cursor(1, None);
        found.trials.begin(9);
        found.trials.failures.insert(10, 1);
        let unread: Vec<u64> = (6..=12).filter(|seq| found.has_not_seen(*seq)).collect();
        assert_eq!(unread, [8, 11, 12]);
    }

    #[test]
    fn seal_counts_in_hand_messages_of_a_suspicious_death() {
        let run = Some(RunId(Ulid(3)));
        for (run, blames, counted) in
            [(run, true, 1), (run, false, 0), (None, true, 1), (None, false, 1)]
        {
            let mut found = Cursor { receipts: Some(6), ..cursor(1, None) };
            found.trials.begin(8);
            let sealed = seal(Some(&found), &Seal { run, blames, ..order(2) }).unwrap();
            assert_eq!(sealed.trials.failures(8), counted, "{run:?} {blames}");
            assert!(sealed.trials.in_hand.is_empty());
            assert_eq!(sealed.receipts, Some(6));
        }
    }
}
