//! GO's inbox: what is written to it becomes inputs of the owner, which keeps its place with what it
//! decides (spec 02, Inbox). Decides nothing.

use ractor::ActorRef;
use tetrarch_bus::Bus;
use tetrarch_bus::inbox::{Inbox, Incoming, Wakeup};
use tetrarch_core::cursor::Positions;
use tetrarch_core::id::{AgentId, Principal};
use tetrarch_core::owner::Posted;
use tetrarch_core::records::Records;
use tokio::sync::mpsc;

use super::TermEnd;
use super::owner::OwnerMsg;
use crate::error::EngineResult;
use crate::patience::until_answered;
use crate::pump::Pump;

/// Reads GO's mail on from what is decided, and control from what comes now. When it cannot be read
/// the term ends.
pub(super) fn start(
    bus: &Bus,
    records: &Records,
    to: &ActorRef<OwnerMsg>,
    ending: mpsc::Sender<EngineResult<TermEnd>>,
) -> Pump {
    let read = records.agents.get(&AgentId::Go).map_or(0, |go| go.mail_read);
    let (bus, to) = (bus.clone(), to.clone());
    Pump::run(async move {
        let wakeup = Wakeup::start(bus.clone());
        let put = move |incoming| to.cast(OwnerMsg::Posted(incoming)).is_ok();
        let poured = match until_answered(|| open(&bus, &wakeup, read)).await {
            Ok(inbox) => Pump::pour(inbox, put).await,
            Err(error) => Err(error),
        };
        if let Err(error) = poured {
            // The term may have ended for another reason already.
            let _ended = ending.send(Err(error)).await;
        }
    })
}

async fn open(bus: &Bus, wakeup: &Wakeup, read: u64) -> EngineResult<Inbox> {
    let last = bus.stream_last_seq(tetrarch_bus::subject::pattern::MAIL).await?;
    let positions = Positions { mail: read, ctl: last };
    Ok(Inbox::open(wakeup, &Principal::Agent(AgentId::Go), positions).await?)
}

/// A message as the owner decides on it; none of its own, of which it knows.
pub(super) fn posted(incoming: &Incoming) -> Option<Posted> {
    let writer = incoming.writer();
    if writer.as_ref().is_some_and(|(from, _)| *from == Principal::Agent(AgentId::Go)) {
        return None;
    }
    let content = match &incoming.content {
        Ok(read) => Ok(read.clone()),
        Err(error) => Err(error.to_string()),
    };
    Some(Posted { of: incoming.about(), lane: incoming.lane, writer, content })
}
