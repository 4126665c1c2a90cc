//! What is put into the owner's queue, what is set aside before, and what is taken out of it.

use std::sync::Arc;

use tetrarch_bus::inbox::Incoming;
use tetrarch_bus::intake::{DeadLetter, Intaken};
use tetrarch_bus::subject::Origin;
use tetrarch_core::audit::CredentialAct;
use tetrarch_core::owner::{Fill, Input, Reclaim, answer, decide, reclaim, refusal_of_mail};
use tetrarch_core::request::{Op, RequestBody};
use tetrarch_core::step::Step;
use tetrarch_core::trouble::Trouble;

use super::{ANSWERS_MAX, OwnerState};
use crate::clock::timed;
use crate::global::credentials::CredentialActs;
use crate::global::queue::{QueueItem, StoredRequest};
use crate::global::spans::traced;
use crate::global::{intaking, posting, reached, reclaiming};
use crate::pump::MailboxPermit;

impl OwnerState {
    /// Queues what was read of `REQUESTS`; what is none was set aside.
    pub(super) fn take(&mut self, taken: Intaken, permit: &Arc<MailboxPermit>) {
        match taken {
            Intaken::Request { mut request, at, bytes, last } => {
                if let RequestBody::Op(Op::OverseerTick(telemetry)) = &mut request.body {
                    *telemetry = self.telemetry();
                }
                let stored = StoredRequest { seq: last.then_some(request.seq), at, bytes };
                reached::taken(&request);
                self.queue.push_request(request, stored, permit);
            }
            Intaken::Undecodable(_) => self.leading.metrics.set_aside(),
        }
    }

    /// Queues a message to GO; one that it does not take is kept with the reason, which holds its place
    /// too.
    pub(super) fn post(&mut self, incoming: Incoming, permit: MailboxPermit) {
        let permit = Arc::new(permit);
        let Some(posted) = posting::posted(&incoming) else { return };
        if !self.queue.takes_mail(&posted, self.clock.now()) {
            return;
        }
        if let Some(reason) = refusal_of_mail(&self.records, &posted) {
            let Incoming { seq, subject, payload, .. } = incoming;
            let letter = DeadLetter { origin: Origin::Mail, seq, subject, reason, payload };
            self.leading.metrics.set_aside();
            let (bus, permit) = (self.bus.clone(), Arc::clone(&permit));
            drop(tokio::spawn(async move {
                intaking::keep(&bus, &letter).await;
                drop(permit);
            }));
        }
        self.queue.push_with_permit(Input::Post(Box::new(posted)), permit);
    }

    /// Has go what core gives up of others' messages, and people told.
    pub(super) fn make_room(&mut self, fill: Fill) {
        let given_up = reclaim(&self.records, &fill);
        self.queue.refuse_for_unread(fill.backlogs);
        let senders = given_up.senders.clone();
        if !senders.is_empty() {
            self.queue.push(Input::Trouble(Trouble::MailDropped { senders }));
        }
        if given_up != Reclaim::default() {
            reclaiming::carry_out(&self.bus, given_up);
        }
    }

    /// Queues what was done with credentials, and says which of it the ledger has.
    pub(super) fn credentials(&mut self, CredentialActs { acts, told }: CredentialActs) {
        let is_known = |act: &CredentialAct| self.records.decisions.contains_key(&act.id);
        let (known, new): (Vec<_>, Vec<_>) = acts.into_iter().partition(is_known);
        // With a commit in flight the records are ahead of the ledger.
        let is_settled = self.committer.is_some() && self.group.is_empty();
        let known = known.into_iter().filter(|_| is_settled).map(|act| act.id).collect();
        // Who asked may have ended: it asks again.
        let _unheard = told.send(known);
        for act in new {
            self.queue.push(Input::Credential(Box::new(act)));
        }
    }

    /// Decides until an entry is full. What only reads is answered from the records as they then are.
    pub(super) fn decide_what_fits(&mut self) {
        let now = self.clock.now();
        while !self.group.is_full()
            && self.answers.len() < ANSWERS_MAX
            && let Some(next) = self.queue.next(now)
        {
            let (step, seq) = match next {
                QueueItem::Decide(input, seq) => {
                    let input = traced(input);
                    let decide = || decide(&self.records, &self.policy, now, &input);
                    let (step, took) = timed(decide);
                    if let Input::Request(request) = &input {
                        self.queue.took(request, took, now);
                    }
                    (step, seq)
                }
                QueueItem::Read(request, seq) => {
                    let answer = || answer(&self.records, &self.policy, now, &request);
                    let (mail, took) = timed(answer);
                    self.queue.took(&request, took, now);
                    self.answers.extend(mail.map(|mail| (request.seq, mail)));
                    (Step::default(), seq)
                }
                QueueItem::Passed(seq) => (Step::default(), seq),
            };
            self.group.add(&mut self.records, step, seq);
        }
    }
}
