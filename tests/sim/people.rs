//! The human of the simulation: makes the project, gives goals, asks again when refused, answers
//! questions, and now and then meddles.

mod planning;

use std::collections::BTreeMap;

use tetrarch_core::agent::Mode;
use tetrarch_core::budget::Spend;
use tetrarch_core::cursor::Positions;
use tetrarch_core::id::{AgentId, EpicId, HumanName, Principal, RequestId, SessionId, Ulid};
use tetrarch_core::liveness::Liveness;
use tetrarch_core::mail::{Mail, MailBody, SessionOrder};
use tetrarch_core::request::{BudgetOp, Op, RequestBody, Sender, SpawnRequest};

use crate::bus::Stored;
use crate::wire::{Reach, Wire};
use crate::work;

/// The human.
#[derive(Debug)]
pub(crate) struct People {
    at: Positions,
    asked: u64,
    project: Asked,
    goals_wanted: usize,
    goal: Asked,
    closing: Asked,
    pub(crate) goals: Vec<EpicId>,
    /// Changes of plans and goals that are not answered, by what they are called once they are made.
    changes: BTreeMap<RequestId, &'static str>,
}

pub(crate) use planning::proposal;

#[derive(Debug, Clone, PartialEq)]
enum Asked {
    Not,
    Under(RequestId),
    Done,
}

pub(crate) fn human() -> Principal {
    Principal::Human(HumanName::new("Shai").expect("it is a name"))
}

impl People {
    pub(crate) fn new(goals_wanted: usize) -> Self {
        let (project, goal, closing) = (Asked::Not, Asked::Not, Asked::Not);
        let at = Positions::default();
        let (goals, changes) = (Vec::new(), BTreeMap::new());
        Self { at, asked: 0, project, goals_wanted, goal, closing, goals, changes }
    }

    fn ask(&mut self, body: RequestBody, reach: &mut Reach<'_>) -> RequestId {
        self.asked += 1;
        let id = RequestId(Ulid(u128::from(self.asked)));
        let sender = Sender { from: human(), via: None, session: None, epoch: 1 };
        reach.send(Wire::request(sender, id, body), 0);
        id
    }

    /// Whether there is something to read or to ask for.
    pub(crate) fn can_act(&self, reach: &Reach<'_>) -> bool {
        let due = self.project == Asked::Not
            || (self.project == Asked::Done && self.goal == Asked::Not && self.goals_wanted > 0);
        due || self.to_close(reach).is_some() || reach.bus.next(&human(), self.at).is_some()
    }

    /// Whose circuit is open and to be closed.
    fn to_close(&self, reach: &Reach<'_>) -> Option<AgentId> {
        let mut open = reach.truth.agents.values().filter(|agent| agent.circuit.is_open());
        let open = open.find(|agent| agent.liveness != Liveness::Terminated)?;
        (self.closing == Asked::Not).then(|| open.id.clone())
    }

    /// Whether every goal that was wanted was given.
    pub(crate) fn is_content(&self) -> bool {
        self.goals_wanted == 0
    }

    pub(crate) fn act(&mut self, reach: &mut Reach<'_>) {
        if let Some((_, stored)) = reach.bus.next(&human(), self.at) {
            let stored = stored.clone();
            self.at.mail += 1;
            self.read(stored, reach);
        } else if self.project == Asked::Not {
            let op = work::create(reach.dice.percent(50));
            self.project = Asked::Under(self.ask(RequestBody::Op(op), reach));
        } else if self.project == Asked::Done && self.goal == Asked::Not && self.goals_wanted > 0 {
            let plan = Box::new(work::plan(reach.dice));
            let op = Op::GoalCreate { project: work::project(), plan };
            self.goal = Asked::Under(self.ask(RequestBody::Op(op), reach));
        } else if let Some(agent) = self.to_close(reach) {
            reach.tally.note("circuit closed");
            let op = Op::CircuitClose { agent };
            self.closing = Asked::Under(self.ask(RequestBody::Op(op), reach));
        }
    }

    fn read(&mut self, stored: Stored, reach: &mut Reach<'_>) {
        let correlation = stored.mail.correlation;
        if let MailBody::Reply(reply) = stored.mail.body {
            let change = correlation.and_then(|id| self.changes.remove(&id));
            if let Some(what) = change {
                planning::answered(what, &reply, reach);
                return;
            }
            let asked = correlation.map(Asked::Under);
            if asked.as_ref() == Some(&self.project) {
                let made = reply.error.is_none();
                self.project = if made { Asked::Done } else { Asked::Not };
            } else if asked.as_ref() == Some(&self.closing) {
                self.closing = Asked::Not;
            } else if asked.as_ref() == Some(&self.goal) {
                self.goal = Asked::Not;
                if let Some(epic) = reply.epic {
                    self.goals_wanted -= 1;
                    self.goals.push(epic);
                }
            }
        } else if let MailBody::Question { id: question, .. } = stored.mail.body {
            if reach.faulty && reach.dice.percent(reach.unanswered) {
                reach.tally.note("question not answered");
                return;
            }
            reach.tally.note("question answered");
            let op = Op::QuestionAnswer { question, text: "this one".to_owned() };
            self.ask(RequestBody::Op(op), reach);
        }
    }

    fn write(&self, to: AgentId, body: MailBody, reach: &mut Reach<'_>) {
        let mail = Mail {
            to: to.into(),
            epic: None,
            correlation: None,
            cause: "a human".to_owned(),
            ack_required: false,
            trace: None,
            body,
        };
        let stored = Stored { place: None, from: human(), mail, seq: 0 };
        reach.send(Wire::Mail(Box::new(stored)), 0);
    }

    /// Stops an agent.
    pub(crate) fn stop(&self, agent: AgentId, reach: &mut Reach<'_>) {
        let reason = "enough".to_owned();
        let order =
            SessionOrder { agent: agent.clone(), session: None, epoch: 0, host_epoch: 0, reason };
        self.write(agent, MailBody::Stop(order), reach);
    }

    /// Wants an agent's next session: by a rotation, or by replacing the one it has.
    pub(crate) fn renew(
        &mut self,
        agent: AgentId,
        session: Option<SessionId>,
        reach: &mut Reach<'_>,
    ) {
        let reason = String::new();
        let op = match session {
            Some(session) => Op::AgentReplace { agent, session, give_up: false, reason },
            None => Op::AgentRotate { agent, reason },
        };
        self.ask(RequestBody::Op(op), reach);
    }

    /// Lets an agent spend more.
    pub(crate) fn raise(&mut self, agent: AgentId, reach: &mut Reach<'_>) {
        let (more, reason) = (Spend { tokens: 5_000, ..Spend::default() }, String::new());
        self.ask(RequestBody::Op(Op::Budget(BudgetOp::Raise { agent, more, reason })), reach);
    }

    /// Asks for many workers at once; every second request waits for a slot.
    pub(crate) fn burst(&mut self, epic: EpicId, count: usize, reach: &mut Reach<'_>) {
        let parent = AgentId::Po(work::project());
        for at in 0..count {
            let wanted = work::one_worker(epic, Some(parent.clone()));
            let wanted = SpawnRequest { wait: at % 2 == 1, ..wanted };
            self.ask(RequestBody::Spawn(wanted), reach);
        }
    }

    /// Changes how the project delegates.
    pub(crate) fn set_mode(&mut self, mode: Mode, reach: &mut Reach<'_>) {
        if self.project == Asked::Done {
            self.ask(RequestBody::Op(Op::ProjectMode { project: work::project(), mode }), reach);
        }
    }
}
