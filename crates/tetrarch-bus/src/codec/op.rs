//! Operations: one body each, by the name in the subject. [`ops!`] lists each once for both directions.

use prost::Name;
use serde::Serialize;
use serde_json::{Value, json};
use tetrarch_core::agent::Mode;
use tetrarch_core::budget::Limits;
use tetrarch_core::conversation::lane::TurnLane;
use tetrarch_core::error::ErrorCode;
use tetrarch_core::id::{ProjectName, RequestId};
use tetrarch_core::limits::LEASE_EPOCH_MAX;
use tetrarch_core::limits::REQUEST_BYTES_MAX;
use tetrarch_core::mail::OpReply;
use tetrarch_core::overseer::Telemetry;
use tetrarch_core::plan::schema::{self, PlanFile};
use tetrarch_core::request::conversations::{ConversationOp, GraphApply, TurnSay};
use tetrarch_core::request::goals::{GoalOp, GoalVerb};
use tetrarch_core::request::planning::PlanOp;
use tetrarch_core::request::schedules::ScheduleOp;
use tetrarch_core::request::verbs::VerbOp;
use tetrarch_core::request::work::{Completion, WorkOp, WorkVerb};
use tetrarch_core::request::{FileOp, GateOp, HostDrain, HostJoin, NoteOp, Op, ProjectCreate};
use tetrarch_core::time::Millis;
use tetrarch_core::verb::Wanted;

use super::error::{CodecError, within};
use super::wire::{Wire, absent, field, message, words};
use super::{budget, change, goal, json, planning, read, reservation, schedule};
use crate::proto::v1 as pb;
use crate::subject::OpName;

/// The body of an operation of this id, from variables that are called as its fields are.
macro_rules! body {
    ($id:expr, $pb:ident { $($f:ident),* $(,)? }) => {
        $crate::codec::op::finish(&$crate::proto::v1::$pb {
            request_id: $id.to_string(),
            sender: String::new(),
            $($f: $crate::codec::wire::Wire::put($f)),*
        })
    };
}

pub(super) use body;

/// Operations by name, each with its message, the fields of it, and what it is in the core, where variables are
/// called as the fields are. A page is written as its limit and its place. `first` completes a message before it
/// is read. Those with parts that are written in another way stand in `encode` and `decode`.
macro_rules! ops {
    (
        $id:ident, $body:ident;
        $(
            $name:literal: $pb:ident { $($f:ident),* $(; $page:ident)? } $(first($first:expr))?
                => ($($core:tt)+);
        )*
        encode { $($encode:tt)* }
        decode { $($decode:tt)* }
    ) => {
        /// The body of an operation. `goal.create` carries the plan as its author wrote it and is
        /// written by [`encode_goal_create`], `todo.plan` by [`planning::encode_todo_plan`].
        ///
        /// # Errors
        /// `goal.create` and `todo.plan`; more bytes than allowed.
        pub fn encode_op(op: &Op, $id: RequestId) -> Result<Vec<u8>, CodecError> {
            match op {
                $($($core)+ => finish(&pb::$pb {
                    request_id: $id.to_string(),
                    sender: String::new(),
                    $($f: Wire::put($f),)*
                    $(limit: read::limit($page), after: Wire::put(&$page.after),)?
                }),)*
                $($encode)*
            }
        }

        /// Reads the body of an operation. The sender it names is checked elsewhere.
        pub(super) fn decode(op: &OpName, $body: Value) -> Result<Op, CodecError> {
            Ok(match op.as_str() {
                $($name => {
                    let it: pb::$pb = json::request($body)?;
                    $(
                        let mut it = it;
                        ($first)(&mut it);
                    )?
                    $(let $f = field(stringify!($f), it.$f)?;)*
                    $(let $page = read::page(it.limit, it.after)?;)?
                    $($core)+
                })*
                $($decode)*
                other => {
                    let reason = format!("{other} is not an operation of this version");
                    return Err(CodecError::field("op", reason));
                }
            })
        }
    };
}

words!(ErrorCode);

ops! {
    id, body;
    "human.join": HumanJoin { human } => (Op::HumanJoin { human });
    "project.mode": ProjectMode { project, mode } => (Op::ProjectMode { project, mode });
    "project.retire": ProjectRetire { project } => (Op::ProjectRetire { project });
    "profile.apply": ProfileApply { project, profile } => (Op::ProfileApply { project, profile });
    "host.drain": HostDrain { host, undo, reason } =>
        (Op::HostDrain(HostDrain { host, undo, reason }));
    "circuit.close": CircuitClose { agent } => (Op::CircuitClose { agent });
    "agent.retire": AgentRetire { agent, reason } => (Op::AgentRetire { agent, reason });
    "agent.replace": AgentReplace { agent, session, give_up, reason } =>
        (Op::AgentReplace { agent, session, give_up, reason });
    "agent.rotate": AgentRotate { agent, reason } => (Op::AgentRotate { agent, reason });
    "agent.status": AgentStatus { agent } => (Op::AgentStatus { agent });
    "agent.steer": AgentSteer { agent, text } =>
        (Op::Verb(VerbOp { agent, wanted: Wanted::Steer { text } }));
    "agent.interrupt": AgentInterrupt { agent, reason } =>
        (Op::Verb(VerbOp { agent, wanted: Wanted::Interrupt { reason } }));
    "agent.pause": AgentPause { agent } => (Op::Verb(VerbOp { agent, wanted: Wanted::Pause }));
    "agent.resume": AgentResume { agent } => (Op::Verb(VerbOp { agent, wanted: Wanted::Resume }));
    "question.answer": QuestionAnswer { question, text } => (Op::QuestionAnswer { question, text });
    "goal.pause": GoalMove { epic, reason } =>
        (Op::Goal(GoalOp { epic, verb: GoalVerb::Pause, reason }));
    "goal.resume": GoalMove { epic, reason } =>
        (Op::Goal(GoalOp { epic, verb: GoalVerb::Resume, reason }));
    "goal.cancel": GoalMove { epic, reason } =>
        (Op::Goal(GoalOp { epic, verb: GoalVerb::Cancel, reason }));
    "goal.archive": GoalMove { epic, reason } =>
        (Op::Goal(GoalOp { epic, verb: GoalVerb::Archive, reason }));
    "goal.prioritise": GoalPrioritise { epic, priority, reason } =>
        (Op::Goal(GoalOp { epic, verb: GoalVerb::Prioritise(priority), reason }));
    "todo.draft": TodoDraft { epic, draft, verdict, reason } =>
        (Op::Plan(PlanOp::Decide { epic, draft, verdict, reason }));
    "todo.list": TodoList { epic, status; page } =>
        (Op::Work(WorkOp { epic, verb: WorkVerb::List { status, page } }));
    "todo.reprioritise": TodoReprioritise { epic, priorities, reason } =>
        (Op::Work(WorkOp { epic, verb: WorkVerb::Reprioritise { priorities, reason } }));
    "todo.graph_insights": TodoInsights { epic; page } =>
        (Op::Work(WorkOp { epic, verb: WorkVerb::Insights { page } }));
    "todo.recommend": TodoRecommend { epic, limit } =>
        (Op::Work(WorkOp { epic, verb: WorkVerb::Recommend { limit } }));
    "work.unblock": WorkUnblock { epic, node, note } =>
        (Op::Work(WorkOp { epic, verb: WorkVerb::Unblock { node, note } }));
    "work.block": WorkBlock { epic, node, blocker } => (Op::WorkBlock { epic, node, blocker });
    "file.release": FileRelease { reservation } => (Op::File(FileOp::Release { reservation }));
    "file.list": FileList { project; page } => (Op::File(FileOp::List { project, page }));
    "note.put": NotePut { project, name, text, expect_version } =>
        (Op::Note(NoteOp::Put { project, name, text, expect_version }));
    "note.delete": NoteDelete { project, name } => (Op::Note(NoteOp::Delete { project, name }));
    "note.search": NoteSearch { project, words; page } =>
        (Op::Note(NoteOp::Search { project, words, page }));
    "schedule.delete": ScheduleDelete { schedule } =>
        (Op::Schedule(ScheduleOp::Delete { schedule }));
    "schedule.list": ScheduleList {; page } => (Op::Schedule(ScheduleOp::List { page }));
    "conversation.say": ConversationSay {
        conversation, text, lane, project, graph, channel, mode, keeps_mode
    }
        first(|said: &mut pb::ConversationSay| if said.lane.is_empty() {
            said.lane = TurnLane::default().put();
        }) => (Op::Conversation(ConversationOp::Say(TurnSay {
            conversation, text, lane, project, graph, channel, mode, keeps_mode,
        })));
    "conversation.cancel": ConversationCancel { conversation, number } =>
        (Op::Conversation(ConversationOp::Cancel { conversation, number }));
    "graph.apply": GraphApply { project, graph } =>
        (Op::Conversation(ConversationOp::Graph(GraphApply { project, graph })));
    "apply.request": ApplyRequest { change } => (Op::Gate(GateOp::Apply { change }));
    encode {
        Op::HostJoin(join) => finish(&pb::HostJoin { request_id: id.to_string(), ..join.put() }),
        Op::ProjectCreate(create) => {
            finish(&pb::ProjectCreate { request_id: id.to_string(), ..create.put() })
        }
        Op::AgentRegister => body!(id, AgentRegister {}),
        Op::OverseerTick(_) => body!(id, OverseerTick {}),
        Op::GoalCreate { .. } | Op::Plan(PlanOp::Plan(_)) => Err(CodecError::field(
            "plan",
            "a checked plan is no longer what its author wrote; encode what was written",
        )),
        Op::GoalUpdate(op) => goal::encode_update(op, id),
        Op::Plan(PlanOp::Add(wanted)) => planning::encode_add(wanted, id),
        Op::Plan(PlanOp::Split(wanted)) => planning::encode_split(wanted, id),
        Op::Plan(PlanOp::Merge(wanted)) => planning::encode_merge(wanted, id),
        Op::Work(WorkOp { epic, verb: WorkVerb::Complete(done) }) => {
            let (request_id, epic) = (id.to_string(), epic.put());
            finish(&pb::TodoComplete { request_id, epic, ..done.put() })
        }
        Op::Schedule(ScheduleOp::Create { rhythm, deed }) => schedule::encode(rhythm, deed, id),
        Op::Conversation(ConversationOp::Move(it)) => {
            finish(&pb::ConversationMove { request_id: id.to_string(), ..it.put() })
        }
        Op::Budget(op) => budget::encode(op, id),
        Op::File(FileOp::Reserve { paths, mode, ttl, reason }) => {
            let ttl = &ttl.map(|ttl| format!("{}ms", ttl.0));
            body!(id, FileReserve { paths, mode, ttl, reason })
        }
        Op::Gate(GateOp::Decide { change, verdict, reason }) => {
            let (verdict, digest) = &change::written(verdict);
            body!(id, ApprovalDecide { change, verdict, digest, reason })
        }
    }
    decode {
        "host.join" => Op::HostJoin(HostJoin::get(json::request::<pb::HostJoin>(body)?)?),
        "project.create" => {
            Op::ProjectCreate(ProjectCreate::get(json::request::<pb::ProjectCreate>(body)?)?)
        }
        "agent.register" => {
            let pb::AgentRegister { .. } = json::request(body)?;
            Op::AgentRegister
        }
        "overseer.tick" => {
            let pb::OverseerTick { .. } = json::request(body)?;
            // What is heard of agents is the owner's to add.
            Op::OverseerTick(Telemetry::default())
        }
        "goal.create" => goal_create(body)?,
        "goal.update" => goal::decode_update(body)?,
        "todo.plan" => Op::Plan(PlanOp::Plan(planning::plan(body)?)),
        "todo.add" => Op::Plan(PlanOp::Add(planning::add(body)?)),
        "todo.split" => Op::Plan(PlanOp::Split(planning::split(body)?)),
        "todo.merge" => Op::Plan(PlanOp::Merge(planning::merge(body)?)),
        "todo.complete" => {
            let it: pb::TodoComplete = json::request(body)?;
            let (epic, done) = (field("epic", it.epic.clone())?, Box::new(Completion::get(it)?));
            Op::Work(WorkOp { epic, verb: WorkVerb::Complete(done) })
        }
        "schedule.create" => Op::Schedule(schedule::create(body)?),
        "conversation.move" => {
            let it: pb::ConversationMove = json::request(body)?;
            Op::Conversation(ConversationOp::Move(Wire::get(it)?))
        }
        "budget.raise" => Op::Budget(budget::raise(body)?),
        "file.reserve" => Op::File(reservation::reserve(body)?),
        "approval.decide" => Op::Gate(change::decide(body)?),
    }
}

/// Who asks and by which id stands in every request, and is read before its body.
pub(super) fn nobody<C>(_: &C) -> String {
    String::new()
}

message!(HostJoin, HostJoin {
    instance, lease_epoch, labels, capacity, address, request_id <- nobody, sender <- nobody,
}, first: |join: &mut pb::HostJoin| {
    if join.lease_epoch <= LEASE_EPOCH_MAX {
        return Ok(());
    }
    let reason = format!("{} is more than {LEASE_EPOCH_MAX}", join.lease_epoch);
    Err(CodecError::field("leaseEpoch", reason))
});

message!(ProjectCreate, ProjectCreate {
    project, mode, external, tools, budget, local_max_depth, placement as absent,
    request_id <- nobody, sender <- nobody,
}, first: |create: &mut pb::ProjectCreate| {
    if create.mode.is_empty() {
        create.mode = Mode::default().put();
    }
    let (_, wall): (Limits, Option<Millis>) =
        field("budget", create.budget.clone())?;
    if wall.is_some() {
        return Err(CodecError::field("budget.wall", "a project has no wall clock; remove it"));
    }
    Ok(())
});

/// The body of `goal.create`, with the plan's JSON as its author wrote it.
///
/// # Errors
/// More bytes than allowed.
pub fn encode_goal_create(
    id: RequestId,
    project: &ProjectName,
    plan: &Value,
) -> Result<Vec<u8>, CodecError> {
    let body = json!({
        "requestId": id.to_string(),
        "project": project.to_string(),
        "plan": plan,
    });
    bounded(pb::GoalCreate::NAME, &body)
}

/// The body of a request, within its bound.
pub(super) fn finish<P: Serialize + Name>(message: &P) -> Result<Vec<u8>, CodecError> {
    bounded(P::NAME, message)
}

fn bounded<P: Serialize>(what: &'static str, message: &P) -> Result<Vec<u8>, CodecError> {
    let bytes = json::write(what, message)?;
    within(what, bytes.len(), REQUEST_BYTES_MAX)?;
    Ok(bytes)
}

fn goal_create(body: Value) -> Result<Op, CodecError> {
    let create: pb::GoalCreate = json::request(body)?;
    let plan = planning::document("plan", &create.plan)?;
    let wrong = |problems| CodecError::field("plan", planning::said(problems));
    let plan: PlanFile = schema::parse_either(&plan).map_err(wrong)?;
    Ok(Op::GoalCreate { project: field("project", create.project)?, plan: Box::new(plan) })
}

message! { OpReply, OpReply {
    op, error, detail, epic, version, agent, session, agent_epoch, liveness, data,
} }

message!(Completion, TodoComplete {
    node, crystallization, evidence as absent, reason,
    epic <- nobody, request_id <- nobody, sender <- nobody,
});
