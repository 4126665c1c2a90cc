//! How a session becomes its agent's: it claims the cursor, and opens journal and inbox behind it.

use std::time::Duration;

use ractor::ActorRef;
use tetrarch_bus::cursor::Claimed;
use tetrarch_bus::journal::{JournalWriter, Writer};
use tetrarch_core::cursor::ClaimOutcome;
use tetrarch_core::hosted::SessionInput;
use tetrarch_failpoint::{Failpoint, reach};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::{AgentMsg, AgentState};
use crate::error::EngineResult;
use crate::pump::Pump;
use crate::reading::InboxReader;
use crate::session::Session;

/// How long the inbox of a new agent stays closed that asks nobody for anything: few know of it, and a life that is
/// shorter costs the server no subscriptions and no reads.
const FIRST_READ_WITHIN: Duration = Duration::from_millis(100);

impl AgentState {
    /// Claims the cursor, and opens journal and inbox when that is ours.
    pub(super) async fn claim(
        &mut self,
        myself: &ActorRef<AgentMsg>,
    ) -> EngineResult<SessionInput> {
        let outcome = match self.session.claim(self.machine.first_run()).await? {
            Claimed::Ours { cursor, seq, is_first } => {
                reach(Failpoint::CursorClaimed);
                let Session { shared, agent, session, epoch, .. } = &self.session;
                let writer = Writer {
                    run: self.run.id,
                    agent: agent.clone(),
                    session: *session,
                    epoch: *epoch,
                };
                let bus = shared.bus.clone();
                self.journal = Some(if is_first {
                    JournalWriter::first(bus, writer)
                } else {
                    JournalWriter::open(bus, writer).await?
                });
                // What a program that died had been given it may not have taken in, so the one that
                // goes on from it is given all mail of this work again (docs/stdio-protocol.md); its
                // inbox began with this work. Control is for one session and not repeated.
                let again = self.run.continues.is_some();
                let reader = InboxReader::open(&self.session, cursor, seq, again).await?;
                if reader.is_anew() {
                    self.machine.has_new_inbox();
                }
                let (opener, opens) = oneshot::channel();
                self.opener = is_first.then_some(opener);
                let (inbox, hold) = (reader.inbox(), self.hold.subscribe());
                let opening = async move {
                    // Both an opener that is gone and the end of the time open it.
                    let _opened = timeout(FIRST_READ_WITHIN, opens).await;
                    inbox.await.map(|inbox| inbox.held_by(hold))
                };
                self.reader = Some(reader);
                let to = myself.clone();
                self.inbox = Some(Pump::inbox(opening, self.session.clone(), move |it| {
                    to.cast(AgentMsg::Incoming(it)).is_ok()
                }));
                ClaimOutcome::Claimed
            }
            Claimed::EarlierLife { .. } => ClaimOutcome::EarlierLife,
            Claimed::DoNotStart { .. } => ClaimOutcome::DoNotStart,
        };
        Ok(SessionInput::Claimed(outcome))
    }
}
