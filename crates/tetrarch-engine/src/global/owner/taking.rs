//! What is brought to the governor, what is set aside before, and how it is had decide.

use std::sync::Arc;

use tetrarch_bus::inbox::Incoming;
use tetrarch_bus::intake::{DeadLetter, Intaken};
use tetrarch_bus::subject::Origin;
use tetrarch_core::governor::{QueueItem, StoredRequest};
use tetrarch_core::owner::Input;
use tetrarch_core::request::{Op, RequestBody};
use tetrarch_core::time::BusTime;

use super::OwnerState;
use crate::clock::timed;
use crate::global::spans::traced;
use crate::global::{intaking, posting, reached};
use crate::pump::MailboxPermit;

impl OwnerState {
    /// Queues what was read of `REQUESTS`; what is none was set aside.
    pub(super) fn take(&mut self, taken: Intaken, permit: &Arc<MailboxPermit>) {
        match taken {
            Intaken::Request { mut request, at, bytes, last } => {
                if let RequestBody::Op(Op::OverseerTick(telemetry)) = &mut request.body {
                    *telemetry = self.telemetry();
                }
                let stored = StoredRequest { last, at, bytes };
                reached::taken(&request);
                self.governor.put_request(request, stored, Arc::clone(permit));
            }
            Intaken::Undecodable(_) => self.leading.metrics.set_aside(),
        }
    }

    /// Queues a message to GO; one that it does not take is kept with the reason, which holds its place
    /// too.
    pub(super) fn post(&mut self, incoming: Incoming, permit: MailboxPermit) {
        let permit = Arc::new(permit);
        let Some(posted) = posting::posted(&incoming) else { return };
        let now = self.clock.now();
        let Some(reason) = self.governor.put_mail(posted, Arc::clone(&permit), now) else { return };
        let Incoming { seq, subject, payload, .. } = incoming;
        let letter = DeadLetter { origin: Origin::Mail, seq, subject, reason, payload };
        self.leading.metrics.set_aside();
        let bus = self.bus.clone();
        drop(tokio::spawn(async move {
            intaking::keep(&bus, &letter).await;
            drop(permit);
        }));
    }

    /// Has the governor decide on what waits, until an entry is full or others are to be heard.
    pub(super) fn decide_what_fits(&mut self, now: BusTime) {
        while let Some(next) = self.governor.next(now) {
            let next = traced(next);
            let ((), took) = timed(|| self.governor.decide(&next, now));
            self.governor.took(&next, took, now);
            if matches!(next, QueueItem::Decide(Input::Oversee(_), _)) {
                self.leading.metrics.ticked(took);
            }
        }
    }
}
