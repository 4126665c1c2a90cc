//! How a session reads its inbox, as core's `reading` says: the cursor is written when a message is
//! handled, and before it when it is suspect, and writers hear how far their mail came. It handles nothing itself.

use std::sync::Arc;

use tetrarch_bus::inbox::Inbox;
use tetrarch_bus::subject::pattern::MAIL;
use tetrarch_core::cursor::{Cursor, FIRST_EPOCH, Positions, Trials};
use tetrarch_core::id::Principal;
use tetrarch_core::mail::Lane;
use tetrarch_core::mail::receipt::{SetAside, Stage};
use tetrarch_core::reading::{Reading, Turn};

use crate::error::EngineResult;
use crate::session::{Admitted, CheckedMessage, Session};

/// A session's place in its inbox, with the sequence of its cursor.
pub(crate) struct InboxReader {
    session: Session,
    reading: Reading,
    at: u64,
    is_written: bool,
    is_anew: bool,
}

impl InboxReader {
    /// The place of a session that claimed this cursor. `again`: what was handled of the mail
    /// lane is handled once more. A stream that was made anew is read from its end on.
    pub(crate) async fn open(
        session: &Session,
        mut cursor: Cursor,
        at: u64,
        again: bool,
    ) -> EngineResult<Self> {
        let owner = Principal::Agent(session.agent.clone());
        let within = session.shared.wakeup.within(&owner, cursor.positions).await?;
        let is_anew = within != cursor.positions;
        if is_anew {
            cursor =
                Cursor { positions: within, trials: Trials::default(), receipts: None, ..cursor };
        }
        let suspect = if session.epoch == FIRST_EPOCH {
            0
        } else {
            session.shared.bus.stream_last_seq(MAIL).await?
        };
        let reading = Reading::resume(cursor, again, suspect);
        let is_written = !is_anew;
        Ok(Self { session: session.clone(), reading, at, is_written, is_anew })
    }

    /// Opens the inbox where this reader, which took nothing yet, goes on.
    pub(crate) fn inbox(&self) -> impl Future<Output = EngineResult<Inbox>> + Send + 'static {
        let (wakeup, from) = (Arc::clone(&self.session.shared.wakeup), self.reading.from());
        let owner = Principal::Agent(self.session.agent.clone());
        async move { Ok(Inbox::open(&wakeup, &owner, from).await?) }
    }

    /// Whether the inbox is not the one that was read before.
    pub(crate) fn is_anew(&self) -> bool {
        self.is_anew
    }

    /// How far the inbox is handled.
    pub(crate) fn positions(&self) -> Positions {
        self.reading.cursor().positions
    }

    /// The message, when it is to be handled. One that is suspect counts as begun before this returns.
    pub(crate) async fn take(
        &mut self,
        CheckedMessage { incoming, refusal }: CheckedMessage,
    ) -> EngineResult<Option<Admitted>> {
        let (lane, seq) = (incoming.lane, incoming.seq);
        let turn = self.reading.turn(lane, seq);
        let receipts = match turn {
            Turn::Pass => return Ok(None),
            Turn::GiveUp { failures } => {
                let reason = format!(
                    "{failures} sessions of {} failed while handling it",
                    self.session.agent
                );
                self.session.set_aside(&incoming, reason).await?;
                self.reading.give_up(seq);
                self.write().await?;
                return Ok(None);
            }
            Turn::Tell => true,
            Turn::Handle { receipts } => receipts,
        };
        let seen = position(lane, seq);
        if let Some(reason) = refusal {
            if !self.reading.is_old(lane, seq) {
                self.session.set_aside(&incoming, reason).await?;
                self.reading.pass(seen);
                self.write().await?;
            }
            return Ok(None);
        }
        let about = incoming.about();
        let Some(admitted) = Admitted::of(incoming) else { return Ok(None) };
        let owed = (receipts && admitted.mail.owes_receipts())
            .then(|| (admitted.from.clone(), about.clone()));
        if let Some((to, of)) = &owed {
            self.session.tell(to, of, Stage::Delivered).await;
        }
        if turn == Turn::Tell {
            if let Some((to, of)) = &owed {
                self.session.tell(to, of, Stage::Consumed).await;
            }
            self.reading.told();
            return Ok(None);
        }
        if lane == Lane::Mail {
            for (to, receipt) in self.reading.begin(seq, owed) {
                self.session.tell(&to, &receipt.of, receipt.stage).await;
            }
            if self.reading.is_suspect(seq) {
                self.write().await?;
            }
        }
        self.is_written = false;
        self.reading.pass(seen);
        Ok(Some(admitted))
    }

    /// What is in hand was handled, or what came of it is saved. Says whether there was anything; the
    /// cursor is not written.
    pub(crate) fn settle(&mut self) -> bool {
        let settled = self.reading.settle();
        self.is_written &= !settled;
        settled
    }

    /// The session's program has taken all that it was given but for this message and what follows. Says
    /// whether writers wait to hear of it.
    pub(crate) fn hand_out(&mut self, in_hand: Option<u64>) -> bool {
        self.reading.hand_out(in_hand)
    }

    /// Has writers told whose messages the session's program will never take.
    pub(crate) async fn give_back(&mut self) -> EngineResult {
        for (from, of) in self.reading.never_taken() {
            let reason = format!("the program of {} ended and had not read it", self.session.agent);
            let (at, letter) =
                (self.session.shared.clock.now(), SetAside { of, from, via: None, reason });
            self.session.report_set_aside(at, letter).await?;
        }
        Ok(())
    }

    /// Whether writers wait to hear that their messages are consumed, and they are.
    pub(crate) fn owes(&self) -> bool {
        self.reading.owes()
    }

    /// Writes the cursor as it is now.
    pub(crate) async fn write(&mut self) -> EngineResult {
        self.at = self.session.move_cursor(self.reading.cursor(), self.at).await?;
        self.is_written = true;
        Ok(())
    }

    /// Writes the cursor when the bus has another, so that what is in hand counts as begun.
    pub(crate) async fn write_begun(&mut self) -> EngineResult {
        if self.is_written { Ok(()) } else { self.write().await }
    }

    /// Tells writers what is consumed: the positions are kept, by the cursor or the journal. That it
    /// was told is written down.
    pub(crate) async fn kept(&mut self) -> EngineResult {
        let kept = self.reading.kept(self.positions());
        if kept.is_empty() {
            return Ok(());
        }
        for (to, receipt) in kept {
            self.session.tell(&to, &receipt.of, receipt.stage).await;
        }
        self.reading.told();
        self.write().await
    }
}

/// The position of a lane once this message is handled.
fn position(lane: Lane, seq: u64) -> Positions {
    match lane {
        Lane::Ctl => Positions { mail: 0, ctl: seq },
        Lane::Mail => Positions { mail: seq, ctl: 0 },
    }
}
