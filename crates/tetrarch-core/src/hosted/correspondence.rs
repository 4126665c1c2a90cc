//! What a hosted session hears by mail and asks of others: orders about itself, messages for its
//! program, its program's requests for agents (spec 02, Mail; spec 03, Specialists escalate).

use crate::id::{AgentId, Principal, RequestId};
use crate::journal::JournalEvent;
use crate::limits::{DRAIN, KILL_GRACE, SPONSOR_ANSWER_WITHIN};
use crate::mail::{Mail, MailBody, SponsorRequest};
use crate::order::{Inbound, Order};
use crate::request::Report;
use crate::request::SpawnRequest;
use crate::role::Role;
use crate::run::RunEvent;
use crate::time::BusTime;

use super::{Effect, Hosted, Phase};

impl Hosted {
    /// Reads one message of the inbox.
    pub(super) fn receive(
        &mut self,
        from: &Principal,
        mail: Mail,
        json: String,
        effects: &mut Vec<Effect>,
    ) {
        match &mail.body {
            MailBody::Kill(order) | MailBody::Superseded(order) => {
                if order.session.is_none_or(|session| session == self.launch.session) {
                    self.kill(effects);
                }
            }
            MailBody::Stop(order) => {
                if order.session.is_none_or(|session| session == self.launch.session) {
                    self.stop(&order.reason.clone(), effects);
                }
            }
            MailBody::SponsorAnswer(answer) => {
                self.sponsors.remove(&answer.request);
                self.deliver(from, &mail, json, effects);
            }
            MailBody::Answer { .. } => {
                if std::mem::take(&mut self.asking) {
                    effects.push(self.moved(RunEvent::InputReceived, "answered".to_owned()));
                }
                self.deliver(from, &mail, json, effects);
            }
            MailBody::SpawnAnswer(_)
            | MailBody::Sponsor(_)
            | MailBody::Launch(_)
            | MailBody::TakeOn { .. }
            | MailBody::ResultReady(_)
            | MailBody::AgentCompleted { .. }
            | MailBody::Violation { .. }
            | MailBody::AgentLost { .. }
            | MailBody::Question { .. }
            | MailBody::Reply(_)
            | MailBody::ReviewNeeded { .. }
            | MailBody::SponsorSilent { .. }
            | MailBody::Info { .. }
            | MailBody::Unknown { .. } => self.deliver(from, &mail, json, effects),
        }
    }

    fn deliver(&self, from: &Principal, mail: &Mail, json: String, effects: &mut Vec<Effect>) {
        let (topic, from) = (mail.body.topic().to_owned(), from.to_string());
        effects
            .push(Effect::Journal(JournalEvent::Mail { topic: topic.clone(), from: from.clone() }));
        let line = Inbound::Mail { topic, from, body: json };
        effects.push(Effect::Order(Box::new(Order::Deliver { run: self.run.id, line })));
    }

    fn stop(&mut self, reason: &str, effects: &mut Vec<Effect>) {
        if self.phase == Phase::Ending {
            return;
        }
        if self.phase == Phase::Claiming {
            self.stopped = Some(reason.to_owned());
            return;
        }
        self.phase = Phase::Ending;
        let reason = reason.to_owned();
        effects.push(Effect::Journal(JournalEvent::Stopping { reason: reason.clone() }));
        effects.push(self.moved(RunEvent::CancelRequested, reason.clone()));
        effects.push(Effect::Order(Box::new(Order::Stop {
            run: self.run.id,
            drain: DRAIN,
            kill_grace: KILL_GRACE,
            reason,
        })));
    }

    /// A program asks for agents: a specialist's request goes to its PO, anybody else's to
    /// the governor (spec 03, Specialists escalate).
    pub(super) fn spawn_read(
        &mut self,
        now: BusTime,
        read: Result<Box<SpawnRequest>, String>,
        effects: &mut Vec<Effect>,
    ) {
        let wanted = match read {
            Ok(wanted) => wanted,
            Err(error) => {
                let body = format!("{{\"error\":{}}}", serde_json::Value::from(error));
                let line = Inbound::Mail {
                    topic: "spawn.denied".to_owned(),
                    from: AgentId::Go.to_string(),
                    body,
                };
                effects.push(Effect::Order(Box::new(Order::Deliver { run: self.run.id, line })));
                return;
            }
        };
        self.spawns += 1;
        let request = RequestId::derive(now, &self.run.id.to_string(), "spawn", self.spawns);
        effects.push(Effect::Journal(JournalEvent::Spawn { request }));
        let sponsor = self.launch.project.clone().map(AgentId::Po);
        match (Role::of(&self.launch.agent), sponsor) {
            (Role::Specialist, Some(po)) => {
                self.sponsors.insert(request, now + SPONSOR_ANSWER_WITHIN);
                effects.push(Effect::Mail(Box::new(Mail {
                    to: Principal::Agent(po),
                    epic: Some(self.run.epic),
                    correlation: Some(request),
                    cause: self.run.id.to_string(),
                    ack_required: true,
                    trace: self.trace.clone(),
                    body: MailBody::Sponsor(SponsorRequest { request, wanted: *wanted }),
                })));
            }
            (_, _) => effects.push(Effect::Request(request, wanted)),
        }
    }

    /// Reports sponsors that did not answer in time (spec 03).
    pub(super) fn tick(&mut self, now: BusTime, effects: &mut Vec<Effect>) {
        let due: Vec<RequestId> =
            self.sponsors.iter().filter(|(_, at)| **at <= now).map(|(id, _)| *id).collect();
        for request in due {
            self.sponsors.remove(&request);
            if let Some(project) = self.launch.project.clone() {
                let sponsor = AgentId::Po(project);
                effects.push(Effect::Report(Box::new(Report::SponsorSilent { request, sponsor })));
            }
        }
    }
}
