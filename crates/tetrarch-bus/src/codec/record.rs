//! Records: protobuf inside the ledger, canonical JSON in STATE. Both say which version wrote
//! them and which one reads them without loss.

use serde::Serialize;
use tetrarch_core::held::{Held, Unread};
use tetrarch_core::ledger::Record;
use tetrarch_core::limits::COMMIT_BYTES_MAX;

use super::error::{CodecError, within};
use super::json::{self, Unknown};
use super::upgrade::upgraded;
use super::{ledger, plan, read};
use crate::envelope::SCHEMA_VERSION;
use crate::proto::v1 as pb;
use crate::proto::v1::record::Record as R;
use crate::subject::key::{is_key, parse_record_key, record_key};
use crate::subject::{KeyKind, Subject};

/// Oldest version that reads what this one writes.
const MIN_READER_VERSION: u32 = 1;

fn image(record: &Record) -> Result<R, CodecError> {
    Ok(match record {
        Record::Agent(agent) => R::Agent((&**agent).into()),
        Record::Host(host) => R::Host(host.into()),
        Record::Project(project) => R::Project(project.into()),
        Record::Profile(project, profile) => R::Profile(pb::ProjectProfile {
            project: project.to_string(),
            profile: Some((&**profile).into()),
        }),
        Record::Run(run) => R::Run((&**run).into()),
        Record::RunStatus(status) => R::RunStatus((&**status).into()),
        Record::Goal(goal) => R::Goal((&**goal).into()),
        Record::GoalState(state) => R::GoalState((&**state).into()),
        Record::Plan(plan) => R::Plan((&**plan).into()),
        Record::Node(epic, node) => {
            R::Node(pb::EpicNode { epic_id: epic.to_string(), node: Some((&**node).into()) })
        }
        Record::NodeState(epic, state) => R::NodeState(pb::EpicNodeState {
            epic_id: epic.to_string(),
            state: Some((&**state).into()),
        }),
        Record::Assignment(assignment) => R::Assignment((&**assignment).into()),
        Record::Dispatch(dispatch) => R::Dispatch((&**dispatch).into()),
        Record::Planning(planning) => R::Planning((&**planning).into()),
        Record::Question(question) => R::Question((&**question).into()),
        Record::Draft(draft) => R::Draft((&**draft).into()),
        Record::Crystallization(it) => R::Crystallization((&**it).into()),
        Record::Schedule(schedule) => R::Schedule((&**schedule).into()),
        Record::Reservation(reservation) => R::Reservation((&**reservation).into()),
        Record::Change(change) => R::Change((&**change).into()),
        Record::Decision(decision) => R::Decision(ledger::decision(decision)?),
        Record::Snapshot(snapshot) => R::Snapshot((&**snapshot).into()),
    })
}

/// A record as the ledger keeps it.
pub(super) fn written(record: &Record) -> Result<pb::Record, CodecError> {
    Ok(pb::Record {
        schema_version: SCHEMA_VERSION,
        min_reader_version: MIN_READER_VERSION,
        key: record_key(&record.key()),
        record: Some(image(record)?),
    })
}

fn readable(what: impl FnOnce() -> String, needs: u32) -> Result<(), CodecError> {
    if needs <= SCHEMA_VERSION {
        return Ok(());
    }
    Err(CodecError::TooNew { what: what(), needs, reads: SCHEMA_VERSION })
}

impl TryFrom<pb::Record> for Record {
    type Error = CodecError;
    fn try_from(record: pb::Record) -> Result<Self, CodecError> {
        readable(|| "a record".to_owned(), record.min_reader_version)?;
        let image = record.record.ok_or_else(|| CodecError::TooNew {
            what: "a record of an unknown kind".to_owned(),
            needs: record.min_reader_version.max(record.schema_version),
            reads: SCHEMA_VERSION,
        })?;
        Ok(match upgraded(image, record.schema_version) {
            R::Agent(agent) => Self::Agent(Box::new(agent.try_into()?)),
            R::Host(host) => Self::Host(host.try_into()?),
            R::Project(project) => Self::Project(project.try_into()?),
            R::Profile(profile) => Self::Profile(
                read::text("project", &profile.project)?,
                Box::new(read::message("profile", profile.profile)?),
            ),
            R::Run(run) => Self::Run(Box::new(run.try_into()?)),
            R::RunStatus(status) => Self::RunStatus(Box::new(status.try_into()?)),
            R::Goal(goal) => Self::Goal(Box::new(goal.try_into()?)),
            R::GoalState(state) => Self::GoalState(Box::new(state.try_into()?)),
            R::Plan(plan) => Self::Plan(Box::new(plan.try_into()?)),
            R::Node(node) => {
                let (epic, node) = plan::epic_node(node)?;
                Self::Node(epic, Box::new(node))
            }
            R::NodeState(state) => {
                let (epic, state) = plan::epic_node_state(state)?;
                Self::NodeState(epic, Box::new(state))
            }
            R::Assignment(assignment) => Self::Assignment(Box::new(assignment.try_into()?)),
            R::Dispatch(dispatch) => Self::Dispatch(Box::new(dispatch.try_into()?)),
            R::Planning(planning) => Self::Planning(Box::new(planning.try_into()?)),
            R::Question(question) => Self::Question(Box::new(question.try_into()?)),
            R::Draft(draft) => Self::Draft(Box::new(draft.try_into()?)),
            R::Crystallization(it) => Self::Crystallization(Box::new(it.try_into()?)),
            R::Schedule(schedule) => Self::Schedule(Box::new(schedule.try_into()?)),
            R::Reservation(it) => Self::Reservation(Box::new(it.try_into()?)),
            R::Change(change) => Self::Change(Box::new(change.try_into()?)),
            R::Decision(decision) => Self::Decision(Box::new(decision.try_into()?)),
            R::Snapshot(snapshot) => Self::Snapshot(Box::new(snapshot.try_into()?)),
        })
    }
}

/// A record's message with the stamp of STATE beside its own fields.
#[derive(Serialize)]
struct Stored<'a, P> {
    #[serde(flatten)]
    record: &'a P,
    #[serde(flatten)]
    stamp: pb::StateStamp,
}

fn stored<P: Serialize>(record: &P, ledger_seq: u64) -> Result<Vec<u8>, CodecError> {
    let stamp = pb::StateStamp {
        ledger_seq,
        schema_version: SCHEMA_VERSION,
        min_reader_version: MIN_READER_VERSION,
    };
    json::write("record", &Stored { record, stamp })
}

/// A record's value in STATE: its canonical JSON with `ledgerSeq`, `schemaVersion` and
/// `minReaderVersion`. `seq` is the sequence of the ledger entry it comes from.
///
/// # Errors
/// A decision whose answer cannot be written.
pub fn record_json(record: &Record, seq: u64) -> Result<Vec<u8>, CodecError> {
    match image(record)? {
        R::Agent(agent) => stored(&agent, seq),
        R::Host(host) => stored(&host, seq),
        R::Project(project) => stored(&project, seq),
        R::Profile(profile) => stored(&profile, seq),
        R::Run(run) => stored(&run, seq),
        R::RunStatus(status) => stored(&status, seq),
        R::Goal(goal) => stored(&goal, seq),
        R::GoalState(state) => stored(&state, seq),
        R::Plan(plan) => stored(&plan, seq),
        R::Node(node) => stored(&node, seq),
        R::NodeState(state) => stored(&state, seq),
        R::Assignment(assignment) => stored(&assignment, seq),
        R::Dispatch(dispatch) => stored(&dispatch, seq),
        R::Planning(planning) => stored(&planning, seq),
        R::Question(question) => stored(&question, seq),
        R::Draft(draft) => stored(&draft, seq),
        R::Crystallization(it) => stored(&it, seq),
        R::Schedule(schedule) => stored(&schedule, seq),
        R::Reservation(reservation) => stored(&reservation, seq),
        R::Change(change) => stored(&change, seq),
        R::Decision(decision) => stored(&decision, seq),
        R::Snapshot(snapshot) => stored(&snapshot, seq),
    }
}

/// The message that a record's canonical JSON is one of.
#[must_use]
pub fn record_message(kind: KeyKind) -> &'static str {
    match kind {
        KeyKind::Agent => "Agent",
        KeyKind::Host => "Host",
        KeyKind::Project => "Project",
        KeyKind::Profile => "ProjectProfile",
        KeyKind::Run => "Run",
        KeyKind::RunStatus => "RunStatus",
        KeyKind::Goal => "Goal",
        KeyKind::GoalState => "GoalState",
        KeyKind::Plan => "Plan",
        KeyKind::Node => "EpicNode",
        KeyKind::NodeState => "EpicNodeState",
        KeyKind::Assignment => "Assignment",
        KeyKind::Dispatch => "Dispatch",
        KeyKind::Planning => "Planning",
        KeyKind::Question => "QuestionRecord",
        KeyKind::Draft => "PlanDraft",
        KeyKind::Crystallization => "Crystallization",
        KeyKind::Schedule => "ScheduleRecord",
        KeyKind::Reservation => "Reservation",
        KeyKind::Change => "Change",
        KeyKind::Decision => "Decision",
        KeyKind::Snapshot => "Snapshot",
    }
}

/// Reads a record's value in STATE, and the sequence of the ledger entry it comes from.
/// Unknown fields are skipped.
///
/// # Errors
/// What is wrong, with the field; [`CodecError::TooNew`] for a record that only a newer version
/// reads without loss; a value that belongs to another key.
pub fn record_from_json(subject: &str, payload: &[u8]) -> Result<(Record, u64), CodecError> {
    let key = &match subject.parse() {
        Ok(Subject::State(key)) => key,
        Ok(_) => {
            let subject = subject.to_owned();
            return Err(CodecError::WrongSubject { subject, expected: "record" });
        }
        // It may be a kind that a newer version knows.
        Err(error) => {
            if let Ok(stamp) = stamp(payload) {
                readable(|| subject.to_owned(), stamp.min_reader_version)?;
            }
            return Err(error.into());
        }
    };
    within("record", payload.len(), COMMIT_BYTES_MAX)?;
    let stamp = stamp(payload)?;
    readable(|| record_key(key), stamp.min_reader_version)?;
    let kind = KeyKind::of(key);
    let what = record_message(kind);
    let image = match kind {
        KeyKind::Agent => R::Agent(message(what, payload)?),
        KeyKind::Host => R::Host(message(what, payload)?),
        KeyKind::Project => R::Project(message(what, payload)?),
        KeyKind::Profile => R::Profile(message(what, payload)?),
        KeyKind::Run => R::Run(message(what, payload)?),
        KeyKind::RunStatus => R::RunStatus(message(what, payload)?),
        KeyKind::Goal => R::Goal(message(what, payload)?),
        KeyKind::GoalState => R::GoalState(message(what, payload)?),
        KeyKind::Plan => R::Plan(message(what, payload)?),
        KeyKind::Node => R::Node(message(what, payload)?),
        KeyKind::NodeState => R::NodeState(message(what, payload)?),
        KeyKind::Assignment => R::Assignment(message(what, payload)?),
        KeyKind::Dispatch => R::Dispatch(message(what, payload)?),
        KeyKind::Planning => R::Planning(message(what, payload)?),
        KeyKind::Question => R::Question(message(what, payload)?),
        KeyKind::Draft => R::Draft(message(what, payload)?),
        KeyKind::Crystallization => R::Crystallization(message(what, payload)?),
        KeyKind::Schedule => R::Schedule(message(what, payload)?),
        KeyKind::Reservation => R::Reservation(message(what, payload)?),
        KeyKind::Change => R::Change(message(what, payload)?),
        KeyKind::Decision => R::Decision(message(what, payload)?),
        KeyKind::Snapshot => R::Snapshot(message(what, payload)?),
    };
    let record: Record = pb::Record {
        schema_version: stamp.schema_version,
        min_reader_version: stamp.min_reader_version,
        key: String::new(),
        record: Some(image),
    }
    .try_into()?;
    if record.key() != *key {
        let reason = format!("the value belongs to {}", record_key(&record.key()));
        return Err(CodecError::field(record_key(key), reason));
    }
    Ok((record, stamp.ledger_seq))
}

fn stamp(payload: &[u8]) -> Result<pb::StateStamp, CodecError> {
    within("record", payload.len(), COMMIT_BYTES_MAX)?;
    message("StateStamp", payload)
}

/// What STATE says of a record that this version cannot read and that only the ledger has: where it
/// is. Whoever can read it makes the value anew from there.
pub(crate) fn held_json(held: &Held, seq: u64) -> Result<Vec<u8>, CodecError> {
    let needs = match held.why {
        Unread::Newer { needs, .. } => needs,
        Unread::Undecodable { .. } => MIN_READER_VERSION,
    };
    let stamp =
        pb::StateStamp { ledger_seq: seq, schema_version: needs, min_reader_version: needs };
    json::write("record", &stamp)
}

/// A record of the ledger, or what can be said of one that this version cannot read.
pub(super) fn read_or_held(record: pb::Record) -> Result<Result<Record, Held>, CodecError> {
    let name = record.key.clone();
    match Record::try_from(record) {
        Ok(record) => Ok(Ok(record)),
        Err(error) => held(&name, &error).map(Err).ok_or(error),
    }
}

/// What can be said of a record that cannot be read, given its key as text; nothing when that is no
/// key that this version knows, nor a newer version's.
#[must_use]
pub fn held(name: &str, error: &CodecError) -> Option<Held> {
    let key = parse_record_key(name).ok();
    let why = if let CodecError::TooNew { needs, reads, .. } = error
        && is_key(name)
    {
        Unread::Newer { needs: *needs, reads: *reads }
    } else {
        Unread::Undecodable { reason: key.as_ref().map(|_| error.to_string())? }
    };
    Some(Held { name: name.to_owned(), key, why })
}

/// What we wrote ourselves is read at one stroke; anything else with care, so that an error
/// names the field.
pub(super) fn message<P: serde::de::DeserializeOwned>(
    what: &'static str,
    payload: &[u8],
) -> Result<P, CodecError> {
    serde_json::from_slice(payload).or_else(|_| json::read(what, payload, Unknown::Ignored))
}
