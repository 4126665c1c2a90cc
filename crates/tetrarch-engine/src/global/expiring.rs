//! Mail that ends unread: what is near its age limit is set aside, and its writer told by the owner
//! (spec 02, Inbox). Decides nothing.

use std::time::Duration;

use ractor::ActorRef;
use tetrarch_bus::Bus;
use tetrarch_bus::inbox::Incoming;
use tetrarch_bus::intake::{DeadLetter, dead_letter};
use tetrarch_bus::subject::Origin;
use tetrarch_bus::unread::UnreadMail;
use tetrarch_core::id::AgentId;
use tetrarch_core::mail::receipt::SetAside;
use tetrarch_core::owner::Input;
use tetrarch_core::time::{BusTime, Millis};

use super::owner::OwnerMsg;
use crate::clock::Clock;
use crate::error::note_dead;
use crate::pump::Pump;

/// What mail near its limit has left of its age, as a part of it.
const NEAR: u32 = 16;
/// Looks in that time.
const LOOKS: u32 = 4;

/// Looks now and then, at once for the first time. `age`: how long mail is kept.
pub(super) fn start(bus: &Bus, age: Duration, clock: Clock, to: &ActorRef<OwnerMsg>) -> Pump {
    let (bus, to) = (bus.clone(), to.clone());
    Pump::run(async move {
        let mut unread = UnreadMail::new(bus.clone());
        let mut looks = tokio::time::interval(age / NEAR / LOOKS);
        let limit = Millis::from(age - age / NEAR).0;
        loop {
            looks.tick().await;
            let moment = BusTime(clock.now().0.saturating_sub(limit));
            let found = match unread.before(moment).await {
                Ok(found) => found,
                Err(error) => {
                    tracing::warn!(%error, "looking for unread mail failed; trying again later");
                    continue;
                }
            };
            for (reader, message) in found {
                if !set_aside(&bus, reader, message, &to).await {
                    return;
                }
            }
        }
    })
}

/// Has the owner tell the writer, and keeps the message; says whether the owner listens.
async fn set_aside(bus: &Bus, reader: AgentId, message: Incoming, to: &ActorRef<OwnerMsg>) -> bool {
    let reason = format!("{reader} did not read it before it expired");
    let (of, writer) = (message.about(), message.writer());
    if let Some((from, via)) = writer {
        let letter = Box::new(SetAside { of, from, via, reason: reason.clone() });
        if to.cast(OwnerMsg::Found(Box::new(Input::Unread(reader, letter)))).is_err() {
            return false;
        }
    }
    let Incoming { seq, subject, payload, .. } = message;
    let letter = DeadLetter { origin: Origin::Mail, seq, subject, reason, payload };
    note_dead(&letter);
    if let Err(error) = dead_letter(bus, &letter).await {
        tracing::error!(%error, "storing a dead letter failed");
    }
    true
}
