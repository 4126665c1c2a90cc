//! The sessions of a host: shells around core's orchestrator and hosted machines that perform
//! effects in order and stop at the first that is fenced.

mod agent;
mod project;

use tetrarch_core::cursor::{Claim, ClaimOutcome, Cursor};
use tetrarch_core::id::{AgentId, Principal, RequestId, RunId, SessionId};
use tetrarch_core::mail::{Launch, Mail};
use tetrarch_core::request::{Report, RequestBody, Sender};
use tetrarch_core::time::BusTime;
use tetrarch_tests::simulated::{Claimed, NOW};

use crate::bus::Reader;
use crate::host::advance;
use crate::wire::{Reach, Wire};

pub(crate) use agent::Agent;
pub(crate) use project::{Project, Turn};

/// A session.
#[derive(Debug)]
pub(crate) enum Seat {
    Agent(Box<Agent>),
    Project(Box<Project>),
}

impl Seat {
    pub(crate) fn agent(agent: Agent) -> Self {
        Self::Agent(Box::new(agent))
    }

    pub(crate) fn project(project: Project) -> Self {
        Self::Project(Box::new(project))
    }

    pub(crate) fn session(&self) -> SessionId {
        match self {
            Self::Agent(agent) => agent.own.session,
            Self::Project(project) => project.own.session,
        }
    }

    pub(crate) fn epoch(&self) -> u64 {
        match self {
            Self::Agent(agent) => agent.own.epoch,
            Self::Project(project) => project.own.epoch,
        }
    }

    /// Where it stands, for people.
    pub(crate) fn stands(&self) -> String {
        match self {
            Self::Agent(agent) => format!("{} {:?}", agent.own.id, agent.program),
            Self::Project(project) => format!("{} {:?}", project.own.id, project.machine),
        }
    }

    /// When something is due without anything happening.
    pub(crate) fn deadline(&self) -> Option<BusTime> {
        match self {
            Self::Agent(agent) => agent.machine.next_deadline(),
            Self::Project(project) => project.machine.next_deadline(),
        }
    }

    /// How often its program was heard of; none where there is none.
    pub(crate) fn progress(&self) -> Option<u64> {
        match self {
            Self::Agent(agent) => Some(agent.machine.progress()),
            Self::Project(_) => None,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        match self {
            Self::Agent(agent) => agent.over,
            Self::Project(project) => project.over,
        }
    }
}

/// Who a session is.
#[derive(Debug)]
struct Own {
    id: AgentId,
    session: SessionId,
    epoch: u64,
    /// The run of a new agent, whose cursor is not sealed.
    first: Option<RunId>,
    claim: Claim,
    life: u64,
    reader: Reader,
    /// Its cursor and the sequence of that.
    cursor: Option<(Cursor, u64)>,
    reports: usize,
}

impl Own {
    fn of(launch: &Launch, claim: Claim, life: u64) -> Self {
        Self {
            id: launch.agent.clone(),
            session: launch.session,
            epoch: launch.epoch,
            first: launch.first_run(),
            claim,
            life,
            reader: Reader::default(),
            cursor: None,
            reports: 0,
        }
    }

    fn claim(&mut self, reach: &mut Reach<'_>) -> ClaimOutcome {
        let outcome = self.ask_for_cursor(reach);
        let reader = self.reader;
        let (at, read) = (reader.positions, reach.watch.read.get(&self.id).copied());
        let forgotten = read.is_some_and(|read| at.mail < read.mail || at.ctl < read.ctl);
        if outcome == ClaimOutcome::Claimed && forgotten {
            let what = format!("invariant 12: {} reads again what it had handled", self.id);
            reach.watch.broken.push(what);
        }
        if outcome != ClaimOutcome::Claimed {
            reach.tally.note("claim refused");
        }
        outcome
    }

    /// Claims the cursor; waits for a seal that does not show yet, but not for ever.
    fn ask_for_cursor(&mut self, reach: &mut Reach<'_>) -> ClaimOutcome {
        let seen = reach.view().cursors;
        let (mut claimed, reader) = match self.first {
            Some(run) => {
                let first = Cursor::first(self.id.clone(), self.session, run, self.claim.clone());
                reach.bus.claim_first(&first, &self.claim, seen)
            }
            None => reach.bus.claim(&self.id, self.epoch, &self.claim, seen),
        };
        if claimed == Claimed::NotYet {
            reach.tally.note("claim waited for its seal");
            if reach.faulty && reach.dice.percent(20) {
                reach.tally.note("claim gave up its seal");
                return ClaimOutcome::DoNotStart;
            }
            (claimed, _) = reach.bus.claim(&self.id, self.epoch, &self.claim, NOW);
        }
        self.reader = reader;
        match claimed {
            Claimed::Ours(seq) => {
                self.cursor = reach.bus.cursor(&self.id).map(|cursor| (cursor.clone(), seq));
                ClaimOutcome::Claimed
            }
            Claimed::EarlierLife => ClaimOutcome::EarlierLife,
            Claimed::DoNotStart | Claimed::NotYet => ClaimOutcome::DoNotStart,
        }
    }

    fn sender(&self) -> Sender {
        Sender {
            from: Principal::Agent(self.id.clone()),
            via: Some(self.claim.host.clone()),
            session: Some(self.session),
            epoch: self.epoch,
        }
    }

    fn request(&self, id: RequestId, body: RequestBody, reach: &mut Reach<'_>) {
        reach.send(Wire::request(self.sender(), id, body), self.life);
    }

    fn report(&mut self, report: Report, reach: &mut Reach<'_>) {
        self.reports += 1;
        let seed = format!("{} {}", self.session, report.kind());
        let id = RequestId::derive(reach.now, &seed, "report", self.reports);
        self.request(id, RequestBody::Report(report), reach);
    }

    fn can_read(&self, reach: &Reach<'_>) -> bool {
        let who = Principal::Agent(self.id.clone());
        reach.bus.next(&who, self.reader.positions).is_some()
    }

    /// The next message that is new.
    fn read(&mut self, reach: &mut Reach<'_>) -> Option<(Principal, Mail)> {
        let who = Principal::Agent(self.id.clone());
        let (lane, stored) = reach.bus.next(&who, self.reader.positions)?;
        let stored = stored.clone();
        advance(&mut self.reader.positions, lane);
        if !self.reader.is_new(lane, &stored) {
            reach.tally.note("mail repeated, dropped");
            return None;
        }
        reach.tell(format_args!("{} reads {}", self.id, stored.mail.body.topic()));
        Some((stored.from, stored.mail))
    }

    fn save(&mut self, reach: &mut Reach<'_>) -> bool {
        let Some((cursor, expect)) = &mut self.cursor else { return false };
        cursor.positions = self.reader.positions;
        let Some(seq) = reach.bus.save(cursor, *expect, self.reader) else { return false };
        *expect = seq;
        reach.watch.read.insert(self.id.clone(), self.reader.positions);
        true
    }
}
