//! What a hosted session hears by mail and asks of others: orders about itself, messages for its
//! program, its program's requests for agents (spec 02, Mail; spec 03, Specialists escalate).

use crate::id::{AgentId, DispatchId, Principal, RequestId};
use crate::journal::JournalEvent;
use crate::limits::SPONSOR_ANSWER_WITHIN;
use crate::mail::{Mail, MailBody, SponsorRequest};
use crate::order::{Inbound, Order, StopWithin};
use crate::owner::spending;
use crate::request::Report;
use crate::request::SpawnRequest;
use crate::role::Role;
use crate::run::RunEvent;
use crate::time::BusTime;

use super::{HostedSession, SessionEffect, SessionPhase};

/// A message's body as JSON text, and its place on the mail lane.
type PlacedMail = (String, u64);

impl HostedSession {
    /// Reads one message of the inbox.
    pub(super) fn receive(
        &mut self,
        from: &Principal,
        mail: Mail,
        placed: PlacedMail,
        effects: &mut Vec<SessionEffect>,
    ) {
        self.notes(&mail.body, &placed.0);
        match &mail.body {
            MailBody::Kill(order) => {
                if order.session.is_none_or(|session| session == self.launch.session) {
                    self.ordered.get_or_insert_with(|| order.reason.clone());
                    self.kill(effects);
                }
            }
            MailBody::Rotate(order) => {
                if order.session.is_none_or(|session| session == self.launch.session) {
                    self.rotate(&order.reason.clone(), true, effects);
                }
            }
            MailBody::Superseded(order) => {
                if order.session.is_none_or(|session| session == self.launch.session) {
                    self.kill(effects);
                }
            }
            MailBody::Stop(order) => {
                if order.session.is_none_or(|session| session == self.launch.session) {
                    self.stop(&order.reason.clone(), effects);
                }
            }
            MailBody::Verb(order) => {
                if order.session.is_none_or(|session| session == self.launch.session) {
                    let order = (**order).clone();
                    self.command(from, order, effects);
                }
            }
            MailBody::BudgetRaised(raised) => self.raised(from, raised, effects),
            MailBody::SponsorAnswer(answer) => {
                self.sponsors.retain(|request, _| Some(*request) != answer.request);
                self.deliver(from, &mail, placed, effects);
            }
            MailBody::Answer { question, .. } => {
                let correlation = self.asked_as(*question);
                if self.is_answered(*question, effects) {
                    let mail = Mail { correlation, ..mail.clone() };
                    self.deliver(from, &mail, placed, effects);
                }
            }
            MailBody::StatusRequest(asked) => {
                if asked.session == self.launch.session {
                    self.nudged(from, &mail, asked.dispatch, placed, effects);
                }
            }
            MailBody::Reply(reply) => match spending::drawn(reply) {
                Some(drawn) => self.drew(drawn, effects),
                None => self.deliver(from, &mail, placed, effects),
            },
            MailBody::SpawnAnswer(_)
            | MailBody::Sponsor(_)
            | MailBody::Launch(_)
            | MailBody::Apply(_)
            | MailBody::TakeOn { .. }
            | MailBody::TurnDue(_)
            | MailBody::ResultReady(_)
            | MailBody::AgentCompleted { .. }
            | MailBody::Violation { .. }
            | MailBody::Alert { .. }
            | MailBody::AgentLost { .. }
            | MailBody::Question { .. }
            | MailBody::ReviewNeeded { .. }
            | MailBody::SponsorSilent { .. }
            | MailBody::Receipt(_)
            | MailBody::Dead(_)
            | MailBody::Info { .. }
            | MailBody::Unknown { .. } => self.deliver(from, &mail, placed, effects),
        }
        self.settle_waits(effects);
    }

    /// Notes what a message tells of the agents below, and what artifacts it names.
    fn notes(&mut self, body: &MailBody, json: &str) {
        if !matches!(body, MailBody::Reply(_)) {
            // What is answered to a request can be its own words.
            self.handed.hears(json);
        }
        if let MailBody::SpawnAnswer(answer) | MailBody::SponsorAnswer(answer) = body {
            self.family.answered(&self.launch.agent, answer);
        } else if let MailBody::ResultReady(ready) = body {
            self.family.came_to(ready);
        } else if let MailBody::AgentCompleted { agent, reason, .. } = body {
            self.family.is_over(agent, reason);
        }
    }

    /// Passes a status request on, unless it is known; it is consumed when the program has it.
    fn nudged(
        &mut self,
        from: &Principal,
        mail: &Mail,
        dispatch: DispatchId,
        placed: PlacedMail,
        effects: &mut Vec<SessionEffect>,
    ) {
        let place = placed.1;
        if self.updates.asked(dispatch) {
            self.deliver(from, mail, placed, effects);
        }
        match self.letters.in_hand.get_mut(&place) {
            Some(told) => *told = Some(dispatch),
            None => effects.push(self.consumed(dispatch)),
        }
    }

    /// Gives a message to the program, unless what it goes on from has heard it.
    fn deliver(
        &mut self,
        from: &Principal,
        mail: &Mail,
        (body, place): PlacedMail,
        effects: &mut Vec<SessionEffect>,
    ) {
        if self.knows(from, mail) || (place > 0 && place <= self.heard_before) {
            return;
        }
        if place > 0 {
            self.letters.in_hand.insert(place, None);
        }
        let (topic, from) = (mail.body.topic().to_owned(), from.to_string());
        let noted = JournalEvent::Mail { topic: topic.clone(), from: from.clone() };
        let line = Inbound::Mail { topic, from, body, place, answers: mail.correlation };
        let order = Order::Deliver { run: self.run.id, line };
        self.when_running(SessionEffect::Journal(noted), effects);
        self.when_running(SessionEffect::Order(Box::new(order)), effects);
    }

    /// The first message that was given to the program and is not consumed yet.
    #[must_use]
    pub fn first_in_hand(&self) -> Option<u64> {
        self.letters.in_hand.first_key_value().map(|(place, _)| *place)
    }

    /// The program was handed a message.
    pub(super) fn taken(&mut self, place: u64, effects: &mut Vec<SessionEffect>) {
        let Some(dispatch) = self.letters.in_hand.remove(&place) else { return };
        effects.push(SessionEffect::Consumed);
        effects.extend(dispatch.map(|dispatch| self.consumed(dispatch)));
    }

    fn consumed(&self, dispatch: DispatchId) -> SessionEffect {
        SessionEffect::Report(Box::new(Report::Consumed { run: self.run.id, dispatch }))
    }

    /// Tells the program why something it wanted is not done.
    pub(super) fn tell(
        &self,
        topic: &str,
        error: &str,
        answers: Option<RequestId>,
        effects: &mut Vec<SessionEffect>,
    ) {
        let body = format!("{{\"error\":{}}}", serde_json::Value::from(error));
        let from = AgentId::Go.to_string();
        let topic = topic.to_owned();
        let line = Inbound::Mail { topic, from, body, place: 0, answers };
        effects.push(SessionEffect::Order(Box::new(Order::Deliver { run: self.run.id, line })));
    }

    pub(super) fn stop(&mut self, reason: &str, effects: &mut Vec<SessionEffect>) {
        if self.phase == SessionPhase::Ending {
            return;
        }
        if self.phase == SessionPhase::Claiming {
            self.stopped = Some(reason.to_owned());
            return;
        }
        self.phase = SessionPhase::Ending;
        self.verbs.give_up();
        if std::mem::take(&mut self.rotating) {
            self.ordered = None;
        }
        let StopWithin { drain, kill_grace } = self.stop_within;
        let reason = reason.to_owned();
        effects.push(SessionEffect::Journal(JournalEvent::Stopping { reason: reason.clone() }));
        effects.push(self.moved(RunEvent::CancelRequested, reason.clone()));
        effects.push(SessionEffect::Order(Box::new(Order::Stop {
            run: self.run.id,
            drain,
            kill_grace,
            reason,
        })));
    }

    /// Asks the program to checkpoint and end; its next session goes on. A stop or a kill that came
    /// first stands, and a result that it still gives counts. Whoever `ordered` it is told of the end.
    pub(super) fn rotate(&mut self, reason: &str, ordered: bool, effects: &mut Vec<SessionEffect>) {
        match self.phase {
            SessionPhase::Claiming => {
                self.ordered = ordered.then(|| reason.to_owned());
                self.gone(effects);
                return;
            }
            SessionPhase::Starting | SessionPhase::Running => {}
            SessionPhase::Ending | SessionPhase::Over => return,
        }
        if self.exit.is_some() || std::mem::replace(&mut self.rotating, true) {
            return;
        }
        self.verbs.give_up();
        let reason = reason.to_owned();
        self.ordered = ordered.then(|| reason.clone());
        effects.push(SessionEffect::Journal(JournalEvent::Stopping { reason: reason.clone() }));
        effects.push(SessionEffect::Order(Box::new(Order::Rotate {
            run: self.run.id,
            drain: self.stop_within.drain,
            kill_grace: self.stop_within.kill_grace,
            reason,
        })));
    }

    /// A program asks for agents: a specialist's request goes to its PO, anybody else's to
    /// the governor (spec 03, Specialists escalate). The request keeps the id the program gave
    /// it: the program knows the answer by it, and a repeat is known as one.
    pub(super) fn spawn_read(
        &mut self,
        now: BusTime,
        read: Result<(Option<RequestId>, Box<SpawnRequest>), String>,
        effects: &mut Vec<SessionEffect>,
    ) {
        let (given, wanted) = match read {
            Ok(read) => read,
            Err(error) => {
                self.tell("spawn.denied", &error, None, effects);
                return;
            }
        };
        self.spawns += 1;
        let derived = RequestId::derive(now, &self.id_seed, "spawn", self.spawns);
        let request = given.unwrap_or(derived);
        self.family.asks(request);
        effects.push(SessionEffect::Journal(JournalEvent::Spawn { request }));
        let sponsor = self.launch.project.clone().map(AgentId::Po);
        match (Role::of(&self.launch.agent), sponsor) {
            (Role::Specialist, Some(po)) => {
                self.sponsors.insert(request, now + SPONSOR_ANSWER_WITHIN);
                effects.push(SessionEffect::Mail(Box::new(Mail {
                    to: Principal::Agent(po),
                    epic: Some(self.run.epic),
                    correlation: Some(request),
                    cause: self.run.id.to_string(),
                    // Its answer says that it arrived.
                    ack_required: false,
                    trace: self.trace.clone(),
                    body: MailBody::Sponsor(SponsorRequest { request, wanted: *wanted }),
                })));
            }
            (_, _) => effects.push(SessionEffect::Request(request, wanted)),
        }
    }

    /// Reports sponsors that did not answer in time (spec 03), and an update that waited.
    pub(super) fn tick(&mut self, now: BusTime, effects: &mut Vec<SessionEffect>) {
        if self.log.due().is_some_and(|due| due <= now) {
            self.flush_log(effects);
        }
        effects.extend(self.noted.over(now).map(SessionEffect::Journal));
        self.settle_waits(effects);
        let held = self.updates.due(now);
        self.report_update(held, effects);
        let due: Vec<RequestId> =
            self.sponsors.iter().filter(|(_, at)| **at <= now).map(|(id, _)| *id).collect();
        for request in due {
            self.sponsors.remove(&request);
            if let Some(project) = self.launch.project.clone() {
                let sponsor = AgentId::Po(project);
                effects.push(SessionEffect::Report(Box::new(Report::SponsorSilent {
                    request,
                    sponsor,
                })));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brief::{Brief, ExpectedOutput, Runner, RunnerKind, Tools, Worktree};
    use crate::budget::Limits;
    use crate::hosted::SessionInput;
    use crate::hosted::tests::wanted;
    use crate::id::{
        AssignmentId, Domain, EpicId, NodeId, ProfileName, ProjectName, RunId, SessionId, Ulid,
    };
    use crate::mail::{Duty, Launch};
    use crate::run::Run;

    const NOW: BusTime = BusTime(1_700_000_000_000);

    fn ulid(place: u128) -> Ulid {
        Ulid::from_parts(1_700_000_000_000, place)
    }

    fn hosted(agent: AgentId) -> HostedSession {
        let project = ProjectName::new("demo").unwrap();
        let brief = Brief {
            goal: "count".to_owned(),
            key_facts: Vec::new(),
            expected_output: ExpectedOutput::Text,
            success_criteria: Vec::new(),
            definition_of_done: String::new(),
            tools: Tools::default(),
            workspace: String::new(),
            scope_paths: Vec::new(),
            budget: Limits::default(),
            wall: None,
            turn_timeout: None,
            runner: Runner {
                profile: ProfileName::new("default").unwrap(),
                kind: RunnerKind::Process,
                argv: Vec::new(),
                env: Vec::new(),
                pass_env: Vec::new(),
                writable: Vec::new(),
                model: String::new(),
                served: Default::default(),
                permissions: Vec::new(),
                mcp_servers: Vec::new(),
                prompt: String::new(),
            },
            worktree: Worktree::None,
            inputs: Vec::new(),
            judges: None,
        };
        let run = Run {
            id: RunId(ulid(1)),
            agent: agent.clone(),
            session: SessionId(ulid(2)),
            epoch: 1,
            epic: EpicId(ulid(3)),
            node: NodeId::task(1, 1),
            assignment: AssignmentId(ulid(4)),
            brief,
            continues: None,
            placement: None,
            created: NOW,
        };
        let launch = Launch {
            agent,
            session: run.session,
            epoch: 1,
            host_epoch: 1,
            parent: AgentId::Po(project.clone()),
            project: Some(project),
            depth: 2,
            delegation: None,
            duty: Duty::Run(run.clone()),
        };
        HostedSession::new(launch, run, "h".to_owned(), None, None)
    }

    fn asks(session: &mut HostedSession, given: Option<RequestId>) -> RequestId {
        let effects = session.step(NOW, SessionInput::SpawnRead(Ok((given, wanted()))));
        let [SessionEffect::Journal(JournalEvent::Spawn { request }), asked] = effects.as_slice()
        else {
            panic!("{effects:?}");
        };
        let asked = match asked {
            SessionEffect::Request(id, _) => Some(*id),
            SessionEffect::Mail(mail) => mail.correlation,
            SessionEffect::Claim
            | SessionEffect::Journal(_)
            | SessionEffect::Note(_)
            | SessionEffect::Order(_)
            | SessionEffect::Report(_)
            | SessionEffect::Operate { .. }
            | SessionEffect::ReadSpawn { .. }
            | SessionEffect::Store(_)
            | SessionEffect::Fetch { .. }
            | SessionEffect::Consumed
            | SessionEffect::Stream(_)
            | SessionEffect::End => panic!("{asked:?}"),
        };
        assert_eq!(asked, Some(*request), "the journal and the request name different ids");
        *request
    }

    #[test]
    fn spawn_request_keeps_its_program_id() {
        let given = RequestId(ulid(77));
        let domain = Domain::new("rust").unwrap();
        for agent in [AgentId::Worker(ulid(5)), AgentId::Specialist(domain, ulid(5))] {
            let mut session = hosted(agent);
            assert_eq!(asks(&mut session, Some(given)), given);
            let (first, second) = (asks(&mut session, None), asks(&mut session, None));
            assert_ne!(first, second);
            assert_ne!(first, given);
        }
    }
}
