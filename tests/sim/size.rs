//! Entries as they are encoded: whatever a group holds when it is full fits into one commit, so
//! that no request can stop the owner (spec 02, Bounds; spec 10, invariant 21).

use tetrarch_bus::codec::encode_entry;
use tetrarch_core::assignment::Assignment;
use tetrarch_core::brief::{Finding, Judgement, Outcome, RunResult, Verdict};
use tetrarch_core::id::{
    AgentId, AssignmentId, CommitId, EpicId, HostName, Principal, RequestId, Ulid, sha256_hex,
};
use tetrarch_core::ledger::{Entry, Record};
use tetrarch_core::limits::{ASSIGNMENTS_PER_TICK, COMMIT_BYTES_MAX, IDLE_AFTER};
use tetrarch_core::overseer::Telemetry;
use tetrarch_core::owner::{Group, Input, Policy, decide};
use tetrarch_core::records::Records;
use tetrarch_core::request::{HostJoin, Op, Report, Request, RequestBody, Sender, TaskWish};
use tetrarch_core::time::BusTime;
use tetrarch_tests::entry_bytes;

use crate::bug::Bug;
use crate::dice::Dice;
use crate::people::human;
use crate::work;

/// Agents that stand still at once.
const CROWD: u128 = 600;
/// Goals whose groups are measured.
const GOALS: u64 = 6;

pub(crate) struct Desk {
    pub(crate) records: Records,
    asked: u64,
}

impl Desk {
    pub(crate) fn input(&mut self, from: Principal, body: RequestBody) -> Input {
        self.asked += 1;
        let agent = from.agent().and_then(|id| self.records.agents.get(id));
        let sender = Sender {
            via: None,
            session: agent.and_then(|agent| agent.session),
            epoch: agent.map_or(1, |agent| agent.epoch),
            from,
        };
        let digest = sha256_hex(format!("{body:?}").as_bytes());
        let id = RequestId(Ulid(u128::from(self.asked)));
        let seq = self.asked;
        Input::Request(Box::new(Request {
            seq,
            sender,
            id,
            digest,
            trace: None,
            credential: None,
            body,
        }))
    }

    /// Commits what fits into one group of these inputs; gives the entry and how many it took.
    pub(crate) fn commit(&mut self, inputs: &[Input]) -> (Entry, usize) {
        let mut group = Group::default();
        let mut taken = 0;
        for input in inputs {
            if group.is_full() {
                break;
            }
            let now = BusTime(1_700_000_000_000 + self.asked);
            let step = decide(&self.records, &Policy::default(), now, input);
            group.add(&mut self.records, step, 0);
            taken += 1;
        }
        let now = BusTime(1_700_000_000_000 + self.asked);
        (group.finish(&mut self.records, CommitId(Ulid(9)), 1, now), taken)
    }

    fn all(&mut self, mut inputs: Vec<Input>) -> usize {
        let mut largest = 0;
        while !inputs.is_empty() {
            let (entry, taken) = self.commit(&inputs);
            let size = entry_bytes(&entry);
            assert!(size <= COMMIT_BYTES_MAX, "{size} bytes in an entry of {taken} inputs");
            largest = largest.max(size);
            inputs.drain(..taken);
        }
        largest
    }
}

/// Texts of this many bytes that JSON would write much longer.
fn long(bytes: usize) -> String {
    "\"\n".repeat(bytes / 2)
}

pub(crate) fn fleet() -> Desk {
    let mut desk = Desk { records: Records::default(), asked: 0 };
    let instance = "one".to_owned();
    desk.commit(&[Input::Started { epoch: 1, instance: instance.clone() }]);
    let host = AgentId::Ho(HostName::new("h1").expect("it is a name"));
    let (labels, address) = (Vec::new(), String::new());
    let join = HostJoin { instance, lease_epoch: 1, labels, capacity: 10_000, address };
    let join = desk.input(host.into(), RequestBody::Op(Op::HostJoin(join)));
    desk.commit(&[join]);
    let made = desk.input(human(), RequestBody::Op(work::create(false)));
    desk.commit(&[made]);
    let ready = desk.input(po().into(), RequestBody::Report(Report::Ready));
    desk.commit(&[ready]);
    desk
}

pub(crate) fn po() -> AgentId {
    AgentId::Po(work::project())
}

#[test]
fn full_group_fits_into_a_commit() {
    let mut desk = fleet();
    let mut largest = 0;
    let mut dice = Dice::new(1);
    for _ in 0..GOALS {
        let plan = Box::new(work::plan(&mut dice));
        let op = Op::GoalCreate { project: work::project(), plan };
        let goal = desk.input(human(), RequestBody::Op(op));
        largest = largest.max(desk.all(vec![goal]));
    }
    let epics: Vec<EpicId> = desk.records.goals.keys().copied().collect();
    for (at, epic) in epics.iter().enumerate() {
        let mut wanted = work::one_worker(*epic, None);
        wanted.subagents[0].task = TaskWish::Task(long(at * 2_400 + 2));
        wanted.subagents = vec![wanted.subagents[0].clone(); 16];
        let many = (0..40).map(|_| RequestBody::Spawn(wanted.clone()));
        let many: Vec<RequestBody> = many.collect();
        let inputs = many.into_iter().map(|body| desk.input(po().into(), body)).collect();
        largest = largest.max(desk.all(inputs));
        let live: Vec<AgentId> = desk.records.children_of(&po()).cloned().collect();
        let refused = desk.records.decisions.values().last().and_then(|d| d.answer.clone());
        assert!(!live.is_empty(), "nobody was admitted at {at}: {refused:?}");
        let finding = Finding { place: long(4_000), what: long(4_000), severity: long(4_000) };
        let verdict = Verdict { judgement: Judgement::Fail, findings: vec![finding; 30] };
        let inputs = live.iter().map(|id| {
            let run = desk.records.agents[id].work.as_ref().map(|work| work.run);
            let mut result = RunResult::ended(Outcome::Success, long(90_000));
            result.deliverable = long(90_000);
            result.verdict = Some(verdict.clone());
            (id.clone(), Report::Result { run, epic: None, result })
        });
        let inputs: Vec<(AgentId, Report)> = inputs.collect();
        let inputs =
            inputs.into_iter().map(|(id, r)| desk.input(id.into(), RequestBody::Report(r)));
        let inputs = inputs.collect();
        largest = largest.max(desk.all(inputs));
    }
    assert!(largest > COMMIT_BYTES_MAX / 8, "only {largest} bytes: nothing was tried");
}

/// One look at everything that is due, into a group.
fn look(
    records: &mut Records,
    group: &mut Group,
    bug: Option<Bug>,
    telemetry: &Telemetry,
    now: BusTime,
) {
    let input = Input::Oversee(telemetry.clone());
    loop {
        let step = decide(records, &Policy::default(), now, &input);
        let over = step.is_empty() || bug != Some(Bug::TickUnbounded);
        group.add(records, step, 0);
        if over {
            return;
        }
    }
}

/// Has the overseer look at more agents that stand still than it takes at once, until each was asked;
/// gives how many looks that took, or what is wrong with one.
pub(crate) fn tick(bug: Option<Bug>) -> Result<usize, String> {
    let mut desk = fleet();
    let plan = Box::new(work::plan(&mut Dice::new(1)));
    let goal =
        desk.input(human(), RequestBody::Op(Op::GoalCreate { project: work::project(), plan }));
    desk.commit(&[goal]);
    let epic = *desk.records.goals.keys().next().expect("it was given");
    let wanted = desk.input(po().into(), RequestBody::Spawn(work::one_worker(epic, None)));
    desk.commit(&[wanted]);
    let worker = desk.records.children_of(&po()).next().cloned().expect("it was admitted");
    let ready = desk.input(worker.into(), RequestBody::Report(Report::Ready));
    desk.commit(&[ready]);
    let one = desk.records.assignments.values().next().cloned().expect("it has work");
    for at in 0..CROWD {
        // Nobody else needs to be behind them.
        let copy = Assignment { id: AssignmentId(Ulid(at)), ..one.clone() };
        desk.records.put(Record::Assignment(Box::new(copy)));
    }
    let heard = Telemetry { since: BusTime(0), ..Telemetry::default() };
    let now = one.recovery.dispatched + IDLE_AFTER + IDLE_AFTER;
    for looks in 0.. {
        let mut group = Group::default();
        look(&mut desk.records, &mut group, bug, &heard, now);
        if group.is_empty() {
            return Ok(looks);
        }
        let entry = group.finish(&mut desk.records, CommitId(Ulid(9)), 1, now);
        let all = entry.records.iter().filter(|one| matches!(one, Record::Assignment(_))).count();
        let size = encode_entry(&entry).map_or(usize::MAX, |_| entry_bytes(&entry));
        if size > COMMIT_BYTES_MAX || all > ASSIGNMENTS_PER_TICK {
            return Err(format!("invariant 21: a tick of {all} assignments in {size} bytes"));
        }
    }
    Ok(0)
}
