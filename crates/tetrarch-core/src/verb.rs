//! What may be asked of a run besides to end (spec 06, The three verbs), and how far it has come:
//! the words that owner, host and runner share. Who may ask is `owner::verbs`'.

use crate::id::{Principal, RequestId, RunId};
use crate::limits::VERBS_KEPT;
use crate::run::{RunEvent, RunState};
use crate::time::BusTime;
use crate::words::parsed_words;

parsed_words! {
    /// The verbs that leave a run alive.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Verb {
        /// A text before its next step.
        Steer = "steer",
        /// Its turn is aborted; it waits for input.
        Interrupt = "interrupt",
        /// It stands still.
        Pause = "pause",
        /// It goes on.
        Resume = "resume",
    }
}

/// A verb with its words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// Put this before the next step.
    Steer {
        /// The text.
        text: String,
    },
    /// Abort the turn; session, context and finished tool calls stay.
    Interrupt {
        /// Why.
        reason: String,
    },
    /// Stand still.
    Pause,
    /// Go on.
    Resume,
}

impl Wanted {
    /// Which verb it is.
    #[must_use]
    pub fn verb(&self) -> Verb {
        match self {
            Self::Steer { .. } => Verb::Steer,
            Self::Interrupt { .. } => Verb::Interrupt,
            Self::Pause => Verb::Pause,
            Self::Resume => Verb::Resume,
        }
    }

    /// Its words; empty for those without.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Steer { text } | Self::Interrupt { reason: text } => text,
            Self::Pause | Self::Resume => "",
        }
    }
}

/// A verb on its way to a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The request that asked for it: receipts name it.
    pub id: RequestId,
    /// Who asked.
    pub by: Principal,
    /// What for.
    pub wanted: Wanted,
}

parsed_words! {
    /// How far a verb has come.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Stage {
        /// The owner committed it.
        Queued = "queued",
        /// The session's host gave it to the program.
        Delivered = "delivered",
        /// The program took it at a boundary, or its processes stand still or run again.
        Effective = "effective",
        /// It comes to nothing; the receipt says why.
        Refused = "refused",
    }
}

impl Verb {
    /// Whether a run may be asked for it in a state (spec 06, the table): a steer wherever a program
    /// is up and may go on, an interrupt and a pause at work, a resume where it was paused.
    #[must_use]
    pub fn fits(self, state: RunState) -> bool {
        match (self, state) {
            (
                Self::Steer,
                RunState::Running
                | RunState::AwaitingInput
                | RunState::Blocked
                | RunState::PausedByUser
                | RunState::Compacting,
            )
            | (Self::Interrupt | Self::Pause, RunState::Running)
            | (Self::Resume, RunState::PausedByUser) => true,
            (
                _,
                RunState::Queued
                | RunState::Spawning
                | RunState::Running
                | RunState::AwaitingInput
                | RunState::Blocked
                | RunState::PausedByUser
                | RunState::Compacting
                | RunState::Cancelling
                | RunState::Done
                | RunState::Failed
                | RunState::Orphaned,
            ) => false,
        }
    }

    /// What becomes of the run when it is effective; a steer changes nothing.
    #[must_use]
    pub fn moves(self) -> Option<RunEvent> {
        match self {
            Self::Steer => None,
            Self::Interrupt => Some(RunEvent::InputNeeded),
            Self::Pause => Some(RunEvent::UserPaused),
            Self::Resume => Some(RunEvent::Resumed),
        }
    }
}

/// What is known of a verb that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// The request that asked for it.
    pub id: RequestId,
    /// Which verb.
    pub verb: Verb,
    /// The run it is for.
    pub run: RunId,
    /// Who asked.
    pub by: Principal,
    /// How far it has come.
    pub stage: Stage,
    /// When it was committed.
    pub queued: BusTime,
    /// When the program had it.
    pub delivered: Option<BusTime>,
    /// When it took effect or was refused.
    pub ended: Option<BusTime>,
    /// Why it was refused; empty otherwise.
    pub why: String,
}

impl Receipt {
    /// Takes a later stage; false when it is no later one, and then nothing is changed.
    pub fn reach(&mut self, stage: Stage, now: BusTime, why: &str) -> bool {
        if stage <= self.stage || self.ended.is_some() {
            return false;
        }
        self.stage = stage;
        match stage {
            Stage::Queued => {}
            Stage::Delivered => self.delivered = Some(now),
            Stage::Effective => {
                self.delivered.get_or_insert(now);
                self.ended = Some(now);
            }
            Stage::Refused => {
                self.ended = Some(now);
                why.clone_into(&mut self.why);
            }
        }
        true
    }
}

/// The verbs that were asked of an agent, and whether it is to stand still.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verbs {
    /// The latest, oldest first, at most [`VERBS_KEPT`]; the ledger has all of them.
    pub receipts: Vec<Receipt>,
    /// Who paused it. A later session of the same agent is paused again.
    pub paused_by: Option<Principal>,
}

impl Verbs {
    /// Those that its host does not have yet.
    pub fn queued(&self) -> impl Iterator<Item = &Receipt> {
        self.receipts.iter().filter(|receipt| receipt.stage == Stage::Queued)
    }

    /// Keeps another one; the oldest that its host has gives way.
    pub fn keep(&mut self, receipt: Receipt) {
        if self.receipts.len() >= VERBS_KEPT {
            let old = self.receipts.iter().position(|it| it.stage != Stage::Queued);
            self.receipts.remove(old.unwrap_or_default());
        }
        self.receipts.push(receipt);
    }

    /// The receipt of a verb, as long as it is kept.
    pub fn of(&mut self, id: RequestId) -> Option<&mut Receipt> {
        self.receipts.iter_mut().find(|receipt| receipt.id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Ulid;

    /// Which verbs a run may be asked for, one line a state.
    const TABLE: &[(&str, &[&str])] = &[
        ("queued", &[]),
        ("spawning", &[]),
        ("running", &["steer", "interrupt", "pause"]),
        ("awaiting-input", &["steer"]),
        ("blocked", &["steer"]),
        ("paused-by-user", &["steer", "resume"]),
        ("compacting", &["steer"]),
        ("cancelling", &[]),
        ("done", &[]),
        ("failed", &[]),
        ("orphaned", &[]),
    ];

    #[test]
    fn each_state_accepts_its_verbs_by_the_run_table() {
        assert_eq!(TABLE.len(), RunState::ALL.len());
        for (state, verbs) in TABLE {
            let state = RunState::parse(state).unwrap();
            for verb in Verb::ALL {
                assert_eq!(verb.fits(state), verbs.contains(&verb.as_str()), "{verb:?} {state}");
                if let (true, Some(event)) = (verb.fits(state), verb.moves()) {
                    assert!(state.on(event).is_ok(), "{verb:?} moves {state} by {event}");
                }
            }
        }
    }

    fn receipt(number: u128) -> Receipt {
        Receipt {
            id: RequestId(Ulid(number)),
            verb: Verb::Steer,
            run: RunId(Ulid(1)),
            by: "human:ada".parse().unwrap(),
            stage: Stage::Queued,
            queued: BusTime(1),
            delivered: None,
            ended: None,
            why: String::new(),
        }
    }

    #[test]
    fn receipt_only_advances_and_ends_once() {
        let mut it = receipt(1);
        assert!(!it.reach(Stage::Queued, BusTime(2), ""));
        assert!(it.reach(Stage::Delivered, BusTime(3), ""));
        assert!(!it.reach(Stage::Delivered, BusTime(4), ""));
        assert!(it.reach(Stage::Effective, BusTime(5), ""));
        assert!(!it.reach(Stage::Refused, BusTime(6), "late"));
        assert_eq!(
            (it.delivered, it.ended, it.why.as_str()),
            (Some(BusTime(3)), Some(BusTime(5)), "")
        );
        let mut quick = receipt(2);
        assert!(quick.reach(Stage::Effective, BusTime(5), ""));
        assert_eq!(quick.delivered, Some(BusTime(5)), "what is effective was delivered");
        assert!(!quick.reach(Stage::Delivered, BusTime(6), ""));
    }

    #[test]
    fn oldest_non_waiting_verb_is_evicted() {
        let mut verbs = Verbs::default();
        for number in 0..VERBS_KEPT {
            verbs.keep(receipt(number as u128));
        }
        verbs.of(RequestId(Ulid(1))).unwrap().reach(Stage::Delivered, BusTime(2), "");
        verbs.keep(receipt(100));
        assert_eq!(verbs.receipts.len(), VERBS_KEPT);
        assert!(verbs.of(RequestId(Ulid(0))).is_some(), "it waits for its host");
        assert!(verbs.of(RequestId(Ulid(1))).is_none());
    }
}
